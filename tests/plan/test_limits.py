"""What a person leaves out is neither planned nor sent, and is counted."""

from __future__ import annotations

import gzip
from pathlib import Path

from tests.support.tiny_tool import DAY, THEN, make_plan, planned, row, write


def test_a_limit_reads_exactly_its_number_of_rows_and_sends_them(tmp_path: Path) -> None:
    """Across parts, and in the middle of one; an apply stops at the same row. No worker reads a block beyond it."""
    files = [[row(key=f"{file}{number}", number=number) for number in range(5)] for file in "ab"]
    limits = {0: [0, 0], 1: [1, 0], 5: [5, 0], 7: [5, 2], 10: [5, 5], 99: [5, 5]}
    for limit, workers in [*((limit, 0) for limit in limits), (7, 2)]:
        made, parts = planned(tmp_path / f"{limit}-{workers}", *files, limit=limit, workers=workers), limits[limit]
        assert [part.rows for part in made.plan.parts] == parts, limit
        assert made.plan.rows.read == sum(parts) == made.plan.events.made, limit
        sent = [event["properties"]["number"] for event in made.sent()]
        assert sent == [number for rows in parts for number in range(rows)], limit


def test_a_limit_counts_rows_of_every_kind(tmp_path: Path) -> None:
    """Skipped and rejected ones count too; rows beyond the limit make no links."""
    rows = [{"skip": "test_row"}, row(id=""), row(key="k"), {"id": "u-1", "link": "d-1"}]
    made = planned(tmp_path, rows, limit=3)
    counts = made.plan.rows
    assert (counts.read, counts.mapped, counts.skipped, counts.rejected) == (3, 1, 1, 1)
    assert made.identities() == []


def test_since_and_until_are_half_open(tmp_path: Path) -> None:
    """Two adjacent windows send each event once."""
    rows = [row(key=str(day), at=THEN + day * DAY, day=day) for day in range(4)]
    sent = []
    for name, since, until in (("one", None, THEN + 2 * DAY), ("two", THEN + 2 * DAY, None)):
        made = planned(tmp_path / name, rows, since=since, until=until)
        assert made.plan.skips == {"outside_window": 2}
        sent.append([event["properties"]["day"] for event in made.sent()])
    assert sent == [[0, 1], [2, 3]]


def test_a_row_that_is_left_out_is_skipped_whatever_else_is_wrong_with_it(tmp_path: Path) -> None:
    """What else is wrong with a row outside the window does not matter this time. The ids of people who asked to be
    forgotten are in nothing that would be sent."""
    made = planned(tmp_path / "window", [row(id="", at=THEN - 1), row(key="k")], since=THEN)
    assert (made.plan.skips, made.plan.rejects) == ({"outside_window": 1}, {})
    rows = [row(id="gone", key="a"), row(id="stays", key="b"), {"id": "stays", "link": "gone"}]
    made = planned(tmp_path / "forgotten", rows, excluded=["gone"])
    assert made.plan.skips == {"excluded_id": 2}
    assert [event["properties"]["distinct_id"] for event in made.sent()] == ["stays"]
    assert made.identities() == []


def test_one_file_given_twice_is_read_once_with_a_warning(tmp_path: Path) -> None:
    """Files are compared by their bytes, whatever their names; rows without a key are not doubled."""
    one = write(tmp_path / "one.jsonl", [row(), row()])
    other = write(tmp_path / "other.jsonl", [row(), row()])
    made = make_plan(tmp_path / "plan", [one, other])
    assert (made.plan.events.made, len(made.plan.parts)) == (2, 1)
    assert (made.plan.warnings, made.plan.verdict) == ({"identical_rows": 1, "same_file": 1}, "warnings")
    assert made.plan.notices == [("same_file", "other.jsonl", "the same bytes as one.jsonl; read once")]


def test_a_warning_has_a_count_and_a_place(tmp_path: Path) -> None:
    """The first row that caused it: part, row from 1, byte offset, sentence."""
    path = tmp_path / "a.jsonl.gz"
    good = f'{{"event":"Seen","id":"u-1","at":{THEN},"key":"a"}}\n'
    twice = f'{{"event":"Seen","id":"u-1","at":{THEN},"key":"b","x":1,"x":2}}\n'
    path.write_bytes(gzip.compress((good * 3 + twice * 2).encode()))
    made = make_plan(tmp_path / "plan", [path])
    ((code, count),) = made.plan.warnings.items()
    example = made.plan.examples[code]
    assert (count, example.part, example.row, example.offset) == (2, "a.jsonl.gz", 4, 3 * len(good))
