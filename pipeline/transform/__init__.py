"""From the rows of one block to encoded events: extractor → mapper → validator → encoder, in worker processes.

`rows.make_events` depends on the rows, the mapper and the rules alone: no clock, randomness, network, locale or host
time zone. Plan and apply both walk it; a block's digest, taken before the plan's tables are applied, proves that both
made the same events.
"""
