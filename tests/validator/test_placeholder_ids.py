"""Ids that name nobody."""

from __future__ import annotations

import pytest

from pipeline.validator.placeholder_ids import is_placeholder


@pytest.mark.parametrize(
    "word", ["anonymous", "GUEST", "Distinct_Id", "distinctid", "id", "not_authenticated", "email"]
)
def test_words_of_the_first_list_are_junk_in_any_case(word: str) -> None:
    """A word that the service refuses in any case is junk in any case."""
    assert is_placeholder(word)
    assert is_placeholder(f"'{word}'")
    assert is_placeholder(f'"{word}"')


@pytest.mark.parametrize("word", ["[object Object]", "NaN", "None", "none", "null", "0", "undefined"])
def test_words_of_the_second_list_are_junk_as_written(word: str) -> None:
    """A word that the service refuses as written is junk, quoted or not."""
    assert is_placeholder(word)
    assert is_placeholder(f'"{word}"')


@pytest.mark.parametrize("text", ["NULL", "nan", "NONE", "[OBJECT OBJECT]", "00", "'null\"", "id1", "u-1", "0.0"])
def test_other_spellings_are_ids(text: str) -> None:
    """What the service accepts in a merge is an id, however odd."""
    assert not is_placeholder(text)


@pytest.mark.parametrize("text", ["", " ", "\t\n", "\u00a0", " " * 400, "00000000-0000-0000-0000-000000000000"])
def test_blank_and_nil_are_junk(text: str) -> None:
    """Blank text of any length and the nil UUID name nobody."""
    assert is_placeholder(text)


@pytest.mark.parametrize("text", ["$device:", "$device:undefined", "$device:NULL", "$device:0", "$device:d-1", "$d"])
def test_what_is_behind_mixpanels_word_for_a_device_counts(text: str) -> None:
    """Every visitor of such a device would be one person."""
    assert is_placeholder(text) is (text in {"$device:", "$device:undefined", "$device:0"})


@pytest.mark.parametrize("text", ['{"a":1}', "{}", "[]", '["u-1"]', " [1]", '{"a":{"b":[1]}}', "\n{}"])
def test_an_object_or_a_list_is_junk(text: str) -> None:
    """A tracker was given a whole user for an id."""
    assert is_placeholder(text)


@pytest.mark.parametrize("text", ["{u-1}", "[u-1]", "[", "{", " u-1", "{{1}}", "[1] ada", "[" * 100_000])
def test_brackets_that_are_no_json_are_part_of_an_id(text: str) -> None:
    """However odd."""
    assert not is_placeholder(text)
