"""What a test needs in addition to Python and its packages: if it is missing the test is skipped, but in CI it
fails."""

from __future__ import annotations

import os

import pytest


def require(there: object, reason: str) -> None:
    """Continue if `there`; otherwise skip with the reason, or fail with it if BACKCAST_CI says that nothing is
    skipped."""
    if there:
        return
    if os.environ.get("BACKCAST_CI"):
        pytest.fail(f"BACKCAST_CI is set, and {reason}", pytrace=False)
    pytest.skip(reason)
