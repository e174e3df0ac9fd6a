"""The sample exports are what their seeds give; the golden files show their content."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from sample_data import generate

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "sample_data"


def test_the_samples_are_what_their_seeds_give() -> None:
    """Every committed sample equals what the generator makes now."""
    assert generate.differences() == []


def test_the_check_names_a_changed_and_a_missing_sample(tmp_path: Path) -> None:
    """The check names a file with one changed byte, and a missing one."""
    folder = tmp_path / "samples"
    shutil.copytree(SAMPLES, folder)
    changed = folder / "generic" / "orders.csv"
    changed.write_bytes(changed.read_bytes().replace(b"customer-001", b"customer-002", 1))
    (folder / "amplitude" / "export.zip").unlink()
    assert generate.differences(folder) == [
        "amplitude/export.zip is missing",
        "generic/orders.csv is not what its seed gives",
    ]


def test_the_generator_depends_on_neither_zone_nor_hash_seed() -> None:
    """Under another host zone and another hash seed the generator still gives the committed samples."""
    environment = os.environ | {"TZ": "Asia/Kolkata", "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-m", "sample_data.generate", "--check"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_sample_comes_from_the_generator() -> None:
    """The generator writes every file of the sample folders, of 60 kB at most except for the story."""
    sizes = {name: (SAMPLES / name).stat().st_size for name in generate.files()}
    story = {name: sizes.pop(name) for name in list(sizes) if name.startswith("story/")}
    assert [name for name, size in sizes.items() if size >= 60_000] == []
    assert 1_000_000 < sum(story.values()) < 2_000_000
    kept = {str(path.relative_to(SAMPLES)) for path in SAMPLES.rglob("*.*") if path.is_file()}
    assert {name for name in kept if not name.endswith((".py", ".pyc", ".md"))} == set(generate.files())
