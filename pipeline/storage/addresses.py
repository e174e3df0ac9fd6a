"""Store URLs as people write them: refuses those that cannot be read, and never shows one with credentials."""

from __future__ import annotations

import re

from pipeline.errors import UsageError
from pipeline.storage.store import EXTRAS, SCHEME

_QUERY = re.compile(r"\?[\w.~-]+=|\bX-(Amz|Goog)-Signature=", re.IGNORECASE)
"""What a signed URL, or one with a shared access signature, contains; any other `?` belongs to a pattern."""


def refuse_foreign(name: str) -> None:
    """Raise UsageError for a URL that is not a store's, and for one with credentials."""
    found = SCHEME.match(name)
    if found is None:
        return
    if found[1] not in EXTRAS:
        stores = ", ".join(f"{scheme}://" for scheme in EXTRAS)
        raise UsageError(
            f"backcast cannot read from {without_credentials(name)}",
            hint=f"name files, folders or {stores} URLs; download anything else into a folder first",
        )
    bucket = name[found.end() :].partition("/")[0]
    if "@" in bucket or _QUERY.search(name):
        pattern = "; if it is a pattern, write * instead of ?" if "?" in name else ""
        raise UsageError(
            "the URL of a store contains a user, a password, a key or a signature",
            hint=f"remove it; set the credentials as the store's own tools expect, such as in the environment{pattern}",
        )
    if not bucket:
        raise UsageError(f"{name} names no bucket", hint=f"write {found[0]}BUCKET/PREFIX")


def without_credentials(address: str) -> str:
    """An address that is safe to show: without its query, and with *** for a user and a password."""
    return _USER.sub("//***@", address.partition("?")[0])


_USER = re.compile(r"//[^/]*@")
