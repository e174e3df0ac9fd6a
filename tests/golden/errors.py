"""Every error with exit code 2, 3 or 4 and every check that can stop a plan or a run, with its words, as one table.

The words are those of the source: `{name}` is a value, and `A / B` are words of which one is chosen.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from pipeline import errors

ROOT = Path(__file__).resolve().parent.parent.parent
FILE = Path(__file__).with_name("errors.md")
KINDS = {
    name: found.exit_code
    for name, found in vars(errors).items()
    if isinstance(found, type) and issubclass(found, errors.BackcastError) and found.exit_code in (2, 3, 4)
}
PLACED = ("error", "_error")
"""Methods that make an error at a place of a file: its message, then its hint."""


def regenerate() -> None:
    FILE.write_text(table(), encoding="utf-8")


def table() -> str:
    found = defaultdict(list)
    for path in sorted((ROOT / "pipeline").rglob("*.py")):
        where = path.relative_to(ROOT / "pipeline")
        for title, message, hint in _errors(ast.parse(path.read_text(encoding="utf-8"))):
            entry = f"{where}\n    Error: {message}\n" + (f"    Try: {hint}\n" if hint else "")
            if entry not in found[title]:
                found[title].append(entry)
    parts = [f"{title}\n{'=' * len(title)}\n\n" + "\n".join(found[title]) for title in sorted(found)]
    return "\n\n".join(parts)


def _errors(module: ast.Module) -> Iterator[tuple[str, str, str]]:
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
    inner = {id(one) for function in functions for one in ast.walk(function) if one is not function}
    constants = _assigned(module.body)
    for function in functions:
        if id(function) not in inner:
            yield from _of_function(function, constants)


def _of_function(function: ast.FunctionDef, constants: Names) -> Iterator[tuple[str, str, str]]:
    words = _Words(constants | _assigned(ast.walk(function)))
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and [ast.unparse(one) for one in decorator.args[1:]] == ["'stop'"]:
            for found in filter(None, words.returned(function)):
                yield "Checks that stop a plan", f"STOP {words.of(decorator.args[0])}: {found}", ""
    for call in ast.walk(function):
        if not isinstance(call, ast.Call) or not call.args:
            continue
        name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
        if name in KINDS:
            yield f"Exit {KINDS[name]}", words.of(call.args[0]), words.hint(call)
        elif name in PLACED and isinstance(call.func, ast.Attribute):
            yield "Exit 2 or 3, at a place of a file", words.of(call.args[0]), words.hint(call, 1)
        elif name == "Check" and len(call.args) > 2 and "stop" in words.of(call.args[1]):
            yield "Checks of the target that stop a run", words.of(call.args[2]), words.hint(call, 3)


Names = dict[str, list[ast.expr]]


def _assigned(nodes: Iterable[ast.AST]) -> Names:
    """Name → what is assigned to it."""
    found: Names = defaultdict(list)
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    found[target.id].append(node.value)
                elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    for one, value in zip(target.elts, node.value.elts, strict=False):
                        if isinstance(one, ast.Name):
                            found[one.id].append(value)
    return found


class _Words:
    """The words of expressions for strings, in which `names` are known."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._open: list[str] = []

    def hint(self, call: ast.Call, at: int = 9) -> str:
        named = [one.value for one in call.keywords if one.arg == "hint"]
        return self.of(named[0]) if named else self.of(call.args[at]) if len(call.args) > at else ""

    def returned(self, check: ast.FunctionDef) -> Iterator[str]:
        """What a check returns: a sentence, or a finding that begins with one."""
        for node in ast.walk(check):
            if isinstance(node, ast.Return) and node.value is not None:
                value = node.value.orelse if isinstance(node.value, ast.IfExp) else node.value
                yield self.of(value)

    def of(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=value):
                return value if isinstance(value, str) else ""
            case ast.JoinedStr(values=values):
                return "".join(map(self.of, values))
            case ast.FormattedValue(value=value):
                return self.of(value)
            case ast.IfExp(body=body, orelse=other):
                return " / ".join(filter(None, map(self.of, (body, other))))
            case ast.BoolOp(values=values):
                return " / ".join(filter(None, map(self.of, values)))
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self.of(left) + self.of(right)
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(between)), attr="join"), args=[items]):
                return f"{self.of(items)}{between}…"
            case ast.Call(args=[first, *_]):
                return self.of(first)
            case ast.Name(id=name) if name in self._names and name not in self._open:
                self._open.append(name)
                found = [self.of(one) for one in self._names[name]]
                self._open.pop()
                texts = [one for one in dict.fromkeys(found) if " " in one]
                return " / ".join(texts) if texts else f"{{{name}}}"
            case ast.Attribute(attr=name) | ast.Name(id=name):
                return f"{{{name}}}"
            case ast.Starred(value=value) | ast.GeneratorExp(elt=value) | ast.ListComp(elt=value):
                return self.of(value)
            case _:
                return "{…}"
