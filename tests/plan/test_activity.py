"""Events of one person that come too fast or twice: counted exactly, however many there are and in any order."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.encoder.buffer import hash_events
from pipeline.identity.kinds import PLACE_SHIFT
from pipeline.models import Finding
from pipeline.options import PlanOptions
from pipeline.plan.sealed.freshness import open_plan
from pipeline.plan.statistics.activity import UNITS, Activity, find_activity
from pipeline.report.page.check_words import command_of
from pipeline.timestamps import SECOND
from tests.golden.report.small_plan import small_plan
from tests.support.fact_rows import fact_tables
from tests.support.tiny_tool import write

LIMITS = {"second": 3, "minute": 5, "day": 8}
ALLOWED = PlanOptions(per_second=3, per_minute=5, per_day=8)
START = 1_650_000_000 * SECOND
Act = tuple[int, int, int]
"""A person, a time in seconds, and the event's content."""


def activity_of(acts: list[Act], folder: Path) -> Activity:
    """The activity of events, each a row of a block of ten."""
    facts = [
        {
            "person": person, "time": START + time * SECOND, "same": person * 1_000 + what, "name": str(what),
            "block": place // 10, "row": place % 10, "hi": place,
        }
        for place, (person, time, what) in enumerate(acts)
    ]  # fmt: skip
    with fact_tables(folder, facts) as tables:
        return find_activity(tables, ALLOWED)


def place_of(number: int) -> int:
    """The place of an act by its number."""
    block, row = divmod(number, 10)
    return block << PLACE_SHIFT | row


def late_of(acts: list[Act]) -> list[int]:
    """The last event of each time, by its place, that comes after one of the next time of its person and day."""
    times: dict[tuple[int, int], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for place, (person, time, _) in enumerate(acts):
        times[person, (START + time * SECOND) // UNITS["day"]][time].append(place)
    late = []
    for found in times.values():
        for now, following in pairwise(sorted(found)):
            late += [max(found[now])] if max(found[now]) > min(found[following]) else []
    return sorted(late)


def slowly(acts: list[Act]) -> tuple[int, dict[str, int]]:
    """The same counts, found without sorting."""
    windows: Counter[tuple[str, int, int]] = Counter()
    times: dict[tuple[int, int], list[int]] = defaultdict(list)
    for person, time, what in acts:
        times[person, what].append(time)
        for unit, length in UNITS.items():
            windows[unit, person, (START + time * SECOND) // length] += 1
    fast = {person for (unit, person, _), count in windows.items() if count > LIMITS[unit]}
    repeated: Counter[str] = Counter()
    for (_, what), found in times.items():
        for time in set(found):
            alone = not any(other != time and abs(other - time) < 5 for other in found)
            if alone and 2 <= found.count(time) <= 3:
                repeated[str(what)] += found.count(time) - 1
    return len(fast), dict(repeated)


ACTS = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 200), st.integers(0, 2)), min_size=1, max_size=60)


@settings(max_examples=40)
@given(acts=ACTS)
def test_counts_are_those_of_the_slow_way(acts: list[Act], tmp_path_factory: Any) -> None:
    """Fast ids, repeats, and events behind a later one."""
    found = activity_of(acts, tmp_path_factory.mktemp("acts"))
    late = late_of(acts)
    assert (found.fast_ids, found.repeated) == slowly(acts)
    assert (found.late, found.late_rows) == (len(late), tuple(place_of(place) for place in late[:20]))


def test_the_worst_comes_first_with_its_first_event(tmp_path: Path) -> None:
    """The worst is the one that exceeds its limit most; the window and the row are those of the first event in it."""
    acts = [(1, 10, 0), (2, 10, n := 1), *[(2, 500, n)] * 7, *[(3, 900 + second * 10, 2) for second in range(6)]]
    found = activity_of(acts, tmp_path)
    assert [(one.events, one.unit) for one in found.busy] == [(7, "second"), (6, "minute")]
    assert (found.busy[0].time, found.busy[0].row, found.busy[0].id) == (START + 500 * SECOND, 2, "u-1")
    assert found.fast_ids == 2


def test_a_stream_of_equal_events_is_not_recorded_twice(tmp_path: Path) -> None:
    """Nor are events of which a tool sends many within a second, nor different ones; a tag that fires twice is."""
    stream = [(1, second, 0) for second in range(100) for _ in range(2)]
    burst = [(2, 10, 1)] * 4
    different = [(3, 10, what) for what in range(20)]
    assert activity_of([*stream, *burst, *different], tmp_path / "a").repeated == {}
    twice = [(4, second * 60, 5) for second in range(30) for _ in range(2)]
    found = activity_of([*stream, *burst, *different, *twice], tmp_path / "b")
    assert found.repeated == {"5": 30}
    assert (found.repeats[0].row, found.repeats[0].other, found.repeats[0].name) == (place_of(224), place_of(225), "5")


