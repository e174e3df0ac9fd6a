"""Cases of the models of keys and of a calendar that the product fails: to be moved to the tests as each is mended.

The number in a name is that of the fault. Run them with `pytest tests/models/open_jobs_and_keys.py`.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import pipeline
from pipeline.config import Secret
from pipeline.options import ApplyOptions, PlanOptions
from tests.models import test_calendar, test_keys
from tests.models.calendar import HOUR, LAG, Calendar, Rows
from tests.models.keys import DAY, Row
from tests.models.test_calendar import Night, play
from tests.models.test_keys import judge
from tests.support.deliveries import COLUMNS, KEY
from tests.support.jobs import KEYS, PERSONAL_KEY, code, copies, days, outcomes, put, ran, run, write_job
from tests.support.services import running


def event(key: str, day: int, hour: int, user: str = "", device: str = "", name: str = "Seen") -> Row:
    """An event with a value of its own."""
    at = day * DAY + hour * HOUR
    return Row("event", key, at, at + 1, user, device, name, values=(("value", at),))


def group(key: str, day: int, hour: int, plan: str, kind: str = "company") -> Row:
    """What a group is from a moment on."""
    at = day * DAY + hour * HOUR
    return Row("group", key, at, at + 1, "u0", group=(kind, "g0"), values=(("plan", plan),))


def job(*windows: Rows, late: Mapping[int, Rows] = {}, holds: str = "", lost: str = "") -> tuple[Calendar, list[Night]]:
    """A night for each window and one more, on which late files come. `holds` and `lost` have a letter for each night
    on which merges are held (h), or after which the state is lost (x)."""
    nights: list[Night] = []
    for number in range(len(windows) + bool(late)):
        files: dict[int, dict[str, Rows]] = {
            window: {"a.jsonl": rows} for window, rows in enumerate(windows[: number + 1]) if rows
        }
        if number == len(windows):
            for window, rows in late.items():
                files.setdefault(window, {})["late.jsonl"] = rows
        now = min(number + 1, len(windows)) * DAY + LAG
        nights.append((now, files, holds[number : number + 1] != "h", "", lost[number : number + 1] == "x"))
    return Calendar(len(windows), 9), nights


PAIR, ALONE, OTHER = event("k1", 0, 1, "u0", "d0"), event("k2", 1, 1, "", "d0"), event("k3", 2, 1, "u1")
OLD, NEW = group("k4", 0, 1, "a"), group("k5", 0, 9, "b")
SIX = [group(f"k{number}", number // 3, number, "a", f"type{number}") for number in range(6)]
AGAIN = replace(PAIR, at=PAIR.at + HOUR, values=(("value", 1),))
SCHEDULES = {
    "9 held, of a pair that came when nothing was held": job((PAIR,), (ALONE,), (OTHER,), holds=" h "),
    "10 a group's value that returns": job((OLD,), (group("k6", 1, 1, "b"),), (group("k7", 2, 1, "a"),)),
    "10 a late file with an older value of a group": job((NEW,), late={0: (OLD,)}),
    "10 an older window with an older value of a group": job((), (group("k6", 1, 1, "b"),), late={0: (OLD,)}),
    "3 a pair of a copy of what an earlier window sent": job(
        (event("k1", 0, 9, "u0"), event("k2", 0, 2, "", "d0")),
        (event("k1", 0, 1, "u0", "d0"), event("k3", 1, 1, "u1", "d0")),
    ),
    "11 a key of another person": job((PAIR,), (replace(AGAIN, user="u1", device=""), OTHER)),
    "11 a key of another name": job((PAIR,), (replace(AGAIN, name="Paid"),)),
    "11 a key of another day": job((PAIR,), (replace(AGAIN, at=PAIR.at + DAY),)),
    "13 a sixth group type": job(tuple(SIX[:3]), tuple(SIX[3:])),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule(name: str) -> None:
    play(name, *SCHEDULES[name])


def test_10_a_group_that_changed_is_read_back() -> None:
    """Of two windows that one night sends."""
    found, nights = job((OLD, PAIR), (group("k6", 1, 1, "b"), ALONE))
    play("10 read back", found, nights[-1:], {"reads"})


def test_an_ignored_change_is_told_once(tmp_path: Path) -> None:
    """Within the lookback too (docs/use/jobs.md, Exported again): a difference that no number has."""
    days(tmp_path, 1)
    with running(KEYS) as service:
        path = write_job(tmp_path, service.url, until="2024-01-02", lookback="1", changed="ignore")
        run(path)
        days(tmp_path, 1, rows=11)
        assert outcomes(run(path)) == {"2024-01-01": "done"}
        assert run(path).windows == []


SHOP = """
format: backcast.mapping/1
tool: shop
title: Names of things stand in a file of their own
lookup_files:
  things: {file: "things*", key: /id, value: /name}
