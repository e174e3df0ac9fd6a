"""Requests made from the OpenAPI document for every operation, those with the same body too (one minute)."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.local_service.settings import Behaviour
from tests.local_service.test_schemathesis import LEAST_OF_ALL, NOT_SAID, SETTINGS, cases


@pytest.mark.parametrize("behaviour", NOT_SAID)
def test_every_operation_keeps_to_the_document(tmp_path: Path, behaviour: Behaviour) -> None:
    """As `make test` does for the contract, and without the details of bodies that are a whole hog function."""
    asked = SETTINGS.replace("{more}", NOT_SAID[behaviour]).replace("{apart}", "")
    assert cases(tmp_path, behaviour, asked) > LEAST_OF_ALL
