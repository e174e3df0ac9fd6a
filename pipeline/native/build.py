"""Compiles this folder's C code if there is a compiler: `python -m pipeline.native.build`.

Installing backcast does this automatically (`hatch_build.py`). Without a compiler or Python's headers, backcast works
anyway, in Python.
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
LOAD = """
import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
try:
    module_from_spec(spec_from_file_location("_native", None, loader=ExtensionFileLoader("_native", sys.argv[1])))
except ModuleNotFoundError:  # of msgspec, which an environment that only builds does not have
    pass
except ImportError as error:
    sys.exit(str(error))
"""
FLAGS = ("-O2", "-std=c11", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-DNDEBUG")


def build(to: Path) -> str:
    """Compile into the folder `to`. Returns why that failed, or "". The previous file is replaced in one step, by one
    that a separate process has loaded successfully.

    CFLAGS from the environment come last: `.ci/sanitize` uses that to build with sanitizers, whose library must be
    loaded first.
    """
    if os.environ.get("BACKCAST_NATIVE") == "0":
        return "BACKCAST_NATIVE is 0"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "Python's headers are not installed"
    linker = shlex.split(sysconfig.get_config_var("LDSHARED") or "")
    if not linker or shutil.which(linker[0]) is None:
        linker = ["cc", "-shared"]
    if shutil.which(linker[0]) is None:
        return "there is no C compiler (cc)"
    to.mkdir(parents=True, exist_ok=True)
    made = to / f"{NAME}.{os.getpid()}"
    include = f"-I{sysconfig.get_path('include')}"
    sources = sorted(map(str, FOLDER.glob("*.c")))
    try:
        own_flags = os.environ.get("CFLAGS", "")
        flags = (*FLAGS, *shlex.split(own_flags))
        done = subprocess.run([*linker, *flags, include, *sources, "-o", str(made)], capture_output=True, text=True)
        if done.returncode:
            return f"{linker[0]} says: {done.stderr.strip()[-500:]}"
        if "-fsanitize" not in own_flags:
            loaded = subprocess.run([sys.executable, "-c", LOAD, str(made)], capture_output=True, text=True)
            if loaded.returncode:
                said = loaded.stderr.strip()[-500:] or f"Python ended with {loaded.returncode}"
                return f"what was compiled does not load: {said.replace(str(made), NAME)}"
        made.replace(to / NAME)
    except OSError as error:
        return str(error)
    finally:
        made.unlink(missing_ok=True)
    return ""


if __name__ == "__main__":
    sys.exit(build(FOLDER) or None)
