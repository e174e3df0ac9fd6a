"""Writes what the cases of a mapping file give now in place of what they say (`mapping test --update-cases`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Mapping as Map
from typing import Any

import msgspec
from msgspec.structs import replace

from pipeline.mapper.codegen.runtime import encode
from pipeline.mapper.inspection.cases import describe, outcomes_of, run_case
from pipeline.mapper.language.loader import span_of
from pipeline.mapper.language.scalars import json_scalar, scalar
from pipeline.mapper.language.sections import Case, Mapping
from pipeline.models import MapperResult, UnvalidatedEvent
from pipeline.values import raw

KINDS = ("event", "person", "group", "link", "skip", "reject")
"""The keys of an outcome of which it has one: what became of the row."""
ONE_LINE = 120
"""An outcome that was written on one line stays on one of at most so many characters."""


def updated(mapping: Mapping, cases: Iterable[int]) -> str:
    """The text of a mapping file in which these cases, by their numbers from 0, give what their rows give now.

    A case keeps to the keys that it has where its row still becomes the same kind of outcome. Comments inside `gives`
    are not kept; everything else is.
    """
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
    """Outcomes as the lines below `gives:`."""
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
    return gives if run_case(mapping, replace(case, gives=tuple(map(_as_loaded, gives)))).passed else whole


def _with_its_keys(expected: Map[str, Any], outcome: MapperResult, now: Map[str, Any]) -> Map[str, Any]:
    """What an outcome is now, in the keys that the case has."""
    if _kind(expected) not in ("", _kind(now)):
        return now
    properties = outcome.properties if isinstance(outcome, UnvalidatedEvent) else {}
    found: dict[str, Any] = {}
    for name, value in expected.items():
        if name == "has":
            held = {key: raw(properties[key]) for key in _names(value) if key in properties}
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


def _names(json: str) -> list[str]:
    return list(msgspec.json.decode(json))


def _as_loaded(outcome: Map[str, Any]) -> dict[str, Any]:
    return {name: tuple(map(str, value)) if isinstance(value, list) else value for name, value in outcome.items()}
