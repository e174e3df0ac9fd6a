"""Each allocation of the C part may fail: that is a MemoryError, never an error without a reason.

The allocations of all threads of a process fail together, so this runs in a process that has no other thread.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pipeline.native import AVAILABLE

pytest.importorskip("_testcapi")
pytestmark = pytest.mark.skipif(not AVAILABLE, reason="the C part was not built")

PROGRAM = """
import _testcapi, json
from pipeline.models import UnvalidatedEvent
from pipeline.native import native

changes = tuple((f"old_{number}", f"new_{number}") for number in range(300))
(members,) = native.Lines(b'{"a":1}', (), False)
event = UnvalidatedEvent("a", "b", 1, properties=members, uuid="c")
writer = native.Writer(frozenset(), b"}", b"}")
as_written = lambda *rules: True  # CPython 3.12 and 3.13 crash if a lambda cannot be allocated, so none is made below
kinds = {
    "Renames": lambda: native.Renames(changes, print, frozenset(("a", "b")), print),
    "Spread": lambda: native.Spread(str, None, print, print),
    "Appender": lambda: native.Appender(
        print, UnvalidatedEvent, writer, {"a": b"{"}, as_written, 0, 999, (b"?",) * 3, [], [], [], [], {}, None
    )(bytearray(), 0, event),
}
failed = dict.fromkeys(kinds, 0)
for kind, make in kinds.items():
    make()  # its names are known from here on
    for number in range(120):
        _testcapi.set_nomemory(number, number + 1)
        try:
            make()
        except MemoryError:
            failed[kind] += 1
        finally:
            _testcapi.remove_mem_hooks()
print(json.dumps(failed))
"""


def test_what_cannot_be_allocated_is_a_memory_error() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    failed = json.loads(done.stdout)
    assert set(failed) == {"Renames", "Spread", "Appender"}
    assert all(failed.values())
