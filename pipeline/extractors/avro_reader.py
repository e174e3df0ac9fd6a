"""Avro object container files: runs of the file's own blocks, and their rows as records.

A file has a header (its schema, its codec, the 16 bytes that mark the end of each block) and blocks, each with its
number of rows and its size (Avro 1.12, "Object Container Files"). Blocks are copied as they are stored, and workers
decompress them. `pipeline.extractors.avro_values` has the table of values. The offset of a row is its number.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable, Container, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any

import fastavro
import msgspec
from msgspec import Raw

from pipeline.errors import UnreadableExport
from pipeline.extractors.avro_values import BadSchema, RowSchema, Unreadable, row_schema
from pipeline.extractors.containers import FETCH_AGAIN, Damaged, decompressed, readable, stream_of
from pipeline.extractors.rows import NumberedRows, RowOptions
from pipeline.extractors.stream import MAX_RECORD_BYTES, opened
from pipeline.json_limits import MAX_DEPTH, depth
from pipeline.models import Block, BrokenRow, Part
from pipeline.native import AVAILABLE, native
from pipeline.values import Record

_SYNC_BYTES = 16
_DAMAGED = "is not a whole Avro file"
_HEADER = {
    "type": "record",
    "name": "header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": _SYNC_BYTES}},
    ],
}
_PREFIX = fastavro.parse_schema(
    {
        "type": "record",
        "name": "prefix",
        "fields": [{"name": "rows", "type": "long"}, {"name": "size", "type": "long"}],
    }
)


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    """A block of the file: its start in bytes of the decompressed part, its number of rows, its bytes as stored."""

    at: int
    rows: int
    data: bytes


class _Run(msgspec.Struct, frozen=True, array_like=True):
    """The content of a `Block`: what a worker needs to read some blocks of a file."""

    schema: bytes
    codec: str
    blocks: list[_Stored]


class _Header(msgspec.Struct, frozen=True):
    schema: bytes
    codec: str
    sync: bytes


def blocks(part: Part, size: int, rows: int) -> Iterator[Block]:
    """Runs of the file's blocks. A run ends with the block that brings it to `rows` rows or `size` stored bytes.

    `offset` and `length` count rows of the part. Raises UnreadableExport for a truncated or damaged file, also halfway.
    """
    index = first = 0
    with opened(part) as stream, readable(part.path, _DAMAGED):
        counted = _Counted(stream)
        header = _header(counted, part.path)
        run: list[_Stored] = []
        for stored in _stored(counted, header):
            run.append(stored)
            count = sum(block.rows for block in run)
            if count >= rows or sum(len(block.data) for block in run) >= size:
                yield _block(part, index, first, header, run)
                index, first, run = index + 1, first + count, []
        if any(block.rows for block in run):
            yield _block(part, index, first, header, run)


def check(part: Part) -> tuple[str, ...]:
    """The names of the columns. Raises UnreadableExport if the file cannot be read."""
    with opened(part) as stream, readable(part.path, _DAMAGED):
        return _schema(_header(_Counted(stream), part.path).schema).columns


def _block(part: Part, index: int, first: int, header: _Header, run: list[_Stored]) -> Block:
    content = msgspec.msgpack.encode(_Run(header.schema, header.codec, run))
    return Block(part.index, index, first, sum(block.rows for block in run), content)


class _Counted:
    """A stream that counts the bytes that were read. Raises EOFError if the file has fewer bytes than a read wants."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self._stream = stream
        self.count = 0

    def read(self, size: int) -> bytes:
        if size > MAX_RECORD_BYTES or size < 0:
            raise Damaged(f"it states a value of {size:,} bytes before byte {self.count:,}")
        data = self._stream.read(size)
        self.count += len(data)
        if len(data) < size:
            raise EOFError(f"it ends inside a value that begins before byte {self.count:,}")
        return data

    def ended(self) -> bool:
        return not self._stream.peek(1)


def _header(stream: _Counted, path: str) -> _Header:
    header: Any = fastavro.schemaless_reader(stream, _HEADER, None)  # type: ignore[arg-type]
    codec = header["meta"].get("avro.codec", b"null").decode()
    if codec not in _CODECS:
        raise Damaged(f"its codec {codec!r} is unknown")
    schema = header["meta"].get("avro.schema")
    if schema is None:
        raise Damaged("its header has no schema")
    try:
        _schema(schema)
    except BadSchema as error:
        raise UnreadableExport(f"{path} is not a table of rows: {error}", path=path, hint=FETCH_AGAIN) from error
    return _Header(schema, codec, header["sync"])


