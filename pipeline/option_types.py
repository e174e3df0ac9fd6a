"""What the declaration of an option is, and how strings from a command line or a job file become values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pipeline.errors import UsageError

PathText = str | PathLike[str]
Instant = datetime | int
"""A moment: a datetime with an offset, or microseconds since 1970 in UTC."""
FirstLive = Literal["first-live"]
FIRST_LIVE: FirstLive = "first-live"
"""Stands for the moment of the target's first live event."""


class CheckRule(NamedTuple):
    """What a person decided about one check of a plan. `level` is `stop`, `warning`, `ignore`, or "" for the check's
    own. `accepted` is why its findings are accepted, or "". `limits` are values of options, by their key in a file."""

    level: str = ""
    accepted: str = ""
    limits: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """How one option is spelt and explained.

    `flags` are its spellings on the command line; a field that is True by default has a flag that makes it False.
    `least` and `most` bound a number; it must be more than `above`. `many`: the flag can be repeated. `read` turns
    the string from the command line (the strings, for `many`) into the value and raises UsageError. `path` is what the
    path must be, "file" or "folder", and `exists` whether it must exist. `complete` is the list that a shell offers,
    one of `pipeline.cli.common.COMPLETIONS`. `shown`: help shows the default; a string says how to write it.
    `without` says what applies if there is no default. `off` is a second flag, which makes the value False, and its
    help.
    `checks` are the names of the checks of a plan that the option limits, separated by spaces.
    `job` is its key in a job file, `table.key` inside a table; `job_words` are how the file spells False and True.
    """

    flags: tuple[str, ...] = ()
    help: str = ""
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    above: float | None = None
    many: bool = False
    read: Callable[[Any], Any] | None = None
    path: str = ""
    exists: bool = True
    complete: str = ""
    shown: bool | str = False
    without: str = ""
    off: tuple[str, str] | None = None
    checks: str = ""
    job: str = ""
    job_help: str = ""
    job_words: tuple[str, str] | None = None


def option(default: Any, *flags: str, **about: Any) -> Any:
    """A dataclass field that is an option (see `Option`). The default `dict` is an empty dictionary."""
    metadata = {"option": Option(flags=flags, **about)}
    if default is dict:
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


def option_of(one: Field[Any]) -> Option:
    """The declaration of a field."""
    found: Option = one.metadata["option"]
    return found


class Checked:
    """Options that were not read from a command line must obey the same choices and bounds."""

    def __post_init__(self) -> None:
        for one in fields(self):  # type: ignore[arg-type]
            about, value = option_of(one), getattr(self, one.name)
            if value is None or value == one.default:
                continue
            if about.choices and value not in about.choices:
                raise UsageError(f"{one.name} cannot be {value!r}", hint=f"use {' or '.join(about.choices)}")
            if about.least is not None and value < about.least:
                raise UsageError(f"{one.name} cannot be {value!r}", hint=f"use {about.least:,} or more")
            if about.above is not None and value <= about.above:
                raise UsageError(f"{one.name} cannot be {value!r}", hint=f"use more than {about.above:,}")
            if about.most is not None and value > about.most:
                raise UsageError(f"{one.name} cannot be {value!r}", hint=f"use {about.most:,} or less")


def read_instant(text: str) -> int:
    """A date or an ISO 8601 time as µs since 1970 in UTC; without an offset it is UTC. Raises UsageError."""
    import re

    from pipeline.timestamps import BadTime, read_iso

    whole = f"{text}T00:00:00Z" if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else text
    try:
        return read_iso(whole, space=True).us
    except BadTime as error:
        raise UsageError(str(error), hint="write 2024-01-31 or 2024-01-31T12:00:00Z") from None


def read_until(text: str) -> int | FirstLive:
    """A moment as `read_instant` reads it, or `first-live`. Raises UsageError."""
    return FIRST_LIVE if text == FIRST_LIVE else read_instant(text)


