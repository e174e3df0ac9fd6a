"""Amplitude: the Export API, which returns a zip of gzipped JSON lines for some hours (docs/know/exports.md#amplitude).

Hours are those in which the server received an event, in UTC, and are complete two hours later. 404 means no events in
them, 400 more than 4 GB, so fewer hours have to be requested. There is no count to compare with; a zip has the length
and checksum of each file in it, and a directory at its end, without which it is cut off. User properties are in the
events; the API of profiles gives one user at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from pipeline.fetch.checking import count_archived_lines
from pipeline.fetch.tool import DAY, HOUR, Fetch, FetchContext, Fetched, RequestLimit, Tool, Window

_BY_BUCKET = "if one hour has more than 4 GB, let Amplitude export to a bucket and plan from there"


def _hour(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%dT%H")


def _checked(file: Path, headers: Mapping[str, str]) -> int:
    return count_archived_lines(file)


def _open(context: FetchContext) -> Fetch:
    url = f"{context.base}/api/2/export"
    transport = context.transport

    def fetch(window: Window, file: Path) -> Fetched:
        hours = {"start": _hour(window.since), "end": _hour(window.until - HOUR)}  # the last hour is included
        reply = transport.download("export", url, hours, file, _checked)
        if reply.status == 200:
            return Fetched(".zip", reply.value)
        if reply.status != 404:
            transport.fail(f"{window}", url, reply, too_large=400, hint=_BY_BUCKET)
        return Fetched()

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
