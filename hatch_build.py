"""Compiles `pipeline/native` while the package is built or installed; without a compiler it stays pure Python."""

from __future__ import annotations

import runpy
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileNative(BuildHookInterface[Any]):
    """Puts the compiled part beside the sources of an editable install, and into the wheel of any other."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, or say why not and go on."""
        native = Path(self.root, "pipeline", "native")
        compiler = runpy.run_path(str(native / "build.py"))
        self.scratch = tempfile.TemporaryDirectory(prefix="backcast-build-")
        folder = native if version == "editable" else Path(self.scratch.name)
        problem = compiler["build"](folder)
        if problem:
            Path(folder, compiler["NAME"]).unlink(missing_ok=True)  # that of other sources
            self.app.display_warning(f"backcast is installed without its C part: {problem}")
        elif version != "editable":
            build_data["force_include"][str(folder / compiler["NAME"])] = f"pipeline/native/{compiler['NAME']}"
            build_data["pure_python"] = False
            build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The wheel has it by now."""
        self.scratch.cleanup()
