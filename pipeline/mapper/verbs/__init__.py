"""The verbs of the mapping language: each is one function, found by itself in a module of this folder.

A verb of a value or a condition is declared with `pipeline.mapper.kinds.verb` and gives an operation of
`pipeline.mapper.program`. It gets `build` (`build.text(call)`, `build.present(call)` and `build.condition(call)`
give the operations of its arguments) and `call` (`call.given["argument"]` is what the mapping file says).
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
