"""The columns that the operator named with `--set NAME=COLUMN`: a wrong name is an error before the rows are read."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pipeline.extractors.file_rules import INTEGERS
from pipeline.mapper.language.sections import Call, Mapping
from pipeline.mapper.program.references import find, properties_of
from pipeline.models import SealedOptions
from pipeline.values import Record


class NamedColumns(msgspec.Struct, frozen=True):
    """`all` is setting → column, with an entry `integers=COLUMN` for each column of integers.
    `needed` are sets of columns of which each part of an export has one: without it no row has an event's name, a
    person or a time."""

    all: dict[str, str]
    needed: tuple[frozenset[str], ...]


def named_columns(mapping: Mapping, options: SealedOptions) -> NamedColumns:
    """The columns that the settings of a mapping name; fixed texts (`NAME==TEXT`) are no columns."""
    named: dict[str, str] = {}
    needed: list[frozenset[str]] = []
    clocks = tuple(clock.source for clock in mapping.time)
    for calls in ((mapping.event,), mapping.distinct_id.first, clocks):
        given = [_given(call, options) for call in calls]
        if all(call.verb == "setting" for call in calls) and not any(text.startswith("=") for text in given):
            needed.append(frozenset(filter(None, given)))
    for call in _settings(mapping):
        text = _given(call, options)
        if text and not text.startswith("="):
            named[call.arguments["setting"]] = text
    for column in filter(None, map(str.strip, options.settings.get(INTEGERS, "").split(","))):
        named[f"{INTEGERS}={column}"] = f"/{column}" if "/" in column.strip("/") else column
    return NamedColumns(named, tuple(filter(None, needed)))


def has_column(mapping: Mapping, record: Record, column: str) -> bool:
    """Whether a row has a column, or a property of that name, which may be null."""
    properties = properties_of(mapping, record)
    reference = Call("ref", {"ref": column}, mapping.event.place)
    return column in properties or find(reference, record, properties) is not None


def _given(call: Call, options: SealedOptions) -> str:
    return str(options.settings.get(call.arguments.get("setting", "")) or call.arguments.get("default") or "")


def _settings(mapping: Mapping) -> Iterator[Call]:
    """The settings that name the columns of the event, the ids, the times and the uuid."""
    pair = (mapping.pair.user, *mapping.pair.anonymous) if mapping.pair is not None else ()
    clocks = (clock.source for clock in mapping.time)
    for call in (mapping.event, *mapping.distinct_id.first, *clocks, mapping.uuid, *pair):
        if call is not None and call.verb == "setting":
            yield call
