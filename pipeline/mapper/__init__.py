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

from typing import TYPE_CHECKING

from pipeline.lazily import lazily

if TYPE_CHECKING:
    from pipeline.mapper.compiler import Mapper, compile
    from pipeline.mapper.language.sections import Mapping
    from pipeline.mapper.registry import Compile, available, load, recognise

__all__ = ["Compile", "Mapper", "Mapping", "available", "compile", "load", "recognise"]
__getattr__ = lazily(__name__, {"compiler": "Mapper compile", "registry": "Compile Mapping available load recognise"})
