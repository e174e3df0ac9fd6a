"""Writes a starting mapping from the survey of an export: a commented file that loads, and whose case passes.

Comments mark every guess, and the lines to fill in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.errors import UsageError
from pipeline.mapper.cases import describe, row_of
from pipeline.mapper.compiler import compile_mapping
from pipeline.mapper.language import FORMAT
from pipeline.mapper.loader import parse
from pipeline.mapper.references import path_of
from pipeline.models import SealedOptions

_AS_OF = 4_102_444_800_000_000


@dataclass(frozen=True, slots=True)
class SurveyedField:
    """One column of an export: its JSON type in most rows, the share of rows without it, and some values.

    `unique` is the number of rows whose values were compared, if no two of them are equal, else 0; the copies of a row
    count as one.
    """

    name: str
    type: str
    nulls: float = 0.0
    examples: tuple[str, ...] = ()
    unique: int = 0


@dataclass(frozen=True, slots=True)
class Surveyed:
    """The survey of an export: its probable tool, its columns, and one row as JSON text in a case's `format`."""

    tool: str
    fields: tuple[SurveyedField, ...]
    row: str
    format: str = "json"


_EVENT = ("event", "event_name", "event_type", "name", "action", "type")
_PERSON = ("distinct_id", "user_id", "userid", "customer_id", "client_id", "user", "uid", "email")
_ANONYMOUS = ("anonymous_id", "anonymousid", "device_id", "deviceid", "visitor_id", "cookie_id", "session_id")
_TIME = ("timestamp", "time", "event_time", "created_at", "occurred_at", "sent_at", "date", "ts", "at")
KEYS = ("uuid", "event_id", "message_id", "messageid", "insert_id", "$insert_id", "id")
_OBJECT = ("properties", "event_properties", "props", "params", "attributes")


def starting_mapping(survey: Surveyed) -> str:
    """The text of a starting mapping. Raises UsageError when no column can be the event, the person or the time."""
    columns = {field.name: field for field in survey.fields}
    event = _pick(columns, _EVENT, "an event's name", "event")
    person = _pick(columns, (*_PERSON, *_ANONYMOUS), "the person's id", "distinct_id")
    time = _pick(columns, _TIME, "the time", "timestamp")
    others = [name for name in _named(columns, (*_PERSON, *_ANONYMOUS)) if name != person]
    likely = [name for name in _named(columns, KEYS) if name not in (event, person, time)]
    keys = [name for name in likely if columns[name].unique]
    opened = next((name for name in _named(columns, _OBJECT) if columns[name].type == "object"), None)
    unit = _unit(columns[time])
    tool = re.sub(r"[^a-z0-9_]+", "_", survey.tool.lower()).strip("_") or "my_tool"

    def ref(name: str) -> str:
        return _quote(path_of(name))

    lines = [
        f"format: {FORMAT}",
        f"tool: {tool}                # part of every uuid: never change it after a first send",
        f"title: {_quote(survey.tool + ' export')}",
        "",
        "# A reference is a property's name; /column is a column of the row itself.",
        "recognise:",
        f"  has: [{ref(event)}, {ref(person)}, {ref(time)}]",
        "",
        f"event: {ref(event)}",
        "",
        "# Rules for single events: a new name, or {skip: code}.",
        "events: {}",
        *_examples(columns[event]),
        "",
        "# The candidates for distinct_id, best first. Placeholders such as null and undefined are passed over.",
        "distinct_id:",
        *(f"  - {ref(name)}" for name in (person, *others)),
        "",
        "# A guess: check the unit and the zone. `zone: local` is the zone given with --timezone.",
        "time:",
        f"  - {{from: {ref(time)}, unit: {unit}{', space: yes, zone: local' if unit == 'iso' else ''}}}",
        "",
    ]
    if keys:
        lines += [
            "# What makes a row one event of the tool: rows with one key are one event.",
            f"# No two of {columns[keys[0]].unique:,} sampled rows share it.",
            f"key: {{of: [{', '.join(ref(name) for name in keys[:1])}], needs: [{ref(keys[0])}]}}",
            "",
        ]
    elif likely:
        lines += [
            f"# {', '.join(map(_quote, likely))}: different rows share a value, so it is no key.",
            "# A row's whole content is its key.",
            "",
        ]
    else:
        lines += ["# No column looks like a row's own id: a row's whole content is its key.", ""]
    dropped = [event, time, *keys[:1]]
    lines += ["properties:"]
    if opened is not None:
        lines += [f"  open: {ref(opened)}      # other columns become {tool}_NAME"]
    lines += [f"  drop: [{', '.join(ref(name) for name in dropped)}]"]
    lines += ["  rename:"] if _renames(columns) and opened is None else ["  rename: {}       # old name: new name"]
    if opened is None:
        lines += [f"    {_quote(old)}: {_quote(new)}" for old, new in _renames(columns).items()]
    lines += ["", "# Every column, the share of rows without it, and some of its values:"]
    lines += [
        f"#   {_quote(field.name)}: {field.type}, {field.nulls:.0%} missing{_some(field.examples)}"
        for field in survey.fields
    ]
    text = "\n".join(lines) + "\n"
    return text + _case(text, survey.row, survey.format)


