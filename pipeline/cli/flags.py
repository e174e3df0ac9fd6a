"""The flags of a command, made from the declarations in `pipeline.options`."""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable, Collection, Iterable
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

import click

from pipeline.cli import completing
from pipeline.errors import UsageError
from pipeline.option_types import option_of

Command = Callable[..., Any]


def takes(kind: Any, name: str = "options", *, without: Collection[str] = ()) -> Callable[[Command], Command]:
    """Give a command the flags of an options class; the command gets one object of that class, called `name`.

    Fields in `without` get no flag and keep their defaults. Fields of the class that share a flag's name with another
    parameter of the command have to be among them.
    """
    declared = [one for one in fields(kind) if option_of(one).flags and one.name not in without]

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def called(**values: Any) -> Any:
            texts = {one.name: (one, values.pop(one.name)) for one in declared}
            return command(**values, **{name: kind(**_values(texts.values()))})

        hints = typing.get_type_hints(kind)
        made: Command = called
        for one in reversed(declared):
            made = _flag(one, hints[one.name])(made)
        return made

    return decorate


def _values(found: Iterable[tuple[Field[Any], Any]]) -> dict[str, Any]:
    """The values that were given, by name. Raises UsageError for a text that cannot be read, naming its flag."""
    values = {}
    for one, value in found:
        about = option_of(one)
        if one.default is True:
            values[one.name] = not value
        elif value is not None and not (about.many and not value):
            try:
                values[one.name] = value if about.read is None else about.read(value)
            except UsageError as error:
                raise UsageError(f"{about.flags[0]}: {error.message}", hint=error.hint) from None
    return values


def _flag(one: Field[Any], hint: Any) -> Callable[[Command], Command]:
    about = option_of(one)
    given: dict[str, Any] = {"help": about.help or None, "metavar": about.metavar}
    if hint is bool:
        given["is_flag"] = True
    else:
        given |= {"type": _type(one, hint), "multiple": about.many}
    if about.shown:
        given |= {"default": about.shown if isinstance(about.shown, str) else one.default, "show_default": True}
    if about.complete:
        given["shell_complete"] = getattr(completing, about.complete)
    return click.option(*about.flags, one.name, **given)


def _type(one: Field[Any], hint: Any) -> click.ParamType[Any]:
    """What click makes of the text: of several types the first is the command line's."""
    about = option_of(one)
    kind = typing.get_args(hint)[0] if isinstance(hint, types.UnionType) else hint
    if about.read is not None:
        return click.STRING
    if about.choices:
        return click.Choice(about.choices)
    if about.path:
        return click.Path(
            path_type=Path, exists=about.exists, file_okay=about.path == "file", dir_okay=about.path == "folder"
        )
    low = about.least if about.above is None else about.above
    if kind in (int, float) and (low, about.most) != (None, None):
        bounded: Any = click.IntRange if kind is int else click.FloatRange
        return bounded(low, about.most, min_open=about.above is not None)  # type: ignore[no-any-return]
    return click.INT if kind is int else click.FLOAT if kind is float else click.STRING
