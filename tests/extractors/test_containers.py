"""Containers: the same rows through any of them, and damage that is always told."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import extractors
from pipeline.errors import UnreadableExport
from pipeline.extractors.archives import member
from pipeline.models import Block

CONTENT = b"".join(b'{"event":"e%d","properties":{"x":"%s"}}\n' % (n, b"y" * (n % 97)) for n in range(3000))
SMALL = 4096


def zstd_frames(content: bytes) -> bytes:
    half = len(content) // 2
    return b"".join(zstandard.compress(piece) for piece in (content[:half], content[half:]))


def gzip_members(content: bytes) -> bytes:
    half = len(content) // 2
    return gzip.compress(content[:half]) + gzip.compress(b"") + gzip.compress(content[half:])


def zipped(content: bytes, method: int = zipfile.ZIP_DEFLATED, name: str = "x") -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        archive.writestr(name, content)
    return target.getvalue()


def tarred(members: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return target.getvalue()


PACKED: dict[str, tuple[Callable[[bytes], bytes], tuple[str, ...]]] = {
    "gzip": (gzip.compress, ("gzip",)),
    "gzip of many members": (gzip_members, ("gzip",)),
    "zstd": (zstandard.compress, ("zstd",)),
    "zstd of many frames": (zstd_frames, ("zstd",)),
    "bzip2": (bz2.compress, ("bzip2",)),
    "bzip2 of many streams": (lambda data: bz2.compress(data[:500]) + bz2.compress(data[500:]), ("bzip2",)),
    "xz": (lzma.compress, ("xz",)),
    "zip": (zipped, ("zip",)),
    "stored zip": (lambda data: zipped(data, zipfile.ZIP_STORED), ("zip",)),
    "zip of gzip": (lambda data: zipped(gzip.compress(data)), ("zip", "gzip")),
    "tar": (lambda data: tarred({"x": data}), ("tar",)),
    "tar in gzip": (lambda data: gzip.compress(tarred({"x": data})), ("gzip", "tar")),
    "tar in zstd": (lambda data: zstandard.compress(tarred({"x": data})), ("zstd", "tar")),
    "gzip in tar in gzip": (
        lambda data: gzip.compress(tarred({"x": gzip.compress(data)})),
        ("gzip", "tar", "gzip"),
    ),
}


def contents(path: Path, size: int = SMALL) -> list[Block]:
    (part,) = extractors.open_source([str(path)]).parts
    return list(extractors.blocks(part, block_bytes=size))


def joined(path: Path) -> bytes:
    return b"".join(block.content or b"" for block in contents(path))


@pytest.mark.parametrize("name", PACKED)
def test_a_container_changes_nothing(tmp_path: Path, name: str) -> None:
    """The blocks of a packed part have the boundaries and the bytes of the plain one."""
    pack, codecs = PACKED[name]
    (tmp_path / "plain").write_bytes(CONTENT)
    (tmp_path / "packed").write_bytes(pack(CONTENT))
    (part,) = extractors.open_source([str(tmp_path / "packed")]).parts
    packed = list(extractors.blocks(part, block_bytes=SMALL))
    plain = contents(tmp_path / "plain")
    assert part.codecs == codecs
    assert [(block.index, block.offset, block.length) for block in packed] == [
        (block.index, block.offset, block.length) for block in plain
    ]
    assert [block.content for block in packed] == [
        CONTENT[block.offset : block.offset + block.length] for block in plain
    ]
    assert [block.content for block in plain] == [None] * len(plain)


@settings(max_examples=25, deadline=None)
@given(st.binary(max_size=90), st.sampled_from(sorted(PACKED)), st.integers(1, 700))
def test_any_bytes_come_through(tmp_path_factory: pytest.TempPathFactory, tail: bytes, name: str, size: int) -> None:
    """Whatever the rows hold, blocks joined are the content, for any size of block."""
    path = tmp_path_factory.mktemp("any") / "packed"
    content = b'{"a":1}\n' * 50 + tail
    path.write_bytes(PACKED[name][0](content))
    (part,) = extractors.open_source([str(path)]).parts
    assert b"".join(block.content or b"" for block in extractors.blocks(part, block_bytes=size)) == content


TRUNCATED = ["gzip", "zstd", "bzip2", "xz", "tar", "tar in gzip", "zip", "stored zip", "zip of gzip"]


@pytest.mark.parametrize("name", TRUNCATED)
@pytest.mark.parametrize("kept", [0.5, 0.95, -1])
def test_a_truncated_container_is_told(tmp_path: Path, name: str, kept: float) -> None:
    """A file whose end is missing never passes for a whole one; the error names it and says what to do."""
    whole = PACKED[name][0](CONTENT)
    if name == "tar" and kept == -1:
        whole = whole.rstrip(b"\x00")
    (tmp_path / "cut").write_bytes(whole[:-1] if kept == -1 else whole[: int(len(whole) * kept)])
    with pytest.raises(UnreadableExport) as raised:
        contents(tmp_path / "cut")
    assert raised.value.path.startswith("cut")
    assert "again" in raised.value.hint


def test_a_truncated_gzip_says_where(tmp_path: Path) -> None:
    """The message has the file and how many bytes came out before the end."""
    whole = gzip.compress(CONTENT)
    (tmp_path / "cut.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UnreadableExport, match=r"cut.gz is cut short: .* [0-9,]+ decompressed bytes in"):
        contents(tmp_path / "cut.gz")


@pytest.mark.parametrize("name", ["gzip", "zstd", "bzip2", "xz", "zip"])
def test_a_damaged_container_is_told(tmp_path: Path, name: str) -> None:
    """Bytes changed in the middle are found by the container's own checks."""
    if name == "zstd":
        packed = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(CONTENT))
    else:
        packed = bytearray(PACKED[name][0](CONTENT))
    for at in range(len(packed) // 2, len(packed) // 2 + 8):
        packed[at] ^= 0x55
    (tmp_path / "bad").write_bytes(packed)
    with pytest.raises(UnreadableExport):
        contents(tmp_path / "bad")


@pytest.mark.parametrize(
    ("packed", "name"),
    [
        (gzip.compress(gzip.compress(CONTENT)), "gzip in gzip"),
        (gzip.compress(zstandard.compress(CONTENT)), "zstd in gzip"),
        (zipped(gzip.compress(gzip.compress(CONTENT))), "gzip in gzip"),
    ],
)
def test_a_file_compressed_twice_is_named(tmp_path: Path, packed: bytes, name: str) -> None:
    """Double compression is an accident of a download; it is refused with the way to undo it."""
    (tmp_path / "a.gz").write_bytes(packed)
    with pytest.raises(UnreadableExport, match=f"compressed twice .{name}") as raised:
        contents(tmp_path / "a.gz")
    assert "gunzip" in raised.value.hint


@pytest.mark.parametrize("packed", [zipped(zipped(CONTENT)), gzip.compress(zipped(CONTENT))])
def test_an_archive_in_an_archive_is_named(tmp_path: Path, packed: bytes) -> None:
    """A zip inside another container is refused: it can only be read from its end."""
    (tmp_path / "a").write_bytes(packed)
    with pytest.raises(UnreadableExport, match="zip archive inside"):
        contents(tmp_path / "a")


def test_garbage_after_a_gzip_is_told(tmp_path: Path) -> None:
    """Bytes after the last gzip member are not dropped."""
    (tmp_path / "a.gz").write_bytes(gzip.compress(CONTENT) + b"garbage")
    with pytest.raises(UnreadableExport):
        contents(tmp_path / "a.gz")


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


def test_a_digest_is_of_the_stored_bytes(tmp_path: Path) -> None:
    """A file's digest is of the file; a member's of the member as its archive gives it."""
    packed = gzip.compress(CONTENT)
    (tmp_path / "a.gz").write_bytes(packed)
    (tmp_path / "b.zip").write_bytes(zipped(gzip.compress(CONTENT[:50])))
    (tmp_path / "c.tgz").write_bytes(gzip.compress(tarred({"x": CONTENT[:100]})))
    digests = [extractors.digest_of(part) for part in extractors.open_source([str(tmp_path)]).parts]
    assert digests == [
        hashlib.sha256(content).hexdigest() for content in (packed, gzip.compress(CONTENT[:50]), CONTENT[:100])
    ]


def test_a_part_that_went_away_is_told(tmp_path: Path) -> None:
    """A file that is missing when it is read is exit 3."""
    (tmp_path / "a.gz").write_bytes(gzip.compress(CONTENT))
    (part,) = extractors.open_source([str(tmp_path / "a.gz")]).parts
    (tmp_path / "a.gz").unlink()
    with pytest.raises(UnreadableExport, match=r"a\.gz is not there"):
        list(extractors.blocks(part))


def test_a_part_that_became_shorter_is_told(tmp_path: Path) -> None:
    """A block that a worker cannot read whole any more is exit 3."""
    (tmp_path / "a.json").write_bytes(CONTENT)
    (part,) = extractors.open_source([str(tmp_path / "a.json")]).parts
    *_, last = extractors.blocks(part, block_bytes=SMALL)
    (tmp_path / "a.json").write_bytes(CONTENT[:-10])
    with pytest.raises(UnreadableExport, match="shorter"):
        extractors.rows(part, last)


def rows_of(path: Path) -> list[bytes]:
    """The lines of all parts of an export."""
    parts = extractors.open_source([str(path)]).parts
    return [line for part in parts for block in extractors.blocks(part) for line in (block.content or b"").splitlines()]


_LINES = CONTENT.splitlines(keepends=True)
THIRDS = [b"".join(_LINES[:1000]), b"".join(_LINES[1000:1010]), b"".join(_LINES[1010:])]


@pytest.mark.parametrize("padding", [0, 4, 8, 4096, 100_000])
def test_padding_between_xz_streams_is_passed(tmp_path: Path, padding: int) -> None:
    """Zeros in fours between and after xz streams belong to the format; what follows them is read."""
    packed = b"".join(lzma.compress(piece) + bytes(padding) for piece in THIRDS)
    (tmp_path / "a.xz").write_bytes(packed)
    assert joined(tmp_path / "a.xz") == CONTENT


def test_xz_padding_of_another_length_is_damage(tmp_path: Path) -> None:
    """Five zero bytes are no padding, and the message says where they end."""
    packed = lzma.compress(THIRDS[0]) + bytes(5)
    (tmp_path / "a.xz").write_bytes(packed + lzma.compress(THIRDS[1]))
    with pytest.raises(UnreadableExport, match=rf"a\.xz is damaged.* before byte {len(packed):,}"):
        contents(tmp_path / "a.xz")


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress, zstandard.compress])
@pytest.mark.parametrize("tail", ["damaged header", "garbage", "a cut header"])
def test_what_follows_a_stream_is_a_stream(tmp_path: Path, pack: Callable[[bytes], bytes], tail: str) -> None:
    """After the first stream comes another or the end of the file; anything else is exit 3 with the byte."""
    first, second = pack(THIRDS[0]), pack(THIRDS[2])
    tails = {"damaged header": b"\xff" + second[1:], "garbage": b"garbage and more of it", "a cut header": second[:3]}
    (tmp_path / "a").write_bytes(first + tails[tail])
    with pytest.raises(UnreadableExport, match=rf"decompressed bytes in.*byte {len(first):,}|is cut short"):
        contents(tmp_path / "a")


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


