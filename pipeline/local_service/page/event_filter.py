"""Which events are asked for: by name, id, person, UTC day, flag and text; read from a query string, written in SQL."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import date
from uuid import UUID

from .reading import literal

_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
FLAGS = {"historical": "historical_migration", "live": "NOT historical_migration"}


class BadFilter(ValueError):
    """A filter cannot be understood; the message says which and why."""


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Every field is text, empty for no such filter. `since` and `until` are days, both included."""

    event: str = ""
    id: str = ""
    person: str = ""
    since: str = ""
    until: str = ""
    flag: str = ""
    text: str = ""

    def given(self) -> dict[str, str]:
        """The filters that there are, as they stand in a query string."""
        return {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name)}

    def condition(self, project: int) -> str:
        """The condition of SQL over `accepted` or a view of it."""
        found = [f"project = {project}"]
        if self.event:
            found.append(f"event = {literal(self.event)}")
        if self.id:
            found.append(f"distinct_id = {literal(self.id)}")
        if self.person:
            found.append(
                f"distinct_id IN (SELECT distinct_id FROM people_ids WHERE project = {project} "
                f"AND person = CAST({literal(self.person)} AS UUID))"
            )
        if self.since:
            found.append(f"\"timestamp\" >= DATE '{self.since}'")
        if self.until:
            found.append(f"\"timestamp\" < DATE '{self.until}' + INTERVAL 1 DAY")
        if self.flag:
            found.append(FLAGS[self.flag])
        if self.text:
            columns = ["event", "distinct_id", "properties"]
            either = [containing(column, self.text) for column in columns]
            if is_uuid(self.text):
                either.append(f"uuid = CAST({literal(self.text)} AS UUID)")
            found.append(f"({' OR '.join(either)})")
        return " AND ".join(found)


def read(params: Mapping[str, str]) -> EventFilter:
    """The filters of a query string. Raises BadFilter."""
    found = EventFilter(**{one.name: params.get(one.name, "") for one in fields(EventFilter)})
    for name, day in (("from", found.since), ("to", found.until)):
        if day and not _is_day(day):
            raise BadFilter(f"“{name}” is no day: write it as 2023-01-31")
    if found.flag and found.flag not in FLAGS:
        raise BadFilter(f"“flag” is {' or '.join(FLAGS)}")
    if found.person and not is_uuid(found.person):
        raise BadFilter("“person” is no UUID")
    return found


def containing(column: str, text: str) -> str:
    """The condition that a column holds the text, as it stands or as JSON spells it, whatever its case."""
    spellings = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    if column != "properties":
        spellings = {text}
    either = [f"contains(lower({column}), lower({literal(one)}))" for one in sorted(spellings)]
    return f"({' OR '.join(either)})"


def is_uuid(text: str) -> bool:
    """Whether a text is a UUID in its usual spelling."""
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def _is_day(text: str) -> bool:
    try:
        return bool(_DAY.fullmatch(text)) and date.fromisoformat(text) is not None
    except ValueError:
        return False
