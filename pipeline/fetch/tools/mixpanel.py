"""Mixpanel: the Raw Event Export API, day by day, and its own count by JQL (docs/know/exports.md#mixpanel).

60 requests an hour and 3 a second. A day without events is a 404 or an empty 200. Days are in the project's own time
zone (UTC in projects since 2023), in both APIs. The export has duplicates that the count may leave out, so only a file
with fewer events than counted is incomplete.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec

from pipeline.errors import UsageError
from pipeline.fetch.checking import count_events
from pipeline.fetch.tool import DAY, HOUR, Fetch, FetchContext, Fetched, RequestLimit, Tool, Window, stamp

_SCRIPT = 'function main(){return Events(params).groupBy(["name"],mixpanel.reducer.count())}'
_COUNT_HOSTS = {
    "https://data.mixpanel.com": "https://mixpanel.com",
    "https://data-eu.mixpanel.com": "https://eu.mixpanel.com",
    "https://data-in.mixpanel.com": "https://in.mixpanel.com",
}


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
        project = {"project_id": context.project} if context.project else {}
        reply = transport.download("export", url, days | project, file, _checked)
        if reply.status not in (200, 404):
            transport.fail(f"{window}", url, reply)
        suffix, counts = reply.value if reply.status == 200 else ("", {})
        counted = self._counted(days, project) if self._counts else None
        return Fetched(suffix, sum(counts.values()), counts, counted)

    def _counted(self, days: Mapping[str, str], project: Mapping[str, str]) -> Mapping[str, int] | None:
        """Mixpanel's own count by event; None if it gives none; then it is not asked again."""
        url = f"{_COUNT_HOSTS.get(self._asking.base, self._asking.base)}/api/query/jql"
        form = {"script": _SCRIPT, "params": json.dumps(days)}
        parameters = "".join(f"?{name}={value}" for name, value in project.items())
        reply = self._asking.transport.ask("count", url + parameters, form=form)
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


def _checked(file: Path, headers: Mapping[str, str]) -> tuple[str, Mapping[str, int]]:
    suffix = ".jsonl.gz" if headers.get("content-encoding", "").lower() == "gzip" else ".jsonl"
    return suffix, count_events(file)


def _open(context: FetchContext) -> Fetch:
    if context.project and not context.project.isdecimal():
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
    limits=dict.fromkeys(("export", "count"), (RequestLimit(60, 3600), RequestLimit(3, 1))),
    clock="days in the project's time zone",
    open=_open,
)  # fmt: skip
