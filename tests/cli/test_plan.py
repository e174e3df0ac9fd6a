"""`backcast plan`, `rehearse` and `rejects`: what they print, their exit codes, and what is never guessed."""

from __future__ import annotations

import csv
import gzip
import io
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import SAMPLES, generic
from tests.support.deliveries import add, export, planned, uuid
from tests.support.forked import Forked


def test_plan_prints_one_object_with_the_documented_fields(call: Any, tmp_path: Path) -> None:
    """`plan --json` is pure JSON on stdout, with exactly the fields of the contract."""
    source = export(tmp_path / "export", 20)
    said = call("plan", source, *generic(), "-o", tmp_path / "plan", "--json")
    assert said.code == 0
    assert list(said.json) == ["format", "plan", "digest", "verdict", "tool", "zone", "first", "last", "rows", "events",
                               "parts", "skips", "rejects", "warnings", "gates", "notices", "coverage", "hours",
                               "drift"]  # fmt: skip
    assert said.json["format"] == "backcast.plan/2"
    assert said.json["rows"] == {"read": 20, "mapped": 20, "skipped": 0, "rejected": 0}
    assert said.json["events"] == {"made": 20, "phases": {"identities": 0, "groups": 0, "events": 20, "persons": 0}}
    assert [list(part) for part in said.json["parts"]] == [["path", "bytes", "digest", "rows"]] * 2


@pytest.mark.parametrize(
    ("sample", "mapping", "given"),
    [
        ("mixpanel", "mixpanel", ()),
        ("mixpanel", "mixpanel", ("--timezone", "Europe/Berlin")),
        ("amplitude", "mixpanel", ("--timezone=UTC",)),
    ],
)
def test_a_stopped_plan_ends_with_the_command_that_plans_it_well(
    call: Any, tmp_path: Path, sample: str, mapping: str, given: Sequence[str]
) -> None:
    """The command has the zone that the data prove, or the mapping that recognises the rows, instead of what was
    given."""
    said = call("plan", SAMPLES / sample, "-m", mapping, *given, "-o", tmp_path / "plan")
    assert said.code == 4
    program, *again = shlex.split(said.out.splitlines()[-1])
    assert (program, again[0], "Area/City" in again) == ("backcast", "plan", False)
    assert call(*again).code == 0


def test_rehearse_prints_what_was_applied_and_proved(call: Any, tmp_path: Path) -> None:
    """`rehearse --json` has the objects of apply and verify; a second rehearsal begins afresh, also if the plan was
    moved."""
    directory = planned(tmp_path, 20)
    assert call("rehearse", directory).code == 0
    said = call("rehearse", directory.rename(tmp_path / "moved"), "--json")
    assert (said.code, said.json["format"]) == (0, "backcast.rehearse/1")
    apply, verify = said.json["apply"], said.json["verify"]
    fields = {"format", "digest", "dry_run", "balanced", "seconds", "batches", "events", "phases", "held"}
    assert fields | {"to", "ended", "transport", "warnings"} == set(apply)
    assert {"made", "accepted", "refused", "in_doubt", "already_settled"} <= set(apply["events"])
    assert {"made", "sent", "retried", "split"} == set(apply["batches"])
    assert {"match", "missing", "extra", "duplicated", "different"} == set(verify["cells"])
    assert {"expected", "found", "missing", "extra"} <= set(verify["events"])
    assert (apply["balanced"], verify["proved"], verify["events"]["found"]) == (True, True, 20)
    assert apply["events"]["already_settled"] == 0


def test_standard_input_is_planned_and_moves_with_the_plan(call: Any, tmp_path: Path) -> None:
    """`-` reads stdin, which is kept in the plan directory and found there after the directory was moved."""
    source = export(tmp_path / "export", 10, files=1)
    with (source / "part-0.jsonl").open("rb") as stdin:
        assert Forked("plan", "-", *generic(), "-o", tmp_path / "plan", stdin=stdin).wait() == 0
    moved = (tmp_path / "plan").rename(tmp_path / "moved")
    assert call("rehearse", moved, "--json").json["verify"]["proved"] is True


