"""The mapping language: one YAML file for each tool describes how its rows become events.

    mapping = load("mixpanel")                      a name in `mappings/`, or a path
    mapper = compile(mapping, options)              its program, and functions compiled from it
    mapper.map_row(record)                          UnvalidatedEvent | Link | Skip | RejectReason, or a list of them

`available()` lists the names; `recognise(record)` returns those that fit a row.

    language    what a mapping file may say, and how it is read
    verbs       the operations of the language, one function each
    program     the operations that a mapping becomes, as data
    codegen     the Python source that they become, and the functions that it calls
    inspection  what a mapping does: its cases, what it names, what has no effect
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.mapper.compiler import Mapper, compile_mapping
    from pipeline.mapper.language.sections import Mapping
    from pipeline.mapper.registry import Compile, available, load, recognise

    compile = compile_mapping

__all__ = ["Compile", "Mapper", "Mapping", "available", "compile", "load", "recognise"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    homes = {"Mapper": "compiler", "compile": "compiler", "Mapping": "language.sections"}
    home = import_module(f"{__name__}.{homes.get(name, 'registry')}")
    return getattr(home, "compile_mapping" if name == "compile" else name)