event: {lookup: /thing, table: things}
distinct_id: /user
time: {from: /at}
key: {of: /id, needs: /id}
"""


def test_12_a_window_reads_the_lookup_files_of_its_folder(tmp_path: Path) -> None:
    """As `plan` of the folder does; and a late part alone."""
    (tmp_path / "shop.yaml").write_text(SHOP, "utf-8")
    sold = [{"id": f"k{number}", "thing": 1, "user": "u0", "at": f"2024-01-01T0{number}:00:00Z"} for number in range(2)]
    put(tmp_path, 1, [{"id": 1, "name": "Shoes"}], "things.jsonl")
    put(tmp_path, 1, sold[:1], "sold.jsonl")
    plan = pipeline.plan_export(
        tmp_path / "exports", tmp_path / "plan", PlanOptions(mapping=str(tmp_path / "shop.yaml"), workers=0)
    )
    assert plan.ready
    with running(KEYS) as service:
        path = write_job(
            tmp_path, service.url, set="", until="2024-01-02", mapping="shop.yaml", lookback="9", timezone=""
        )
        done = run(path)
        assert (outcomes(done), done.problem) == ({"2024-01-01": "done"}, None)
        put(tmp_path, 1, sold[1:], "late.jsonl")
        assert outcomes(run(path)) == {"2024-01-01": "done"}
        assert [one.event for one in service.events()] == ["Shoes", "Shoes"]


def test_12_a_late_part_knows_its_table_by_its_folder(tmp_path: Path) -> None:
    """In a folder of the table's name; docs/use/sources/segment.md, Warehouse tables."""
    text = "id,anonymous_id,user_id,timestamp,received_at,url\n{},a-1,u-1,2024-01-01 09:00:00,2024-01-01 09:00:01,https://x.example/\n"
    folder = tmp_path / "exports/2024/01/01/pages"
    folder.mkdir(parents=True)
    (folder / "000.csv").write_text(text.format("m-1"), "utf-8")
    with running(KEYS) as service:
        source = json.dumps("exports/{date:%Y/%m/%d}/*/*.csv")
        path = write_job(
            tmp_path,
            service.url,
            set="",
            until="2024-01-02",
            mapping="segment-warehouse",
            source=source,
            lookback="9",
            timezone="",
        )
        assert outcomes(run(path)) == {"2024-01-01": "done"}
        (folder / "001.csv").write_text(text.format("m-2"), "utf-8")
        assert outcomes(run(path)) == {"2024-01-01": "done"}
        assert [one.event for one in service.events()] == ["$pageview"] * 2


def test_14_the_documented_job_takes_a_row_of_the_evening(tmp_path: Path) -> None:
    """Of 2024-01-01 20:30 in New York; docs/use/jobs.md. Where it stops, it says what a job file can do about it."""
    seen: dict[str, object] = {"time": 1704106800 + 45_000, "distinct_id": "u-1", "$insert_id": "a1"}
    put(tmp_path, 1, [{"event": "Visited", "properties": seen | {"mp_processing_time_ms": 1704124805000 + 45_000_000}}])
    with running(KEYS) as service:
        path = write_job(
            tmp_path,
            service.url,
            set="",
            until="2024-01-02",
            mapping="mixpanel",
            timezone="America/New_York",
            lag="49h",
        )
        ended, said, reported = ran(path)
    assert "--allow-recent" not in said + reported
    assert "--until" not in said + reported
    assert ended in (0, 4)


def test_15a_a_job_after_a_one_off_import_sends_nothing_twice(tmp_path: Path) -> None:
    """With a personal key the target can be asked, as `preflight` does: `already_there`."""
    days(tmp_path, 1, 2)
    with running(KEYS) as service:
        options = PlanOptions(mapping="generic", settings=COLUMNS, workers=0)
        pipeline.plan_export(tmp_path / "exports", tmp_path / "plan", options)
        pipeline.apply_plan(tmp_path / "plan", service.url, ApplyOptions(workers=0), project_key=KEY)
        done = run(write_job(tmp_path, service.url, until="2024-01-03"), personal_key=Secret(PERSONAL_KEY))
        assert (code(done), set(copies(service).values())) == (4, {1})


# -- keys ------------------------------------------------------------------------------------------------------

FIRST = event("k0", 0, 1, "u0")
G0 = ("company", "g0")
OLDER = (("a", "old"), ("b", "old"))
SETS = {
    "3 a superseded pair": [FIRST, event("k1", 0, 2, "", "d0"), replace(FIRST, device="d0", received=FIRST.at)],
    "3 a superseded profile": [
        FIRST,
        Row("profile", "k1", HOUR, 2 * HOUR, "u0", values=(("a", "new"),)),
        Row("profile", "k1", HOUR, HOUR, "u0", values=OLDER),
    ],
    "3 a superseded group": [
        FIRST,
        Row("group", "k1", HOUR, 2 * HOUR, "u0", group=G0, values=(("a", "new"),)),
        Row("group", "k1", HOUR, HOUR, "u0", group=G0, values=OLDER),
    ],
    "16 another person": [FIRST, replace(FIRST, user="u1", received=FIRST.at + 9)],
}


@pytest.mark.parametrize("tool", ["segment", "shop", "generic"])
@pytest.mark.parametrize("name", SETS)
def test_a_set_of_copies(name: str, tool: str) -> None:
    rows = SETS[name]
    if tool != "segment" and any(one.kind != "event" for one in rows):
        pytest.skip("calls of Segment alone")
    if tool == "shop":  # of which the first one received stands
        rows = [replace(one, received=DAY - (one.received or 0)) for one in rows]
    if tool == "generic":  # without receive times the latest stands
        rows = [replace(one, at=one.at + (one.received or 0) - FIRST.at, received=None) for one in rows]
    judge(name, tool, rows)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
@pytest.mark.parametrize("tool", ["segment", "shop", "generic"])
def test_17_content_decides_and_not_how_it_is_written(tool: str, seed: int) -> None:
    tied = [replace(FIRST, values=(("value", f"{number} é"),)) for number in range(4)]
    judge(f"17, {seed}", tool, tied, {"spelling"})


@pytest.mark.parametrize("seed", [7])
def test_seeds_of_schedules(seed: int) -> None:
    test_calendar.check(seed)


@pytest.mark.parametrize("seed", [5, 6, 7, 8, 14, 16, 17, 24, 28, 30, 31, 34, 39])
def test_seeds_of_copies(seed: int) -> None:
    test_keys.check(seed)
