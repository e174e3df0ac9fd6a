"""The part of the hot loop that is written in C, used if a compiler was available at installation.

It returns every row that is not plain to Python (`Lines` defines which). Without it, or if BACKCAST_NATIVE is 0, Python
code makes the same events in two to three times the CPU time; tests/native/test_native.py compares the two.

    Lines(data, opens, observe)     iterates over JSON lines: Members of a plain line, the bytes of any other
    Members                         like the dict[str, Raw] of a row; also `text` and `number` of a member
    Renames, Spread                 changes properties by their names alone
    Writer                          writes an event from Members
    Observer                        records what a plan needs about an event
    Tally                           counts how many rows have each name, also inside objects
    Opener                          Members of an object that a row has as a value or a string
    Header                          Members of values that Python has read: cells, columns, records
    Cells, Delimited                the rows of delimited text
    Blanks                          removes what a mapping treats as missing
    Reader                          ordinary ISO 8601 times, ids and uuids

`_native.pyi` has each one's arguments, results and errors; `native.h` has the rules for references and all limits.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from typing import TYPE_CHECKING

WHY_NOT = ""
"""Why this process does not use the C part; "" if it does."""

_NOT_COMPILED = f"it was not compiled, which {sys.executable} -m pipeline.native.build does, if there is a C compiler"

if TYPE_CHECKING:
    from pipeline.native import _native as native
elif os.environ.get("BACKCAST_NATIVE") == "0":
    native = None
    WHY_NOT = "BACKCAST_NATIVE is 0"
else:
    try:
        from pipeline.native import _native as native
    except ImportError as error:
        native = None
        compiled = any(os.path.exists(f"{folder}/_native{end}") for folder in __path__ for end in EXTENSION_SUFFIXES)
        WHY_NOT = f"it does not load: {error}" if compiled else _NOT_COMPILED

AVAILABLE: bool = native is not None
"""Whether this process has the C part and may use it."""
