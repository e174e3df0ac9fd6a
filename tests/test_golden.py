"""Every sample export, and its people, become exactly what its golden file says."""

from __future__ import annotations

import gzip
import html
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from pipeline.local_service import LocalService
from tests.golden import people, samples
from tests.support.plain_http import PLAIN


@pytest.mark.parametrize("name", samples.GOLDEN)
def test_a_sample_becomes_what_its_golden_file_says(name: str) -> None:
    """Counts, merges, events as sent and rejects are those that were reviewed."""
    assert samples.golden(name) == samples.agreed(name)


@pytest.mark.slow
def test_no_sample_depends_on_the_machine() -> None:
    """Neither its time zone, its language, its seed of hashes nor a compiler changes a byte of a sample's events."""
    same_elsewhere(samples.FEW, TZ="Asia/Kolkata", LC_ALL="tr_TR.UTF-8", PYTHONHASHSEED="5", BACKCAST_NATIVE="0")


def same_elsewhere(names: Iterable[str], **environment: str) -> None:
    """These samples become what their golden files say in a separate process with this environment."""
    program = "import sys; from tests.golden.samples import agreed, golden\n"
    program += "print([name for name in sys.argv[1:] if golden(name) != agreed(name)])"
    command = [sys.executable, "-c", program, *names]
    ran = subprocess.run(
        command, env=os.environ | environment, cwd=samples.SAMPLES.parent, capture_output=True, text=True
    )
    assert (ran.stdout, ran.returncode) == ("[]\n", 0), ran.stderr


def test_each_broken_row_is_rejected_with_the_code_it_names() -> None:
    """The rows of `sample_data/rejects` contain the code that they must get."""
    story = samples.agreed("rejects").splitlines()
    rejects = [json.loads(line) for line in story if line.startswith('{"part"')]
    told = [re.search(r'expect":"(\w+)', reject["record"]) for reject in rejects]
    codes = [reject["code"] for reject, found in zip(rejects, told, strict=True) if found]
    assert codes == [found.group(1) for found in told if found]
    assert len(codes) == 15


def test_every_sample_folder_has_a_golden_file() -> None:
    """A new sample cannot be added without its golden. The story is for `tests/test_story.py`."""
    folders = {path.name for path in samples.SAMPLES.iterdir() if path.is_dir()}
    covered = {file.split("/")[0] for sample in samples.GOLDEN.values() for file in sample.files}
    assert folders - {"__pycache__", "generator", "story"} == covered


MARK = b"\xef\xbb\xbf"
UNTOUCHED = {"rejects", "braze", "customerio", "generic-parquet", "rudderstack-lake"}
"""Samples of binary files only, and those whose rows contain their place."""


def rewritten(path: Path) -> None:
    """A text file with a byte order mark, its rows in reverse, and Windows line ends. Others do not change, nor do the
    rows of a JSON document, and those of a table with line breaks in its cells."""
    packed = path.read_bytes()
    content = gzip.decompress(packed) if packed[:2] == b"\x1f\x8b" else packed
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return
    if "\0" in text:  # a tar
        return
    lines = text.removesuffix("\n").split("\n")
    if "\r" not in text and (path.suffix != ".csv" or all(line.count('"') % 2 == 0 for line in lines)):
        if path.suffix == ".csv":
            lines[1:] = reversed(lines[1:])
        elif "\t" in text or all(line[:1] == "{" and line[-1:] == "}" for line in lines):
            lines.reverse()
        text = "\r\n".join([*lines, ""])
    content = MARK + text.encode()
    path.write_bytes(gzip.compress(content) if packed[:2] == b"\x1f\x8b" else content)


def story(text: str) -> tuple[object, ...]:
    """The counts and checks of a golden file, and its lines in no order.

    The check of that order, and the verdict that depends on all checks, may differ.
    """
    first, *lines = text.splitlines()
    counts = json.loads(first)
    checks = [check for check in counts["gates"] if check[0] != "not_in_time_order"]
    return ({name: counts[name] for name in ("skips", "rejects")}, checks, sorted(lines))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*samples.FEW, "posthog", "rudderstack-staging", "snowplow"} - UNTOUCHED))
def test_a_sample_in_other_lines_and_another_order_is_the_same_events(name: str, tmp_path: Path) -> None:
    """Byte order marks, carriage returns, the order of rows, and a file without any: no event and no uuid differs."""
    same_when_rewritten(name, tmp_path)


def same_when_rewritten(name: str, tmp_path: Path) -> None:
    """The golden file of a sample is right for a copy whose text files are `rewritten`."""
    for file in samples.GOLDEN[name].files:
        source, copied = samples.SAMPLES / file, tmp_path / file
        copied.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copied)
        else:
            shutil.copy(source, copied)
    for path in [path for path in tmp_path.rglob("*") if path.is_file()]:
        rewritten(path)
    assert story(samples.golden(name, tmp_path)) == story(samples.agreed(name))


@pytest.fixture(scope="module")
def service() -> Iterator[LocalService]:
    """One service with a project for each sample, empty."""
    with LocalService(keys=people.KEYS) as started:
        yield started


def lines_of(name: str) -> list[dict[str, Any]]:
    """The lines of a golden file."""
    return [json.loads(line) for line in people.path_of(name).read_text("utf-8").splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("name", people.NAMES)
def test_a_samples_people_are_those_of_its_golden_file(name: str, service: LocalService) -> None:
    """The persons with their ids and properties, and the groups, are those that were reviewed; the service refused no
    merge and ignored nothing; and each person is found on the service's page by any of its ids."""
    people.send(name, service)
    assert people.people(name, service) == people.path_of(name).read_text(encoding="utf-8")
    project = people.NAMES.index(name) + 1
    assert service.warnings(project) == []
    with httpx.Client(base_url=service.url, timeout=30, **PLAIN) as browser:
        for person in lines_of(name) if name in ("mixpanel-people", "segment") else ():
            for one in person.get("ids", ()):
                shown = found(browser, project, one)
                wanted = [*person["ids"], *person["properties"]]
                assert [text for text in wanted if text not in shown] == [], (one, shown)


def found(browser: httpx.Client, project: int, text: str) -> str:
    """The page of people that match this string, once persons are computed."""
    until = time.monotonic() + 60
    while True:
        answer = browser.get("/people", params={"project": project, "text": text})
        if 'http-equiv="refresh"' not in answer.text or time.monotonic() > until:
            return html.unescape(answer.text)
        time.sleep(0.02)


@pytest.mark.slow
def test_people_are_the_same_from_the_archive_and_from_the_warehouse() -> None:
    """Every format of an export gives the same joined ids and the same properties of persons."""
    for forms in (("segment", "segment-warehouse"), ("rudderstack", "rudderstack-staging", "rudderstack-lake")):
        persons = [{tuple(one["ids"]): one["properties"] for one in lines_of(name) if "ids" in one} for name in forms]
        for one in persons:
            one.pop(("user-0",), None)  # from before the archive: only the warehouse's `users` have it
        assert all(one == persons[0] for one in persons)
        assert all({"user-1", "user-1b"} <= {id for ids in one for id in ids} for one in persons)
