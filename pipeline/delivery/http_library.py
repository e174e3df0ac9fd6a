"""httpx without its own command line, which loads pygments and the progress bars of rich: a tenth of a small `apply`.

httpx does without where its optional libraries are missing; so the module is missing while httpx is imported.
"""

import sys
from typing import Any

_modules: dict[str, Any] = sys.modules
_hidden = _modules.setdefault("httpx._main", None) is None

import httpx as httpx  # noqa: E402

if _hidden:
    _modules.pop("httpx._main", None)
