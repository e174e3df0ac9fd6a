"""Write every golden file again (`make golden`), or those of the named modules. They are never edited by hand; read the
diff."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from tests.golden import errors, people, programs, samples, terminal
from tests.golden.report import small_plan

for module in (samples, people, programs, small_plan, terminal, errors):
    if module.__name__.rpartition(".")[2] in (sys.argv[1:] or module.__name__.split(".")):
        module.regenerate()
