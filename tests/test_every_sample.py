"""How the files of an export are written, and in which order its rows lie, changes nothing of what it becomes."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from tests.golden import samples

MARK = b"\xef\xbb\xbf"
UNTOUCHED = {"rejects", "braze", "customerio", "generic-parquet", "rudderstack-lake"}
"""Samples of binary files alone, and those that say of their rows where they are."""

pytestmark = pytest.mark.slow


def rewritten(path: Path) -> None:
    """A text file with a byte order mark, its rows in reverse, and lines that end as on Windows. Others stay.

    So do the rows of a JSON document, and those of a table with line breaks in its cells.
    """
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

    The check of the order of rows, and the verdict that is made of all checks, may differ.
    """
    first, *lines = text.splitlines()
    counts = json.loads(first)
    checks = [check for check in counts["gates"] if check[0] != "not_in_time_order"]
    return ({name: counts[name] for name in ("skips", "rejects")}, checks, sorted(lines))


@pytest.mark.parametrize("name", sorted({*samples.FEW, "posthog", "rudderstack-staging", "snowplow"} - UNTOUCHED))
def test_a_sample_in_other_lines_and_another_order_is_the_same_events(name: str, tmp_path: Path) -> None:
    """Byte order marks, carriage returns, the order of rows, and a file without any: no event and no uuid differs."""
    same_when_rewritten(name, tmp_path)


def same_when_rewritten(name: str, tmp_path: Path) -> None:
    """The golden file of a sample holds for a copy whose text files are `rewritten`."""
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