def _stored(stream: _Counted, header: _Header) -> Iterator[_Stored]:
    while not stream.ended():
        at = stream.count
        prefix: Any = fastavro.schemaless_reader(stream, _PREFIX, None)  # type: ignore[arg-type]
        if prefix["rows"] < 0 or not 0 <= prefix["size"] <= MAX_RECORD_BYTES:
            raise Damaged(f"its block at byte {at:,} states {prefix['rows']:,} rows in {prefix['size']:,} bytes")
        data = stream.read(prefix["size"])
        if stream.read(_SYNC_BYTES) != header.sync:
            raise Damaged(f"its block at byte {at:,} does not end with the file's mark")
        yield _Stored(at, prefix["rows"], data)


@lru_cache(maxsize=64)
def _schema(text: bytes) -> RowSchema:
    return row_schema(json.loads(text))


# -- codecs ------------------------------------------------------------------------------------------------


def _deflate(data: bytes) -> bytes:
    """Deflate has no checksum; some writers leave the beginning of zlib's checksum, an Adler-32, after it."""
    decompressor = zlib.decompressobj(-zlib.MAX_WBITS)
    content = decompressor.decompress(data)
    if not decompressor.eof:
        raise EOFError("its deflate stream has no end")
    if (unused := decompressor.unused_data) and not zlib.adler32(content).to_bytes(4, "big").startswith(unused):
        raise Damaged("bytes follow its deflate stream")
    return content


def _snappy(data: bytes) -> bytes:
    """The CRC-32 of the content follows Snappy data; the library does not check it."""
    from cramjam import snappy

    content = bytes(snappy.decompress_raw(data[:-4]))
    if zlib.crc32(content).to_bytes(4, "big") != data[-4:]:
        raise Damaged("its checksum is wrong")
    return content


def _by_container(name: str) -> Callable[[bytes], bytes]:
    def read(data: bytes) -> bytes:
        return decompressed(stream_of(iter((data,))), name).read()

    return read


_CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": lambda data: data,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _by_container("zstd"),
    "bzip2": _by_container("bzip2"),
    "xz": _by_container("xz"),
}

# -- rows --------------------------------------------------------------------------------------------------


class AvroRows(NumberedRows):
    """The rows of one block, read one block of the file at a time. With `members`, they are `pipeline.native` Members
    if the C part is available."""

    def __init__(self, part: Part, block: Block, content: bytes, options: RowOptions) -> None:
        super().__init__(part, block, content, options)
        self._make: Any = native.Header() if options.members and AVAILABLE else dict
        self._records: tuple[int, list[Record]] = (0, [])
        """The records of the block of the file that was read last, and the number of its first row."""

    @property
    def columns(self) -> Sequence[str]:
        return _schema(self._run.schema).columns

    def __iter__(self) -> Iterator[Record | BrokenRow]:
        first = 0
        for stored in self._run.blocks:
            results = self._read(stored)
            self._records = first, results.records
            if self._options.observe:
                self.warnings.extend((first + row, code, detail) for row, code, detail in results.warnings)
            if results.broken:
                for row, record in enumerate(results.records):
                    yield results.broken[row] if row in results.broken else self._make(record)
            else:
                yield from map(self._make, results.records)
            first += stored.rows

    @cached_property
    def _run(self) -> _Run:
        return msgspec.msgpack.decode(self._content, type=_Run)

    def _record(self, row: int) -> Record:
        """A row as it was read. Its block is read again unless it is the one of the last call."""
        first, records = self._records
        if not 0 <= row - first < len(records):
            first = 0
            for stored in self._run.blocks:
                if row < first + stored.rows:
                    break
                first += stored.rows
            records = self._read(stored).records
            self._records = first, records
        return records[row - first]

    def _read(self, stored: _Stored) -> _Results:
        """The rows of one of the file's blocks."""
        run = self._run
        with readable(self._part.path, _DAMAGED):
            items = _items(run.schema)
            try:
                content = _CODECS[run.codec](stored.data)
                rows, is_utf8 = _rows_of(content, stored.rows, items)
                nan_breaks = self._part.dialect.nan == "reject"
                return _Results(_schema(run.schema), rows, is_utf8, self._options.unread, nan_breaks)
            except Exception as error:
                cause = str(error) or type(error).__name__
                raise Damaged(f"its block at byte {stored.at:,} cannot be read: {cause}") from error


