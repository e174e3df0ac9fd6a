"""Each check of a plan on the first screen of the page: in one line, what was found, where first, and the question to
answer; and what to do, as a command to paste, in the folder that contains the plan's directory."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import NamedTuple

import msgspec

from pipeline.models import Finding
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.plan_command import export_of, plan_command
from pipeline.report.wording import headline
from pipeline.text import ELLIPSIS, pluralize, printable, quoted, some_of

_DAY = re.compile(r"\b\d{4}-\d\d-\d\d\b", re.ASCII)
_MOMENT = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_BUSY = re.compile(r"(.*) has [\d,]+ in the (?:second|minute|day) ", re.ASCII | re.DOTALL)
_SURVEY = "backcast survey {export}"
CHARACTERS = 150
"""The most of a line; the check itself has all."""
_CHARACTERS_EACH = 50
"""A line that names several places may have this many characters for each of them."""


class _Line(NamedTuple):
    """`words` have the first `most` examples, as far as before `end`, at `{}`, and the number of findings at
    `{count}`."""

    words: str
    end: str = ""
    most: int = 1


_LINES = {
    "not_in_time_order": _Line("{count} not in time order; a person keeps the value that arrives last. Expected?"),
    "clock_jump": _Line("{}. Did the source's clock change?"),
    "missing_files": _Line("No file for {}. Is the export complete?", " before "),
    "missing_hours": _Line("No file for {}. Is the export complete?", " before "),
    "missing_parts": _Line("Parts of files are missing: {}. Is the export complete?"),
    "overlapping_files": _Line("Files of the same days: {}. Are rows of one in the other?", " in "),
    "empty_days": _Line("No events at all {}. Is the export complete?", " (at least ", 5),
    "empty_hours": _Line("No events at all {} UTC. Is the export complete?", " (at least ", 3),
    "empty_days_of_a_name": _Line("No events of {}. Is the export complete?"),
    "spike": _Line("Unusually many events on {}. Expected?", "), "),
    "spike_of_a_name": _Line("Unusually many events of {}. Expected?"),
    "level": _Line("Events a day change suddenly, {}. What changed?"),
    "level_of_a_name": _Line("Events a day change suddenly: {}. What changed?"),
    "renamed_event": _Line("{}. Is it one event?"),
    "similar_names": _Line("{}. Are they one event?"),
    "inhuman_rate": _Line("Too many events for a person: {}. A bot, a test, a server?", " (row "),
    "near_duplicate": _Line("{count} equal an earlier one of the same person and second but for the uuid. Twice?"),
    "cut_values": _Line("Texts seem to be cut: {}. Can the tool export them whole?", ": "),
    "unsafe_integer": _Line("Integers beyond 2^53: {}. Are they ids?", ", the first in "),
    "null_rate": _Line("Values are suddenly missing: {}. What changed?", "; the first "),
    "property_names": _Line("Ever new property names: {}. Are they ids?", ": "),
    "mixed_types": _Line("Values of several types: {}", "; the first "),
    "numbers_as_text": _Line("Numbers that became texts: {}", ": "),
    "amounts_as_text": _Line("Amounts that are texts: {}", ", the first in "),
}


def in_one_line(check: Finding) -> str:
    """What a check found, in at most CHARACTERS or in the check's own words without its examples."""
    line = _LINES.get(check.name)
    if line is None or not isinstance(check.examples, list) or not isinstance(check.count, int) or not check.examples:
        return _shortened(check)
    shown = some_of([_until(one, line.end) for one in check.examples], line.most, count=check.count)
    text = line.words.format(shown, count=pluralize(check.count, "event"))
    return text if len(text) <= max(CHARACTERS, line.most * _CHARACTERS_EACH) else _shortened(check)


def _until(example: str, end: str) -> str:
    if end and end in example:
        return example[: example.index(end)] + (")" if end.startswith(")") else "")
    return example


def _shortened(check: Finding) -> str:
    begins = headline(check.detail)
    sentence = begins.partition("; ")[0].partition(". ")[0]
    return printable(sentence[:1].upper() + sentence[1:], CHARACTERS)


def command_of(check: Finding, plan: Plan, directory: str) -> str:
    """The command that shows what a check found, or the next step about it; "" if there is none."""
    if isinstance(check.options, list):
        return plan_command(plan, directory, check.options)
    if command := _COMMANDS.get(check.name):
        return command(check, plan, directory)
    look = next((look for look, names in _LOOKS.items() if check.name in names), "")
    return look.format(plan=quoted(directory), export=quoted(export_of(plan)), mapping=quoted(plan.mapping.name))


def chapter_of(check: Finding) -> str:
    """The title of the chapter that has more about a check, "" if none has."""
    return next((chapter for chapter, names in _CHAPTERS.items() if check.name in names), "")


