"""What loaders add to the tables that they copy into a warehouse (docs/know/exports.md#warehouse-copies)."""

from __future__ import annotations

BOOKKEEPING = ("_fivetran_", "_airbyte_", "_dlt_", "_sdc_")
"""How the names of loaders' own columns begin: Fivetran's, Airbyte's, dlt's and Stitch's."""


def is_bookkeeping(name: str) -> bool:
    """Whether a column is a loader's own, and no part of what it copied."""
    return name.startswith(BOOKKEEPING)
