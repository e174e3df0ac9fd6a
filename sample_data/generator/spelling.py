"""JSON text whose numbers are spelled exactly as asked, and ids that look like the tools' own."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

_MARK = "\ue000"
_MARKED = re.compile(rf'"{_MARK}([^"]*)"')


def spelled(number: str) -> str:
    """A placeholder that `row` writes as these digits (`1.10`, `-0.0`); a float would lose them."""
    return _MARK + number


def row(record: Any, *, ascii_only: bool = False) -> str:
    """One record as compact JSON text without a line end; `ascii_only` escapes all else, as some tools do."""
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    text = _MARKED.sub(r"\1", text)
    if not ascii_only:
        return text
    return "".join(c if ord(c) < 128 else json.dumps(c)[1:-1] for c in text)


def lines(records: list[str]) -> bytes:
    """JSON lines, each ended by a newline."""
    return "".join(text + "\n" for text in records).encode()


def hexes(rng: Random, length: int) -> str:
    """That many lower-case hex digits."""
    return f"{rng.getrandbits(length * 4):0{length}x}"


def letters(rng: Random, length: int) -> str:
    """That many small letters, as some insert ids are."""
    return "".join(chr(97 + rng.randrange(26)) for _ in range(length))


def uuid4(rng: Random) -> str:
    """A version 4 UUID as lower-case text."""
    h = hexes(rng, 32)
    return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-{'89ab'[int(h[16], 16) & 3]}{h[17:20]}-{h[20:]}"


def uuid7(rng: Random, milliseconds: int) -> str:
    """A version 7 UUID of that instant, as lower-case text."""
    t, h = f"{milliseconds:012x}", hexes(rng, 20)
    return f"{t[:8]}-{t[8:]}-7{h[1:4]}-{'89ab'[int(h[4], 16) & 3]}{h[5:8]}-{h[8:]}"