def test_rejects_come_as_jsonl_csv_or_a_table_and_by_code(call: Any, tmp_path: Path) -> None:
    """One object per line with the documented fields, in the order of the rows, counted from 1; CSV has a header;
    --code selects one code; a code that no row has is a usage error that lists the codes that there are."""
    source, directory = export(tmp_path / "export", 3, files=1), tmp_path / "plan"
    add(source / "part-0.jsonl", b'{"event":"x",\n{"event":"y","timestamp":"2023-01-01T00:00:00Z"}\n')
    assert call("plan", source, *generic(), "-o", directory, "--max-rejects", "2").code == 0
    found = [json.loads(line) for line in call("rejects", directory, "--format", "jsonl").out.splitlines()]
    assert [list(one) for one in found] == [["part", "row", "offset", "stage", "code", "detail", "record"]] * 2
    assert [(one["row"], one["code"]) for one in found] == [(4, "bad_json"), (5, "missing_distinct_id")]
    rows = list(csv.reader(io.StringIO(call("rejects", directory, "--format", "csv", "--code", "bad_json").out)))
    assert [row[4] for row in rows] == ["code", "bad_json"]
    table = call("rejects", directory).out
    assert [code in table for code in ("bad_json", "missing_distinct_id")] == [True, True]
    said = call("rejects", directory, "--code", "nonsense")
    assert (said.code, said.out) == (2, "")
    assert "bad_json, missing_distinct_id" in said.two_lines[1]
    assert "did you mean 'bad_json'" in call("rejects", directory, "--code", "bad_jsn").two_lines[1]


def test_rows_that_are_left_out_for_another_one_are_listed_by_their_code(call: Any, tmp_path: Path) -> None:
    """The report shows `superseded`, so `rejects --code` accepts it: it lists each such row, and what differs in the
    first. A plan has only the number of rows that the mapping skips, and says so."""
    source = export(tmp_path / "export", 3, files=1)
    row = {"uuid": uuid(9), "event": "x", "distinct_id": "p", "timestamp": "2023-02-03T00:00:00Z"}
    add(source / "part-0.jsonl", "".join(json.dumps(row | {"n": n}) + "\n" for n in range(3)).encode())
    plan = "plan", source, *generic(), "-o", tmp_path / "plan", "--allow-key-conflicts", "--until", "2023-03-01"
    assert call(*plan).code == 0
    shown = call("rejects", tmp_path / "plan", "--code", "superseded")
    assert (shown.code, shown.out.startswith("2 rows left out, superseded: another version")) == (0, True)
    assert "they differ in" in shown.out
    found = call("rejects", tmp_path / "plan", "--code", "superseded", "--json").out.splitlines()
    assert {json.loads(line)["row"] for line in found} < {4, 5, 6}
    said = call("rejects", tmp_path / "plan", "--code", "outside_window")
    assert (said.code, said.two_lines[0].startswith("Error: 1 row with the code 'outside_window' is skipped")) == (
        2,
        True,
    )
    assert "superseded" in call("rejects", tmp_path / "plan", "--code", "nonsense").two_lines[1]


def test_the_table_of_rejects_shows_a_row_of_each_code(call: Any, tmp_path: Path) -> None:
    """The terminal has the table of the page; skipped rows have no example."""
    source = export(tmp_path / "export", 3, files=1)
    add(source / "part-0.jsonl", b'{"event":"x",\n')
    shown = call("plan", source, *generic(), "-o", tmp_path / "plan", "--until", "2023-03-01").out.splitlines()
    heads = [line.split() for line in shown]
    assert ["Skipped", "code", "what", "it", "means"] in heads
    assert "part-0.jsonl, row 4" in " ".join(" ".join(shown).split())


@pytest.mark.parametrize(
    ("to", "options", "told"),
    [
        ("file/plan", (), "cannot write"),
        ("plan", ("--as-of", "2999-01-01"), "--as-of 2999-01-01T00:00:00Z is in the future"),
        ("plan", ("--since", "2023-01-01", "--until", "2023-01-01"), "--since 2023-01-01T00:00:00Z is not before"),
        ("plan", ("--since", "2023-01-01", "--until", "2022-12-31"), "--since 2023-01-01T00:00:00Z is not before"),
    ],
)
def test_a_plan_that_cannot_be_made_as_asked_is_a_usage_error(
    call: Any, tmp_path: Path, to: str, options: tuple[str, ...], told: str
) -> None:
    """A directory below a file; an instant in the future, at which recent events, which are billed as live ones, would
    be old; a window that contains nothing."""
    (tmp_path / "file").touch()
    said = call("plan", export(tmp_path / "export", 3), *generic(), "-o", tmp_path / to, *options)
    assert said.code == 2
    assert told in said.two_lines[0]
    assert not (tmp_path / "plan").exists()


