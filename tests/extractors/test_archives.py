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
    joined,
    rows_of,
    tarred,
    unlisted,
    zipped,
)


@pytest.mark.parametrize("packed", [zipped(zipped(CONTENT)), gzip.compress(zipped(CONTENT))])
def test_an_archive_in_an_archive_is_named(tmp_path: Path, packed: bytes) -> None:
    """A zip inside another container is refused: it can only be read from its end."""
    (tmp_path / "a").write_bytes(packed)
    with pytest.raises(UnreadableExport, match="zip archive inside"):
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
    assert [next(extractors.blocks(part)).content for part in source.parts] == [
        b'{"hour":2}\n',
        b'{"hour":9}\n',
        b'{"hour":10}\n',
    ]


def test_a_zip_named_json_gz_is_read(tmp_path: Path) -> None:
    """A `.json.gz` that is really a zip is taken for what it is."""
    (tmp_path / "a.json.gz").write_bytes(zipped(CONTENT))
    assert joined(tmp_path / "a.json.gz") == CONTENT


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


def test_a_locked_zip_is_named(tmp_path: Path) -> None:
    """A zip with a password cannot be read."""
    packed = bytearray(zipped(CONTENT))
    packed[packed.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "a.zip").write_bytes(packed)
    with pytest.raises(UnreadableExport, match="locked with a password"):
        contents(tmp_path / "a.zip")


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
    """Each member of a tar can be read at any time, also backwards and twice."""
    members = {f"{n}.json": b'{"n":%d}\n' % n * 1000 for n in range(5)}
    (tmp_path / "a.tar").write_bytes(pack(tarred(members)))
    parts = extractors.open_source([str(tmp_path / "a.tar")]).parts
    for part in [*parts, *reversed(parts), parts[2], parts[2]]:
        whole = b"".join(block.content or b"" for block in extractors.blocks(part, block_bytes=SMALL))
        assert whole == members[part.member]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_tar_cut_between_two_members_is_told(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """A tar without its end mark has lost members, although every member in it is whole."""
    whole = tarred({"a.json": CONTENT, "b.json": CONTENT})
    second = whole.index(b"b.json")
    (tmp_path / "a.tar").write_bytes(pack(whole[:second]))
    with pytest.raises(UnreadableExport, match="cut short"):
        extractors.open_source([str(tmp_path / "a.tar")])


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


def test_a_zip_without_its_end_says_so(tmp_path: Path) -> None:
    """A zip keeps its directory at its end: without it, the message says that the file is cut short."""
    (tmp_path / "a.zip").write_bytes(zipped(CONTENT)[:-100])
    with pytest.raises(UnreadableExport, match=r"a\.zip is cut short"):
        contents(tmp_path / "a.zip")


def test_a_compressed_tar_keeps_its_own_order(tmp_path: Path) -> None:
    """It can only be read from its beginning, so the parts stand as they lie in it."""
    members = {name: b'{"n":"%s"}\n' % name.encode() for name in ("10.json", "9.json", "a/1.json")}
    (tmp_path / "a.tgz").write_bytes(gzip.compress(tarred(members)))
    (tmp_path / "b.tar").write_bytes(tarred({name: b" " + content for name, content in members.items()}))
    source = extractors.open_source([str(tmp_path)])
    assert [part.path for part in source.parts] == [
        "a.tgz!10.json",
        "a.tgz!9.json",
        "a.tgz!a/1.json",
        "b.tar!9.json",
        "b.tar!10.json",
        "b.tar!a/1.json",
    ]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_tars_one_after_the_other_are_read(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """`cat a.tar b.tar` is read to its end, as `tar --ignore-zeros` does."""
    tars = [tarred({f"{number}.json": piece}) for number, piece in enumerate(THIRDS)]
    (tmp_path / "a.tar").write_bytes(pack(b"".join(tars)))
    assert b"\n".join(rows_of(tmp_path / "a.tar")) == CONTENT.rstrip()
    (tmp_path / "b.tgz").write_bytes(b"".join(map(gzip.compress, tars)))
    assert b"\n".join(rows_of(tmp_path / "b.tgz")) == CONTENT.rstrip()


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_zeroed_header_does_not_end_a_tar(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """A member whose header is gone would be lost with all that follow: exit 3 with its place."""
    whole = tarred({"a.json": b"{}\n", "b.json": CONTENT, "c.json": CONTENT})
    (tmp_path / "a.tar").write_bytes(pack(whole[:1024] + bytes(512) + whole[1536:]))
    with pytest.raises(UnreadableExport, match=r"a\.tar is damaged.* at byte 1,536 of the tar"):
        extractors.open_source([str(tmp_path / "a.tar")])


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_zeroed_header_of_an_empty_member_does_not_end_a_tar(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """One block of zeros alone is no end mark, even where a header follows it."""
    whole = tarred({"a.json": b"{}\n", "b.json": b"", "c.json": CONTENT})
    (tmp_path / "a.tar").write_bytes(pack(whole[:1024] + bytes(512) + whole[1536:]))
    with pytest.raises(UnreadableExport, match="a block of zeros in place of a header"):
        extractors.open_source([str(tmp_path / "a.tar")])


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_bytes_after_the_end_of_a_tar_are_damage(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """What follows the end mark is another tar or zeros."""
    whole = tarred({"a.json": CONTENT})
    (tmp_path / "a.tar").write_bytes(pack(whole + CONTENT[:600]))
    with pytest.raises(UnreadableExport, match=rf"at byte {len(whole):,} of the tar"):
        extractors.open_source([str(tmp_path / "a.tar")])
    (tmp_path / "a.tar").write_bytes(pack(whole + bytes(512 * 40)))
    assert b"\n".join(rows_of(tmp_path / "a.tar")) == CONTENT.rstrip()


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_sparse_member_of_a_tar_is_read(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """GNU tar leaves holes out of a member; they come back as zeros, and the next member is not read into."""
    header = bytearray(tarfile.TarInfo("a.json").tobuf(tarfile.GNU_FORMAT))
    first, hole = b'{"n":1}\n', 4096
    size = len(first) + hole
    header[124:136] = b"%011o\0" % len(first)  # what is stored
    header[156:157] = tarfile.GNUTYPE_SPARSE
    header[386:410] = b"%011o\0%011o\0" % (0, len(first))
    header[410:434] = b"%011o\0%011o\0" % (size, 0)
    header[483:495] = b"%011o\0" % size
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    (tmp_path / "a.tar").write_bytes(pack(bytes(header) + first.ljust(512, b"\0") + tarred({"b.json": CONTENT})))
    parts = extractors.open_source([str(tmp_path / "a.tar")]).parts
    assert [b"".join(block.content or b"" for block in extractors.blocks(part)) for part in parts] == [
        first + bytes(hole),
        CONTENT,
    ]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_the_rest_of_a_file_from_another_volume_is_refused(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """A member that may hold rows and is no file is not passed over as a link."""
    header = bytearray(tarfile.TarInfo("a.json").tobuf(tarfile.GNU_FORMAT))
    header[124:136] = b"%011o\0" % 8
    header[156:157] = b"M"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    (tmp_path / "a.tar").write_bytes(pack(bytes(header) + b'{"n":1}\n'.ljust(512, b"\0") + tarred({"b": CONTENT})))
    with pytest.raises(UnreadableExport, match="has content and the type 'M'"):
        extractors.open_source([str(tmp_path / "a.tar")])


def test_zips_one_after_the_other_are_refused(tmp_path: Path) -> None:
    """The last directory lists only its own members: those before it would be lost."""
    (tmp_path / "a.zip").write_bytes(zipped(THIRDS[0], name="a.json") + zipped(THIRDS[2], name="b.json"))
    with pytest.raises(UnreadableExport, match=r"a\.zip is damaged.*the bytes of the zip from 0 on are in no member"):
        extractors.open_source([str(tmp_path / "a.zip")])


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_member_that_a_directory_does_not_list_is_not_lost(tmp_path: Path, method: int) -> None:
    """Each byte between the members belongs to one of them."""
    (tmp_path / "a.zip").write_bytes(unlisted(method))
    with pytest.raises(UnreadableExport, match="in no member that its directory lists"):
        extractors.open_source([str(tmp_path / "a.zip")])


@pytest.mark.parametrize("tail", [b"\n", b"garbage", bytes(70_000)])
def test_bytes_after_the_end_of_a_zip_are_damage(tmp_path: Path, tail: bytes) -> None:
    """A zip ends with its end record and its comment."""
    (tmp_path / "a.zip").write_bytes(zipped(CONTENT) + tail)
    after = f"bytes from {len(zipped(CONTENT)):,} on come after the end of the zip"
    with pytest.raises(UnreadableExport, match=f"{after}|is cut short"):
        extractors.open_source([str(tmp_path / "a.zip")])


def test_a_file_of_a_zip_that_its_directory_calls_a_folder_is_not_passed_over(tmp_path: Path) -> None:
    """One damaged byte in the directory makes a name end with a slash."""
    packed = bytearray(zipped(CONTENT, name="a.jsonl"))
    packed[packed.rindex(b"a.jsonl") + 6] = ord("/")
    (tmp_path / "a.zip").write_bytes(packed)
    with pytest.raises(UnreadableExport, match="differ"):
        extractors.open_source([str(tmp_path / "a.zip")])


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
