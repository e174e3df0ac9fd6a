"""A parsed mapping with the places of its keys. Shipped mappings are parsed when the package is built, others on use.

The build (`hatch_build.py`) writes what it parsed into INDEX, because parsing takes longer than everything else a
command does with a few rows. An entry is found by the digest of its text, and the index is valid only for the code that
wrote it. So if a mapping or the language has changed since, as in a checkout, the text is parsed.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Iterable
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from pipeline import plugins
from pipeline.mapper.language.kinds import Place
from pipeline.mapper.language.sections import Mapping

INDEX = Path(__file__).with_name("parsed.pickle")
Outline: TypeAlias = "dict[str, tuple[int, int, Outline]] | list[tuple[int, int, Outline]] | None"
"""The line and column of each key of a table and of each item of a list, with the outline of its value."""
_FILE, _TEXT = "\0file", "\0text"
"""Placeholders in a pickle for the name and text of the mapping; no mapping has these strings."""


@lru_cache(maxsize=64)
def parse(text: str, file: str) -> Mapping:
    """The mapping in `text`; errors call it `file`. Raises MappingError. Cached, because a job needs it again for each
    window."""
    found = _entry(text)
    if found is not None:
        with suppress(Exception):  # from another version of msgspec it may not be a mapping
            unpickler = _Unpickler(io.BytesIO(found[0]))
            unpickler.texts = {_FILE: file, _TEXT: text}
            mapping: Mapping = unpickler.load()
            return mapping
    from pipeline.mapper.language import loader

    return loader.parse(text, file)


class Places:
    """The places of the keys of a mapping in its file."""

    def __init__(self, mapping: Mapping) -> None:
        self._file = mapping.file
        found = _entry(mapping.text)
        if found is not None:
            self._outline: Outline = pickle.loads(found[1])
            return
        from pipeline.mapper.language import loader

        self._outline = loader.outline(mapping.text, mapping.file)

    def of(self, *path: str | int) -> Place:
        """The place of a key, given the keys and indexes that lead to it, or of the last of these that exists."""
        outline, line, column = self._outline, 1, 1
        for step in path:
            if isinstance(outline, dict) and isinstance(step, str):
                if step not in outline:
                    break
                line, column, outline = outline[step]
            elif isinstance(outline, list) and isinstance(step, int) and step < len(outline):
                line, column, outline = outline[step]
        return Place(self._file, line, column)


def place_of(mapping: Mapping, *path: str | int) -> Place:
    """The place of one key of a mapping; see `Places.of`."""
    return Places(mapping).of(*path)


def write_index(path: Path, texts: Iterable[str]) -> None:
    from pipeline.mapper.language import loader

    entries = {}
    for text in texts:
        pickled = io.BytesIO()
        _Pickler(pickled).dump(msgspec.structs.replace(loader.parse(text, _FILE), text=_TEXT))
        entries[_digest(text)] = pickled.getvalue(), pickle.dumps(loader.outline(text, _FILE))
    path.write_bytes(pickle.dumps((_code(), entries)))


def _entry(text: str) -> tuple[bytes, bytes] | None:
    """The pickled mapping of a text, and its outline. None if an installed package has its own verbs, which may give
    the text another meaning."""
    return None if plugins.installed(plugins.VERBS) else _index().get(_digest(text))


@cache
def _index() -> dict[bytes, tuple[bytes, bytes]]:
    try:
        code, entries = pickle.loads(INDEX.read_bytes())
    except Exception:  # the index is missing or incomplete
        return {}
    return entries if code == _code() else {}


def _code() -> bytes:
    """A digest of all code that decides what is parsed, and how."""
    package = Path(__file__).parent.parent
    files = [*package.rglob("*.py"), package.parent / "json_limits.py", *(package.parent / "extractors").glob("*.py")]
    digest = hashlib.blake2b()
    for file in sorted(files):
        content = file.read_bytes()
        digest.update(f"{file.name} {len(content)}\n".encode() + content)
    return digest.digest()


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class _Pickler(pickle.Pickler):
    def persistent_id(self, part: Any) -> str | None:
        return part if part.__class__ is str and part in (_FILE, _TEXT) else None


class _Unpickler(pickle.Unpickler):
    texts: dict[str, str]

    def persistent_load(self, name: str) -> str:
        return self.texts[name]
