"""The verbs of the mapping language. Each is one function in any module of this folder; importing this imports them
all.

A verb for a value or a condition is declared with `pipeline.mapper.language.kinds.verb` and returns an operation of
`pipeline.mapper.program.expressions`. Its parameters are `build` (`build.text(call)`, `build.present(call)` and
`build.condition(call)` return the operations of its arguments) and `call` (`call.arguments["name"]` is an argument as
the mapping file has it).
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
