"""Reports as people see them: the text of a page, and what a render function prints on a terminal."""

from __future__ import annotations

import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

from rich.console import Console

from pipeline.ledger import LedgerSummary
from pipeline.models import Finding, SealedOptions
from pipeline.plan.sealed.manifest import Example, MappingSeal, Plan
from pipeline.report.contents import build_report
from pipeline.report.page.html import render
from pipeline.report.state import PlanStatus, State
from pipeline.report.terminal import steps
from tests.golden.report.small_plan import part, plan_directory, small_plan

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\x1b[31m\u202e[red]{{ 7*7 }}"


class Page(HTMLParser):
    """The tags of a page, with the names of their attributes, and its text: as a whole, and tables and other text by
    the heading above them, without its number and its count."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[tuple[str, tuple[str, ...]]] = set()
        self.links: set[str] = set()
        self.words: list[str] = []
        self.heading = self.within = ""
        self.counting = False
        self.tables: dict[str, list[list[str]]] = {}
        self.texts: dict[str, str] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add((tag, tuple(name for name, _ in attrs)))
        places = (value or "" for name, value in attrs if name in ("href", "src"))
        self.links.update(place for place in places if not place.startswith("#"))
        if tag != "bdi":
            self.words.append(" ")
        if tag in ("h1", "h2", "h3"):
            self.within, self.heading = tag, ""
        elif tag == "span":
            self.counting = ("class", "count") in attrs
        elif tag == "tr":
            self.tables.setdefault(self.heading, []).append([])
        elif tag in ("td", "th"):
            self.within = tag
            self.tables[self.heading][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag != "bdi":
            self.words.append(" ")
        if tag == self.within:
            self.within, self.counting = "", False

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        if self.within in ("h1", "h2", "h3"):
            self.heading += "" if self.counting else re.sub(r"^\d+\. | $", "", data)
        elif self.within:
            cell = self.tables[self.heading][-1]
            cell[-1] = " ".join(f"{cell[-1]}{data}".split(" ")).strip("\n")
        else:
            self.texts[self.heading] = self.texts.get(self.heading, "") + data

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words))


def page_of(path: Path, plan: Plan, **given: object) -> str:
    return render(build_report(plan_directory(path, **given), plan))  # type: ignore[arg-type]


def printed(show: object, *given: object, width: int = 100, terminal: bool = False, **named: object) -> str:
    """What a render function prints on a plain terminal of some width, or into a pipe."""
    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False, force_terminal=terminal)
    show(console, *given, **named)  # type: ignore[operator]
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def plan_text(plan: Plan, width: int = 100) -> str:
    """What the terminal shows of a plan whose directory is empty."""
    status = PlanStatus(State.READY if plan.ready else State.NOT_READY, plan.events.made, LedgerSummary())
    return printed(steps.show_plan, plan, status, "plan", width=width)


def hostile_plan() -> Plan:
    """A plan whose names, rows, codes, options and mapping are markup."""
    return small_plan(
        tool=HOSTILE,
        parts=[part("a.jsonl", (12, 9, 2, 1)), part(HOSTILE, (2, 1, 0, 1))],
        skips={HOSTILE: 2},
        names={HOSTILE: 10},
        examples={"unsafe_integer": Example(HOSTILE, 5, 512, HOSTILE)},
        gates=[Finding(HOSTILE, "stop", HOSTILE), Finding("zone", "stop", HOSTILE)],
        mapping=MappingSeal(HOSTILE, "d" * 64, f"tool: {json.dumps(HOSTILE)}"),
        options=SealedOptions(as_of=0, name=HOSTILE, settings={HOSTILE: HOSTILE}),
        notices=[(HOSTILE, HOSTILE, HOSTILE)],
        target=HOSTILE,
    )
