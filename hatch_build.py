"""What is made while the package is built or installed: `pipeline/native` compiled, and the mappings parsed.

Without a compiler the package stays pure Python. Without the libraries that parse a mapping (`build-system.requires`
names them) it parses each when it is used.
"""

from __future__ import annotations

import runpy
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

INDEX = "pipeline/mapper/language/parsed.pickle"
PARSE = """
import sys
from pathlib import Path
root, index = map(Path, sys.argv[1:])
sys.path.insert(0, str(root))
from pipeline.mapper.language.parsed import write_index
write_index(index, [path.read_text("utf-8") for path in sorted((root / "mappings").glob("*.yaml"))])
"""


class MakeParts(BuildHookInterface[Any]):
    """Puts what it makes beside the sources of an editable install, and into the wheel of any other."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make each part, or say why not and go on."""
        self.scratch = tempfile.TemporaryDirectory(prefix="backcast-build-")
        self.compile_native(version, build_data)
        self.parse_mappings(version, build_data)

    def compile_native(self, version: str, build_data: dict[str, Any]) -> None:
        native = Path(self.root, "pipeline", "native")
        compiler = runpy.run_path(str(native / "build.py"))
        folder = native if version == "editable" else Path(self.scratch.name)
        problem = compiler["build"](folder)
        if problem:
            Path(folder, compiler["NAME"]).unlink(missing_ok=True)  # that of other sources
            self.app.display_warning(f"backcast is installed without its C part: {problem}")
        elif version != "editable":
            build_data["force_include"][str(folder / compiler["NAME"])] = f"pipeline/native/{compiler['NAME']}"
            build_data["pure_python"] = False
            build_data["infer_tag"] = True

    def parse_mappings(self, version: str, build_data: dict[str, Any]) -> None:
        """In a process of its own, which imports the package that is built and no other version of it."""
        index = Path(self.root, INDEX) if version == "editable" else Path(self.scratch.name, "parsed.pickle")
        index.unlink(missing_ok=True)
        made = subprocess.run([sys.executable, "-c", PARSE, self.root, str(index)], capture_output=True, text=True)
        if made.returncode:
            problem = made.stderr.strip().splitlines()[-1:]
            self.app.display_warning(f"backcast is installed without parsed mappings: {' '.join(problem)}")
        elif version != "editable":
            build_data["force_include"][str(index)] = INDEX

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The wheel has it by now."""
        self.scratch.cleanup()
