"""Where mapping files are, and which of them fits a row."""

from __future__ import annotations

import difflib
from collections.abc import Mapping as Map
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path

from pipeline.errors import MappingError, UsageError
from pipeline.extractors.file_rules import FileRules, rules_set
from pipeline.extractors.patterns import matches
from pipeline.mapper.builder import Tables
from pipeline.mapper.compiler import Mapper, compile_mapping
from pipeline.mapper.language import Mapping
from pipeline.mapper.loader import parse, place_of
from pipeline.mapper.own_code import OwnCode, read
from pipeline.mapper.references import find, properties_of
from pipeline.models import SealedOptions
from pipeline.values import Record

_PACKAGE = Path(__file__).resolve().parent.parent


def folder() -> Path:
    """The folder of the shipped mappings: in the installed package, else at the root of the repository."""
    bundled = _PACKAGE / "_bundled" / "mappings"
    return bundled if bundled.is_dir() else _PACKAGE.parent / "mappings"


def available() -> list[str]:
    """The names of the shipped mappings, sorted."""
    return sorted(path.stem for path in folder().glob("*.yaml"))


def load(name_or_path: str, *, with_code: bool = True) -> Mapping:
    """Read a shipped mapping by its name, or any by its path, `with_code` also the code that it names with `python`.

    Raises UsageError and MappingError.
    """
    if name_or_path in available():
        return _shipped(name_or_path)
    path = Path(name_or_path)
    if not path.is_file():
        near = difflib.get_close_matches(name_or_path, available(), n=1)
        raise UsageError(
            f"there is no mapping {name_or_path!r}",
            hint=f"did you mean {near[0]!r}?" if near else f"name a file, or one of: {', '.join(available())}",
        )
    mapping = _read(path, name_or_path)
    return replace(mapping, code=code_of(mapping, path)) if mapping.python and with_code else mapping


def code_of(mapping: Mapping, path: Path) -> OwnCode:
    """The code that the mapping at a path names with `python`. Raises MappingError."""

    def wrong(message: str, hint: str) -> MappingError:
        file, line, column = place_of(mapping, "python")
        return MappingError(message, file=file, line=line, column=column, hint=hint)

    return read(mapping.python, path, wrong)


def file_rules(mapping: Mapping | None, settings: Map[str, str]) -> FileRules:
    """How files are read: as a mapping declares, and settings over it; without a mapping as any shipped one may.

    Raises UsageError for a setting of a wrong value.
    """
    given = rules_set(settings)
    if mapping is None:
        rules = [_declared(load(name)) for name in available()]
        layouts = [layout for rule in rules for layout in (rule, *rule.layouts)]
        return replace(given, layouts=tuple(rule for rule in layouts if rule.columns or rule.columns_from))
    declared = _declared(mapping)
    return replace(declared, header=given.header or declared.header, rows=given.rows or declared.rows)


def _declared(mapping: Mapping) -> FileRules:
    files = {one.name: getattr(mapping.files, one.name) for one in fields(mapping.files)}
    for pair in mapping.files.apart:
        if len(pair) != 2:
            raise MappingError(
                f"`files: apart` has a group of {len(pair)} patterns", file=mapping.file, hint="name two in each pair"
            )
    lookups = mapping.lookup_files.values()
    layouts: dict[tuple[str, ...], list[str]] = {}
    for lookup in lookups:
        if lookup.columns:
            layouts.setdefault(lookup.columns, []).extend(lookup.file)
    written = {name: files[name] for name in ("delimiter", "quotes", "escape", "encoding")}
    return FileRules(
        **files,
        lookups=tuple(pattern for lookup in lookups for pattern in lookup.file),
        lookup_rows=tuple(pattern for lookup in lookups if lookup.rows == "yes" for pattern in lookup.file),
        layouts=tuple(FileRules(**written, columns=names, only=tuple(only)) for names, only in layouts.items()),
    )


def is_lookup_file(path: str) -> bool:
    """Whether a shipped mapping reads files of this path as entries of a lookup table, and not as rows."""
    lookups = (lookup for name in available() for lookup in load(name).lookup_files.values())
    return any(lookup.rows == "no" and matches(path, lookup.file) for lookup in lookups)


def of_tool(tool: str) -> list[Mapping]:
    """The shipped mappings of a tool."""
    line = f"\ntool: {tool}\n"
    names = (path.stem for path in sorted(folder().glob("*.yaml")) if line in path.read_text(encoding="utf-8"))
    return [load(name) for name in names]


@dataclass(frozen=True, slots=True)
class Compile:
    """A mapping's text, its lookup files' tables and its own code, which a worker unpickles and compiles."""

    name: str
    text: str
    lookups: Tables = field(default_factory=dict)
    code: OwnCode | None = None

    def __call__(self, options: SealedOptions) -> Mapper:
        mapping = _parsed(self.text, self.name)
        if self.code is not None:
            mapping = replace(mapping, code=self.code)
        return compile_mapping(mapping, options, self.lookups)


@lru_cache(maxsize=16)
def _parsed(text: str, name: str) -> Mapping:
    """Cached: a plan parses twice in one process, and a job again for each window."""
    return parse(text, name)


@lru_cache(maxsize=64)
def _shipped(name: str) -> Mapping:
    return _read(folder() / f"{name}.yaml", f"{name}.yaml")


def _read(path: Path, name: str) -> Mapping:
    try:
        return parse(path.read_text(encoding="utf-8"), name)
    except UnicodeDecodeError as error:
        raise MappingError(f"not UTF-8: {error.reason}", file=name, hint="save the file as UTF-8") from None
    except OSError as error:
        raise UsageError(f"cannot read the mapping {name}: {error.strerror}", hint="check the path") from None


def recognise(record: Record) -> list[str]:
    """The names of the shipped mappings that fit a row; the row is not changed."""
    return [name for name in available() if fits(load(name), record)]


def fits(mapping: Mapping, record: Record) -> bool:
    """Whether a row fits one clause of `recognise`: it has all references of `has` and none of `lacks`."""
    properties = properties_of(mapping, record)
    return any(
        all(find(call, record, properties) is not None for call in clause.has)
        and not any(find(call, record, properties) is not None for call in clause.lacks)
        for clause in mapping.recognise
    )
