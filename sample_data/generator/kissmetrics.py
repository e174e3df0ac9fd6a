"""Kissmetrics: revisions of a data export, a JSON object a line (docs/know/exports.md#kissmetrics)."""

from __future__ import annotations

from base64 import b64encode
from random import Random
from typing import Any

from sample_data.generator.spelling import lines, row

Row = dict[str, Any]

START = 1_351_187_280
"""2012-10-25T17:48:00Z."""
_SITE = "https://lamps.example"


def files(seed: int = 23) -> dict[str, bytes]:
    """The files of the bucket by their paths."""
    revisions = _rows(Random(seed))
    found = {f"revisions/{140 + n}.json": lines([row(one) for one in made]) for n, made in enumerate(revisions)}
    index = ["filename,min_timestamp,max_timestamp,min_utc_date,max_utc_date"]
    index += [
        f"revisions/{140 + n}.json,{made[0]['_t']},{made[-1]['_t']},2012-10-25 17:50 GMT,2012-10-25 18:05 GMT"
        for n, made in enumerate(revisions)
    ]
    return found | {"index.csv": ("\n".join(index) + "\n").encode()}


def _rows(rng: Random) -> list[list[Row]]:
    """The rows of two revisions."""
    made: list[list[Row]] = [[], []]
    for number in range(6):
        at = START + number * 5_000
        revision = made[number // 3]
        visitor = b64encode(rng.randbytes(20)).decode().lower()
        page = f"{_SITE}/lampen/{number}?utm_source=mail"
        referrer = {"referrer": "Direct" if number % 2 else "http://search.example/?q=lampe"}
        revision += [
            {"viewed url": page, **referrer, "_n": "page view", "_p": visitor, "_t": at},
            {**referrer, "url": page, "_n": "visited site", "_p": visitor, "_t": at},
            {"campaign source": "mail", "campaign medium": "email", "_n": "ad campaign hit", "_p": visitor, "_t": at},
        ]
        if number % 3 == 2:
            continue
        user = f"u{number}@example.com"
        revision += [
            {"_p2": user, "_p": visitor, "_t": at + 60},
            {"plan name": "Größe XL", "price": 12.5 + number, "_n": "signed up", "_p": user, "_t": at + 61},
            {"_p": user, "plan": "pro" if number % 2 else "free", "_t": at + 62},
            {"_c": "mobile_app", "_n": "opened", "_p": user, "_t": at + 600, "_server_timestamp": at + 603},
        ]
    # The same click twice within a second is two events.
    made[1] += [{"_n": "clicked", "_p": "u4@example.com", "_t": START + 21_000}] * 2
    return made
