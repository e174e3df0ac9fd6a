"""The body of a management request: one JSON object that can be kept and given back as it is."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from .call import Json
from .errors import ApiError, invalid, malformed

DEEPEST = 100
"""How many objects and lists may be open at once."""
_TEXT = "Null characters and lone surrogates are not allowed."


def read_body(body: bytes, content_type: str) -> Json:
    """The object of a body; an empty body is an empty object. Raises ApiError (415, 400)."""
    if not body:
        return {}
    if content_type.partition(";")[0].strip().lower() != "application/json":
        detail = "Unsupported media type in request: the body has to be application/json."
        raise ApiError(415, "invalid_request", "unsupported_media_type", detail)
    try:
        given = json.loads(body.decode("utf-8"), parse_constant=_refused)
    except UnicodeDecodeError:
        raise malformed("the body is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise malformed(f"{error.msg}, line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise malformed("nested too deeply") from None
    except ValueError:
        raise malformed("a number that cannot be kept") from None
    if not isinstance(given, dict):
        raise invalid(None, f"Invalid data. Expected a dictionary, but got {_kind(given)}.")
    for problem, field in _problems(given):
        raise invalid(field, problem)
    return given


def _refused(name: str) -> Any:
    raise ValueError


def _kind(value: object) -> str:
    return {list: "list", str: "str", bool: "bool", int: "int", float: "float"}.get(type(value), "null")


def _problems(given: Json) -> Iterator[tuple[str, str | None]]:
    """What cannot be kept, with the name of its field at the top, where the name itself can be shown."""
    for name, value in given.items():
        if not _storable(name):
            yield "A name holds characters that cannot be stored.", None
            continue
        problem = _problem_of(value)
        if problem:
            yield problem, name


def _problem_of(value: Any) -> str:
    """What of a JSON value cannot be kept; empty for nothing. Takes no memory beside the value."""
    open_: list[Iterator[Any]] = [iter((value,))]
    while open_:
        for inner in open_[-1]:
            if len(open_) > DEEPEST:
                return "Nested too deeply."
            if isinstance(inner, dict):
                if not all(map(_storable, inner)):
                    return _TEXT
                open_.append(iter(inner.values()))
                break
            if isinstance(inner, list):
                open_.append(iter(inner))
                break
            if isinstance(inner, str) and not _storable(inner):
                return _TEXT
            if isinstance(inner, float) and not math.isfinite(inner):
                return "A number is out of range."
        else:
            open_.pop()
    return ""


def _storable(text: str) -> bool:
    return "\0" not in text and (text.isascii() or not any("\ud800" <= one <= "\udfff" for one in text))
