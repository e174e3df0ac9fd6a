"""A plan belongs to the project that it was sent to: no other one is compared with it, or gets a part of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline import api
from pipeline.options import PlanOptions
from tests.support.commands import in_process
from tests.support.deliveries import in_ledger, planned
from tests.support.management_service import ALL, Asking, asking, key_with

HIDDEN = key_with("query:read")
"""A personal key that cannot read a project's capture key."""


@pytest.fixture
def ask() -> Iterator[Asking]:
    """A service of project 1, A, and project 2, B."""
    with asking() as found:
        yield found


def backcast(command: str, plan: Path, ask: Asking, *words: str, key: str = "a", personal: str = ALL) -> str:
    """The exit code and what stderr says, after a command about the plan and the service."""
    keys = {"BACKCAST_PROJECT_KEY": f"phc_test_{key}", "BACKCAST_PERSONAL_KEY": personal}
    keys = {name: value for name, value in keys.items() if value}
    done = in_process(command, str(plan), "--to", ask.service.url, *words, env=keys)
    return f"{done.returncode} {done.stderr.replace(ask.service.url, 'URL').replace(f'{plan.parent}/', '')}"


OTHER_ID = "was sent to project 1, not to project 2; nothing was sent\nTry: backcast verify plan --to URL --project 1\n"
OTHER_KEY = "was sent with another capture key than that of project 2; nothing was sent\nTry: use the project"


@pytest.mark.parametrize("repair", [(), ("--repair",)])
@pytest.mark.parametrize(
    ("sends", "reads", "message"), [(ALL, HIDDEN, OTHER_ID), (ALL, ALL, OTHER_ID), ("", ALL, OTHER_KEY)]
)
def test_another_project_is_not_compared(
    ask: Asking, tmp_path: Path, repair: tuple[str, ...], sends: str, reads: str, message: str
) -> None:
    """Its id shows that if apply had a personal key, else its capture key; nothing is sent again, and the report has no
    result of it."""
    plan = planned(tmp_path, 5)
    assert backcast("apply", plan, ask, personal=sends)[0] == "0"
    found = backcast("verify", plan, ask, "--project", "2", *repair, personal=reads)
    assert found.startswith(f"4 Error: plan {message}"), found
    assert (ask.service.count(), in_ledger(plan, "select count(*) from runs")) == (5, [(1,)])
    assert api.plan_status(plan).state == "sent"
    assert backcast("verify", plan, ask, *repair, personal=ALL)[0] == "0"


def test_a_preflight_of_another_project_does_not_change_what_is_read(ask: Asking, tmp_path: Path) -> None:
    """Verify reads the project that apply sent to, though preflight asked another one since."""
    plan = planned(tmp_path, 5)
    assert backcast("apply", plan, ask)[0] == "0"
    backcast("preflight", plan, ask, "--project", "2", key="b")
    assert backcast("verify", plan, ask, "--repair", key="b")[0] == "0"


def test_the_project_of_a_rotated_key_is_compared(ask: Asking, tmp_path: Path) -> None:
    """By its recorded id; without one, only after apply has the new key in the ledger."""
    for personal, codes in ((ALL, "0"), ("", "40")):
        plan = planned(tmp_path / codes, 5)
        assert backcast("apply", plan, ask, personal=personal)[0] == "0"
        in_ledger(plan, "update meta set value = '00' where key = 'key_check'")  # of the key before
        found = backcast("verify", plan, ask)
        if found[0] == "4":
            assert "run apply with --rotated-key first" in found
            assert backcast("apply", plan, ask, "--rotated-key", personal="")[0] == "0"
            found = f"4{backcast('verify', plan, ask)}"
        assert found[: len(codes)] == codes


def test_apply_does_not_resume_for_another_project(ask: Asking, tmp_path: Path) -> None:
    """Neither by --project nor with the key of another project as a rotated one."""
    plan = planned(tmp_path, 5)
    assert backcast("apply", plan, ask, "--phases", "identities,groups,events")[0] == "0"
    words = {"a": ("--project", "2"), "b": ("--rotated-key",)}
    for key, more in words.items():
        personal = HIDDEN if key == "a" else ALL
        found = backcast("apply", plan, ask, *more, key=key, personal=personal)
        assert found.startswith("4 "), found
        assert "was sent to project 1, not to project 2; nothing was sent" in found
    assert ask.service.count() == 5


def test_a_replay_goes_to_the_project_of_its_first_plan(tmp_path: Path) -> None:
    """What one project refused is not sent to another one, whose history it would be a part of."""
    with asking(faults=("poison:1/2",)) as ask:
        plan = planned(tmp_path, 10)
        assert backcast("apply", plan, ask, personal="")[0] == "5"
        before, again = ask.service.count(), tmp_path / "again"
        api.plan_export(tmp_path / "export", again, PlanOptions(workers=0, replay=plan))
        found = backcast("apply", again, ask, key="b", personal="")
        assert found.startswith("4 Error: plan was sent with another capture key than this one;"), found
        assert ask.service.count() == before
        assert backcast("apply", again, ask, personal="")[0] in "05"
