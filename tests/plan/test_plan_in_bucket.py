"""A plan directory in a bucket: the same job as with one on a disk, and what people find there afterwards."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import pipeline
from pipeline.errors import UsageError
from pipeline.options import ApplyOptions, DiscardOptions, RehearseOptions, VerifyOptions
from pipeline.plan.sealed.freshness import open_plan
from tests.support.commands import generic
from tests.support.deliveries import KEY, export, identities
from tests.support.jobs import KEYS
from tests.support.published import OPTIONS, counting_plan, files_in, on
from tests.support.services import running
from tests.support.stores import SECRET, Bucket
from tests.support.verification import PERSONAL, Sent, empty

APPLY = ApplyOptions()


def test_the_whole_job_is_that_of_a_directory_on_a_disk(bucket: Bucket, tmp_path: Path) -> None:
    """Plan, rehearse, apply, verify and status: the same plan byte for byte, the same events, the same states."""
    source, url = export(tmp_path / "export", 60), f"{bucket.url}/plans/my june/"
    pipeline.plan_export(source, tmp_path / "plan", OPTIONS)
    pipeline.plan_export(source, url, OPTIONS)
    assert pipeline.plan_status(url).state == "ready"
    assert pipeline.rehearse_plan(url, RehearseOptions()).verification.proved
    assert pipeline.plan_status(url).state == "rehearsed"
    one = Sent(Path(url), empty())
    assert pipeline.apply_plan(url, one.room.url, APPLY, project_key=one.room.key()).balanced
    assert pipeline.plan_status(url).state == "sent"
    options = VerifyOptions(project=str(one.room.project))
    verified = pipeline.verify_plan(url, one.room.url, options, personal_key=PERSONAL, project_key=one.room.key())
    assert (verified.proved, pipeline.plan_status(url).state) == (True, "verified")
    assert one.landed() == identities(60)
    published = counting_plan(bucket, "plans/my june")[1]
    sealed = {name: content for name, content in published.items() if "report" not in name}
    assert files_in(open_plan(url)[1].path) == sealed == files_in(tmp_path / "plan")


def test_commands_name_the_url_and_no_file_has_the_credentials(bucket: Bucket, tmp_path: Path, call: Any) -> None:
    """Printed commands can be typed again; working copies are only for their owner; the bucket has no ledger."""
    source, url = export(tmp_path / "export", 20), f"{bucket.url}/june"
    planned = call("plan", source, "-o", f"{url}/", *generic(), "--workers", "0")
    assert planned.code == 0
    assert f"backcast rehearse {url}\n" in planned.out
    with running(KEYS) as service:
        for command in (("rehearse", url), ("apply", url, "--to", service.url)):
            assert call(*command).code == 0
        assert call("receipt", "write", url).code == 0
        assert call("undo-list", url).code == 0
        assert f"States are those at {service.url}" in call("explain", url, "part-0.jsonl:1").out
    assert call("status", url, "--json").json["state"] == "sent"
    assert not [key for key in bucket.objects() if "ledger" in key or "sqlite" in key]
    here = [one for one in (tmp_path / "machine").rglob("*") if one.is_file()]
    assert len(here) > 20
    for file in here:
        assert SECRET.encode() not in file.read_bytes(), file
        assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0, file
    for key, content in bucket.objects().items():
        assert SECRET.encode() not in content, key


def test_a_reader_of_the_bucket_sees_the_current_state(url: str, bucket: Bucket, tmp_path: Path) -> None:
    """Report, receipt and undo list are copied there after each step, and another machine downloads what changed."""

    def state() -> str:
        return str(json.loads(counting_plan(bucket, "june")[1]["report.json"])["state"])

    with on(tmp_path / "another"):
        assert pipeline.plan_status(url).state == "ready"
    pipeline.rehearse_plan(url, RehearseOptions())
    assert state() == "rehearsed"
    with on(tmp_path / "another"):
        assert pipeline.plan_status(url).state == "rehearsed"
    for one in (tmp_path / "another").rglob("*"):
        assert stat.S_IMODE(one.stat().st_mode) & 0o077 == 0, one
    with running(KEYS) as service:
        pipeline.apply_plan(url, service.url, APPLY, project_key=KEY)
        assert state() == "sent"
        pipeline.write_receipt(url)
        pipeline.list_sent(url)
    names = counting_plan(bucket, "june")[1]
    assert {"receipt.json", "report.html", "undo-list/uuids.txt"} <= names.keys()


@pytest.mark.parametrize("lost", ["objects", "store"])
def test_a_bucket_that_is_lost_on_the_way_does_not_change_what_was_sent(
    lost: str, url: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copying the report fails with a warning that says where it is; the run's own result is kept."""
    import fsspec

    warnings: list[str] = []

    def lose(counts: object) -> None:
        if lost == "objects":
            for key in bucket.objects():
                bucket.delete(key)
        else:
            monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
            monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
            fsspec.filesystem("s3").clear_instance_cache()

    with running(KEYS) as service:
        outcome = pipeline.apply_plan(url, service.url, APPLY, project_key=KEY, progress=lose, warn=warnings.append)
        assert outcome.balanced
        assert service.count() == 20
    fsspec.filesystem("s3").clear_instance_cache()
    assert len(warnings) == 1
    assert "the results are only in" in warnings[0]


