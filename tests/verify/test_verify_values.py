"""Values are compared exactly, and changes that the service itself makes are separate, by code and source."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.verify.values import KNOWN, compare_properties, landed_properties
from tests.docs.test_citations import anchors

SESSION = "018F3A5B-0000-7000-8000-00000000ABCD"


def compared(sent: str, landed: str) -> tuple[list[str], dict[str, list[str]]]:
    before, after = landed_properties(sent), landed_properties(landed)
    assert before is not None
    return compare_properties(before, after)


def test_another_value_is_altered() -> None:
    for sent, landed in (
        ("1", "2"), ('"a"', '"b"'), ("true", "1"), ("null", '""'), ("[1,2]", "[2,1]"), ('{"a":1}', '{"a":1,"b":2}'),
        ("9007199254740993", "9007199254740995"), ("1.10", "1.11"), ('"1"', "1"), ("0", "null"), ('"É"', '"e"'),
    ):  # fmt: skip
        assert compared(f'{{"p":{sent}}}', f'{{"p":{landed}}}') == (["p"], {}), (sent, landed)


@pytest.mark.parametrize(
    ("sent", "landed", "code", "named"),
    [
        ('{"p":1.10}', '{"p":1.1}', "other_spelling", "p"),
        ('{"p":{"b":1,"a":[1E2]}}', '{"p":{"a":[100],"b":1}}', "other_spelling", "p"),
        ('{"p":"\\u00e9"}', '{"p":"é"}', "other_spelling", "p"),
        ('{"p":9007199254740993}', '{"p":9007199254740992}', "number_precision", "p"),
        ('{"p":-0.0}', '{"p":0}', "number_precision", "p"),
        ('{"p":"a\\u0000b"}', '{"p":"a\\ufffdb"}', "replaced_characters", "p"),
        (f'{{"$session_id":"{SESSION}"}}', f'{{"$session_id":"{SESSION.lower()}"}}', "session_id_case", "$session_id"),
        ('{"a":1}', '{"a":1,"$ip":"10.0.0.1"}', "sender_address", "$ip"),
        ('{"a":1}', '{"a":1,"$geoip_city_name":"Ghent"}', "geoip", "$geoip_city_name"),
        ('{"a":1}', '{"a":1,"$sent_at":"2026-01-01"}', "sent_at", "$sent_at"),
        ('{"a":1}', '{"a":1,"$ignore_sent_at":true}', "no_skew_correction", "$ignore_sent_at"),
        ('{"$browser":"X"}', '{"$browser":"X","$set":{"$browser":"X"}}', "promoted", "$set.$browser"),
        ('{"$os":"X","$set":{"a":1}}', '{"$os":"X","$set":{"a":1,"$os":"X"}}', "promoted", "$set.$os"),
        ('{"$os":"X"}', '{"$os":"X","$set_once":{"$initial_os":"X"}}', "promoted", "$set_once.$initial_os"),
        ('{"$process_person_profile":false,"$set":{}}', '{"$process_person_profile":false}', "no_profile", "$set"),
        ('{"$groups":{"a":"b"}}', '{"$groups":{"a":"b"},"$group_0":"b"}', "group_number", "$group_0"),
        ('{"distinct_id":"u"}', "{}", "own_column", "distinct_id"),
    ],
)
def test_what_the_service_does_is_known(sent: str, landed: str, code: str, named: str) -> None:
    """Each of its additions and changes has a code, and is not a difference."""
    assert compared(sent, landed) == ([], {code: [named]})


@pytest.mark.parametrize(
    ("sent", "landed", "altered"),
    [
        ('{"$geoip_disable":true}', '{"$geoip_disable":true,"$geoip_city_name":"Ghent"}', "$geoip_city_name"),
        ('{"$browser":"X"}', '{"$browser":"X","$set":{"$browser":"Y"}}', "$set.$browser"),
        ('{"$set":{"a":1}}', '{"$set":{"a":2}}', "$set.a"),
        ('{"$set":{"a":1}}', "{}", "$set"),
        ('{"a":1}', '{"a":1,"$group_0":"b"}', "$group_0"),
        ('{"a":1}', '{"a":1,"$ignore_sent_at":false}', "$ignore_sent_at"),
        ('{"$ip":"10.0.0.1"}', '{"$ip":"10.0.0.2"}', "$ip"),
        ('{"a":1}', "[]", "properties"),
    ],
)
def test_what_only_looks_like_it_is_altered(sent: str, landed: str, altered: str) -> None:
    """The same change without a reason of the service is a difference."""
    assert compared(sent, landed) == ([altered], {})


def test_each_known_difference_has_a_source() -> None:
    for code, known in KNOWN.items():
        page, _, heading = known.source.partition("#")
        assert heading in anchors(page), code


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=5))
def test_what_landed_as_it_was_sent_is_equal_however_it_is_spelled(properties: dict[str, Any]) -> None:
    """Spaces, escapes and the order of properties do not matter."""
    sent = json.dumps(properties)
    other = json.dumps(dict(reversed(properties.items())), ensure_ascii=False, indent=1)
    try:
        other.encode()
    except UnicodeEncodeError:
        return
    altered, known = compared(sent, other)
    assert altered == []
    assert set(known) <= {"other_spelling"}
