"""The demo: every sample export planned, rehearsed and verified, as a person would with the commands."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from pipeline import api
from pipeline.errors import UsageError
from pipeline.report import machine
from pipeline.report.results import apply_result, verify_result

_PACKAGE = Path(__file__).resolve().parent
MARK = "written-by-backcast-demo"


@dataclass(frozen=True, slots=True)
class Sample:
    """One bundled export: where it lies under sample_data, and what `plan` is asked besides."""

    name: str
    files: tuple[str, ...]
    mapping: str
    zones: tuple[tuple[str, str], ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


_COLUMNS = {name: name for name in ("event", "distinct_id", "timestamp", "uuid")}

SAMPLES = (
    Sample("mixpanel", ("mixpanel", "mixpanel-people"), "mixpanel", zones=(("America/New_York", ""),)),
    Sample("amplitude", ("amplitude",), "amplitude"),
    Sample("segment", ("segment/warehouse",), "segment-warehouse"),
    Sample("rudderstack", ("rudderstack/lake",), "rudderstack-warehouse"),
    Sample("posthog", ("posthog", "posthog-persons"), "posthog"),
    Sample("generic", ("generic",), "generic", settings=_COLUMNS),
)


class Step(msgspec.Struct, frozen=True):
    """One sample's way through the whole job. `report` is a path."""

    name: str
    sentence: str
    verdict: str
    proved: bool
    report: str


def samples() -> Path:
    """The folder of the bundled exports: in the installed package, else at the root of the repository."""
    bundled = _PACKAGE / "_bundled" / "sample_data"
    return bundled if bundled.is_dir() else _PACKAGE.parent / "sample_data"


def run(output: Path) -> Iterator[Step]:
    """Plan, rehearse and verify each sample into a folder of its own under `output`. Raises UsageError."""
    _make_room(output)
    for sample in SAMPLES:
        yield _one(sample, output / sample.name)


def _make_room(output: Path) -> None:
    foreign = output.exists() and not (
        output.is_dir() and ((output / MARK).exists() or next(output.iterdir(), None) is None)
    )
    if foreign:
        raise UsageError(f"{output} holds something that no demo wrote", hint="choose another place with -o DIR")
    try:
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir(parents=True, exist_ok=True)
        (output / MARK).write_text("Written by `backcast demo`, which replaces this folder.\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}", hint="choose another place with -o DIR") from None


def _one(sample: Sample, folder: Path) -> Step:
    plan = api.plan_export(
        api.PlanRequest(
            sources=[str(samples() / file) for file in sample.files],
            directory=folder,
            mapping=sample.mapping,
            zones=sample.zones,
            settings=sample.settings,
        )
    )
    _, directory = api.load_plan(folder)
    machine.write_report(directory, plan)
    done = api.rehearse(plan, directory)
    applied, verified = apply_result(done.outcome), verify_result(done.verification)
    machine.write_report(directory, plan, rehearsal=applied, rehearsed=verified)
    return Step(
        sample.name,
        plan.sentence,
        f"Verified: {verified.events.expected:,} expected, {verified.events.found:,} found,"
        f" {verified.events.missing:,} missing, {verified.events.extra:,} extra.",
        plan.ready and done.outcome.balanced and verified.proved,
        str(directory.report_html),
    )
