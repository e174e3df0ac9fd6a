"""The people of the same Mixpanel project as the Engage API gives them: pages of profiles, without a time of their own.

A profile stands under the label of its cluster, which is not always the id that the person's events are sent under; a
placeholder has one too, since anything that was ever sent as an id has (docs/know/exports.md#mixpanel,
#mixpanel-identity, #mixpanel-traps).
"""

from __future__ import annotations

from random import Random
from typing import Any

from sample_data.generator import mixpanel
from sample_data.generator.spelling import hexes, row, spelled

PAGE_SIZE = 6
NAMES = (
    ("Ada", "Lovelace"), ("Grace", "Hopper"), ("Łukasz", "Żak"), ("花子", "山田"), ("Zoë", "O'Neil"), ("Ana", "Souza"),
    ("Sam", "\u202eTurned"), ("Iris", ""),
)  # fmt: skip


def pages(seed: int = 20211108) -> list[str]:
    """Each page as its JSON text; the same for the same seed."""
    rng = Random(seed)
    profiles = _profiles(rng)
    session = f"{1636340000 + rng.randrange(9999)}-{hexes(rng, 6)}"
    cuts = [profiles[start : start + PAGE_SIZE] for start in range(0, len(profiles), PAGE_SIZE)]
    return [
        row(
            {
                "page": number,
                "page_size": PAGE_SIZE,
                "results": page,
                "session_id": session,
                "status": "ok",
                "total": len(profiles),
            }
        )
        for number, page in enumerate(cuts)
    ]


def _profiles(rng: Random) -> list[dict[str, Any]]:
    made = [_profile(rng, person, first, last) for person, (first, last) in zip(mixpanel.people(), NAMES, strict=True)]
    # The Engage API writes an id of digits as a number now and then.
    made[0]["$distinct_id"] = int(made[0]["$distinct_id"])
    never_seen = {"$email": "later@lumen.example", "$created": "2021-11-07T23:59:59", "tier": "trial"}
    return [
        *made,
        {"$distinct_id": "undefined", "$properties": {"tier": "nobody's"}},
        {"$distinct_id": "324999", "$properties": never_seen},
        {"$distinct_id": "325000", "$properties": {"$last_seen": "2021-11-07T05:10:00"}},
    ]


def _profile(rng: Random, person: mixpanel.Person, first: str, last: str) -> dict[str, Any]:
    own: dict[str, Any] = {
        "$created": f"2020-0{1 + rng.randrange(9)}-1{rng.randrange(10)}T08:30:00",
        "$email": f"{person.user}@lumen.example",
        "$first_name": first,
        "$last_name": last,
        "$last_seen": "2021-11-07T05:10:00",
        "$geo_source": "reverse_geocoding",
        "tier": rng.choice(["free", "pro"]),
        "lamps": rng.randrange(1, 12),
        "spent": spelled(f"{rng.randrange(100)}.10"),
        "rooms": ["hall", "Küche"],
        "newsletter": rng.random() < 0.5,
    }
    if not last:
        own["$last_name"] = None
    return {"$distinct_id": person.label, "$properties": own}
