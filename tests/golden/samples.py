"""What every sample export becomes, event by event: golden files, written by a command and reviewed as a diff."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from pipeline.api import plan_export
from pipeline.options import PlanOptions
from pipeline.plan.requests.store import read_events
from pipeline.plan.sealed.freshness import open_plan
from pipeline.plan.sealed.phases import EVENTS, PHASES
from tests.support.plan_facts import found
from tests.support.planned_events import planned_events

HERE = Path(__file__).parent
SAMPLES = HERE.parent.parent / "sample_data"
AS_OF = 1_767_225_600_000_000
"""2026-01-01: the instant of every golden plan."""


@dataclass(frozen=True)
class Sample:
    """One golden file: the sample's files, and the other options of `plan`. The mappings of tools are recognised."""

    files: tuple[str, ...]
    asked: dict[str, Any] = field(default_factory=dict)


GENERIC = {"event": "event", "distinct_id": "distinct_id", "timestamp": "timestamp", "uuid": "uuid"}
GENERIC_WITHOUT_UUID = {key: value for key, value in GENERIC.items() if key != "uuid"}
WHOLE = (
    "adobe amplitude braze customerio customerio-webhooks intercom statsig countly ga4 ga4-flat ga4-warehouse "
    "heap kissmetrics june mparticle openpanel pendo posthog matomo-database snowplow umami universal-analytics "
    "vercel"
)
"""Samples that are a folder of their name and need no other options."""
GOLDEN = {name: Sample((name,)) for name in WHOLE.split()} | {
    "mixpanel": Sample(("mixpanel",), {"timezone": "America/New_York"}),
    "mixpanel-people": Sample(("mixpanel", "mixpanel-people"), {"timezone": "America/New_York"}),
    "mixpanel-warehouse": Sample(("mixpanel-warehouse",), {"timezone": "America/New_York"}),
    "clevertap": Sample(("clevertap",), {"timezone": "Asia/Kolkata"}),
    "keen": Sample(("keen",), {"settings": {"collection": "purchases"}}),
    "plausible": Sample(("plausible",), {"settings": {"totals": "synthetic"}, "timezone": "Europe/Berlin"}),
    "posthog-persons": Sample(("posthog", "posthog-persons")),
    "generic-csv": Sample(("generic/orders.csv",), {"mapping": "generic", "settings": GENERIC}),
    "generic-parquet": Sample(("generic/orders.parquet",), {"mapping": "generic", "settings": GENERIC}),
    "segment": Sample(("segment/archive",)),
    "segment-warehouse": Sample(("segment/warehouse",)),
    "rudderstack": Sample(("rudderstack/storage",)),
    "rudderstack-staging": Sample(("rudderstack/staging",)),
    "rudderstack-lake": Sample(("rudderstack/lake",)),
    "matomo": Sample(("matomo/visits.json",)),
    "rejects": Sample(
        ("rejects/broken.jsonl", "rejects/broken.csv"), {"mapping": "generic", "settings": GENERIC_WITHOUT_UUID}
    ),
}
FEW = (
    "adobe", "amplitude", "braze", "ga4-flat", "generic-parquet", "matomo", "mixpanel-people", "pendo", "plausible",
    "rejects", "segment-warehouse",
)  # fmt: skip
"""Samples of every kind: each format, containers, files next to others, tables, lists, people, rows without keys."""


def golden(name: str, home: Any = SAMPLES) -> str:
    """All of a sample below a folder or a URL: first the counts, then all phases as sent, then rejects; one line
    each."""
    sample = GOLDEN[name]
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) / "plan"
        plan = plan_export([f"{home}/{file}" for file in sample.files], place, PlanOptions(as_of=AS_OF, **sample.asked))
        _, directory = open_plan(place)
        told = {name: getattr(plan, name) for name in ("sentence", "verdict", "skips", "rejects", "warnings")}
        lines = [msgspec.json.encode(told | {"gates": [[gate.name, gate.level] for gate in found(plan.gates)]})]
        for phase in PHASES:
            if phase == EVENTS:
                lines.extend(planned_events(place))
            else:
                for _, events in read_events(directory, phase):
                    lines.extend(events)
        lines.extend(directory.rejects.read_bytes().splitlines())
    return b"\n".join(lines).decode() + "\n"


def path_of(name: str) -> Path:
    return HERE / "samples" / f"{name}.jsonl"


def agreed(name: str) -> str:
    """The content of a sample's golden file."""
    return path_of(name).read_text(encoding="utf-8")


def regenerate() -> None:
    """Write every golden file again."""
    for name in GOLDEN:
        path_of(name).parent.mkdir(exist_ok=True)
        path_of(name).write_text(golden(name), encoding="utf-8")
