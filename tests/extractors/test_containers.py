"""Containers and archives: the same rows through any of them, of every member, and damage is always an error."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import extractors
from pipeline.errors import UnreadableExport
from pipeline.extractors.archives import member
from tests.support import containers
from tests.support.containers import CONTENT, PACKED, SMALL, THIRDS, brotli, contents, tarred, zipped
from tests.support.parts import content_of, part_of


@pytest.mark.parametrize("name", PACKED)
def test_a_container_changes_nothing(tmp_path: Path, name: str) -> None:
    """The blocks of a packed part have the boundaries and the bytes of the plain one."""
    pack, codecs = PACKED[name]
    (tmp_path / "plain").write_bytes(CONTENT)
    part = part_of(tmp_path / "packed", pack(CONTENT))
    packed = list(extractors.blocks(part, block_bytes=SMALL))
    plain = contents(tmp_path / "plain")
    assert part.codecs == codecs
    assert [msgspec.structs.replace(block, content=None) for block in packed] == plain
    assert [block.content for block in packed] == [CONTENT[one.offset :][: one.length] for one in plain]


@settings(max_examples=25, deadline=None)
@given(st.binary(max_size=90), st.sampled_from(sorted(PACKED)), st.integers(1, 700))
def test_any_bytes_come_through(tmp_path_factory: pytest.TempPathFactory, tail: bytes, name: str, size: int) -> None:
    """Whatever the rows contain, blocks joined are the content, for any size of block."""
    content = b'{"a":1}\n' * 50 + tail
    part = part_of(tmp_path_factory.mktemp("any") / "packed", PACKED[name][0](content))
    assert content_of(part, block_bytes=size) == content


@pytest.mark.parametrize("name", containers.TRUNCATED)
@pytest.mark.parametrize("kept", [0.5, 0.95, -1])
def test_a_truncated_container_is_an_error(tmp_path: Path, name: str, kept: float) -> None:
    """A file whose end is missing never counts as whole; the error names it and says what to do."""
    whole = PACKED[name][0](CONTENT)
    if name == "tar" and kept == -1:
        whole = whole.rstrip(b"\x00")
    (tmp_path / "cut").write_bytes(whole[:-1] if kept == -1 else whole[: int(len(whole) * kept)])
    with pytest.raises(UnreadableExport) as raised:
        contents(tmp_path / "cut")
    assert raised.value.path.startswith("cut")
    assert "again" in raised.value.hint


def flipped(packed: bytes) -> bytes:
    """The content with eight bytes in the middle changed."""
    at = len(packed) // 2
    return packed[:at] + bytes(byte ^ 0x55 for byte in packed[at : at + 8]) + packed[at + 8 :]


GZIP, XZ = gzip.compress(CONTENT), lzma.compress(THIRDS[0]) + bytes(5)
TEXTS = {"good.json": b'{"n":1}\n'}
DAMAGED: list[tuple[str, dict[str, bytes], str]] = [
    ("half of a gzip", {"a.gz": GZIP[: len(GZIP) // 2]}, r"a.gz is cut short: .* after [0-9,]+ decompressed bytes"),
    ("garbage after a gzip", {"a.gz": GZIP + b"garbage"}, "a.gz"),
    ("gzip in gzip", {"a.gz": gzip.compress(GZIP)}, "compressed twice .gzip in gzip"),
    ("zstd in gzip", {"a.gz": gzip.compress(zstandard.compress(CONTENT))}, "compressed twice .zstd in gzip"),
    ("gzip in gzip in zip", {"a.gz": zipped(gzip.compress(GZIP))}, "compressed twice .gzip in gzip"),
    ("five bytes of xz padding", {"a.xz": XZ + lzma.compress(THIRDS[1])}, f"a.xz is damaged.* before byte {len(XZ):,}"),
    ("half of a brotli", {"a.jsonl.br": brotli(CONTENT)[:-500]}, r"a\.jsonl\.br is (cut short|damaged)"),
    ("garbage after a brotli", {"a.jsonl.br": brotli(CONTENT) + b"garbage"}, r"a\.jsonl\.br is (cut short|damaged)"),
    (
        "a text named like an export",
        {**TEXTS, "bad.json": b'z"n":1}\n'},
        r"bad\.json is named like an export, but it is ",
    ),
    ("rows after long blank lines", {"a.json": b"\n" * 5_000_000 + CONTENT}, "of blank lines"),
    *((f"flipped {name}", {"a": flipped(PACKED[name][0](CONTENT))}, "a") for name in ("gzip", "bzip2", "xz", "zip")),
    ("flipped zstd", {"a": flipped(zstandard.ZstdCompressor(write_checksum=True).compress(CONTENT))}, "a"),
]
"""Bytes that a container's own checks find, that are left over, or that hide rows: (what, files, message)."""


