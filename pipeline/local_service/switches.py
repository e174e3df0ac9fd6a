"""The settings of the local service as switches: `--behaviour` chooses a preset, `--set name=value` changes one."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from . import settings as home
from .settings import Settings

Behaviour = Literal["contract", "observed"]
_OBSERVED: dict[str, Any] = {
    "behaviour": "observed",
    "management_rates": "on",
    "promote_properties": "on",
    "query_default_rows": 100,
}
_APART = ("clock", "behaviour")
_SOURCE = re.compile(r" \(service-behaviour [^)]*\)")


class BadSwitch(ValueError):
    """A `name=value` that is no setting."""


class Switch(NamedTuple):
    """A setting: its name, the values it takes, its usual value, what it is about."""

    name: str
    values: str
    usual: str
    about: str


def preset(behaviour: Behaviour, **changes: Any) -> Settings:
    """The settings of a behaviour."""
    return Settings(**((_OBSERVED if behaviour == "observed" else {}) | changes))


def chosen(behaviour: Behaviour, texts: Iterable[str]) -> Settings:
    """The settings of a behaviour, changed by texts like `broadcast=success`. Raises BadSwitch."""
    kinds = _kinds()
    changes = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name not in kinds:
            raise BadSwitch(f"no setting {text!r}: there are {', '.join(kinds)}")
        changes[name] = _value(name, value, kinds[name])
    return preset(behaviour, **changes)


def switches() -> list[Switch]:
    """All that can be set, with the first sentence of what the code says of each."""
    told = _told()
    usual = {field.name: field.default for field in fields(Settings)}
    return [Switch(name, _values(kind), _shown(usual[name]), told[name]) for name, kind in _kinds().items()]


def _kinds() -> dict[str, Any]:
    hints = get_type_hints(Settings)
    return {field.name: hints[field.name] for field in fields(Settings) if field.name not in _APART}


def _value(name: str, value: str, kind: Any) -> Any:
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise BadSwitch(f"{name} is {_values(kind)}, not {value!r}")
        return value
    if value == "none" and type(None) in get_args(kind):
        return None
    number = float if kind is float else int
    try:
        found = number(value)
    except ValueError:
        found = -1
    if not 0 <= found < 2**53:
        raise BadSwitch(f"{name} is {_values(kind)}, not {value!r}")
    return found


def _values(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(get_args(kind))
    return "a number or none" if type(None) in get_args(kind) else "a number"


def _shown(value: object) -> str:
    return "none" if value is None else str(value)


def _told() -> dict[str, str]:
    """The docstring below each setting, up to its first full stop."""
    (body,) = (node.body for node in ast.parse(inspect.getsource(home)).body if isinstance(node, ast.ClassDef))
    found, name = {}, ""
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and name:
            plain = _SOURCE.sub("", " ".join(str(node.value.value).split()))
            found[name] = plain.replace("`", "").partition(". ")[0].rstrip(".")
    return found
