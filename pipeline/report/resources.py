"""What the management API gives, on a terminal. Values that may be secrets are shown as `***`.

Arguments are JSON values as the service gave them: a field may be absent, and of any type.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from pipeline.report.tables import number, table, text
from pipeline.text import printable

Object = Mapping[str, Any]

_CELL = 120
_VALUE = 2_000
_DEEPEST = 32
_SECRET = frozenset(("access_token", "share_passwords", "password", "secret_api_token", "api_token"))


def show_line(console: Console, line: str) -> None:
    """One line."""
    console.print(Text(printable(line, _VALUE)))


def show_functions(console: Console, found: Sequence[Object]) -> None:
    """Hog functions, a row each."""
    _rows(console, found, "id", "name", "type", "enabled", "status", "execution_order")


def show_recordings(console: Console, found: Sequence[Object]) -> None:
    """Session recordings, a row each."""
    _rows(console, found, "id", "distinct_id", "start_time", "recording_duration", "viewed", "ongoing")


def show_projects(console: Console, found: Sequence[Object]) -> None:
    """Projects, a row each."""
    _rows(console, found, "id", "name")


def show_rest(console: Console, shown: int, count: object, more: bool) -> None:
    """How many there are beside those shown."""
    if not shown:
        show_line(console, "None." if not count else f"None here, {count} in all.")
    elif more:
        whole = f" of {count:,}" if isinstance(count, int) else ""
        console.print(Text(f"{shown:,}{whole}; every one: --all", style="dim"))


def show_record(console: Console, record: Object) -> None:
    """One object, a line a field."""
    shown = table("field", "value")
    for name, value in record.items():
        shown.add_row(text(name, _CELL), text(_cell(_masked(name, value)), _VALUE))
    console.print(shown)


def _show_counts(console: Console, counts: Object) -> None:
    shown = table("", "#count")
    for name, value in counts.items():
        shown.add_row(text(name, _CELL), text(_count(value), _CELL))
    console.print(shown)


def show_answer(console: Console, what: str, answer: object) -> None:
    """An answer whose shape the contract leaves open: logs, metrics, totals, icons, or what a run said."""
    if answer is None:
        show_line(console, f"{what}: the service answered without a body.")
        return
    listed = answer.get("results") if isinstance(answer, dict) else answer
    if isinstance(listed, list) and all(isinstance(one, dict) for one in listed):
        names = list(dict.fromkeys(name for one in listed for name in one))
        if listed:
            _rows(console, listed, *names)
        else:
            show_line(console, f"{what}: none.")
    elif isinstance(answer, dict) and _is_series(answer):
        if answer["series"]:
            _series(console, answer["labels"], answer["series"])
        else:
            show_line(console, f"{what}: none.")
    elif isinstance(answer, dict):
        totals = answer.get("totals")
        if totals == {} and len(answer) == 1:
            show_line(console, f"{what}: none.")
        elif isinstance(totals, dict) and len(answer) == 1:
            _show_counts(console, totals)
        else:
            _show_run(console, answer)
    else:
        show_line(console, _cell(answer))


def _show_run(console: Console, answer: Object) -> None:
    """An object, and below it the lines of its log where it has one."""
    logs = answer.get("logs")
    if not isinstance(logs, list) or not logs or not all(isinstance(line, dict) for line in logs):
        show_record(console, answer)
        return
    show_record(console, {name: value for name, value in answer.items() if name != "logs"})
    _rows(console, logs, *dict.fromkeys(name for line in logs for name in line))


def _is_series(answer: Object) -> bool:
    labels, series = answer.get("labels"), answer.get("series")
    return (
        isinstance(labels, list)
        and isinstance(series, list)
        and all(isinstance(one, dict) and isinstance(one.get("values"), list) for one in series)
    )


def _series(console: Console, labels: Sequence[object], series: Sequence[Object]) -> None:
    shown = table("", *(f"#{printable(_cell(one.get('name')), _CELL)}" for one in series))
    for position, label in enumerate(labels):
        values = (one["values"][position : position + 1] for one in series)
        shown.add_row(text(_cell(label), _CELL), *(text(_count(value[0]) if value else "", _CELL) for value in values))
    console.print(shown)


def _rows(console: Console, found: Sequence[Object], *names: str) -> None:
    if not found:
        return
    shown = table(*(f"#{name}" if _is_count(found, name) else name for name in names))
    shown.columns[0].no_wrap = True  # an id that is folded cannot be copied
    for one in found:
        shown.add_row(*(text(_cell(_masked(name, one.get(name))), _CELL) for name in names))
    console.print(shown)


def _is_count(found: Sequence[Object], name: str) -> bool:
    return name != "id" and all(type(one.get(name)) in (int, type(None)) for one in found)


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
