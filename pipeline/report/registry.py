"""How a section of a plan's report is declared, on the terminal and on the page report.html.

A section is one function in a module of `pipeline.report.sections`, which is imported automatically. Numbers give the
order; they are far apart, so that a new section fits between two others:

    @on_terminal(45)
    def show_owners(console: Console, plan: Plan, directory: str) -> None:
        console.print(Text(f"Owner: {plan.target}"))

    @on_page(45, "owners")                       # page/templates/sections/owners.html.j2
    def owners(report: Report) -> Values:
        return {"owner": report.plan.target}     # None leaves the section out

A section on the first screen of the page, beside the names of events, is declared by `@on_first_screen(45, "owners")`,
with a template of one `<section>` in templates/first_screen/.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from operator import itemgetter
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from pipeline.plan.sealed.manifest import Plan
    from pipeline.report.contents import Report

BELOW = 80
"""Sections of the first screen from this number on stand below the names of events, beside the next step."""
Values = Mapping[str, object] | None
"""What a template is rendered with, beside `report` and `plan`; None leaves the section out."""
Show = Callable[["Console", "Plan", str], None]
"""Prints a section of a plan; the text is the plan's directory."""
ValuesOf = Callable[["Report"], Values]


TERMINAL: list[tuple[int, Show]] = []
PAGE: list[tuple[int, str, ValuesOf]] = []
FIRST_SCREEN: list[tuple[int, str, ValuesOf]] = []


def on_terminal(order: int) -> Callable[[Show], Show]:
    """Register a function as a section of the terminal."""

    def register(show: Show) -> Show:
        TERMINAL.append((order, show))
        return show

    return register


def on_page(order: int, template: str) -> Callable[[ValuesOf], ValuesOf]:
    """Register a function as a section of the page, with the template templates/sections/TEMPLATE.html.j2."""

    def register(values_of: ValuesOf) -> ValuesOf:
        PAGE.append((order, f"sections/{template}.html.j2", values_of))
        return values_of

    return register


def on_first_screen(order: int, template: str) -> Callable[[ValuesOf], ValuesOf]:
    """Register a function for the first screen, with the template templates/first_screen/TEMPLATE.html.j2."""

    def register(values_of: ValuesOf) -> ValuesOf:
        FIRST_SCREEN.append((order, f"first_screen/{template}.html.j2", values_of))
        return values_of

    return register


def terminal_sections() -> list[Show]:
    """The sections of the terminal in their order."""
    _import_sections()
    return [show for _, show in sorted(TERMINAL, key=itemgetter(0))]


def page_sections() -> list[tuple[str, ValuesOf]]:
    """The sections of the page in their order: each template, and the function that returns its values."""
    return _in_order(PAGE)


def first_screen_sections(*, below: bool) -> list[tuple[str, ValuesOf]]:
    """The sections of the first screen in their order, as `page_sections` has the others: those beside the names, or
    those `below`, beside the next step."""
    _import_sections()
    return _in_order([section for section in FIRST_SCREEN if (section[0] >= BELOW) == below])


def _in_order(sections: list[tuple[int, str, ValuesOf]]) -> list[tuple[str, ValuesOf]]:
    _import_sections()
    return [(template, values_of) for _, template, values_of in sorted(sections, key=itemgetter(0))]


def _import_sections() -> None:
    """Import every module of sections; each registers what it declares."""
    from pipeline.report import sections

    for module in iter_modules(sections.__path__, f"{sections.__name__}."):
        import_module(module.name)
