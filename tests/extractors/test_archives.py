"""Archives: the rows of every member, whatever the order, and damage is always an error."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline import extractors
from pipeline.errors import UnreadableExport
from pipeline.extractors.archives import member
from tests.support.containers import (
    CONTENT,
    SMALL,
    THIRDS,
    contents,
    rows_of,
    tarred,
    unlisted,
    zipped,
)


def changed(packed: bytes, at: int, byte: int) -> bytes:
    return packed[:at] + bytes([byte]) + packed[at + 1 :]


def of_gnu(size: int, kind: bytes, **fields: bytes) -> bytes:
    """The header of a member of GNU tar; `fields` are more of its bytes, by where they begin."""
    header = bytearray(tarfile.TarInfo("a.json").tobuf(tarfile.GNU_FORMAT))
    for at, value in {"f124": b"%011o\0" % size, "f156": kind, **fields, "f148": b" " * 8}.items():
        header[int(at[1:]) : int(at[1:]) + len(value)] = value
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


ZIP, TAR = zipped(CONTENT, name="a.jsonl"), tarred({"a.json": b"{}\n", "b.json": CONTENT, "c.json": CONTENT})
EMPTY = tarred({"a.json": b"{}\n", "b.json": b"", "c.json": CONTENT})
DAMAGED = [
    (zipped(zipped(CONTENT)), "zip archive inside"),
    (gzip.compress(ZIP), "zip archive inside"),
    (changed(ZIP, ZIP.index(b"PK\x01\x02") + 8, 1), "locked with a password"),
    (ZIP[:-100], r"a is cut short"),  # its directory is at its end
    (zipped(THIRDS[0]) + zipped(THIRDS[2], name="b"), r"damaged.*the bytes of the zip from 0 on are in no member"),
    (unlisted(zipfile.ZIP_STORED), "in no member that its directory lists"),
    (unlisted(zipfile.ZIP_DEFLATED), "in no member that its directory lists"),
    *((ZIP + more, f"bytes from {len(ZIP):,} on come after the end of the zip") for more in (b"\n", b"garbage")),
    (ZIP + bytes(70_000), "on come after the end of the zip|is cut short"),
    (changed(ZIP, ZIP.rindex(b"a.jsonl") + 6, ord("/")), "differ"),  # a name that seems a folder's
    *(
        (pack(whole), why)
        for pack in (bytes, gzip.compress)
        for whole, why in (
            (TAR[: TAR.index(b"b.json")], "cut short"),  # between two members, without its end mark
            (TAR[:1024] + bytes(512) + TAR[1536:], r"a is damaged.* at byte 1,536 of the tar"),
            (EMPTY[:1024] + bytes(512) + EMPTY[1536:], "a block of zeros in place of a header"),
            (TAR + CONTENT[:600], rf"at byte {len(TAR):,} of the tar"),
            (of_gnu(8, b"M") + b"{}".ljust(512, b"\0") + tarred({"b": CONTENT}), "has content and the type 'M'"),
        )
    ),
]
"""Archives inside others, locked, cut, joined, with members that no directory lists, with headers of zeros, with bytes
behind their end, with the rest of a file from another volume: members of them would be lost."""


@pytest.mark.parametrize(("packed", "why"), DAMAGED, ids=[f"{number} {why}" for number, (_, why) in enumerate(DAMAGED)])
def test_an_archive_that_would_lose_members_is_an_error(tmp_path: Path, packed: bytes, why: str) -> None:
    """With what is wrong with it and where."""
    (tmp_path / "a").write_bytes(packed)
    with pytest.raises(UnreadableExport, match=why):
        contents(tmp_path / "a")


def test_amplitude_zip_is_read_as_exported(tmp_path: Path) -> None:
    """A zip of .json.gz, hours without leading zeros: each member a part, in the order of time."""
    with zipfile.ZipFile(tmp_path / "export.zip", "w", zipfile.ZIP_STORED) as archive:
        for hour in (10, 9, 2):
            row = b'{"hour":%d}\n' % hour
            archive.writestr(f"7/7_2024-01-01_{hour}#1.json.gz", gzip.compress(row))
    source = extractors.open_source([str(tmp_path / "export.zip")])
    assert [part.path for part in source.parts] == [
        f"export.zip!7/7_2024-01-01_{hour}#1.json.gz" for hour in (2, 9, 10)
    ]
    assert {part.codecs for part in source.parts} == {("zip", "gzip")}
    read = [next(extractors.blocks(part)).content for part in source.parts]
    assert read == [b'{"hour":2}\n', b'{"hour":9}\n', b'{"hour":10}\n']


def test_members_that_are_no_rows_are_told(tmp_path: Path) -> None:
    """Hidden files, folders' leftovers and empty members of an archive are left out with a notice."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("folder/", b"")
        archive.writestr("__MACOSX/._a.json", b"\x00\x05\x16\x07")
        archive.writestr("folder/.DS_Store", b"x")
        archive.writestr("empty.json", b"")
        archive.writestr("folder/a.json", CONTENT)
    source = extractors.open_source([str(tmp_path / "a.zip")])
    assert [part.path for part in source.parts] == ["a.zip!folder/a.json"]
    assert sorted((note.code, note.where) for note in source.notes) == [
        ("empty_file", "a.zip!empty.json"),
        ("ignored_file", "a.zip!__MACOSX/._a.json"),
        ("ignored_file", "a.zip!folder/.DS_Store"),
    ]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_refused(tmp_path: Path) -> None:
    """An archive with two members of one name would lose one of them."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.json", b'{"a":1}\n')
        archive.writestr("a.json", b'{"a":2}\n')
    with pytest.raises(UnreadableExport, match="two members"):
        extractors.open_source([str(tmp_path / "a.zip")])


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_members_of_a_tar_in_any_order(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """Each member of a tar can be read at any time, also backwards and twice; zeros behind its end are none."""
    members = {f"{n}.json": b'{"n":%d}\n' % n * 1000 for n in range(5)}
    (tmp_path / "a.tar").write_bytes(pack(tarred(members) + bytes(512 * 40)))
    parts = extractors.open_source([str(tmp_path / "a.tar")]).parts
    for part in [*parts, *reversed(parts), parts[2], parts[2]]:
        whole = b"".join(block.content or b"" for block in extractors.blocks(part, block_bytes=SMALL))
        assert whole == members[part.member]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_link_in_a_tar_is_told(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """What is no file in a tar is left out with a notice."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        entry = tarfile.TarInfo("latest.json")
        entry.type, entry.linkname = tarfile.SYMTYPE, "a.json"
        archive.addfile(entry)
        entry = tarfile.TarInfo("a.json")
        entry.size = len(CONTENT)
        archive.addfile(entry, io.BytesIO(CONTENT))
    (tmp_path / "a.tar").write_bytes(pack(target.getvalue()))
    source = extractors.open_source([str(tmp_path / "a.tar")])
    assert [part.path for part in source.parts] == ["a.tar!a.json"]
    assert [(note.code, note.where) for note in source.notes] == [("ignored_file", "a.tar!latest.json")]


