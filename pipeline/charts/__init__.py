"""Pictures for pages: pure functions from counts to inline SVG, without a script.

The report of a plan, the page of a survey and the page of the local service share them. An SVG here has shapes, numbers
and dates only, never a text of an export, so that a page can include it as it is. It stretches to the width that it is
given; whatever is to be read stands beside it as HTML, at places in percent of that width (`templates/`). Colours are
custom properties of the page's style sheet, to which `style()` is added. No element has a style of its own, so that a
page can forbid them: a place is a class, in quarters of a percent.
"""

from __future__ import annotations

from importlib.resources import files

PLACES = 4
"""Classes for one percent of the width."""
_MOST_LANES = 8


def style() -> str:
    places = "".join(f".at-{place}{{--at:{place / PLACES:g}%}}" for place in range(100 * PLACES + 1))
    lanes = "".join(f".lanes-{lane}{{--lanes:{lane}}}.lane-{lane}{{--lane:{lane}}}" for lane in range(_MOST_LANES + 1))
    return files(__package__).joinpath("templates/charts.css").read_text(encoding="utf-8") + places + lanes + "\n"


def picture(kind: str, box: str, words: tuple[str, str], shapes: str, more: str = "") -> str:
    """An SVG of a class and a view box with `words`, its title and its description for screen readers; `more` are
    attributes."""
    title, description = words
    return (
        f'<svg class="{kind}" viewBox="{box}" preserveAspectRatio="none" role="img"{more}>'
        f"<title>{title}</title><desc>{description}</desc>{shapes}</svg>"
    )


def short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def at(place: float) -> str:
    return f"at-{round(place * PLACES)}"
