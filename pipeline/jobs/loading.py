"""Reads a job file: strict YAML in, `Job` out, or a JobError at file:line:column.

The keys are a stable contract. Every value is checked here, so a job that starts does not fail because of a wrong value
in its file. Options of a plan or an apply are declared in `pipeline.options`, with their keys in a job file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import Field, fields
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pipeline.errors import JobError, UsageError, WrongFile
from pipeline.jobs.calendar import Calendar
from pipeline.jobs.job import RULES, Job, PathTemplate
from pipeline.mapper.language.loader import Reader, nearest
from pipeline.option_types import Checked, Option, option_of, read_names, read_provenance, zones_of
from pipeline.options import ApplyOptions, PauseOptions, PlanOptions, VerifyOptions
from pipeline.plan.check_rules import read_rules
from pipeline.timestamps import HOUR

if TYPE_CHECKING:
    import yaml

T = TypeVar("T")

OWN_KEYS = {
    "job": "the job's name, in letters, digits, dots, hyphens and underscores",
    "source": "where the files of a window are, such as exports/{date:%Y/%m/%d}/*.jsonl.gz or s3://BUCKET/{date:%Y/%m/%d}",
    "window": "day or hour",
    "window_timezone": "the calendar of the paths",
    "from": "the first window",
    "until": "the first window after the job's last",
    "lag": "how long after its end a window is due, such as 49h",
    "lookback": "how many windows are checked again for new or changed files",
    "changed": "stop, send-new or ignore: what to do when files of a finished window were exported again",
    "live": "cut: fill only up to the first live event of the target; or allow",
    "merges": "hold, or {up-to: N}",
    "to": "us, eu or a URL",
    "state": "where plans, ledgers and the history are stored",
    "missing": "wait, done or stop: what to do about a window without files",
    "keep": "discard the events of a window that was sent and verified this long ago, such as 30d",
}
"""The keys that only a job has; the other keys are those of the options in `STEPS` that have one."""
STEPS: tuple[type[Checked], ...] = (PlanOptions, PauseOptions, ApplyOptions, VerifyOptions)
"""The options of a window's steps. One key of a job file may be an option of several of them."""
REQUIRED = ("job", "source", "mapping", "from", "persons", "to")
NOT_PROMOTED = (
    "a window has only its own events, so the last values of one that runs late would overwrite newer ones",
    "plan the whole export at once with --promoted-properties final, or leave what the service promotes",
)
LEAST_LAG = 48 * HOUR
"""The service bills younger events as live ones, so all of them would be rejected (code `recent_timestamp`)."""


def load_job(file: str | Path) -> Job:
    """The job of a file. Raises JobError, and UsageError if the file cannot be read."""
    path = Path(file)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(
            f"cannot read the job file {path}: {why}", hint="name a YAML file: backcast run JOB.yaml"
        ) from None
    reader = Reader(str(path), JobError)
    table = _Table(reader, reader.compose(text), "a job", job_keys(), REQUIRED)
    kind = table.choice("window", ("day", "hour"))
    calendar = Calendar(kind, table.value("window_timezone", lambda zone: Calendar(kind, zone).zone, "UTC"))
    first = table.value("from", calendar.window)
    until = table.optional("until", calendar.window)
    if until is not None and until.label <= first.label:
        raise table.wrong("until", "the job would have no window", "`until` is the first window after the last one")
    name = table.value("job", _name)
    folder = path.absolute().parent
    to = table.value("to", _target)
    plan = _options(PlanOptions, table, folder)
    _refuse_promoted(table)
    return Job(
        file=path,
        name=name,
        source=table.value("source", lambda text: PathTemplate(text, kind)),
        calendar=calendar,
        first=first,
        until=until,
        lag=table.value("lag", _lag, "49h"),
        lookback=table.value("lookback", lambda text: _whole(text, 0), "0"),
        changed=table.choice("changed", RULES) if "changed" in table else "",
        live=table.choice("live", ("cut", "allow")),
        most_merges=_merges(table),
        to=to,
        state=folder / table.value("state", _local, f"state/{name}"),
        missing=table.choice("missing", ("wait", "done", "stop")),
        keep=table.optional("keep", _length),
        plan=PlanOptions(**{"canary": 0, **plan}, target=to),
        checks=PauseOptions(**_options(PauseOptions, table, folder)),
        apply=ApplyOptions(**_options(ApplyOptions, table, folder), canary=bool(plan.get("canary"))),
        verify=VerifyOptions(**_options(VerifyOptions, table, folder)),
    )


def _declared(kind: type[Checked]) -> Iterator[tuple[str, Field[Any], Option]]:
    """(key, field, declaration) of every option that has a key in a job file."""
    for field in fields(kind):  # type: ignore[arg-type]
        option = option_of(field)
        if option.job:
            yield option.job, field, option


