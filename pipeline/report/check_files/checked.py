"""What the files of `plan --report` say: every check, also those that found nothing, and where each points to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePath

import msgspec

from pipeline.models import Finding
from pipeline.plan.checks import CHECKS
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import MappingSeal, Plan
from pipeline.report.contents import code_counts, first_rejects
from pipeline.report.wording import ADVICE, advice_of
from pipeline.text import printable

CHARACTERS = 2_000
SECTIONS = {
    "open_choices": "open",
    "max_unmapped": "known",
    "key_not_unique": "key",
    "keyless": "key",
    "zone": "time",
    "renamed_event": "events",
    "similar_names": "events",
}
"""The section of a mapping file that a person changes, by the check."""


class Place(msgspec.Struct, frozen=True):
    """A file, and a line or row of it, from 1 (0: the file as a whole). `offset` is in bytes of the decompressed file
    of an export, and `of_mapping` says that the file is the mapping's."""

    file: str
    line: int = 0
    offset: int = 0
    of_mapping: bool = False


class Result(msgspec.Struct, frozen=True):
    """One check or code. `level` is `stop`, `warning`, `notice`, or `ok` where nothing was found.

    `count` is in how many places it was found, and `examples` are some of them in words. `about` is what the check or
    code is for. `of_check` tells checks from codes. All texts can be shown.
    """

    name: str
    level: str
    about: str
    detail: str = ""
    count: int = 0
    examples: tuple[str, ...] = ()
    remedy: str = ""
    place: Place | None = None
    of_check: bool = False

    @property
    def sentence(self) -> str:
        """What was found: of a check its own sentence, of a code its count, its meaning and an example."""
        return self.detail if self.of_check else f"{self.count:,} × {self.about or self.name}; {self.detail}"


class Checked(msgspec.Struct, frozen=True):
    """A plan as its checks see it. `rejects` and `warnings` have one entry for each code."""

    plan: Plan
    checks: tuple[Result, ...]
    rejects: tuple[Result, ...]
    warnings: tuple[Result, ...]


def checked_plan(plan: Plan, directory: Directory) -> Checked:
    """Read what a plan found. Raises UnsafePlan where its list of rejects is damaged."""
    examples = first_rejects(directory, plan)
    too_many = any(gate.name == "max_rejects" and gate.level == "stop" for gate in plan.gates)
    rejects = tuple(
        Result(
            row.code,
            "stop" if too_many else "warning",
            row.meaning,
            _one_example(row.part, row.row, row.detail),
            row.count,
            remedy=_remedy(ADVICE["rejects"], directory.path),
            place=Place(row.part, row.row, examples[row.code].offset) if row.part else None,
        )
        for row in code_counts(plan.rejects, examples)
    )
    warnings = tuple(
        Result(
            row.code,
            "warning",
            row.meaning,
            _one_example(row.part, row.row, row.detail),
            row.count,
            place=Place(row.part, row.row, plan.examples[row.code].offset) if row.part else None,
        )
        for row in code_counts(plan.warnings, plan.examples)
    )
    return Checked(plan, tuple(_checks(plan, directory.path)), rejects, warnings)


def _checks(plan: Plan, directory: Path) -> Iterator[Result]:
    """Every check in its order: its finding, or that it found nothing. Findings of packages come last."""
    found = {gate.name: gate for gate in plan.gates}
    about: dict[str, dict[str, str]] = {}
    for one in CHECKS:
        first = (one.find.__doc__ or one.name).split("\n\n")[0]
        about.setdefault(one.name, {})[one.level] = " ".join(first.split())
    for name, texts in about.items():
        text = next(iter(texts.values()))
        gate = found.pop(name, None)
        if gate is None:
            yield Result(name, "ok", text)
        else:
            yield _finding(plan, gate, texts.get(gate.level, text), directory)
    for name, gate in found.items():
        yield _finding(plan, gate, name, directory)


def _finding(plan: Plan, gate: Finding, about: str, directory: Path) -> Result:
    examples = () if gate.examples is msgspec.UNSET else gate.examples
    return Result(
        gate.name,
        gate.level,
        about,
        printable(gate.detail, CHARACTERS),
        1 if gate.count is msgspec.UNSET else gate.count,
        tuple(printable(example, CHARACTERS) for example in examples),
        _remedy(advice_of(gate), directory),
        _place(plan, gate),
        of_check=True,
    )


def _one_example(part: str, row: int, detail: str) -> str:
    return f"for example {printable(part, 400)}, row {row:,}: {detail}" if part else ""


def _remedy(advice: str, directory: Path) -> str:
    return re.sub(r"\bDIR\b", lambda _: printable(str(directory), 400), advice.replace("`", ""))


def _place(plan: Plan, gate: Finding) -> Place | None:
    """Where a person looks first: the line of the mapping file that the finding names or is about; else the mapping
    file, where it is one; else the export, where it is one file."""
    if _is_file(plan.mapping.name):
        return Place(plan.mapping.name, _line_of(gate, plan.mapping), of_mapping=True)
    return Place(plan.parts[0].path) if len(plan.parts) == 1 else None


def _is_file(mapping: str) -> bool:
    """Whether a mapping was given as a file; a shipped one has a name alone."""
    return mapping.endswith((".yaml", ".yml")) or PurePath(mapping).name != mapping


def _line_of(gate: Finding, mapping: MappingSeal) -> int:
    """The line of a mapping file that a finding names, or on which the first name that it quotes stands, or on which
    the section begins that a person changes for it; else 1."""
    if named := re.search(rf"{re.escape(PurePath(mapping.name).name)}:(\d+)", gate.detail):
        return int(named[1])
    quoted = re.search("'([^']+)'", gate.detail) if gate.name == "unmatched_reference" else None
    section = SECTIONS.get(gate.name, "")
    for number, line in enumerate(mapping.text.splitlines(), 1):
        if (section and line.startswith(f"{section}:")) or (quoted is not None and quoted[1] in line):
            return number
    return 1
