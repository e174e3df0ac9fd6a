"""`plan --report junit=FILE`: JUnit XML as Jenkins, GitLab and others read it; valid by the schema of Jenkins.

A test case for each check, for each code of rejected rows and for each code of warnings. One of the level `stop` has
failed; what only warns has passed, and its text is in `system-out`, since the format has nothing between the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

import msgspec

from pipeline.files import may_replace, write_atomically
from pipeline.models import Finding
from pipeline.plan.checks import CHECKS
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.contents import CodeCount, code_counts, first_rejects
from pipeline.report.wording import ADVICE, advice_of
from pipeline.text import printable

_BEGINS = (b"<?xml", b"<testsuite")
"""The first bytes of such a file: one that begins otherwise is something else, and is never written over."""
_CHARACTERS = 2_000
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot contain."""


class Case(NamedTuple):
    """A test case. `level` is that of a check, or `ok` if nothing was found; `lines` are its text."""

    name: str
    level: str = "ok"
    lines: tuple[str, ...] = ()


def prepare(file: Path, directory: Path) -> None:
    """Look at the place of the file before an export is read, and remove what an earlier plan wrote there.

    So a plan that fails leaves no file that says something else. `directory` is the plan's, which may not exist yet.
    Raises UsageError if nothing can be written there, and for an existing file of another kind.
    """
    if file.parent != directory or directory.is_dir():
        may_replace(file, _BEGINS, "--report")
    file.unlink(missing_ok=True)


def write_junit(file: Path, plan: Plan, directory: Directory) -> None:
    """Write the file whole or not at all. Raises UsageError, UnsafePlan, OSError."""
    may_replace(file, _BEGINS, "--report")
    write_atomically(file, junit(plan, groups_of(plan, directory)))


def groups_of(plan: Plan, directory: Directory) -> dict[str, list[Case]]:
    """What a plan found, in groups. Raises UnsafePlan if its list of rejects is damaged."""
    too_many = any(gate.name == "max_rejects" and gate.level == "stop" for gate in plan.gates)
    remedy = _remedy(ADVICE["rejects"], directory.path)
    rejects = code_counts(plan.rejects, first_rejects(directory, plan))
    return {
        "checks": list(_checks(plan, directory.path)),
        "rejects": [_code(row, "stop" if too_many else "warning", remedy) for row in rejects],
        "warnings": [_code(row, "warning") for row in code_counts(plan.warnings, plan.examples)],
    }


def _checks(plan: Plan, directory: Path) -> Iterator[Case]:
    """Every check in its order: its finding, or that it found nothing. Findings of packages come last."""
    found = {gate.name: gate for gate in plan.gates}
    for name in dict.fromkeys(check.name for check in CHECKS):
        gate = found.pop(name, None)
        yield Case(name) if gate is None else _finding(gate, directory)
    for gate in found.values():
        yield _finding(gate, directory)


def _finding(gate: Finding, directory: Path) -> Case:
    examples = [] if gate.examples is msgspec.UNSET else gate.examples
    lines = [printable(gate.detail, _CHARACTERS), *(f"- {printable(one, _CHARACTERS)}" for one in examples)]
    return Case(gate.name, gate.level, (*lines, *_remedy(advice_of(gate), directory)))


def _code(row: CodeCount, level: str, remedy: tuple[str, ...] = ()) -> Case:
    example = f"for example {printable(row.part, 400)}, row {row.row:,}: {row.detail}" if row.part else ""
    return Case(row.code, level, (f"{row.count:,} × {row.meaning or row.code}; {example}", *remedy))


def _remedy(advice: str, directory: Path) -> tuple[str, ...]:
    text = re.sub(r"\bDIR\b", lambda _: printable(str(directory), 400), advice.replace("`", ""))
    return (f"Try: {text}",) if text else ()


def junit(plan: Plan, groups: Mapping[str, Sequence[Case]]) -> bytes:
    """The file as UTF-8."""
    names = ("digest", "verdict", "tool", "mapping.name", "rows.read", "rows.rejected", "events.made")
    cases = [case for some in groups.values() for case in some]
    root = ET.Element("testsuites", {"name": "backcast plan", **_counts(cases)})
    for number, (name, some) in enumerate(groups.items()):
        suite = ET.SubElement(root, "testsuite", {"name": f"backcast.{name}", **_counts(some), "skipped": "0"})
        if number == 0:
            section = ET.SubElement(suite, "properties")
            for key in names:
                value = str(attrgetter(key)(plan))
                ET.SubElement(section, "property", {"name": key.removesuffix(".name"), "value": _text([value])})
        for case in some:
            _add_case(suite, name, case)
    ET.indent(root)
    body: bytes = ET.tostring(root, "utf-8")
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + body + b"\n"


def _counts(cases: Sequence[Case]) -> dict[str, str]:
    failed = sum(case.level == "stop" for case in cases)
    return {"tests": str(len(cases)), "failures": str(failed), "errors": "0"}


def _add_case(suite: ET.Element, group: str, case: Case) -> None:
    element = ET.SubElement(suite, "testcase", {"classname": f"backcast.{group}", "name": _text([case.name])})
    if case.level == "stop":
        failure = ET.SubElement(element, "failure", {"type": "stop", "message": _text(case.lines[:1])})
        failure.text = _text(case.lines)
    elif case.level != "ok":
        ET.SubElement(element, "system-out").text = f"{case.level}: {_text(case.lines)}"


def _text(lines: Iterable[str]) -> str:
    return _NO_XML.sub("\ufffd", "\n".join(lines))
