"""A sample of a plan, its first requests, which can be sent and read back before the rest (`apply --canary`).

    strata     what the sample has to show
    lines      merges, groups and profile updates: whose they are, and those of the sample put first
    people     queries over the facts of the blocks: people who show a stratum, and all events of theirs
    choose     the people who are chosen

The sample consists of whole people. The service heeds the order of arrival in what it makes of a person (what is set
once, and what its events promote: docs/know/service.md#persons), so the first half of a person, sent by itself, could
come to something else than all of it.

It follows from the events and the number N alone, whatever the workers and the engine.
"""
