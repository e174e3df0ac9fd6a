"""Counts over real rows how often each choice of a mapping is taken (`backcast mapping check --against`).

The mapping is compiled from the same program as for a plan, with a counter at each candidate of a `first`, an id or a
time, at each condition of a value, at each lookup, and at each verb that changes a value. Parts that a row does not
reach, such as the candidates after the one it has, are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from pipeline.mapper.codegen.clocks import write_time
from pipeline.mapper.codegen.steps import StepEmitter
from pipeline.mapper.compiler import MapRow, decoding, load_source
from pipeline.mapper.language.sections import Call, Mapping, Place
from pipeline.mapper.program import expressions
from pipeline.mapper.program import operations as program
from pipeline.mapper.program.builder import NO_TABLES, Builder, Tables
from pipeline.mapper.program.expressions import Condition, Value
from pipeline.mapper.program.functions import FUNCTIONS
from pipeline.mapper.program.printer import spelt
from pipeline.models import SealedOptions
from pipeline.zone_clock import ZoneClock

NONE = "none of them"


class Choice(msgspec.Struct):
    """One place in a mapping where a row takes one of several ways. `ways` are (what it is, rows that took it); a
    candidate that is never reached has 0."""

    kind: str
    what: str
    place: Place | None
    names: list[str]
    counts: list[int] = msgspec.field(default_factory=list)

    @property
    def ways(self) -> list[tuple[str, int]]:
        return list(zip(self.names, self.counts, strict=True))

    @property
    def reached(self) -> int:
        """How many rows reached this place."""
        return sum(self.counts)


FIRST, LOOKUP, CONDITION, CHANGE, SKIP = "first", "lookup", "when", "verb", "skip"
_Key: TypeAlias = tuple[str, Any]


class _PlacedBuilder(Builder):
    """A builder that records the place in the file of each operation it builds, and how the file spells it."""

    def __init__(self, mapping: Mapping, options: SealedOptions, lookups: Tables) -> None:
        self.places: dict[Any, Place] = {}
        self.spellings: dict[Any, str] = {}
        super().__init__(mapping, options, lookups)

    def _placed(self, built: Any, call: Call) -> Any:
        try:
            self.places.setdefault(built, call.place)
            self.spellings.setdefault(built, _written(call))
        except TypeError:
            return built  # not hashable, so it has no place
        return built

    def value(self, call: Call) -> Value:
        return self._placed(super().value(call), call)  # type: ignore[no-any-return]

    def present(self, call: Call) -> Value:
        return self._placed(super().present(call), call)  # type: ignore[no-any-return]

    def text(self, call: Call) -> Value:
        return self._placed(super().text(call), call)  # type: ignore[no-any-return]

    def condition(self, call: Call) -> Condition:
        return self._placed(super().condition(call), call)  # type: ignore[no-any-return]


def _written(given: Any) -> str:
    """A part of a mapping in the spelling of the language, on one line."""
    if isinstance(given, Call):
        if given.verb == "ref":
            return str(given.arguments["ref"])
        return "{" + ", ".join(f"{name}: {_written(one)}" for name, one in given.arguments.items()) + "}"
    if isinstance(given, tuple | list):
        return "[" + ", ".join(map(_written, given)) + "]"
    if isinstance(given, dict):
        return "{" + ", ".join(f"{name}: {_written(one)}" for name, one in given.items()) + "}"
    return str(given)


class _CountingEmitter(StepEmitter):
    """Writes the source of a program with counters. `choices` are what it counts."""

    def __init__(self, source: program.Program, builder: _PlacedBuilder) -> None:
        super().__init__(source)
        self.choices: dict[_Key, Choice] = {}
        self._places = builder.places
        self._spellings = builder.spellings

    def spelt(self, operation: Any) -> str:
        """A value or condition as the mapping spells it."""
        return self._spellings.get(operation) or spelt(operation)

    def _choice(self, kind: str, key: Any, what: str, names: Sequence[str]) -> str:
        """The name of a choice's counters; a choice that is written in several places is counted once."""
        choice = self.choices.get((kind, key))
        if choice is None:
            place = self._places.get(key)
            choice = self.choices[kind, key] = Choice(kind, what, place, list(names), [0] * len(names))
        return self.const(choice.counts, ("counts", kind, key))

    def write_first(self, value: expressions.First) -> str:
        names = [*map(self.spelt, value.values), NONE]
        counts = self._choice(FIRST, value, "first", names)
        name = self.local()
        self.line(f"{name} = None")
        self._candidates(name, counts, value.values)
        return name

    def _candidates(self, name: str, counts: str, values: Sequence[Value], number: int = 0) -> None:
        self.line(f"{name} = {self.value(values[0])}")
        self.line(f"if {name} is not None: {counts}[{number}] += 1")
        with self.block("else:"):
            if len(values) > 1:
                self._candidates(name, counts, values[1:], number + 1)
            else:
                self.line(f"{counts}[{number + 1}] += 1")

    def write_choose(self, value: expressions.Choose) -> str:
        counts = self._choice(CONDITION, value, self.spelt(value.when), ["true", "false"])
        self.line(f"{counts}[0 if {self.test(value.when)} else 1] += 1")
        return super().write_choose(value)

    def write_lookup(self, value: expressions.Lookup) -> str:
        text = self.value(value.text)
        counts = self._choice(LOOKUP, value, f"lookup of {self.spelt(value.text)}", ["found", "not in the table"])
        key = f"({text} or '').lower()" if value.any_case else text
        table = self.const(self.program.tables[value.table])
        self.line(f"if {text} is not None: {counts}[0 if {key} in {table} else 1] += 1")
        return super().write_lookup(value)

    def write_apply(self, value: expressions.Apply) -> str:
        name = super().write_apply(value)
        if FUNCTIONS[value.function].needs == 1 and value.arguments:
            self._count_change(name, value, value.arguments[0])
        return name

    def write_convert(self, value: expressions.Convert) -> str:
        name = super().write_convert(value)
        self._count_change(name, value, value.value)
        return name

    def _count_change(self, name: str, value: Value, before: Value) -> None:
        source = self.value(before)
        counts = self._choice(CHANGE, value, self.spelt(value), ["changed", "left as it was"])
        self.line(f"if {source} is not None: {counts}[0 if {name} != {source} else 1] += 1")

    def step(self, step: program.Step) -> None:
        if isinstance(step, program.SkipRow):
            counts = self._choice(SKIP, step.when, f"skip: {step.code}", ["skipped", "others"])
            self.line(f"{counts}[0 if {self.test(step.when)} else 1] += 1")
        elif isinstance(step, program.ReadTime) and len(step.clocks) > 1:
            names = [*(self.spelt(clock.source) for clock in step.clocks), NONE]
            register = "time" if step.register == "time" else "received"
            counts = self._choice(FIRST, step, register, names)
            write_time(self, step)
            sources = [self.value(clock.source) for clock in step.clocks]
            for number, source in enumerate(sources):
                head = "if" if not number else "elif"
                self.line(f"{head} {source} is not None: {counts}[{number}] += 1")
            self.line(f"else: {counts}[{len(sources)}] += 1")
            return
        super().step(step)

    def _id_taken(self, number: int) -> str:
        every = next(step for step in self.program.steps if isinstance(step, program.SetDistinctId)).candidates
        counts = self._choice(FIRST, every, "distinct_id", [*map(self.spelt, every), NONE])
        return f"{counts}[{number}] += 1"


def counting_mapper(
    mapping: Mapping, options: SealedOptions, lookups: Tables = NO_TABLES
) -> tuple[MapRow, list[Choice]]:
    """A function that maps rows that are dicts, and the choices that it counts while mapping."""
    builder = _PlacedBuilder(mapping, options, lookups)
    built = builder.build()
    emitter = _CountingEmitter(built, builder)
    source = emitter.source()
    map_row = load_source(emitter, source, ZoneClock(options.zones))
    if built.decode is not None:
        map_row = decoding(built.decode, map_row)
    return map_row, list(emitter.choices.values())
