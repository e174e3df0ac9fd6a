"""Properties that are options of the per-event endpoint leave the properties; every other byte of an event stays."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.encoder.encoded import spell_per_event

BOOLEANS = ("$cookieless_mode", "$process_person_profile")
TOUR = "$product_tour_id"
NAMES = st.sampled_from([*BOOLEANS, TOUR, "$set", "a", 'b"', "$process_person_profile:", "\\"])
ANY: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


def is_option(name: str, value: object) -> bool:
    return isinstance(value, bool) if name in BOOLEANS else name == TOUR and isinstance(value, str)


def encoded(value: object, blanks: bool) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(" , ", " : ") if blanks else (",", ":"))


@settings(max_examples=600)
@given(st.lists(st.tuples(st.dictionaries(NAMES, ANY, max_size=5), st.booleans()), min_size=1, max_size=3))
def test_options_leave_the_properties_and_every_other_byte_stays(events: list[tuple[dict[str, Any], bool]]) -> None:
    """Whatever else has such a name: a name inside a value, a value that means something else as an option, a
    string."""
    texts = []
    for properties, blanks in events:
        members = {name: f"{json.dumps(name)}:{encoded(value, blanks)}" for name, value in properties.items()}
        texts.append(members)
    ends = ',"timestamp":"2023-01-01T00:00:00Z","uuid":"0188a5eb-0000-7000-8000-000000000001"}'
    sealed = [
        ('{"event":"E","properties":{' + ",".join(['"distinct_id":"u"', *members.values()]) + "}" + ends).encode()
        for members in texts
    ]
    for spelled, (properties, _), members in zip(spell_per_event(sealed), events, texts, strict=True):
        moved = {name: value for name, value in properties.items() if is_option(name, value)}
        rest = ",".join(text for name, text in members.items() if name not in moved)
        event = json.loads(spelled)
        assert event["options"] == {"disable_skew_correction": True} | {name[1:]: one for name, one in moved.items()}
        assert spelled.decode().endswith(f',"properties":{{{rest}}}{ends}')
        assert spelled.startswith(b'{"event":"E","distinct_id":"u","options":{')
