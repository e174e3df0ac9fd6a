"""The flags of a command, built from the declarations in `pipeline.options`."""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

import click

from pipeline.cli.common import COMPLETIONS
from pipeline.errors import UsageError
from pipeline.option_types import option_of

Command = Callable[..., Any]


def takes(kind: Any, name: str = "options", *, without: Collection[str] = ()) -> Callable[[Command], Command]:
    """Give a command the flags of an options class; the command gets one object of that class, called `name`.

    Fields in `without` get no flag and keep their defaults. Fields of the class that share a flag's name with another
    parameter of the command have to be among them.
    """
    declared = [field for field in fields(kind) if option_of(field).flags and field.name not in without]

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def parse(**values: Any) -> Any:
            texts = {field.name: (field, values.pop(field.name)) for field in declared}
            off = [field for field in declared if option_of(field).off and values.pop(f"no_{field.name}")]
            return command(**values, **{name: kind(**_values(texts.values()), **_off(off, texts))})

        hints = typing.get_type_hints(kind)
        decorated: Command = parse
        for field in reversed(declared):
            decorated = _flag(field, hints[field.name])(decorated)
        return decorated

    return decorate


def _off(fields: Sequence[Field[Any]], given: Mapping[str, tuple[Field[Any], Any]]) -> dict[str, bool]:
    """False for each of these fields. Raises UsageError if one has another value, too."""
    for field in fields:
        if given[field.name][1] is not None:
            flags = f"--no-{field.name} and --{field.name}"
            raise UsageError(f"{flags} contradict each other", hint="give one of the two")
    return dict.fromkeys((field.name for field in fields), False)


def _values(parsed: Iterable[tuple[Field[Any], Any]]) -> dict[str, Any]:
    """The values of the flags on the command line, by name. Raises UsageError for a value that cannot be read."""
    values = {}
    for field, value in parsed:
        option = option_of(field)
        if field.default is True and option.read is None:
            values[field.name] = not value
        elif value is not None and not (option.many and not value):
            try:
                values[field.name] = value if option.read is None else option.read(value)
            except UsageError as error:
                raise UsageError(f"{option.flags[0]}: {error.message}", hint=error.hint) from None
    return values


def _flag(field: Field[Any], hint: Any) -> Callable[[Command], Command]:
    option = option_of(field)
    settings: dict[str, Any] = {"help": option.help or None, "metavar": option.metavar}
    if hint is bool:
        settings["is_flag"] = True
    else:
        settings |= {"type": _type(field, hint), "multiple": option.many}
    if option.shown:
        settings |= {"default": option.shown if isinstance(option.shown, str) else field.default, "show_default": True}
    elif "[default" not in option.help and hint is not bool and not option.many:
        settings["help"] = f"{option.help}  [default: {option.without or 'none'}]"
    if option.complete:
        settings["shell_complete"] = COMPLETIONS[option.complete]
    flag = click.option(*option.flags, field.name, **settings)
    if option.off is None:
        return flag
    name, help = option.off
    off = click.option(name, f"no_{field.name}", is_flag=True, help=help)
    return lambda command: off(flag(command))


def _type(field: Field[Any], hint: Any) -> click.ParamType[Any]:
    """The click type of a field; for a union, that of its first type."""
    option = option_of(field)
    kind = typing.get_args(hint)[0] if isinstance(hint, types.UnionType) else hint
    if option.read is not None:
        return click.STRING
    if option.choices:
        return click.Choice(option.choices)
    if option.path:
        return click.Path(
            path_type=Path if kind is Path else str,  # a Path makes one slash of the two in a URL
            exists=option.exists,
            file_okay=option.path == "file",
            dir_okay=option.path == "folder",
        )
    low = option.least if option.above is None else option.above
    if kind in (int, float) and (low, option.most) != (None, None):
        bounded: Any = click.IntRange if kind is int else click.FloatRange
        return bounded(low, option.most, min_open=option.above is not None)  # type: ignore[no-any-return]
    return click.INT if kind is int else click.FLOAT if kind is float else click.STRING