@lru_cache(maxsize=64)
def _items(schema: bytes) -> Any:
    """The schema of a list of rows."""
    return fastavro.parse_schema({"type": "array", "items": _schema(schema).schema})


def _rows_of(content: bytes, count: int, items: Any) -> tuple[list[dict[str, Any]], bool]:
    """The rows of a block, and whether all its strings are UTF-8; any other byte becomes a lone surrogate. In Avro an
    array is a block of items followed by an empty block, so a block of rows is read as an array.

    Raises Damaged unless the block has exactly these rows.
    """
    whole = _long(count) + content + b"\x00" if count else b"\x00" + content
    for errors in ("strict", "surrogateescape"):
        stream = io.BytesIO(whole)
        try:
            rows: Any = fastavro.schemaless_reader(stream, items, None, handle_unicode_errors=errors)
        except UnicodeDecodeError:
            continue
        if len(rows) != count or stream.tell() != len(whole):
            raise Damaged(f"its {len(content):,} bytes are not {count:,} rows")
        return rows, errors == "strict"
    raise Damaged("a name in it is not UTF-8")


def _long(number: int) -> bytes:
    """A positive number as Avro stores it: doubled, seven bits per byte, lowest first."""
    number <<= 1
    parts = []
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


class _Results:
    """The records of one of the file's blocks, with nested values as JSON text; the reasons why some cannot be sent,
    and warnings about others, by their number in the block. Columns in `unread` break no row. With `nan_breaks`, NaN
    and the infinities do."""

    def __init__(
        self, schema: RowSchema, rows: list[dict[str, Any]], is_utf8: bool, unread: Container[str], nan_breaks: bool
    ) -> None:
        self._column = ""
        self._unread = unread
        self._nan_breaks = nan_breaks
        self._encode = msgspec.json.Encoder(enc_hook=self._unreadable).encode
        self.records: list[Record] = []
        self.broken: dict[int, BrokenRow] = {}
        self.warnings: list[tuple[int, str, str]] = []
        nested, recursive = schema.nested, schema.recursive
        names = schema.converted if is_utf8 else schema.columns
        for record in rows:
            for name in names:
                value = record[name]
                kind = value.__class__
                if kind is Unreadable:
                    self._column = name
                    self._unreadable(value)
                    record[name] = None
                elif name in nested and (kind is dict or kind is list):
                    self._column = name
                    record[name] = self._json(value, recursive)
                elif kind is str and not value.isascii():
                    record[name] = self._checked(name, value)
            self.records.append(record)
        self.warnings = [warning for warning in self.warnings if warning[0] not in self.broken]

    def _json(self, value: Any, recursive: bool) -> Raw:
        try:
            text = self._encode(value)
        except UnicodeEncodeError:
            self._break("bad_utf8", "a string in it is not UTF-8")
            return Raw(b"null")
        if recursive and depth(text) > MAX_DEPTH:
            self._break("too_deep", f"{depth(text)} levels of nesting; the most is {MAX_DEPTH}")
            return Raw(b"null")
        return Raw(text)

    def _checked(self, name: str, value: str) -> str:
        try:
            value.encode()
        except UnicodeEncodeError as error:
            self._column = name
            self._break("bad_utf8", f"byte {len(value[: error.start].encode())} is not UTF-8")
            return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        return value

    def _unreadable(self, value: Unreadable) -> None:
        if value.code == "nan_value" and not self._nan_breaks:
            if self._column in self._unread:
                return
            self.warnings.append((len(self.records), value.code, f"{self._column} {value.detail}; read as absent"))
        else:
            is_nan = value.code == "nan_value"
            self._break("bad_value" if is_nan else value.code, f"it {value.detail}" if is_nan else value.detail)

    def _break(self, code: str, detail: str) -> None:
        if self._column in self._unread:
            return
        self.broken.setdefault(len(self.records), BrokenRow(code, f"{self._column}: {detail}"))
