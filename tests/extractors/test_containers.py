"""Containers: the same rows through any of them, and damage is always an error."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import extractors
from pipeline.errors import UnreadableExport
from tests.support.containers import (
    CONTENT,
    PACKED,
    SMALL,
    THIRDS,
    TRUNCATED,
    brotli,
    contents,
    joined,
    tarred,
    zipped,
)


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


def flipped(packed: bytes) -> bytes:
    """Eight bytes in the middle are others."""
    at = len(packed) // 2
    return packed[:at] + bytes(byte ^ 0x55 for byte in packed[at : at + 8]) + packed[at + 8 :]


GZIP, XZ = gzip.compress(CONTENT), lzma.compress(THIRDS[0]) + bytes(5)
TEXTS = {"good.json": b'{"n":1}\n'}
DAMAGED: list[tuple[str, dict[str, bytes], str]] = [
    ("half of a gzip", {"a.gz": GZIP[: len(GZIP) // 2]}, r"a.gz is cut short: .* [0-9,]+ decompressed bytes in"),
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
        r"bad\.json is named like an export, but is a",
    ),
    ("rows after long blank lines", {"a.json": b"\n" * 5_000_000 + CONTENT}, "of blank lines"),
    *((f"flipped {name}", {"a": flipped(PACKED[name][0](CONTENT))}, "a") for name in ("gzip", "bzip2", "xz", "zip")),
    ("flipped zstd", {"a": flipped(zstandard.ZstdCompressor(write_checksum=True).compress(CONTENT))}, "a"),
]
"""Bytes that a container's own checks find, that are left over, or that hide rows: (what, files, what is said)."""


@pytest.mark.parametrize(("files", "why"), [one[1:] for one in DAMAGED], ids=[one[0] for one in DAMAGED])
def test_a_damaged_container_is_told(tmp_path: Path, files: dict[str, bytes], why: str) -> None:
    """Nothing is dropped; the error says what to do."""
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableExport, match=why) as raised:
        [list(extractors.blocks(part)) for part in extractors.open_source([str(tmp_path)]).parts]
    assert raised.value.hint


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


def test_a_part_that_went_away_or_became_shorter_is_told(tmp_path: Path) -> None:
    """A file that is missing when it is read, and a block that a worker cannot read whole any more, are exit 3."""
    (tmp_path / "a.json").write_bytes(CONTENT)
    (part,) = extractors.open_source([str(tmp_path / "a.json")]).parts
    *_, last = extractors.blocks(part, block_bytes=SMALL)
    (tmp_path / "a.json").write_bytes(CONTENT[:-10])
    with pytest.raises(UnreadableExport, match="shorter"):
        extractors.rows(part, last)
    (tmp_path / "a.json").unlink()
    with pytest.raises(UnreadableExport, match=r"a\.json is not there"):
        list(extractors.blocks(part))


@pytest.mark.parametrize("padding", [0, 4, 8, 4096, 100_000])
def test_padding_between_xz_streams_is_passed(tmp_path: Path, padding: int) -> None:
    """Zeros in fours between and after xz streams belong to the format; what follows them is read."""
    packed = b"".join(lzma.compress(piece) + bytes(padding) for piece in THIRDS)
    (tmp_path / "a.xz").write_bytes(packed)
    assert joined(tmp_path / "a.xz") == CONTENT


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress, zstandard.compress])
@pytest.mark.parametrize("tail", ["damaged header", "garbage", "a cut header"])
def test_what_follows_a_stream_is_a_stream(tmp_path: Path, pack: Callable[[bytes], bytes], tail: str) -> None:
    """After the first stream comes another or the end of the file; anything else is exit 3 with the byte."""
    first, second = pack(THIRDS[0]), pack(THIRDS[2])
    tails = {"damaged header": b"\xff" + second[1:], "garbage": b"garbage and more of it", "a cut header": second[:3]}
    (tmp_path / "a").write_bytes(first + tails[tail])
    with pytest.raises(UnreadableExport, match=rf"decompressed bytes in.*byte {len(first):,}|is cut short"):
        contents(tmp_path / "a")


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
