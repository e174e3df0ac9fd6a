"""From values to HTML. Everything that came from outside is escaped by the template engine, and made plain besides."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from .plain_text import PlainText

if TYPE_CHECKING:
    from jinja2 import Environment

_SECTIONS = (
    ("/", "Overview"),
    ("/events", "Events"),
    ("/people", "People"),
    ("/groups", "Groups"),
    ("/functions", "Functions"),
    ("/warnings", "Warnings"),
    ("/rejected", "Rejected"),
)


class Links:
    """Addresses within the page of one project, which is named where it is not the first."""

    def __init__(self, project: int | None) -> None:
        self._project = project

    def __call__(self, *path: str, **params: object) -> str:
        """The address of a path whose later parts are values, with a query of what is not empty."""
        first, *rest = path
        address = "/".join((first, *(quote(part, safe="") for part in rest)))
        query = {"project": self._project, **params}
        given = {name: str(value) for name, value in query.items() if value not in (None, "", False)}
        return address + ("?" + urlencode(given) if given else "")


class Rendering:
    """Templates filled in for one service."""

    def __init__(self, plain: PlainText) -> None:
        self._plain = plain

    def page(self, name: str, links: Links, section: str, values: Mapping[str, Any]) -> str:
        """The HTML of a template. `section` is the path of the part of the page that it belongs to."""
        template = self._environment.get_template(f"{name}.html.j2")
        return template.render(url=links, section=section, sections=_SECTIONS, **values)

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
    """A file that stands beside the templates."""
    return files(__package__).joinpath(name).read_bytes()


def _instant(time: str) -> str:
    """ISO 8601 as it is easy to read: `2023-01-02 03:04:05`, with the fraction where there is one."""
    return time.replace("T", " ").removesuffix("Z").removesuffix(".000000")