@pytest.mark.parametrize(("files", "why"), [one[1:] for one in DAMAGED], ids=[one[0] for one in DAMAGED])
def test_a_damaged_container_is_an_error(tmp_path: Path, files: dict[str, bytes], why: str) -> None:
    """Nothing is dropped; the error says what to do."""
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableExport, match=why) as raised:
        [list(extractors.blocks(part)) for part in extractors.open_source([str(tmp_path)]).parts]
    assert raised.value.hint


def test_a_digest_is_of_the_stored_bytes(tmp_path: Path) -> None:
    """A file's digest is of the file; a member's of the member as its archive gives it."""
    packed, inner = gzip.compress(CONTENT), gzip.compress(CONTENT[:50])  # with the second in which they were made
    (tmp_path / "a.gz").write_bytes(packed)
    (tmp_path / "b.zip").write_bytes(zipped(inner))
    (tmp_path / "c.tgz").write_bytes(gzip.compress(tarred({"x": CONTENT[:100]})))
    digests = [extractors.digest_of(part) for part in extractors.open_source([str(tmp_path)]).parts]
    assert digests == [hashlib.sha256(content).hexdigest() for content in (packed, inner, CONTENT[:100])]


def test_a_part_that_went_away_or_became_shorter_is_an_error(tmp_path: Path) -> None:
    """If a file is missing when it is read, or a worker can no longer read a whole block, that is exit 3."""
    part = part_of(tmp_path / "a.json", CONTENT)
    *_, last = extractors.blocks(part, block_bytes=SMALL)
    (tmp_path / "a.json").write_bytes(CONTENT[:-10])
    with pytest.raises(UnreadableExport, match="shrunk"):
        extractors.rows(part, last)
    (tmp_path / "a.json").unlink()
    with pytest.raises(UnreadableExport, match=r"a\.json does not exist"):
        list(extractors.blocks(part))


@pytest.mark.parametrize("padding", [0, 4, 8, 4096, 100_000])
def test_padding_between_xz_streams_is_passed(tmp_path: Path, padding: int) -> None:
    """Zeros in multiples of four between and after xz streams belong to the format; what follows them is read."""
    packed = b"".join(lzma.compress(piece) + bytes(padding) for piece in THIRDS)
    assert content_of(part_of(tmp_path / "a.xz", packed), block_bytes=SMALL) == CONTENT


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress, zstandard.compress])
@pytest.mark.parametrize("tail", ["damaged header", "garbage", "a cut header"])
def test_what_follows_a_stream_is_a_stream(tmp_path: Path, pack: Callable[[bytes], bytes], tail: str) -> None:
    """After the first stream comes another or the end of the file; anything else is exit 3 with the byte."""
    first, second = pack(THIRDS[0]), pack(THIRDS[2])
    tails = {"damaged header": b"\xff" + second[1:], "garbage": b"garbage and more of it", "a cut header": second[:3]}
    (tmp_path / "a").write_bytes(first + tails[tail])
    with pytest.raises(UnreadableExport, match=rf"decompressed bytes.*byte {len(first):,}|is cut short"):
        contents(tmp_path / "a")


@pytest.mark.parametrize("name", ["gzip", "zstd", "bzip2", "xz", "stored zip", "tar", "zip of gzip", "tar in zstd"])
def test_a_container_whose_first_byte_is_damaged_is_not_passed_over(tmp_path: Path, name: str) -> None:
    """In a folder, too, it is an unreadable export, or its rows are read and rejected; it never counts as a read-me."""
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


def test_brotli_is_read_where_name_and_bytes_agree(tmp_path: Path) -> None:
    """Brotli has no magic bytes: its name counts too. A `.br` that was decompressed by a download is read as it is."""
    (tmp_path / "a.jsonl.br").write_bytes(brotli(CONTENT))
    (tmp_path / "b.jsonl.br").write_bytes(CONTENT + b'{"event":"last"}\n')
    (tmp_path / "c.zip").write_bytes(zipped(brotli(CONTENT[:5000]), name="c.jsonl.br"))
    source = extractors.open_source([str(tmp_path)])
    assert [part.codecs for part in source.parts] == [("brotli",), (), ("zip", "brotli")]
    part, _, member = source.parts
    packed = list(extractors.blocks(part, block_bytes=SMALL))
    plain = list(extractors.blocks(replace(part, file=str(tmp_path / "b.jsonl.br"), codecs=()), block_bytes=SMALL))
    assert b"".join(block.content or b"" for block in packed) == CONTENT
    assert [block.offset for block in packed] == [block.offset for block in plain][: len(packed)]
    assert content_of(member) == CONTENT[:5000]


