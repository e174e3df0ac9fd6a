"""Each allocation of the C part may fail: that is a MemoryError, never an error without a reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipeline.native import AVAILABLE, native

testcapi = pytest.importorskip("_testcapi")
pytestmark = pytest.mark.skipif(not AVAILABLE, reason="the C part was not built")

CHANGES = tuple((f"old_{number}", f"new_{number}", True) for number in range(300))


def _renames() -> object:
    return native.Renames(CHANGES, print, frozenset(("a", "b")), print)


KINDS: dict[str, Callable[[], object]] = {
    "Renames": _renames,
    "Columns": lambda: native.Columns(frozenset(("a", "b")), "prefix_"),
    "Tally": lambda: native.Tally(print, (), print),
}
EVERY = 120
"""Allocations that fail, one after the other."""


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_allocated_is_a_memory_error(kind: str) -> None:
    make = KINDS[kind]
    make()  # its names are known from here on
    failed = 0
    for number in range(EVERY):
        testcapi.set_nomemory(number, number + 1)
        try:
            make()
        except MemoryError:
            failed += 1
        finally:
            testcapi.remove_mem_hooks()
    assert failed
