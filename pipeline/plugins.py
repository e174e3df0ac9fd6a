"""Plug-ins: mappings, formats and verbs of installed packages, found by their entry points.

    [project.entry-points."backcast.mappings"]    a label = the package, or folder in a package, with mapping files
    [project.entry-points."backcast.formats"]     the format's name = the module or object that declares it
    [project.entry-points."backcast.verbs"]       the verb's or decoder's name = the module that declares it

The folders of `sys.path` are searched when a name is first requested, and a plug-in's code is imported when it is
needed. If two plug-ins have one name, using it is an error. A plug-in that cannot be loaded is a UsageError for whoever
needs it, and does not affect anyone else.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from pipeline.errors import UsageError

MAPPINGS, FORMATS, VERBS = "backcast.mappings", "backcast.formats", "backcast.verbs"
KINDS = {MAPPINGS: "mapping", FORMATS: "format", VERBS: "verb"}
_MARK = b"backcast."


class Plugin(msgspec.Struct, frozen=True):
    """One entry point. `value` is `module` or `module:name`; `root` is the folder in which its package is installed."""

    group: str
    name: str
    value: str
    package: str
    version: str
    root: Path

    @property
    def origin(self) -> str:
        return f"{self.package} {self.version}"

    @property
    def module(self) -> str:
        return self.value.partition(":")[0].strip()

    def load(self) -> tuple[ModuleType, Any]:
        """Its module, and the object that it names there (the module itself, if it names none). Raises UsageError."""
        try:
            module = importlib.import_module(self.module)
            found: Any = module
            for name in filter(None, self.value.partition(":")[2].strip().split(".")):
                found = getattr(found, name)
        except (Exception, SystemExit) as error:
            raise self.broken(f"{type(error).__name__}: {error}{_where(error)}") from None
        return module, found

    def broken(self, reason: str) -> UsageError:
        """The error for a plug-in that cannot be used."""
        return UsageError(
            f"cannot load the {KINDS[self.group]} {self.name!r} of the package {self.origin}: {reason}",
            hint=f"repair or remove the package {self.package}",
        )


@cache
def installed(group: str) -> tuple[Plugin, ...]:
    """The entry points of a group, by name and then by package."""
    return tuple(plugin for plugin in _all() if plugin.group == group)


def by_name(group: str) -> dict[str, list[Plugin]]:
    """The entry points of a group by name; several with one name are a collision."""
    found: dict[str, list[Plugin]] = {}
    for plugin in installed(group):
        found.setdefault(plugin.name, []).append(plugin)
    return found


def collision(kind: str, name: str, origins: list[str]) -> UsageError:
    """The error for a name that several plug-ins have."""
    return UsageError(
        f"the {kind} {name!r} exists more than once: {' and '.join(origins)}",
        hint="remove one of the packages, or ask its author for another name",
    )


def digest_of(module: ModuleType) -> str:
    """A sha256 of the source of a module; for a package, of all modules in it."""
    file = Path(module.__file__ or "")
    files = sorted(file.parent.rglob("*.py")) if file.name == "__init__.py" else [file]
    digest = hashlib.sha256()
    for one in files:
        content = one.read_bytes()
        digest.update(f"{one.relative_to(file.parent).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


@cache
def _all() -> list[Plugin]:
    found: dict[tuple[str, str, str], Plugin] = {}
    packages: set[str] = set()
    for folder in dict.fromkeys(entry or os.curdir for entry in sys.path):
        for path in _with_entry_points(folder):
            from importlib.metadata import PathDistribution  # only if there is a plug-in

            distribution = PathDistribution(path)
            package = distribution.metadata["Name"] or path.name.partition("-")[0]
            if package in packages:
                continue  # Python imports the one that comes first
            packages.add(package)
            for entry in distribution.entry_points:
                if entry.group in KINDS:
                    found[entry.group, entry.name, package] = Plugin(
                        entry.group, entry.name, entry.value, package, distribution.version, path.parent
                    )
    return [found[key] for key in sorted(found)]


def _with_entry_points(folder: str) -> list[Path]:
    """The metadata of the packages in a folder that have entry points for backcast. Reading all metadata takes ten
    times as long."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(one.name for one in entries if one.name.endswith((".dist-info", ".egg-info")))
    except OSError:
        return []  # not a folder, but perhaps an archive of modules
    found = []
    for name in names:
        try:
            with open(os.path.join(folder, name, "entry_points.txt"), "rb") as file:
                if _MARK in file.read():
                    found.append(Path(folder, name))
        except OSError:
            continue
    return found


def _where(error: BaseException) -> str:
    """The last place in a file that an exception passed through, outside Python's own import system."""
    if isinstance(error, SyntaxError) and error.filename:
        return f", at {error.filename}:{error.lineno or 1}"
    where, trace = "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith("<") and file != __file__ and os.sep + "importlib" + os.sep not in file:
            where = f", at {file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return where