@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_a_damaged_object_is_refused(damage: str, url: str, bucket: Bucket, tmp_path: Path, call: Any) -> None:
    """Before anything of it is read: exit 4, with the object's URL."""
    key = f"june/{counting_plan(bucket, 'june')[0]['folder']}/requests.jsonl"
    if damage == "changed":
        bucket.put(key, b"{}")
    else:
        bucket.delete(key)
    with on(tmp_path / "another"), running(KEYS) as service:
        printed = call("apply", url, "--to", service.url)
        assert service.count() == 0
    assert printed.code == 4
    error, hint = printed.two_lines
    assert f"{bucket.url}/{key} " in error
    assert "restore the object" in hint


def test_a_working_copy_that_was_damaged_is_brought_again(url: str) -> None:
    """A file of another size, another plan.json, and a missing file are downloaded; the rest is not."""
    folder = open_plan(url)[1].path
    before, untouched = files_in(folder), (folder / "cells.jsonl").stat().st_ino
    (folder / "plan.json").write_bytes(b"{" * len(before["plan.json"]))
    assert files_in(open_plan(url)[1].path) == before
    (folder / "requests.jsonl").unlink()
    (folder / "identities.jsonl").write_bytes(b"{}\n")
    assert files_in(open_plan(url)[1].path) == before
    assert (folder / "cells.jsonl").stat().st_ino == untouched


def test_a_url_that_cannot_have_a_plan_says_why(bucket: Bucket) -> None:
    """No message repeats what may be a credential."""
    for url, message in (
        ("s3://user:secret@BUCKET/june", "contains a user, a password"),
        ("s3://BUCKET/june?X-Amz-Signature=secret", "contains a user, a password"),
        ("s3://BUCKET/june?secret", r"must not contain \? or #"), ("s3://BUCKET/jun*", "is a pattern"),
        ("s3://", "names no bucket"), ("https://host/june", "backcast cannot read from"),
        ("s3://BUCKET/none", "contains no plan that backcast published"),
        ("s3://no-such-bucket-anywhere/june", "contains no plan that backcast published"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=message) as raised:
            pipeline.plan_status(url.replace("BUCKET", bucket.name))
        assert "secret" not in str(raised.value)


def test_the_state_of_a_job_is_refused_in_a_bucket(bucket: Bucket, tmp_path: Path, call: Any) -> None:
    """With the reason, and with the place in the job file."""
    lines = (
        "job: nightly", "source: x/{date:%Y/%m/%d}/*.jsonl", "mapping: generic", "window: day", "from: 2023-01-01",
        "to: us", "persons: {properties: none}", "merges: hold", f"state: {bucket.url}/state",
    )  # fmt: skip
    (tmp_path / "job.yaml").write_text("\n".join(lines), "utf-8")
    printed = call("run", tmp_path / "job.yaml")
    assert printed.code == 2
    assert "the state of a job must be on a disk" in printed.two_lines[0]
    assert "job.yaml:9:8" in printed.two_lines[0]


def test_earlier_and_replayed_plans_are_named_by_their_urls(bucket: Bucket, tmp_path: Path, call: Any) -> None:
    """--earlier and --replay read the plan and its ledger from the working copy, and diff compares two URLs."""
    source, url = export(tmp_path / "export", 20), f"{bucket.url}/june"
    words = ["plan", source, *generic(), "--workers", "0", "--as-of", "2024-06-01T00:00:00Z"]
    assert call(*words, "-o", url).code == 0
    assert call(*words, "-o", f"{bucket.url}/july", "--earlier", f"{url}/").code == 0
    assert call("diff", url, f"{bucket.url}/july").code == 0
    replayed = call(*words, "-o", f"{bucket.url}/again", "--replay", url)
    assert replayed.code == 4
    assert f"20 events of {url} are not sent yet" in replayed.two_lines[0]


def test_events_of_a_plan_are_discarded_in_the_bucket_and_in_every_copy(
    url: str, bucket: Bucket, tmp_path: Path, call: Any
) -> None:
    """A run that was stopped between the publication and the removal is finished; another machine removes its copy."""
    with on(tmp_path / "another"):
        other = open_plan(url)[1]
    one = Sent(Path(url), empty())
    pipeline.apply_plan(url, one.room.url, APPLY, project_key=one.room.key())
    options = VerifyOptions(project=str(one.room.project))
    assert pipeline.verify_plan(url, one.room.url, options, personal_key=PERSONAL).proved
    with on(tmp_path / "another"):
        assert "its ledger is not here" in call("discard", url, "--yes").err
    with patch("pipeline.storage.remove", side_effect=OSError("stopped")), pytest.raises(OSError, match="stopped"):
        pipeline.discard_plan(url)
    assert any("requests" in name for name in counting_plan(bucket, "june")[1])
    assert call("discard", url).code == 0
    names = set(counting_plan(bucket, "june")[1])
    assert names == {"plan.json", "cells.jsonl", "drift.jsonl", "report.json", "report.html"}
    assert call("status", url, "--json").json["state"] == "verified"
    assert "were discarded at" in call("apply", url, "--to", one.room.url).err
    with on(tmp_path / "another"):
        assert "were discarded at" in call("rehearse", url).err
    assert not other.facts.exists()


def test_a_plan_that_is_published_again_is_no_longer_discarded(url: str, tmp_path: Path) -> None:
    """Another machine made the same plan again, with the same digest; an older copy gets its events."""
    copy = open_plan(url)[1]
    pipeline.discard_plan(url, DiscardOptions(unsent=True))
    with on(tmp_path / "another"):
        pipeline.plan_export(tmp_path / "export", url, OPTIONS)
    assert open_plan(url)[1] == copy
    assert copy.facts.exists()
