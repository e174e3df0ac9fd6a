"""Which rows of an export are sent, and which are copies without any effect; and how an export states rows."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

DAY = 24 * 3600
START = datetime(2024, 1, 1, tzinfo=UTC)
"""Moments are seconds from here."""


@dataclass(frozen=True)
class Row:
    """A row. `kind` is event, profile (what a person is) or group (what a group is); `group` is its (type, key)."""

    kind: str
    key: str
    at: int
    received: int | None = None
    user: str = ""
    device: str = ""
    name: str = ""
    group: tuple[str, str] | None = None
    values: tuple[tuple[str, Any], ...] = ()

    @property
    def distinct_id(self) -> str:
        """The user if it is known, otherwise the device (docs/use/sources/tables.md, docs/use/sources/segment.md)."""
        return self.user or self.device

    @property
    def event(self) -> tuple[str, str, int]:
        """Rows of one key that differ in name, person or UTC day are several events, which the target keeps separate
        (docs/know/service.md, Uuids and duplicates; docs/use/failures.md, key_not_unique)."""
        return self.name, self.distinct_id, self.at // DAY


@dataclass
class Standing:
    """The rows that are sent, the copies by code, the keys of several events, and the rows between which content
    decides."""

    rows: list[Row] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=lambda: Counter(duplicate_event=0, superseded=0))
    clashes: set[str] = field(default_factory=set)
    tied: set[Row] = field(default_factory=set)


def standing(
    rows: Iterable[Row], picks: Iterable[Row] = (), earliest: bool = False, collapse: bool = False
) -> Standing:
    """If rows have one key, the last one received is sent, with `earliest` the first one; then the latest; then that of
    the greatest content, which is one of `picks` (docs/change/architecture.md, Duplicates). A row without a time of
    receipt comes after those that have one: the documents do not say."""
    found, keys = Standing(), defaultdict(list)
    for row in rows:
        keys[row.key and (row.kind, row.key)].append(row)
    for row, times in Counter(keys.pop("", ())).items():  # identical rows without a key are separate events (the same)
        found.rows += [row] * (1 if collapse else times)
        found.skipped["duplicate_event"] += times - 1 if collapse else 0
    for copies in keys.values():
        if len({one.event for one in copies}) > 1:
            found.clashes.add(copies[0].key)
        sign = -1 if earliest else 1
        rank = {one: (one.received is not None, sign * (one.received or 0), one.at) for one in copies}
        best = {one for one in copies if rank[one] == max(rank.values())}
        found.tied |= best if len(best) > 1 else set()
        winner = min(best.intersection(picks) or best, key=repr)
        found.rows.append(winner)
        found.skipped["duplicate_event"] += copies.count(winner) - 1  # their content is equal (the same)
        found.skipped["superseded"] += len(copies) - copies.count(winner)
    return found


def instant(seconds: int | None) -> str | None:
    """How an export writes a moment."""
    return None if seconds is None else f"{START + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"


def segment_call(row: Row) -> dict[str, Any]:
    """A row as a call of Segment (docs/know/exports.md, docs/use/sources/segment.md)."""
    call = {"messageId": row.key, "timestamp": instant(row.at), "receivedAt": instant(row.received)}
    call |= {"userId": row.user or None, "anonymousId": row.device or None}
    values = dict(row.values)
    if row.kind == "event":
        return call | {"type": "track", "event": row.name, "properties": values | {"key": row.key}}
    if row.group:
        return call | {"type": "group", "groupId": row.group[1], "traits": values | {"groupType": row.group[0]}}
    return call | {"type": "identify", "traits": values}


def table_row(row: Row) -> dict[str, Any]:
    """A row of a table of your own, with its time of receipt if there is one (docs/use/sources/tables.md)."""
    texts = {"event": row.name, "distinct_id": row.user, "anonymous_id": row.device, "timestamp": instant(row.at)}
    got = {} if row.received is None else {"got": instant(row.received)}
    return texts | got | {"uuid": row.key, "key": row.key} | dict(row.values)
