"""Reads a job file: strict YAML in, `Job` out, or a JobError at file:line:column.

The keys are a stable contract. Every value is checked here, so that a job that starts fails for nothing
that its file could have told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pipeline.errors import JobError, UsageError, WrongFile
from pipeline.jobs.calendar import Calendar
from pipeline.jobs.job import Job
from pipeline.jobs.template import PathTemplate
from pipeline.mapper.loader import Reader, nearest
from pipeline.timestamps import HOUR, ZoneClock

if TYPE_CHECKING:
    import yaml

T = TypeVar("T")

KEYS = {
    "job": "the job's name, in letters, digits, dots, hyphens and underscores",
    "source": "where the files of a window lie, such as exports/{date:%Y/%m/%d}/*.jsonl.gz",
    "mapping": "a shipped mapping, or a file relative to the job file",
    "set": "settings of the mapping, name: value",
    "timezone": "the zone of a tool that writes local times; a list with ZONE@DATE where it changed",
    "window": "day or hour",
    "window_timezone": "the calendar of the paths",
    "from": "the first window",
    "until": "the first window that is not the job's any more",
    "lag": "how long after its end a window is due, such as 49h",
    "lookback": "how many windows are looked at again for new or changed files",
    "collapse": "none, or identical where rows have no source key",
    "persons": "{properties: none}, or final where the files hold profiles alone",
    "merges": "hold, or {up-to: N}",
    "to": "us, eu or a URL",
    "state": "where plans, ledgers and the history are kept",
    "missing": "wait, done or stop: what to do about a window without files",
    "gates": "{max_rejects: 0.1%, key_conflicts: allow}: rows that may be rejected (0), and rows of one key that are"
    " different events (stop)",
    "rate": "events a second at most",
    "name": "a name for this import, carried by every event",
    "exclude_ids": "a file of ids to leave out, one a line",
}
REQUIRED = ("job", "source", "mapping", "from", "persons", "to")
NOT_PROMOTED = (
    "a window knows only its own events, so the last values of one that comes late would overwrite newer ones",
    "plan the whole export at once with --promoted-properties final, or leave what the service promotes",
)
LEAST_LAG = 48 * HOUR
"""The service bills younger events as live ones (docs/know/service.md#historical-migration): all would be rejected."""


def load_job(file: str | Path) -> Job:
    """The job of a file. Raises JobError, and UsageError where the file cannot be read."""
    path = Path(file)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(
            f"cannot read the job file {path}: {why}", hint="name a YAML file: backcast run JOB.yaml"
        ) from None
    reader = Reader(str(path), JobError)
    table = _Table(reader, reader.compose(text), "a job", KEYS, REQUIRED)
    kind = table.choice("window", ("day", "hour"))
    calendar = Calendar(kind, table.one("window_timezone", lambda zone: Calendar(kind, zone).zone, "UTC"))
    first = table.one("from", calendar.window)
    until = table.optional("until", calendar.window)
    if until is not None and until.label <= first.label:
        raise table.wrong(
            "until", "the job would have no window", "`until` is the first window that is not its any more"
        )
    name = table.one("job", _name)
    folder = path.absolute().parent
    gates = table.below("gates", (), ("max_rejects", "key_conflicts")) if "gates" in table else None
    return Job(
        file=path,
        name=name,
        source=table.one("source", lambda text: PathTemplate(text, kind)),
        mapping=table.one("mapping", lambda text: _mapping(text, folder)),
        settings=table.texts("set"),
        zones=_zones(table),
        calendar=calendar,
        first=first,
        until=until,
        lag=table.one("lag", _lag, "49h"),
        lookback=table.one("lookback", lambda text: _whole(text, 0), "0"),
        collapse=table.choice("collapse", ("none", "identical")) == "identical",
        person_properties=_person_properties(table),
        most_merges=_merges(table),
        to=table.one("to", _target),
        state=folder / table.one("state", _filled, f"state/{name}"),
        missing=table.choice("missing", ("wait", "done", "stop")),
        max_rejects=gates.one("max_rejects", _allowed, "0") if gates is not None else "0",
        key_conflicts=gates is not None and gates.choice("key_conflicts", ("stop", "allow")) == "allow",
        rate=table.optional("rate", lambda text: _whole(text, 1)),
        import_name=table.one("name", str, ""),
        exclude_ids=table.optional("exclude_ids", lambda text: _existing(folder / text)),
    )


class _Table:
    """A table of the file whose keys are known."""

    def __init__(
        self, reader: Reader, node: yaml.Node | None, name: str, keys: Collection[str], required: Collection[str] = ()
    ) -> None:
        if node is None:
            raise reader.wrong(None, f"{name} is empty", "write " + ", ".join(f"{key}: …" for key in required))
        self._reader = reader
        self._node = node
        self._entries = reader.table(node, name)
        for key in self._entries:
            if key not in keys:
                raise reader.wrong(reader.key(node, key), f"{name} has no key {key!r}", nearest(key, keys))
        for key in required:
            if key not in self._entries:
                raise reader.wrong(node, f"{name} lacks {key!r}", f"{key}: {KEYS.get(key, '…')}")

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def wrong(self, key: str, message: str, hint: str) -> Exception:
        return self._reader.wrong(self._entries[key], message, hint)

    def optional(self, key: str, read: Callable[[str], T]) -> T | None:
        """A value, or None where the key is absent."""
        return self.one(key, read) if key in self else None

    def one(self, key: str, read: Callable[[str], T], default: str = "") -> T:
        """A value, as `read` understands its text; what it says of a wrong one is told with the place."""
        if key not in self:
            return read(default)
        return self._read(self._entries[key], key, read)

    def many(self, key: str, read: Callable[[str], T]) -> list[T]:
        """A value or a list of them."""
        if key not in self:
            return []
        node = self._entries[key]
        items = node.value if isinstance(node.value, list) and not self.is_table(key) else [node]
        return [self._read(item, key, read) for item in items]

    def texts(self, key: str) -> dict[str, str]:
        """A table of texts."""
        if key not in self:
            return {}
        table = self._reader.table(self._entries[key], key)
        return {name: self._reader.text(node, name) for name, node in table.items()}

    def choice(self, key: str, words: tuple[str, ...]) -> str:
        """One of these words; the first where the key is absent."""
        return self._reader.choice(self._entries[key], words, key) if key in self else words[0]

    def is_table(self, key: str) -> bool:
        """Whether a table stands under a key."""
        return bool(getattr(self._entries[key], "id", "") == "mapping")

    def below(self, key: str, keys: tuple[str, ...], others: tuple[str, ...] = ()) -> _Table:
        """The table under a key, which has all of these keys, may have the others, and has no more."""
        return _Table(self._reader, self._entries[key], repr(key), keys + others, keys)

    def _read(self, node: Any, key: str, read: Callable[[str], T]) -> T:
        text = self._reader.text(node, key)
        try:
            return read(text)
        except WrongFile:
            raise  # another file, with a place of its own
        except UsageError as error:
            raise self._reader.wrong(node, f"{key}: {error.message}", error.hint) from None


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", text):
        raise UsageError(f"{text!r} is no name", hint="take letters, digits, dots, hyphens and underscores")
    return text


def _filled(text: str) -> str:
    if not text:
        raise UsageError("it is empty", hint="name a folder")
    return text


def _mapping(text: str, folder: Path) -> str:
    """A shipped mapping's name, or the path of a file; proved to be readable."""
    from pipeline.mapper import load

    path = str(folder / text) if (folder / text).is_file() else text
    if load(path).persons.promoted == "final":
        raise UsageError(f"{text} says `promoted: final` of persons; {NOT_PROMOTED[0]}", hint=NOT_PROMOTED[1])
    return path


def _person_properties(table: _Table) -> str:
    persons = table.below("persons", ("properties",), ("promoted",))
    if persons.choice("promoted", ("leave", "final")) == "final":
        raise persons.wrong("promoted", *NOT_PROMOTED)
    return persons.choice("properties", ("none", "final"))


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise UsageError(f"there is no file {path}", hint="check the path; it is relative to the job file")
    return path


def _zones(table: _Table) -> tuple[tuple[str, str], ...]:
    def zone(text: str) -> tuple[str, str]:
        name, _, since = text.partition("@")
        ZoneClock([(name, since)])
        return name, since

    zones = tuple(table.many("timezone", zone))
    try:
        ZoneClock(zones)
    except UsageError as error:
        raise table.wrong("timezone", error.message, error.hint) from None
    return zones


_LENGTH = re.compile(r"(\d{1,6})(h|d)", re.ASCII)


def _lag(text: str) -> int:
    found = _LENGTH.fullmatch(text)
    if found is None:
        raise UsageError(f"not a length of time: {text!r}", hint="write hours or days, such as 49h or 3d")
    lag = int(found[1]) * (HOUR if found[2] == "h" else 24 * HOUR)
    if lag < LEAST_LAG:
        raise UsageError(
            f"after {text} events are under 48 hours old, and the service bills those as live ones",
            hint="write 48h or more; 49h leaves an hour for late clocks",
        )
    return lag


def _whole(text: str, least: int) -> int:
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII) or int(text) < least:
        raise UsageError(f"not a whole number from {least}: {text!r}", hint=f"write {max(least, 2)}")
    return int(text)


def _allowed(text: str) -> str:
    from pipeline.plan.checks import parse_reject_limit

    try:
        parse_reject_limit(text)
    except UsageError as error:
        raise UsageError(
            error.message, hint="write a number of rows such as 100, or a percentage such as 0.1%"
        ) from None
    return text


def _target(text: str) -> str:
    from pipeline.targets import address_of

    address_of(text)
    return text


def _merges(table: _Table) -> int | None:
    """How many merges a window may send, None where they are held back."""
    if "merges" not in table or not table.is_table("merges"):
        table.choice("merges", ("hold",))
        return None
    return table.below("merges", ("up-to",)).one("up-to", lambda text: _whole(text, 1))