def test_events_that_differ_in_time_and_uuid_alone_have_one_hash() -> None:
    """Whatever is in names and ids, and for all lengths of times."""
    names, ids = ['"properties":{"distinct_id":"x"', "A", "ü\\"], ["u1", '"timestamp":"', "\\"]
    events, heads, times = [], [], []
    spelled = (("12:00:00Z", 0), ("12:00:00.123456Z", 123_456), ("12:00:00.123Z", 123_000))
    for name, person, value, (time, fraction) in product(names, ids, (1, 2), spelled):
        properties = json.dumps({"distinct_id": person, "timestamp": value}, separators=(",", ":"))
        heads.append(f'{{"event":{json.dumps(name)},"properties":{properties}')
        events.append(f'{heads[-1]},"timestamp":"2020-12-30T{time}","uuid":"{len(events):036d}"}},'.encode())
        times.append(fraction)
    ends = np.cumsum([len(event) for event in events])
    hashes = hash_events(b"".join(events), ends, np.array(times))
    same = hashes[:, 2].tolist()
    assert len(set(zip(same, heads, strict=True))) == len(set(same)) == len(set(heads))
    assert hashes[:, :2].tobytes() == b"".join(xxhash.xxh3_128_digest(event[:-1]) for event in events)


COLUMNS = ("event=event", "distinct_id=who", "timestamp=at", "uuid=id")
WORDS = ["-m", "generic", "--for", "us", *(word for column in COLUMNS for word in ("--set", column))]


def planted(directory: Path, *, faults: bool) -> Path:
    """Thirty days in a file each: a list of eight items seen within a second by everyone, and, if it has faults, a bot
    and a tag that fires twice."""
    directory.mkdir()
    for day in range(30):
        at = datetime(2023, 1, 2, tzinfo=UTC) + timedelta(days=day)
        rows = []
        for who in range(40):
            moment = at + timedelta(minutes=17 * who)
            rows += [{"event": "Item Seen", "who": f"u{who}", "at": moment.isoformat(), "item": n} for n in range(8)]
            paid = moment + timedelta(minutes=1)
            rows += [{"event": "Paid", "who": f"u{who}", "at": paid.isoformat()}] * (2 if faults and who == 7 else 1)
        if faults and day == 13:
            rows += [
                {"event": "Search", "who": "bot-7", "n": n, "at": (at + timedelta(milliseconds=5 * n)).isoformat()}
                for n in range(900)
            ]
        write(directory / f"{at:%Y-%m-%d}.jsonl", [{**row, "id": f"{day}-{n}"} for n, row in enumerate(rows)])
    return directory


def test_planted_faults_are_found_and_nothing_in_a_clean_twin(call: Any, tmp_path: Path) -> None:
    """Each with count, share, file and rows, whatever the number of workers; the remedy removes the bot. Identical rows
    without a key have a warning of their own, and equal rows of one key are one event."""
    clean = planted(tmp_path / "clean", faults=False)
    assert call("plan", clean, *WORDS, "-o", tmp_path / "p0", "--json").json["verdict"] == "ready"
    source = planted(tmp_path / "faulty", faults=True)
    plans = [
        call("plan", source, *WORDS, "-o", tmp_path / f"p{n}", "--json", "--workers", workers, "--as-of", "2024-01-01")
        for n, workers in ((1, "0"), (2, "2"))
    ]
    gates = {gate["name"]: gate for gate in plans[0].json["gates"]}
    found = [[{**gate, "command": ""} for gate in plan.json["gates"]] for plan in plans]  # a command names the plan
    assert found[1] == found[0]
    assert gates["inhuman_rate"]["count"] == 1
    bot = "bot-7 has 200 in the second 2023-01-15T00:00:00Z (row 362 of 2023-01-15.jsonl)"
    assert gates["inhuman_rate"]["examples"] == [bot]
    assert gates["near_duplicate"]["count"] == 30
    paid = "Paid at 2023-01-02T02:00:00Z (row 72 of 2023-01-02.jsonl and row 73 of 2023-01-02.jsonl)"
    assert gates["near_duplicate"]["examples"][0] == paid
    assert "(0.26%)" in gates["near_duplicate"]["detail"]
    plan, _ = open_plan(tmp_path / "p1")
    commands = {gate.name: command_of(gate, plan, str(tmp_path / "p1")) for gate in plan.gates}
    listed, _, without = commands["inhuman_rate"].partition(" && ")
    subprocess.run(["bash", "-c", listed], check=True)
    again = call(*shlex.split(without)[1:], "--json", "--repeated", "0.5").json["gates"]
    assert not {"inhuman_rate", "near_duplicate"} & {gate["name"] for gate in again}
    seconds = call(*shlex.split(commands["near_duplicate"])[1:], "--json").json
    assert seconds["events"]["made"] == 2
    keyless = [{"event": "A", "who": f"u{n}", "at": "2023-01-02T00:00:00Z"} for n in range(40)]
    write(tmp_path / "keyless.jsonl", keyless * 2)
    write(tmp_path / "keyed.jsonl", [{**row, "id": row["who"]} for row in keyless * 2])
    for name, words in (("keyless", WORDS[:-2]), ("keyed", WORDS)):
        plan_of = call("plan", tmp_path / f"{name}.jsonl", *words, "-o", tmp_path / name, "--json").json
        assert "near_duplicate" not in {gate["name"] for gate in plan_of["gates"]}, name


