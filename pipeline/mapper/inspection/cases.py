"""The cases of a mapping file: rows as JSON, and their expected outcomes, including skips and rejects.

This module runs them, or replaces their expectations with the current outcomes (`mapping test --update-cases`).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from collections.abc import Mapping as Map
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import msgspec
from msgspec import Raw

from pipeline.mapper.codegen.runtime import encode
from pipeline.mapper.compiler import Mapper, compile_mapping
from pipeline.mapper.language.scalars import json_scalar, scalar
from pipeline.mapper.language.sections import Case, Mapping
from pipeline.mapper.table_names import SETTING, table_of
from pipeline.models import (
    GroupUpdate,
    Link,
    MapperResult,
    Note,
    PersonUpdate,
    RejectReason,
    SealedOptions,
    Skip,
    UnvalidatedEvent,
)
from pipeline.timestamps import format_utc
from pipeline.uuids import SEPARATOR
from pipeline.validator.rules import ValidationContext, check, check_update
from pipeline.values import Record, Value, raw, text

_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_AS_OF = 4_102_444_800_000_000
"""The plan's instant for cases: 2100-01-01, after the time of any case."""
_CONTEXT = ValidationContext(as_of=_AS_OF, newest=_AS_OF)


class CaseResult(msgspec.Struct, frozen=True):
    """The result of a case: `differences` are lines for people, none if it passed."""

    case: Case
    differences: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.differences


def run_cases(mapping: Mapping) -> list[CaseResult]:
    """Run every case of a mapping, each compiled for the settings, zones, dialect and lookup tables it names."""
    compiled: dict[str, Mapper] = {}
    return [run_case(mapping, case, compiled) for case in mapping.cases]


def run_case(mapping: Mapping, case: Case, compiled: dict[str, Mapper] | None = None) -> CaseResult:
    """Run one case. `compiled` caches mappers by what they are compiled for. Raises UsageError for settings that the
    mapping rejects."""
    if unknown := next((name for name in case.lookups if name not in mapping.lookup_files), ""):
        return CaseResult(case, (f"- lookups: lookup_files has no table {unknown!r}",))
    differences: list[str] = []
    for expected, outcome in zip_longest(case.gives, outcomes_of(mapping, case, compiled)):
        if expected is None:
            differences.append(f"+ {describe(outcome)}")
        elif outcome is None:
            differences.append(f"- {dict(expected)}")
        else:
            differences += _compare(expected, outcome)
    return CaseResult(case, tuple(differences))


def outcomes_of(mapping: Mapping, case: Case, compiled: dict[str, Mapper] | None = None) -> list[MapperResult]:
    """The outcomes of a case's row, in order. Raises UsageError for settings that the mapping rejects."""
    options = options_of(mapping, case)
    compiled = {} if compiled is None else compiled
    given = repr((options, case.lookups))
    mapper = compiled.get(given)
    if mapper is None:
        mapper = compiled[given] = compile_mapping(mapping, options, case.lookups, for_members=False)
    result = mapper.map_row(row_of(mapping, case.row, case.format))
    return result if isinstance(result, list) else [result]


def options_of(mapping: Mapping, case: Case) -> SealedOptions:
    """The plan options for a case, with the table that the path of its file names."""
    zones = tuple((name, since) for name, _, since in (zone.partition("@") for zone in case.zones))
    options = SealedOptions(as_of=_AS_OF, zones=zones, settings=case.settings, dialect=case.dialect)
    if case.path and mapping.table_from_path is not None:
        table = table_of(mapping, options, case.path.split("/"), row_of(mapping, case.row, case.format))
        options = replace(options, settings={**case.settings, **({SETTING: table} if table else {})})
    return options


def row_of(mapping: Mapping, json: str, form: str) -> Record:
    """The row of a case as an extractor reads it for this mapping: from a line of JSON, or from cells if `form` is
    csv."""
    row: Record = {**_decode(json.encode())}
    if form != "csv":
        return row
    cells = {name: text(value) for name, value in row.items()}
    return {name: cell for name, cell in cells.items() if cell or (cell is not None and mapping.blanks.in_cells)}


