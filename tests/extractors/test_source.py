"""Finding the parts of an export: what is read, in which order, and what is left out with a notice."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import extractors
from pipeline.errors import UnreadableExport, UsageError
from pipeline.models import Dialect, Notice, Part, Source
from tests.support.containers import zipped
from tests.support.parts import part_of

ROW = b'{"event":"a"}\n'


def rows_like(number: int) -> bytes:
    """A row that no other file of the test has."""
    return b'{"event":"a","n":%d}\n' % number


def write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def paths(source: Source) -> list[str]:
    return [part.path for part in source.parts]


def codes(source: Source) -> list[tuple[str, str]]:
    return [(note.code, note.where) for note in source.notes]


@pytest.mark.parametrize(
    ("names", "given", "found"),
    [
        ("7_1-1_10#1 7_1-1_9#1 7_1-1_9#12 7_1-1_9#2", "", "7_1-1_9#1 7_1-1_9#2 7_1-1_9#12 7_1-1_10#1"),
        ("b/2/x.json b/10/x.json a.json", "", "a.json b/2/x.json b/10/x.json"),
        ("1/a.json 1/b.txt 2/a.json", "*/*.json", "1/a.json 2/a.json"),
        ("a[1].json a1.json", "a[1].json", "a[1].json"),
    ],
)
def test_files_are_found_in_their_natural_order(tmp_path: Path, names: str, given: str, found: str) -> None:
    """Hour 9 comes before hour 10, folders are read recursively, a pattern matches only its files, and an existing file
    is found by its name, including brackets."""
    write(tmp_path, {name: rows_like(at) for at, name in enumerate(names.split())})
    source = extractors.open_source([str(tmp_path / given)])
    assert paths(source) == found.split()
    assert [part.index for part in source.parts] == list(range(len(source.parts)))


def test_a_single_file_shows_its_name(tmp_path: Path) -> None:
    """A part knows the file's name, place, size and time."""
    part = part_of(tmp_path / "a.json", ROW)
    status = (tmp_path / "a.json").stat()
    assert (part.path, part.file, part.member) == ("a.json", str(tmp_path / "a.json"), "")
    assert (part.bytes, part.mtime_ns, part.digest) == (len(ROW), status.st_mtime_ns, "")
    assert (part.format, part.codecs, part.dialect) == ("jsonl", (), Dialect())


