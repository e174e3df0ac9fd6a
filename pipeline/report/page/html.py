"""The report for people: one self-contained page that needs no network, no script and no other file.

Everything that came from an export is escaped by the template engine, and the page's own policy forbids scripts
and any load, so that a hostile event name stays text. The first screen is open; every chapter after it is folded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline import charts
from pipeline.report.contents import Report
from pipeline.report.page.first_screen import first_screen
from pipeline.report.registry import ValuesOf, first_screen_sections, page_sections
from pipeline.text import pluralize, printable, quoted

if TYPE_CHECKING:
    from jinja2 import Environment

NAME_CHARACTERS = 200
_HEADING = re.compile("<h2>(.*?)</h2>", re.DOTALL)
_SECTION = re.compile(r"</?section>\s*")
_PLACES = re.compile(r'<h3>(?P<title>.*?)</h3>|<div class="wide">', re.DOTALL)
_TAG = re.compile("<[^>]*>")


class Chapter(NamedTuple):
    """A folded part of the page; `title` and `body` are HTML."""

    id: str
    title: str
    body: str


def render(report: Report) -> str:
    """The page as text. The same report gives the same page."""
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            report=report,
            plan=report.plan,
            plain_name=printable(report.name, NAME_CHARACTERS),
            chart_style=charts.style(),
            screen=first_screen(report),
            beside=list(_rendered(first_screen_sections(below=False), report)),
            below=list(_rendered(first_screen_sections(below=True), report)),
            chapters=list(_chapters(_rendered(page_sections(), report))),
        )
    )


def _rendered(sections: list[tuple[str, ValuesOf]], report: Report) -> Iterator[str]:
    """Each section that has values for this report, as HTML."""
    for template, values_of in sections:
        values = values_of(report)
        if values is not None:
            yield environment().get_template(template).render(report=report, plan=report.plan, **values)


def _chapters(sections: Iterable[str]) -> Iterator[Chapter]:
    """A chapter for each `<h2>` of the sections. Text of an export has no tag by now."""
    number = 0
    for section in sections:
        html = _SECTION.sub("", section)
        headings = list(_HEADING.finditer(html))
        ends = [*(heading.start() for heading in headings[1:]), len(html)][: len(headings)]
        for heading, end in zip(headings, ends, strict=True):
            number += 1
            body = _with_regions(heading[1], html[heading.end() : end].strip())
            yield Chapter(f"chapter-{number}", heading[1], body)


def _with_regions(chapter: str, html: str) -> str:
    """Tables that scroll sideways are reached by the keyboard, under the names of their chapter and heading."""
    names: Counter[str] = Counter()
    title = ""

    def named(place: re.Match[str]) -> str:
        nonlocal title
        if place["title"] is not None:
            title = place["title"]
            return place[0]
        name = _TAG.sub("", f"{chapter}: {title}" if title else chapter)
        names[name] += 1
        number = f", table {names[name]}" if names[name] > 1 else ""
        return f'<div class="wide" tabindex="0" role="region" aria-label="{name}{number}">'

    return _PLACES.sub(named, html)


@cache
def environment() -> Environment:
    """The template engine of every page."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup, escape

    from pipeline.report.page.template_cache import TemplateCache

    def plainly(text: object, limit: int = NAME_CHARACTERS) -> Markup:
        """A text of an export: escaped, without driving characters, and with a direction of its own."""
        return Markup("<bdi>") + escape(printable(str(text), limit)) + Markup("</bdi>")

    options: dict[str, Any] = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True}
    engine = Environment(
        loader=ChoiceLoader([PackageLoader("pipeline.report.page"), PackageLoader("pipeline.charts")]),
        bytecode_cache=TemplateCache(str(options)),
        undefined=StrictUndefined,
        **options,
    )
    engine.filters["n"] = lambda number: f"{number:,}"
    engine.filters["pluralize"] = pluralize
    engine.filters["plainly"] = plainly
    engine.filters["by_line"] = _by_line
    engine.filters["instant"] = lambda time: Markup('<span class="time">{}</span>').format(_instant(time))
    engine.filters["quoted"] = quoted
    return engine


def _instant(time: str) -> str:
    """ISO 8601 in UTC to the second, as people read it: `2023-01-02 03:04:05`."""
    return printable(time)[:19].replace("T", " ")


def _by_line(text: str) -> str:
    """A whole file as it is, without characters that would change the direction of the text."""
    return "\n".join(printable(line.expandtabs(4), 1_000) for line in text.splitlines())
