"""Runs the cases of a mapping file: rows as JSON text, and what must become of them.

The rows stand in the mapping itself, so whoever changes a line sees at once what it does, skips and rejects too.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping as Map
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from msgspec import Raw

from pipeline.mapper.compiler import Mapper, compile_mapping
from pipeline.mapper.language import Case, Mapping
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
from pipeline.values import NULL, Record, Value, raw, text

_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_AS_OF = 4_102_444_800_000_000
"""The instant cases are compiled for: 2100-01-01, after any time a case may name."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What a case came to: `differences` are lines a person reads, none when it passed."""

    case: Case
    differences: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.differences


def run_cases(mapping: Mapping) -> list[CaseResult]:
    """Run every case of a mapping, each compiled for the settings, zones and dialect it names."""
    compiled: dict[str, Mapper] = {}
    return [run_case(mapping, case, compiled) for case in mapping.cases]


def run_case(mapping: Mapping, case: Case, compiled: dict[str, Mapper] | None = None) -> CaseResult:
    """Run one case. `compiled` keeps the mapping by its options. Raises UsageError when settings do not fit it."""
    zones = tuple((name, since) for name, _, since in (zone.partition("@") for zone in case.zones))
    options = SealedOptions(as_of=_AS_OF, zones=zones, settings=case.settings, dialect=case.dialect)
    if case.path and mapping.table_from_path is not None:
        table = table_of(mapping, options, case.path.split("/"), row_of(mapping, case.row, case.format))
        options = replace(options, settings={**case.settings, **({SETTING: table} if table else {})})
    compiled = {} if compiled is None else compiled
    mapper = compiled.get(repr(options)) or compiled.setdefault(repr(options), compile_mapping(mapping, options))
    made = mapper.map_row(row_of(mapping, case.row, case.format), True)
    outcomes = made if isinstance(made, list) else [made]
    wanted = case.gives
    differences: list[str] = []
    for number in range(max(len(outcomes), len(wanted))):
        if number >= len(wanted):
            differences.append(f"+ {describe(outcomes[number])}")
        elif number >= len(outcomes):
            differences.append(f"- {dict(wanted[number])}")
        else:
            differences += _compare(wanted[number], outcomes[number])
    return CaseResult(case, tuple(differences))


def row_of(mapping: Mapping, json: str, form: str) -> Record:
    """The row of a case as a reader gives it to this mapping: of JSON lines, or of cells where `form` is csv."""
    row: Record = {**_decode(json.encode())}
    if form != "csv":
        return row
    cells = {name: text(value) for name, value in row.items()}
    return {name: cell for name, cell in cells.items() if cell or (cell is not None and mapping.blanks.in_cells)}


def describe(outcome: MapperResult) -> dict[str, Any]:
    """An outcome in the words of a case's `gives`, properties as JSON text."""
    if isinstance(outcome, Skip):
        return {"skip": outcome.code, **({"warnings": [outcome.code]} if outcome.detail else {})}
    if isinstance(outcome, RejectReason):
        return {"reject": outcome.code}
    if isinstance(outcome, Link):
        return {"link": [outcome.kind, outcome.distinct_id, outcome.other]}
    if isinstance(outcome, GroupUpdate):
        return {"group": [outcome.type, outcome.key], "set": bytes(_object(outcome.set)).decode()}
    if isinstance(outcome, PersonUpdate):
        fault = _lack(
            UnvalidatedEvent("$set", outcome.distinct_id, outcome.time or 0, {}, placeholder_id=outcome.placeholder_id)
        )
        if fault or outcome.note is None:
            return {"reject": fault} if fault else {"skip": "empty_person_update"}
        return {"person": outcome.distinct_id, **_note(outcome.note), **_warnings(outcome)}
    fault = _lack(outcome)
    if fault:
        return {"reject": fault}
    described: dict[str, Any] = {"event": outcome.event, "distinct_id": outcome.distinct_id}
    described["timestamp"] = format_utc(outcome.time) if isinstance(outcome.time, int) else None
    if outcome.uuid is not None:
        described["uuid"] = outcome.uuid
    described["key"] = outcome.key.split(SEPARATOR) if outcome.key is not None else ["none"]
    described["properties"] = bytes(_object(outcome.properties)).decode()
    return {**described, **(_note(outcome.note) if outcome.note is not None else {}), **_warnings(outcome)}


