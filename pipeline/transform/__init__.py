"""From the rows of a block to encoded events, and on to request bodies, block by block.

    extractors.rows(part, block)           the records of the block, or why a row cannot be read
    mapper.map_row(record)                 an UnvalidatedEvent, an update, a merge, a skip or a reject reason
    validator.rules.check(draft, context)  the first rule that it breaks
    encoder.event.Encoder                  its bytes, in an EventBuffer
    batcher.pack_runs(…)                   request bodies

`rows` is the loop over these, `block.make_events` does all of it for one block, `tasks` has what goes to a worker
process and what comes back (`pipeline.engines`). Events depend on the rows, the mapper and the rules alone: no clock,
randomness, network, locale or host time zone. A block's digest, taken before the plan's tables are applied, proves that
plan and apply made the same events.
"""
