"""The views of the page: what each address shows.

A view is one function with its template; it is found by its decorator, and with `navigation` it is named at the top of
every page. It runs in the thread that reads the store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from starlette.responses import RedirectResponse, Response

from pipeline.local_service.page import events, people, warnings
from pipeline.local_service.page.events import EventFilter, is_uuid, read_filter
from pipeline.local_service.page.overview import derived_counts, event_names, fired, firing_for, overview
from pipeline.local_service.page.reader import MOST_PAGES, ProjectReader
from pipeline.local_service.page.rendering import Links, PlainText

_OFFERED_NAMES = 50


class PageNotFound(Exception):
    """What was requested is not in the store; the message is a sentence for people."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """What a request asks for, and what a view reads.

    `people_ready`: persons and groups include every event. `functions` are the hog functions of the project, where the
    view asks for them.
    """

    project: int
    links: Links
    params: Mapping[str, str]
    path: Mapping[str, str]
    address: str
    reader: ProjectReader
    plain: PlainText
    people_ready: bool = False
    functions: Sequence[Mapping[str, Any]] = ()

    @property
    def page(self) -> int:
        """The number of the page of a list, from 1."""
        text = self.params.get("page", "")
        return min(max(int(text), 1), MOST_PAGES) if text.isascii() and text.isdigit() else 1

    def param(self, name: str) -> str:
        """A parameter of the query string, "" where it is absent."""
        return self.params.get(name, "")


Values = Mapping[str, Any]
Show = Callable[[PageRequest], Values | Response]


class View(NamedTuple):
    """One view. `section` is the path in the navigation that it belongs to, `navigation` its name there.

    `waits`: while persons and groups are being processed, a page with `title` is shown instead; as text, only where
    that parameter is set. `people`: the view shows whether they are processed. `functions`: it reads the hog functions.
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
"""In the order in which paths are tried."""


def view(path: str, template: str, section: str, **more: Any) -> Callable[[Show], Show]:
    """Make a function a view; `more` are the other fields of View."""

    def register(show: Show) -> Show:
        VIEWS.append(View(path, template, section, show, **more))
        return show

    return register


def navigation() -> list[tuple[str, str]]:
    """The paths and names at the top of every page."""
    return [(one.path, one.navigation) for one in VIEWS if one.navigation]


@view("/", "overview", "/", navigation="Overview", people=True, functions=True)
def show_overview(request: PageRequest) -> Values:
    """Counts, a chart, and the most frequent events."""
    reader = request.reader
    wanted = read_filter({name: request.param(name) for name in ("since", "until")})
    return {
        "wanted": wanted,
        "found": overview(reader, wanted),
        "functions": fired(reader, request.functions),
        "derived": derived_counts(reader) if request.people_ready else None,
        "rejected": warnings.rejected_count(reader),
    }


@view("/events", "events", "/events", navigation="Events", title="Events", waits="person")
def list_events(request: PageRequest) -> Values:
    """The events that match a filter."""
    reader, plain = request.reader, request.plain
    wanted, oldest = read_filter(request.params), request.param("order") == "oldest"
    after, before = request.param("after"), request.param("before")
    found = events.listed(reader, wanted, plain, oldest=oldest, after=after, before=before)
    every = EventFilter().condition(reader.project)
    frequent, _ = reader.cached("offered", lambda: event_names(reader, every, _OFFERED_NAMES))
    names = [name for name, _ in frequent if plain.line(name, len(name)) == name]  # those that can be typed
    return {"wanted": wanted, "oldest": oldest, "found": found, "names": names}


@view("/events/{uuid}", "event", "/events", people=True, functions=True)
def show_event(request: PageRequest) -> Values:
    """One event with its duplicates."""
    uuid = request.path["uuid"].lower()
    if not is_uuid(uuid):
        raise PageNotFound("That is no uuid of an event.")
    copies, total = events.copies_of(request.reader, uuid, request.plain)
    if not copies:
        raise PageNotFound("No event with this uuid has landed.")
    names = {copy.row.event for copy in copies if copy.counts}
    firing = {name: firing_for(request.functions, name) for name in names}
    return {"uuid": uuid, "copies": copies, "total": total, "ready": request.people_ready, "firing": firing}


@view("/people", "people", "/people", navigation="People", title="People", waits=True)
def list_people(request: PageRequest) -> Values:
    """The persons with a text."""
    text = request.param("text")
    rows, total = people.listed(request.reader, text, request.page, request.plain)
    return {"text": text, "rows": rows, "total": total, "page": request.page}


@view("/people/of", "", "/people", title="Person", waits=True)
def find_person(request: PageRequest) -> Response:
    """Leads to the person of an id."""
    distinct_id = request.param("id")
    found = people.person_of(request.reader, distinct_id)
    if found is None:
        raise PageNotFound(
            f"No person has the id “{distinct_id}”. An event that asks for no person profile creates none."
        )
    return RedirectResponse(request.links("/people", found), 303)


@view("/people/{id}", "person", "/people", title="Person", waits=True)
def show_person(request: PageRequest) -> Values:
    """One person with its events."""
    id = request.path["id"].lower()
    person = people.person(request.reader, id, request.plain) if is_uuid(id) else None
    if person is None:
        raise PageNotFound("There is no such person. It may have become part of another one.")
    wanted, after, before = EventFilter(person=id), request.param("after"), request.param("before")
    found = events.listed(request.reader, wanted, request.plain, oldest=True, after=after, before=before)
    return {"person": person, "found": found, "wanted": wanted}


@view("/groups", "groups", "/groups", navigation="Groups", title="Groups", waits=True)
def list_groups(request: PageRequest) -> Values:
    """The groups of a type with a text."""
    text, number = request.param("text"), request.param("type")
    index = int(number) if number in tuple("01234") else None
    rows, total = people.groups(request.reader, index, text, request.page, request.plain)
    types = people.group_types(request.reader)
    return {"types": types, "index": index, "text": text, "rows": rows, "total": total, "page": request.page}


@view("/functions", "functions", "/functions", navigation="Functions", functions=True)
def list_functions(request: PageRequest) -> Values:
    """The hog functions that would have fired."""
    return {"found": fired(request.reader, request.functions)}


@view("/warnings", "warnings", "/warnings", navigation="Warnings", title="Warnings", waits=True)
def list_warnings(request: PageRequest) -> Values:
    """The warnings of a type."""
    kind = request.param("type")
    rows, total = warnings.warnings(request.reader, kind, request.page, request.plain)
    kinds = warnings.kinds(request.reader)
    return {"kinds": kinds, "kind": kind, "rows": rows, "total": total, "page": request.page}


@view("/rejected", "rejected", "/rejected", navigation="Rejected")
def list_rejected(request: PageRequest) -> Values:
    """The refused requests."""
    rows, total = warnings.rejected(request.reader, request.page)
    return {"rows": rows, "total": total, "page": request.page}
