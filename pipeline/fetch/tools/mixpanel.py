"""Mixpanel: the Raw Event Export API, day by day, and its own count by JQL (docs/know/exports.md#mixpanel).

60 requests an hour and 3 a second. A day without events is a 404 or an empty 200. Days are in the project's own time
zone (UTC in projects since 2023), in both APIs. The export has duplicates that the count may leave out, so only a file
with fewer events than counted is incomplete.

People, groups and members of cohorts are pages of the Engage API, whose `session_id` asks for the next page of one
listing. The Query API, which the counts are part of too, has the same limits, but separate from those of the export.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import msgspec

from pipeline.errors import UsageError
from pipeline.fetch.checking import count_events
from pipeline.fetch.tool import (
    DAY,
    GROUP,
    HOUR,
    LATER,
    BeginAgain,
    Fetch,
    FetchContext,
    Fetched,
    Page,
    RequestLimit,
    Tool,
    Window,
    stamp,
)

_NULL = msgspec.Raw(b"null")
_SCRIPT = 'function main(){return Events(params).groupBy(["name"],mixpanel.reducer.count())}'
_HOSTS = {
    "https://data.mixpanel.com": "https://mixpanel.com",
    "https://data-eu.mixpanel.com": "https://eu.mixpanel.com",
    "https://data-in.mixpanel.com": "https://in.mixpanel.com",
}
_EXPIRED = (400, 404, 410)
"""The answers to a page of a session that Mixpanel no longer has."""


class _Profile(msgspec.Struct):
    id: msgspec.Raw = msgspec.field(name="$distinct_id", default=_NULL)
    properties: msgspec.Raw = msgspec.field(name="$properties", default=_NULL)


class _Listed(msgspec.Struct):
    """A page of the Engage API, or the answer with all annotations, which have no profile's fields."""

    results: list[_Profile]
    page: int = 0
    page_size: int = 1_000
    session_id: str = ""
    total: int | None = None


class _Cohort(msgspec.Struct):
    id: int


class _Group(msgspec.Struct):
    key: list[str | None]
    value: int


class _Mixpanel:
    def __init__(self, context: FetchContext) -> None:
        self._asking = context
        self._counts = context.count

    def __call__(self, window: Window, file: Path) -> Fetched:
        context, transport = self._asking, self._asking.transport
        url = f"{context.base}/api/2.0/export"
        days = {"from_date": stamp(window.since), "to_date": stamp(window.until - DAY)}
        reply = transport.download("export", url, days | {"project_id": context.project}, file, _checked)
        if reply.status not in (200, 404):
            transport.fail(f"{window}", url, reply)
        suffix, counts = reply.value if reply.status == 200 else ("", {})
        counted = self._counted(days) if self._counts else None
        return Fetched(suffix, sum(counts.values()), counts, counted)

    def _counted(self, days: Mapping[str, str]) -> Mapping[str, int] | None:
        """Mixpanel's own count by event; None if it gives none; then it is not asked again."""
        form = {"script": _SCRIPT, "params": json.dumps(days)}
        reply = self._asking.transport.ask("query", _query(self._asking, "jql"), form=form)
        try:
            if reply.status == 200:
                groups = msgspec.json.decode(reply.body, type=list[_Group])
                return {group.key[0] or "": group.value for group in groups}
            why = self._asking.transport.described(reply)
        except (msgspec.MsgspecError, IndexError, UnicodeDecodeError, RecursionError):
            why = "its answer is not a list of counts"
        self._asking.warn(f"Mixpanel gives no counts ({why}), so nothing proves that its files are complete")
        self._counts = False
        return None


def _page(context: FetchContext, of: str, number: int, cursor: str) -> Page:
    """A page of what Mixpanel has besides events; only profiles have more than one."""
    transport = context.transport
    if of == "cohorts":
        url = _query(context, "cohorts/list")
        reply = transport.ask("query", url)
        members = tuple(f"cohort:{one.id}" for one in transport.decoded(of, url, reply, list[_Cohort]))
        return Page(content=reply.body, rows=len(members), more=members)
    if of == "annotations":
        url = f"{_host(context)}/api/app/projects/{context.project}/annotations"
        reply = transport.ask("query", url, method="GET")
        return Page(content=reply.body, rows=len(transport.decoded(of, url, reply, _Listed).results))
    kind, _, which = of.partition(":")
    group, _, id = which.rpartition("=")
    form = {"page": str(number), "session_id": cursor} if cursor else {}
    if kind == "cohort":
        form["filter_by_cohort"] = f'{{"id":{which}}}'
    elif kind == "group":
        form["data_group_id"] = id
    url = _query(context, "engage")
    reply = transport.ask("query", url, form=form)
    again = f"Mixpanel no longer has the session that page {number + 1} of {of} belongs to"
    if cursor and reply.status in _EXPIRED:
        raise BeginAgain(f"{again}: {transport.described(reply)}", hint=LATER)
    found = transport.decoded(of, url, reply, _Listed)
    if found.page != number:
        raise BeginAgain(f"{again}: it gave page {found.page + 1}", hint=LATER)
    return Page(
        content=b"".join(_group_line(group, one) for one in found.results) if kind == "group" else reply.body,
        suffix=".jsonl" if kind == "group" else ".json",
        rows=len(found.results),
        key=hashlib.sha256(b"\n".join(bytes(one.id) for one in found.results)).hexdigest()[:16],
        cursor="" if len(found.results) < found.page_size else found.session_id,
        counted=found.total if context.count else None,
        planned=kind != "cohort",
    )


def _group_line(key: str, group: _Profile) -> bytes:
    """A group as a line of its own that names its type, which the answer does not."""
    line = b'{"$group_key":%b,"$group_id":%b,"$properties":%b}' % (
        msgspec.json.encode(key), bytes(group.id), bytes(group.properties)
    )  # fmt: skip
    return line.replace(b"\n", b" ") + b"\n"


def _host(context: FetchContext) -> str:
    """Everything but the export is at another host."""
    return _HOSTS.get(context.base, context.base)


def _query(context: FetchContext, name: str) -> str:
    return f"{_host(context)}/api/query/{name}?project_id={context.project}"


def _checked(file: Path, headers: Mapping[str, str]) -> tuple[str, Mapping[str, int]]:
    suffix = ".jsonl.gz" if headers.get("content-encoding", "").lower() == "gzip" else ".jsonl"
    return suffix, count_events(file)


def _open(context: FetchContext) -> Fetch:
    if not context.project.isdecimal():
        raise UsageError(f"{context.project!r} is not a Mixpanel project id", hint="give its number with --project")
    return _Mixpanel(context)


TOOL = Tool(
    name="mixpanel",
    title="Mixpanel",
    hosts={
        "us": "https://data.mixpanel.com", "eu": "https://data-eu.mixpanel.com", "in": "https://data-in.mixpanel.com"
    },
    keys=("BACKCAST_MIXPANEL_USERNAME", "BACKCAST_MIXPANEL_SECRET"),
    optional=("BACKCAST_MIXPANEL_USERNAME",),
    project=True,
    counts=True,
    step=DAY,
    window=DAY,
    delay=14 * HOUR,  # the day ends last in the zone furthest behind UTC, and is still being written then
    limits=dict.fromkeys(("export", "query"), (RequestLimit(60, 3600), RequestLimit(3, 1))),
    clock="days in the project's time zone",
    open=_open,
    ids=("properties/$insert_id",),
    extras=("people", "cohorts", "annotations", GROUP),
    page=_page,
)  # fmt: skip