def job_keys() -> dict[str, str]:
    """Each key of a job file with its meaning; the meaning of a table includes the keys inside it."""
    keys = dict(OWN_KEYS)
    for key, help in {key: option.job_help for kind in STEPS for key, _, option in _declared(kind)}.items():
        outer, _, inner = key.partition(".")
        help = f"{{{inner}: …}}: {help}" if inner else help
        keys[outer] = f"{keys[outer]}; {help}" if outer in keys else help
    return keys


def _options(kind: type[Checked], table: _Table, folder: Path) -> dict[str, Any]:
    """The options that the file gives, by the names of their fields."""
    inner: dict[str, list[str]] = {}
    for key in (key for step in STEPS for key, _, _ in _declared(step)):  # several steps may have keys in one table
        outer, dot, name = key.partition(".")
        if dot and name not in inner.setdefault(outer, []):
            inner[outer].append(name)
    tables = {
        outer: table.below(outer, (), (*names, *_REFUSED.get(outer, ())))
        for outer, names in inner.items()
        if outer in table
    }
    values = {}
    for key, field, option in _declared(kind):
        outer, dot, name = key.partition(".")
        inside = tables.get(outer) if dot else table
        if inside is not None and (name or outer) in inside:
            values[field.name] = _value(field, option, inside, name or outer, folder)
    return values


def _value(field: Field[Any], option: Option, table: _Table, key: str, folder: Path) -> Any:
    """The value of an option, read as its declaration says."""
    if field.name in _READERS:
        return _READERS[field.name](table, key, folder)
    if option.job_words is not None:
        return table.choice(key, option.job_words) == option.job_words[1]
    if option.choices:
        return table.choice(key, option.choices)
    if option.path:
        return table.value(key, lambda text: _existing(folder / text) if option.exists else folder / _filled(text))
    if option.many:
        return table.values(key, str)
    if option.read is not None:
        return table.value(key, option.read)
    if isinstance(field.default, float) and option.above is not None:
        above = option.above
        return table.value(key, lambda text: _more_than(text, above))
    if option.above is not None or option.least is not None:
        return table.value(key, lambda text: _whole(text, max(1, int(option.least or 0))))
    return table.value(key, str)


class _Table:
    """A table of the file with a fixed set of keys."""

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
                raise reader.wrong(node, f"{name} lacks {key!r}", f"{key}: {job_keys().get(key, '…')}")

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def wrong(self, key: str, message: str, hint: str) -> Exception:
        return self._reader.wrong(self._entries[key], message, hint)

    def optional(self, key: str, read: Callable[[str], T]) -> T | None:
        """A value, or None if the key is absent."""
        return self.value(key, read) if key in self else None

    def value(self, key: str, read: Callable[[str], T], default: str = "") -> T:
        """The value that `read` returns for the text; its UsageError becomes an error with the line and column."""
        if key not in self:
            return read(default)
        return self._read(self._entries[key], key, read)

    def values(self, key: str, read: Callable[[str], T]) -> list[T]:
        """A value or a list of them."""
        if key not in self:
            return []
        node = self._entries[key]
        items = node.value if isinstance(node.value, list) and not self.is_table(key) else [node]
        return [self._read(item, key, read) for item in items]

    def texts(self, key: str) -> dict[str, str]:
        """A table of strings."""
        if key not in self:
            return {}
        table = self._reader.table(self._entries[key], key)
        return {name: self._reader.text(node, name) for name, node in table.items()}

    def whole(self, key: str, read: Callable[[Reader, yaml.Node], T]) -> T:
        """What `read` makes of the node of a key."""
        return read(self._reader, self._entries[key])

    def choice(self, key: str, words: tuple[str, ...]) -> str:
        """One of these words; the first if the key is absent."""
        return self._reader.choice(self._entries[key], words, key) if key in self else words[0]

    def is_table(self, key: str) -> bool:
        """Whether the value of a key is a table."""
        return bool(getattr(self._entries[key], "id", "") == "mapping")

    def below(self, key: str, keys: tuple[str, ...], others: tuple[str, ...] = ()) -> _Table:
        """The table under a key, which must have all of these keys, may have the others, and has no more."""
        return _Table(self._reader, self._entries[key], repr(key), keys + others, keys)

    def _read(self, node: Any, key: str, read: Callable[[str], T]) -> T:
        text = self._reader.text(node, key)
        try:
            return read(text)
        except WrongFile:
            raise  # an error of another file has its own line and column
        except UsageError as error:
            raise self._reader.wrong(node, f"{key}: {error.message}", error.hint) from None


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", text):
        raise UsageError(f"{text!r} is not a name", hint="use letters, digits, dots, hyphens and underscores")
    return text


