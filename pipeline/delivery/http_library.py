"""httpx without its own command line.

It loads pygments and the progress bars of rich, which takes a tenth of the time of a small `apply`. httpx does without
where its optional libraries are missing; so the module is missing while httpx is imported.
"""

from __future__ import annotations

import sys
from typing import Any

_modules: dict[str, Any] = sys.modules
_COMMAND_LINE = "httpx._main"
_hidden = _modules.setdefault(_COMMAND_LINE, None) is None

import httpx as httpx  # noqa: E402

if _hidden and _modules[_COMMAND_LINE] is None:
    del _modules[_COMMAND_LINE]
