"""Compares what landed with what the ledger says was settled: counts, events, values and people; resends what is
missing.

reconcile.verify      the whole: joins what was sent (`expected`) with what landed (`landed`)
settle                the time that the service needs to show what it accepted
session               what is kept during a verification, so that an interrupted one continues
comparison            the queries: counts of what agrees, tables of what does not
fields, values        the properties of events, and how the service is known to change them
people, warnings      merges, profiles and groups as they are at the target; its ingestion warnings
rows                  each difference with its row
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.lazily import lazily
from pipeline.verify.findings import Difference, Verification

if TYPE_CHECKING:
    from pipeline.verify.reconcile import Depth, verify

__all__ = ["Depth", "Difference", "Verification", "verify"]
__getattr__ = lazily(__name__, {"reconcile": "Depth verify"})
