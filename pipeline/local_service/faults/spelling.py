"""How a fault is written: `name[:value][,option=text][,flag]`, strict, and with the nearest word when it is wrong."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from .fault import BadFault, Fault

COMMON = (
    ("every=N", "acts on each Nth request that reaches it only"),
    ("chance=P%", "acts on a request with this probability"),
    ("skip=N", "leaves the first N requests alone"),
    ("times=N", "acts N times at most"),
)


def read_script(texts: Iterable[str], seed: int = 0) -> list[Fault]:
    """The faults of a script, in order. Raises BadFault."""
    return [read_fault(text, seed=str(seed), place=str(place)) for place, text in enumerate(texts)]


def read_fault(text: str, *, seed: str = "0", place: str = "0") -> Fault:
    """One fault. Raises BadFault, which names the nearest word that would do."""
    head, *rest = text.split(",")
    name, colon, given = head.partition(":")
    kind = Fault.names.get(name)
    if kind is None:
        raise BadFault(f"no fault is called {name!r}", _nearest(name, Fault.names, "the faults are"))
    fields = {field.name: field for field in dataclasses.fields(kind) if "read" in field.metadata}
    main = next((field for field in fields.values() if "value" in field.metadata), None)
    settings: dict[str, Any] = {"text": text, "seed": seed, "place": place}
    if colon and main is None:
        raise BadFault(f"{name} takes no value, but was given {given!r}", f"write {kind.example}")
    if main is not None:
        if colon:
            settings[main.name] = _read(main, given, text, kind)
        elif main.default is dataclasses.MISSING:
            raise BadFault(f"{name} needs a value", f"write {kind.example}")
    options = {_spelt(field): field for field in fields.values() if field is not main}
    for item in rest:
        key, equals, said = item.partition("=")
        field = options.get(key)
        if field is None:
            raise BadFault(f"{name} has no option {key!r}", _nearest(key, options, f"the options of {name} are"))
        if field.name in settings:
            raise BadFault(f"{key} is given twice in {text!r}", "give it once")
        if (field.metadata["read"] is None) == bool(equals):
            wanted = key if equals else f"{key}=VALUE"
            raise BadFault(f"{item!r} is not how {key} is written", f"write {wanted}")
        settings[field.name] = _read(field, said, text, kind) if equals else True
    try:
        return kind(**settings)
    except ValueError as error:
        raise BadFault(f"{text!r} is not complete", f"write {error}") from None


def catalogue() -> Sequence[tuple[str, str]]:
    """Each fault as it may be written, with what it does; then the options that all have."""
    kinds = sorted(Fault.names.items())
    return [(kind.example, " ".join((kind.__doc__ or "").split())) for _, kind in kinds] + list(COMMON)


def _read(field: dataclasses.Field[Any], given: str, text: str, kind: type[Fault]) -> Any:
    try:
        return field.metadata["read"](given)
    except BadFault:
        raise
    except ValueError as error:
        named = kind.name if "value" in field.metadata else f"{_spelt(field)} of {kind.name}"
        raise BadFault(f"{named} cannot be {given!r}", f"write {error}") from None


def _spelt(field: dataclasses.Field[Any]) -> str:
    return field.name.replace("_", "-")


def _nearest(given: str, known: Iterable[str], what: str) -> str:
    names = sorted(known)
    close = difflib.get_close_matches(given, names, 1, 0.5)
    return (f"did you mean {close[0]}? " if close else "") + f"{what} {', '.join(names)}"
