"""Publishing a plan into a bucket: the old plan or the new one, whole, however it ends and whatever else is
published."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.errors import Busy, UsageError
from pipeline.options import ApplyOptions
from pipeline.plan.sealed.freshness import open_plan
from tests.support.crashes import ended, forked
from tests.support.deliveries import KEY, export
from tests.support.jobs import KEYS
from tests.support.published import OPTIONS, counting_plan, files_in, on, publish
from tests.support.services import running
from tests.support.stores import Bucket, a_store_that_replaces


def test_killed_at_any_step_it_leaves_the_old_plan_or_the_new_one(bucket: Bucket, tmp_path: Path) -> None:
    """For this machine and for another one; and the next plan removes what was left behind.

    Here just before the new plan begins to count and after that; `make soak` tries all.
    """

    def some(names: list[str]) -> list[int]:
        of_each = {name: number for number, name in enumerate(names)}
        return [of_each["before create"], of_each["before remove"]]

    killed_while_publishing(bucket, tmp_path, some)


def killed_while_publishing(bucket: Bucket, tmp_path: Path, choose: Callable[[list[str]], list[int]]) -> None:
    """Publish a plan over another one, killed at each of the chosen steps."""
    old, new = (export(tmp_path / name, rows) for name, rows in (("old", 12), ("new", 30)))
    expected = []
    for source in (old, new):
        pipeline.plan_export(source, tmp_path / f"plan-{source.name}", OPTIONS)
        expected.append(files_in(tmp_path / f"plan-{source.name}"))
    with on(tmp_path / "counted"):
        publish(old, f"{bucket.url}/counted", {})
        names = publish(new, f"{bucket.url}/counted", {})
    seen = []
    for number, at in enumerate(choose(names)):
        prefix, machine = f"p{number}", tmp_path / f"machine-{number}"
        url = f"{bucket.url}/{prefix}"
        with on(machine):
            publish(old, url, {})
            code = ended(forked(publish, new, url, dict(os.environ), at))
            assert code == -signal.SIGKILL, names[at]
            with on(tmp_path / f"another-{number}"):
                elsewhere = files_in(open_plan(url)[1].path)
            assert elsewhere in expected, names[at]
            assert files_in(open_plan(url)[1].path) == elsewhere, names[at]
            seen.append(expected.index(elsewhere))
            publish(new, url, {})
            assert files_in(open_plan(url)[1].path) == expected[1]
        says, files = counting_plan(bucket, prefix)
        keys = list(bucket.objects(f"{prefix}/"))
        assert {key.split("/")[1] for key in keys if key.count("/") > 1} == {says["folder"]}
        assert len(keys) == len(files) + 2, names[at]
    assert seen == sorted(seen)  # from one step on it is the new one
    assert set(seen) == {0, 1}


def test_of_two_that_plan_at_once_one_is_refused_and_the_other_is_whole(bucket: Bucket, tmp_path: Path) -> None:
    """The first to publish wins; the second says so, and leaves nothing behind."""
    first, second = (export(tmp_path / name, rows) for name, rows in (("first", 12), ("second", 30)))
    url, began = f"{bucket.url}/june", []

    def between(rows: int, length: int) -> None:
        if not began:
            began.append(rows)
            with on(tmp_path / "another"):
                pipeline.plan_export(first, url, OPTIONS)

    with pytest.raises(Busy, match="another plan was published in"):
        pipeline.plan_export(second, url, OPTIONS, progress=between)
    assert open_plan(url)[0].rows.read == 12
    says, files = counting_plan(bucket, "june")
    assert len(bucket.objects()) == len(files) + 2
    assert says["files"].keys() <= files.keys()


def test_a_plan_that_is_applied_while_another_one_is_made_stays(bucket: Bucket, tmp_path: Path) -> None:
    """Whichever claims it first; what was sent keeps its plan."""
    url, began = f"{bucket.url}/june", []
    pipeline.plan_export(export(tmp_path / "first", 12), url, OPTIONS)

    with running(KEYS) as service:

        def between(rows: int, length: int) -> None:
            if not began:
                began.append(rows)
                with on(tmp_path / "another"):
                    pipeline.apply_plan(url, service.url, ApplyOptions(), project_key=KEY)

        with pytest.raises(Busy, match="or the one there was applied"):
            pipeline.plan_export(export(tmp_path / "second", 30), url, OPTIONS, progress=between)
        assert service.count() == 12
    with on(tmp_path / "another"):
        assert pipeline.plan_status(url).state == "sent"


def test_a_plan_that_was_sent_is_never_planned_over(bucket: Bucket, tmp_path: Path) -> None:
    """From the machine that sent it, and from any other."""
    source, url = export(tmp_path / "export", 12), f"{bucket.url}/june"
    pipeline.plan_export(source, url, OPTIONS)
    with running(KEYS) as service:
        pipeline.apply_plan(url, service.url, ApplyOptions(), project_key=KEY)
        before = bucket.objects()
        for machine in ("machine", "another"):
            with on(tmp_path / machine), pytest.raises(Busy, match=f"was applied to {service.url}, from "):
                pipeline.plan_export(source, url, OPTIONS)
    assert bucket.objects() == before


def test_a_prefix_with_other_objects_is_refused(bucket: Bucket, tmp_path: Path) -> None:
    """They are named, and nothing is written; a bucket that does not exist is named before anything is read."""
    source = export(tmp_path / "export", 12)
    bucket.put("exports/2023/a.jsonl", b"{}\n")
    with pytest.raises(UsageError, match="has objects that backcast did not publish: 2023/"):
        pipeline.plan_export(source, f"{bucket.url}/exports", OPTIONS)
    assert list(bucket.objects()) == ["exports/2023/a.jsonl"]
    with pytest.raises(UsageError, match="the bucket of s3://no-such-bucket-anywhere/june does not exist"):
        pipeline.plan_export(source, "s3://no-such-bucket-anywhere/june", OPTIONS)


def test_a_store_that_does_not_answer_ends_with_exit_6(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Any
) -> None:
    """Two lines; they say that the same command is to be run again."""
    import fsspec

    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    fsspec.filesystem("s3").clear_instance_cache()
    printed = call("status", f"{bucket.url}/june")
    fsspec.filesystem("s3").clear_instance_cache()
    assert printed.code == 6
    assert "did not answer as expected: Could not connect" in printed.two_lines[0]
    assert "run the same command again" in printed.two_lines[1]


def test_a_store_that_replaces_what_is_there_is_refused(bucket: Bucket, tmp_path: Path) -> None:
    """If two publish there, both would believe that their plan won."""
    with a_store_that_replaces(), pytest.raises(UsageError, match="has no conditional writes") as raised:
        pipeline.plan_export(export(tmp_path / "export", 5), f"{bucket.url}/june", OPTIONS)
    assert "If-None-Match" in str(raised.value.hint)
    assert "a folder on this machine" in str(raised.value.hint)
    assert list(bucket.objects()) == ["june/plan.json"]
