"""Files whose names are not UTF-8: planned, applied and found again like any other."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.plan.sealed.manifest import as_name, as_text
from tests.support.commands import generic
from tests.support.deliveries import export

NAME = os.fsdecode(b"bad\xff\xc3.jsonl")


def odd(folder: Path) -> Path:
    """A small export in one file whose name, and whose folder's, is not UTF-8."""
    file = export(folder.with_name("plain"), 10, files=1) / "part-0.jsonl"
    target = folder / os.fsdecode(b"\xe9t\xe9") / NAME
    target.parent.mkdir(parents=True)
    try:
        return file.rename(target)
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")


@given(st.binary(max_size=40).map(lambda name: os.fsdecode(name.replace(b"\0", b""))))
def test_a_name_can_be_had_back_whole(name: str) -> None:
    """Whatever its bytes, and the string can be written as JSON."""
    text = as_text(name)
    text.encode("utf-8")
    assert (as_name(text), as_text(text)) == (name, text)


def test_a_file_of_such_a_name_is_planned_and_rehearsed_without_the_export(call: Any, tmp_path: Path) -> None:
    """Also in a tar, where names are bytes too. Its name is shown with escapes, and the plan no longer needs the
    export."""
    file = odd(tmp_path / "in")
    content = file.read_bytes().replace(b"person", b"other")
    with tarfile.open(tmp_path / "in" / "a.tar", "w", format=tarfile.GNU_FORMAT) as archive:
        member = tarfile.TarInfo(NAME)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    more = ("--allow-key-conflicts", "-o", tmp_path / "plan", "--workers", "0")  # the copy in the tar has other rows
    done = call("plan", tmp_path / "in", *generic(), *more)
    assert done.code == 0, done.err
    page = (tmp_path / "plan" / "report.html").read_text("utf-8")
    for name in (r"\xe9t\xe9/bad\xff\xc3.jsonl", r"a.tar!bad\xff\xc3.jsonl"):
        assert name in page
    shutil.rmtree(tmp_path / "in")
    done = call("rehearse", tmp_path / "plan")
    assert done.code == 0, done.err


def test_a_plan_cannot_lie_in_a_folder_of_such_a_name(call: Any, tmp_path: Path) -> None:
    """Some libraries that write there do not accept it: exit 2, before anything is read."""
    said = call("plan", export(tmp_path / "export", 3), *generic(), "-o", tmp_path / NAME)
    assert said.code == 2
    assert "UTF-8" in said.two_lines[0]
    assert not (tmp_path / NAME).exists()
