"""Whether the people seen at a target after the cut-over are those of the imported history.

A live person is the same as one of the history if an id of it is in the plan, or a merge says so. It is split from one
if both have an e-mail, or if it has a device that the plan does not merge because only its user's events have it. A
pair of ids joins the two unless both are identified: the service never merges two identified persons
(docs/know/service.md#merges). What more than two people share joins no people.

Tables of the scratch database, joined by hashes: `owners` has each id that the plan merges, with the least of the ids
that it is merged with; `history` has the ids of events and profiles, with the `last` event before the cut-over.
"""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import msgspec

from pipeline.encoder.encoded import read_properties
from pipeline.encoder.updates import SealedPerson
from pipeline.errors import UsageError
from pipeline.files import write_atomically
from pipeline.identity.database import Database, file_at
from pipeline.identity.observed_pairs import pair_problem
from pipeline.ledger import read_totals
from pipeline.plan.requests.query import opened
from pipeline.plan.requests.store import RequestReader, read_requests
from pipeline.plan.sealed.directory import EVENTS, Directory, read_lines
from pipeline.plan.sealed.discarded import refuse_discarded
from pipeline.plan.sealed.manifest import Plan
from pipeline.text import quoted
from pipeline.timestamps import DAY, format_utc
from pipeline.validator.placeholder_ids import is_placeholder
from pipeline.verify.findings import Continuity, SplitPerson
from pipeline.verify.landed import Asker, in_lists, persons_of
from pipeline.verify.live_people import LivePeople, emails_in, read_live_people
from pipeline.verify.provenance import having, provenance_of

SHOWN = 20
"""A result lists at most this many people who are split."""
_MOST_IDS = 200
"""As many ids of one e-mail are enough: no person has more."""
_PLACEHOLDER = re.compile(
    r"(no-?reply|donotreply|none|null|unknown|anonymous|test|example|user|email|name)@.*|.*@(example|test|localhost)\..*"
)
_TEXT = re.compile(rb'"([^"\\]*@[^"\\]*)"')

_GIVEN = "(SELECT unnest($1::UBIGINT[]) AS owner) AS given"


def check_continuity(asker: Asker, plan: Plan, directory: Directory, cut_over: int | None) -> Continuity:
    """Compare the people of a target since `cut_over` (µs UTC), or since its first live event, with those of a plan,
    and write the pairs that would join those who are split.

    Raises UsageError if the plan cannot be compared; Refused, Unfinished, StalePlan.
    """
    refuse_discarded(plan, directory)
    own, totals = having(provenance_of(plan)), read_totals(directory.ledger)
    if not own and (totals.settled or totals.in_doubt):
        raise UsageError(
            f"{directory.name} was sent without provenance, so its people cannot be distinguished from live ones",
            hint=f"compare its events: backcast verify {quoted(directory.name)}",
        )
    live = read_live_people(asker, own, cut_over)
    directory.continuity.unlink(missing_ok=True)
    if live.since is None:
        return Continuity()
    with opened(directory) as database:
        return _Comparison(database, plan, directory, live, live.since).result(asker)


class _Split(NamedTuple):
    """A live person (its number) and the owner in the history with one of its ids, and what both have."""

    person: int
    owner: int
    id: str
    by: str


