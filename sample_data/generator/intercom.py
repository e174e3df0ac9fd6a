"""Intercom: a page of the events of some people, as its API answers (docs/know/exports.md#intercom)."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from sample_data.generator.spelling import hexes

START = 1_682_000_000
"""2023-04-20T14:13:20Z."""


def page(seed: int = 29) -> bytes:
    """The page as one JSON document."""
    rng = Random(seed)
    events: list[dict[str, Any]] = []
    for number in range(6):
        person: dict[str, Any] = {"intercom_user_id": hexes(rng, 24), "email": f"u{number}@example.com"}
        if number % 3:
            person["user_id"] = f"u-{number}"
        for after, name, metadata in (
            (0, "invited-friend", {"friend": "Grace"}),
            (60, "placed-order", {"order_date": START + number, "price": {"currency": "eur", "amount": 1250 + number}}),
        ):
            at = START + number * 9_000 + after
            one = {"type": "event", "id": hexes(rng, 32), "event_name": name, "created_at": at}
            events.append({**one, **person, "metadata": metadata})
    document = {"type": "event.list", "events": events, "pages": {"next": None}}
    return json.dumps(document, ensure_ascii=False, indent=1).encode()
