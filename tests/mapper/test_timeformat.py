"""Times in a custom form: a day that was read before is remembered, which changes no result."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.mapper.codegen.timeformat import TimeFormat
from pipeline.timestamps import BadTime, Reading

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
