"""Fetches a window of a tool's events into a folder, piece by piece, committing each before the next begins, and then
what else was asked for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec

from pipeline.delivery.retry import RetryPolicy
from pipeline.errors import UsageError
from pipeline.extractors.fetched import FORMAT, FetchManifest
from pipeline.fetch.chosen import SUFFIX, digest_of_ids, ids_in, keep_chosen, read_list
from pipeline.fetch.extras import fetch_extras, known_extras
from pipeline.fetch.folder import Folder, check_digests, opened
from pipeline.fetch.tool import DAY, HOUR, Fetch, FetchContext, Fetched, Tool, TooLarge, Window, stamp, tools
from pipeline.fetch.transport import Clock, Pace, Transport
from pipeline.files import private
from pipeline.models import Step
from pipeline.option_types import Instant, micros, read_instant
from pipeline.options import FetchOptions
from pipeline.targets import is_loopback

FEWER_TRIES = 3
"""How often a window is downloaded if the tool counts more events than it gave."""
_SLOW = 2 * HOUR


class FetchResult(NamedTuple):
    """A complete fetch: its folder, its manifest, how many windows and pages this run fetched, and those of a list of
    events that the tool did not give."""

    folder: Path
    manifest: FetchManifest
    fetched: int
    missing: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.manifest.windows)

    @property
    def fewer(self) -> int:
        """How many windows have fewer events than the tool counts."""
        return sum(1 for one in self.manifest.windows if one.fewer)

    @property
    def short(self) -> tuple[str, ...]:
        """What the tool counts more of than it gave, besides events."""
        return tuple(one.of for one in self.manifest.pages if one.fewer)

    @property
    def counted(self) -> int:
        return sum(1 for one in self.manifest.windows if one.counted is not None)


@private()
def fetch_export(
    tool: str,
    between: tuple[Instant | str, Instant | str],
    folder: str | os.PathLike[str],
    options: FetchOptions | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    progress: Step = lambda name, done, total: None,
    warn: Callable[[str], None] = lambda line: None,
    clock: Clock | None = None,
) -> FetchResult:
    """Download the events of a tool between two moments, the second one excluded, into a folder for `plan`.

    `tool` is mixpanel, amplitude or posthog; a moment is a date or time as a string, a datetime with an offset, or µs
    since 1970. The keys are read from `environment`. A fetch that was stopped continues when this is called again with
    the same options; if it ended, windows for which the tool counts more events than it gave are fetched again.
    `progress` is called with the window that begins, and how many seconds of the total are done.

    Raises UsageError, Refused if the tool refuses a request, Unfinished if it cannot answer now, Busy, and
    UnreadableExport if a fetched file has changed.
    """
    known = tools()
    if tool not in known:
        raise UsageError(f"cannot fetch from {tool!r}", hint=f"fetch from {', '.join(known)}")
    options = options or FetchOptions()
    chosen = known[tool]
    base = chosen.address(options.host)
    whole, secrets = _whole(chosen, between, base), chosen.secrets(environment)
    project = (options.project or "").strip()
    if chosen.project and not project:
        raise UsageError(f"{chosen.title} needs the id of the project", hint="add --project ID")
    if options.by != "event" and not chosen.ingestion:
        raise UsageError(f"{chosen.title} has no windows of the time of {options.by}", hint="leave out --by")
    extras = known_extras(chosen, options.extras)
    ids = read_list(options.uuids, chosen)
    length = _length(chosen, options.window)
    first = whole.divided(-(-(whole.until - whole.since) // length), chosen.step)
    if ids and chosen.picks:
        first = [whole]
    fresh = FetchManifest(
        format=FORMAT, windows=(), extras=extras, waiting=extras, uuids=digest_of_ids(ids), tool=tool,
        host=base, project=project, since=stamp(whole.since), until=stamp(whole.until),
        count=options.count, window=length, left=tuple((stamp(one.since), stamp(one.until)) for one in first),
        by=options.by,
    )  # fmt: skip
    pace = Pace(chosen.limits, clock or Clock())
    retry = RetryPolicy(options.retry_for, first=options.first_pause, most=options.longest_pause)
    with closing(Transport(base, secrets, pace, retry, timeout=options.timeout, ca_file=options.ca_file)) as transport:
        context = FetchContext(
            base=base, project=project, transport=transport, count=options.count, warn=warn, ids=ids, by=options.by
        )
        fetch = chosen.open(context)
        with opened(Path(folder), fresh) as place:
            fetched = 0
            place.reopen()
            if place.left or place.manifest.waiting:
                _warn_of_hours(chosen, len(place.left), warn)
                fetched = _fetch_all(place, fetch, chosen, whole, progress, frozenset() if chosen.picks else ids)
                if chosen.page is not None:
                    length = whole.until - whole.since
                    fetched += fetch_extras(place, chosen.page, context, lambda of: progress(of, length, length))
            else:
                check_digests(place.path, place.manifest)
            missing = set(ids)
            for one in place.manifest.files if ids else ():
                missing.difference_update(ids_in(place.path / one.file, chosen.ids))
            return FetchResult(place.path, place.manifest, fetched, tuple(sorted(missing)))


def _fetch_all(place: Folder, fetch: Fetch, tool: Tool, whole: Window, progress: Step, ids: frozenset[str]) -> int:
    """Fetch every remaining window, and keep only the events with these ids if there are any. Returns how many. The
    counts of a window and their comparison are those of all its events."""
    fetched = 0
    while place.left:
        window = place.left[0]
        progress(stamp(window.since), window.since - whole.since, whole.until - whole.since)
        try:
            found = _fetch_counted(fetch, window, place.partial())
        except TooLarge as error:
            pieces = window.divided(max(2, error.pieces), tool.step)
            if len(pieces) < 2:
                raise error.final from None
            place.divide(pieces)
        else:
            if ids and found.rows:
                rows = keep_chosen(place.partial(), found.suffix == ".zip", tool.ids, ids)
                found = msgspec.structs.replace(found, suffix=SUFFIX, rows=rows)
            place.commit(found)
            fetched += 1
    return fetched


def _fetch_counted(fetch: Fetch, window: Window, file: Path) -> Fetched:
    """The result of a window, fetched again if the tool counts more events than it gave."""
    for _ in range(FEWER_TRIES - 1):
        found = fetch(window, file)
        if not found.fewer:
            return found
    return fetch(window, file)


def _whole(tool: Tool, between: tuple[Instant | str, Instant | str], base: str) -> Window:
    """The window of the whole fetch. A service on this machine has all events at once. Raises UsageError."""
    edges = []
    for name, moment in zip(("since", "until"), between, strict=True):
        found = read_instant(moment) if isinstance(moment, str) else micros(moment, name)
        seconds, rest = divmod(found or 0, 1_000_000)
        if rest or seconds % tool.step:
            unit = {DAY: "a day", HOUR: "an hour"}.get(tool.step, "a second")
            raise UsageError(
                f"--{name} must be the start of {unit}: {tool.title} exports {tool.clock}",
                hint="write 2024-01-31" if tool.step == DAY else "write 2024-01-31 or 2024-01-31T05:00:00Z",
            )
        edges.append(seconds)
    if edges[0] >= edges[1]:
        raise UsageError("--since is not before --until", hint="give a --until that is later than --since")
    complete = int(time.time()) - (0 if is_loopback(base) else tool.delay)
    if edges[1] > complete:
        raise UsageError(
            f"{tool.title} may not have all events before {stamp(edges[1])} yet",
            hint=f"use --until {stamp(complete - complete % tool.step)} or earlier, and fetch the rest later",
        )
    return Window(*edges)


def _length(tool: Tool, window: float | None) -> int:
    """The length of the first window in seconds. Raises UsageError."""
    length = int(window or tool.window)
    if length < tool.step or length % tool.step or (window and length != window):
        unit = {DAY: "whole days", HOUR: "whole hours"}.get(tool.step, "whole seconds")
        hint = "write --window 1d or 7d" if tool.step == DAY else "write --window 12h or 1d"
        raise UsageError(f"--window must be {unit} for {tool.title}", hint=hint)
    return length


def _warn_of_hours(tool: Tool, windows: int, warn: Callable[[str], None]) -> None:
    """Warn about how long a long fetch takes because of the tool's limits."""
    for limits in tool.limits.values():
        limit = max(limits, key=lambda limit: limit.seconds)
        seconds = (windows // limit.requests) * limit.seconds
        if seconds >= _SLOW:
            warn(
                f"{windows:,} windows take {seconds / HOUR:,.0f} hours or more, since {tool.title} allows"
                f" {limit.requests:,} requests in {limit.seconds / HOUR:g} h; a longer --window needs fewer"
            )
            return
