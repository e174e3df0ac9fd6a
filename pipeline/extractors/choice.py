"""Decides which files of an export count, by what its mapping declares (`files: only, skip, apart, manifest`), and
which are lookup files (`lookup_files`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase

from pipeline.errors import UnfitExport, UsageError
from pipeline.extractors.discovery import SAME_FILE, as_declared
from pipeline.extractors.file_rules import FileRules
from pipeline.extractors.manifests import LEFT_OUT, MANIFESTS, Choice, Listing
from pipeline.extractors.patterns import matches
from pipeline.models import Notice, Part, Source


def choose_parts(source: Source, rules: FileRules) -> Source:
    """The source with only the parts that count, its lookup files separately, and a Notice about each other part.

    Raises UsageError for an unknown kind of manifest; UnfitExport if two kinds of file hold the same events, or if a
    file that a manifest lists is missing; UnreadableExport if a manifest cannot be read.
    """
    source = replace(source, parts=tuple(as_declared(part, rules) for part in source.parts))
    choice = _manifest(rules.manifest)(Listing(source, rules.lookups)) if rules.manifest else Choice()
    reasons = dict(choice.left_out)
    notes = [Notice("manifest", where, detail) for where, detail in choice.notes]
    lookups: dict[str, Part] = {}
    for part in source.parts:
        if matches(part.path, rules.skip):
            reasons.setdefault(part.path, "the mapping leaves such files out (`files: skip`)")
        elif matches(part.path, rules.lookups):
            if part.path not in reasons:
                lookups[part.path] = part
        elif rules.only and not matches(part.path, rules.only):
            reasons.setdefault(part.path, "the mapping does not read such files (`files: only`)")
    counting = [
        number
        for number, part in enumerate(source.parts)
        if part.path not in reasons and (part.path not in lookups or matches(part.path, rules.lookup_rows))
    ]
    _refuse_together([source.parts[number] for number in counting], rules)
    notes += [Notice(LEFT_OUT, path, reason) for path, reason in reasons.items()]
    # Lookup files that did not change are often delivered again with every export.
    unread = tuple(path for path in source.unread if not rules.only or matches(path, rules.only))
    before = [note for note in source.notes if note.code != SAME_FILE or not matches(note.where, rules.lookups)]
    if len(counting) == len(source.parts) and not lookups:
        return replace(source, notes=(*before, *notes), unread=unread)
    return Source(
        tuple(replace(source.parts[number], index=index) for index, number in enumerate(counting)),
        (*before, *notes),
        tuple(source.sizes[number] for number in counting),
        lookups=tuple(sorted(lookups.values(), key=lambda part: choice.order.get(part.path, -1))),
        unread=unread,
    )


def _manifest(name: str) -> Callable[[Listing], Choice]:
    if name not in MANIFESTS:
        raise UsageError(
            f"`files: manifest` has the unknown value {name!r}", hint=f"use one of: {', '.join(MANIFESTS)}"
        )
    return MANIFESTS[name]


def _refuse_together(parts: list[Part], rules: FileRules) -> None:
    """Raises UnfitExport if both patterns of a pair have files. A file belongs to the first pattern that it fits.

    `*` as the second pattern means every other file. If two patterns are the same up to their last `*`, only files that
    have the same text there conflict, such as `events_*` and `events_intraday_*` of one day.
    """
    for first, second in rules.apart:
        mine = {part.path: _variable(part.path, first) for part in parts if matches(part.path, [first])}
        others = {part.path: _variable(part.path, second) for part in parts if matches(part.path, [second])}
        if fnmatchcase(second.replace("*", "0"), first):  # every file of the second pattern fits the first
            mine = {path: text for path, text in mine.items() if path not in others}
        else:
            others = {path: text for path, text in others.items() if path not in mine}
        for path, text in others.items():
            for other, its in mine.items():
                if not text or not its or text == its or second == "*":
                    raise UnfitExport(
                        f"{other} and {path} contain the same events",
                        hint="name only one of them, or plan only one kind of file",
                    )


def _variable(path: str, pattern: str) -> str:
    """The digits that match the last `*` of a pattern, such as a day; "" if none do."""
    step = next((step for step in reversed(path.replace("!", "/").split("/")) if fnmatchcase(step, pattern)), "")
    rest = step[len(pattern.rstrip("*")) :] if pattern.endswith("*") else ""
    return rest[: next((at for at, letter in enumerate(rest) if not letter.isdigit()), len(rest))]
