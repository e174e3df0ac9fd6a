"""Where mapping files are, which of them fits a row, and what `backcast mapping list` lists."""

from __future__ import annotations

import contextlib
import difflib
import os
from collections.abc import Iterator
from collections.abc import Mapping as Map
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pipeline import plugins
from pipeline.errors import MappingError, UsageError
from pipeline.extractors.file_rules import FileRules, rules_set
from pipeline.extractors.patterns import matches
from pipeline.mapper.language.parsed import parse, place_of
from pipeline.mapper.language.sections import Mapping
from pipeline.models import OwnCode, SealedOptions
from pipeline.plugins import MAPPINGS, Plugin, collision, installed
from pipeline.values import Record

if TYPE_CHECKING:
    from pipeline.mapper.compiler import Mapper
    from pipeline.mapper.program.builder import Tables

_PACKAGE = Path(__file__).resolve().parent.parent


def folder() -> Path:
    """The folder of the shipped mappings: in the installed package, else at the root of the repository."""
    bundled = _PACKAGE / "_bundled" / "mappings"
    return bundled if bundled.is_dir() else _PACKAGE.parent / "mappings"


def shipped() -> list[str]:
    """The names of the shipped mappings, sorted."""
    return sorted(path.stem for path in folder().glob("*.yaml"))


def available() -> list[str]:
    """The names of the shipped mappings and of those in installed packages, sorted."""
    return sorted({*shipped(), *of_packages()})


@cache
def of_packages() -> dict[str, list[tuple[Plugin, Path]]]:
    """The mapping files in installed packages, by name; several with one name are a collision."""
    found: dict[str, list[tuple[Plugin, Path]]] = {}
    for plugin in installed(MAPPINGS):
        for path in sorted(_folder_of(plugin).glob("*.yaml")):
            found.setdefault(path.stem, []).append((plugin, path))
    return found


def _folder_of(plugin: Plugin) -> Path:
    """The folder with a package's mapping files. It imports nothing of the package, unless the package is editable."""
    there = plugin.root.joinpath(*plugin.module.split("."))
    if there.is_dir():
        return there
    try:
        spec = find_spec(plugin.module)
    except Exception:
        return there
    return Path(next(iter(spec.submodule_search_locations))) if spec and spec.submodule_search_locations else there


def usable() -> Iterator[tuple[str, Mapping]]:
    """Every readable mapping, with its name. Unreadable ones of packages are left out (see `problems`); if several have
    one name, each is given."""
    own = set(shipped())
    for name in sorted({*own, *of_packages()}):
        if name in own:
            yield name, _shipped(name)
        for plugin, path in of_packages().get(name, ()):
            with contextlib.suppress(MappingError, UsageError):
                yield name, _of_package(plugin, path)


@cache
def problems() -> tuple[tuple[Plugin, UsageError], ...]:
    """What is wrong with the mappings of installed packages."""
    return tuple(_problems())


def _problems() -> Iterator[tuple[Plugin, UsageError]]:
    for plugin in installed(MAPPINGS):
        if not any(_folder_of(plugin).glob("*.yaml")):
            yield plugin, plugin.broken(f"{_folder_of(plugin)} has no mapping file (*.yaml)")
    for name, origins in of_packages().items():
        try:
            load(name)
        except UsageError as error:
            yield origins[0][0], error


def load(name_or_path: str, *, with_code: bool = True) -> Mapping:
    """Read a shipped mapping or one of a package by its name, or any mapping by its path; `with_code` also reads the
    code that it names with `python`.

    Raises UsageError and MappingError.
    """
    packages = of_packages().get(name_or_path, [])
    if name_or_path in shipped():
        if packages:
            raise _collision(name_or_path)
        return _shipped(name_or_path)
    if len(packages) > 1:
        raise _collision(name_or_path)
    if packages:
        return _of_package(*packages[0])
    path = Path(name_or_path)
    if not path.is_file():
        near = difflib.get_close_matches(name_or_path, available(), n=1)
        raise UsageError(
            f"{name_or_path!r} is neither a file nor the name of a shipped mapping",
            hint=f"did you mean {near[0]!r}?" if near else f"give a file, or one of: {', '.join(available())}",
        )
    mapping = _read(path, name_or_path)
    if not mapping.python or not with_code:
        return mapping
    from pipeline.mapper.own_code import read

    return msgspec.structs.replace(mapping, code=read(mapping.python, path, partial(place_of, mapping, "python")))


def _collision(name: str) -> UsageError:
    origins = [f"{plugin.origin} ({path})" for plugin, path in of_packages()[name]]
    return collision("mapping", name, [*(["backcast itself"] if name in shipped() else []), *origins])


def file_rules(mapping: Mapping | None, settings: Map[str, str]) -> FileRules:
    """How files are read: as a mapping declares, overridden by settings; without a mapping, as any shipped one may.

    A mapping that recognises a tool's rows knows their columns: folders `key=value` are not columns unless it says so.

    Raises UsageError for a setting of a wrong value.
    """
    given = rules_set(settings)
    if mapping is None:
        rules = [_declared(mapping) for _, mapping in usable()]
        layouts = [layout for rule in rules for layout in (rule, *rule.layouts)]
        return replace(given, layouts=tuple(rule for rule in layouts if rule.columns or rule.columns_from))
    declared = _declared(mapping)
    if given.columns:
        declared = replace(declared, columns=given.columns, columns_from="", only_columns=True, like={})
    return replace(
        declared, header=given.header or declared.header, rows=given.rows or declared.rows, sheet=given.sheet,
        escape=given.escape or declared.escape, integers=given.integers or declared.integers,
        nan=given.nan or declared.nan,
        folders=given.folders or declared.folders or ("no" if mapping.recognise else ""),
    )  # fmt: skip