def describe(outcome: MapperResult) -> dict[str, Any]:
    """An outcome with the keys of a case's `gives`, properties as JSON. What a plan would reject is a reject."""
    if isinstance(outcome, Skip):
        return {"skip": outcome.code, **({"warnings": [outcome.code]} if outcome.detail else {})}
    if isinstance(outcome, RejectReason):
        return {"reject": outcome.code}
    if isinstance(outcome, Link):
        return {"link": [outcome.kind, outcome.distinct_id, outcome.other]}
    if isinstance(outcome, GroupUpdate):
        return {"group": [outcome.type, outcome.key], "set": _json(outcome.set), **_times(outcome)}
    if isinstance(outcome, PersonUpdate):
        if reason := check_update(outcome, _CONTEXT):
            return {"reject": reason.code}
        if outcome.note is None:
            return {"skip": "empty_person_update"}
        return {"person": outcome.distinct_id, **_times(outcome), **_note(outcome.note), **_warnings(outcome)}
    if reason := check(outcome, _CONTEXT):
        return {"reject": reason.code}
    described: dict[str, Any] = {"event": outcome.event, "distinct_id": outcome.distinct_id}
    described |= _times(outcome)
    if outcome.uuid is not None:
        described["uuid"] = outcome.uuid
    described["key"] = outcome.key.split(SEPARATOR) if outcome.key is not None else ["none"]
    described["properties"] = _json(outcome.properties)
    return {**described, **(_note(outcome.note) if outcome.note is not None else {}), **_warnings(outcome)}


def _note(note: Note) -> dict[str, Any]:
    described: dict[str, Any] = {}
    if note.anonymous is not None and note.user is not None:
        described["pair"] = [note.anonymous, note.user]
    for name, properties in (("set", note.set), ("set_once", note.set_once)):
        if properties:
            described[name] = _json(properties)
    if note.unset:
        described["unset"] = list(note.unset)
    return described


def _times(outcome: UnvalidatedEvent | PersonUpdate | GroupUpdate) -> dict[str, str]:
    times = {"timestamp": outcome.time, "received": outcome.received}
    return {name: format_utc(time) for name, time in times.items() if isinstance(time, int)}


def _warnings(outcome: UnvalidatedEvent | PersonUpdate) -> dict[str, Any]:
    return {"warnings": sorted({code for code, _ in outcome.warnings})} if outcome.warnings else {}


def _json(properties: Map[str, Value]) -> str:
    return encode({name: raw(value) for name, value in properties.items()}).decode()


def _compare(expected: Map[str, Any], outcome: MapperResult) -> list[str]:
    actual = describe(outcome)
    if actual.keys() & {"event", "person", "skip"}:
        expected = {"warnings": (), **expected}
    differences: list[str] = []
    for name, value in expected.items():
        if name in ("has", "lacks", "properties"):
            differences += _compare_properties(name, value, outcome)
            continue
        if name in ("set", "set_once"):
            lines = _differ(_members(value), _members(actual.get(name, "{}")))
            differences += [f"{name} {line}" for line in lines]
            continue
        other = actual.get(name)
        if isinstance(value, tuple):
            value, other = sorted(value) if name == "warnings" else list(value), other or []
        if value != other:
            differences += [f"- {name}: {value}", f"+ {name}: {other}"]
            if other is None:
                differences.append(f"  in {actual}")
    return differences


def _compare_properties(name: str, expected: Any, outcome: MapperResult) -> list[str]:
    if not isinstance(outcome, UnvalidatedEvent):
        return [f"- {name}: {expected}", f"+ {describe(outcome)}"]
    actual = {key: bytes(raw(value)) for key, value in outcome.properties.items()}
    if name == "lacks":
        return [f"+ {key}: {actual[key].decode()} (lacks)" for key in expected if key in actual]
    members = _members(expected)
    if name == "properties":
        return _differ(members, actual)
    return [
        f"- {key}: {value.decode()}\n+ {key}: {actual.get(key, b'(absent)').decode()}"
        for key, value in members.items()
        if actual.get(key) != value
    ]


def _members(json: str) -> dict[str, bytes]:
    return {key: bytes(value) for key, value in _decode(json.encode()).items()}


