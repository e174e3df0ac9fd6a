"""The demo: every sample export planned, rehearsed and verified, as with the commands."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from pipeline import api
from pipeline.errors import UsageError
from pipeline.options import PlanOptions
from pipeline.plan.sealed.directory import Directory
from pipeline.report.results import verify_result

_PACKAGE = Path(__file__).resolve().parent
MARK = "written-by-backcast-demo"


class Sample(msgspec.Struct, frozen=True):
    """One bundled export: its files under sample_data, and the options of its plan."""

    name: str
    files: tuple[str, ...]
    options: PlanOptions


_COLUMNS = {name: name for name in ("event", "distinct_id", "timestamp", "uuid")}

SAMPLES = (
    Sample("mixpanel", ("mixpanel", "mixpanel-people"), PlanOptions(mapping="mixpanel", timezone="America/New_York")),
    Sample("amplitude", ("amplitude",), PlanOptions(mapping="amplitude")),
    Sample("segment", ("segment/warehouse",), PlanOptions(mapping="segment-warehouse")),
    Sample("rudderstack", ("rudderstack/lake",), PlanOptions(mapping="rudderstack-warehouse")),
    Sample("posthog", ("posthog", "posthog-persons"), PlanOptions(mapping="posthog")),
    Sample("generic", ("generic",), PlanOptions(mapping="generic", settings=_COLUMNS)),
)


class Step(msgspec.Struct, frozen=True):
    """The result of one sample. `report` is a path."""

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
    _clear(output)
    for sample in SAMPLES:
        yield _run_sample(sample, output / sample.name)


def _clear(output: Path) -> None:
    foreign = output.exists() and not (
        output.is_dir() and ((output / MARK).exists() or next(output.iterdir(), None) is None)
    )
    if foreign:
        raise UsageError(f"{output} contains files that no demo wrote", hint="choose another directory with -o DIR")
    try:
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir(parents=True, exist_ok=True)
        (output / MARK).write_text("Written by `backcast demo`, which replaces this folder.\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot write {output}: {error.strerror}", hint="choose another directory with -o DIR"
        ) from None


def _run_sample(sample: Sample, folder: Path) -> Step:
    plan = api.plan_export([samples() / file for file in sample.files], folder, sample.options)
    done = api.rehearse_plan(folder)
    verified = verify_result(done.verification)
    return Step(
        sample.name,
        plan.sentence,
        f"Verified: {verified.events.expected:,} expected, {verified.events.found:,} found,"
        f" {verified.events.missing:,} missing, {verified.events.extra:,} extra.",
        plan.ready and done.outcome.balanced and verified.proved,
        str(Directory(folder).report_html),
    )
