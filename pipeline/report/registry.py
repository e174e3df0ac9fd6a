"""How a section of a plan's report is declared, on the terminal and on the page report.html.

A section is one function in a module of `pipeline.report.sections`, which is imported automatically. Numbers give the
order; they are far apart, so that a new section fits between two others. An example is in
docs/change/contributing.md#add-a-report-section. Sections of the first screen stand beside the names of events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from operator import itemgetter
from pkgutil import iter_modules

from rich.console import Console

from pipeline.plan.sealed.manifest import Plan
from pipeline.report.contents import Report

BELOW = 80
"""Sections of the first screen from this number on are below the names of events, next to the next step."""
Values = Mapping[str, object] | None
"""What a template is rendered with, in addition to `report` and `plan`; None leaves the section out."""
Show = Callable[[Console, Plan, str], None]
"""Prints a section of a plan; the text is the plan's directory."""
Brief = Callable[[Plan], str]
"""A section in one line, for a terminal that is too small for all of it; "" if there is nothing to say."""
ValuesOf = Callable[[Report], Values]


TERMINAL: list[tuple[int, Show, Brief | None]] = []
PAGE: dict[str, list[tuple[int, str, ValuesOf]]] = {"sections": [], "first_screen": []}
"""The sections of the page by the folder of their templates."""


def on_terminal(order: int, brief: Brief | None = None) -> Callable[[Show], Show]:
    """Register a function as a section of the terminal, with what replaces it if it does not fit."""

    def register(show: Show) -> Show:
        TERMINAL.append((order, show, brief))
        return show

    return register


def on_page(order: int, template: str, folder: str = "sections") -> Callable[[ValuesOf], ValuesOf]:
    """Register a function as a section of the page, with the template templates/FOLDER/TEMPLATE.html.j2."""

    def register(values_of: ValuesOf) -> ValuesOf:
        PAGE[folder].append((order, f"{folder}/{template}.html.j2", values_of))
        return values_of

    return register


on_first_screen = partial(on_page, folder="first_screen")
"""Register a function for the first screen."""


def terminal_sections() -> list[tuple[Show, Brief | None]]:
    _import_sections()
    return [(show, brief) for _, show, brief in sorted(TERMINAL, key=itemgetter(0))]


def page_sections(folder: str) -> list[tuple[int, str, ValuesOf]]:
    """The sections of the page in their order: its number, each template, and the function that returns its values."""
    _import_sections()
    return sorted(PAGE[folder], key=itemgetter(0))


def _import_sections() -> None:
    """Import every module of sections; each registers what it declares."""
    from pipeline.report import sections

    for module in iter_modules(sections.__path__, f"{sections.__name__}."):
        import_module(module.name)