_RENAMES = {
    "url": "$current_url",
    "page_url": "$current_url",
    "current_url": "$current_url",
    "referrer": "$referrer",
    "browser": "$browser",
    "os": "$os",
    "device_type": "$device_type",
    "city": "$geoip_city_name",
    "country_code": "$geoip_country_code",
    "ip": "$ip",
    "ip_address": "$ip",
}


def _renames(columns: dict[str, SurveyedField]) -> dict[str, str]:
    renames: dict[str, str] = {}
    for name in columns:
        new = _RENAMES.get(name.lower())
        if new is not None and new not in columns and new not in renames.values():
            renames[name] = new
    return renames


def _named(columns: dict[str, SurveyedField], names: Sequence[str]) -> list[str]:
    lowered = {name.lower(): name for name in columns}
    return [lowered[name] for name in names if name in lowered]


def _pick(columns: dict[str, SurveyedField], names: Sequence[str], what: str, setting: str) -> str:
    found = _named(columns, names)
    if not found:
        raise UsageError(
            f"no column looks like {what}; there are: {', '.join(columns) or 'none'}",
            hint=_without_events(columns)
            if setting == "event"
            else f"use the mapping `generic` with --set {setting}=COLUMN",
        )
    return found[0]


def _without_events(columns: dict[str, SurveyedField]) -> str:
    """The hint for a table without a column of event names, such as orders."""
    person = next(iter(_named(columns, (*_PERSON, *_ANONYMOUS))), "COLUMN")
    time = next(iter(_named(columns, _TIME)), "COLUMN")
    settings = f"--set event==NAME --set distinct_id={person} --set timestamp={time}"
    return f"if every row is one kind of event, name it: backcast plan SOURCE -m generic {settings} -o DIR"


def _unit(field: SurveyedField) -> str:
    numbers = [example for example in field.examples if re.fullmatch(r"-?\d+(\.\d+)?", example)]
    if not numbers or len(numbers) < len(field.examples):
        return "iso"
    digits = max(len(number.lstrip("-").partition(".")[0]) for number in numbers)
    return "s" if digits <= 10 else "ms" if digits <= 13 else "us" if digits <= 16 else "ns"


def _examples(field: SurveyedField) -> list[str]:
    return [f"#   {_quote(example)}: {_quote(example)}" for example in dict.fromkeys(field.examples)]


def _some(examples: Sequence[str]) -> str:
    shown = ", ".join(json.dumps(example[:40], ensure_ascii=False) for example in examples[:3])
    return f", such as {shown}" if shown else ""


def _case(text: str, row: str, form: str) -> str:
    """The case of the surveyed row, with its current outcomes."""
    mapping = parse(text, "new mapping")
    result = compile_mapping(mapping, SealedOptions(as_of=_AS_OF)).map_row(row_of(mapping, row, form))
    lines = ["", "cases:", "  - name: a row of the export", f"    row: {_single(row)}"]
    lines += [*(["    format: csv"] if form == "csv" else []), "    gives:"]
    for outcome in result if isinstance(result, list) else [result]:
        described: dict[str, Any] = describe(outcome)
        lines += [
            f"      {'-' if number == 0 else ' '} {name}: {_literal(value)}"
            for number, (name, value) in enumerate(described.items())
        ]
    return "\n".join(lines) + "\n"


def _literal(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_quote(str(member)) for member in value)}]"
    return _single(value) if value[:1] in "{[" else _quote(value)


def _quote(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z_$/][\w$./-]*", text, re.ASCII) else json.dumps(text, ensure_ascii=True)


def _single(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