def test_a_compressed_tar_keeps_its_own_order(tmp_path: Path) -> None:
    """It can only be read from its beginning, so the parts stand as they lie in it."""
    members = {name: b'{"n":"%s"}\n' % name.encode() for name in ("10.json", "9.json", "a/1.json")}
    (tmp_path / "a.tgz").write_bytes(gzip.compress(tarred(members)))
    (tmp_path / "b.tar").write_bytes(tarred({name: b" " + content for name, content in members.items()}))
    source = extractors.open_source([str(tmp_path)])
    expected = "a.tgz!10.json a.tgz!9.json a.tgz!a/1.json b.tar!9.json b.tar!10.json b.tar!a/1.json"
    assert [part.path for part in source.parts] == expected.split()


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_tars_one_after_the_other_are_read(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """`cat a.tar b.tar` is read to its end, as `tar --ignore-zeros` does."""
    tars = [tarred({f"{number}.json": piece}) for number, piece in enumerate(THIRDS)]
    (tmp_path / "a.tar").write_bytes(pack(b"".join(tars)))
    assert b"\n".join(rows_of(tmp_path / "a.tar")) == CONTENT.rstrip()
    (tmp_path / "b.tgz").write_bytes(b"".join(map(gzip.compress, tars)))
    assert b"\n".join(rows_of(tmp_path / "b.tgz")) == CONTENT.rstrip()


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_sparse_member_of_a_tar_is_read(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """GNU tar leaves holes out of a member; they come back as zeros, and the next member is not read into."""
    first, hole = b'{"n":1}\n', 4096
    size = len(first) + hole
    pieces = b"%011o\0" * 4 % (0, len(first), size, 0)
    header = of_gnu(len(first), tarfile.GNUTYPE_SPARSE, f386=pieces, f483=b"%011o\0" % size)
    (tmp_path / "a.tar").write_bytes(pack(header + first.ljust(512, b"\0") + tarred({"b.json": CONTENT})))
    parts = extractors.open_source([str(tmp_path / "a.tar")]).parts
    assert [b"".join(block.content or b"" for block in extractors.blocks(part)) for part in parts] == [
        first + bytes(hole),
        CONTENT,
    ]


@pytest.mark.parametrize("name", ["../x.jsonl", "a/../../x.jsonl"])
def test_a_member_whose_name_climbs_is_read(tmp_path: Path, name: str) -> None:
    """`zip a.zip ../x.jsonl` writes such names; nothing is unpacked, so it is read, with a notice of what it is."""
    (tmp_path / "a.zip").write_bytes(zipped(CONTENT, name=name))
    (tmp_path / "b.tar").write_bytes(tarred({name: CONTENT + b"{}\n"}))
    source = extractors.open_source([str(tmp_path)])
    assert [part.path for part in source.parts] == [f"a.zip!{name}", f"b.tar!{name}"]
    assert [(note.code, note.where) for note in source.notes] == [
        ("outside_name", f"a.zip!{name}"),
        ("outside_name", f"b.tar!{name}"),
    ]


def test_members_of_two_tars_read_within_each_other_leave_no_file_open(tmp_path: Path) -> None:
    """Each remembers where it stopped for the next member, and only one of them can."""
    for tar in ("a.tar.gz", "b.tar.gz"):
        (tmp_path / "rows.txt").write_text("one")
        with tarfile.open(tmp_path / tar, "w:gz") as archive:
            archive.add(tmp_path / "rows.txt", "rows.txt")
    outer, inner = (str(tmp_path / tar) for tar in ("a.tar.gz", "b.tar.gz"))
    before = set(os.listdir("/proc/self/fd"))
    with member(outer, outer, ("gzip", "tar"), "rows.txt") as stream:
        with member(inner, inner, ("gzip", "tar"), "rows.txt") as other:
            assert other.read() == b"one"
        assert stream.read() == b"one"
    with pytest.raises(UnreadableExport), member(inner, inner, ("gzip", "tar"), "none.txt"):
        pass
    assert set(os.listdir("/proc/self/fd")) - before == set()
