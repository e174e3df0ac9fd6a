"""The one exception of the capture endpoint: a status and the plain text that the real service answers."""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from collections.abc import Mapping
from typing import cast
from urllib.parse import parse_qsl

from isal import isal_zlib


class Refusal(Exception):
    """A request that is turned away as a whole (docs/know/service.md#answers: error bodies are plain text)."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(status, text)
        self.status = status
        self.text = text


def undecodable(detail: str) -> Refusal:
    """The body is not gzip, base64, a form or UTF-8 as it claims."""
    return Refusal(400, f"failed to decode request: {detail}")


def unparsable(detail: str) -> Refusal:
    """The body is not JSON, or no JSON of a known shape."""
    return Refusal(400, f"failed to parse request: {detail}")


def too_large(detail: str) -> Refusal:
    """The body or one event is over a limit."""
    return Refusal(413, f"maximum event size exceeded: {detail}")


FORM = "application/x-www-form-urlencoded"
GZIP_MAGIC = b"\x1f\x8b\x08"

_GZIP = ("gzip", "gzip-js")
_LZ64 = ("lz64", "lz-string")
_BASE64 = ("base64", "b64")
_BASE64_TEXT = re.compile(rb"[A-Za-z0-9+/\s]+={0,2}\s*").fullmatch
_GUNZIP = 16 + 15
_BAD_GZIP = cast("type[Exception]", isal_zlib.error)


def payload(body: bytes, query: Mapping[str, str], headers: Mapping[str, str], limit: int) -> bytes:
    """The JSON text of a request, valid UTF-8, at most `limit` bytes. Raises Refusal.

    `query` and `headers` (names in lower case) may carry the hint of the compression: the query wins over
    the form, the form over the header. gzip is also known by its first bytes, without any hint.
    """
    given = query.get("data", "").encode() or body
    if not given:
        raise Refusal(400, "request missing data payload")
    hint = query.get("compression", "").lower()
    if headers.get("content-type") == FORM:
        form = _form(_unwrapped(given))
        given = _inside(form)
        hint = hint or form.get("compression", "").lower()
    hint = hint or headers.get("content-encoding", "").lower()
    given = _decoded(given) if hint in _BASE64 else _unwrapped(given)
    if hint in _GZIP or given.startswith(GZIP_MAGIC):
        return _text(_gunzipped(given, limit), "invalid gzip data")
    if hint in _LZ64:
        raise undecodable("lz64 is not supported by the local service")
    if len(given) > limit:
        raise too_large(f"Uncompressed payload size limit {limit} exceeded: {len(given)}")
    return _text(given, "invalid UTF8 in request payload")


def beginning(body: bytes, query: Mapping[str, str], headers: Mapping[str, str], most: int) -> bytes:
    """About the first `most` bytes of what a request says, so far as it can be decoded: for who asks why it was
    turned away. What cannot be decoded is empty: keys hide in base64 and gzip, where nobody would find and mask them.
    """
    given = query.get("data", "").encode() or body
    try:
        if headers.get("content-type") == FORM:
            given = _inside(_form(_unwrapped(given)))
        given = given[: 4 * most]
        if _BASE64_TEXT(given):
            packed = b"".join(given.split())
            inner = _decoded(packed[: len(packed) // 4 * 4])
            if inner.startswith(GZIP_MAGIC) or _starts_text(inner):
                given = inner
        if given.startswith(GZIP_MAGIC):
            given = isal_zlib.decompressobj(_GUNZIP).decompress(given, most)
    except (Refusal, _BAD_GZIP):
        return b""
    return given[:most]


def _starts_text(given: bytes) -> bool:
    """Whether these are the first bytes of a text."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(given)
    except UnicodeDecodeError:
        return False
    return True


def _text(given: bytes, complaint: str) -> bytes:
    if not given.isascii():
        try:
            given.decode()
        except UnicodeDecodeError:
            raise undecodable(complaint) from None
    return given


def _gunzipped(given: bytes, limit: int) -> bytes:
    """The first gzip member; what follows it is ignored, as the real service's decoder does."""
    stream = isal_zlib.decompressobj(_GUNZIP)
    try:
        out: bytes = stream.decompress(given, limit + 1)
    except _BAD_GZIP:
        raise undecodable("invalid GZIP data") from None
    if len(out) > limit:
        raise too_large(f"Decompressed payload would exceed {limit} bytes (got {len(out)} bytes)")
    if not stream.eof:
        raise undecodable("invalid GZIP data")
    return out


def _unwrapped(given: bytes) -> bytes:
    """The inside of a body that is base64 from end to end; any other body as it is."""
    if given[:1] in (b"{", b"[") or not _BASE64_TEXT(given):
        return given
    try:
        return _decoded(given)
    except Refusal:
        return given


def _decoded(given: bytes) -> bytes:
    packed = b"".join(given.split())
    try:
        return base64.b64decode(packed + b"=" * (-len(packed) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise undecodable("invalid base64 data") from None


def _form(given: bytes) -> dict[str, str]:
    try:
        fields = dict(parse_qsl(given.decode(), keep_blank_values=True, encoding="utf-8", errors="strict"))
    except ValueError:
        fields = {}
    if "data" not in fields:
        raise undecodable("expected form data in POST request payload")
    return fields


def _inside(form: Mapping[str, str]) -> bytes:
    """The field `data`; where it is base64, the form has turned its `+` signs into spaces."""
    found = form["data"]
    spaced = found[:1] not in ("{", "[") and _BASE64_TEXT(found.encode()) is not None
    return (found.replace(" ", "+") if spaced else found).encode()
