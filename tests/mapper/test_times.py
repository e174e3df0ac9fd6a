"""Times that verbs read: the start of a session, the ids that are made of it, and times in a form of their own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import MappingError
from pipeline.mapper.codegen.timeformat import TimeFormat
from pipeline.mapper.verbs.session_start import start_of
from pipeline.models import RejectReason
from pipeline.timestamps import BadTime, Reading
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
    """Seconds and milliseconds are told by their digits; a made-up number is no start."""
    assert start_of(text, AT * 1_000_000) == (None if start is None else str(start))


def test_a_row_without_a_time_has_no_session() -> None:
    """Neither a missing time nor a broken one is compared with."""
    assert start_of("1609329600", None) is None
    assert start_of("1609329600", RejectReason("bad_timestamp", "x")) is None


def test_a_session_of_seconds_and_one_of_milliseconds_make_a_session_id() -> None:
    """The id's own time is the session's start."""
    for held, start in (("1609329000", 1_609_329_000_000), ("1609329000123", 1_609_329_000_123)):
        sections = "properties:\n  set: {out: {session: {session_start: a}, with: [b]}}\n"
        made = properties(sections, f'"a":{held},"b":"x"').get("out")
        assert made == f'"{session_uuid(start, "shop", "x", str(start))}"'


def test_a_session_start_stands_where_the_row_has_a_time_already() -> None:
    """Deciding the event's name comes before its time, so the mapping is refused with its place."""
    with pytest.raises(MappingError, match="row's time") as caught:
        mapper("skip: {when: {present: {session_start: a}}, code: x}\n")
    assert caught.value.line == 7


FORM = "%d/%m/%y %H:%M:%S"
TEXTS = st.tuples(*[st.integers(0, most) for most in (32, 13, 99, 25, 61, 61)]).map(
    lambda parts: "{:02}/{:02}/{:02} {:02}:{:02}:{:02}".format(*parts)
)
WARM = TimeFormat(FORM)


def read(form: TimeFormat, text: str) -> Reading | str:
    try:
        return form.read(text)
    except BadTime as error:
        return str(error)


@given(TEXTS)
def test_a_day_that_was_read_before_gives_the_same_time(text: str) -> None:
    """Also where the hour, the minute or the second is none."""
    read(WARM, text[:8] + " 00:00:00")
    assert read(WARM, text) == read(TimeFormat(FORM), text)
