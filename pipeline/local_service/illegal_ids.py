"""Ids that no merge may touch (service-behaviour 1.7).

An event under such an id is taken and makes a person like any other; only a merge that names it is refused, or all
visitors whose id was not set would become one person.
"""

from __future__ import annotations

LONGEST_MERGED = 400
"""Characters of an id that a merge may name: no longer one can be kept."""

_ANY_CASE = [
    "anonymous", "guest", "distinctid", "distinct_id", "id", "not_authenticated", "email",
    "undefined", "true", "false",
]  # fmt: skip
_AS_WRITTEN = ["[object Object]", "NaN", "None", "none", "null", "0", "undefined"]


def _with_quotes(words: list[str]) -> frozenset[str]:
    return frozenset(template.format(word) for word in words for template in ("{}", "'{}'", '"{}"'))


_LOWERED = _with_quotes(_ANY_CASE)
_WRITTEN = _with_quotes(_AS_WRITTEN)


def is_illegal(distinct_id: str) -> bool:
    """Whether merges of this id are refused."""
    return (
        not distinct_id.strip()
        or distinct_id in _WRITTEN
        or distinct_id.lower() in _LOWERED
        or "\0" in distinct_id
        or len(distinct_id) > LONGEST_MERGED
    )
