"""The report for people: one self-contained page that needs no network, no script and no other file.

Everything that came from an export is escaped by the template engine, and the page's own policy forbids scripts
and any load, so that a hostile event name stays text. The first screen is open; every chapter after it is folded.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from jinja2.bccache import Bucket, BytecodeCache
from markupsafe import Markup, escape

from pipeline import charts
from pipeline.report.contents import Report
from pipeline.report.page.first_screen import first_screen
from pipeline.report.page.sign_off import plan_in_words, sign_off
from pipeline.report.registry import BELOW, ValuesOf, page_sections
from pipeline.report.verification_words import by_plan
from pipeline.text import pluralize, printable, quoted

NAME_CHARACTERS = 200
_HEADING = re.compile('<h2>(.*?)(?: <span class="count">(.*?)</span>)?</h2>', re.DOTALL)
_NOTHING = ("none", "nothing to merge or update", "not measured")
_SECTION = re.compile(r"</?section>\s*")
_PLACES = re.compile(r'<h3>(?P<title>.*?)</h3>|<div class="wide">', re.DOTALL)
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:[\d.:]+Z?)?", re.ASCII)
_OPTION = re.compile(r"(?<![^\s(])--[a-z][a-z-]*", re.ASCII)
_TAG = re.compile("<[^>]*>")


class Chapter(NamedTuple):
    """A folded part of the page; `title` and `body` are HTML, `numbers` are those of its heading, or ""."""

    title: str
    numbers: str
    body: str


def render(report: Report) -> str:
    """The page as text. The same report gives the same page."""
    screen = page_sections("first_screen")
    chapters = _chapters(_html_of(page_sections("sections"), report))
    return rendered(
        "page.html.j2",
        report=report,
        plan=report.plan,
        screen=first_screen(report),
        approval=sign_off(report),
        made=plan_in_words(report.plan),
        beside=list(_html_of((one for one in screen if one[0] < BELOW), report)),
        below=list(_html_of((one for one in screen if one[0] >= BELOW), report)),
        chapters=chapters,
        numbers={chapter.title: number for number, chapter in enumerate(chapters, 1)},
    )


def rendered(template: str, **values: object) -> str:
    """A page with the style sheet of its charts."""
    return environment().get_template(template).render(chart_style=charts.style(), **values)


def _html_of(sections: Iterable[tuple[int, str, ValuesOf]], report: Report) -> Iterator[str]:
    """Each section that has values for this report, as HTML."""
    for _, template, values_of in sections:
        values = values_of(report)
        if values is not None:
            yield environment().get_template(template).render(report=report, plan=report.plan, **values)


def _chapters(sections: Iterable[str]) -> list[Chapter]:
    """A chapter for each `<h2>` of the sections; those that have nothing come last. Text of an export has no tag by
    now."""
    found = []
    for section in sections:
        html = _SECTION.sub("", section)
        headings = list(_HEADING.finditer(html))
        ends = [*(heading.start() for heading in headings[1:]), len(html)][: len(headings)]
        for heading, end in zip(headings, ends, strict=True):
            body = _with_regions(heading[1], html[heading.end() : end].strip())
            found.append(Chapter(heading[1], heading[2] or "", body))
    return sorted(found, key=lambda chapter: chapter.numbers in _NOTHING)


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


class TemplateCache(BytecodeCache):
    """Compiled templates, stored next to them in `__pycache__` as Python stores modules: compiling all of them takes a
    tenth of a small plan's time, and every step that writes a report would pay it again.

    What is stored is used as long as the template's text, the template engine and its `options` are the same. Where
    nothing can be written, or Python is told to write no bytecode, templates are compiled each time.
    """

    def __init__(self, options: str) -> None:
        self._engine = f"{MAGIC_NUMBER.hex()} {jinja2.__version__} {options} "

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        """Where a template's code is stored; "" for a template that is in no file."""
        return cache_from_source(f"{filename}.py") if filename else ""

    def get_source_checksum(self, source: str) -> str:
        return hashlib.sha256((self._engine + source).encode()).hexdigest()

    def load_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError, EOFError, ValueError, TypeError):
            stored = Path(bucket.key).read_bytes() if bucket.key else b""
            checksum = bucket.checksum.encode()
            if stored.startswith(checksum):
                bucket.code = marshal.loads(stored[len(checksum) :])

    def dump_bytecode(self, bucket: Bucket) -> None:
        if sys.dont_write_bytecode or not bucket.key:
            return
        path = Path(bucket.key)
        aside = path.with_name(f"{path.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                aside.write_bytes(bucket.checksum.encode() + marshal.dumps(bucket.code))
                aside.replace(path)
            finally:
                aside.unlink(missing_ok=True)


def whole(text: str) -> Markup:
    """A string, escaped, whose dates and options do not break at their hyphens."""
    with_dates = _DATE.sub(r"<time>\g<0></time>", str(escape(text)))
    return Markup(_OPTION.sub(r'<span class="line">\g<0></span>', with_dates))


@cache
def environment() -> Environment:
    def plainly(text: object, limit: int = NAME_CHARACTERS) -> Markup:
        """A string of an export: escaped, without control characters, and with its own direction."""
        return Markup("<bdi>") + whole(printable(str(text), limit)) + Markup("</bdi>")

    def instant(time: str) -> Markup:
        """ISO 8601 in UTC to the second, as people read it: `2023-01-02 03:04:05`."""
        return Markup("<time>{}</time>").format(printable(time)[:19].replace("T", " "))

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
    engine.filters["by_plan"] = by_plan
    # a whole file as it is, without characters that would change the direction of the text
    engine.filters["by_line"] = lambda text: "\n".join(
        printable(line.expandtabs(4), 1_000) for line in text.splitlines()
    )
    engine.filters["instant"] = instant
    engine.filters["whole"] = whole
    engine.filters["quoted"] = quoted
    return engine
