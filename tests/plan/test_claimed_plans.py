"""A plan in a bucket is sent with one ledger: another machine, or one that lost the ledger, sends nothing."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.config import Secret
from pipeline.delivery.send import send_plan
from pipeline.errors import BrokenLedger, UsageError
from pipeline.local_service import LocalService
from pipeline.options import ApplyOptions, RehearseOptions
from pipeline.plan.sealed.freshness import open_plan
from tests.support.deliveries import KEY
from tests.support.jobs import KEYS
from tests.support.published import counting_plan, on
from tests.support.services import running
from tests.support.stores import Bucket, a_store_that_replaces

APPLY = ApplyOptions()


def copies(service: LocalService) -> int:
    """The events that the service accepted, with copies of the same event."""
    return len(service.select("select uuid from raw_events"))


def test_another_machine_is_refused_and_sends_nothing(url: str, bucket: Bucket, tmp_path: Path, call: Any) -> None:
    """Exit 4 with the machine, the folder and the target of the ledger; that machine resumes."""
    with running(KEYS) as service:
        assert call("apply", url, "--to", service.url).code == 0
        with on(tmp_path / "another"):
            for words in (("apply", url, "--to", service.url), ("status", url), ("rehearse", url), ("rejects", url)):
                printed = call(*words)
                assert printed.code == 4
                error, hint = printed.two_lines
                assert f"was applied to {service.url}" in error
                assert str(tmp_path / "machine") in error
                assert "published-000002.json" in hint
            assert call("diff", url, url).code == 0  # it does not need the ledger
        assert call("apply", url, "--to", service.url).code == 0
        assert copies(service) == 20
    assert b'"state": "sent"' in counting_plan(bucket, "june")[1]["report.json"]


def test_a_working_copy_that_was_moved_goes_on(url: str, tmp_path: Path, call: Any) -> None:
    """Moved to the folder in the message, it has the ledger, and another machine sends nothing twice."""
    with running(KEYS) as service:
        assert call("apply", url, "--to", service.url).code == 0
        with on(tmp_path / "another"):
            refused = call("apply", url, "--to", service.url)
            place = re.search(r"to (\S+) on this machine", refused.two_lines[1])
            assert place is not None
            shutil.copytree(Path(place[1].replace("another", "machine")), place[1], dirs_exist_ok=True)
            assert call("apply", url, "--to", service.url).code == 0
        assert copies(service) == 20


def test_a_lost_working_copy_is_noticed_and_removing_the_claim_is_the_way_to_send_again(
    url: str, bucket: Bucket, tmp_path: Path, call: Any
) -> None:
    """The machine that sent the plan is refused as well once its ledger is gone. After the one object that the message
    names was removed, another machine may claim the plan, and the first one may not."""
    with running(KEYS) as service:
        assert call("apply", url, "--to", service.url).code == 0
        shutil.rmtree(tmp_path / "machine")
        assert call("apply", url, "--to", service.url).code == 4
        assert copies(service) == 20
        bucket.delete("june/published-000002.json")
        with on(tmp_path / "another"):
            assert call("apply", url, "--to", service.url).code == 0
        assert call("apply", url, "--to", service.url).code == 4
        assert copies(service) == 40


def test_of_two_that_opened_it_before_either_sent_one_sends(url: str, tmp_path: Path) -> None:
    """The claim is made when a run begins to send, whatever was true when it opened the plan, also by the path of the
    working copy."""
    with running(KEYS) as service:
        with on(tmp_path / "another"):
            plan, folder = open_plan(url)
        pipeline.apply_plan(url, service.url, APPLY, project_key=KEY)
        with pytest.raises(BrokenLedger, match="is being sent with the ledger on"):
            send_plan(plan, folder, service.url, Secret(KEY), APPLY)
        with pytest.raises(BrokenLedger, match="is being sent with the ledger on"):
            pipeline.apply_plan(folder.path, service.url, APPLY, project_key=KEY)
        with on(tmp_path / "another"), pytest.raises(BrokenLedger, match="its ledger is not here"):
            pipeline.apply_plan(url, service.url, APPLY, project_key=KEY)
        pipeline.apply_plan(url, service.url, APPLY, project_key=KEY)
        assert copies(service) == 20


def test_a_dry_run_and_a_rehearsal_claim_nothing(url: str, bucket: Bucket, tmp_path: Path) -> None:
    """They send nothing to the target, and any machine may do them."""
    with running(KEYS) as service, on(tmp_path / "another"):
        assert pipeline.rehearse_plan(url, RehearseOptions()).verification.proved
        for machine in ("machine", "another"):
            with on(tmp_path / machine):
                pipeline.apply_plan(url, service.url, ApplyOptions(dry_run=True), project_key=KEY)
        assert copies(service) == 0
    assert counting_plan(bucket, "june")[0].get("sender") is None


def test_nothing_is_sent_where_the_store_replaces_a_claim(url: str, bucket: Bucket) -> None:
    """This is noticed before the claim, so this ledger's claim never replaces that of another one."""
    before = bucket.objects()
    with running(KEYS) as service:
        with a_store_that_replaces(), pytest.raises(UsageError, match="has no conditional writes"):
            pipeline.apply_plan(url, service.url, APPLY, project_key=KEY)
        assert copies(service) == 0
        assert "june/published-000002.json" not in bucket.objects()
        assert before["june/published-000001.json"] == bucket.objects()["june/published-000001.json"]
        pipeline.apply_plan(url, service.url, APPLY, project_key=KEY)
        assert copies(service) == 20
