"""The demo: every sample export planned, rehearsed and verified, as a person would with the commands."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from pipeline import workflow
from pipeline.errors import UsageError
from pipeline.report import machine
from pipeline.report.results import apply_result, verify_result

_PACKAGE = Path(__file__).resolve().parent

SAMPLES: tuple[tuple[str, tuple[str, ...], dict[str, object]], ...] = (
    ("mixpanel", ("mixpanel",), {"mapping": "mixpanel", "zones": (("America/New_York", ""),)}),
    ("amplitude", ("amplitude",), {"mapping": "amplitude"}),
    ("posthog", ("posthog",), {"mapping": "posthog"}),
)
"""name, files under sample_data, what `plan` is asked besides"""


class Step(msgspec.Struct, frozen=True):
    """One sample's way through the whole job."""

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
    """Plan, rehearse and verify each sample into a folder of its own under `output`."""
    if output.exists() and not (output / MARK).exists() and any(output.iterdir()):
        raise UsageError(f"{output} holds something that no demo wrote", hint="choose another place with -o DIR")
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    (output / MARK).write_text("Written by `backcast demo`, which replaces this folder.\n", encoding="utf-8")
    for name, files, asked in SAMPLES:
        directory = output / name
        plan = workflow.plan_export(
            workflow.PlanRequest(
                sources=[str(samples() / file) for file in files],
                directory=directory,
                **asked,  # type: ignore[arg-type]
            )
        )
        _, place = workflow.load_plan(directory)
        machine.write_report(place, plan)
        done = workflow.rehearse(plan, place)
        applied, verified = apply_result(done.outcome), verify_result(done.verification)
        machine.write_report(place, plan, applied, verified)
        yield Step(
            name,
            plan.sentence,
            f"Verified: {verified.events.expected:,} expected, {verified.events.found:,} found,"
            f" {verified.events.missing:,} missing, {verified.events.extra:,} extra.",
            plan.ready and done.outcome.balanced and verified.proved,
            str(place.report_html),
        )


MARK = "written-by-backcast-demo"
