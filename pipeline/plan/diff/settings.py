"""Differences, in words, in what decides the events of two plans: options, files of the export, lines of the
mapping."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import islice

import msgspec

from pipeline.models import OwnCode
from pipeline.plan.diff.result import Setting
from pipeline.plan.sealed.manifest import Plan
from pipeline.text import printable
from pipeline.timestamps import format_utc

MOST = 200
MOST_LINES = 20_000
"""Mapping files with more lines are not compared line by line."""
_INSTANTS = frozenset(("as_of", "since", "until"))
_CHARACTERS = 200


def settings_of(a: Plan, b: Plan) -> list[Setting]:
    """The first differences."""
    return list(islice(_settings(a, b), MOST))


def _settings(a: Plan, b: Plan) -> Iterator[Setting]:
    yield from _fields("", {"tool": a.tool, "zone": a.zone, "target": a.target, "backcast": a.version},
                       {"tool": b.tool, "zone": b.zone, "target": b.target, "backcast": b.version})  # fmt: skip
    yield from _fields("option ", _options(a), _options(b))
    yield from _fields("limit ", msgspec.to_builtins(a.limits), msgspec.to_builtins(b.limits))
    yield from _fields("library ", dict(a.libraries), dict(b.libraries))
    yield from _mapping(a, b)
    yield from _files(a, b)


def _options(plan: Plan) -> dict[str, object]:
    options: dict[str, object] = msgspec.to_builtins(plan.options)
    named = {f"set {name}": value for name, value in plan.options.settings.items()}
    times = {name: format_utc(value) for name in _INSTANTS if isinstance(value := options.get(name), int)}
    return {name: value for name, value in options.items() if name != "settings"} | times | named


def _fields(title: str, a: dict[str, object], b: dict[str, object]) -> Iterator[Setting]:
    for name in dict.fromkeys([*a, *b]):
        before, after = a.get(name), b.get(name)
        if before != after:
            yield Setting(f"{title}{name}", _shown(before), _shown(after))


def _shown(value: object) -> str:
    if value is None or value == "":
        return ""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return printable(text, _CHARACTERS)


def _mapping(a: Plan, b: Plan) -> Iterator[Setting]:
    """The lines of the mapping that differ, and the mapping's own code."""
    if a.mapping.digest != b.mapping.digest:
        before, after = a.mapping.text.splitlines(), b.mapping.text.splitlines()
        if max(len(before), len(after)) > MOST_LINES:
            yield Setting("mapping", a.mapping.digest[:12], b.mapping.digest[:12])
        else:
            matcher = SequenceMatcher(None, before, after, autojunk=False)
            for kind, start, end, other, other_end in matcher.get_opcodes():
                if kind == "equal":
                    continue
                line = other + 1 if other < other_end else start + 1
                texts = (" / ".join(map(str.strip, some)) for some in (before[start:end], after[other:other_end]))
                yield Setting(f"mapping, line {line}", *(printable(text, _CHARACTERS) for text in texts))
    codes = [plan.mapping.python for plan in (a, b)]
    digests = [code.digest[:12] if isinstance(code, OwnCode) else "" for code in codes]
    if digests[0] != digests[1]:
        yield Setting("code of the mapping", *digests)


def _files(a: Plan, b: Plan) -> Iterator[Setting]:
    """Files that only one export has, and files with the same name but other content."""
    sides = [{part.path: f"{part.rows:,} rows, {part.digest[:12]}" for part in plan.parts} for plan in (a, b)]
    for path in dict.fromkeys([*sides[0], *sides[1]]):
        before, after = (side.get(path, "") for side in sides)
        if before != after:
            yield Setting(f"file {printable(path, _CHARACTERS)}", before, after)
