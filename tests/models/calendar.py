"""What the target of a scheduled job has after each night: which rows, once each, for whom, with which values.

From docs/use/jobs.md, docs/use/people-and-groups.md and docs/know/promises.md (the invariants).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.models.keys import DAY, Row, standing

HOUR = 3600
LAG, YOUNG = 49 * HOUR, 48 * HOUR
"""A window is due this long after its end; a row that is younger then is rejected (jobs.md, `lag`)."""
MOST_GROUP_TYPES = 5
"""The most in a project (docs/know/service.md, Groups)."""
Rows = tuple[Row, ...]
Export = Mapping[int, Mapping[str, Rows]]
"""The files of each window, and their rows."""


@dataclass
class Target:
    """The target's content; what was seen of ids and groups in what was sent; the user with whom each device was
    merged."""

    events: dict[str, Row] = field(default_factory=dict)
    seen: list[Row] = field(default_factory=list)
    owner: dict[str, str] = field(default_factory=dict)
    profiles: dict[str, dict[str, Any]] = field(default_factory=dict)

    def stops(self, rows: Rows) -> bool:
        """Whether a check stops these rows: keys of several events or too many group types, also over windows
        (docs/use/reading-a-plan.md: key_not_unique, group_types)."""
        sent = any(one.event != self.events.get(one.key, one).event for one in rows if one.kind == "event")
        types = {row.group[0] for row in (*self.seen, *rows) if row.group}
        return sent or bool(standing(rows).clashes) or len(types) > MOST_GROUP_TYPES

    def take(self, rows: Iterable[Row], merging: bool = True) -> None:
        """Send rows. What was sent is kept, and a copy of it has no effect (jobs.md, How a job works; invariant 7)."""
        new = [one for one in standing(rows).rows if one.kind != "event" or one.key not in self.events]
        self.seen += new
        self.events |= {one.key or f"{len(self.seen)} {n}": one for n, one in enumerate(new) if one.kind == "event"}
        # A profile has the last value of each property, and fills in what is absent or null (people-and-groups.md,
        # Profile updates; jobs.md, Profiles; service.md, Persons).
        for user, values in folded((one.user, one) for one in new if one.kind == "profile").items():
            profile = self.profiles.setdefault(user, {})
            profile |= {name: value for name, value in values.items() if profile.get(name) is None}
        # A device that was ever seen without a user is merged with its first user, as far as is known by then; what is
        # settled stays. Merges that are held are sent once the job lets them (people-and-groups.md; jobs.md, Merges).
        alone = {one.device for one in self.seen if one.device and not one.user}
        for one in sorted(self.seen, key=lambda one: one.at):
            if merging and one.user and one.device in alone:
                self.owner.setdefault(one.device, one.user)

    @property
    def groups(self) -> dict[Any, dict[str, Any]]:
        """Each group with its last values, over all windows (people-and-groups.md, Groups)."""
        return folded((one.group, one) for one in self.seen if one.kind == "group")

    @property
    def persons(self) -> set[frozenset[str]]:
        """The ids of events, person by person."""
        kept = {one.distinct_id: self.owner.get(one.distinct_id, one.distinct_id) for one in self.events.values()}
        return {frozenset(id for id in kept if kept[id] == person) for person in kept.values()}


def folded(rows: Iterable[tuple[Any, Row]]) -> dict[Any, dict[str, Any]]:
    """The last value of each property by time."""
    found: dict[Any, dict[str, Any]] = {}
    for of, row in sorted(rows, key=lambda pair: pair[1].at):
        found.setdefault(of, {}).update(row.values)
    return found


@dataclass
class Calendar:
    """A job night after night (job-file.md). If a run is killed or `state.sqlite` is lost, nothing changes: the next
    run continues (jobs.md, What a job does when)."""

    windows: int
    lookback: int = 0
    changed: str = ""
    missing: str = "wait"
    target: Target = field(default_factory=Target)
    read: dict[int, dict[str, Rows]] = field(default_factory=dict)
    """The windows that are done, and their files as they were read."""
    told: dict[int, dict[str, Rows]] = field(default_factory=dict)
    """Files of done windows that were ignored."""
    owed: set[int] = field(default_factory=set)
    """Done windows with a late file that was stopped: the next run plans it again (jobs.md, A check stops a window)."""

    def lose(self) -> None:
        """`state.sqlite` is lost. It is rebuilt from plans: windows that count as empty are open then, and a change
        that is ignored is reported again (jobs.md, What a job does when)."""
        self.told.clear()
        self.read = {window: files for window, files in self.read.items() if files}

    def night(self, now: int, export: Export, merging: bool) -> dict[int, str]:
        """The result of each window with something to do: the oldest first, and a stopped one does not stop the others
        (jobs.md, What a job does when)."""
        outcomes: dict[int, str] = {}
        late = {*(sorted(self.read)[-self.lookback :] if self.lookback else ()), *self.owed}
        for window in range(min(self.windows, (now - LAG) // DAY)):
            files, known = export.get(window, {}), self.read.get(window)
            new = {name: rows for name, rows in sorted(files.items()) if rows not in (known or {}).values()}
            # Files come late within the lookback. A change of older windows, and of files that were read, if the job
            # says so, is not expected (jobs.md, Exported again).
            names = set(new) if window not in late else new.keys() & known.keys() if known and self.changed else set()
            odd = known is not None and bool(names)
            if odd and self.changed == "ignore":  # a file next to those is late nevertheless
                told = self.told.setdefault(window, {})
                outcomes |= {window: "ignored"} if any(told.get(name) != new[name] for name in names) else {}
                told |= {name: new.pop(name) for name in names}
                odd = False
            rows = tuple(one for part in new.values() for one in part)
            if known is None and not files:
                outcomes[window] = "done" if self.missing == "done" else "waiting"
                if self.missing == "stop":
                    break
                if self.missing == "wait":
                    continue
            elif known is not None and not new:
                self.owed.discard(window)
                continue
            elif odd and self.changed != "send-new":
                outcomes[window] = "stopped"
                continue
            elif self.target.stops(rows) or any(one.at > (window + 1) * DAY + LAG - YOUNG for one in rows):
                outcomes[window] = "stopped"
                self.owed |= set() if known is None else {window}
                continue
            else:
                outcomes[window] = "done"
                self.owed.discard(window)
                self.target.take(rows, merging)
            self.read.setdefault(window, {}).update(new)
        return outcomes
