"""Requests made from the OpenAPI document for every operation, those with the same body too (one minute)."""

from __future__ import annotations

from pathlib import Path

from tests.local_service.test_schemathesis import LEAST_OF_ALL, SETTINGS, cases


def test_every_operation_keeps_to_the_document(tmp_path: Path) -> None:
    """As `make test` does, and with the details of bodies that are a whole hog function."""
    assert cases(tmp_path, SETTINGS.replace("{apart}", "")) > LEAST_OF_ALL
