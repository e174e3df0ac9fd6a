"""What to do about each check of a plan, as a command to paste, in the folder that contains the plan's directory."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from itertools import takewhile

import msgspec

from pipeline.identity.settings import MAX_TYPES
from pipeline.models import Finding
from pipeline.plan.sealed.manifest import Plan, as_name
from pipeline.text import ELLIPSIS, quoted

_DAY = re.compile(r"\b\d{4}-\d\d-\d\d\b", re.ASCII)
_MOMENT = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_BUSY = re.compile(r"(.*) has [\d,]+ in the (?:second|minute|day) ", re.ASCII | re.DOTALL)


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


def _plan(plan: Plan, place: str, words: str) -> str:
    """Plan the export once more into another place, with the zones and settings of the plan and with these options."""
    zones = "".join(f" --timezone {quoted(f'{zone}@{since}' if since else zone)}" for zone, since in plan.options.zones)
    settings = "".join(f" --set {quoted(f'{name}={value}')}" for name, value in plan.options.settings.items())
    return f"backcast plan {export_of(plan)} -m {quoted(plan.mapping.name)} -o {quoted(place)}{zones}{settings} {words}"


def _day(check: Finding, plan: Plan, directory: str) -> str:
    """Plan the first day that the check names."""
    found = _DAY.search(check.detail)
    if found is None:
        return _survey(check, plan, directory)
    day = date.fromisoformat(found[0])
    return _plan(plan, f"{directory}-{day}", f"--since {day} --until {day + timedelta(1)}")


def _moment(check: Finding, plan: Plan, directory: str) -> str:
    """Plan the seconds of the first example: the report shows its rows beside their events."""
    found = _MOMENT.search(check.detail)
    if found is None:
        return _survey(check, plan, directory)
    after = datetime.fromisoformat(found[0]) + timedelta(seconds=2)
    seconds = f"--since {found[0]} --until {after:%Y-%m-%dT%H:%M:%SZ}"
    return _plan(plan, f"{directory}-repeated", f"{seconds} --show-values --show-ids")


def _without_ids(check: Finding, plan: Plan, directory: str) -> str:
    """Plan without the ids of the examples. Those that are not shown in full cannot be written to a file."""
    found = [_BUSY.match(one) for one in ([] if isinstance(check.examples, msgspec.UnsetType) else check.examples)]
    ids = [one[1] for one in found if one is not None and not one[1].endswith(ELLIPSIS) and "\\" not in one[1]]
    if not ids:
        return _survey(check, plan, directory)
    file = quoted(f"{directory}-ids.txt")
    listed = f"printf '%s\\n' {' '.join(map(quoted, ids))} > {file}"
    return f"{listed} && {_plan(plan, f'{directory}-without', f'--exclude-ids {file}')}"


def _groups(check: Finding, plan: Plan, directory: str) -> str:
    """Plan with the types that most rows have, as many as the service stores."""
    types = sorted(plan.people.groups.types, key=lambda one: -one.rows)[:MAX_TYPES]
    return _plan(plan, f"{directory}-groups", f"--group-types {quoted(','.join(one.type for one in types))}")


def _collapsed(check: Finding, plan: Plan, directory: str) -> str:
    """Plan with identical rows as one event, as `collapse: identical` of a job does."""
    return _plan(plan, f"{directory}-collapsed", "--collapse-identical")


def _identified(check: Finding, plan: Plan, directory: str) -> str:
    """Plan with persons for identified ids alone."""
    return _plan(plan, f"{directory}-identified", "--persons identified")


def _merges(check: Finding, plan: Plan, directory: str) -> str:
    """The first merges of the plan."""
    return f"head -n 20 {quoted(f'{directory}/identities.jsonl')}"


_COMMANDS: dict[str, Callable[[Finding, Plan, str], str]] = {
    "max_rejects": _rejects,
    "rejects": _rejects,
    "max_unmapped": _unmapped,
    "open_choices": _answers,
    "renamed_event": _mapping,
    "similar_names": _mapping,
    "key_not_unique": _unmapped,
    "unmatched_reference": _unmapped,
    "keyless": _collapsed,
    "merges": _merges,
    "group_types": _groups,
    "inhuman_rate": _without_ids,
    "near_duplicate": _moment,
    "one_day_ids": _identified,
    "mixed_types": _mapping,
    "numbers_as_text": _mapping,
    "amounts_as_text": _mapping,
    "unsafe_integer": _mapping,
    "rounded_value": _survey,
    "split_ids": _mapping,
    "float_ids": _mapping,
    "property_names": _mapping,
    "cut_values": _survey,
    "null_rate": _survey,
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
    "ignored_files": _survey,
    "missing_files": _survey,
    "overlapping_files": _survey,
}
