"""This user's folder on this machine for what does not belong to a plan: working copies of buckets, locks of
targets."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "BACKCAST_STATE_DIR"


def state_folder() -> Path:
    """`~/.local/state/backcast`, unless XDG_STATE_HOME or BACKCAST_STATE_DIR names another one."""
    home = os.environ.get("XDG_STATE_HOME", "")
    state = Path(home if os.path.isabs(home) else Path.home() / ".local/state") / "backcast"
    return Path(os.environ.get(VARIABLE) or state).absolute()
