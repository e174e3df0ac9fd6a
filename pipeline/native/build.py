"""Compiles this folder's C, where there is a compiler: `python -m pipeline.native.build`.

Installing backcast does it by itself (`hatch_build.py`). Without a compiler, or without Python's headers, backcast
works all the same, in Python.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
NAME = f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"
FLAGS = ("-O2", "-std=c11", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-DNDEBUG")


def build(to: Path) -> str:
    """Compile into the folder `to`; why it could not be done, or "". What was there before is replaced at once.

    CFLAGS of the environment come last: `.ci/sanitize` builds with sanitizers so.
    """
    if os.environ.get("BACKCAST_NATIVE") == "0":
        return "BACKCAST_NATIVE is 0"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "Python's headers are not installed"
    linker = shlex.split(sysconfig.get_config_var("LDSHARED") or "")
    if not linker or shutil.which(linker[0]) is None:
        linker = ["cc", "-shared"]
    to.mkdir(parents=True, exist_ok=True)
    made = to / f"{NAME}.{os.getpid()}"
    include = f"-I{sysconfig.get_path('include')}"
    sources = sorted(map(str, FOLDER.glob("*.c")))
    try:
        flags = (*FLAGS, *shlex.split(os.environ.get("CFLAGS", "")))
        done = subprocess.run([*linker, *flags, include, *sources, "-o", str(made)], capture_output=True, text=True)
        if done.returncode:
            return f"{linker[0]} says: {done.stderr.strip()[-500:]}"
        made.replace(to / NAME)
    except OSError as error:
        return str(error)
    finally:
        made.unlink(missing_ok=True)
    return ""


if __name__ == "__main__":
    sys.exit(build(FOLDER) or None)
