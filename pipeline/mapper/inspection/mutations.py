"""Changes one part of a mapping at a time and tests whether a case of the mapping then fails (`mapping test --mutate`).

A part is removed if possible: an entry of a table or a list, an option, a verb around a value. Otherwise it is changed:
to another reference, text, number or word, or to the opposite of a condition. Parts that no case can show are left
alone: how a tool is recognised, how its files are read, the defaults of options, and hints for speed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Mapping as Map
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import asdict, replace

from pipeline.errors import MappingError, UsageError
from pipeline.mapper.compiler import Mapper
from pipeline.mapper.inspection.cases import run_case
from pipeline.mapper.language.kinds import FAMILIES, Choice, Either, Json, Kind, ListOf, Section, TableOf, Text, Verbs
from pipeline.mapper.language.parsed import place_of
from pipeline.mapper.language.sections import MAPPING, Call, Case, Mapping, Place

LEAST_SHARE = 0.95
"""The share of the changes that have to make a case fail."""

_UNSEEN = {
    "mapping": ("tool", "title", "recognise", "files", "open", "lookup_files", "blanks", "persons", "known", "cases"),
    "properties": ("common",),
    "setting": ("says", "one_of", "found"),
    "table_from_path": ("unless",),
    "clock": ("proof_unless",),
    "skip": ("warn",),
    "event rule": ("warn",),
    "key": ("equal", "posthog"),
}
"""The keys of sections that no case shows, or whose text is for people."""
_NO_FIELD = "no_such_field"
Path: TypeAlias = tuple[str | int, ...]


class Change(NamedTuple):
    """One change of a part: its description, the keys that lead to its place, and the changed part."""

    what: str
    path: Path
    part: Any


class Survivor(NamedTuple):
    what: str
    place: Place


class Mutated(msgspec.Struct, frozen=True):
    """How many changes of a mapping were tried, and the changes that made no case fail. A change that makes the file
    invalid, such as removing a value that others refer to, does not count."""

    tried: int
    survivors: tuple[Survivor, ...]

    @property
    def failed(self) -> int:
        return self.tried - len(self.survivors)

    @property
    def enough(self) -> bool:
        return self.failed >= LEAST_SHARE * self.tried


def mutate(mapping: Mapping) -> Mutated:
    tried = 0
    survivors = []
    texts = [f"{case.row} {case.settings} {case.path} {case.gives}".lower() for case in mapping.cases]
    for what, path, changed in changes(mapping):
        # Most changes make a case fail that contains the words of the changed part.
        words = {word.lower() for step in (*path, *what.split("'")[1::2]) for word in re.findall(r"\w{2,}", str(step))}
        likely = sorted(range(len(texts)), key=lambda index: sum(word in texts[index] for word in words), reverse=True)
        survived = _survives(changed, [mapping.cases[index] for index in likely])
        if survived is not None:
            tried += 1
            if survived:
                survivors.append(Survivor(what, place_of(mapping, *path)))
    return Mutated(tried, tuple(survivors))


def changes(mapping: Mapping) -> Iterator[Change]:
    """Every change of a mapping: its `part` is the changed mapping."""
    return _of_section(MAPPING, mapping, ())


def _survives(changed: Mapping, cases: list[Case]) -> bool | None:
    """Whether every case passes; None if this is not a valid mapping."""
    compiled: dict[str, Mapper] = {}
    try:
        return all(run_case(changed, case, compiled).passed for case in cases)
    except MappingError:
        return None
    except UsageError:
        return False  # a case names a setting that the changed mapping lacks, or lacks one that it needs


def _of_section(section: Section, part: Any, path: Path) -> Iterator[Change]:
    """Changes of a section, an instance of its class."""
    for key, field in section.fields.items():
        name = field.into or key
        value = getattr(part, name)
        if value is None or value == field.empty or key in _UNSEEN.get(section.name, ()):
            continue
        if key == "unit" and getattr(part, "form", None) is not None:  # the format of a time decides alone
            continue
        whole = isinstance(field.kind, Verbs | Either | Text | Choice)
        needed = field.required or any(key in group for group in section.either)
        if not needed and whole and not _is_field(value):
            yield Change(f"without `{key}`", (*path, key), replace(part, **{name: field.empty}))
            if isinstance(field.kind, Text | Choice):
                continue
        for change in _of_kind(field.kind, value, (*path, key), needed):
            yield change._replace(part=replace(part, **{name: change.part}))


def _of_kind(kind: Kind, value: Any, path: Path, required: bool) -> Iterator[Change]:
    match kind:
        case Section():
            yield from _of_section(kind, value, path)
        case ListOf(item):
            for index, one in enumerate(value):
                rest = (*value[:index], *value[index + 1 :])
                if rest or not required:
                    yield Change(f"without {_shown(one)}", (*path, index), rest)
                if isinstance(item, Text) and not rest and required:
                    yield from _wrapped(_altered(one, (*path, index)), value, index)
                if not isinstance(item, Text) and not (_is_field(one) and (rest or not required)):
                    yield from _wrapped(_of_kind(item, one, (*path, index), True), value, index)
        case TableOf(item):
            for name, one in value.items():
                if path == ("settings",) and name == "source":
                    continue  # part of every uuid, which cases do not have
                others = {key: other for key, other in value.items() if key != name}
                if others or not required:
                    yield Change(f"without {name!r}", (*path, name), others)
                if not isinstance(item, Text) and not _is_field(one):
                    for change in _of_kind(item, one, (*path, name), True):
                        yield change._replace(part={**value, name: change.part})
        case Verbs(family):
            yield from _of_call(family, value, path)
        case Either(words, family):
            if isinstance(value, Call):
                yield from _of_call(family, value, path)
            else:
                yield from _of_kind(Choice(words), value, path, required)
        case Choice(words):
            for word in words:
                if word != value:
                    yield Change(f"with {word!r} in place of {value!r}", path, word)
                    break
        case Json():
            yield Change(f"with another value than {value}", path, '"changed"')
        case Text():
            yield from _altered(value, path)


def _wrapped(inner: Iterator[Change], value: tuple[Any, ...], index: int) -> Iterator[Change]:
    for change in inner:
        yield change._replace(part=(*value[:index], change.part, *value[index + 1 :]))


def _altered(text: str, path: Path) -> Iterator[Change]:
    other = str(int(text) + 1) if text.isascii() and text.isdigit() else f"{text}_changed"
    yield Change(f"with {other!r} in place of {text!r}", path, other)


def _of_call(family: str, call: Call, path: Path) -> Iterator[Change]:
    if call.verb == "ref":
        absent = Call("ref", {"ref": f"/{_NO_FIELD}"}, call.place)
        yield Change(f"with a field that no row has in place of {call.arguments['ref']!r}", path, absent)
        return
    if family == "condition":
        inner = call.arguments.get("not")
        if inner is not None:
            yield Change("without `not`", path, inner)
        elif call.verb not in ("all", "any"):
            yield Change(f"with the opposite of `{call.verb}`", path, Call("not", {"not": call}, call.place))
    declared = FAMILIES[family][call.verb].arguments
    for key, field in declared.items():
        value = call.arguments.get(key)
        if value is None:
            continue
        others = {name: other for name, other in call.arguments.items() if name != key}
        whole = not isinstance(field.kind, ListOf | TableOf)
        if not field.required and whole:
            yield Change(f"without `{key}` of `{call.verb}`", (*path, key), Call(call.verb, others, call.place))
            if isinstance(field.kind, Text | Choice):
                continue
        if (
            family == "value"
            and isinstance(field.kind, Verbs)
            and field.kind.family == "value"
            and key in (call.verb, "of")
        ):
            yield Change(f"without `{call.verb}`", path, value)
        for change in _of_kind(field.kind, value, (*path, key), field.required):
            yield change._replace(part=Call(call.verb, {**call.arguments, key: change.part}, call.place))


def _is_field(value: object) -> bool:
    """Whether a value is only a reference, so that removing and changing it have the same effect."""
    return isinstance(value, Call) and value.verb == "ref"


def _shown(part: Any) -> str:
    """A part of a list in a few words."""
    if isinstance(part, str):
        return repr(part)
    if isinstance(part, Call):
        first = part.arguments.get(part.verb)
        return (
            f"{first!r}" if part.verb == "ref" else f"`{part.verb}`" + (f" {first!r}" if isinstance(first, str) else "")
        )
    names: Map[str, Any] = asdict(part)
    known = next((value for name in ("code", "kind") if isinstance(value := names.get(name), str)), "")
    return f"{known!r}" if known else "this"
