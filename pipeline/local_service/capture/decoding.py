"""From the bytes of a request to its JSON text: base64, forms and gzip (docs/know/service.md#encodings-and-sizes).

As at the real service, zstd, brotli and deflate are not decoded: their bytes are refused as invalid UTF-8.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import cast
from urllib.parse import parse_qsl

from isal import isal_zlib


class RequestRefused(Exception):
    """A request that is refused as a whole, with the real service's status and plain text; at the per-event endpoint
    the error also has a name."""

    def __init__(self, status: int, text: str, name: str = "") -> None:
        super().__init__(status, text, name)
        self.status = status
        self.text = text
        self.name = name


def undecodable(detail: str) -> RequestRefused:
    """The body is not the gzip, base64, form or UTF-8 that it is declared to be."""
    return RequestRefused(400, f"failed to decode request: {detail}")


def unparsable(detail: str) -> RequestRefused:
    """The body is not JSON, or does not have an accepted shape."""
    return RequestRefused(400, f"failed to parse request: {detail}")


def too_large(detail: str) -> RequestRefused:
    """The body or one event is over a limit."""
    return RequestRefused(413, f"maximum event size exceeded: {detail}", "payload_too_large")


PER_EVENT = "/i/v1/analytics/events"
"""The path of the endpoint that answers for each event; it decodes its bodies itself."""
FORM = "application/x-www-form-urlencoded"
GZIP_MAGIC = b"\x1f\x8b\x08"

_GZIP = ("gzip", "gzip-js")
_LZ64 = ("lz64", "lz-string")
_BASE64 = ("base64", "b64")
_BASE64_TEXT = re.compile(rb"[A-Za-z0-9+/\s]+={0,2}\s*").fullmatch
_GUNZIP = 16 + 15
_BAD_GZIP = cast("type[Exception]", isal_zlib.error)


def decode_body(body: bytes, query: Mapping[str, str], headers: Mapping[str, str], limit: int) -> bytes:
    """The JSON text of a request, valid UTF-8, at most `limit` bytes. Raises RequestRefused.

    `query` and `headers` (names in lower case) may name the compression: the query wins over the form,
    the form over the header. gzip is also recognised by its first bytes.
    """
    data = query.get("data", "").encode() or body
    if not data:
        raise RequestRefused(400, "request missing data payload")
    compression = query.get("compression", "").lower()
    if headers.get("content-type") == FORM:
        form = _form(_without_base64(data))
        data = _data_field(form)
        compression = compression or form.get("compression", "").lower()
    compression = compression or headers.get("content-encoding", "").lower()
    data = _from_base64(data) if compression in _BASE64 else _without_base64(data)
    if compression in _GZIP or data.startswith(GZIP_MAGIC):
        return _checked_utf8(from_gzip(data, limit), "invalid gzip data")
    if compression in _LZ64:
        raise undecodable("lz64 is not supported by the local service")
    if len(data) > limit:
        raise too_large(f"Uncompressed payload size limit {limit} exceeded: {len(data)}")
    return _checked_utf8(data, "invalid UTF8 in request payload")


def _checked_utf8(data: bytes, problem: str) -> bytes:
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            raise undecodable(problem) from None
    return data


def from_gzip(data: bytes, limit: int) -> bytes:
    """The first gzip member; what follows it is ignored, as the real service's decoder does."""
    stream = isal_zlib.decompressobj(_GUNZIP)
    try:
        out: bytes = stream.decompress(data, limit + 1)
    except _BAD_GZIP:
        raise undecodable("invalid GZIP data") from None
    if len(out) > limit:
        raise too_large(f"Decompressed payload would exceed {limit} bytes (got {len(out)} bytes)")
    if not stream.eof:
        raise undecodable("invalid GZIP data")
    return out


def _without_base64(data: bytes) -> bytes:
    """A body that is base64 from end to end, decoded; any other body unchanged."""
    if data[:1] in (b"{", b"[") or not _BASE64_TEXT(data):
        return data
    try:
        return _from_base64(data)
    except RequestRefused:
        return data


def _from_base64(data: bytes) -> bytes:
    packed = b"".join(data.split())
    try:
        return base64.b64decode(packed + b"=" * (-len(packed) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise undecodable("invalid base64 data") from None


def _form(data: bytes) -> dict[str, str]:
    try:
        fields = dict(parse_qsl(data.decode(), keep_blank_values=True, encoding="utf-8", errors="strict"))
    except ValueError:
        fields = {}
    if "data" not in fields:
        raise undecodable("expected form data in POST request payload")
    return fields


def _data_field(form: Mapping[str, str]) -> bytes:
    """The field `data`. If it is base64, decoding the form has turned its `+` signs into spaces."""
    text = form["data"]
    is_base64 = text[:1] not in ("{", "[") and _BASE64_TEXT(text.encode()) is not None
    return (text.replace(" ", "+") if is_base64 else text).encode()
