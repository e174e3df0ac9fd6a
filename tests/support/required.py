"""What a test needs beyond Python and its packages: where it is missing the test is skipped, but in CI it fails."""

from __future__ import annotations

import os

import pytest


def require(there: object, reason: str) -> None:
    """Go on if `there`; else skip with the reason, or fail with it where BACKCAST_CI says that nothing is skipped."""
    if there:
        return
    if os.environ.get("BACKCAST_CI"):
        pytest.fail(f"BACKCAST_CI is set, and {reason}", pytrace=False)
    pytest.skip(reason)
