"""Names of files in JSON: a name is bytes, and not all of them are UTF-8.

What is UTF-8 stands as it is; each other byte becomes U+0000 and two hexadecimal digits. No name of a file holds a
U+0000, so the name can be had back whole. (Names that people read have `\\xff`
instead: `pipeline.extractors.discovery`.)
"""

from __future__ import annotations

import re

_MARK = "\0"
_LONE = re.compile("[\udc80-\udcff]")
"""How Python gives a byte that is no UTF-8: U+DC00 and the byte (PEP 383)."""
_ESCAPE = re.compile(f"{_MARK}([89a-f][0-9a-f])")


def as_text(name: str) -> str:
    """A file's name, as Python gives it, as text that JSON can hold. Such text stays as it is."""
    return _LONE.sub(lambda found: f"{_MARK}{ord(found[0]) - 0xDC00:02x}", name)


def as_name(text: str) -> str:
    """The name again."""
    return _ESCAPE.sub(lambda found: chr(0xDC00 + int(found[1], 16)), text)