def test_standard_input_is_kept_with_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` spools the piped input, so that the plan can read it again."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(ROW))))
    (part,) = extractors.open_source(["-"], spool=tmp_path / "plan").parts
    assert (part.path, part.codecs) == ("stdin", ("gzip",))
    assert gzip.decompress((tmp_path / "plan" / "stdin").read_bytes()) == ROW
    assert [path.name for path in (tmp_path / "plan").iterdir()] == ["stdin"]


READ_ME = b"# Export\n\nSee the wiki, please.\n"


@pytest.mark.parametrize(
    ("files", "given", "kind", "message"),
    [
        ({}, [], UsageError, "no export is named"),
        ({}, [""], UsageError, "there are no files in"),
        ({"a.txt": ROW}, ["*.json"], UsageError, "no file matches"),
        ({}, ["gone.json"], UnreadableExport, "gone.json"),
        ({"README": READ_ME}, [""], UsageError, "README: text"),
        ({"notes": READ_ME}, ["notes"], UnreadableExport, "neither JSON lines nor a table"),
        ({"t/_delta_log/0.json": ROW, "t/a.parquet": b"PAR1"}, [""], UnreadableExport, "Delta"),
    ],
)
def test_sources_without_an_export_are_an_error(
    tmp_path: Path, files: dict[str, bytes], given: list[str], kind: type[Exception], message: str
) -> None:
    """Nothing given, nothing there, only other files, and a table whose files also contain deleted rows; a file that a
    person names is never skipped."""
    write(tmp_path, files)
    with pytest.raises(kind, match=message) as raised:
        extractors.open_source([str(tmp_path / one) for one in given])
    assert raised.value.hint


def test_an_empty_file_is_a_notice_and_not_an_error(tmp_path: Path) -> None:
    """A day without events is an empty file: no part, and a notice."""
    write(tmp_path, {"a.json": b"", "b.json.gz": gzip.compress(b""), "c.json": b"\n \r\n", "d.json": b"\xef\xbb\xbf"})
    source = extractors.open_source([str(tmp_path)])
    assert source.parts == ()
    assert codes(source) == [("empty_file", name) for name in ("a.json", "b.json.gz", "c.json", "d.json")]


def test_a_file_given_twice_is_read_once(tmp_path: Path) -> None:
    """The same path again, as a file or in its folder, is left out with a notice."""
    write(tmp_path, {"a.json": ROW})
    source = extractors.open_source([str(tmp_path), str(tmp_path / "a.json")])
    assert paths(source) == ["a.json"]
    assert source.notes == (Notice("same_file", "a.json", "given twice; read once"),)


def test_a_copy_of_a_file_is_read_once(tmp_path: Path) -> None:
    """Two files of the same bytes are one part, in an archive too; files of one size with other bytes are two."""
    files = {"a.json": rows_like(1), "b.json": rows_like(1), "c.json": rows_like(2)}
    write(tmp_path, {**files, "d.zip": zipped(rows_like(1), name="a.json")})
    source = extractors.open_source([str(tmp_path)])
    assert paths(source) == ["a.json", "c.json"]
    assert codes(source) == [("same_file", "b.json"), ("same_file", "d.zip!a.json")]
    assert source.parts[0].digest == extractors.digest_of(source.parts[0])


def test_markers_and_hidden_files_are_left_out_and_reported(tmp_path: Path) -> None:
    """Files that a writer or a desktop adds to an export are not part of it. A name by itself never hides an export: a
    marker with a megabyte of rows is a part."""
    left_out = [".DS_Store", ".git/config", "_SUCCESS", "7_2024-01-01_complete", "a.json.crc"]
    write(tmp_path, dict.fromkeys(left_out, b"x") | {"a.json": ROW, "events_complete": ROW * 10_000})
    source = extractors.open_source([str(tmp_path)])
    assert paths(source) == ["a.json", "events_complete"]
    assert {code for code, _ in codes(source)} == {"ignored_file"}
    assert [note.detail.partition(";")[2] for note in source.notes] == [" so is 1 more", " so are 2 more"]


@pytest.mark.parametrize("content", [READ_ME, b"\x89PNG\r\n\x1a\n0000", b"%PDF-1.7\n"])
def test_files_that_cannot_have_rows_are_left_out_of_a_folder(tmp_path: Path, content: bytes) -> None:
    """A read-me, a picture or a document next to the export is skipped with a notice."""
    write(tmp_path, {"a.json": ROW, "other": content})
    source = extractors.open_source([str(tmp_path)])
    assert paths(source) == ["a.json"]
    assert codes(source) == [("ignored_file", "other")]


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"ORC\x08\x03", "ORC"),
        (b"ARROW1\x00\x00", "Arrow"),
        (b"SQLite format 3\x00", "SQLite"),
        (b"PARE1234", "encrypted Parquet"),
        (b"\x04\x22\x4d\x18dd", "lz4"),
        (b"7z\xbc\xaf\x27\x1c", "7-Zip"),
        (b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", "HTML or XML"),
        (b"<!DOCTYPE html><html></html>", "HTML or XML"),
        (bytes(range(1, 32)) * 40, "binary"),
        (b"\x00" * 5000, "zero bytes"),
        (b"event,time\ra,1\rb,2\r", "carriage returns"),
        (zipped(b"<Types/>", name="[Content_Types].xml"), "not an Excel workbook"),
    ],
)
def test_a_foreign_file_is_named_with_what_to_do(tmp_path: Path, content: bytes, name: str) -> None:
    """A file that may have rows but cannot be read stops the run, even in a folder: its rows would be lost
    otherwise."""
    write(tmp_path, {"a.json": ROW, "b.json": content})
    with pytest.raises(UnreadableExport, match=name) as raised:
        extractors.open_source([str(tmp_path)])
    assert (raised.value.path, raised.value.exit_code, bool(raised.value.hint)) == ("b.json", 3, True)


def test_a_format_is_recognised_by_content(tmp_path: Path) -> None:
    """Names do not matter: JSON lines called .csv, a table called .json, a gzip called .txt; nor does a broken row."""
    files = {"a.csv": ROW, "b.json": b"event,time\na,1\n", "c.txt": gzip.compress(rows_like(1))}
    write(tmp_path, {**files, "d.json": b"oops\n" + ROW * 3})
    parts = extractors.open_source([str(tmp_path)]).parts
    assert [(part.format, *part.codecs) for part in parts] == [("jsonl",), ("csv",), ("jsonl", "gzip"), ("jsonl",)]


def test_a_part_of_an_unknown_format_is_not_read(tmp_path: Path) -> None:
    """A plan of a later version could name such a format."""
    part = Part(0, "a", str(tmp_path / "a"), "", (), "later", Dialect(), 1, 1)
    with pytest.raises(UnreadableExport, match="'later'"):
        extractors.blocks(part)


def test_reports_describe_a_part(tmp_path: Path) -> None:
    """One line has the format, what is unusual about it, and its containers."""
    part = part_of(tmp_path / "a.zip", zipped(gzip.compress("event;time\na;1\n".encode("utf-16"))))
    expected = 'CSV, 2 columns, delimiter ";", utf-16, byte order mark, in gzip in zip'
    assert extractors.describe(part) == expected


def test_links_that_go_round_end(tmp_path: Path) -> None:
    """A link to a folder above is followed once."""
    write(tmp_path, {"x/a.json": ROW})
    (tmp_path / "x" / "up").symlink_to(tmp_path, target_is_directory=True)
    assert paths(extractors.open_source([str(tmp_path)])) == ["x/a.json"]


def test_importing_the_room_is_cheap() -> None:
    """No library of a format is imported before a part of it is read."""
    script = (
        "import sys, pipeline.extractors as e; print(sorted({'numpy','pyarrow','isal','zstandard'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