class _Comparison:
    def __init__(self, database: Database, plan: Plan, directory: Directory, live: LivePeople, since: int) -> None:
        self._rows, self._database = database.rows, database
        self._plan, self._directory, self._live, self._since = plan, directory, live, since
        pairs = f"read_parquet({file_at(directory.pairs)})"
        self._pairs = f"(SELECT *, hash(anonymous_id) AS one, hash(user_id) AS other FROM {pairs})"
        merged = f"{self._pairs} WHERE decision IN ('merge', 'first_user')"
        database.run(f"CREATE TABLE edges AS SELECT one, other FROM {merged} UNION SELECT other, one FROM {merged}")
        database.run("CREATE TABLE owners AS SELECT one AS id, one AS owner FROM edges GROUP BY one")
        apart = "edges JOIN owners AS a ON a.id = one JOIN owners AS b ON b.id = other"
        while database.number(f"SELECT count(*) FROM {apart} WHERE a.owner <> b.owner"):
            least = f"SELECT one AS id, least(min(a.owner), min(b.owner)) AS owner FROM {apart} GROUP BY one"
            database.run(f"CREATE OR REPLACE TABLE owners AS {least}")
        self._put("profiles", ((person.distinct_id, 0) for person in read_lines(directory.persons, SealedPerson)))
        database.run(
            "CREATE TABLE history AS SELECT hash(CAST(distinct_id AS VARCHAR)) AS id,"
            f" max(time) FILTER (time < {since}) AS last FROM facts WHERE code IS NULL GROUP BY 1"
            " UNION ALL SELECT id, NULL FROM profiles"
        )

    def result(self, asker: Asker) -> Continuity:
        """The counts; the pairs are written into the plan's directory."""
        live = self._live
        # The number of an id is even if the person has live events with it.
        self._put("live", (
            (id, 2 * number + (id not in person.seen))
            for number, person in enumerate(live.persons) for id in person.ids if not is_placeholder(id)
        ))  # fmt: skip
        matches: dict[int, dict[int, bool]] = defaultdict(dict)
        for person, owner, direct in self._rows(
            "SELECT number // 2, coalesce(owner, id), bool_or(number % 2 = 0 AND stated) FROM live JOIN (SELECT id,"
            " true AS stated FROM history UNION SELECT id, false FROM owners) USING (id) LEFT JOIN owners USING (id)"
            " GROUP BY 1, 2"
        ):
            matches[person][owner] = direct
        splits, ambiguous = self._splits(matches)
        examples, pairs = self._joined(asker, splits)
        by_id, looked_up = sum(any(owners.values()) for owners in matches.values()), len(live.persons)
        returned = {one for owners in matches.values() for one in owners} | {split.owner for split in splits}
        [(active, again)] = self._rows(
            "SELECT count(*), count(given.owner) FROM (SELECT DISTINCT coalesce(owner, id) AS owner FROM history LEFT"
            f" JOIN owners USING (id) WHERE last >= {self._since - 30 * DAY}) LEFT JOIN {_GIVEN} USING (owner)",
            list(returned),
        )
        return Continuity(
            cut_over=format_utc(self._since), people=live.people, looked_up=looked_up,
            same=len(matches), by_id=by_id, by_merge=len(matches) - by_id, split=len(splits), ambiguous=ambiguous,
            new=looked_up - len(matches) - len(splits) - ambiguous,
            margin=round(98 / max(looked_up, 1) ** 0.5, 1) if live.share < 1 else 0.0,
            joinable=len(pairs), merges=str(self._directory.continuity) if pairs else "",
            active=active, not_seen_again=max(0, active - round(again / live.share)), splits=examples,
        )  # fmt: skip

    def _splits(self, matches: Mapping[int, Mapping[int, bool]]) -> tuple[list[_Split], int]:
        """Who is split; and how many share an e-mail or a device with several people."""
        live: dict[str, set[int]] = defaultdict(set)
        for number, person in enumerate(self._live.persons):
            for trace in person.emails | person.ids:
                live[trace].add(number)
        unknown = {trace for trace, numbers in live.items() if numbers - matches.keys()}
        found: dict[int, dict[int, _Split]] = defaultdict(dict)
        ambiguous: set[int] = set()
        for trace, owners in self._holders(unknown).items():
            apart = {one for one in live[trace] if not matches.get(one, {}).keys() & owners.keys()}
            if len(owners) > 1 or len(apart) > 1 or _PLACEHOLDER.fullmatch(trace):
                ambiguous |= apart - matches.keys()
            for number, (owner, id) in product(apart - matches.keys(), owners.items()):
                found[number][owner] = _Split(number, owner, id, "email" if emails_in(trace) else "device")
        splits = [
            one for some in found.values() for one in some.values() if len(some) == 1 and one.person not in ambiguous
        ]
        return sorted(splits), len(ambiguous | found.keys()) - len(splits)

    def _holders(self, traces: Collection[str]) -> dict[str, dict[int, str]]:
        """The owners of these e-mails and devices in the history, each with one of the ids that have it."""
        ids: dict[str, set[str]] = {trace: set() for trace in traces}
        for id, some in self._stated(traces):
            for trace in some & ids.keys():
                if len(ids[trace]) < _MOST_IDS:
                    ids[trace].add(id)
        self._put("held", ((id, number) for number, some in enumerate(ids.values()) for id in some))
        texts, found = list(ids), defaultdict[str, dict[int, str]](dict)
        query = "SELECT number, coalesce(owner, id), min(text) FROM held LEFT JOIN owners USING (id) GROUP BY 1, 2"
        for number, owner, id in self._rows(query):
            found[texts[number]][owner] = id
        return found

    def _stated(self, traces: Collection[str]) -> Iterator[tuple[str, set[str]]]:
        """Ids of the plan with their e-mails, and with devices that it does not merge; of events, those that have one
        of the traces."""
        devices = f"SELECT user_id, anonymous_id FROM {self._pairs} SEMI JOIN live ON id = one"
        yield from ((user, {device}) for user, device in self._rows(f"{devices} WHERE reason = 'never_alone'"))
        for person in read_lines(self._directory.persons, SealedPerson):
            values = [msgspec.json.decode(one) for one in (person.set, person.set_once)]
            yield person.distinct_id, emails_in(person.distinct_id, *values)
        names = ("distinct_id", "email", "$email", "$set", "$set_once")
        with RequestReader(self._directory, self._plan.files) as reader:
            for event in (one for some in read_requests(self._directory, EVENTS) for one in reader.events(some)):
                if any(text.decode().strip().lower() in traces for text in _TEXT.findall(event)):
                    raw = read_properties(event)
                    read = {name: msgspec.json.decode(raw[name]) for name in names if name in raw}
                    id = str(read["distinct_id"])
                    yield id, emails_in(id, read, read.get("$set"), read.get("$set_once"))

    def _joined(self, asker: Asker, splits: Sequence[_Split]) -> tuple[list[SplitPerson], dict[str, str]]:
        """Examples of people who are split, and the pairs (anonymous id, user id) that join them."""
        users = dict(self._rows(
            f"SELECT owner, min(user_id) FROM {self._pairs} JOIN owners ON id = other SEMI JOIN {_GIVEN} USING (owner)"
            " GROUP BY owner", [split.owner for split in splits],
        ))  # fmt: skip
        persons = persons_of(asker, [users.get(split.owner, split.id) for split in splits])
        rows = in_lists(asker, "select id, is_identified from persons where id in ({})", set(persons.values()))
        identified = {str(person) for person, flag in rows if flag}
        examples: list[SplitPerson] = []
        pairs: dict[str, str] = {}
        for number, owner, text, by in splits:
            person, id = self._live.persons[number], users.get(owner, text)
            last = max(person.seen, key=lambda one: (person.seen[one], one))  # an SDK uses a user's id last
            one, other = (id, last) if person.identified else (last, id)
            both = person.identified and (owner in users or persons.get(id) in identified)
            taken = one in pairs or other in pairs or one in pairs.values()
            if joins := not (both or taken or pair_problem(one, other)):
                pairs[one] = other
            examples.append(SplitPerson(last, id, by, format_utc(min(person.seen.values())), joins))
        if pairs:
            table = io.StringIO(newline="")
            csv.writer(table, lineterminator="\n").writerows([("anonymous_id", "user_id"), *sorted(pairs.items())])
            write_atomically(self._directory.continuity, table.getvalue().encode())
        return examples[:SHOWN], pairs

    def _put(self, name: str, rows: Iterable[tuple[str, int]]) -> None:
        """A table of ids (`text`) with a `number`, and with the hash of each as `id`."""
        self._database.run(f"CREATE TABLE {name}_texts (text VARCHAR, number BIGINT)")
        self._database.insert(f"{name}_texts", rows)
        self._database.run(f"CREATE VIEW {name} AS SELECT hash(text) AS id, text, number FROM {name}_texts")
