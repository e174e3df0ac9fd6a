"""The invariants of a plan (docs/know/promises.md), over exports with every kind of row."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.commands import in_process, process
from tests.support.tiny_tool import AS_OF, DAY, THEN, Made, identity_of, make_plan, row, write

pytestmark = pytest.mark.slow

TIMES = st.sampled_from([THEN, THEN + 1, THEN + DAY, THEN + 3 * DAY, 0, -1, AS_OF])
SINGLE = st.one_of(
    st.builds(row, at=TIMES, key=st.sampled_from(["k1", "k2", "k3"]), got=st.sampled_from([None, 1, 2]),
              note=st.sampled_from(["a", "b"])),
    st.builds(row, st.sampled_from(["Seen", "Left"]), st.sampled_from(["u-1", "u-2", "gone", ""]), TIMES),
    st.builds(lambda code: {"skip": code}, st.sampled_from(["test_row", "heartbeat"])),
    st.builds(lambda code: {"fault": code}, st.sampled_from(["bad_value"])),
    st.builds(lambda user, time: {"id": user, "link": "d-1", "at": time}, st.sampled_from(["u-1", "u-2"]), TIMES),
)  # fmt: skip
"""Rows of at most one event: copies with a key and without, and some of each kind that is left out."""
ROWS = st.lists(
    st.one_of(SINGLE, SINGLE, st.builds(lambda many: {"many": many}, st.lists(SINGLE, max_size=3))), max_size=14
)


def laid_out(place: Path, files: list[list[dict[str, Any]]], *, packed: bool = False, **options: Any) -> Made:
    """A plan of rows in these files. Blank lines make two files differ, as equal ones are read once."""
    paths = []
    for number, rows in enumerate(files):
        path = write(place / f"{number}.jsonl", ["" for _ in range(number)] + list(rows))
        if packed:
            path.with_suffix(".jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
            path = path.with_suffix(".jsonl.gz")
        if rows:
            paths.append(path)
    return make_plan(place / "plan", paths, excluded=["gone"], since=THEN - DAY * 400, **options)


def cut(rows: list[dict[str, Any]], places: list[int]) -> list[list[dict[str, Any]]]:
    """Rows cut into files at these places."""
    edges = [0, *sorted(place % (len(rows) + 1) for place in places), len(rows)]
    return [rows[start:stop] for start, stop in pairwise(edges)]


@settings(max_examples=25, deadline=None)
@given(ROWS.filter(len), st.lists(st.integers(0, 99), max_size=2), st.booleans())
def test_a_plan_balances_shows_what_it_rejects_and_is_what_an_apply_makes(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], places: list[int], collapse: bool
) -> None:
    """Over one plan each: `balances`, `rejects_are_found`, `sends_what_was_planned`, `cells_add_up`."""
    place = tmp_path_factory.mktemp("invariants")
    files = cut(rows, places)
    made = laid_out(place, files, collapse_identical=collapse)
    balances(made, files)
    rejects_are_found(made, place)
    sends_what_was_planned(made)
    if not any("many" in one for one in rows):
        cells_add_up(made, rows)


def cells_add_up(made: Made, rows: list[dict[str, Any]]) -> None:
    """Every row with a time is in one cell of its UTC day, whatever its outcome."""
    found = Counter[str]()
    for (_, day, _), count in made.cells().items():
        assert count > 0
        found[day] += count
    days = (datetime.fromtimestamp(one["at"] / 1_000_000, UTC).date() for one in rows if "event" in one)
    assert found == Counter(day.isoformat() for day in days)


def balances(made: Made, files: list[list[dict[str, Any]]]) -> None:
    """Rows read = mapped + skipped + rejected, in each part and in total, and each code's count adds up."""
    plan = made.plan
    assert [part.rows for part in plan.parts] == [len(file) for file in files if file]
    for part in plan.parts:
        assert part.rows == part.mapped + part.skipped + part.rejected
        assert min(part.mapped, part.skipped, part.rejected) >= 0
    assert plan.rows.balanced
    assert plan.rows.read == sum(map(len, files))
    assert (plan.rows.skipped, plan.rows.rejected) == (sum(plan.skips.values()), sum(plan.rejects.values()))
    assert len(made.directory.rejects.read_bytes().splitlines()) == plan.rows.rejected
    assert all(count > 0 for counts in (plan.skips, plan.rejects, plan.warnings) for count in counts.values())


def rejects_are_found(made: Made, place: Path) -> None:
    """By its number and its byte offset each rejected row is found again in its file, and it has a code and a
    message."""
    for reject in map(json.loads, made.directory.rejects.read_text().splitlines()):
        content = (place / reject["part"]).read_bytes()
        assert reject["record"] == [line for line in content.decode().splitlines() if line][reject["row"] - 1]
        assert content[reject["offset"] :].startswith(reject["record"].encode())
        assert reject["code"]
        assert reject["detail"]


def sends_what_was_planned(made: Made) -> None:
    """An apply makes the planned number of events, by cell, each with a unique uuid."""
    sent = made.sent()
    assert len(sent) == made.plan.events.phases["events"]
    assert len({event["uuid"] for event in sent}) == len(sent)
    cells = Counter({cell[:2]: count for cell, count in made.cells().items() if cell[2] == "mapped"})
    assert Counter((event["event"], event["timestamp"][:10]) for event in sent) == cells
    assert dict(made.plan.names) == Counter(event["event"] for event in sent)
    times = sorted((event["timestamp"] for event in sent), key=datetime.fromisoformat)
    assert (made.plan.first, made.plan.last) == ((times[0], times[-1]) if times else (None, None))


