"""Amplitude: the Export API, which returns a zip of gzipped JSON lines for some hours (docs/know/exports.md#amplitude).

Hours are those in which the server received an event, in UTC, and are complete two hours later. 404 means no events in
them, 400 more than 4 GB, so fewer hours have to be requested. There is no count to compare with; a zip has the length
and checksum of each file in it, and a directory at its end, without which it is cut off. Its files are named by their
hours, so hours without a file are asked for once more by themselves: only a 404 says that they have no events. User
properties are in the events; the API of profiles gives one user at a time.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from pipeline.fetch.checking import count_archived_lines
from pipeline.fetch.tool import DAY, HOUR, MORE, Fetch, FetchContext, Fetched, RequestLimit, Tool, Window
from pipeline.survey.file_hours import hours_in, runs_of

_BY_BUCKET = "if one hour has more than 4 GB, let Amplitude export to a bucket and plan from there"


def _hour(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%dT%H")


def _checked(file: Path, headers: Mapping[str, str]) -> int:
    return count_archived_lines(file)


def _lacking(file: Path, window: Window) -> list[Window]:
    """Runs of hours of a window without a file in its zip; none if its files are not named by hours."""
    with zipfile.ZipFile(file) as archive:
        there = {one.first for files in hours_in(archive.namelist()).values() for one in files}
    hours = sorted({*range(window.since // HOUR, window.until // HOUR)} - there) if there else []
    return [Window(first * HOUR, (last + 1) * HOUR) for first, last in runs_of(hours)]


def _open(context: FetchContext) -> Fetch:
    url = f"{context.base}/api/2/export"
    transport = context.transport

    def rows_of(window: Window, file: Path) -> int | None:
        """The rows of some hours, downloaded into a file; None if these have no events."""
        hours = {"start": _hour(window.since), "end": _hour(window.until - HOUR)}  # the last hour is included
        reply = transport.download("export", url, hours, file, _checked)
        if reply.status not in (200, 404):
            transport.fail(f"{window}", url, reply, too_large=400, hint=_BY_BUCKET)
        return int(reply.value) if reply.status == 200 else None

    def fetch(window: Window, file: Path) -> Fetched:
        rows, other = rows_of(window, file), file.with_name(file.name + MORE)
        if rows is None:
            return Fetched()
        more = sum(rows_of(run, other) or 0 for run in _lacking(file, window)) if context.count else 0
        other.unlink(missing_ok=True)
        return Fetched(".zip", rows, {"": rows}, {"": rows + more} if more else None)

    return fetch


TOOL = Tool(
    name="amplitude",
    title="Amplitude",
    hosts={"us": "https://amplitude.com", "eu": "https://analytics.eu.amplitude.com"},
    keys=("BACKCAST_AMPLITUDE_API_KEY", "BACKCAST_AMPLITUDE_SECRET_KEY"),
    project=False,
    counts=False,
    step=HOUR,
    window=DAY,
    delay=2 * HOUR,
    limits={"export": (RequestLimit(4, 1),)},
    clock="hours of upload in UTC",
    open=_open,
    ids=("uuid", "$insert_id"),
)
