"""Names of events that do more than land (service-behaviour 1.10)."""

from __future__ import annotations

IDENTIFY = "$identify"
ALIAS = "$create_alias"
MERGE = "$merge_dangerously"
SET = "$set"

MERGES = frozenset({IDENTIFY, ALIAS, MERGE})
PERSON_EVENTS = MERGES | {SET}
"""Events that always write the person."""

GROUP_EVENTS = frozenset({"$groupidentify", "$group_identify"})
"""The service's own spelling, and the one of its contract."""

NEVER_PERSONS = frozenset({"$exception", "$$heatmap"})
"""Events that never change the properties of a person."""
