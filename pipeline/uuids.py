"""The uuid contract: the same row gives the same uuid, on any machine, in any order, forever.

`uuid = UUIDv5(namespace(tool, source), dedupe key)`. Changing anything in this file changes the uuid of
every event ever imported, so it needs a major version; `tests/test_uuids.py` has its own copy.

The service collapses copies only by (uuid, event, distinct_id, UTC day), and with random uuids a
re-run would double the history (docs/know/service.md#uuids-and-duplicates; docs/know/peers.md#same-uuid).
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_sha1: Callable[[bytes], Any] = hashlib.sha1
"""OpenSSL's, which uses the processor's own instructions, at half the cost of the interpreter's."""
try:
    _sha1(b"")
except ValueError:  # pragma: no cover - a system in FIPS mode
    _sha1 = partial(hashlib.sha1, usedforsecurity=False)


ROOT = uuid.UUID("5c1c2ab2-3a0b-5d0e-9a4e-0f8f6f1d7b60")
"""The namespace of all backcast namespaces."""

POSTHOG_MIXPANEL = uuid.UUID(bytes=b"posthog_mixpanel")
"""The namespace that the service's own importer uses over Mixpanel's `$insert_id`
(docs/know/service.md#own-importer-mixpanel)."""

SEPARATOR = "\x1f"
"""Between the parts of a dedupe key: a unit separator, which occurs in no id of any tool."""


def namespace(tool: str, source: str = "") -> uuid.UUID:
    """The namespace of one tool's source; `source` distinguishes two projects of one tool."""
    return uuid.uuid5(ROOT, f"{tool}{SEPARATOR}{source}")


class Hasher:
    """UUIDv5 in one namespace, for a hot loop: `uuid.uuid5` of a key, even of text with lone surrogates."""

    __slots__ = ("_prefix",)

    def __init__(self, space: uuid.UUID) -> None:
        self._prefix = space.bytes

    def __call__(self, key: str) -> str:
        """The uuid of one key as 36 lower-case characters."""
        digits = self.digest(key)[:16].hex()
        variant = "89ab"[int(digits[16], 16) & 3]
        return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"

    def digest(self, key: str) -> bytes:
        """The SHA-1 of namespace and key, 20 bytes."""
        digest: bytes = _sha1(self._prefix + key.encode("utf-8", "surrogatepass")).digest()
        return digest

    def uuids(self, keys: list[str]) -> NDArray[np.uint8]:
        """The uuids of many keys, as an array of shape (n, 16)."""
        return uuid5_bytes(self.digests(keys))

    def texts(self, keys: list[str]) -> list[str]:
        """The uuid of each key, in a third of the time of calls."""
        digits = uuid_digits(self.uuids(keys)).tobytes().decode()
        return [digits[start : start + 36] for start in range(0, len(digits), 36)]

    def digests(self, keys: list[str]) -> list[bytes]:
        """`digest` of each key."""
        sha1, prefix = _sha1, self._prefix
        try:
            return [sha1(prefix + key.encode()).digest() for key in keys]
        except UnicodeEncodeError:
            return [self.digest(key) for key in keys]


@cache
def _hex_pairs() -> NDArray[np.uint16]:
    import numpy as np

    return np.array([int.from_bytes(b"%02x" % byte, "little") for byte in range(256)], np.dtype("<u2"))


def uuid5_bytes(digests: list[bytes]) -> NDArray[np.uint8]:
    """The uuids of many `Hasher.digest`s, as an array of shape (n, 16)."""
    import numpy as np

    raw = np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 20)[:, :16].copy()
    raw[:, 6] = raw[:, 6] & 0x0F | 0x50
    raw[:, 8] = raw[:, 8] & 0x3F | 0x80
    return raw


def uuid_digits(raw: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Each row of an (n, 16) array as the 36 characters of a uuid: shape (n, 36)."""
    import numpy as np

    pairs = _hex_pairs()[raw].view(np.uint8).reshape(len(raw), 32)
    text = np.full((len(raw), 36), 0x2D, np.uint8)
    for start, stop in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32)):
        shift = {0: 0, 8: 1, 12: 2, 16: 3, 20: 4}[start]
        text[:, start + shift : stop + shift] = pairs[:, start:stop]
    return text


def uuid_text(hi: int, lo: int) -> str:
    """A uuid from the two halves of its bits."""
    first, second = f"{hi:016x}", f"{lo:016x}"
    return f"{first[:8]}-{first[8:12]}-{first[12:]}-{second[:4]}-{second[4:]}"


def content_digest(content: bytes) -> str:
    """The digest of a canonical record that `content_key` takes."""
    return hashlib.sha256(content).hexdigest()


def content_key(digest: str, ordinal: int, event: int = 0) -> str:
    """The dedupe key of a row without a source key.

    `digest` is `content_digest` of the canonical record; `ordinal` counts identical records in the whole source
    from 0; `event` numbers the events of one row from 0.
    """
    return f"content{SEPARATOR}{digest}{SEPARATOR}{ordinal}{SEPARATOR}{event}"


def session_uuid(start_ms: int, *parts: str) -> str:
    """A UUIDv7 for a session: its time is the session's start, its other bits a hash of `parts`.

    The service's session metrics leave out any `$session_id` that is not a UUIDv7 whose time is at
    or before the session's first event (docs/know/exports.md#session-ids). `start_ms` is between 1970 and the year
    10889.
    """
    digest = hashlib.sha256(SEPARATOR.join(parts).encode("utf-8", "surrogatepass")).digest()
    raw = bytearray(start_ms.to_bytes(6, "big") + digest[:10])
    raw[6] = raw[6] & 0x0F | 0x70
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
