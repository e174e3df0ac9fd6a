"""Persons and groups, derived from the accepted events in the order of their acceptance.

`updates` reads what an event changes of persons and groups, `persons` applies it, and `processing` runs
both over the events of the store.
"""
