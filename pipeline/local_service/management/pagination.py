"""Pages of a list: `limit`, `offset`, and the envelope with the URLs of its neighbours (service-api 2.5 and 8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from .call import Call, Json
from .errors import invalid

PAGE_SIZE = 100
"""Results of a page where no limit is given; there is no greatest one (service-behaviour 5.1)."""


def page(call: Call, found: Sequence[Any], *, strict: bool) -> tuple[Json, Sequence[Any]]:
    """The envelope of one page, its `results` still empty, and the part of `found` that belongs into it.

    A limit under 1 is the default one and an offset under 0 is 0, as at the real service. Text that is no integer is
    so there too; under `strict` it is a 400, since the contract states integers.
    """
    limit = _number(call, "limit", least=1, otherwise=PAGE_SIZE, strict=strict)
    offset = _number(call, "offset", least=0, otherwise=0, strict=strict)
    following = offset + limit if offset + limit < len(found) else None
    previous = max(offset - limit, 0) if offset > 0 else None
    envelope: Json = {
        "count": len(found),
        "next": None if following is None else _url(call, limit, following),
        "previous": None if previous is None else _url(call, limit, previous),
        "results": [],
    }
    return envelope, found[offset : offset + limit]


def _number(call: Call, name: str, *, least: int, otherwise: int, strict: bool) -> int:
    given = call.parameter(name)
    if given is None:
        return otherwise
    digits = given.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 4000:
        if strict:
            raise invalid(name, "A valid integer is required.")
        return otherwise
    return int(given) if int(given) >= least else otherwise


def _url(call: Call, limit: int, offset: int) -> str:
    """The request's own URL with another offset, its other parameters kept."""
    kept = [pair for pair in call.query if pair[0] not in ("limit", "offset")]
    kept.append(("limit", str(limit)))
    if offset:
        kept.append(("offset", str(offset)))
    return f"{call.address}?{urlencode(kept)}"
