"""The columns that a loader adds to each table that it copies into a warehouse.

They are left out of the properties of events, people and groups, unless a mapping names them or the operator keeps
them (docs/know/exports.md#warehouse-copies).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

SETTING, KEEP = "loader_columns", "keep"
RAW = "_airbyte_data"
"""The column of Airbyte's raw tables that has the whole record, so it is not left out."""
BEGINNINGS = ("_fivetran_", "_airbyte_", "_ab_source_file_", "_ab_cdc_", "_dlt_", "_sdc_")
"""The beginnings of such column names: Fivetran's, Airbyte's, dlt's, and Stitch's or Singer's."""
OF_FILES = frozenset(("_file", "_line", "_modified"))
"""Fivetran's columns for the file that a row was read from."""
_MOST = 10_000
_others: set[str] = set()
"""Beginnings of names that are not such columns, so that most rows need one test for all their names."""


def leaves_out(settings: Mapping[str, str]) -> bool:
    """Whether such columns are left out; `--set loader_columns=keep` makes them properties."""
    return settings.get(SETTING) != KEEP


@lru_cache(_MOST)
def is_loader_column(name: str) -> bool:
    """Whether a column, in any case, is a loader's own and not part of what it copied."""
    if name[:1] != "_":
        return False
    name = name.lower()
    return name in OF_FILES or (name.startswith(BEGINNINGS) and name != RAW)


def without_loader_columns(properties: dict[str, Any], named: Collection[str] = ()) -> dict[str, Any]:
    """Leave out the loader columns that are not `named`; returns the same dict."""
    if not properties.keys() <= _others:
        for name in [*properties]:
            if not is_loader_column(name):
                if len(_others) < _MOST:
                    _others.add(name)
            elif name not in named:
                del properties[name]
    return properties
