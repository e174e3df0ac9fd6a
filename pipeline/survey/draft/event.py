"""The section of a draft for the event's name."""

from __future__ import annotations

import re

from pipeline.mapper.language.scalars import comment, scalar
from pipeline.survey.columns import Column
from pipeline.survey.draft.decisions import MOST_OPTIONS, Choice, Decisions, Option, rows_without, some_rows_have
from pipeline.survey.roles.events import events_in, is_category
from pipeline.survey.roles.properties import renames_in
from pipeline.survey.roles.times import LATER_WORDS
from pipeline.text import pluralize

_PAGES = re.compile(r"page_?views?|pages?|views?", re.IGNORECASE)
_PATH = re.compile(r"^(?:\d_)?(?:(?:url|page|request)_)?path$|^request_ur[il]$")
_PAGE_NAMES = ("pageview", "pageviewed", "viewedpage", "visitedsite", "clyview", "loadedapage")
_SCREEN_NAMES = ("screen", "screenview", "screenviewed", "viewedscreen")
_KIND = re.compile(
    r"(?:^|_)(?:type|kind|action|event|operation|category|status|topic|typ|art|vorgang|aktion|ereignis|tipo|evento|accion)"
    r"(?:_|$)"
)
"""Names of columns that distinguish kinds of rows."""
MOST_LISTED = 10


def event_section(known: Decisions) -> str:
    """The event's name: a column, a column and a name for the rows without it, or one name for all rows."""
    found = events_in(known.others)
    constant = Option(f"{{const: {scalar(_constant(known))}}}", "one kind of event, named after the file")
    columns = [column for column in known.others if is_category(column)]
    columns.sort(key=lambda one: (len(one.texts) == 1, not _KIND.search(one.name), len(one.steps), len(one.texts)))
    categories = [Option(known.ref(column), column.evidence()) for column in columns]
    best, lines = next(iter(found), None), list[str]()
    if best is None:
        question = "no column seems to name the event. Name what a row records, or choose a column."
        guess = columns and _KIND.search(columns[0].name) and len(columns[0].texts) > 1
        options = [*categories, constant] if known.nameless or guess else [constant, *categories]
        text, lines = known.choose(Choice("event", question, tuple(options[:MOST_OPTIONS]), free="column"))
        best = next((column for column in known.others if known.ref(column) == text), None)
        if best is None:
            return "\n".join(["", *_each_time(known), *lines, f"event: {text}"])
    known.dropped.append(best.steps)
    text = known.ref(best)
    if missing := rows_without(best):
        covering = (one for one in found[1:] if missing <= set(one.rows) and len(one.steps) == 1)
        fallback = next(map(known.ref, covering), None)
        if fallback is None:
            question = f"{some_rows_have(len(missing), best.of)} no {best.path}."
            question += " Name what such a row records, or choose a column."
            others = [one for one in categories if one.text != text]
            fallback, comments = known.choose(
                Choice("event_without_name", question, (constant, *others)[:MOST_OPTIONS], free="column")
            )
            lines += comments
        text = f"{{first: [{text}, {fallback}]}}"
    return "\n".join(["", *lines, f"event: {text}", *_rules(best)])


def _each_time(known: Decisions) -> list[str]:
    """Comments on how each column with a time becomes an event, if there are several."""
    times = [one.column for one in known.clocks if one.known and not LATER_WORDS.search(one.column.name)]
    if len(times) < 2:
        return []
    named = {re.sub(r"_(at|on|date|time)$", "", one.name).replace("_", " ").title(): known.ref(one) for one in times}
    lines = [
        f"{len(times)} columns have times. If each is an event of its own (signed up, paid, left), write:",
        f"  decoder: {{each_time: {{{', '.join(f'{scalar(name)}: {ref}' for name, ref in named.items())}}}}}",
        "  event: /event",
        "and below, `from: /time` in `time` and /event in `key`, such as key: {of: [/id, /event], needs: /id},",
        f"and event, time, {', '.join(scalar(one.name) for one in times)} in `drop`, or they become properties",
    ]
    return list(map(comment, lines))


def _constant(known: Decisions) -> str:
    """The event name if no column has one: the table's, or the service's own for a table of page views."""
    addresses = "$current_url" in renames_in(known.others).values()
    paths = any(_PATH.search(column.name) for column in known.columns.values())
    if _PAGES.fullmatch(known.table.name) or paths or (addresses and "view" in known.table.name):
        return "$pageview"
    return known.table.name or "row"


def _rules(names: Column) -> list[str]:
    """Rules for single events, as comments to start from."""
    frequent = names.texts.most_common(MOST_LISTED)
    return [
        "",
        "# Rules for single events: a new name, or {skip: code}. The most frequent:",
        "events: {}",
        *(
            comment(f"  {scalar(text)}: {_suggested(text)}      # {pluralize(count, 'row')}")
            for text, count in frequent
        ),
    ]


def _suggested(event: str) -> str:
    """What the service calls an event, else its own name."""
    name = re.sub(r"[\W_]+", "", event).lower()
    return "$pageview" if name in _PAGE_NAMES else "$screen" if name in _SCREEN_NAMES else scalar(event)
