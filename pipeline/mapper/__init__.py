"""The mapping language: what becomes of a tool's rows, written down in one YAML file a tool.

    mapping = load("mixpanel")                      a name in `mappings/`, or a path
    mapper = compile(mapping, options)              its program, and fast functions made from it
    mapper.map_row(record)                          UnvalidatedEvent | Link | Skip | RejectReason, or a list of them

`available()` lists the names; `recognise(record)` says which of them a row looks like.
"""

from __future__ import annotations

from pipeline.mapper.compiler import Mapper, compile_mapping
from pipeline.mapper.language import Mapping
from pipeline.mapper.registry import Compile, available, load, recognise

compile = compile_mapping

__all__ = ["Compile", "Mapper", "Mapping", "available", "compile", "load", "recognise"]
