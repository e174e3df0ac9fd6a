"""`apply --to file:DIR` writes the files that the service's own importer reads: each planned event once, durably."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.encoder.encoded import spell_lines
from pipeline.errors import Differences, Unfinished, UnsafePlan, UsageError
from pipeline.options import ApplyOptions, PlanOptions, VerifyOptions
from tests.support.commands import Printed
from tests.support.crashes import copied, die_writing, write_files
from tests.support.deliveries import COLUMNS, Identity, identities, planned, row
from tests.support.file_size_limit import file_size_limit
from tests.support.stores import Bucket, a_bucket, a_store_that_fails, a_store_that_replaces

ROWS = 90


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A plan with merges, and the files that were written from a copy of it."""
    folder = tmp_path_factory.mktemp("whole")
    plan = planned(folder, ROWS, batch=10, links=True, dialect="posthog")
    (folder / "written").mkdir()
    write_files(copied(plan, folder / "written"), folder / "written" / "out")
    return plan, folder / "written" / "out"


def lines_of(folder: Path, pattern: str = "*/*.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(folder.glob(pattern)) for line in path.read_bytes().splitlines()]


def content(folder: Path) -> dict[str, bytes]:
    """All files but the empty lock file."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def written(tmp_path: Path, rows: int = 30, *, merges: int | None = None) -> tuple[Path, Path]:
    plan = planned(tmp_path, rows, dialect="posthog", links=merges is not None)
    pipeline.apply_plan(plan, f"file:{tmp_path / 'out'}", ApplyOptions(approve_merges=merges))
    return plan, tmp_path / "out"


def verify(plan: Path, folder: Path, **asked: Any) -> Any:
    return pipeline.verify_plan(plan, f"file:{folder}", VerifyOptions(**asked))


def test_every_planned_event_is_one_line_with_the_fields_of_the_importer(tmp_path: Path) -> None:
    """event, distinct_id, properties, timestamp and uuid, in the documented order."""
    _, folder = written(tmp_path)
    lines = lines_of(folder, "3-events/*.jsonl")
    assert {tuple(line) for line in lines} == {("event", "distinct_id", "properties", "timestamp", "uuid")}
    found: set[Identity] = {
        (line["uuid"], line["event"], line["distinct_id"], line["timestamp"].removesuffix("Z") + ".000000Z")
        for line in lines
    }
    assert len(lines) == 30
    assert found == identities(30)
    assert {line["properties"]["number"] for line in lines} == set(range(30))
    assert all("distinct_id" not in line["properties"] for line in lines)


def test_the_manifest_counts_and_digests_each_file_and_all(whole: tuple[Path, Path]) -> None:
    """The digest of all files is that of the output of sha256sum; each phase has its own folder, in their order."""
    _, folder = whole
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    paths = [file["path"] for file in manifest["files"]]
    assert paths == sorted(str(path.relative_to(folder)) for path in folder.glob("*/*"))
    assert {path.split("/")[0] for path in paths} == {"1-identities", "3-events"}
    assert paths.count("3-events/00001.jsonl") == 1
    assert "3-events/00003.jsonl" in paths
    for file in manifest["files"]:
        text = (folder / file["path"]).read_bytes()
        assert (file["bytes"], file["events"]) == (len(text), text.count(b"\n"))
        assert file["sha256"] == hashlib.sha256(text).hexdigest()
        assert len(text) <= 6_000
    printed = subprocess.run(["sha256sum", *paths], cwd=folder, capture_output=True, check=True).stdout
    assert manifest["sha256"] == hashlib.sha256(printed).hexdigest()
    assert manifest["events"] == len(lines_of(folder)) == ROWS + 7
    assert manifest["complete"]


def test_a_run_killed_at_any_step_of_writing_is_finished_by_the_next(whole: tuple[Path, Path], tmp_path: Path) -> None:
    """Killed before and after each kind of step once: the files are byte for byte those of a run that was not
    killed."""
    plan, files = whole
    (tmp_path / "counted").mkdir()
    names = write_files(copied(plan, tmp_path / "counted"), tmp_path / "counted" / "out")
    for name in ("before sync", "after sync", "before rename", "after rename"):
        number = len(names) - 1 - names[::-1].index(name)
        assert content(die_writing(plan, tmp_path / str(number), number)) == content(files), name


def bucket_content(bucket: Bucket) -> dict[str, bytes]:
    """All objects; the manifest without the name of its writer."""
    objects = bucket.objects()
    manifest = json.loads(objects["manifest.json"])
    assert len(manifest.pop("writer")) == 32
    return objects | {"manifest.json": json.dumps(manifest).encode()}


def test_a_run_killed_at_any_step_of_writing_to_a_bucket_is_finished_by_the_next(
    whole: tuple[Path, Path], tmp_path: Path
) -> None:
    """The objects are the files of a run to a folder, and only the manifest is left on this machine."""
    plan, files = whole
    expected = content(files)
    expected["manifest.json"] = json.dumps(json.loads(expected["manifest.json"])).encode()
    (tmp_path / "counted").mkdir()
    with a_bucket() as bucket:
        names = write_files(copied(plan, tmp_path / "counted"), tmp_path / "none", bucket=bucket.url)
        assert bucket_content(bucket) == expected
    for number in map(names.index, ("before create", "after create", "after upload", "after write")):
        with a_bucket() as bucket:
            die_writing(plan, tmp_path / str(number), number, bucket.url)
            assert bucket_content(bucket) == expected, names[number]
        left = [path.name for path in (tmp_path / str(number) / "copy").glob("files-*/**/*") if path.is_file()]
        assert sorted(left) == ["manifest.json", "manifest.json.lock"], names[number]


def test_a_bucket_is_written_by_one_plan_directory_only(tmp_path: Path) -> None:
    """A bucket with other objects, or with those of a copy of the plan, is refused; lost and changed objects are
    found."""
    plan = planned(tmp_path, 30, dialect="posthog")
    copy = copied(plan, tmp_path / "elsewhere")
    with a_bucket() as bucket:
        bucket.put("used/other.jsonl", b"")
        with pytest.raises(UsageError, match="used is not empty: it contains "):
            pipeline.apply_plan(plan, f"{bucket.url}/used", ApplyOptions())
        to = f"{bucket.url}/new/"
        pipeline.apply_plan(plan, to, ApplyOptions())
        pipeline.apply_plan(plan, to, ApplyOptions())
        with pytest.raises(UsageError, match="contains the files of another plan directory"):
            pipeline.apply_plan(copy, to, ApplyOptions())
        assert pipeline.verify_plan(plan, to, VerifyOptions()).proved
        text = bucket.objects()["new/3-events/00001.jsonl"]
        bucket.put("new/3-events/00001.jsonl", text.replace(b'"number":7', b'"number":9'))
        bucket.put("new/3-events/more.jsonl", text.splitlines(keepends=True)[0])
        assert pipeline.verify_plan(plan, to, VerifyOptions()).differs
        bucket.delete("new/3-events/00001.jsonl")
        with pytest.raises(UnsafePlan, match="changed after it was written"):
            pipeline.apply_plan(plan, to, ApplyOptions())


def test_a_bucket_that_refuses_or_fails_is_not_taken_for_changed_files(
    tmp_path: Path, call: Callable[..., Printed]
) -> None:
    """Nothing is restored or written elsewhere because of that: the message names the object and the cause."""
    plan = planned(tmp_path, 30, dialect="posthog")
    with a_bucket() as bucket:
        pipeline.apply_plan(plan, bucket.url, ApplyOptions())
        file = f"{bucket.url}/3-events/00001.jsonl"
        with a_store_that_fails("HeadObject", "00001.jsonl", 403, "AccessDenied"):
            applied, verified = (call(verb, plan, "--to", bucket.url) for verb in ("apply", "verify"))
        assert (applied.code, verified.code) == (2, 2)
        assert f"cannot use {bucket.url}" in applied.two_lines[0]
        assert f"AccessDenied: '{file}'" in applied.err
        assert f"the store refused: [Errno 13] AccessDenied: '{file}'" in verified.err
        assert "check what its credentials may do" in verified.two_lines[1]
        assert all("restore" not in printed.err for printed in (applied, verified))
        odd = ("HeadObject", "manifest.json"), ("HeadObject", "00001"), ("ListObjectsV2", "2-groups")
        for operation, part in odd:
            with a_store_that_fails(operation, part, 400, "Odd"):
                applied, verified = (call(verb, plan, "--to", bucket.url) for verb in ("apply", "verify"))
            assert verified.code == 3
            assert re.search(rf"the store of {bucket.url}/\S*{part}\S* did not answer as expected: .*Odd", verified.err)
            if operation == "HeadObject":
                assert (applied.code, f"the store of {bucket.url}/" in applied.two_lines[0]) == (6, True)


def test_a_bucket_that_cannot_be_claimed_gets_no_files(tmp_path: Path) -> None:
    """A bucket that does not exist, and one whose store replaced what another plan directory wrote, also in the next
    run."""
    plan = planned(tmp_path, 30, dialect="posthog")
    with a_bucket() as bucket:
        with pytest.raises(UsageError, match="the bucket of s3://no-such-bucket-anywhere/files does not exist"):
            pipeline.apply_plan(plan, "s3://no-such-bucket-anywhere/files", ApplyOptions())
        for _ in range(2):
            with a_store_that_replaces(), pytest.raises(UsageError, match="has no conditional writes"):
                pipeline.apply_plan(plan, f"{bucket.url}/files", ApplyOptions())
            assert list(bucket.objects()) == ["files/manifest.json"]


def test_what_a_kill_left_half_written_is_cut(tmp_path: Path) -> None:
    """Half a manifest, half a line of the file, and half a line of its record: the next run writes the same bytes as
    any other."""
    plan = planned(tmp_path, 60, dialect="posthog", batch=10)
    to = tmp_path / "out"
    to.mkdir()
    (to / "manifest.json.new").write_bytes(b'{"for')
    with pytest.raises(Unfinished):
        pipeline.apply_plan(plan, f"file:{to}", ApplyOptions(rate=100, max_duration=0.3))
    parts = list(to.glob("3-events/*.part"))
    assert len(parts) == 1
    assert 0 < parts[0].read_bytes().count(b"\n") < 60
    for path in (*parts, to / "writing.jsonl"):
        with path.open("ab") as file:
            file.write(b'{"event":"ha')
    pipeline.apply_plan(plan, f"file:{to}", ApplyOptions())
    assert [line["uuid"] for line in lines_of(to)] == [line["uuid"] for line in lines_of(to, "3-events/00001.jsonl")]
    assert len(lines_of(to)) == len({line["uuid"] for line in lines_of(to)}) == 60
    assert verify(plan, to).proved


def test_verify_compares_the_files_with_the_plan(whole: tuple[Path, Path], tmp_path: Path) -> None:
    """A lost file, a repeated line, another value and another byte are each found."""
    plan, folder = written(tmp_path, merges=7)
    file = folder / "3-events" / "00001.jsonl"
    text = file.read_bytes()

    file.unlink()
    lost = verify(plan, folder)
    assert lost.events.missing == 30

    file.write_bytes(text + text.splitlines(keepends=True)[0])
    with pytest.raises(Differences, match="its digest differs"):
        verify(plan, folder)

    file.write_bytes(text.replace(b'"number":12,', b'"number":99,'))
    altered = verify(plan, folder, fields="all")
    assert [one.changed for one in altered.differences] == [["number"]]

    file.write_bytes(text.replace(b'{"event":"Step 0"', b'{"event" :"Step 0"', 1))
    with pytest.raises(Differences, match="its digest differs"):
        verify(plan, folder)

    file.write_bytes(text)
    (folder / "3-events" / "more.jsonl").write_bytes(b"no event\n")
    with pytest.raises(Differences, match=r"does not belong to the plan.* 1 more"):
        verify(plan, folder)


def test_a_folder_is_written_by_one_plan_only(tmp_path: Path) -> None:
    """A folder with other files, or with those of another plan, is refused before anything is written."""
    plan, folder = written(tmp_path / "one")
    other = planned(tmp_path / "two", 20, dialect="posthog")
    with pytest.raises(UsageError, match="files of another plan"):
        pipeline.apply_plan(other, f"file:{folder}")
    with pytest.raises(UsageError, match="is not empty: it contains cells"):
        pipeline.apply_plan(other, f"file:{plan}")


def test_files_and_ledger_have_to_agree(tmp_path: Path) -> None:
    """Files that were lost do not count as written, and a lost ledger does not write them twice."""
    plan, folder = written(tmp_path)
    file = folder / "3-events" / "00001.jsonl"
    text = file.read_bytes()
    file.write_bytes(text[:-20])
    with pytest.raises(UnsafePlan, match="changed after it was written"):
        pipeline.apply_plan(plan, f"file:{folder}")
    file.write_bytes(text)
    for name in ("manifest.json", "3-events/00001.jsonl"):
        (folder / name).unlink()
    (folder / "3-events").rmdir()
    with pytest.raises(UnsafePlan, match="contains 0 events, but the ledger says that the plan wrote 30"):
        pipeline.apply_plan(plan, f"file:{folder}")


def test_a_line_break_between_the_tokens_of_a_value_does_not_break_a_line(tmp_path: Path) -> None:
    """A value that the mapping does not touch keeps its white space; a line of a file cannot keep all of it."""
    source = tmp_path / "rows.jsonl"
    text = "".join(json.dumps(row(number) | {"list": [1, {"a": "x\ny"}]}) + "\n" for number in range(3))
    source.write_text(text.replace("[1, ", "[1,\r"), "utf-8", newline="")
    event = b'{"event":"a","properties":{"distinct_id":"b","list":[1,\n2]},"timestamp":"c","uuid":"d"}'
    assert b"\n" not in spell_lines([event])[0]
    pipeline.plan_export(source, tmp_path / "plan", PlanOptions(mapping="generic", settings=COLUMNS, dialect="posthog"))
    pipeline.apply_plan(tmp_path / "plan", f"file:{tmp_path / 'out'}")
    lines = lines_of(tmp_path / "out")
    assert b"\r" not in (tmp_path / "out/3-events/00001.jsonl").read_bytes()
    assert [line["properties"]["list"] for line in lines] == [[1, {"a": "x\ny"}]] * 3
    assert verify(tmp_path / "plan", tmp_path / "out", fields="all").proved


def test_a_disk_that_is_full_stops_the_run_and_loses_nothing(tmp_path: Path) -> None:
    """A limit on the size of files simulates it: exit 6, and the next run writes the rest."""
    plan = planned(tmp_path, 1_500, batch=100, dialect="posthog")
    with file_size_limit(200_000), pytest.raises(Unfinished, match="cannot write to"):
        pipeline.apply_plan(plan, f"file:{tmp_path / 'out'}", ApplyOptions())
    pipeline.apply_plan(plan, f"file:{tmp_path / 'out'}", ApplyOptions())
    uuids = [line["uuid"] for line in lines_of(tmp_path / "out")]
    assert len(uuids) == len(set(uuids)) == 1_500


def test_the_command_needs_no_key_and_asks_nothing(
    call: Callable[..., Printed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state is "written", its next step is to verify, and after that to import folder by folder."""
    monkeypatch.delenv("BACKCAST_PROJECT_KEY")
    plan = planned(tmp_path, 30, links=True, target="us")
    to = f"file:{tmp_path / 'out'}"
    refused = call("apply", plan, "--to", to)
    assert (refused.code, refused.two_lines[0].endswith("were not approved; nothing was sent")) == (4, True)
    assert not (tmp_path / "out").exists()
    done = call("apply", plan, "--to", to, "--approve-merges", 7)
    assert (done.code, done.out.splitlines()[0]) == (0, "State: written")
    assert f"backcast verify {plan} --to {to}" in done.out
    assert "warning: order: lines cannot carry an order between ids" in done.err
    assert call("apply", plan, "--to", to, "--dry-run").code == 0
    proved = call("verify", plan, "--to", to)
    assert (proved.code, proved.out.splitlines()[0]) == (0, "State: written and verified")
    assert "one after the other" in " ".join(proved.out.split())
    known = call("preflight", plan, "--to", to, "--json")
    levels = {check["name"]: check["level"] for check in known.json["checks"]}
    assert (known.code, levels["order"], levels["merges"], levels["again"]) == (0, "warning", "warning", "warning")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["s3://"], "names no bucket"),
        (["s3://bucket/*"], "is not a prefix in a bucket"),
        (["ftp://host/prefix"], "is not a target"),
        (["file:"], "does not name a folder"),
        (["file://host/out"], "is not a folder on this machine"),
        (["file:out", "--canary"], "--canary reads events back from a service"),
        (["file:out", "--require-canary"], "--require-canary reads events back"),
        (["file:out", "--transport", "v1"], "--transport v1 applies only when sending to a service"),
    ],
)
def test_what_is_asked_of_a_service_is_refused(
    call: Callable[..., Printed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    """A bucket, a folder elsewhere and a canary are errors before anything is written."""
    monkeypatch.chdir(tmp_path)
    done = call("apply", planned(tmp_path, 10, dialect="posthog"), "--to", *words)
    assert (done.code, said in done.two_lines[0]) == (2, True), done.err
    assert not (tmp_path / "out").exists()


def test_a_plan_of_the_other_spelling_is_refused(call: Callable[..., Printed], tmp_path: Path) -> None:
    """The importer passes events on as they are, so they need the spelling that the service acts on."""
    plan = planned(tmp_path, 10)
    done = call("apply", plan, "--to", f"file:{tmp_path / 'out'}")
    assert (done.code, "dialect 'contract'" in done.two_lines[0]) == (4, True)
    again = planned(tmp_path / "again", 10, target=f"file:{tmp_path / 'out'}")
    assert call("apply", again, "--to", f"file:{tmp_path / 'out'}").code == 0
    repaired = call("verify", again, "--to", f"file:{tmp_path / 'out'}", "--repair")
    assert (repaired.code, "--repair works for a service, not for files" in repaired.two_lines[0]) == (2, True)
