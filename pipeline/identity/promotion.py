"""Event properties that the service itself copies to the person, from every event of a person with a profile.

Each is copied to the person under its name, overwriting, and once as `$initial_…` (docs/know/service.md#persons; the
list is from the service's source, `nodejs/src/worker/ingestion/persons/person-update.ts` with its campaign
parameters). Only `--persons identified` prevents this, so a plan counts these properties. With
`--promoted-properties final` the plan also finds the values that they would have if events arrived in time order
(`promoted_by`), since the service goes by the order of arrival alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec import Raw

from pipeline.encoder.encoded import has_profile, read_properties
from pipeline.identity.kinds import ABSENT, SHOWN, SHOWN_ONCE

if TYPE_CHECKING:
    from pipeline.transform.events import Events

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
"""One event in this many is sampled: counting all of them would halve a plan's speed."""


INITIAL = {name: "$initial_" + name.removeprefix("$") for name in PROMOTED}
"""The name under which the service stores the first value of each property."""
_NAMED = PROMOTED | frozenset(INITIAL.values())
_NOT_PROMOTING = frozenset(("$snapshot", "$performance_event"))
_NOT_PERSONS = frozenset(("$exception", "$$heatmap"))
"""Events that promote nothing, and those that never change a person (docs/know/service.md#persons)."""
_NULL = Raw(b"null")
_Values = dict[str, Raw]


_open = msgspec.json.Decoder(_Values).decode
_encode = msgspec.json.Encoder().encode
_text = msgspec.json.Decoder(str).decode


def count_promoted(events: Events) -> Counter[str]:
    """In a sample of the events, how many have each promoted property; "" counts the sample's events."""
    counted: Counter[str] = Counter()
    ends = np.cumsum(events.sizes + 1)
    before = 0
    indices = iter(range(0, events.count, ONE_IN))
    index = next(indices, None)
    for run in events.runs:
        after = before + len(run)
        while index is not None and ends[index] <= after:
            end = int(ends[index]) - before
            counted[""] += 1
            counted.update(PROMOTED & read_properties(run[end - 1 - int(events.sizes[index]) : end - 1]).keys())
            index = next(indices, None)
        before = after
    return counted


def promoted_by(
    events: Events, left_out: Collection[tuple[int, int]]
) -> Iterator[tuple[tuple[int, int, int, int], int, str, int, int, bytes]]:
    """What the events of a block promote, as updates (`pipeline.transform.statements.update_table`), except those of
    `left_out`: (row, position in the row).

    An event sets each property under its name and sets it once as `$initial_…`, unless its `$set` or `$set_once` has
    the name. The last value that is set stays, and the first that is set once; a null that is set once does not count,
    because any later value replaces it.
    """
    times, received = events.times.tolist(), events.received.tolist()
    for number, text in enumerate(events.events):
        row, position = events.row_of[number], events.positions[number]
        if left_out and (row, position) in left_out:
            continue
        properties = read_properties(text)
        for kind, values in zip((SHOWN, SHOWN_ONCE), _promoted_by(events.names[number], properties), strict=True):
            if values:
                owner, at, got = _text(properties["distinct_id"]), times[number], received[number] or ABSENT
                yield (row, position, position, 1), kind, owner, at, got, _encode(values)


def _promoted_by(name: str, properties: _Values) -> tuple[_Values, _Values]:
    """What an event sets and what it sets once of the promoted names. `$os_name` is another name for `$os`."""
    if name in _NOT_PERSONS or not has_profile(properties):
        return {}, {}
    set_, once = _named(properties.get("$set")), _named(properties.get("$set_once"))
    promoted = PROMOTED & properties.keys() if name not in _NOT_PROMOTING else ()
    for one in promoted:
        set_.setdefault(one, properties[one])
        once.setdefault(INITIAL[one], properties[one])
    if "$os_name" in promoted:
        del set_["$os_name"], once["$initial_os_name"]
        if "$os" not in promoted:
            set_.setdefault("$os", properties["$os_name"])
            once.setdefault("$initial_os", properties["$os_name"])
    return set_, {one: value for one, value in once.items() if value != _NULL}


def _named(properties: Raw | None) -> _Values:
    if properties is None or bytes(properties)[:1] != b"{":
        return {}
    return {name: value for name, value in _open(properties).items() if name in _NAMED}
