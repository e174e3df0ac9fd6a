"""The demo: two exports of one product planned, rehearsed and verified, as with the commands.

Both are in sample_data/story: two years of one product, as each tool exports them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
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
    """One bundled export: its folder under sample_data, and the options of its plan."""

    name: str
    folder: str
    options: PlanOptions


SAMPLES = (
    Sample(
        "mixpanel",
        "story/mixpanel",
        PlanOptions(
            mapping="mixpanel",
            timezone=("Europe/Berlin", "America/New_York@2024-06-01"),
            settings={"groups": "team"},
            max_rejects="0.1%",
        ),
    ),
    Sample(
        "segment",
        "story/segment",
        PlanOptions(mapping="segment-warehouse", settings={"group_type": "team"}, max_rejects="0.1%"),
    ),
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


def run(output: Path, show: Callable[[str], None] = lambda line: None) -> Iterator[Step]:
    """Plan, rehearse and verify each sample into a folder of its own under `output`. `show` is called with each line
    for people as soon as it is known. Raises UsageError."""
    _clear(output)
    for sample in SAMPLES:
        yield _run_sample(sample, output / sample.name, show)


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


def _run_sample(sample: Sample, folder: Path, show: Callable[[str], None]) -> Step:
    show(f"{sample.name}: reading the export")
    plan = api.plan_export(samples() / sample.folder, folder, sample.options)
    show(f"  {plan.sentence}")
    show("  Rehearsing it on this machine")
    done = api.rehearse_plan(folder)
    verified = verify_result(done.verification)
    verdict = (
        f"Verified: {verified.events.expected:,} expected, {verified.events.found:,} found,"
        f" {verified.events.missing:,} missing, {verified.events.extra:,} extra."
    )
    show(f"  {verdict}")
    return Step(
        sample.name,
        plan.sentence,
        verdict,
        plan.ready and done.outcome.balanced and verified.proved,
        str(Directory(folder).report_html),
    )
