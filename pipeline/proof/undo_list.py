"""The undo list of a plan: what was sent, as files and ready-made queries, for anyone who must undo an import.

Nothing is deleted here, and the service itself can delete little (docs/know/service.md#deleting). The lists come from
the ledger, so they have what the service accepted or may have accepted, and nothing that was only planned.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from pipeline.encoder.encoded import read_properties
from pipeline.errors import UsageError
from pipeline.files import private, sync_folder, write_atomically
from pipeline.ledger import read_summary, read_unanswered
from pipeline.management.moments import UTC_DAY
from pipeline.models import Step
from pipeline.options import UndoListOptions
from pipeline.plan.sealed.directory import Directory, LinesWriter
from pipeline.plan.sealed.manifest import Plan
from pipeline.proof.sent import IN_DOUBT, SentEvent, SentEvents, SentLine, opened_sent
from pipeline.report.records import ProfileBefore, read_profiles_before
from pipeline.text import pluralize
from pipeline.verify.provenance import IMPORT_PLAN, IMPORT_ROW, having, marks_of

FORMAT = "backcast.undo-list/1"
README, QUERIES = "README.txt", "queries.sql"
EVENTS, UUIDS, IDS, MERGES, GROUPS, PROFILES, BEFORE = (
    "events.jsonl", "uuids.txt", "ids.jsonl", "merges.jsonl", "groups.jsonl", "profiles.jsonl", "profiles-before.jsonl",
)  # fmt: skip
_OF_PHASE = {"identities": MERGES, "groups": GROUPS, "persons": PROFILES}
_ALWAYS = (README, QUERIES, EVENTS, UUIDS, IDS)
_WRITTEN = ("$set", "$set_once", "$unset")


class UndoList(msgspec.Struct, frozen=True):
    """What the lists contain. `events` counts all phases, `in_doubt` those of them that the service may not have; `ids`
    counts their distinct_ids. `target` is where they were sent, `files` the names in `directory`; `profiles_before`
    counts profiles whose values a preflight read before anything was sent."""

    directory: str
    digest: str
    target: str
    events: int
    in_doubt: int
    ids: int
    merges: int
    groups: int
    profiles: int
    profiles_before: int
    files: list[str]
    format: str = FORMAT


class _Merge(msgspec.Struct, frozen=True):
    distinct_id: str
    absorbed: str
    uuid: str
    timestamp: str
    state: str


class _Group(msgspec.Struct, frozen=True):
    type: Raw
    key: Raw
    names: list[str]
    uuid: str
    state: str


class _Profile(msgspec.Struct, frozen=True):
    distinct_id: str
    names: dict[str, list[str]]
    uuid: str
    timestamp: str
    state: str


_FILES: dict[type, str] = {_Group: GROUPS, _Profile: PROFILES, ProfileBefore: BEFORE}


@private()
def write_undo_list(
    plan: Plan, directory: Directory, options: UndoListOptions, *, progress: Step = lambda name, done, total: None
) -> UndoList:
    """Write the lists into a folder, replacing an undo list that is already there.

    Raises UsageError if nothing was sent, or if the folder has other files; BrokenLedger, UnsafePlan.
    """
    to = directory.undo_list if options.out is None else Path(options.out)
    summary = read_summary(directory.ledger, most=0)
    history = summary.history
    if history is None or not (summary.totals.settled or any(read_unanswered(directory.ledger))):
        raise UsageError(
            f"nothing of {directory.name} was sent, so there is nothing to undo",
            hint="name the directory of a plan that was applied",
        )
    _may_replace(to)
    unfinished = to.with_name(to.name + ".new")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        before = {one.distinct_id: one for one in read_profiles_before(directory, plan.digest)}
        with opened_sent(plan, directory) as sent:
            counts = _write_lists(sent, unfinished, before, progress)
        found = UndoList(
            str(to), plan.digest, history.to, counts["events"], counts["in doubt"], counts["ids"],
            counts[MERGES], counts[GROUPS], counts[PROFILES], counts[BEFORE],
            [*_ALWAYS, *(name for name in (*_OF_PHASE.values(), BEFORE) if counts[name])],
        )  # fmt: skip
        marks = marks_of(plan)
        write_atomically(unfinished / QUERIES, _queries(marks, rows="row" in plan.options.marks).encode())
        write_atomically(unfinished / README, _readme(found, plan, marks).encode())
        shutil.rmtree(to, ignore_errors=True)
        os.replace(unfinished, to)
        sync_folder(to.parent)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return found


def _may_replace(to: Path) -> None:
    if to.is_symlink() or (to.exists() and not to.is_dir()):
        raise UsageError(f"--out: {to} is not a folder", hint="name a folder that does not exist yet")
    if to.is_dir() and {path.name for path in to.iterdir()} - {*_ALWAYS, *_OF_PHASE.values(), BEFORE}:
        raise UsageError(f"--out: {to} contains other files", hint="name a folder that does not exist yet")


def _write_lists(sent: SentEvents, folder: Path, before: Mapping[str, ProfileBefore], progress: Step) -> Counter[str]:
    counts: Counter[str] = Counter()
    with ExitStack() as stack:
        lines = stack.enter_context(LinesWriter(folder / EVENTS))
        uuids = stack.enter_context((folder / UUIDS).open("w", encoding="ascii"))
        writers: dict[str, LinesWriter] = {}
        for line, encoded in sent.lines(progress):
            lines.write(line)
            uuids.write(f"{line.uuid}\n")
            counts["events"] += 1
            counts["in doubt"] += line.state == IN_DOUBT
            name = _OF_PHASE.get(line.phase)
            if name is not None:
                for record in [*_records(SentEvent(line, encoded)), *_earlier(line, before)]:
                    own = _FILES.get(type(record), name)
                    if own not in writers:
                        writers[own] = stack.enter_context(LinesWriter(folder / own))
                    writers[own].write(record)
                    counts[own] += 1
        for writer in (lines, *writers.values()):
            writer.close()
    with LinesWriter(folder / IDS) as writer:
        for one in sent.ids():
            writer.write(one)
            counts["ids"] += 1
        writer.close()
    return counts


def _earlier(line: SentLine, before: Mapping[str, ProfileBefore]) -> list[ProfileBefore]:
    """What the profile that an event wrote contained before."""
    found = before.get(line.distinct_id) if line.phase == "persons" else None
    return [] if found is None else [found]


def _records(sent: SentEvent) -> Iterator[_Merge | _Group | _Profile]:
    """What a merge, group or profile update changed at the service, without the values that it wrote."""
    line, properties = sent.line, read_properties(sent.encoded)
    absorbed = properties.get("$anon_distinct_id", properties.get("alias"))
    if line.phase == "identities" and absorbed is not None:
        yield _Merge(line.distinct_id, msgspec.json.decode(absorbed, type=str), line.uuid, line.timestamp, line.state)
    elif "$group_type" in properties:
        names = _names(properties.get("$group_set"))
        yield _Group(properties["$group_type"], properties["$group_key"], names, line.uuid, line.state)
    else:
        written = {name: _names(properties[name]) for name in _WRITTEN if name in properties}
        yield _Profile(line.distinct_id, written, line.uuid, line.timestamp, line.state)


def _names(value: Raw | None) -> list[str]:
    """The names in a JSON object, or in a list of names."""
    found: Any = {} if value is None else msgspec.json.decode(value, type=dict[str, Raw] | list[str])
    return list(found)


def _queries(marks: dict[str, str], *, rows: bool) -> str:
    """Queries that find the import at the service, for its SQL editor or query API; with `rows`, by row of the export
    too."""
    where = having(marks)
    if not where:
        return (
            "-- The plan was made with --no-provenance: no property marks its events, so find them by their uuids.\n"
            "-- Replace the examples with uuids from uuids.txt, a few thousand at a time.\n"
            "select count() from events where uuid in ('UUID-1', 'UUID-2')\n"
        )
    alike = "Imports of one tool without `plan --name` look alike."
    if IMPORT_PLAN in marks:
        alike = "An event that another plan sent again may have the mark of that plan: uuids.txt has all."
    place = f"JSONExtractString(properties, '{IMPORT_ROW}')"
    of_rows = (
        "-- The events of one file of the export, each with its file and row. Put the name of a file for FILE.",
        f"select {place} as place, event, distinct_id, timestamp, uuid from events",
        f"where {where} and startsWith({place}, 'FILE:') order by timestamp limit 50000;",
        "",
    )
    return "\n".join(
        (
            f"-- Events of this import by name and UTC day. {alike}",
            f"select event, {UTC_DAY} as day, count() from events",
            f"where {where} group by event, day order by day, event limit 50000;",
            "",
            "-- Everything except this import, as a condition for any other query.",
            f"select count() from events where not ({where});",
            "",
            "-- People with events of this import, and how many other events each has.",
            f"select person_id, countIf({where}) as imported, countIf(not ({where})) as others from events",
            "group by person_id having imported > 0 order by others desc limit 50000;",
            "",
            *(of_rows if rows else ()),
        )
    )


def _readme(found: UndoList, plan: Plan, marks: dict[str, str]) -> str:
    lists = {
        EVENTS: "every event: phase, uuid, event, distinct_id, timestamp, state, file and row of the export",
        UUIDS: "only the uuids, one per line",
        IDS: f"{pluralize(found.ids, 'distinct_id')}, with the number of events and the first and last time of each",
        MERGES: f"{pluralize(found.merges, 'merge')}: the id that remains, and the id that it absorbed",
        GROUPS: f"{pluralize(found.groups, 'group update')}: type, key, names of the properties written",
        PROFILES: f"{pluralize(found.profiles, 'profile update')}: distinct_id, names of the properties written",
        BEFORE: f"what {pluralize(found.profiles_before, 'profile')} had before, as the preflight read it",
        QUERIES: "queries that find the import at the service",
    }
    files = "\n".join(f"{name:<23}{lists[name]}" for name in lists if name in found.files)
    filters = " and ".join(f"{name} = {value}" for name, value in marks.items()) or "none (--no-provenance)"
    before = "Earlier values are not known: no preflight read them."
    if found.profiles_before:
        before = f"{BEFORE} has the earlier values of {found.profiles_before:,} of {found.profiles:,} profiles."
    doubt = f", of which {found.in_doubt:,} are in doubt: the service may not have them" if found.in_doubt else ""
    return f"""What the import of plan {plan.digest[:12]} ({plan.tool}) sent to {found.target}
{pluralize(found.events, "event")} of all phases{doubt}. Making these lists deleted nothing.

FILES
{files}
Properties that mark the events: {filters}.

WHAT THE SERVICE CAN UNDO, AND WHAT IT CANNOT
- Single events: no. Neither the contract nor PostHog has a call that deletes events by uuid, name or property.
  Filter them out by the properties above, or import into a new project.
- Persons with all their events: yes (PostHog: Persons API, delete_events=true, up to 1,000 ids a request). It also
  deletes events of these persons that this import did not send, and their distinct_ids should not be used again.
- Merges: no. Two ids that are one person stay one; PostHog can split a person into its ids, but not its events.
- Profile and group values: another update can set them again or unset them. {before}
- A whole project: yes, with everything in it.
- A self-hosted service: its operator can delete by uuid in the database. They need {UUIDS}.
"""