def unlisted(method: int) -> bytes:
    """A zip of three members whose directory has lost the second."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for number, piece in enumerate(THIRDS):
            archive.writestr(f"{number}.json", piece)
        del archive.filelist[1]
    return target.getvalue()


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


@pytest.mark.parametrize("name", ["gzip", "zstd", "bzip2", "xz", "stored zip", "tar", "zip of gzip", "tar in zstd"])
def test_a_container_whose_first_byte_is_damaged_is_not_passed_over(tmp_path: Path, name: str) -> None:
    """In a folder, too, it is an export that cannot be read, or its rows are read and rejected; never a read-me."""
    (tmp_path / "good.json").write_bytes(b'{"n":1}\n')
    packed = bytearray(PACKED[name][0](CONTENT))
    packed[0] ^= 0x80
    (tmp_path / "bad").write_bytes(packed)
    try:
        parts = extractors.open_source([str(tmp_path)]).parts
    except UnreadableExport as error:
        found = [error.path]
    else:
        found = [part.path for part in parts]
    assert "bad" in found


def test_a_text_named_like_an_export_is_not_passed_over(tmp_path: Path) -> None:
    """A row whose first byte is damaged, or a server's complaint saved as an export, is not a read-me."""
    (tmp_path / "good.json").write_bytes(b'{"n":1}\n')
    (tmp_path / "bad.json").write_bytes(b'z"n":1}\n')
    with pytest.raises(UnreadableExport, match=r"bad\.json is named like an export, but is a text"):
        extractors.open_source([str(tmp_path)])


