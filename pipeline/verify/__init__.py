"""Compare what landed with what the ledger says was settled: by cell, then event by event."""

from __future__ import annotations

from pipeline.verify.reconcile import Difference, Verification, verify

__all__ = ["Difference", "Verification", "verify"]
