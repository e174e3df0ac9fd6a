"""From the rows of a block to encoded events, and on to request bodies, block by block.

    extractors.rows(part, block)           the records of the block, or why a row cannot be read
    mapper.map_row(record)                 an UnvalidatedEvent, an update, a merge, a skip or a reject reason
    validator.rules.check(draft, context)  the first rule that it breaks
    encoder.event.Encoder                  its bytes, in an EventBuffer
    batcher.pack_runs(…)                   request bodies

`rows` does all of it for the rows of a block, `tasks` has what goes to a worker process and what comes back
(`pipeline.engines`). Events depend on the rows, the mapper and the rules alone: no clock, randomness, network, locale
or host time zone. A block's digest, taken before the plan's tables are applied, proves that the events that a worker
left are still the same.
"""
