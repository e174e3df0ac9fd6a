"""The people of a project with live events after a moment, or a sample of them if there are too many."""

from __future__ import annotations

import json
import re

import msgspec

from pipeline.errors import Unfinished
from pipeline.timestamps import format_utc, read_iso
from pipeline.verify.landed import PAGE, Asker, in_chunks, in_lists, quoted

MOST_PEOPLE = 20_000
"""If more people have live events, a sample of about this many is read."""
_MOST_ROWS = 50_000
"""The service cuts off after this many rows (docs/know/service.md#query-interface)."""
_PARTS = 4_096
"""A sample is chosen by the last three of the 36 characters of a person's id, which are hexadecimal digits."""
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s.]+")


class LivePerson(msgspec.Struct):
    """A person of the target. `seen` has the ids of its live events, each with the time of the first in µs UTC; `ids`
    are all of its ids."""

    seen: dict[str, int] = {}
    ids: set[str] = set()
    emails: set[str] = set()
    identified: bool = False


class LivePeople(msgspec.Struct):
    """People with live events since a moment (µs UTC; None without any): all `people`, or a sample with `share` of
    them."""

    since: int | None
    people: int = 0
    persons: list[LivePerson] = []
    share: float = 1.0


def emails_in(*values: object) -> set[str]:
    """The e-mails among strings, and in the members `email` and `$email` of objects, in lower case."""
    members = [one.get(name) for one in values if isinstance(one, dict) for name in ("email", "$email")]
    lower = (text.strip().lower() for text in (*values, *members) if isinstance(text, str))
    return {text for text in lower if _EMAIL.fullmatch(text)}


def read_live_people(asker: Asker, own: str, since: int | None, most: int = MOST_PEOPLE) -> LivePeople:
    """The people with live events from `since` on (µs UTC), or from the first one on. Events are live unless they meet
    the condition `own`, or are of any import. Raises Refused, Unfinished."""
    live = "JSONExtractString(properties, 'analytics_source') = ''" + (own and f" and not ({own})")
    if since is None:
        [[count, first]] = asker.query(f"select count(*), min(timestamp) from events where {live}").results
        if not count:
            return LivePeople(None)
        since = read_iso(str(first), space=True).us
    where = f"timestamp >= toDateTime64('{format_utc(since).rstrip('Z').replace('T', ' ')}', 6, 'UTC') and {live}"
    people = int(asker.query(f"select count(distinct person_id) from events where {where}").results[0][0])
    parts = _PARTS if people <= most else max(1, _PARTS * most // people)
    if parts < _PARTS:
        where += f" and substring(toString(person_id), 34, 3) < '{parts:03x}'"
    persons: dict[str, LivePerson] = {}
    select = "select person_id, distinct_id, min(timestamp), max(JSONExtractString(properties, 'email')),"
    select += f" max(JSONExtractString(properties, '$email')) from events where {where} group by person_id, distinct_id"
    read, more = 0, True
    while more:
        answer = asker.query(f"{select} order by person_id, distinct_id limit {PAGE} offset {read}")
        for id, distinct_id, first, *emails in answer.results:
            person = persons.setdefault(str(id), LivePerson())
            person.seen[str(distinct_id)] = read_iso(str(first), space=True).us
            person.emails |= emails_in(*emails)
        read, more = read + len(answer.results), len(answer.results) >= PAGE or answer.more
    for some in in_chunks(sorted(persons)):
        query = f"select person_id, distinct_id from person_distinct_ids where person_id in ({quoted(some)})"
        rows = asker.query(f"{query} order by person_id, distinct_id limit {_MOST_ROWS}").results
        if len(rows) >= _MOST_ROWS:
            raise Unfinished(f"{len(some)} persons have more than {_MOST_ROWS:,} ids", hint="look at them yourself")
        for id, distinct_id in rows:
            persons[str(id)].ids.add(str(distinct_id))
    query = "select id, properties, is_identified from persons where id in ({}) order by id"
    for id, properties, identified in in_lists(asker, query, persons):
        person = persons[str(id)]
        person.identified = bool(identified)
        person.emails |= emails_in(json.loads(properties) if isinstance(properties, str) else properties)
    for person in persons.values():
        person.ids |= person.seen.keys()
        person.emails |= emails_in(*person.ids)
    return LivePeople(since, people, list(persons.values()), parts / _PARTS)
