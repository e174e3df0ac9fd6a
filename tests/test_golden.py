"""Every sample export becomes just what its golden file says, byte for byte."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.golden import samples

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("name", samples.GOLDEN)
def test_a_sample_becomes_what_its_golden_file_says(name: str) -> None:
    """Counts, merges, events as sent and rejects are those that were read and agreed to."""
    assert samples.golden(name) == samples.agreed(name)


@pytest.mark.slow
def test_no_sample_depends_on_the_machine() -> None:
    """Neither its time zone, its language, its seed of hashes nor a compiler changes a byte of a sample's events."""
    same_elsewhere(samples.FEW, TZ="Asia/Kolkata", LC_ALL="tr_TR.UTF-8", PYTHONHASHSEED="5", BACKCAST_NATIVE="0")


def same_elsewhere(names: Iterable[str], **environment: str) -> None:
    """These samples become what their golden files say in a process of its own with this environment."""
    program = "import sys; from tests.golden.samples import agreed, golden\n"
    program += "print([name for name in sys.argv[1:] if golden(name) != agreed(name)])"
    command = [sys.executable, "-c", program, *names]
    ran = subprocess.run(command, env=os.environ | environment, cwd=ROOT, capture_output=True, text=True)
    assert (ran.stdout, ran.returncode) == ("[]\n", 0), ran.stderr


def test_each_broken_row_is_rejected_with_the_code_it_names() -> None:
    """The rows of `sample_data/rejects` say themselves what is wrong with them."""
    story = samples.agreed("rejects").splitlines()
    rejects = [json.loads(line) for line in story if line.startswith('{"part"')]
    told = [re.search(r'expect":"(\w+)', reject["record"]) for reject in rejects]
    codes = [reject["code"] for reject, found in zip(rejects, told, strict=True) if found]
    assert codes == [found.group(1) for found in told if found]
    assert len(codes) == 15


def test_every_sample_folder_has_a_golden_file() -> None:
    """A new sample cannot be added without its golden."""
    folders = {path.name for path in samples.SAMPLES.iterdir() if path.is_dir() and path.name != "generator"}
    covered = {file.split("/")[0] for sample in samples.GOLDEN.values() for file in sample.files}
    assert folders - {"__pycache__"} == covered
