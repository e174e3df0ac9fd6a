"""The moment at which `plan --until first-live` cuts: the time of the target's first live event.

Planning is offline, so the moment comes from the last preflight in the plan's directory. Without one, the target that
`--for` names is asked, if there is a personal key.
"""

from __future__ import annotations

from datetime import UTC, datetime
from os import fspath
from pathlib import Path
from typing import NamedTuple

from pipeline.config import Secret, given_project_key
from pipeline.encoder.event import provenance
from pipeline.errors import UsageError
from pipeline.management import ManagementClient
from pipeline.mapper import load as load_mapping
from pipeline.models import SealedOptions
from pipeline.options import PlanOptions
from pipeline.plan.sealed.directory import Directory
from pipeline.preflight.live import micros, read_live
from pipeline.preflight.project import find_project
from pipeline.preflight.questions import Questions
from pipeline.report.records import read_preflight
from pipeline.targets import address_of
from pipeline.timestamps import format_utc
from pipeline.verify.provenance import having


class FirstLiveEvent(NamedTuple):
    """The time of the first live event in µs UTC, and a line on how it is known."""

    moment: int
    notice: str


def find_first_live(options: PlanOptions, directory: Path, personal_key: Secret) -> FirstLiveEvent:
    """Raises UsageError if it is unknown when live events begin, or if there are none; Refused, Unfinished."""
    recorded = read_preflight(Directory(directory))
    cut_over = recorded.cut_over if recorded is not None else None
    same = recorded is not None and (not options.target or address_of(options.target) == recorded.to)
    if recorded is not None and cut_over is not None and same:
        return _found(cut_over.facts["first_live"], f"{recorded.to} by the preflight of {recorded.at}")
    if not options.target or not personal_key or not options.mapping:
        raise UsageError(
            f"--until first-live: {directory} has no preflight that says when live events begin",
            hint="to ask the service now, give --for and --mapping and set BACKCAST_PERSONAL_KEY; or plan without"
            " --until, run backcast preflight DIR --to TARGET, and plan again",
        )
    marks = provenance(
        load_mapping(fspath(options.mapping)).tool,
        SealedOptions(0, name=options.name, provenance=bool(options.provenance)),
    )
    own = having({name: value for name, value in marks.items() if isinstance(value, str)})
    with ManagementClient(options.target, personal_key) as client:
        project = find_project(client, given_project_key(None))
        if not project.known:
            hint = "run backcast preflight DIR --to TARGET --project ID, and plan again"
            raise UsageError(f"--until first-live: {project.check.detail}", hint=hint)
        live = read_live(Questions(client, None, ""), own, datetime.now(UTC))
    first = None if live.first is None else format_utc(live.first)
    return _found(first, f"project {client.project_id} of {address_of(options.target)}, asked now")


def _found(first: str | None, where: str) -> FirstLiveEvent:
    if first is None:
        raise UsageError(
            f"--until first-live: the project has no live event yet ({where})", hint="plan without --until"
        )
    return FirstLiveEvent(micros(first), f"until the first live event, {first} ({where})")
