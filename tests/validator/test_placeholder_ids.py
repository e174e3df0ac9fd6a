"""Ids that are placeholders."""

from __future__ import annotations

import pytest

from pipeline.validator.placeholder_ids import is_placeholder

WORDS = ["anonymous", "GUEST", "Distinct_Id", "distinctid", "id", "not_authenticated", "email", "[object Object]", "0"]
WORDS += ["NaN", "nan", "None", "NONE", "null", "NULL", "Null", "UNDEFINED", "(undefined)", "N/A", "n/a", "#N/A", r"\N"]
WORDS += ["(none)", "(NULL)", "<nil>", "<null>", "(not set)"]
BLANK = ["", " ", "\t\n", "\u00a0", " " * 400, "00000000-0000-0000-0000-000000000000"]
PADDED = ["NULL  ", "\tnull", "\u00a0N/A\u2003", " $device:NULL"]
DEVICES = ["$device:", "$device:undefined", "$device:0", "$device:NULL"]
IDS = ["00", "'null\"", "id1", "u-1", "0.0", "na", "nil", "n", "\\\\N", "Nullmann", "null-1", "a n/a", "(none", "nu ll"]
IDS += ["$device:d-1", "$d", "{u-1}", "[u-1]", "[", "{", " u-1", "{{1}}", "[1] ada", "[" * 100_000]
OBJECTS = ['{"a":1}', "{}", "[]", '["u-1"]', " [1]", '{"a":{"b":[1]}}', "\n{}"]


@pytest.mark.parametrize(
    "text",
    [quote + word + quote for quote in ("", "'", '"') for word in WORDS] + [*BLANK, *PADDED, *DEVICES, *OBJECTS],
)
def test_placeholders_are_junk(text: str) -> None:
    """Words that the service refuses and that databases write for a missing value, in any case, quoted or padded;
    blank strings of any length and the nil UUID; such a word after Mixpanel's prefix for a device; a whole user object
    as an id."""
    assert is_placeholder(text)


@pytest.mark.parametrize("text", IDS)
def test_other_spellings_are_ids(text: str) -> None:
    """Any other value is an id, however odd; so are words that a person could be called, and brackets that are not
    JSON."""
    assert not is_placeholder(text)
