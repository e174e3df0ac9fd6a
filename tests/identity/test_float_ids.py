"""Ids that were converted to floating-point numbers are found, and read as integers again."""

from __future__ import annotations

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pipeline
from pipeline import extractors
from pipeline.errors import UnfitExport
from pipeline.extractors.file_rules import FileRules
from pipeline.id_hash import hash_id
from pipeline.identity.database import Database
from pipeline.identity.event_ids import count_people, count_without_events, find_floats, looks_like_float
from pipeline.identity.kinds import FLOAT as FLOAT_FLAG
from pipeline.identity.observed_pairs import ObservedPairs
from pipeline.models import Note, PersonUpdate
from pipeline.options import PlanOptions
from pipeline.transform.facts import facts_file
from tests.support.commands import in_process
from tests.support.identity_pairs import SeenId
from tests.support.plan_facts import found
from tests.support.services import NOW
from tests.support.stated import add_seen, statements

NUMBERS = st.sampled_from([0, 7, 42, -3, 1000, 2**53 - 1, 2**53, 10**17])
FORMS = st.sampled_from(["{}", "{}.0", "{:.1e}", "{:.0e}", "u-{}", "{}.00", "{}.5"])
IDS = st.builds(lambda form, number: form.format(number), FORMS, NUMBERS)
ROWS = st.lists(st.tuples(IDS, st.none() | IDS, st.none() | IDS), max_size=8)
FLOAT = re.compile(r"(-?\d+)\.0")


def _stated(user: str, anonymous: str | None, profile: str | None) -> list[PersonUpdate]:
    """What a row states with these arguments: two ids, and a profile."""
    pair = [] if anonymous is None else [PersonUpdate(user, 0, Note(user, anonymous))]
    return pair + ([] if profile is None else [PersonUpdate(profile, 0, Note(set={"plan": msgspec.Raw(b"1")}))])


FACTS = pa.schema([
    ("block", pa.uint32()), ("row", pa.uint32()), ("position", pa.uint16()), ("person", pa.uint64()),
    ("distinct_id", pa.string()), ("time", pa.int64()), ("flags", pa.uint8()), ("bytes", pa.uint32()),
])  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=4))
def test_ids_are_found_wherever_they_are(files: list[list[tuple[str, str | None, str | None]]]) -> None:
    """Ids of events, in both columns of pairs, and in profiles; those of events are counted as before, also those that
    a row without an event names as a user's, and so are profiles without an event."""
    blocks = [[outcome for row in rows for outcome in _stated(*row)] for rows in files]
    with statements(*blocks) as found_in, TemporaryDirectory() as folder:
        for number, rows in enumerate(files):
            facts = [
                {
                    "block": number, "row": row, "position": 0, "person": hash_id(user), "distinct_id": user,
                    "time": row, "flags": FLOAT_FLAG * looks_like_float(user), "bytes": 1,
                }
                for row, (user, *_) in enumerate(rows)
            ]  # fmt: skip
            pq.write_table(pa.Table.from_pylist(facts, FACTS), facts_file(found_in._facts, number))
        pairs = found_in.stated("pairs")
        if pairs:
            found_in.add_pairs(ObservedPairs(found_in.database), [(number, 1) for number in range(len(files))])
        found_in.add_event_ids(pairs=pairs)
        found_in.database.run("CREATE TABLE sent_ids (person UBIGINT)")
        found_in.database.insert("sent_ids", ((hash_id(one),) for rows in files for *_, one in rows if one))
        users = {user for rows in files for user, other, _ in rows if other is not None}
        plain = [
            SeenId(hash_id(user), row, user in users, last=row) for rows in files for row, (user, *_) in enumerate(rows)
        ]
        rows = [row for some in files for row in some]
        events, profiles = {user for user, *_ in rows}, {profile for *_, profile in rows if profile}
        every = events | profiles | {other for _, other, _ in rows if other}
        written = {m[1] for one in every if (m := FLOAT.fullmatch(one)) and abs(int(m[1])) < 2**53}
        large = {one for one in every if (m := FLOAT.fullmatch(one)) and m[1] not in written}
        large |= {one for one in every if "e+1" in one and one[-2:] >= "16"}
        counts = find_floats(found_in.database)
        expected = (len(written), len(written & (events | profiles)), len(large))
        count_people(found_in.database, ())
        assert count_without_events(found_in.database) == len(profiles - events)
        assert (counts[:3] if counts else (0, 0, 0)) == expected
        with Database(Path(folder)) as database:
            add_seen(database, plain)
            assert _counted(found_in.database) == _counted(database)


def _counted(database: Database) -> list[Any]:
    return database.rows('SELECT person, time, events, "user" & 1, last FROM ids WHERE events > 0 ORDER BY person')