def _local(text: str) -> str:
    if "://" in text:
        raise UsageError(
            f"the state of a job must be on a disk, not in {text.partition('://')[0]}://: its ledgers are written"
            " before each request, which no store can do",
            hint="name a folder on this machine",
        )
    return _filled(text)


def _filled(text: str) -> str:
    if not text:
        raise UsageError("the path is empty", hint="name a path, or delete the line")
    return text


def _mapping(text: str, folder: Path) -> str:
    """A shipped mapping's name, or the path of a file that is a valid mapping."""
    from pipeline.mapper import load

    path = str(folder / text) if (folder / text).is_file() else text
    if load(path).persons.promoted == "final":
        raise UsageError(f"{text} has `promoted: final` for persons; {NOT_PROMOTED[0]}", hint=NOT_PROMOTED[1])
    return path


_REFUSED = {"persons": ("promoted",)}
"""Keys inside a table that are refused with a reason of their own."""


def _refuse_promoted(table: _Table) -> None:
    persons = table.below("persons", ("properties",), _REFUSED["persons"])
    if persons.choice("promoted", ("leave", "final")) == "final":
        raise persons.wrong("promoted", *NOT_PROMOTED)


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise UsageError(f"{path} does not exist", hint="check the path; it is relative to the job file")
    return path


def _timezone(table: _Table, key: str, folder: Path) -> tuple[str, ...]:
    def checked(text: str) -> str:
        zones_of(text)
        return text

    texts = tuple(table.values(key, checked))
    try:
        zones_of(texts)
    except UsageError as error:
        raise table.wrong(key, error.message, error.hint) from None
    return texts


_LENGTH = re.compile(r"(\d{1,6})(h|d)", re.ASCII)


def _length(text: str) -> int:
    match = _LENGTH.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not a length of time", hint="write hours or days, such as 49h or 3d")
    return int(match[1]) * (HOUR if match[2] == "h" else 24 * HOUR)


def _lag(text: str) -> int:
    lag = _length(text)
    if lag < LEAST_LAG:
        raise UsageError(
            f"after {text} events are under 48 hours old, and the service bills those as live ones",
            hint="write 48h or more; 49h leaves an hour for late clocks",
        )
    return lag


def _whole(text: str, least: int) -> int:
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII) or int(text) < least:
        raise UsageError(f"{text!r} is not a whole number of {least} or more", hint=f"write {max(least, 2)}")
    return int(text)


def _more_than(text: str, above: float) -> float:
    if not re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", text, re.ASCII) or float(text) <= above:
        raise UsageError(f"{text!r} is not a number above {above:g}", hint=f"write {2 * above:g} or {above + 0.5:g}")
    return float(text)


def _allowed(text: str) -> str:
    from pipeline.plan.checks import parse_limit

    try:
        parse_limit(text)
    except UsageError as error:
        raise UsageError(error.message, hint="write a number such as 100, or a percentage such as 0.1%") from None
    return text


def _target(text: str) -> str:
    from pipeline.targets import address_of, files_of

    address_of(text)
    if files_of(text) is not None:
        raise UsageError(
            f"a job sends only to a service, not to {text!r}",
            hint="write files with `backcast apply --to file:DIR|s3://…`",
        )
    return text


def _provenance(table: _Table, key: str, folder: Path) -> bool | tuple[str, ...]:
    try:
        return read_provenance(",".join(table.values(key, str)))
    except UsageError as error:
        raise table.wrong(key, error.message, error.hint) from None


def _merges(table: _Table) -> int | None:
    """How many merges a window may send; None if they are held back."""
    if "merges" not in table or not table.is_table("merges"):
        table.choice("merges", ("hold",))
        return None
    return table.below("merges", ("up-to",)).value("up-to", lambda text: _whole(text, 1))


_READERS: Mapping[str, Callable[[_Table, str, Path], Any]] = {
    "mapping": lambda table, key, folder: table.value(key, lambda text: _mapping(text, folder)),
    "timezone": _timezone,
    "earlier": lambda table, key, folder: tuple(
        one if "://" in one else str(folder / one) for one in table.values(key, _filled)
    ),
    "provenance": _provenance,
    "settings": lambda table, key, folder: table.texts(key),
    "checks": lambda table, key, folder: table.whole(key, read_rules),
    "group_types": lambda table, key, folder: tuple(chain.from_iterable(table.values(key, read_names))),
    **dict.fromkeys(
        ("max_rejects", "max_already_there", "max_unmapped"), lambda table, key, folder: table.value(key, _allowed)
    ),
}
"""How to read an option, by its name, if its declaration does not say."""