def changed(packed: bytes, at: int, byte: int) -> bytes:
    return packed[:at] + bytes([byte]) + packed[at + 1 :]


def of_gnu(size: int, kind: bytes, **fields: bytes) -> bytes:
    """The header of a member of GNU tar; `fields` are further bytes, by their offset."""
    header = bytearray(tarfile.TarInfo("a.json").tobuf(tarfile.GNU_FORMAT))
    for at, value in {"f124": b"%011o\0" % size, "f156": kind, **fields, "f148": b" " * 8}.items():
        header[int(at[1:]) : int(at[1:]) + len(value)] = value
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


ZIP, TAR = zipped(CONTENT, name="a.jsonl"), tarred({"a.json": b"{}\n", "b.json": CONTENT, "c.json": CONTENT})
EMPTY = tarred({"a.json": b"{}\n", "b.json": b"", "c.json": CONTENT})
LOSING = [
    (zipped(zipped(CONTENT)), "zip archive inside"),
    (gzip.compress(ZIP), "zip archive inside"),
    (changed(ZIP, ZIP.index(b"PK\x01\x02") + 8, 1), "encrypted with a password"),
    (ZIP[:-100], r"a is cut short"),  # its directory is at its end
    (
        zipped(THIRDS[0]) + zipped(THIRDS[2], name="b"),
        r"damaged.*the bytes of the zip from 0 onwards belong to no member",
    ),
    (containers.unlisted(zipfile.ZIP_STORED), "belong to no member in its directory"),
    (containers.unlisted(zipfile.ZIP_DEFLATED), "belong to no member in its directory"),
    *((ZIP + more, f"bytes from {len(ZIP):,} onwards come after the end of the zip") for more in (b"\n", b"garbage")),
    (ZIP + bytes(70_000), "on come after the end of the zip|is cut short"),
    (changed(ZIP, ZIP.rindex(b"a.jsonl") + 6, ord("/")), "differ"),  # a name that looks like a folder's
    *(
        (pack(whole), why)
        for pack in (bytes, gzip.compress)
        for whole, why in (
            (TAR[: TAR.index(b"b.json")], "cut short"),  # between two members, without its end mark
            (TAR[:1024] + bytes(512) + TAR[1536:], r"a is damaged.* at byte 1,536 of the tar"),
            (EMPTY[:1024] + bytes(512) + EMPTY[1536:], "a block of zeros instead of a header"),
            (TAR + CONTENT[:600], rf"at byte {len(TAR):,} of the tar"),
            (of_gnu(8, b"M") + b"{}".ljust(512, b"\0") + tarred({"b": CONTENT}), "has content and the type 'M'"),
        )
    ),
]
"""Archives inside others, encrypted, cut, joined, with members that no directory lists, with headers of zeros, with
bytes after their end, with the rest of a file from another volume: members would be lost."""


@pytest.mark.parametrize(("packed", "why"), LOSING, ids=[f"{number} {why}" for number, (_, why) in enumerate(LOSING)])
def test_an_archive_that_would_lose_members_is_an_error(tmp_path: Path, packed: bytes, why: str) -> None:
    """The error says what is wrong and where."""
    (tmp_path / "a").write_bytes(packed)
    with pytest.raises(UnreadableExport, match=why):
        contents(tmp_path / "a")


def test_amplitude_zip_is_read_as_exported(tmp_path: Path) -> None:
    """A zip of .json.gz, hours without leading zeros: each member is a part, in the order of time."""
    with zipfile.ZipFile(tmp_path / "export.zip", "w", zipfile.ZIP_STORED) as archive:
        for hour in (10, 9, 2):
            archive.writestr(f"7/7_2024-01-01_{hour}#1.json.gz", gzip.compress(b'{"hour":%d}\n' % hour))
    parts = extractors.open_source([str(tmp_path / "export.zip")]).parts
    assert [part.path for part in parts] == [f"export.zip!7/7_2024-01-01_{hour}#1.json.gz" for hour in (2, 9, 10)]
    assert {part.codecs for part in parts} == {("zip", "gzip")}
    assert [content_of(part) for part in parts] == [b'{"hour":2}\n', b'{"hour":9}\n', b'{"hour":10}\n']


