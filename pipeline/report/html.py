"""The report for people: one self-contained page that needs no network, no script and no other file.

Everything that came from an export is escaped by the template engine, and the page's own policy forbids scripts
and any load, so that a hostile event name stays text.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from pipeline.report.contents import Report
from pipeline.report.registry import page_sections
from pipeline.report.wording import VERDICTS, mapping_of, state_in_words
from pipeline.text import pluralize, printable

if TYPE_CHECKING:
    from jinja2 import Environment

NAME_CHARACTERS = 200


def render(report: Report) -> str:
    """The page as text. The same report gives the same page."""
    plan, environment = report.plan, _environment()
    sections = [(template, values_of(report)) for template, values_of in page_sections()]
    applied = report.results.applied
    return environment.get_template("page.html.j2").render(
        report=report,
        plan=plan,
        mapping=mapping_of(plan),
        verdict=VERDICTS.get(plan.verdict, plan.verdict),
        state=state_in_words(report.state, applied.events.refused if applied is not None else 0),
        sections=[
            environment.get_template(template).render(report=report, plan=plan, **values)
            for template, values in sections
            if values is not None
        ],
    )


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("pipeline.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["n"] = lambda number: f"{number:,}"
    environment.filters["pluralize"] = pluralize
    environment.filters["plainly"] = lambda text, limit=NAME_CHARACTERS: printable(str(text), limit)
    environment.filters["by_line"] = _by_line
    return environment


def _by_line(text: str) -> str:
    """A whole file as it is, without characters that would change the direction of the text."""
    return "\n".join(printable(line.expandtabs(4), 1_000) for line in text.splitlines())
