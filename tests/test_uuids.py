"""The uuid contract. Its constants and uuids are copied here: they may never change with the code."""

from __future__ import annotations

import hashlib
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import uuids

ROOT = uuid.UUID("5c1c2ab2-3a0b-5d0e-9a4e-0f8f6f1d7b60")
POSTHOG_MIXPANEL = uuid.UUID("706f7374-686f-675f-6d69-7870616e656c")

KEYS = st.text(st.characters(exclude_categories=()), max_size=60)


@pytest.mark.parametrize(
    ("tool", "source", "space", "key", "expected"),
    [
        (
            "mixpanel", "", "0829736a-b140-570d-ac78-774cecf956e2",
            "Signup\x1f1609329600\x1fu-1\x1fabc", "bb977d23-46cd-5cc2-afa9-f064e6e69c42",
        ),
        (
            "mixpanel", "eu", "8a85706a-25c6-5c30-8084-e72da95bab04",
            "Signup\x1f1609329600\x1fu-1\x1fabc", "1cf8b78e-09dd-5af6-8ec2-2766d849d69b",
        ),
        (
            "amplitude", "", "6a1f3cc5-3994-57f4-b0b6-8cdef1fc0b95",
            "é😀", "66e113ee-29f0-5263-9a1c-090c458438e4",
        ),
    ],
)  # fmt: skip
def test_namespaces_and_the_uuids_of_their_keys_never_change(
    tool: str, source: str, space: str, key: str, expected: str
) -> None:
    """Each tool and source id has its own namespace, and one key of one source one uuid, fixed forever. With the
    namespace of the service's importer an `$insert_id` gives the same uuid as in the importer."""
    assert uuids.namespace(tool, source) == uuid.UUID(space)
    assert uuids.Hasher(uuids.namespace(tool, source))(key) == expected
    assert uuids.POSTHOG_MIXPANEL == POSTHOG_MIXPANEL
    imported = uuids.Hasher(uuids.POSTHOG_MIXPANEL)("29fc2962-6d9c-455d-95ad-95b84f09b9e4")
    assert imported == "573f414b-6a6a-54f3-9477-7c661e5d868a"


@given(st.uuids(), st.text(max_size=60))
def test_a_uuid_is_the_standard_version_5(space: uuid.UUID, key: str) -> None:
    """Anyone can compute a uuid again with the standard library."""
    assert uuids.Hasher(space)(key) == str(uuid.uuid5(space, key))


@given(st.lists(KEYS, min_size=1, max_size=8))
def test_many_uuids_at_once_are_those_of_each_key(keys: list[str]) -> None:
    """Computing a whole block gives the same as computing one key, for any string, even one that is not Unicode."""
    hasher = uuids.Hasher(ROOT)
    raw = uuids.uuid5_bytes(hasher.digests(keys))
    digits = uuids.uuid_digits(raw)
    assert [row.tobytes() for row in digits] == [hasher(key).encode() for key in keys]


def test_the_key_of_a_row_without_a_source_key_never_changes() -> None:
    """It contains the content's sha256, the ordinal among equal rows and the event's place in its row: no two are
    equal."""
    content = b'{"a":1,"b":"x"}'
    key = uuids.content_key(uuids.content_digest(content), 2, 1)
    assert key == f"content\x1f{hashlib.sha256(content).hexdigest()}\x1f2\x1f1"
    assert uuids.Hasher(uuids.namespace("mixpanel"))(key) == "d66ee458-a2be-56d4-a12b-e693f125b455"
    assert len({uuids.content_key("0" * 64, ordinal, nth) for ordinal in range(12) for nth in range(12)}) == 144


@given(st.integers(0, 2**48 - 1), st.lists(st.text(max_size=20), max_size=3))
def test_a_session_uuid_is_a_version_7_with_the_sessions_start(start: int, parts: list[str]) -> None:
    """The service leaves all others out of its session metrics."""
    found = uuid.UUID(uuids.session_uuid(start, *parts))
    assert (found.version, found.variant, found.int >> 80) == (7, uuid.RFC_4122, start)


def test_the_uuid_of_a_session_never_changes() -> None:
    """The same start and parts give the same session, in every run."""
    assert uuids.session_uuid(1609329600000, "amplitude", "1", "dev") == "0176b384-e600-7dff-b285-0d45a5ab22bd"
    assert uuids.session_uuid(1609329600000, "amplitude", "1", "other") != "0176b384-e600-7dff-b285-0d45a5ab22bd"
