"""What the one walk over a source counts, and what the counts show."""
