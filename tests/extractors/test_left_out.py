"""A file without rows whose name is like those with rows is never ignored: it is read as they are, or it stops the
plan."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pipeline
from pipeline.extractors import blocks, open_source, rows
from pipeline.extractors.named_files import without_numbers
from pipeline.models import BrokenRow, Source
from pipeline.options import PlanOptions
from pipeline.plan.sealed.manifest import Plan
from tests.support.services import NOW
from tests.support.stores import a_bucket

TABLE = "user|event|time|note\n" + "".join(f"u{n}|signup|2023-01-01T00:00:{n:02d}Z|x\n" for n in range(5))
LINES = "".join(f'{{"user":"u{n}","event":"signup","time":"2023-01-01T00:00:0{n}Z"}}\n' for n in range(5))
NO_ROWS = "only words\nof a damaged file\n"
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(20)


def export(folder: Path, files: dict[str, str | bytes]) -> str:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return str(folder)


def read(source: Source, path: str) -> list[object]:
    part = next(part for part in source.parts if part.path == path)
    return [record for block in blocks(part) for record in rows(part, block)]


@pytest.mark.parametrize("kind", ["disk", "zip", "bucket"])
@pytest.mark.parametrize("content", [TABLE, TABLE.partition("\n")[2], LINES], ids=["header", "none", "lines"])
def test_a_file_is_read_as_its_siblings_and_its_rows_are_rejected(tmp_path: Path, kind: str, content: str) -> None:
    """On disk, in an archive and in a bucket, and together with rows that fit: none is taken for a header."""
    head, row, *_ = content.splitlines()
    good = row if content.startswith("user") or content is LINES else head
    files = {"events_0_part_00": content, "events_0_part_02": content + good + "\n", "events_0_part_01": NO_ROWS}
    folder = tmp_path / "export"
    export(folder, dict(files))
    with a_bucket() as bucket:
        named, prefix = str(folder), ""
        if kind == "zip":
            named, prefix = str(tmp_path / "all.zip"), "all.zip!"
            with zipfile.ZipFile(named, "w") as archive:
                for name in files:
                    archive.write(folder / name, name)
        elif kind == "bucket":
            named = bucket.copy(folder, "export")
        source = open_source([named])
        assert [part.path for part in source.parts] == [f"{prefix}events_0_part_0{number}" for number in range(3)]
        assert (source.unread, [note.code for note in source.notes if note.code == "ignored_file"]) == ((), [])
        found = read(source, f"{prefix}events_0_part_01")
    assert len(found) == 2
    assert all(isinstance(one, BrokenRow) for one in found)


def plan(folder: str, to: Path, allowed: int = 0) -> Plan:
    named = {"event": "event", "distinct_id": "user", "timestamp": "time"}
    options = PlanOptions(mapping="generic", workers=0, as_of=NOW, settings=named, allow_ignored=allowed)
    return pipeline.plan_export(folder, to, options)


def test_left_out_files_stop_a_plan_unless_their_number_is_allowed(tmp_path: Path) -> None:
    """The limit is a number; files whose names do not belong to the export are left out as always."""
    files = {"a.txt": TABLE, "b.txt": NO_ROWS, "c_1.txt": PICTURE, "README": NO_ROWS, "logo.png": PICTURE}
    folder = export(tmp_path / "export", dict(files))
    assert open_source([folder]).unread == ("c_1.txt", "b.txt")
    for allowed, ready, level in ((0, False, "stop"), (1, False, "stop"), (2, True, "warning")):
        made = plan(folder, tmp_path / f"plan{allowed}", allowed)
        (found,) = [one for one in made.gates if one.name == "ignored_files"]
        assert (made.ready, found.level, found.count) == (ready, level, 2)
        assert "c_1.txt; b.txt" in found.detail


def test_a_file_named_like_its_siblings_is_counted_row_by_row(tmp_path: Path) -> None:
    folder = export(tmp_path / "export", {"part_00": TABLE, "part_01": NO_ROWS, "README": NO_ROWS})
    made = plan(folder, tmp_path / "plan")
    assert (made.ready, made.rows.read, made.rows.mapped, made.rows.rejected) == (False, 7, 5, 2)


NUMBERS = [st.integers(0, 10**6), st.uuids(), st.dates(), st.binary(min_size=5, max_size=20).map(bytes.hex)]
PAIRS = st.one_of(*(st.tuples(some.map(str), some.map(str)) for some in NUMBERS))
WORDS = st.text("ghijkl_", min_size=1, max_size=6)


@settings(max_examples=250, deadline=None)
@given(
    st.lists(st.tuples(WORDS, PAIRS), min_size=1, max_size=3),
    st.sampled_from(["", ".txt", ".csv", ".tsv"]),
    st.sampled_from([TABLE, LINES]),
    st.sampled_from([NO_ROWS, PICTURE]),
)
def test_names_that_differ_in_numbers_alone(
    steps: Sequence[tuple[str, tuple[str, str]]], ending: str, good: str, bad: str | bytes
) -> None:
    """A file with such a name is never left out silently, in whatever folders."""
    one, other = ("/".join(f"{word}-{pair[number]}" for word, pair in steps) + ending for number in (0, 1))
    if one == other:
        return
    assert without_numbers(one) == without_numbers(other)
    with TemporaryDirectory() as folder:
        source = open_source([export(Path(folder), {one: good, other: bad})])
        paths = {part.path for part in source.parts}
        if bad is PICTURE:
            assert (paths, source.unread) == ({one}, (other,))
        else:
            assert (paths, source.unread) == ({one, other}, ())
            assert all(isinstance(row, BrokenRow) for row in read(source, other))
