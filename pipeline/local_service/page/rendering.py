"""From values to HTML, with foreign text escaped: no key, no control characters, a limited length.

The template engine escapes for HTML. `PlainText` does what HTML leaves alone: control characters, marks that change the
direction of a line, and keys of the service inside an event, as the `token` of an SDK.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Raw

from pipeline.charts import style

if TYPE_CHECKING:
    from jinja2 import Environment

_PLAIN = re.compile(r"[\x20-\x7e]*", re.ASCII)
_ESCAPED_CATEGORIES = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))
"""Unicode categories that are escaped: controls, formats, surrogates, private use, line ends."""
_KEY_LIKE = re.compile(r"(?<![A-Za-z0-9])ph[a-z]_[A-Za-z0-9_-]{20,}")
_MASK = "***"
_LONGEST_NAME = 200

_open = msgspec.json.Decoder(dict[str, Raw]).decode
_text = msgspec.json.Decoder(str).decode


class ShownText(NamedTuple):
    """The start of a string, and how many characters were omitted."""

    text: str
    more: int = 0


class Property(NamedTuple):
    """One property: its name, and its value, as plain text if it is a string, otherwise as JSON."""

    name: ShownText
    value: ShownText


class ShownProperties(NamedTuple):
    """The first properties of an object in their order, and how many were omitted."""

    shown: list[Property]
    more: int = 0


class PlainText:
    """Makes texts safe to be shown. `keys` are never shown."""

    def __init__(self, keys: Iterable[str]) -> None:
        longest_first = sorted(filter(None, keys), key=len, reverse=True)
        self._keys = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")

    def shown(self, text: str, limit: int) -> ShownText:
        """At most `limit` characters of `text`, with `***` for every key and control characters as `\\x1b`."""
        masked = _KEY_LIKE.sub(_MASK, self._keys.sub(_MASK, text))
        cut = masked[:limit]
        if not _PLAIN.fullmatch(cut):
            cut = "".join(
                char.encode("unicode_escape").decode() if unicodedata.category(char) in _ESCAPED_CATEGORIES else char
                for char in cut
            )
        return ShownText(cut, max(0, len(masked) - limit))

    def line(self, text: object, limit: int = 120) -> str:
        """The same as one text, that ends in `…` where something was omitted."""
        cut, more = self.shown(str(text), limit)
        return cut + "…" if more else cut

    def properties(self, text: str, most: int = 40, limit: int = 200) -> ShownProperties:
        """The first `most` members of a JSON object, with `limit` characters of each value.

        Each value is exact: the digits of a number, the order of an object.
        """
        try:
            members = _open(text)
        except msgspec.DecodeError:
            return ShownProperties([Property(ShownText("(not an object that can be read)"), self.shown(text, limit))])
        first = [
            Property(self.shown(name, _LONGEST_NAME), self.shown(_value(raw), limit))
            for name, raw in list(members.items())[:most]
        ]
        return ShownProperties(first, max(0, len(members) - most))


def _value(raw: Raw) -> str:
    """JSON text; its content if it is a string that can be read."""
    data = bytes(raw)
    if data[:1] == b'"':
        try:
            return _text(data)
        except msgspec.DecodeError:
            pass
    return data.decode("utf-8", "replace")


class Links:
    """Addresses within the page of one project, which is named if it is not the first."""

    def __init__(self, project: int | None) -> None:
        self._project = project

    def __call__(self, *path: str, **params: object) -> str:
        """The address of a path whose later parts are values, with a query of what is not empty."""
        first, *values = path
        address = "/".join((first, *(quote(part, safe="") for part in values)))
        query = {"project": self._project, **params}
        present = {name: str(value) for name, value in query.items() if value not in (None, "", False)}
        return address + ("?" + urlencode(present) if present else "")


def render_document(document: Mapping[str, Any]) -> str:
    """The page of an OpenAPI document: plain HTML, no script, nothing from the internet."""
    areas: dict[str, list[tuple[str, str, Any]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            areas.setdefault(operation["tags"][0], []).append((path, method, operation))
    return templates(PlainText(()), strict=False).get_template("openapi.html.j2").render(document, areas=areas)


def templates(plain: PlainText, *, strict: bool = True) -> Environment:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Undefined

    loader = ChoiceLoader([PackageLoader("pipeline.local_service.page"), PackageLoader("pipeline.charts")])
    undefined = StrictUndefined if strict else Undefined
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=undefined)
    environment.filters |= {
        "n": lambda number: f"{number:,}",
        "counted": lambda number, noun: f"{number:,} {noun}" + ("" if number == 1 else "s"),
        "instant": _instant,
        "line": plain.line,
        "properties": plain.properties,
        "indented_json": lambda value: json.dumps(value, indent=2),
    }
    return environment


def asset(name: str) -> bytes:
    """A file next to the templates; the style sheet includes that of the charts."""
    content = files(__package__).joinpath(name).read_bytes()
    if name == "style.css":
        content += style().encode()
    return content


def _instant(time: str) -> str:
    """ISO 8601 as it is easy to read: `2023-01-02 03:04:05`, with the fraction if there is one."""
    return time.replace("T", " ").removesuffix("Z").removesuffix(".000000")
