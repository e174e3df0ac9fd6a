"""Event properties that the service copies to the person by itself, on every event of a person with a profile.

Each goes to the person under its own name, overwriting, and once as `$initial_…` (service-behaviour 1.10; the list is
that of the service's source, `nodejs/src/worker/ingestion/persons/person-update.ts` with its campaign parameters).
Backcast cannot keep it from doing so, other than by `--persons identified`, so a plan counts them.
"""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np

from pipeline.events.made import Events

PROMOTED = frozenset(
    (
        "$app_build", "$app_name", "$app_namespace", "$app_version", "$browser", "$browser_version", "$current_url",
        "$device_type", "$os", "$os_name", "$os_version", "$pathname", "$raw_user_agent", "$referrer",
        "$referring_domain", "$screen_height", "$screen_width", "$viewport_height", "$viewport_width",
        "_kx", "dclid", "epik", "fbclid", "gad_source", "gbraid", "gclid", "gclsrc", "igshid", "irclid", "li_fat_id",
        "mc_cid", "msclkid", "qclid", "rdt_cid", "sccid", "ttclid", "twclid", "utm_campaign", "utm_content",
        "utm_medium", "utm_name", "utm_source", "utm_term", "wbraid",
    )
)  # fmt: skip
ONE_IN = 64
"""Of so many events of a block one is looked at: counting them all would cost a plan half of its speed."""


class _Event(msgspec.Struct):
    properties: dict[str, msgspec.Raw]


_decode = msgspec.json.Decoder(_Event).decode


def promoted(made: Events) -> Counter[str]:
    """Of the events looked at, how many have each of the promoted properties; "" counts those that were looked at."""
    found: Counter[str] = Counter()
    ends = np.cumsum(made.sizes + 1)
    before = 0
    places = iter(range(0, made.count, ONE_IN))
    place = next(places, None)
    for run in made.runs:
        after = before + len(run)
        while place is not None and ends[place] <= after:
            end = int(ends[place]) - before
            found[""] += 1
            found.update(PROMOTED & _decode(run[end - 1 - int(made.sizes[place]) : end - 1]).properties.keys())
            place = next(places, None)
        before = after
    return found
