"""From values to HTML, with foreign text made safe: no key, no control characters, a limited length.

The template engine escapes for HTML. `PlainText` does what HTML leaves alone: control characters, marks that change the
direction of a line, and keys of the service inside an event, as the `token` of an SDK.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Raw

if TYPE_CHECKING:
    from jinja2 import Environment

_PLAIN = re.compile(r"[\x20-\x7e]*", re.ASCII)
_DRIVING = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))
"""Unicode categories that are escaped: controls, formats, surrogates, private use, line ends."""
_KEY_LIKE = re.compile(r"(?<![A-Za-z0-9])ph[a-z]_[A-Za-z0-9_-]{20,}")
_MASK = "***"

_open = msgspec.json.Decoder(dict[str, Raw]).decode
_text = msgspec.json.Decoder(str).decode


class ShownText(NamedTuple):
    """The start of a text, and how many characters were left out."""

    text: str
    more: int = 0


class Property(NamedTuple):
    """One property: its name, and its value as text where it is a text, else as JSON."""

    name: ShownText
    value: ShownText


class ShownProperties(NamedTuple):
    """The first properties of an object in their order, and how many were left out."""

    shown: list[Property]
    more: int = 0


class PlainText:
    """Makes texts safe to be shown. `keys` are never shown."""

    def __init__(self, keys: Iterable[str]) -> None:
        known = sorted(filter(None, keys), key=len, reverse=True)
        self._keys = re.compile("|".join(map(re.escape, known))) if known else None

    def shown(self, text: str, limit: int) -> ShownText:
        """At most `limit` characters of `text`, driving ones as `\\x1b` or `\\u202e`."""
        masked = self.masked(text)
        cut = masked[:limit]
        if not _PLAIN.fullmatch(cut):
            cut = "".join(_escaped(one) if unicodedata.category(one) in _DRIVING else one for one in cut)
        return ShownText(cut, max(0, len(masked) - limit))

    def line(self, text: str, limit: int) -> str:
        """The same as one text, that ends in `…` where something was left out."""
        cut, more = self.shown(text, limit)
        return cut + "…" if more else cut

    def masked(self, text: str) -> str:
        """The text with `***` for every key."""
        if self._keys is not None:
            text = self._keys.sub(_MASK, text)
        return _KEY_LIKE.sub(_MASK, text)

    def properties(self, text: str, *, most: int, limit: int, name_limit: int = 200) -> ShownProperties:
        """The members of a JSON object, each value exact: a number keeps its digits, an object its order."""
        try:
            opened = _open(text)
        except msgspec.DecodeError:
            return ShownProperties([Property(ShownText("(not an object that can be read)"), self.shown(text, limit))])
        first = [
            Property(self.shown(name, name_limit), self.shown(_value(raw), limit))
            for name, raw in zip(opened, list(opened.values())[:most], strict=False)
        ]
        return ShownProperties(first, max(0, len(opened) - most))


def _value(raw: Raw) -> str:
    """A JSON text; its content where it is a string that can be read."""
    data = bytes(raw)
    if data[:1] == b'"':
        try:
            return _text(data)
        except msgspec.DecodeError:
            pass
    return data.decode("utf-8", "replace")


def _escaped(one: str) -> str:
    return one.encode("unicode_escape").decode()


class Links:
    """Addresses within the page of one project, which is named where it is not the first."""

    def __init__(self, project: int | None) -> None:
        self._project = project

    def __call__(self, *path: str, **params: object) -> str:
        """The address of a path whose later parts are values, with a query of what is not empty."""
        first, *rest = path
        address = "/".join((first, *(quote(part, safe="") for part in rest)))
        query = {"project": self._project, **params}
        present = {name: str(value) for name, value in query.items() if value not in (None, "", False)}
        return address + ("?" + urlencode(present) if present else "")


class PageRenderer:
    """Templates filled in for one service."""

    def __init__(self, plain: PlainText) -> None:
        self._plain = plain

    def page(self, name: str, links: Links, section: str, values: Mapping[str, Any]) -> str:
        """The HTML of a template. `section` is the path of the part of the page that it belongs to."""
        template = self._environment.get_template(f"{name}.html.j2")
        return template.render(url=links, section=section, **values)

    @cached_property
    def _environment(self) -> Environment:
        from jinja2 import Environment, PackageLoader, StrictUndefined

        environment = Environment(
            loader=PackageLoader("pipeline.local_service.page"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters["n"] = lambda number: f"{number:,}"
        environment.filters["line"] = lambda text, limit=120: self._plain.line(str(text), limit)
        environment.filters["instant"] = _instant
        environment.filters["counted"] = lambda number, one: f"{number:,} {one}" + ("" if number == 1 else "s")
        return environment


def asset(name: str) -> bytes:
    """A file beside the templates."""
    return files(__package__).joinpath(name).read_bytes()


def _instant(time: str) -> str:
    """ISO 8601 as it is easy to read: `2023-01-02 03:04:05`, with the fraction where there is one."""
    return time.replace("T", " ").removesuffix("Z").removesuffix(".000000")