def test_commands_of_checks_plan_the_export_otherwise() -> None:
    """They have the options that a check names, in place of those of the plan; without profiles for visitors."""
    plan = small_plan()
    for options, end in (
        (
            ["--group-types", "t 5,t 4"],
            " -o plan --timezone America/New_York --set source=web{kept} --group-types 't 5,t 4'",
        ),
        (["--timezone", "Asia/Tokyo"], " -m mixpanel -o plan --set source=web{kept} --timezone Asia/Tokyo"),
    ):
        found = command_of(Finding("any", "stop", "", options=options), plan, "plan")
        assert found.endswith(end.format(kept=" --for us --joined-users first")), found
    assert command_of(Finding("one_day_ids", "stop", ""), plan, "plan").endswith(" --persons identified")
    assert command_of(Finding("merges", "stop", ""), plan, "plan") == "head -n 20 plan/identities.jsonl"
    cut = Finding("inhuman_rate", "warning", "", 1, [f"{'x' * 59}… has 900 in the second 2023-01-02T00:00:00Z (row 1)"])
    assert command_of(cut, plan, "plan").startswith("backcast survey ")


def visits(directory: Path, *, days: int, returning: int) -> Path:
    """Every day ten visitors who never come again, and some who come every day; each has two events."""
    rows = [
        {"event": "Page", "who" if who[0] == "r" else "device": who, "id": f"{day}-{who}-{n}", "n": n,
         "at": (datetime(2023, 1, 2, tzinfo=UTC) + timedelta(days=day, minutes=n)).isoformat()}
        for day in range(days)
        for who in (*(f"visitor-{day}-{one}" for one in range(10)), *(f"regular-{one}" for one in range(returning)))
        for n in range(2)
    ]  # fmt: skip
    return write(directory / f"{days}-{returning}.jsonl", rows)


def test_events_of_ids_that_never_return_are_counted(call: Any, tmp_path: Path) -> None:
    """The report has their number; if they are the majority, a check says what to do, but not for a short history."""
    device = [*WORDS, "--set", "anonymous_id=device"]
    plan = call("plan", visits(tmp_path, days=30, returning=3), *device, "-o", tmp_path / "p1", "--json").json
    (gate,) = plan["gates"]
    assert (gate["name"], gate["level"], gate["count"]) == ("one_day_ids", "notice", 600)
    assert gate["examples"] == ["300 persons of 303, among them 300 anonymous ids"]
    page = (tmp_path / "p1" / "report.html").read_text()
    share = "600 events (76.9%) are of 300 persons of 303 seen on one UTC day alone, 600 of 300 anonymous ids."
    assert share in page
    words = [word.replace("=who", "=device") for word in WORDS]
    rejecting = ["-o", tmp_path / "p3", "--json", "--max-rejects", "100%"]
    users = call("plan", tmp_path / "30-3.jsonl", *words, *rejecting).json["gates"]
    assert [(one["name"], one.get("count")) for one in users if one["name"] == "one_day_ids"] == [("one_day_ids", 600)]
    few: list[tuple[int, int, list[str]]] = [(30, 3, ["--one-day", "80"]), (30, 3, ["--persons", "identified"])]
    for days, returning, words in (*few, (30, 30, []), (27, 3, [])):
        source = visits(tmp_path, days=days, returning=returning)
        gates = call("plan", source, *device, "-o", tmp_path / "p2", "--json", *words).json["gates"]
        assert "one_day_ids" not in {one["name"] for one in gates}, (days, returning, words)


def test_rows_out_of_time_order_are_reported_if_the_last_one_stays(call: Any, tmp_path: Path) -> None:
    """If the service copies a property of the events; with final values of their own nothing depends on the order."""
    row = {"event": "Seen", "distinct_id": "u", "$browser": "Firefox"}
    rows = [row | {"timestamp": f"2023-01-02T00:00:{second:02}Z"} for second in range(12, 0, -1)]
    found = {}
    for name, some, more in (
        ("late", rows, ()),
        ("sorted", rows[::-1], ()),
        ("final", rows, ("--promoted-properties", "final")),
        ("plain", [{name.lstrip("$"): value for name, value in row.items()} for row in rows], ()),
    ):
        source = write(tmp_path / f"{name}.jsonl", some)
        columns = [word for column in ("event", "distinct_id", "timestamp") for word in ("--set", f"{column}={column}")]
        assert call("plan", source, "-m", "generic", *columns, "-o", tmp_path / name, *more).code == 0
        found[name] = [one for one in open_plan(tmp_path / name)[0].gates if one.name == "not_in_time_order"]
    (late,) = found.pop("late")
    assert (late.count, late.examples[0]) == (11, "row 2 of late.jsonl")
    assert not any(found.values())