def test_rows_after_long_blank_lines_are_not_passed_over(tmp_path: Path) -> None:
    """A file is empty only when the whole of it was looked at."""
    (tmp_path / "a.json").write_bytes(b"\n" * 5_000_000 + CONTENT)
    with pytest.raises(UnreadableExport, match="of blank lines"):
        extractors.open_source([str(tmp_path / "a.json")])


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


def brotli(content: bytes) -> bytes:
    return pa.Codec("brotli").compress(content, asbytes=True)


def test_brotli_is_read_where_name_and_bytes_agree(tmp_path: Path) -> None:
    """Brotli has no magic bytes: its name counts too. A `.br` that a download decompressed is read as it is."""
    (tmp_path / "a.jsonl.br").write_bytes(brotli(CONTENT))
    (tmp_path / "b.jsonl.br").write_bytes(CONTENT + b'{"event":"last"}\n')
    (tmp_path / "c.zip").write_bytes(zipped(brotli(CONTENT[:5000]), name="c.jsonl.br"))
    source = extractors.open_source([str(tmp_path)])
    assert [part.codecs for part in source.parts] == [("brotli",), (), ("zip", "brotli")]
    (part, _, member) = source.parts
    packed = list(extractors.blocks(part, block_bytes=SMALL))
    plain = list(extractors.blocks(replace(part, file=str(tmp_path / "b.jsonl.br"), codecs=()), block_bytes=SMALL))
    assert b"".join(block.content or b"" for block in packed) == CONTENT
    assert [block.offset for block in packed] == [block.offset for block in plain][: len(packed)]
    assert b"".join(block.content or b"" for block in extractors.blocks(member)) == CONTENT[:5000]


@pytest.mark.parametrize("damage", [lambda whole: whole[: len(whole) // 2], lambda whole: whole + b"garbage"])
def test_a_damaged_brotli_is_told(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    """A stream without its end, or with something behind it, never passes for a whole one."""
    (tmp_path / "a.jsonl.br").write_bytes(damage(brotli(CONTENT)))
    with pytest.raises(UnreadableExport, match=r"a\.jsonl\.br is (cut short|damaged)") as raised:
        contents(tmp_path / "a.jsonl.br")
    assert "again" in raised.value.hint


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
