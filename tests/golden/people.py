"""Who is who at the local service after a sample was sent to it: its persons and groups, as golden files."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec

from pipeline import api
from pipeline.local_service import Keyring, LocalService
from pipeline.local_service.keys import Project
from pipeline.options import ApplyOptions, PlanOptions
from tests.golden.samples import AS_OF, GOLDEN, SAMPLES

HERE = Path(__file__).parent / "people"
NAMES = (
    "mixpanel-people", "amplitude", "posthog", "posthog-persons", "segment", "segment-warehouse", "rudderstack",
    "rudderstack-staging", "rudderstack-lake",
)  # fmt: skip
"""The samples whose people are compared with a golden file: all with ids to join, profiles or groups."""
KEYS = Keyring(tuple(Project(number, name, f"phc_test{number}") for number, name in enumerate(NAMES, 1)), {})
"""A project for each sample, so that one service does for all."""


def send(name: str, service: LocalService) -> None:
    """Plan a sample as `tests.golden.samples` does, and apply the plan to its project of a local service of KEYS."""
    sample = GOLDEN[name]
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) / "plan"
        files = [str(SAMPLES / file) for file in sample.files]
        api.plan_export(files, place, PlanOptions(as_of=AS_OF, workers=0, **sample.asked))
        key = f"phc_test{_project(name)}"
        outcome = api.apply_plan(place, service.url, ApplyOptions(), project_key=key)
        assert outcome.balanced, outcome


def people(name: str, service: LocalService) -> str:
    """A line for each person, by its ids, and for each group, by type and key; properties by name."""
    project = _project(name)
    persons = [
        {"ids": one.distinct_ids, "identified": one.is_identified, "properties": dict(sorted(one.properties.items()))}
        for one in service.persons(project)
    ]
    groups = [
        {"group": [one.index, one.type, one.key], "properties": dict(sorted(one.properties.items()))}
        for one in service.groups(project)
    ]
    return b"".join(msgspec.json.encode(one) + b"\n" for one in [*persons, *groups]).decode()


def _project(name: str) -> int:
    return NAMES.index(name) + 1


def path_of(name: str) -> Path:
    return HERE / f"{name}.jsonl"


def regenerate() -> None:
    """Write every golden file again."""
    HERE.mkdir(exist_ok=True)
    with LocalService(keys=KEYS) as service:
        for name in NAMES:
            send(name, service)
            path_of(name).write_text(people(name, service), encoding="utf-8")
