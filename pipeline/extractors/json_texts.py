"""The structure of JSON text that may be damaged or cut: where its values end, and the objects that share a line.

A text has one character per byte. Python's own decoder finds the end of a sound value quickly; brackets and strings
show the end of any other.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress

import msgspec

decode = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode  # numbers of any length
white = re.compile(r"[ \t\r\n]*").match
_TOKEN = re.compile(r'\\[\\"]|"(?:[^"\\]|\\.)*+("?)|[{}\[\],:]', re.DOTALL)
_SPACE = re.compile(r'\\[\\"]|"(?:[^"\\]|\\.)*+"?|([ \t\r\n]+)', re.DOTALL)
_ENDS_A_TOKEN = '{}[],:"'
_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*+"|[^ \t\r\n"{}\[\],:]*', re.DOTALL)
_JOINT = re.compile(rb"\}[ \t]*\{")
_blank = re.compile(r"[ \t\r]*").match


def after_white(text: str, at: int = 0) -> int:
    """The position of the next character that is not white space, or the end of the text."""
    found = white(text, at)
    return found.end() if found else at


def _place_of(text: str, stop: str, at: int) -> int | None:
    """The position of the next `stop` outside strings and brackets, or of the bracket that closes before it."""
    level = 0
    for token in _TOKEN.finditer(text, at):
        char = token[0][0]
        if char == '"' and not token[1]:
            return None
        if level == 0 and (char == stop or char in "}]"):
            return token.start()
        level += (char in "{[") - (char in "}]")
    return None


def end_of_name(text: str, at: int) -> int | None:
    """The position of the colon after a member's name, or of the bracket that closes its object. None as below."""
    return _place_of(text, ":", at)


def end_of_item(text: str, at: int) -> int | None:
    """The position of the comma or bracket after the item at `at`. None if the text ends before it."""
    with suppress(ValueError, RecursionError):
        end = after_white(text, decode(text, at)[1])
        if text[end : end + 1] in (",", "]", "}"):
            return end
    return _place_of(text, ",", at)


def end_of_value(text: str, at: int) -> int | None:
    """The position after the value at `at`. None if the text of an object or a list ends too soon."""
    with suppress(ValueError, RecursionError):
        return decode(text, at)[1]
    if text[at] not in "{[":
        found = _SCALAR.match(text, at)
        return found and found.end()
    end = _place_of(text, "", at + 1)
    return None if end is None else end + 1


def compact(text: str) -> bytes:
    """JSON text without white space between its tokens, as one line.

    One space is kept if two tokens would become one without it (`1 2`, which is not JSON). A line end inside a string,
    which JSON forbids, becomes another forbidden character.
    """
    with suppress(msgspec.MsgspecError, RecursionError):
        line = msgspec.json.format(text.encode("latin-1"), indent=-1)
        if b"\n" not in line:
            return line

    def one(found: re.Match[str]) -> str:
        if not found[1]:
            return found[0].replace("\n", "\x01")
        before, after = text[: found.start()][-1:] or ",", text[found.end() :][:1] or ","
        return "" if before in _ENDS_A_TOKEN or after in _ENDS_A_TOKEN else " "

    return _SPACE.sub(one, text).encode("latin-1")


# -- objects of JSON lines that have no line end between them: `{…}{…}`, as Firehose and other streams deliver them


def apart(data: bytes) -> tuple[bytes, list[int]]:
    """The lines, with a line end added before each object that had none, and the sorted positions of these.

    A line that has anything other than objects stays as it is.
    """
    joint = _JOINT.search(data)
    pieces: list[bytes] = []
    added: list[int] = []
    done = 0
    while joint is not None:
        start = data.rfind(b"\n", 0, joint.start()) + 1
        end = data.find(b"\n", joint.end())
        end = len(data) if end < 0 else end
        for at in _objects_in(data[start:end])[1:]:
            pieces += (data[done : start + at], b"\n")
            done = start + at
            added.append(done + len(added))
        joint = _JOINT.search(data, end)
    return (b"".join((*pieces, data[done:])) if added else data), added


def _objects_in(line: bytes) -> list[int]:
    """Where each object of a line begins; empty if the line has anything other than objects."""
    text = line.decode("latin-1")
    starts: list[int] = []
    at = _blank(text).end()  # type: ignore[union-attr]
    while at < len(text):
        if text[at] != "{":
            return []
        starts.append(at)
        try:
            _, at = decode(text, at)
        except (ValueError, RecursionError):
            return []
        at = _blank(text, at).end()  # type: ignore[union-attr]
    return starts


def is_joined(sample: bytes) -> bool:
    """Whether the text is one line of several objects; the sample may end inside one."""
    if b"\n" in sample.strip() or _JOINT.search(sample) is None:
        return False
    text = sample.decode("latin-1").lstrip()
    try:
        _, end = decode(text)
    except (ValueError, RecursionError):
        return False
    return text[end:].lstrip()[:1] == "{"
