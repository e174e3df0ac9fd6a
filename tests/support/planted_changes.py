"""Changes planted in the product, one line each: how many of them do the tests notice?

    pytest --cov=pipeline --cov-context=test                                    which test executes which line
    python -m tests.support.planted_changes choose .coverage > changes.jsonl    160 changes, from a seed
    python -m tests.support.planted_changes run .coverage changes.jsonl         a JSON object for each of them

A change is tried in a copy of this tree, on the tests that execute its line, those of its package and the fastest
first, until one fails that passes without the change. A package gets changes in proportion to its lines. Lines that no
test executes get none, since coverage counts them, and neither do lines that run only while a module is imported. Of
the part in C it is not known which test executes a line: changes of it are tried on the tests that compare it with
Python, and on the golden files.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any, NamedTuple

import coverage

ROOT = Path(__file__).resolve().parent.parent.parent
NATIVE = "pipeline/native/"
NATIVE_TESTS = ("tests/native/", "tests/test_golden.py", "tests/extractors/test_csv")
STAGES = (40, 400, 100_000)
"""How many tests are tried at once: few at first, since most changes fail at once."""
SECONDS = 900
"""How long the tests of one stage may take; a change that makes them hang counts as noticed."""
C_OPERATORS = (
    ("==", "!="), ("!=", "=="), ("<=", "<"), (">=", ">"), (" < ", " <= "), (" > ", " >= "), ("&&", "||"), ("||", "&&"),
    (" + 1", ""), (" - 1", ""), ("++", "--"), (" + ", " - "), ("return 0;", "return 1;"), ("return -1;", "return 0;"),
)  # fmt: skip
SIGNS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"), ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"), ast.And: ("and", "or"), ast.Or: ("or", "and"), ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"), ast.Mult: ("*", "+"), ast.Div: ("/", "*"), ast.FloorDiv: ("//", "*"), ast.Mod: ("%", "+"),
    ast.BitOr: ("|", "&"), ast.BitAnd: ("&", "|"), ast.LShift: ("<<", ">>"), ast.RShift: (">>", "<<"),
}  # fmt: skip
"""What an operator becomes."""


class Change(NamedTuple):
    """Line `line` (from 1) of `file` becomes `after`."""

    file: str
    line: int
    kind: str
    before: str
    after: str


def changes_of(file: str, source: str) -> Iterator[Change]:
    """Every change of one line within the functions of a module."""
    tree, lines = ast.parse(source), source.split("\n")
    # Before Python 3.12 code inside an f-string has another place.
    hidden = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for inner in ast.walk(node)}
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in (one for statement in function.body for one in ast.walk(statement) if id(one) not in hidden):
                yield from (Change(file, *one) for one in _changes_at(lines, node))


def _changes_at(lines: list[str], node: Any) -> Iterator[tuple[int, str, str, str]]:
    def change(line: int, start: int, end: int, new: str) -> tuple[int, str, str, str]:
        text = lines[line - 1].encode()
        return line, type(node).__name__, lines[line - 1], (text[:start] + new.encode() + text[end:]).decode()

    def segment(part: ast.AST) -> str:
        return ast.get_source_segment("\n".join(lines), part) or ""

    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right, *_]):
            pass
        case ast.BoolOp(op=operator, values=[left, right, *_]) | ast.BinOp(left=left, op=operator, right=right):
            pass
        case _:
            operator = None
    if operator is not None and left.end_lineno == right.lineno:
        old, new = SIGNS.get(type(operator), ("", ""))
        between = lines[right.lineno - 1].encode()[left.end_col_offset : right.col_offset].decode()
        if old and between.count(old) == 1:
            yield change(right.lineno, left.end_col_offset, right.col_offset, between.replace(old, new))
    target, new = node, ""
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            new = segment(operand)
        case ast.Constant(value=int() as value):
            new = str(not value) if isinstance(value, bool) else str(value + 1)
        case ast.If(test=target) | ast.IfExp(test=target):
            new = f"(not ({segment(target)}))"
        case ast.Return(value=ast.expr() as target) if not isinstance(target, ast.Constant):
            new = "None"
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise():
            new = "pass"
        case ast.Break() | ast.Continue():
            new = "continue" if isinstance(node, ast.Break) else "break"
    if new and target.lineno == target.end_lineno:
        yield change(target.lineno, target.col_offset, target.end_col_offset, new)


def changes_in_c(file: str, source: str) -> Iterator[Change]:
    """The first change in each line of a C function, of those that are most likely to matter."""
    for number, line in enumerate(source.splitlines(), 1):
        if line.startswith((" ", "\t")) and not re.match(r"\s*(/?\*|//|#)", line) and '"' not in line:
            for old, new in C_OPERATORS:
                if line.count(old) == 1:
                    yield Change(file, number, "c", line, line.replace(old, new))
                    break


def executed(data: coverage.CoverageData) -> dict[str, dict[int, list[str]]]:
    """The tests that execute each line of each file."""
    found: dict[str, dict[int, list[str]]] = {}
    for path in data.measured_files():
        tests = {line: sorted({*names} - {""}) for line, names in data.contexts_by_lineno(path).items()}
        found[path[path.rindex("pipeline/") :]] = {line: names for line, names in tests.items() if names}
    return found


def choose(lines: dict[str, dict[int, list[str]]], count: int, seed: int) -> list[Change]:
    """`count` changes, in different lines; each package has its share of them, at least one."""
    chance = random.Random(seed)
    sizes: dict[str, int] = defaultdict(int)
    possible: dict[str, list[Change]] = defaultdict(list)
    for path in sorted((ROOT / "pipeline").rglob("*.[cp]*")):
        file, in_c = path.relative_to(ROOT).as_posix(), path.suffix == ".c"
        if path.suffix not in (".py", ".c") or "/_bundled/" in file:
            continue
        source = path.read_text(encoding="utf-8")
        package = file.split("/")[1] if file.count("/") > 1 else "pipeline"
        sizes[package] += source.count("\n")
        found = changes_in_c(file, source) if in_c else changes_of(file, source)
        possible[package] += [one for one in found if in_c or one.line in lines.get(file, {})]
    chosen: list[Change] = []
    for package in sorted(sizes):
        chance.shuffle(possible[package])
        different = list({(one.file, one.line): one for one in possible[package]}.values())
        share = max(1, round(count * sizes[package] / sum(sizes.values())))
        chosen += sorted(chance.sample(different, min(share, len(different))))
    return chosen


class Tree:
    """A copy of this tree in which one change at a time is planted."""

    def __init__(self, path: Path) -> None:
        self._path = path
        hidden = shutil.ignore_patterns(".git", ".venv*", "build", "__pycache__", ".pytest_cache", ".hypothesis")
        shutil.copytree(ROOT, path, ignore=hidden)

    def notices(self, change: Change, tests: list[str]) -> tuple[str, int]:
        """The first test that fails ("" if none does), and how many had passed before."""
        path = self._path / change.file
        original = path.read_text(encoding="utf-8")
        text = original.split("\n")
        text[change.line - 1] = change.after
        changed, passed = "\n".join(text), 0
        try:
            if not self._plant(change, changed):
                return "(does not compile)", 0
            for stage in STAGES:
                names, tests = tests[:stage], tests[stage:]
                while failed := self._first_failure(names):
                    self._plant(change, original)
                    if failed not in names or not self._first_failure([failed]):
                        return failed, passed
                    names.remove(failed)
                    self._plant(change, changed)
                passed += len(names)
            return "", passed
        finally:
            self._plant(change, original)

    def _plant(self, change: Change, text: str) -> bool:
        """Write the file with a change; whether it compiles."""
        (self._path / change.file).write_text(text, encoding="utf-8")
        return not change.file.startswith(NATIVE) or self._run("-m", "pipeline.native.build").returncode == 0

    def _first_failure(self, names: list[str]) -> str:
        if not names:
            return ""
        (self._path / "tests.txt").write_text("\n".join(names), encoding="utf-8")
        try:
            done = self._run("-m", "pytest", "-x", "-p", "no:cacheprovider", "-rfE", "--tb=no", "@tests.txt")
        except subprocess.TimeoutExpired:
            return "(does not end)"
        if done.returncode == 0:
            return ""
        named = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - |$)", done.stdout, re.MULTILINE)
        return named[1] if named else f"(exit {done.returncode})"

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words], cwd=self._path, env={**os.environ, "PYTHONPATH": str(self._path)},
            capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip


def located(change: Change) -> Change | None:
    """The change in this tree, whose lines may have moved since it was chosen; None if the line is gone."""
    path = ROOT / change.file
    lines = path.read_text(encoding="utf-8").split("\n") if path.is_file() else []
    found = [number for number, line in enumerate(lines, 1) if line == change.before]
    return change._replace(line=min(found, key=lambda one: abs(one - change.line))) if found else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("choose", "run"))
    parser.add_argument("lines", type=Path, help="coverage's data file, with a context for each test")
    parser.add_argument("changes", type=Path, nargs="?", help="what `choose` printed")
    parser.add_argument("--count", type=int, default=160)
    parser.add_argument("--seed", type=int, default=28)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=Path, help="a JSON object with the seconds of each test")
    asked = parser.parse_args()
    data = coverage.CoverageData(str(asked.lines))
    data.read()
    lines = executed(data)
    if asked.command == "choose":
        for change in choose(lines, asked.count, asked.seed):
            print(json.dumps(change._asdict()))
        return
    seconds = json.loads(asked.seconds.read_text()) if asked.seconds else {}
    names = sorted({name for tests in lines.values() for names in tests.values() for name in names})
    native = [name for name in names if name.startswith(NATIVE_TESTS)]
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch).chmod(0o755)  # tests that drop to another user read it
        trees: Queue[Tree] = Queue()
        for job in range(asked.jobs):
            trees.put(Tree(Path(scratch, str(job))))

        def judge(text: str) -> dict[str, Any]:
            change = located(Change(**json.loads(text)))
            if change is None:
                return {**json.loads(text), "by": "(the line is there no more)"}
            tests = native if change.file.endswith(".c") else lines.get(change.file, {}).get(change.line, [])
            tree, started = trees.get(), time.monotonic()
            try:
                near = "tests/" + change.file.split("/")[1].removesuffix(".py")
                order = sorted(tests, key=lambda one: (not one.startswith(near), seconds.get(one, 1.0)))
                by, passed = tree.notices(change, order)
            finally:
                trees.put(tree)
            took = round(time.monotonic() - started, 1)
            return {**change._asdict(), "tests": len(tests), "passed": passed, "by": by, "seconds": took}

        with ThreadPoolExecutor(asked.jobs) as pool:
            for found in pool.map(judge, asked.changes.read_text(encoding="utf-8").splitlines()):
                print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
