"""The requests of a plan: made once, numbered, sealed, and sent as they are.

    fragment   the events of a request, deflated, and the body of the request around them
    pack       what a worker does: the events of some blocks, in lanes, as a file of requests and a file of facts
    store      the files of a plan: reading requests by number, and their events

A request is the unit of packing, sealing, sending, resuming and counting; its number, within its phase, is the ledger's
key. Nothing after the plan makes an event.
"""
