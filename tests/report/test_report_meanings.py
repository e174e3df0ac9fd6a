"""Every code that a plan can count has an explanation: those of the shipped mappings, and those of the program."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from pipeline.mapper import available, load
from pipeline.plan.settled import CODES
from pipeline.validator.codes import meaning

ROOT = Path(__file__).parent.parent.parent / "pipeline"
MAKERS = {"rule", "Skip", "RejectReason", "BrokenRow"}
"""Calls whose first argument is a code."""
WRITTEN = re.compile(r"\b(?:Skip|RejectReason)\(['\"]([a-z_]+)['\"]")
"""The same in code that a mapping is compiled to."""
CODE = re.compile(r"[a-z]+(?:_[a-z]+)+|superseded")


def shipped() -> Iterator[str]:
    """Codes of the mapping files."""
    for name in available():
        mapping = load(name)
        yield from (rule.code for rule in mapping.skip)
        yield from (rule.skip for rule in mapping.events.values() if rule.skip)


def named() -> Iterator[str]:
    """Codes in the program, where a row, a warning or something left out is counted."""
    for room in ("extractors", "mapper", "validator", "encoder", "identity", "transform", "plan", "values.py"):
        path = ROOT / room
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            yield from _in(ast.parse(file.read_text("utf-8")))


def _in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            place = 0 if called in MAKERS else 1 if called == "warn" else None
            if place is not None and len(node.args) > place:
                yield from _text(node.args[place])
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute | ast.Name):
            name = node.value.attr if isinstance(node.value, ast.Attribute) else node.value.id
            if name in ("warnings", "left_out", "skips"):
                yield from _text(node.slice)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from WRITTEN.findall(node.value)
        elif isinstance(node, ast.Tuple) and len(node.elts) == 2 and _is_sentence(node.elts[1]):
            yield from _text(node.elts[0])


def _is_sentence(node: ast.AST) -> bool:
    """Whether something is the sentence next to a code."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and " " in str(node.value))


def _text(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
        yield node.value


def test_every_code_has_a_meaning() -> None:
    """A reader of a report need not know the program. A few codes must be among those found, one from each place."""
    found = {*shipped(), *named(), *CODES}
    assert {"session_event", "bad_json", "missing_event", "superseded", "hot_distinct_id", "time_truncated"} <= found
    assert [code for code in sorted(found) if not meaning(code)] == []
