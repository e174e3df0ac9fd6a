"""Cases of the models *people* and *target* that the product does not meet yet, ready to move into their tests.

pytest does not collect them by itself; name this file to run them.
"""

from __future__ import annotations

import pytest

from tests.models.test_people import (
    Place,
    call,
    compare,
    iso,
)

CASES: dict[str, tuple[str, list[Place]]] = {
    "3 superseded, of the same user": ("segment", [
        call(1, None, "d"), call(2, "u1", "e"), call(2, "u1", "d", receivedAt=iso(0)),
    ]),
    "3 superseded by a later": ("segment", [
        call(1, None, "d"), call(2, "u1", "d"), call(2, "u2", "d", receivedAt=iso(9)),
    ]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_people(name: str) -> None:
    compare(*CASES[name])
