"""Objects of JSON lines that have no line end between them: `{…}{…}`, as Firehose and other streams deliver them."""

from __future__ import annotations

import json
import re

_JOINT = re.compile(rb"\}[ \t]*\{")
_blank = re.compile(r"[ \t\r]*")
_decode = json.JSONDecoder().raw_decode


def apart(data: bytes) -> tuple[bytes, list[int]]:
    """The lines, with a line end before each object that had none, and the positions of these ends, ascending.

    A line that has anything but objects stays as it is.
    """
    joint = _JOINT.search(data)
    if joint is None:
        return data, []
    pieces: list[bytes] = []
    added: list[int] = []
    done = 0
    while joint is not None:
        start = data.rfind(b"\n", 0, joint.start()) + 1
        end = data.find(b"\n", joint.end())
        end = len(data) if end < 0 else end
        for at in objects_in(data[start:end])[1:]:
            pieces += (data[done : start + at], b"\n")
            done = start + at
            added.append(done + len(added))
        joint = _JOINT.search(data, end)
    return b"".join((*pieces, data[done:])), added


def objects_in(line: bytes) -> list[int]:
    """Where each object of a line begins, nothing if it has anything but objects."""
    text = line.decode("latin-1")  # one character for each byte
    starts: list[int] = []
    at = _blank.match(text).end()  # type: ignore[union-attr]
    while at < len(text):
        if text[at] != "{":
            return []
        starts.append(at)
        try:
            _, at = _decode(text, at)
        except (ValueError, RecursionError):
            return []
        at = _blank.match(text, at).end()  # type: ignore[union-attr]
    return starts


def is_joined(sample: bytes) -> bool:
    """Whether the text is one line of several objects; the sample may end within one."""
    if b"\n" in sample.strip() or _JOINT.search(sample) is None:
        return False
    text = sample.decode("latin-1").lstrip()
    try:
        _, end = _decode(text)
    except (ValueError, RecursionError):
        return False
    return text[end:].lstrip()[:1] == "{"
