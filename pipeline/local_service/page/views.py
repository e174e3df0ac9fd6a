"""The views of the page: what each address shows.

A view is one function with its template; it is registered by its decorator, and with `navigation` it is named at the
top of every page. It runs in the thread that reads the store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from starlette.responses import RedirectResponse, Response

from pipeline.charts.timeline import timeline
from pipeline.local_service.ingestion_warnings import MEANINGS
from pipeline.local_service.management.requests import natural_number
from pipeline.local_service.page.events import (
    BOUNDED,
    COLUMNS,
    UPDATE,
    EventFilter,
    containing,
    is_uuid,
    list_page,
    read_filter,
)
from pipeline.local_service.page.functions import fired, firing_for
from pipeline.local_service.page.reader import MOST_PAGES, ProjectReader, literal
from pipeline.local_service.page.rendering import Links, PlainText

MOST_NAMES = 200
"""Event names that the overview lists; the further ones are counted."""
MOST_COPIES = 50
MOST_IDS = 500
_FIRST_IDS = 3
_SUGGESTED_NAMES = 50
_FIRST_IN_FILTERS = "0001"


class PageNotFound(Exception):
    """What was requested is not in the store; the message is a sentence for people."""


@dataclass(slots=True)
class PageRequest:
    """What a request asks for, and what a view reads.

    `projects` are the names of the projects by id, for the page's list of them. `people_ready`: persons and groups
    include every event. `functions` are the hog functions of the project, if the view asks for them.
    """

    project: int
    links: Links
    params: Mapping[str, str]
    path: Mapping[str, str]
    address: str
    reader: ProjectReader
    plain: PlainText
    projects: dict[int, str]
    people_ready: bool = False
    functions: Sequence[Mapping[str, Any]] = ()

    @property
    def page(self) -> int:
        """The number of the page of a list, from 1."""
        return min(max(natural_number(self.param("page")) or 1, 1), MOST_PAGES)

    def param(self, name: str) -> str:
        return self.params.get(name, "")


Values = Mapping[str, Any]
Show = Callable[[PageRequest], Values | Response]


class View(NamedTuple):
    """One view. `section` is the path in the navigation that it belongs to, `navigation` its name there.

    `waits`: while persons and groups are being processed, a page with `title` is shown instead; as text, only if that
    parameter is set. `people`: the view shows whether they are processed. `functions`: it reads the hog functions.
    """

    path: str
    template: str
    section: str
    show: Show
    title: str = ""
    navigation: str = ""
    waits: bool | str = False
    people: bool = False
    functions: bool = False


VIEWS: list[View] = []
"""In the order in which paths are tried, and of the navigation."""


def view(path: str, template: str, section: str, **more: Any) -> Callable[[Show], Show]:
    """Register a function as a view; `more` are the other fields of View."""

    def register(show: Show) -> Show:
        VIEWS.append(View(path, template, section, show, **more))
        return show

    return register


@view("/", "overview", "/", navigation="Overview", people=True, functions=True)
def show_overview(request: PageRequest) -> Values:
    """Counts, a chart, and the most frequent events."""
    reader = request.reader
    wanted = read_filter({name: request.param(name) for name in ("since", "until")})
    condition = wanted.condition(reader.project)
    days, drawn = _by_day(reader, wanted)
    ((copies,),) = reader.cached_rows(f"SELECT count(*) FROM accepted WHERE {condition}")
    names, more_names = reader.event_names(MOST_NAMES, condition)
    derived = None
    if request.people_ready:
        (derived,) = reader.rows(
            "SELECT count(*) AS persons, count(*) FILTER (is_identified) AS identified, "
            "(SELECT count(*) FROM groups) AS groups, (SELECT count(*) FROM warnings) AS warnings FROM persons"
        )
    return {
        "wanted": wanted,
        "events": sum(day.events for day in days),
        "live": sum(day.live for day in days),
        **drawn,
        "link": _link(request.links, {}),
        "copies": copies,
        "names": names,
        "more_names": more_names,
        "functions": fired(reader, request.functions),
        "derived": derived,
        "rejected": reader.number("SELECT count(*) FROM rejections"),
    }


def _link(links: Links, params: Mapping[str, str]) -> Callable[[str, str], str]:
    """The address of the events of a day with a filter; of a longer range, that of its chart, unless there is a filter.
    "" if no filter reaches them."""

    def link(since: str, until: str) -> str:
        if since < _FIRST_IN_FILTERS:
            return ""
        path = "/events" if since == until or params else "/"
        return links(path, **{**params, "since": since, "until": until})

    return link


def _by_day(reader: ProjectReader, wanted: EventFilter) -> tuple[list[Any], Values]:
    """The days of the events that a filter matches, and the chart of them: `days` that it has, `line`, and how many
    `updates` of profiles and groups it leaves out, unless the filter asks for their name.

    A plan sends its updates with the time at which it was made: drawn, they would be a spike of events on that day.
    """
    update = "false" if wanted.event else UPDATE
    read = reader.rows if wanted.person else reader.cached_rows
    days = read(
        'SELECT CAST("timestamp" AS DATE) AS day, count(*) AS events, '
        f"count(*) FILTER (NOT historical_migration) AS live, count(*) FILTER ({update}) AS updates, "
        f'min("timestamp") FILTER (NOT {update}) AS first, max("timestamp") FILTER (NOT {update}) AS last '
        f"FROM {reader.events_table()} WHERE {wanted.condition(reader.project)} GROUP BY day ORDER BY day"
    )
    return days, {
        "days": [day for day in days if day.updates < day.events],
        "line": timeline({day.day: day.events - day.updates for day in days}),
        "updates": sum(day.updates for day in days),
    }


@view("/events", "events", "/events", navigation="Events", title="Events", waits="person")
def list_events(request: PageRequest) -> Values:
    wanted, oldest = read_filter(request.params), request.param("order") == "oldest"
    page = list_page(
        request.reader, wanted, oldest=oldest, after=request.param("after"), before=request.param("before")
    )
    frequent, _ = request.reader.event_names(_SUGGESTED_NAMES)
    typed = [name for name, _ in frequent if request.plain.line(name, len(name)) == name]
    return {
        "wanted": wanted,
        "oldest": oldest,
        "found": page,
        "names": typed,
        **_by_day(request.reader, wanted)[1],
        "link": _link(request.links, {**wanted.params(), "order": "oldest" if oldest else ""}),
    }


@view("/events/{uuid}", "event", "/events", people=True, functions=True)
def show_event(request: PageRequest) -> Values:
    """One event with the last of its duplicates, in the order of acceptance."""
    reader, uuid = request.reader, request.path["uuid"].lower()
    if not is_uuid(uuid):
        raise PageNotFound("That is no uuid of an event.")
    condition = f"project = {reader.project} AND uuid = CAST({literal(uuid)} AS UUID)"
    total = reader.number(f"SELECT count(*) FROM accepted WHERE {condition}")
    if not total:
        raise PageNotFound("No event with this uuid has landed.")
    receipts = f"SELECT receipt FROM accepted WHERE {condition} ORDER BY receipt DESC LIMIT {MOST_COPIES}"
    copies = reader.rows(
        f"SELECT {COLUMNS}, properties, receipt IN (SELECT receipt FROM {reader.events_table()} WHERE {condition}) "
        f"AS counts FROM accepted WHERE receipt IN ({receipts}) ORDER BY receipt"
    )
    warnings = reader.rows(f"SELECT * FROM noticed WHERE receipt IN ({receipts}) ORDER BY type, details")
    firing = {copy.event: firing_for(request.functions, copy.event) for copy in copies if copy.counts}
    ready = request.people_ready
    return {"uuid": uuid, "copies": copies, "warnings": warnings, "total": total, "ready": ready, "firing": firing}


@view("/people", "people", "/people", navigation="People", title="People", waits=True)
def list_people(request: PageRequest) -> Values:
    """The persons with a string in an id or a property, the oldest first, each with its first ids in alphabetical
    order."""
    text, source = request.param("text"), "persons"
    if text:
        by_id = f"SELECT person_id FROM person_distinct_ids WHERE {containing(text, 'distinct_id')}"
        source += f" WHERE id IN ({by_id}) OR {containing(text, 'properties', uuid='id')}"
    rows, total = request.reader.page(
        f"id, created_at, is_identified, {BOUNDED}", source, "created_at, id", request.page
    )
    keys = ", ".join(f"CAST('{row.id}' AS UUID)" for row in rows)
    ids = request.reader.rows(
        f"SELECT person_id, min(distinct_id, {_FIRST_IDS}) AS first, count(*) AS count FROM person_distinct_ids "
        f"WHERE person_id IN ({keys or 'NULL'}) GROUP BY person_id"
    )
    by_person = {row.person_id: row for row in ids}
    return {"text": text, "rows": rows, "ids": by_person, "total": total, "page": request.page}


@view("/people/of", "", "/people", title="Person", waits=True)
def find_person(request: PageRequest) -> Response:
    """Leads to the person of an id."""
    distinct_id = request.param("id")
    persons = request.reader.rows(
        f"SELECT person_id FROM person_distinct_ids WHERE distinct_id = {literal(distinct_id)}"
    )
    if not persons:
        raise PageNotFound(
            f"No person has the id “{distinct_id}”. An event that asks for no person profile creates none."
        )
    return RedirectResponse(request.links("/people", persons[0].person_id), 303)


@view("/people/{id}", "person", "/people", title="Person", waits=True)
def show_person(request: PageRequest) -> Values:
    """One person with its first ids and its events."""
    reader, id = request.reader, request.path["id"].lower()
    persons = reader.rows(f"SELECT * FROM persons WHERE id = CAST({literal(id)} AS UUID)") if is_uuid(id) else []
    if not persons:
        raise PageNotFound("There is no such person. It may have become part of another one.")
    ids = f"person_distinct_ids WHERE person_id = CAST({literal(id)} AS UUID)"
    wanted = EventFilter(person=id)
    return {
        "person": persons[0],
        "ids": reader.rows(f"SELECT distinct_id FROM {ids} ORDER BY distinct_id LIMIT {MOST_IDS}"),
        "id_count": reader.number(f"SELECT count(*) FROM {ids}"),
        "found": list_page(reader, wanted, oldest=True, after=request.param("after"), before=request.param("before")),
        "wanted": wanted,
    }


@view("/groups", "groups", "/groups", navigation="Groups", title="Groups", waits=True)
def list_groups(request: PageRequest) -> Values:
    """The groups of a type with a string in the key or a property, by type and key; and the types by number."""
    text, number = request.param("text"), request.param("type")
    index = int(number) if number in tuple("01234") else None
    source = 'groups JOIN group_types USING ("index") WHERE ' + ("true" if index is None else f'"index" = {index}')
    if text:
        source += f" AND {containing(text, 'key', 'properties')}"
    rows, total = request.reader.page(f"type, key, created_at, {BOUNDED}", source, '"index", key', request.page)
    types = request.reader.rows(
        'SELECT t."index", t.type, count(g.key) FROM group_types t LEFT JOIN groups g ON g."index" = t."index" '
        'GROUP BY t."index", t.type ORDER BY t."index"'
    )
    return {"types": types, "index": index, "text": text, "rows": rows, "total": total, "page": request.page}


@view("/functions", "functions", "/functions", navigation="Functions", functions=True)
def list_functions(request: PageRequest) -> Values:
    return {"found": fired(request.reader, request.functions)}


@view("/warnings", "warnings", "/warnings", navigation="Warnings", title="Warnings", waits=True)
def list_warnings(request: PageRequest) -> Values:
    """The warnings of a type in the order of their events' acceptance, and the types, the most frequent first."""
    kind = request.param("type")
    source = "warnings" + (f" WHERE type = {literal(kind)}" if kind else "")
    rows, total = request.reader.page("*", source, "receipt, type, details", request.page)
    kinds = request.reader.rows(
        "SELECT type, count(*) AS times, bool_or(dropped) AS dropped FROM warnings GROUP BY type "
        "ORDER BY times DESC, type"
    )
    return {"kinds": kinds, "meanings": MEANINGS, "kind": kind, "rows": rows, "total": total, "page": request.page}


@view("/rejected", "rejected", "/rejected", navigation="Rejected")
def list_rejected(request: PageRequest) -> Values:
    """The refused requests, the last first."""
    rows, total = request.reader.page("*", "refused", '"time" DESC, rowid DESC', request.page)
    return {"rows": rows, "total": total, "page": request.page}