def _differ(expected: Map[str, bytes], actual: Map[str, bytes]) -> list[str]:
    before, after = (
        [f"{key}: {value.decode()}" for key, value in sorted(members.items())] for members in (expected, actual)
    )
    return [line for line in difflib.ndiff(before, after) if line[:1] in "+-"]


KINDS = ("event", "person", "group", "link", "skip", "reject")
"""The keys that say what became of the row; an outcome has one of them."""
ONE_LINE = 120
"""An outcome that was written on one line stays on one line if it has at most this many characters."""


def updated(mapping: Mapping, cases: Iterable[int]) -> str:
    """The text of a mapping file in which these cases, numbered from 0, give what their rows give now.

    A case keeps its keys if its row still has the same kind of outcome. Comments inside `gives` are lost; everything
    else stays.
    """
    from pipeline.mapper.language.loader import span_of  # loads YAML

    lines = mapping.text.split("\n")
    for number in sorted(cases, reverse=True):
        case = mapping.cases[number]
        start, end, flow = span_of(mapping, "cases", number, "gives")
        indent = " " * start[1]
        gives = _gives_now(mapping, case)
        written = [_flow(gives[0])] if flow and len(gives) == 1 else []
        if not written or len(indent + "gives: " + written[0]) > ONE_LINE:
            written = ["", *gives_lines(gives, indent + "  ")]
        new = ["gives: " + written[0] if written[0] else "gives:", *written[1:]]
        head, tail = lines[start[0]][: start[1]], lines[end[0]][end[1] :]
        lines[start[0] : end[0] + 1] = [head + new[0], *new[1:-1], new[-1] + tail] if len(new) > 1 else [
            head + new[0] + tail
        ]  # fmt: skip
    return "\n".join(lines)


def gives_lines(outcomes: Sequence[Map[str, Any]], indent: str) -> list[str]:
    return [
        f"{indent}{'- ' if key == next(iter(one)) else '  '}{key}: {_literal(value)}"
        for one in outcomes
        for key, value in one.items()
    ]


def _flow(outcome: Map[str, Any]) -> str:
    return "{" + ", ".join(f"{key}: {_literal(value)}" for key, value in outcome.items()) + "}"


def _literal(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(scalar(str(member)) for member in value)}]"
    return json_scalar(value) if value[:1] in "{[" else scalar(value)


def _gives_now(mapping: Mapping, case: Case) -> list[Map[str, Any]]:
    outcomes = outcomes_of(mapping, case)
    whole: list[Map[str, Any]] = [describe(outcome) for outcome in outcomes]
    if len(outcomes) != len(case.gives):
        return whole
    gives = [
        _with_its_keys(expected, outcome, now)
        for expected, outcome, now in zip(case.gives, outcomes, whole, strict=True)
    ]
    kept = msgspec.structs.replace(case, gives=tuple(map(_as_loaded, gives)))
    return gives if run_case(mapping, kept).passed else whole


def _with_its_keys(expected: Map[str, Any], outcome: MapperResult, now: Map[str, Any]) -> Map[str, Any]:
    """The current outcome, with the keys that the case has."""
    if _kind(expected) not in ("", _kind(now)):
        return now
    properties = outcome.properties if isinstance(outcome, UnvalidatedEvent) else {}
    found: dict[str, Any] = {}
    for name, value in expected.items():
        if name == "has":
            held = {key: raw(properties[key]) for key in msgspec.json.decode(value) if key in properties}
            found |= {name: encode(held).decode()} if held else {}
        elif name == "lacks":
            absent = [key for key in value if key not in properties]
            found |= {name: absent} if absent else {}
        elif name in now:
            found[name] = now[name]
        elif name in ("set", "set_once"):
            found[name] = "{}"
    return found | ({"warnings": now["warnings"]} if "warnings" in now else {}) or now


def _kind(outcome: Map[str, Any]) -> str:
    return next((name for name in KINDS if name in outcome), "")


def _as_loaded(outcome: Map[str, Any]) -> dict[str, Any]:
    return {name: tuple(map(str, value)) if isinstance(value, list) else value for name, value in outcome.items()}
