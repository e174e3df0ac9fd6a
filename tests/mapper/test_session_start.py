"""When a session begins, as the verb `session_start` reads it from the session's id."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import MappingError
from pipeline.mapper.verbs.times import start_of
from pipeline.models import RejectReason
from pipeline.timestamps import DAY
from pipeline.uuids import session_uuid
from tests.support.small_mappings import mapper, properties

AT = 1609329600
"""The time of the row, in seconds."""


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("1609329600", 1_609_329_600_000),
        ("1609329599999", 1_609_329_599_999),
        ("1609243200000", 1_609_243_200_000),
        *((other, None) for other in ("1609243199999", "1609329600001", "1609329601", "160932960", "16093296000")),
        *((other, None) for other in ("-160932960", "1609329600.0", "١٦٠٩٣٢٩٦٠٠", "true", "", None)),
    ],
)
def test_a_session_starts_within_the_day_before_its_row(text: str | None, start: int | None) -> None:
    """The number of digits distinguishes seconds from milliseconds; a made-up number is not a start."""
    assert start_of(text, AT * 1_000_000) == (None if start is None else str(start))


@given(st.text(max_size=14), st.integers(0, 4_000_000_000_000_000))
def test_a_session_without_a_start_begins_with_its_day(text: str, time: int) -> None:
    """In UTC: never after the row, and within the day before it. A blank id is not a session."""
    start = start_of(text, time, "day")
    assert (start is None) == (not text.strip())
    assert start is None or 0 <= time - int(start) * 1_000 <= DAY
    assert start_of(text, time) in (None, start)
    assert start_of(text, None, "day") is None


def test_a_session_of_seconds_and_one_of_milliseconds_make_a_session_id() -> None:
    """The id's own time is the session's start. There is no id if the row has no time, or a broken one."""
    assert start_of("1609329600", None) is None
    assert start_of("1609329600", RejectReason("bad_timestamp", "x")) is None
    for held, start in (("1609329000", 1_609_329_000_000), ("1609329000123", 1_609_329_000_123)):
        sections = "properties:\n  set: {out: {session: {session_start: a}, with: [b]}}\n"
        made = properties(sections, f'"a":{held},"b":"x"').get("out")
        assert made == f'"{session_uuid(start, "shop", "x", str(start))}"'


def test_a_session_start_needs_the_time_of_the_row() -> None:
    """The event's name is decided before its time, so the mapping is refused with its place."""
    with pytest.raises(MappingError, match="row's time") as caught:
        mapper("skip: {when: {present: {session_start: a}}, code: x}\n")
    assert caught.value.line == 7