def test_a_mapping_is_recognised_when_none_is_named(call: Any, tmp_path: Path) -> None:
    """A Mixpanel export is planned with the mapping mixpanel; a survey of it is pure JSON as well."""
    said = call("plan", SAMPLES / "mixpanel", "--timezone", "America/New_York", "-o", tmp_path / "plan", "--json")
    assert (said.code, said.json["tool"]) == (0, "mixpanel")
    said = call("survey", SAMPLES / "mixpanel", "--json")
    assert (said.code, said.json["format"]) == (0, "backcast.survey/1")


def test_an_unrecognised_export_is_never_guessed(call: Any, tmp_path: Path) -> None:
    """For an export that looks like no known tool the error asks for -m; for one that two mappings recognise equally it
    names both. Nothing is written."""
    said = call("plan", export(tmp_path / "export", 3), "-o", tmp_path / "plan")
    assert said.code == 2
    assert "-m MAPPING" in said.two_lines[1]
    assert not (tmp_path / "plan" / "plan.json").exists()
    mixed = tmp_path / "mixed.jsonl"
    mixed.write_text((json.dumps(MIXPANEL | AMPLITUDE) + "\n") * 3, "utf-8")
    said = call("plan", mixed, "-o", tmp_path / "plan")
    assert said.code == 2
    assert [tool in said.two_lines[0] for tool in ("amplitude", "mixpanel")] == [True, True]


MIXPANEL = {"event": "a", "properties": {"time": 1600000000, "distinct_id": "u"}}
AMPLITUDE = {"event_type": "a", "event_time": "2021-01-01 00:00:00.000000", "device_id": "d"}


@pytest.mark.parametrize("content", [b"\n \n", gzip.compress(b"", mtime=0)])
def test_an_empty_export_is_not_a_success(call: Any, tmp_path: Path, content: bytes) -> None:
    """Every command that reads it says that it has no row, and why, with the exit code that `plan` has for it; a header
    does not count as a row."""
    empty = tmp_path / "empty.jsonl"
    empty.write_bytes(content)
    for command in (("survey", empty), ("mapping", "new", empty), ("plan", empty, "-o", tmp_path / "a")):
        said = call(*command)
        assert said.code == 4
        assert said.two_lines[0].startswith("Error: the export has no rows (empty.jsonl: not")
    said = call("survey", empty, "--json")
    assert (said.code, said.json["rows"]) == (4, 0)
    assert call("plan", empty, *generic(), "-o", tmp_path / "b").code == 4
    (tmp_path / "a.csv").write_text("event,time\n")
    said = call("survey", tmp_path / "a.csv")
    assert (said.code, said.two_lines[0]) == (4, "Error: the export has no rows")


def test_files_of_several_tools_are_named_one_by_one(call: Any, tmp_path: Path) -> None:
    """Each is listed with the tool that it looks like; they have to be planned separately."""
    folder = tmp_path / "mixed"
    folder.mkdir()
    for name, one in (("a", MIXPANEL), ("b", AMPLITUDE), ("c", {"order": 1})):
        (folder / f"{name}.jsonl").write_text(json.dumps(one) + "\n")
    said = call("plan", folder, "-o", tmp_path / "plan")
    assert said.code == 2
    for told in ("a.jsonl looks like mixpanel", "b.jsonl looks like amplitude", "c.jsonl looks like no known tool"):
        assert told in said.two_lines[0]
    assert "separately" in said.two_lines[1]
    (folder / "a.jsonl").unlink()
    (folder / "c.jsonl").write_text('{"value": "x", "_dlt_parent_id": "p", "_dlt_list_idx": 0, "_dlt_id": "i"}\n')
    said = call("plan", folder, "-o", tmp_path / "plan")
    assert "c.jsonl looks like a child table of dlt's" in said.two_lines[0]
    assert "leave them out" in said.two_lines[1]