def test_a_plan_is_the_same_under_any_zone_language_hash_seed_and_number_of_workers(tmp_path: Path) -> None:
    """What would be sent does not depend on the host: one digest, the same requests."""
    for file in range(3):
        lines = []
        for number in range(40):
            time = 1_615_700_000 + number * 3_600 + file  # over the spring change of New York's clocks
            members = {
                "time": time,
                "distinct_id": f"u-{number % 7}",
                "mp_processing_time_ms": time * 1000 + 14_400_500,
            }
            lines.append(json.dumps({"event": "Größe", "properties": {**members, "$insert_id": f"{file}-{number}"}}))
        write(tmp_path / "export" / f"{file}.jsonl", lines)
    words = ("-m", "mixpanel", "--timezone", "America/New_York", "--as-of", "2024-01-01", "--json")
    host = {"TZ": "America/New_York", "LC_ALL": "tr_TR.UTF-8", "PYTHONUTF8": "0", "PYTHONHASHSEED": "2"}
    found = []
    for run, workers, environment in ((in_process, "0", {}), (process, "2", host)):
        place = tmp_path / workers
        ran = run("plan", tmp_path / "export", "-o", place, *words, "--workers", workers, env=environment)
        assert ran.returncode == 0, ran.stderr
        plan = json.loads(ran.stdout)
        found.append((plan["digest"], plan["verdict"], plan["events"], (place / "requests.jsonl").read_bytes()))
    assert found[0] == found[1]
    assert (found[0][1], found[0][2]["phases"]["events"]) == ("ready", 120)


@settings(max_examples=12, deadline=None)
@given(ROWS.filter(len), st.integers(0, 2**32), st.lists(st.integers(0, 99), max_size=3), st.booleans(), st.booleans())
def test_no_order_of_rows_or_files_changes_what_is_sent(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[dict[str, Any]],
    seed: int,
    places: list[int],
    packed: bool,
    collapse: bool,
) -> None:
    """Shuffled, split, merged, compressed: the same uuids, names, ids and times, and the same merges."""
    place = tmp_path_factory.mktemp("invariants")
    one = laid_out(place / "one", [rows], collapse_identical=collapse)
    shuffled = list(rows)
    Random(seed).shuffle(shuffled)
    other = laid_out(place / "other", cut(shuffled, places), packed=packed, collapse_identical=collapse)
    assert sorted(map(identity_of, other.sent())) == sorted(map(identity_of, one.sent()))
    assert other.identities() == one.identities()
    assert other.cells() == one.cells()


def test_an_export_with_one_row_in_a_hundred_copied_across_files_is_sent_whole_and_once(tmp_path: Path) -> None:
    """Keyless copies are kept, each with a uuid of its own; keyed ones leave one event; the order of files does not
    matter."""
    random = Random(7)
    rows = [row(id=f"u-{random.randrange(50)}", at=THEN + n, key=f"k{n}" if n % 2 else None, n=n) for n in range(2_000)]
    rows += [dict(random.choice(rows)) for _ in range(20)]
    sent = []
    for number, size in enumerate((2_020, 300, 700)):
        random.shuffle(rows)
        files = [rows[start : start + size] for start in range(0, len(rows), size)]
        made = laid_out(tmp_path / str(number), files, packed=number == 1)
        sent.append(sorted(map(identity_of, made.sent())))
    copies = sum(count - 1 for count in Counter(one.get("key") for one in rows if one.get("key")).values())
    assert copies > 0
    assert len(sent[0]) == len({one[0] for one in sent[0]}) == 2_020 - copies
    assert sent == [sent[0]] * 3


def test_the_source_id_keeps_two_projects_of_one_tool_apart(tmp_path: Path) -> None:
    """No other option affects a uuid."""

    def uuid(place: str, **options: Any) -> str:
        return str(laid_out(tmp_path / place, [[row(key="k")]], **options).sent()[0]["uuid"])

    plain = uuid("a")
    assert uuid("b", settings={"source": "eu"}) != plain
    assert uuid("c", dialect="posthog", name="again", as_of=AS_OF + DAY, provenance=False) == plain


def test_a_row_of_several_events_that_falls_leaves_no_count_behind(tmp_path: Path) -> None:
    """One event outside the window, one that cannot be sent: the row is one reject, and each day still balances."""
    early, late = row(key="a", at=THEN - 1), row(key="b", at=THEN, id="x" * 201)
    path = write(tmp_path / "a.jsonl", [{"many": [early, row(key="c"), late]}, row(key="d")])
    made = make_plan(tmp_path / "plan", [path], since=THEN)
    assert (made.plan.rows.mapped, made.plan.rows.skipped, made.plan.rows.rejected) == (1, 0, 1)
    assert made.plan.skips == {}
    assert {outcome: count for (_, _, outcome), count in made.cells().items()} == {"mapped": 1, "long_distinct_id": 1}


def test_events_that_would_overwrite_a_profile_are_counted(tmp_path: Path) -> None:
    """`$set` takes the last value sent, however old; the plan says how many events have one. `$set_once` is safe."""
    rows = [row(key=key, **properties) for key, properties in (("a", {"$set": {"plan": "pro"}}), ("b", {}))]
    rows += [row(**{"$set": {"plan": "free"}}), row(key="c", **{"$set_once": {"plan": "pro"}})]
    made = make_plan(tmp_path / "plan", [write(tmp_path / "a.jsonl", [row(key="0"), *rows])])
    assert (made.plan.warnings, made.plan.verdict) == ({"overwrites_person": 2}, "warnings")
    assert made.plan.examples["overwrites_person"].row == 2
