"""Keen: the S3 stream of one collection, a JSON object a line (docs/know/exports.md#keen)."""

from __future__ import annotations

from random import Random

from sample_data.generator.spelling import hexes, row, spelled


def events(seed: int = 29) -> list[str]:
    """The lines of a file of the collection `purchases`."""
    rng = Random(seed)
    made = []
    for number in range(8):
        second = f"2018-03-10T10:{number:02}:00"
        made.append(
            row(
                {
                    "item": f"Lampe {number}",
                    "price": spelled(f"{12 + number}.50"),
                    "user": {"uuid": f"v-{number % 4}"} | ({"id": f"u-{number % 4}"} if number > 3 else {}),
                    "ip_address": "203.0.113.9",
                    "geo": {"city": "Zürich", "country": "Switzerland", "coordinates": [8.54, 47.37]},
                    "keen": {
                        "timestamp": f"{second}.250Z",
                        "created_at": f"{second}.900Z",
                        "id": hexes(rng, 24),
                    },
                }
            )
        )
    # Delivered twice.
    return [*made, made[0]]
