"""The part of the hot loop that is written in C, for installations with a compiler.

It returns to Python every row that is not plain (`Lines` defines which). Without it, or where BACKCAST_NATIVE is 0,
Python code produces the same events for two to three times the CPU; tests/native/test_native.py compares the two.

    Lines(data, opens, observe)     iterates over JSON lines: Members of a plain one, the bytes of any other
    Members                         like the dict[str, Raw] of a row; also `text` and `number` of a member
    Renames, Spread                 changes of properties by their names alone
    Writer                          an event's text, from Members
    Observer                        what a plan records of an event
    Tally                           how many rows have each name, also inside of objects
    Opener                          Members of an object that a row has as a value or a text
    Header                          Members of values that Python read: cells, columns, records
    Cells, Delimited                the rows of delimited text
    Blanks                          removes what a mapping takes for missing
    Reader                          ordinary ISO 8601 times, ids and uuids

`_native.pyi` has the arguments, results and errors of each; `native.h` the rules of references and all limits.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from typing import TYPE_CHECKING

WHY_NOT = ""
"""Why this process does without the C part; "" where it has it."""

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