def test_members_that_are_not_rows_are_reported(tmp_path: Path) -> None:
    """Hidden files, folders' leftovers and empty members of an archive are left out with a notice."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("folder/", b"")
        archive.writestr("__MACOSX/._a.json", b"\x00\x05\x16\x07")
        archive.writestr("folder/.DS_Store", b"x")
        archive.writestr("empty.json", b"")
        archive.writestr("folder/a.json", CONTENT)
    source = extractors.open_source([str(tmp_path / "a.zip")])
    assert [note.detail for note in source.notes if "so is 1 more" in note.detail]
    assert [part.path for part in source.parts] == ["a.zip!folder/a.json"]
    assert sorted((note.code, note.where) for note in source.notes) == [
        ("empty_file", "a.zip!empty.json"),
        ("ignored_file", "a.zip!__MACOSX/._a.json"),
    ]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_refused(tmp_path: Path) -> None:
    """An archive with two members of one name would lose one of them."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.json", b'{"a":1}\n')
        archive.writestr("a.json", b'{"a":2}\n')
    with pytest.raises(UnreadableExport, match="contains two files named"):
        extractors.open_source([str(tmp_path / "a.zip")])


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_members_of_a_tar_in_any_order(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """Each member of a tar can be read at any time, also backwards and twice; zeros after its end are not members."""
    members = {f"{n}.json": b'{"n":%d}\n' % n * 1000 for n in range(5)}
    (tmp_path / "a.tar").write_bytes(pack(tarred(members) + bytes(512 * 40)))
    parts = extractors.open_source([str(tmp_path / "a.tar")]).parts
    for part in [*parts, *reversed(parts), parts[2], parts[2]]:
        assert content_of(part, block_bytes=SMALL) == members[part.member]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_link_in_a_tar_is_reported(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """Anything in a tar that is not a file is left out with a notice."""
    entry = tarfile.TarInfo("latest.json")
    entry.type, entry.linkname = tarfile.SYMTYPE, "a.json"
    (tmp_path / "a.tar").write_bytes(pack(entry.tobuf() + tarred({"a.json": CONTENT})))
    source = extractors.open_source([str(tmp_path / "a.tar")])
    assert [part.path for part in source.parts] == ["a.tar!a.json"]
    assert [(note.code, note.where) for note in source.notes] == [("ignored_file", "a.tar!latest.json")]


def test_a_compressed_tar_keeps_its_own_order(tmp_path: Path) -> None:
    """It can only be read from its beginning, so the parts are in the order of the archive."""
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
    for packed in (pack(b"".join(tars)), b"".join(map(pack, tars))):
        (tmp_path / "a.tar").write_bytes(packed)
        parts = extractors.open_source([str(tmp_path / "a.tar")]).parts
        assert b"".join(map(content_of, parts)) == CONTENT


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_sparse_member_of_a_tar_is_read(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """GNU tar leaves holes out of a member; they come back as zeros, and reading stops before the next member."""
    first, hole = b'{"n":1}\n', 4096
    size = len(first) + hole
    pieces = b"%011o\0" * 4 % (0, len(first), size, 0)
    header = of_gnu(len(first), tarfile.GNUTYPE_SPARSE, f386=pieces, f483=b"%011o\0" % size)
    (tmp_path / "a.tar").write_bytes(pack(header + first.ljust(512, b"\0") + tarred({"b.json": CONTENT})))
    parts = extractors.open_source([str(tmp_path / "a.tar")]).parts
    assert [content_of(part) for part in parts] == [first + bytes(hole), CONTENT]


@pytest.mark.parametrize("name", ["../x.jsonl", "a/../../x.jsonl"])
def test_a_member_whose_name_climbs_is_read(tmp_path: Path, name: str) -> None:
    """`zip a.zip ../x.jsonl` writes such names; nothing is unpacked, so it is read, with a notice about its name."""
    (tmp_path / "a.zip").write_bytes(zipped(CONTENT, name=name))
    (tmp_path / "b.tar").write_bytes(tarred({name: CONTENT + b"{}\n"}))
    source = extractors.open_source([str(tmp_path)])
    paths = [f"a.zip!{name}", f"b.tar!{name}"]
    assert [part.path for part in source.parts] == paths
    assert [(note.code, note.where) for note in source.notes] == [("outside_name", path) for path in paths]


def test_members_of_two_tars_read_within_each_other_leave_no_file_open(tmp_path: Path) -> None:
    """Each tar remembers where it stopped for the next member, and only one of them can keep its file open."""
    outer, inner = (str(tmp_path / tar) for tar in ("a.tar.gz", "b.tar.gz"))
    for tar in (outer, inner):
        Path(tar).write_bytes(gzip.compress(tarred({"rows.txt": b"one"})))
    before = set(os.listdir("/proc/self/fd"))
    with member(outer, outer, ("gzip", "tar"), "rows.txt") as stream:
        with member(inner, inner, ("gzip", "tar"), "rows.txt") as other:
            assert other.read() == b"one"
        assert stream.read() == b"one"
    with pytest.raises(UnreadableExport), member(inner, inner, ("gzip", "tar"), "none.txt"):
        pass
    assert set(os.listdir("/proc/self/fd")) - before == set()
