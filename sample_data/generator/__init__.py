"""What the sample exports hold, one file per tool; `sample_data.generate` writes them.

Every tool's rows come from its own seeded generator, so one can grow without moving the others.
"""