def _declared(mapping: Mapping) -> FileRules:
    files = msgspec.structs.asdict(mapping.files)
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
    """Whether a mapping reads files with this path as entries of a lookup table, and not as rows."""
    lookups = (lookup for _, mapping in usable() for lookup in mapping.lookup_files.values())
    return any(lookup.rows == "no" and matches(path, lookup.file) for lookup in lookups)


def of_tool(tool: str) -> list[Mapping]:
    """The mappings of a tool, shipped ones and those of packages."""
    line = f"\ntool: {tool}\n"
    names = (path.stem for path in sorted(folder().glob("*.yaml")) if line in path.read_text(encoding="utf-8"))
    others = (mapping for name, mapping in usable() if name not in shipped()) if of_packages() else ()
    return [*map(_shipped, names), *(mapping for mapping in others if mapping.tool == tool)]


@dataclass(frozen=True, slots=True)
class Compile:
    """A mapping's text, its lookup files' tables and its own code; a worker unpickles and compiles them."""

    name: str
    text: str
    lookups: Tables = field(default_factory=dict)
    code: OwnCode | None = None

    def __call__(self, options: SealedOptions) -> Mapper:
        from pipeline.mapper.compiler import compile_mapping
        from pipeline.mapper.program.builder import HASH_KEY

        if self.code is not None:  # each mapper counts what its code costs
            mapping = msgspec.structs.replace(parse(self.text, self.name), code=self.code)
            return compile_mapping(mapping, options, self.lookups)
        wanted = self, options, os.environ.get(HASH_KEY)
        if not _last or _last[0] != wanted:
            _last[:] = wanted, compile_mapping(parse(self.text, self.name), options, self.lookups)
        mapper: Mapper = _last[1]
        return mapper


_last: list[Any] = []
"""The mapper that was compiled last, and what from: a plan needs the same one several times, as does a comparison."""


@lru_cache(maxsize=64)
def _shipped(name: str) -> Mapping:
    return _read(folder() / f"{name}.yaml", f"{name}.yaml")


@lru_cache(maxsize=64)
def _of_package(plugin: Plugin, path: Path) -> Mapping:
    return _read(path, str(path))


def _read(path: Path, name: str) -> Mapping:
    try:
        return parse(path.read_text(encoding="utf-8"), name)
    except UnicodeDecodeError as error:
        raise MappingError(f"the file is not UTF-8: {error.reason}", file=name, hint="save the file as UTF-8") from None
    except OSError as error:
        raise UsageError(f"cannot read the mapping {name}: {error.strerror}", hint="check the path") from None


def recognise(record: Record) -> list[str]:
    """The names of the mappings that fit a row; the row is not changed."""
    return list(dict.fromkeys(name for name, mapping in usable() if fits(mapping, record)))


def fits(mapping: Mapping, record: Record) -> bool:
    """Whether a row fits one clause of `recognise`: it has all references of `has` and none of `lacks`."""
    from pipeline.mapper.program.references import find, properties_of

    properties = properties_of(mapping, record)
    return any(
        all(find(call, record, properties) is not None for call in clause.has)
        and not any(find(call, record, properties) is not None for call in clause.lacks)
        for clause in mapping.recognise
    )


def listing() -> dict[str, list[dict[str, str]]]:
    """`mappings`, and the `formats` and `verbs` of packages; those of a package have its `package` and `version`.

    `problems` are those of packages: what cannot be used, and why.
    """
    from pipeline.extractors import formats
    from pipeline.mapper.language import plugin_verbs

    broken = [*problems(), *formats.problems(), *plugin_verbs.problems()]
    unusable = {(plugin.group, plugin.name) for plugin, _ in broken}
    mappings: list[dict[str, str]] = []
    for name, mapping in usable():
        origins = of_packages().get(name, [])
        if not origins or (len(origins) == 1 and name not in shipped()):
            mappings.append({"name": name, "tool": mapping.tool, "title": mapping.title, **_of(origins)})
    return {
        "mappings": mappings,
        "formats": [
            {"name": plugin.name, "title": formats.of_package(plugin.name)[2].title, **_origin(plugin)}
            for plugin in plugins.installed(plugins.FORMATS)
            if (plugin.group, plugin.name) not in unusable
        ],
        "verbs": [
            {"name": plugin.name, "title": _help(plugin.name), **_origin(plugin)}
            for plugin in plugins.installed(plugins.VERBS)
            if (plugin.group, plugin.name) not in unusable
        ],
        "problems": [
            {"kind": plugins.KINDS[plugin.group], "name": plugin.name, **_origin(plugin), "error": error.message}
            for plugin, error in broken
        ],
    }


def _of(origins: list[tuple[Plugin, Any]]) -> dict[str, str]:
    return _origin(origins[0][0]) if origins else {}


def _origin(plugin: Plugin) -> dict[str, str]:
    return {"package": plugin.package, "version": plugin.version}


def _help(name: str) -> str:
    from pipeline.mapper.language.kinds import FAMILIES

    return next(verbs[name].help for verbs in FAMILIES.values() if name in verbs)
