"""What to do about each check of a plan, as a command to paste, in the folder that contains the plan's directory."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta
from itertools import takewhile

from pipeline.models import Finding
from pipeline.plan.manifest import Plan, as_name
from pipeline.text import quoted

_DAY = re.compile(r"\b\d{4}-\d\d-\d\d\b", re.ASCII)


def command_of(check: Finding, plan: Plan, directory: str) -> str:
    """The command that shows what a check found, or the next step about it; "" where there is none."""
    write = _COMMANDS.get(check.name)
    return write(check, plan, directory) if write is not None else ""


def export_of(plan: Plan) -> str:
    """The only file of a plan, else the folder of all of them, as a word of a command."""
    files = sorted({as_name(part.file) for part in plan.parts})
    if len(files) == 1:
        return quoted(files[0])
    folders = zip(*(file.split("/")[:-1] for file in files), strict=False)
    common = takewhile(lambda names: len(set(names)) == 1, folders)
    return quoted("/".join(names[0] for names in common) or ".")


def _rejects(check: Finding, plan: Plan, directory: str) -> str:
    return f"backcast rejects {quoted(directory)}"


def _survey(check: Finding, plan: Plan, directory: str) -> str:
    return f"backcast survey {export_of(plan)}"


def _mapping(check: Finding, plan: Plan, directory: str) -> str:
    return f"backcast mapping show {quoted(plan.mapping.name)}"


def _unmapped(check: Finding, plan: Plan, directory: str) -> str:
    return f"backcast mapping check {quoted(plan.mapping.name)} --against {export_of(plan)}"


def _answers(check: Finding, plan: Plan, directory: str) -> str:
    return f"backcast mapping new {export_of(plan)} --ask -o mapping.yaml"


def _day(check: Finding, plan: Plan, directory: str) -> str:
    """Plan the first day that the check names, with the zones and settings of the plan."""
    found = _DAY.search(check.detail)
    if found is None:
        return _survey(check, plan, directory)
    day = date.fromisoformat(found[0])
    zones = "".join(f" --timezone {quoted(f'{zone}@{since}' if since else zone)}" for zone, since in plan.options.zones)
    settings = "".join(f" --set {quoted(f'{name}={value}')}" for name, value in plan.options.settings.items())
    place = quoted(f"{directory}-{day}")
    return (
        f"backcast plan {export_of(plan)} -m {quoted(plan.mapping.name)} -o {place}{zones}{settings}"
        f" --since {day} --until {day + timedelta(1)}"
    )


_COMMANDS: dict[str, Callable[[Finding, Plan, str], str]] = {
    "max_rejects": _rejects,
    "rejects": _rejects,
    "max_unmapped": _unmapped,
    "open_choices": _answers,
    "renamed_event": _mapping,
    "similar_names": _mapping,
    "key_not_unique": _unmapped,
    "unmatched_reference": _unmapped,
    "spike": _day,
    "spike_of_a_name": _day,
    "level": _day,
    "level_of_a_name": _day,
    "zone": _survey,
    "night_by_day": _survey,
    "clock_jump": _survey,
    "clock_change": _survey,
    "zero_events": _survey,
    "empty_days": _survey,
    "empty_days_of_a_name": _survey,
    "missing_files": _survey,
    "overlapping_files": _survey,
}
