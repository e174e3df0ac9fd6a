"""One verb in a mapping file, and its place."""

from __future__ import annotations

from collections.abc import Mapping as Map
from typing import Any, NamedTuple

import msgspec


class Place(NamedTuple):
    """A place in a mapping file; line and column count from 1."""

    file: str
    line: int
    column: int


class Call(msgspec.Struct, frozen=True):
    """One verb and its arguments: nested calls, texts, lists and tables as its declaration says."""

    verb: str
    arguments: Map[str, Any]
    place: Place