def as_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    path.with_suffix(".csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def as_jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.with_suffix(".jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def as_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    pq.write_table(pa.Table.from_pylist(rows), path.with_suffix(".parquet"))


@pytest.mark.parametrize("write", [as_csv, as_jsonl, as_parquet])
def test_a_plan_stops_for_two_spellings_and_integers_join_them(tmp_path: Path, write: Any) -> None:
    """One file has integers, the other floats; a draft for both reads them as one id without help."""
    export = tmp_path / "export"
    export.mkdir()
    for name, user in (("one", 42), ("two", 42.0)):
        write(export / name, [{"event": "Seen", "user_id": user, "at": f"2023-01-0{len(name)}T00:00:00Z"}])
    asked: dict[str, str] = {"event": "event", "distinct_id": "user_id", "timestamp": "at"}
    plans = [
        pipeline.plan_export(
            str(export), tmp_path / f"plan{number}", PlanOptions(mapping="generic", workers=0, as_of=NOW, settings=some)
        )
        for number, some in enumerate((asked, asked | {"integers": "user_id"}))
    ]
    assert [(gate.name, gate.level, gate.count) for gate in found(plans[0].gates)] == [("split_ids", "stop", 1)]
    assert (found(plans[1].gates), plans[1].people.profiles.people) == ([], 1)
    draft = tmp_path / "draft.yaml"
    assert in_process("mapping", "new", export, "-o", draft).returncode == 0
    assert "integers: [user_id]" in draft.read_text(encoding="utf-8")
    with pytest.raises(UnfitExport, match="no row of the export has the column 'usr'"):
        pipeline.plan_export(
            str(export),
            tmp_path / "plan",
            PlanOptions(mapping="generic", workers=0, settings=asked | {"integers": "usr"}),
        )


def test_a_rounded_id_is_a_warning(tmp_path: Path) -> None:
    """It may stand for several ids; an integer of that size is exact, and a path leads to an id inside an object."""
    rows = [
        f'{{"event":"Seen","user":{{"id":{one}}},"at":"2023-01-01T00:00:00Z"}}\n' for one in ("1e17", 10**17, "7.0")
    ]
    (tmp_path / "x.jsonl").write_text("".join(rows), encoding="utf-8")
    asked = {"event": "event", "distinct_id": "/user/id", "timestamp": "at", "integers": "user/id"}
    options = PlanOptions(mapping="generic", workers=0, as_of=NOW, settings=asked)
    plan = pipeline.plan_export(str(tmp_path / "x.jsonl"), tmp_path / "plan", options)
    gate = next(gate for gate in plan.gates if gate.name == "float_ids")
    assert (gate.level, gate.count) == ("warning", 1)
    assert "row 1 of x.jsonl" in gate.detail


@pytest.mark.parametrize(("event", "profiles", "where"), [
    ("42", ["42.0"], "row 1 of x.jsonl"), ("42.0", ["42"], "row 1 of x.jsonl"), ("7", ["42", "42.0"], "in profiles"),
])  # fmt: skip
def test_a_plan_stops_for_a_profile_in_another_spelling(
    tmp_path: Path, event: str, profiles: list[str], where: str
) -> None:
    """Whether the event or the profile has the float, and if no event has the id."""
    rows = [{"event": "Seen", "properties": {"time": 1_600_000_000, "distinct_id": event, "$insert_id": "i"}}]
    rows += [{"$distinct_id": one, "$properties": {"plan": "x"}} for one in profiles]
    as_jsonl(tmp_path / "x", rows)
    options = PlanOptions(mapping="mixpanel", timezone="UTC", workers=0, as_of=NOW)
    plan = pipeline.plan_export(str(tmp_path / "x.jsonl"), tmp_path / "plan", options)
    assert [(gate.level, gate.count, where in gate.detail) for gate in plan.gates if gate.name == "split_ids"] == [
        ("stop", 1, True)
    ]


def test_only_floats_change(tmp_path: Path) -> None:
    """With a path too: the object's other members, its order, and whether it is a string stay the same."""
    users = ['{"z":1,"id":7}', '{"z":1.10,"id":8.0}', json.dumps('{"z": 1, "id": 9}'), json.dumps('{"z":1,"id":"9.0"}')]
    (tmp_path / "x.jsonl").write_text("".join(f'{{"user":{one}}}\n' for one in users), encoding="utf-8")
    (part,) = extractors.open_source([str(tmp_path / "x.jsonl")], rules=FileRules(integers=("user/id",))).parts
    (block,) = extractors.blocks(part)
    rows: Any = extractors.rows(part, block)
    expected = [users[0], '{"z":1.10,"id":8}', users[2], json.dumps('{"z":1,"id":"9"}')]
    assert [bytes(row["user"]).decode() for row in rows] == expected
    assert [msgspec.json.decode(rows.canonical(row)) for row in range(4)] == [
        {"user": json.loads(one)} for one in expected
    ]
