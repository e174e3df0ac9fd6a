"""A sample of a plan: its first requests, which can be sent and read back before the rest (`apply --canary`).

    strata     what the sample has to show
    lines      merges, groups and profile updates: whose they are, and putting those of the sample first
    people     queries over the facts of the blocks: people who show a stratum, and all of their events
    choose     which people are chosen

The sample consists of whole people. What the service makes of a person depends on the order of arrival (what is set
once, and what events promote: docs/know/service.md#persons), so sending only the first half of a person could end
differently from sending all of it.

The sample depends only on the events and the number N, not on the workers and the engine.
"""
