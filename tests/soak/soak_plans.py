"""Plans and repairs killed at each of their steps, and verify among 200,000 events (4 minutes).

Whatever the step is, the old plan or the new one is in the bucket, nothing is lost or sent twice by a repair, and a
thousand events of each alteration are named with their rows.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.plan.test_publishing import killed_while_publishing
from tests.support.deliveries import uuid
from tests.support.published import MACHINE
from tests.support.stores import a_bucket
from tests.support.verification import sent_rows
from tests.verify.test_verify_differences import ALTERATIONS, row_of
from tests.verify.test_verify_repair import test_a_repair_that_is_killed_loses_and_doubles_nothing as killed_at

MANY = 200_000


def test_a_thousand_of_each_among_many_are_named_with_their_rows(tmp_path: Path) -> None:
    """Deleted, renamed, altered in value, in time, of another person, copied to another day."""
    one = sent_rows(tmp_path, MANY, batch=5_000)
    assert one.verify(fields="all").proved
    chosen = {name: range(at * 28_000, at * 28_000 + 1_000) for at, name in enumerate(ALTERATIONS)}
    for name, numbers in chosen.items():
        listed = ", ".join(f"'{uuid(number)}'" for number in numbers)
        one.change(ALTERATIONS[name][0].format(which=f"uuid in ({listed})"))
    found = one.verify(fields="all")
    kinds = Counter(dict.fromkeys(("missing", "altered", "duplicated"), 1000) | {"different": 4_000})
    assert {kind: getattr(found.events, kind) for kind in kinds} == kinds
    rows = {(each["kind"], each["uuid"]): each for each in one.named()}
    assert Counter(kind for kind, _ in rows) == kinds
    for name, numbers in chosen.items():
        _, kind, changed, _ = ALTERATIONS[name]
        for number in numbers:
            each = rows[kind, uuid(number)]
            assert each["changed"] == changed
            if kind != "duplicated":
                assert (each["part"], each["row"]) == row_of(number)


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("after", [False, True])
def test_a_repair_that_is_killed_at_any_request_loses_and_doubles_nothing(tmp_path: Path, at: int, after: bool) -> None:
    killed_at(tmp_path, at, after)


def test_a_plan_that_is_killed_at_any_step_leaves_the_old_one_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a bucket, for this machine and for another one."""
    monkeypatch.setenv(MACHINE, str(tmp_path / "machine"))
    with a_bucket() as bucket:
        killed_while_publishing(bucket, tmp_path, lambda names: list(range(len(names))))
