"""Ids that are placeholders."""

from __future__ import annotations

import pytest

from pipeline.validator.placeholder_ids import is_placeholder

IN_ANY_CASE = ["anonymous", "GUEST", "Distinct_Id", "distinctid", "id", "not_authenticated", "email"]
AS_WRITTEN = ["[object Object]", "NaN", "None", "none", "null", "0", "undefined"]
BLANK = ["", " ", "\t\n", "\u00a0", " " * 400, "00000000-0000-0000-0000-000000000000"]
DEVICES = ["$device:", "$device:undefined", "$device:0"]
IDS = ["NULL", "nan", "NONE", "[OBJECT OBJECT]", "00", "'null\"", "id1", "u-1", "0.0"]
IDS += ["$device:NULL", "$device:d-1", "$d", "{u-1}", "[u-1]", "[", "{", " u-1", "{{1}}", "[1] ada", "[" * 100_000]
OBJECTS = ['{"a":1}', "{}", "[]", '["u-1"]', " [1]", '{"a":{"b":[1]}}', "\n{}"]


@pytest.mark.parametrize(
    "text",
    [quote + word + quote for quote in ("", "'", '"') for word in IN_ANY_CASE]
    + [quote + word + quote for quote in ("", '"') for word in AS_WRITTEN]
    + [*BLANK, *DEVICES, *OBJECTS],
)
def test_placeholders_are_junk(text: str) -> None:
    """Words that the service refuses, in any case or as written, quoted or not; blank strings of any length and the nil
    UUID; such a word after Mixpanel's prefix for a device; a whole user object as an id."""
    assert is_placeholder(text)


@pytest.mark.parametrize("text", IDS)
def test_other_spellings_are_ids(text: str) -> None:
    """What the service accepts in a merge is an id, however odd; so are brackets that are not JSON."""
    assert not is_placeholder(text)
