"""Answers of the management API, on a terminal. Values that may be secrets are shown as `***`.

Arguments are JSON values as the service returned them: a field may be absent, and of any type.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

from rich.console import Console
from rich.text import Text

from pipeline.report.terminal.tables import number, show_table, table, text
from pipeline.text import printable

Object = Mapping[str, Any]

_CELL = 120
_VALUE = 2_000
_DEEPEST = 32
_SECRET = frozenset(("access_token", "share_passwords", "password", "secret_api_token", "api_token"))


def show_line(console: Console, line: str) -> None:
    """One line."""
    console.print(Text(printable(line, _VALUE)))


def show_rows(console: Console, objects: Sequence[Object], *columns: str) -> None:
    """A table of objects; nothing if there are none."""
    if not objects:
        return
    counts = {name for name in columns if all(type(item.get(name)) in (int, type(None)) for item in objects)} - {"id"}
    shown = table(*(f"#{name}" if name in counts else name for name in columns))
    shown.columns[0].no_wrap = True  # an id that is folded cannot be copied
    for item in objects:
        shown.add_row(*(text(_cell(_masked(name, item.get(name))), _CELL) for name in columns))
    console.print(shown)


def show_page(console: Console, envelope: Object, columns: Sequence[str]) -> None:
    """A page of a list, and how many other items there are."""
    items, count = envelope["results"], envelope.get("count")
    show_rows(console, items, *columns)
    if not items:
        show_line(console, "None." if not count else f"None here, {count} in all.")
    elif envelope.get("next") or envelope.get("has_next"):
        whole = f" of {count:,}" if isinstance(count, int) else ""
        console.print(Text(f"{len(items):,}{whole}; every one: --all", style="dim"))


def show_record(console: Console, record: Object) -> None:
    """One object, a line a field."""
    rows = [(name, _cell(_masked(name, value))) for name, value in record.items()]
    show_table(console, {"field": _CELL, "value": _VALUE}, rows)


def show_answer(console: Console, title: str, answer: object) -> None:
    """An answer whose shape the contract leaves open: logs, metrics, totals, icons, or the result of a run."""
    listed = answer.get("results") if isinstance(answer, dict) else answer
    if answer is None:
        show_line(console, f"{title}: the service answered without a body.")
    elif answer == {"totals": {}} or listed == [] or (_is_series(answer) and not answer["series"]):
        show_line(console, f"{title}: none.")
    elif _is_objects(listed):
        show_rows(console, listed, *_names(listed))
    elif not isinstance(answer, dict):
        show_line(console, _cell(answer))
    elif _is_series(answer):
        _show_series(console, answer["labels"], answer["series"])
    elif list(answer) == ["totals"] and isinstance(answer["totals"], dict):
        rows = [(name, _count(value)) for name, value in answer["totals"].items()]
        show_table(console, {"": _CELL, "#count": _CELL}, rows)
    elif answer.get("logs") and _is_objects(answer["logs"]):
        show_record(console, {name: value for name, value in answer.items() if name != "logs"})
        show_rows(console, answer["logs"], *_names(answer["logs"]))
    else:
        show_record(console, answer)


def _is_objects(value: object) -> TypeGuard[list[Object]]:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _names(objects: Iterable[Object]) -> Iterable[str]:
    """The fields of all objects, in the order in which they first occur."""
    return dict.fromkeys(name for item in objects for name in item)


def _is_series(answer: object) -> TypeGuard[dict[str, Any]]:
    return (
        isinstance(answer, dict)
        and isinstance(answer.get("labels"), list)
        and _is_objects(series := answer.get("series"))
        and all(isinstance(line.get("values"), list) for line in series)
    )


def _show_series(console: Console, labels: Sequence[object], series: Sequence[Object]) -> None:
    shown = table("", *(f"#{printable(_cell(line.get('name')), _CELL)}" for line in series))
    for position, label in enumerate(labels):
        values = (line["values"][position : position + 1] for line in series)
        shown.add_row(text(_cell(label), _CELL), *(text(_count(value[0]) if value else "", _CELL) for value in values))
    console.print(shown)


def _cell(value: object) -> str:
    """A value as people read it: users and templates by what names them."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict) and set(value) & {"state", "rating", "tokens"} and "id" not in value:
        return ", ".join(f"{name} {_cell(part)}" for name, part in value.items())
    if isinstance(value, dict) and "email" in value:
        return _cell(value["email"])
    if isinstance(value, dict) and "mapping_templates" in value:
        return _cell(value.get("id"))
    return json.dumps(value, ensure_ascii=False)


def _count(value: object) -> str:
    return number(value) if isinstance(value, int) and not isinstance(value, bool) else _cell(value)


def _masked(name: str, value: Any, depth: int = 0) -> Any:
    """A value without what may be secret: input values wherever they are nested, tokens, passwords."""
    if name in _SECRET:
        return "***" if value else value
    if name == "inputs" and isinstance(value, dict):
        return dict.fromkeys(value, "***")
    if depth > _DEEPEST and isinstance(value, dict | list):
        return "…"
    if isinstance(value, dict):
        return {inner: _masked(inner, part, depth + 1) for inner, part in value.items()}
    if isinstance(value, list):
        return [_masked("", part, depth + 1) for part in value]
    return value