def read_settings(texts: Sequence[str]) -> dict[str, str]:
    """`key=value` pairs; a value of `=text` (two equals signs) keeps its first sign and is a constant."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"{text!r} is not key=value", hint="write a name, an equals sign and its value")
        if key in found:
            raise UsageError(f"{key} is given twice", hint="give it once")
        found[key] = value
    return found


def words_of(settings: Mapping[str, str]) -> list[str]:
    """These settings as the words of a command."""
    return [word for one in settings.items() for word in ("--set", "=".join(one))]


def read_report(text: str) -> Path:
    """The file of `junit=FILE`. Raises UsageError."""
    kind, _, file = text.partition("=")
    if kind != "junit" or not file:
        raise UsageError(f"{text!r} is not junit=FILE", hint="for example --report junit=checks.xml")
    return Path(file)


def read_seconds(text: str) -> float:
    """`90`, `90s`, `15m`, `1h`, `2d` as seconds. Raises UsageError."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    try:
        found = float(number) * unit
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise UsageError(f"{text!r} is not a length of time", hint="write 90s, 15m, 1h or 2d")
    return found


def read_names(text: str) -> tuple[str, ...]:
    """Names separated by commas. Raises UsageError if there is no name, as in an empty variable of a shell."""
    if not text.strip():
        raise UsageError("no name is given", hint="write names, separated by commas, or leave the option out")
    return tuple(name.strip() for name in text.split(","))


MARKS = {"plan": "import_plan", "row": "import_row"}
"""What `--provenance` can add to every event: each mark's property."""


def read_provenance(text: str) -> bool | tuple[str, ...]:
    """`plan`, `row` or both, separated by commas; `none` is False. Raises UsageError."""
    return text != "none" and marks_of(read_names(text))


def marks_of(names: Sequence[str]) -> tuple[str, ...]:
    """The marks with these names, each once, in the order of MARKS. Raises UsageError."""
    for name in names or ("",):
        if name not in MARKS:
            raise UsageError(f"{name!r} is no mark of an import", hint="use plan, row, or plan,row")
    return tuple(mark for mark in MARKS if mark in names)


ENGINES = ("local", "dask", "spark")
"""Each is a file of `pipeline.engines`."""


def read_engine(text: str) -> str:
    """`NAME` or `NAME=ADDRESS`. Raises UsageError for another name."""
    name, equals, address = text.partition("=")
    if name not in ENGINES or bool(equals) != bool(address):
        raise UsageError(f"{text!r} is not an engine", hint=f"give {', '.join(ENGINES)}, or dask=tcp://HOST:8786")
    return text


def micros(moment: Instant | FirstLive | None, name: str) -> int | None:
    """A moment in µs since 1970 in UTC. Raises UsageError for a datetime without an offset, and for `first-live`, which
    only the target knows."""
    if moment is None or isinstance(moment, int):
        return moment
    if moment == FIRST_LIVE:
        raise UsageError(f"{name} cannot be {moment!r} here: only a target knows that moment", hint="give a time")
    if not isinstance(moment, datetime):
        raise UsageError(f"{name} cannot be {moment!r}", hint="give a datetime with a tzinfo, or µs since 1970")
    if moment.tzinfo is None:
        raise UsageError(f"{name} has no offset: {moment.isoformat()}", hint="give a datetime with a tzinfo")
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def read_zone(text: str) -> str:
    """The name of a time zone. Raises UsageError if it is not in the time zone database."""
    zones_of(text)
    return text


def zones_of(timezone: str | Sequence[str]) -> tuple[tuple[str, str], ...]:
    """`Europe/Berlin` or `Europe/Berlin@2021-03-01` as (zone, local date from which it applies or ""), in order.

    Raises UsageError for a name that is not in the time zone database.
    """
    from pipeline.zone_clock import ZoneClock

    texts = (timezone,) if isinstance(timezone, str) else timezone
    found = tuple((name, since) for name, _, since in (text.partition("@") for text in texts))
    ZoneClock(found)
    return found