def _day(check: Finding, plan: Plan, directory: str) -> str:
    """Plan the first day that the check names."""
    found = _DAY.search(check.detail)
    if found is None:
        return _SURVEY.format(export=quoted(export_of(plan)))
    day = date.fromisoformat(found[0])
    return plan_command(plan, f"{directory}-{day}", ["--since", f"{day}", "--until", f"{day + timedelta(1)}"])


def _moment(check: Finding, plan: Plan, directory: str) -> str:
    """Plan the seconds of the first example: the report shows its rows next to their events."""
    found = _MOMENT.search(check.detail)
    if found is None:
        return _SURVEY.format(export=quoted(export_of(plan)))
    after = datetime.fromisoformat(found[0]) + timedelta(seconds=2)
    seconds = ["--since", found[0], "--until", f"{after:%Y-%m-%dT%H:%M:%SZ}"]
    return plan_command(plan, f"{directory}-repeated", [*seconds, "--show-values", "--show-ids"])


def _without_ids(check: Finding, plan: Plan, directory: str) -> str:
    """Plan without the ids of the examples. Those that are not shown in full cannot be written to a file."""
    found = [_BUSY.match(one) for one in ([] if isinstance(check.examples, msgspec.UnsetType) else check.examples)]
    ids = [one[1] for one in found if one is not None and not one[1].endswith(ELLIPSIS) and "\\" not in one[1]]
    if not ids:
        return _SURVEY.format(export=quoted(export_of(plan)))
    file = f"{directory}-ids.txt"
    listed = f"printf '%s\\n' {' '.join(map(quoted, ids))} > {quoted(file)}"
    return f"{listed} && {plan_command(plan, f'{directory}-without', ['--exclude-ids', file])}"


def _merges(check: Finding, plan: Plan, directory: str) -> str:
    return f"head -n 20 {quoted(f'{directory}/identities.jsonl')}"


_COMMANDS: dict[str, Callable[[Finding, Plan, str], str]] = {
    "no_target": lambda check, plan, directory: plan_command(plan, f"{directory}-eu", ["--for", "eu"]),
    **dict.fromkeys(("merges", "merge_approval"), _merges),
    "inhuman_rate": _without_ids,
    "near_duplicate": _moment,
    "one_day_ids": lambda check, plan, directory: plan_command(
        plan, f"{directory}-identified", ["--persons", "identified"]
    ),
    **dict.fromkeys(("spike", "spike_of_a_name", "level", "level_of_a_name"), _day),
}
_CHAPTERS = {
    "Rejected rows": ("max_rejects", "rejects", "rounded_value", "cut_off"),
    "Time zone": (
        "zone", "zone_not_confirmed", "night_by_day", "clock_jump", "clock_change", "ambiguous_time",
        "nonexistent_time",
    ),
    "Warnings": ("warnings", "unsafe_integer"),
    "Merged identities": ("merge_approval", "merges", "joined_users", "shared_devices", "resolved_share"),
    "Groups": ("group_types", "anonymous_groups"),
    "Profile updates": ("not_in_time_order",),
    "Properties over time": (
        "sampled", "mixed_types", "numbers_as_text", "amounts_as_text", "null_rate", "cut_values", "property_names",
    ),
    "Tracking plan": ("tracking_plan", "tracking_plan_not_checked"),
    "Events by month": (
        "renamed_event", "similar_names", "empty_days", "empty_hours", "empty_days_of_a_name", "spike",
        "spike_of_a_name", "level", "level_of_a_name",
    ),
    "Where each field goes": ("max_unmapped", "unmatched_reference"),
    "Duplicates": ("near_duplicate", "key_not_unique"),
    "Rows and files": (
        "missing_files", "missing_hours", "missing_parts", "overlapping_files", "ignored_files", "limit",
    ),
}  # fmt: skip
"""The checks that each chapter of the page has more about."""
_LOOKS = {
    "backcast rejects {plan}": ("max_rejects", "rejects"),
    "backcast mapping new {export} --ask -o mapping.yaml": ("open_choices",),
    "backcast mapping check {mapping} --against {export}": ("max_unmapped", "key_not_unique", "unmatched_reference"),
    "backcast mapping show {mapping}": (
        "renamed_event", "similar_names", "mixed_types", "numbers_as_text", "amounts_as_text", "unsafe_integer",
        "split_ids", "float_ids", "property_names",
    ),
    _SURVEY: (
        "rounded_value", "cut_values", "null_rate", "night_by_day", "clock_jump", "clock_change",
        "zero_events", "empty_days", "empty_hours", "empty_days_of_a_name", "ignored_files", "missing_files",
        "missing_hours", "missing_parts", "overlapping_files",
    ),
}  # fmt: skip
"""The checks that each command shows more of."""