def _note(note: Note) -> dict[str, Any]:
    described: dict[str, Any] = {}
    if note.anonymous is not None and note.user is not None:
        described["pair"] = [note.anonymous, note.user]
    for name, held in (("set", note.set), ("set_once", note.set_once)):
        if held:
            described[name] = bytes(_object(held)).decode()
    if note.unset:
        described["unset"] = list(note.unset)
    return described


def _warnings(outcome: UnvalidatedEvent | PersonUpdate) -> dict[str, Any]:
    return {"warnings": sorted({code for code, _ in outcome.warnings})} if outcome.warnings else {}


def _lack(draft: UnvalidatedEvent) -> str:
    """The code under which the rules of every event reject a draft that lacks its name, person or time."""
    if not (draft.event or "").strip():
        return "missing_event"
    if not (draft.distinct_id or "").strip():
        return "junk_distinct_id" if draft.placeholder_id else "missing_distinct_id"
    if isinstance(draft.time, RejectReason):
        return draft.time.code
    return "missing_timestamp" if draft.time is None else ""


def _object(properties: Map[str, Value]) -> Raw:
    return Raw(b"{" + b",".join(bytes(raw(name)) + b":" + bytes(raw(held)) for name, held in properties.items()) + b"}")


def _compare(wanted: Map[str, Any], outcome: MapperResult) -> list[str]:
    found = describe(outcome)
    telling = found.keys() & {"event", "person", "skip"}
    expected = {**({"warnings": ()} if telling else {}), **wanted}
    differences: list[str] = []
    for name, value in expected.items():
        if name in ("has", "lacks", "properties"):
            differences += _compare_properties(name, value, outcome)
            continue
        if name in ("set", "set_once"):
            differences += _compare_objects(name, value, found.get(name, "{}"))
            continue
        held = found.get(name)
        if isinstance(value, tuple):
            value, held = list(value), held or []
            if name == "warnings":
                value = sorted(value)
        if value != held:
            differences += [f"- {name}: {value}", f"+ {name}: {held}"]
            if held is None:
                differences.append(f"  in {found}")
    return differences


def _compare_properties(name: str, wanted: Any, outcome: MapperResult) -> list[str]:
    if not isinstance(outcome, UnvalidatedEvent):
        return [f"- {name}: {wanted}", f"+ {describe(outcome)}"]
    held = {key: bytes(raw(value)) for key, value in outcome.properties.items()}
    if name == "lacks":
        return [f"+ {key}: {held[key].decode()} (lacks)" for key in wanted if key in held]
    expected = {key: bytes(value) for key, value in _decode(wanted.encode()).items()}
    if name == "has":
        return [
            f"- {key}: {value.decode()}\n+ {key}: {held.get(key, bytes(NULL) if key in held else b'(absent)').decode()}"
            for key, value in expected.items()
            if held.get(key) != value
        ]
    return _differ(expected, held)


def _compare_objects(name: str, wanted: str, found: str) -> list[str]:
    expected, held = ({key: bytes(value) for key, value in _decode(one.encode()).items()} for one in (wanted, found))
    return [f"{name} {line}" for line in _differ(expected, held)]


def _differ(expected: Map[str, bytes], held: Map[str, bytes]) -> list[str]:
    before = [f"{key}: {value.decode()}" for key, value in sorted(expected.items())]
    after = [f"{key}: {value.decode()}" for key, value in sorted(held.items())]
    return [line for line in difflib.ndiff(before, after) if line[:1] in "+-"]
