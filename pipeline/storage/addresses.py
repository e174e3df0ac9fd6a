"""The URLs of stores as people write them: what is none is refused, and none is shown with credentials."""

from __future__ import annotations

import re

from pipeline.errors import UsageError
from pipeline.storage.store import EXTRAS, SCHEME

_QUERY = re.compile(r"\?[\w.~-]+=|\bX-(Amz|Goog)-Signature=", re.IGNORECASE)
"""What a URL has that was signed, or has a shared access signature; other `?` are characters of a pattern."""


def refuse_foreign(name: str) -> None:
    """Raise UsageError for the URL of anything but a store, and for one with credentials."""
    found = SCHEME.match(name)
    if found is None:
        return
    if found[1] not in EXTRAS:
        stores = ", ".join(f"{scheme}://" for scheme in EXTRAS)
        raise UsageError(
            f"{without_credentials(name)} is an address that cannot be read",
            hint=f"name files, folders or {stores} URLs; fetch anything else into a folder first",
        )
    bucket = name[found.end() :].partition("/")[0]
    if "@" in bucket or _QUERY.search(name):
        pattern = "; a ? of a pattern is written * where a name and = follow it" if "?" in name else ""
        raise UsageError(
            "the URL of a store contains a user, a password, a key or a signature",
            hint=f"leave it out, and give it as the store's own tools take it, such as in the environment{pattern}",
        )
    if not bucket:
        raise UsageError(f"{name} names no bucket", hint=f"write {found[0]}BUCKET/PREFIX")


def without_credentials(address: str) -> str:
    """An address as it may be shown: without its query, and with *** in place of a user and a password."""
    return _USER.sub("//***@", address.partition("?")[0])


_USER = re.compile(r"//[^/]*@")
