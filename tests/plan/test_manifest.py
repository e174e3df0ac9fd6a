"""A sealed plan is read back as it was, recognises its own files, and notices every change."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Callable
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from pipeline.errors import Busy, UnsafePlan, UsageError
from pipeline.models import SealedOptions
from pipeline.options import Limits
from pipeline.plan.earlier import left_out, plans_beside
from pipeline.plan.requests.store import digest_of_requests, read_events
from pipeline.plan.sealed.directory import EVENTS, BytesWriter, Directory, LinesWriter, read_lines
from pipeline.plan.sealed.manifest import EventCounts, Plan, RowCounts, load, save, seal
from pipeline.transform.tasks import TransformConfig
from tests.support import tiny_tool as tiny
from tests.support.tiny_tool import AS_OF, Made, make_plan, row, write


def planned(place: Path, *, name: str = "plan", **options: Any) -> Made:
    """A plan of two small files with a copy, a merge and a reject."""
    first = [row(key="k"), row(key="k"), {"id": "u-1", "link": "d-1"}, row()]
    second = [row(id="", key="j"), row("Left", key="l")]
    folder = place / "export"
    if not folder.exists():
        write(folder / "a.jsonl", first)
        write(folder / "b.jsonl", second)
    return make_plan(place / name, [folder], **options)


def test_a_plan_is_read_back_as_it_was_sealed(tmp_path: Path) -> None:
    """Every field, exactly, under its documented name; white space and the order of members do not matter."""
    made = planned(tmp_path, settings={"source": "eu"}, zones=(("UTC", ""), ("Asia/Kolkata", "2021-03-01")), since=5)
    again = seal(made.plan)
    save(made.directory, again)
    assert load(made.directory) == again == made.plan
    text = json.loads(made.directory.plan.read_text())
    assert (text["format"], text["digest"], text["verdict"]) == ("backcast.plan/2", made.plan.digest, "warnings")
    assert text["rows"] == {"read": 6, "mapped": 4, "skipped": 1, "rejected": 1}
    assert text["events"] == {"made": 4, "phases": {"identities": 1, "groups": 0, "events": 3, "persons": 0}}
    made.directory.plan.write_text(json.dumps(text, sort_keys=True))
    assert load(made.directory) == made.plan
    assert list(made.plan.files) == sorted(made.plan.files)  # whichever of them was there first


def test_the_config_of_an_apply_equals_the_config_of_the_plan(tmp_path: Path) -> None:
    """Options, limits and parts: everything that decides the events is in the sealed file."""
    made = planned(tmp_path, limits=Limits(7, 1_000_000, 900_000), excluded=["x"])
    sealed = made.config()
    limits = Limits(7, 1_000_000, 900_000)
    assert sealed == TransformConfig(
        tiny.TinyCompile(), SealedOptions(as_of=AS_OF), limits, sealed.parts, frozenset({"x"})
    )
    assert [(part.index, bool(part.digest)) for part in sealed.parts] == [(0, True), (1, True)]


CHANGES: list[Callable[[dict[str, Any]], object]] = [
    lambda plan: plan.update(verdict="ready"),
    lambda plan: plan["gates"].clear(),
    lambda plan: plan["options"].update(as_of=AS_OF + 1),
    lambda plan: plan["options"].update(provenance=False),
    lambda plan: plan["mapping"].update(text="other"),
    lambda plan: plan["parts"][0].update(digest="0" * 64),
    lambda plan: plan["rows"].update(rejected=0),
    lambda plan: plan["events"]["phases"].update(events=1),
    lambda plan: plan["files"].update({"requests.jsonl": "0" * 64}),
    lambda plan: plan["limits"].update(batch_events=1),
    lambda plan: plan["parts"].reverse(),
    lambda plan: plan.update(digest="0" * 64),
    lambda plan: plan.update(seal="0" * 64),
]


def test_a_plan_that_was_edited_is_refused(tmp_path: Path) -> None:
    """A plan is made again, never corrected by hand."""
    made = planned(tmp_path, allowed=tiny.CountLimit(0))
    whole = made.directory.plan.read_text()
    for change in CHANGES:
        text = json.loads(whole)
        change(text)
        made.directory.plan.write_text(json.dumps(text))
        with pytest.raises(UnsafePlan, match="was changed after it was sealed") as caught:
            load(made.directory)
        assert caught.value.exit_code == 4


def test_anything_but_a_plan_is_refused(tmp_path: Path) -> None:
    """Half a file and anything else under that name are damaged; another format is named whatever else the file has; a
    directory without a plan says how to make one."""
    with pytest.raises(UsageError, match=r"contains no plan\.json") as caught:
        load(Directory(tmp_path))
    assert "backcast plan" in caught.value.hint
    another, damaged = r"has format backcast.plan/\d; this version reads backcast.plan/2", "is damaged: "
    for content, message, hint in (
        (b"", damaged, "restore it"), (b"{", damaged, "restore it"), (b"[]", damaged, "restore it"),
        (b"\xff", damaged, "restore it"), (b'{"format": "backcast.plan/2"}', damaged, "restore it"),
        (b'{"format": "backcast.plan/1"}', another, "plan again"),
        (b'{"format": "backcast.plan/9", "rows": 5}', another, "plan again"),
    ):  # fmt: skip
        (tmp_path / "plan.json").write_bytes(content)
        with pytest.raises(UnsafePlan, match=message) as refused:
            load(Directory(tmp_path))
        assert refused.value.hint.startswith(hint)


def test_a_neighbouring_plan_of_another_version_is_not_ignored(tmp_path: Path) -> None:
    """It was sent to the same target, and its merges must be neither repeated nor contradicted."""
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "ledger.sqlite").touch()
    (tmp_path / "old" / "plan.json").write_text('{"format": "backcast.plan/1", "target": "us"}')
    assert plans_beside(Directory(tmp_path / "new"), "eu") == []
    with pytest.raises(UnsafePlan, match=r"has format backcast\.plan/1, and this version reads backcast\.plan/2"):
        left_out(plans_beside(Directory(tmp_path / "new"), "us"))


def test_the_digest_does_not_depend_on_where_files_lie_nor_on_their_time(tmp_path: Path) -> None:
    """Two people who plan the same export in the same way have the same plan."""
    made = planned(tmp_path / "here")
    shutil.copytree(tmp_path / "here" / "export", tmp_path / "there" / "export")
    os.utime(tmp_path / "there" / "export" / "a.jsonl", ns=(1, 1))
    moved = planned(tmp_path / "there", name="other-plan")
    assert moved.plan.digest == made.plan.digest
    elsewhere = msgspec.structs.replace(made.plan.mapping, name="some/where/tiny")
    assert seal(replace(made.plan, mapping=elsewhere)).digest == made.plan.digest


def test_the_digest_is_of_the_events_and_not_of_how_they_are_deflated(tmp_path: Path) -> None:
    """ISA-L writes other bytes on another processor. The seal is of those bytes, and changes with them."""
    made = planned(tmp_path, limits=Limits(2, 1_000_000, 900_000))
    requests = [*read_events(made.directory, "identities"), *read_events(made.directory, EVENTS)]
    assert [request.sha256 for request, _ in requests] == [
        sha256(b",".join(events)).hexdigest() for _, events in requests
    ]

    def deflated_otherwise(change: Callable[[bytes], bytes]) -> Plan:
        files = dict(made.plan.files)
        with LinesWriter(made.directory.requests) as index:
            for name, of_file in groupby(requests, key=lambda one: one.request.file):
                with BytesWriter(made.directory.path / name) as pack:
                    for request, events in of_file:
                        text = change(b",".join(events))
                        stream = zlib.compressobj(9, zlib.DEFLATED, -15)
                        data = stream.compress(text) + stream.flush(zlib.Z_FULL_FLUSH)
                        offset, length = pack.write_bytes(data)
                        hashed = sha256(text).hexdigest()
                        index.write(replace(request, offset=offset, length=length, sha256=hashed))
                    files[name] = pack.close()
            files["requests.jsonl"] = index.close()
        return seal(replace(made.plan, files=files, requests=digest_of_requests(made.directory)))

    again = deflated_otherwise(lambda text: text)
    assert (again.digest, again.requests) == (made.plan.digest, made.plan.requests)
    assert again.seal != made.plan.seal
    assert deflated_otherwise(lambda text: text.replace(b"Seen", b"Sean")).digest != made.plan.digest


def test_the_digest_depends_on_what_would_be_sent(tmp_path: Path) -> None:
    """An option, an instant, or one byte of the export changes it."""
    made = planned(tmp_path)
    asked: list[dict[str, Any]] = [{}, {"provenance": False}, {"as_of": AS_OF + 1}]
    plans = [planned(tmp_path, name=f"p{number}", **options).plan for number, options in enumerate(asked)]
    digests = {made.plan.digest, *(plan.digest for plan in plans)}
    assert len(digests) == 3
    (tmp_path / "export" / "b.jsonl").write_bytes((tmp_path / "export" / "b.jsonl").read_bytes() + b"\n")
    assert planned(tmp_path, name="p4").plan.digest not in digests


def test_a_plan_says_in_one_counted_line_what_it_would_do(tmp_path: Path) -> None:
    """Also if it has no merges, or nothing to send."""
    plan = planned(tmp_path).plan
    for phases, rows, expected in (
        (
            {"identities": 4_567, "events": 1_230_000}, RowCounts(1_300_000, 1_230_000, 60_000, 10_000),
            "Plan: 1,230,000 events and 4,567 merges to send, from 1,230,000 of 1,300,000 rows in 2 files;"
            " 60,000 skipped, 10,000 rejected.",
        ),
        (
            {"identities": 0, "events": 5}, RowCounts(5, 5, 0, 0),
            "Plan: 5 events to send, from 5 of 5 rows in 2 files; 0 skipped, 0 rejected.",
        ),
        (
            {"identities": 0, "events": 0}, RowCounts(7, 0, 4, 3),
            "Plan: nothing to send, from 0 of 7 rows in 2 files; 4 skipped, 3 rejected.",
        ),
    ):  # fmt: skip
        events = EventCounts(sum(phases.values()), phases)
        assert msgspec.structs.replace(plan, events=events, rows=rows, rejects={}).sentence == expected


def test_a_table_is_read_a_line_at_a_time(tmp_path: Path) -> None:
    """The first line is returned before the last one is written: nothing is read whole."""
    with LinesWriter(tmp_path / "lines") as writer:
        writer.write_all([1, 2, "no number"])
    lines = read_lines(tmp_path / "lines", int)
    assert [next(lines), next(lines)] == [1, 2]
    with pytest.raises(msgspec.ValidationError):
        next(lines)


def test_what_is_sent_is_what_was_planned_whatever_becomes_of_the_export(tmp_path: Path) -> None:
    """The export may be changed, moved or deleted."""
    made = planned(tmp_path)
    before = made.sent()
    path = tmp_path / "export" / "b.jsonl"
    path.write_bytes(path.read_bytes().replace(b"Left", b"Kept"))
    assert made.sent() == before
    shutil.rmtree(tmp_path / "export")
    assert made.sent() == before


def test_a_plan_that_was_applied_is_never_replaced(tmp_path: Path) -> None:
    """What was sent must stay provable, so nothing in the directory changes."""
    made = planned(tmp_path)
    made.directory.ledger.write_bytes(b"a ledger")
    before = {path: path.read_bytes() for path in made.directory.path.rglob("*") if path.is_file()}
    with pytest.raises(Busy, match="contains the ledger of a plan that was applied") as caught:
        planned(tmp_path, provenance=False)
    assert caught.value.exit_code == 2
    assert {path: path.read_bytes() for path in made.directory.path.rglob("*") if path.is_file()} == before
