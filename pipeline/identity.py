"""The uuid contract: the same row gives the same uuid, on any machine, in any order, forever.

`uuid = UUIDv5(namespace(tool, source), dedupe key)`. Changing anything in this file changes the uuid of
every event ever imported, so it needs a major version; `tests/test_identity.py` holds its own copy.

Why: the service collapses copies only by (uuid, event, distinct_id, UTC day), and a random uuid makes a
re-run double history (service-behaviour 1.10; peers 5.5).
"""

from __future__ import annotations

import hashlib
import uuid

ROOT = uuid.UUID("5c1c2ab2-3a0b-5d0e-9a4e-0f8f6f1d7b60")
"""The namespace of all backcast namespaces."""

POSTHOG_MIXPANEL = uuid.UUID(bytes=b"posthog_mixpanel")
"""The namespace that the service's own importer uses over Mixpanel's `$insert_id` (service-behaviour 2.3)."""

SEPARATOR = "\x1f"
"""Stands between the parts of a dedupe key: a unit separator, which no id of any tool holds."""


def namespace(tool: str, source: str = "") -> uuid.UUID:
    """The namespace of one tool's source; `source` tells two projects of one tool apart."""
    return uuid.uuid5(ROOT, f"{tool}{SEPARATOR}{source}")


def event_uuid(space: uuid.UUID, key: str) -> str:
    """UUIDv5 of `key` as lower-case text; equals `str(uuid.uuid5(space, key))` and is three times as fast."""
    return Hasher(space)(key)


_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


class Hasher:
    """UUIDv5 over one namespace, for a hot loop: `hasher(key)` gives the 36 characters."""

    __slots__ = ("_base",)

    def __init__(self, space: uuid.UUID) -> None:
        self._base = hashlib.sha1(space.bytes, usedforsecurity=False)

    def __call__(self, key: str) -> str:
        hashed = self._base.copy()
        hashed.update(key.encode("utf-8", "surrogatepass"))
        text = hashed.hexdigest()
        return f"{text[:8]}-{text[8:12]}-5{text[13:16]}-{_VARIANT[text[16]]}{text[17:20]}-{text[20:32]}"


def content_key(content: bytes, ordinal: int, event: int = 0) -> str:
    """The dedupe key of a row without a source key.

    `content` is the canonical record; `ordinal` counts identical records in the whole source from 0;
    `event` numbers the events made of one row from 0.
    """
    digest = hashlib.sha256(content).hexdigest()
    return f"content{SEPARATOR}{digest}{SEPARATOR}{ordinal}{SEPARATOR}{event}"


def session_uuid(start_ms: int, *parts: str) -> str:
    """A UUIDv7 for a session: its time is the session's start, its rest a hash of `parts`.

    The service leaves out of its session metrics any `$session_id` that is not a UUIDv7 whose time is at
    or before the session's first event (export-formats 0.4).
    """
    rest = hashlib.sha256(SEPARATOR.join(parts).encode("utf-8", "surrogatepass")).digest()
    raw = bytearray(start_ms.to_bytes(6, "big") + rest[:10])
    raw[6] = raw[6] & 0x0F | 0x70
    raw[8] = raw[8] & 0x3F | 0x80
    return str(uuid.UUID(bytes=bytes(raw)))
