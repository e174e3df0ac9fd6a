"""Counts in sentences agree with their nouns."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pipeline.plan.sealed.freshness import open_plan
from pipeline.text import are, pluralize, printable, quoted
from tests.support.deliveries import planned


@pytest.mark.parametrize(
    ("count", "what", "said"),
    [
        (0, "event", "0 events"), (1, "event", "1 event"), (2, "batch", "2 batches"), (1, "batch", "1 batch"),
        (12_000, "property", "12,000 properties"), (3, "key", "3 keys"), (2, "try", "2 tries"), 
        (5, "more row", "5 more rows"),
    ],
)  # fmt: skip
def test_a_count_and_its_noun(count: int, what: str, said: str) -> None:
    """One is one, everything else is many, thousands have commas."""
    assert pluralize(count, what) == said
    assert are(count) == ("is" if count == 1 else "are")


def test_the_sentence_of_a_plan_of_one(tmp_path: Path) -> None:
    """One event of one row in one part."""
    plan, _ = open_plan(planned(tmp_path, 1, files=1))
    assert plan.sentence == "Plan: 1 event to send, from 1 of 1 row in 1 file; 0 skipped, 0 rejected."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\U0001f469\u200d\U0001f467 at home", "\U0001f469\u200d\U0001f467 at home"),
        ("\u2764\ufe0f\u200d\U0001f525", "\u2764\ufe0f\u200d\U0001f525"),
        ("\u0645\u06cc\u200c\u062e\u0648", "\u0645\u06cc\u200c\u062e\u0648"),
        ("\u0915\u094d\u200d\u0937", "\u0915\u094d\u200d\u0937"),
        ("Pur\u200cchase", "Pur\\u200cchase"),
        ("\u200d\U0001f469\u200d", "\\u200d\U0001f469\\u200d"),
        ("\U0001f469\u200dx", "\U0001f469\\u200dx"),
        ("a\u202eb", "a\\u202eb"),
    ],
    ids=ascii,
)
def test_joiners_stay_where_writing_needs_them(text: str, shown: str) -> None:
    """Emoji, Persian and Hindi are written with invisible joiners; elsewhere they would hide a difference."""
    assert printable(text, 99) == shown


def test_a_quoted_string_is_one_word_of_a_shell() -> None:
    """bash reads back exactly the string, and nothing in it controls a terminal."""
    texts = ["plan", "my plan", "it's", "\u202egnp'\\x", "a\nb\x1b", "$HOME`id`", "", "é \U0001f469"]
    words = [quoted(text) for text in texts]
    command = ["bash", "-c", f"printf '%s\\0' {' '.join(words)}"]
    read = subprocess.run(command, capture_output=True, check=True, env={"LANG": "C.UTF-8"})
    assert read.stdout.decode().split("\0")[:-1] == texts
    assert [printable(word, 999) for word in words] == words
