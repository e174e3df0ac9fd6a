"""Write every golden file again: `make golden`. Golden files are never edited by hand; read the diff."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from tests.golden import people, programs, samples, terminal
from tests.golden.report import small_plan

samples.regenerate()
people.regenerate()
programs.regenerate()
small_plan.regenerate()
terminal.regenerate()
