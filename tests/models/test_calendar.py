"""Random schedules of a job against the model of its calendar: late files, holds, kills, a lost state."""

import random
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from pipeline.config import Secret
from tests.models.calendar import HOUR, LAG, Calendar, Export, Rows
from tests.models.keys import DAY, START, Row, segment_call
from tests.models.test_keys import a_copy, a_row, compare, same
from tests.support.deliveries import Reply, passed_on, serving
from tests.support.jobs import CRASHES, KEYS, PERSONAL_KEY, code, crashed, outcomes, put, run, write_job
from tests.support.scripted_server import Asked
from tests.support.services import running

AT = {at: CRASHES[at] for at in ("planned", "before the ledger", "before it is recorded", "recorded")}
SEEDS = range(8)
ODD = "late changed copies clash devices hold kill lose groups types young reads profiles"
"""What a schedule may have in addition to rows, people and windows; each has some of them."""
Night = tuple[int, Export, bool, str, bool]
"""The clock, the files at that time, whether merges are sent, what ends a run early (AT or "refused"), whether the
state is lost afterwards."""


def some(chance: random.Random, has: Collection[str], window: int, made: list[Row], first: Rows = ()) -> Rows:
    """The rows of a file, at least one of them new; a snapshot of profiles has one for each person."""
    rows = list(first)
    for last in [*[False] * chance.randint(0, 4), True]:
        row = a_row(chance, has, window, len(made))
        if "young" in has and chance.random() < 0.05:
            row = replace(row, at=(window + 1) * DAY + chance.choice([HOUR // 2, 2 * HOUR]) + len(made))
        if "copies" in has and not last and made and chance.random() < 0.3:
            row = a_copy(chance, has, chance.choice(made), len(made))
        made.append(row)
        rows.append(row)
    return tuple({one.user if one.kind == "profile" else n: one for n, one in enumerate(rows)}.values())


def schedule(chance: random.Random, without: Collection[str] = ()) -> tuple[Calendar, list[Night], set[str]]:
    """A job of three or four windows, its nights, and what is unusual about it."""
    has = {one for one in ODD.split() if chance.random() < 0.35} - set(without)
    if "profiles" in has:  # in a job of their own; the documents do not say what is new about profiles that come again
        has &= {"profiles", "late", "kill", "lose", "reads"}
    lookback = 9 if "profiles" in has else chance.choice([0, 1, 9])
    changed = chance.choice(["", "stop", "send-new", "ignore"]) if "changed" in has else ""
    job = Calendar(chance.randint(3, 4), lookback, changed, chance.choice(["wait", "wait", "done", "stop"]))
    if "profiles" in has:  # they have no times, so two files of one night would have no order
        job.missing = "wait"
    export, nights, made, due, now = dict[int, dict[str, Rows]](), list[Night](), list[Row](), 0, 0
    for _ in range(chance.randint(2, 5)):
        due = min(job.windows, due + chance.randint(not due, 2))
        for window in range(due):
            files, draw = export.setdefault(window, {}), chance.random()
            if not files and draw < 0.85:
                files["a.jsonl"] = some(chance, has, window, made)
            elif files and "late" in has and draw < 0.25:
                files[f"late-{len(files)}.jsonl"] = some(chance, has, window, made)
            elif files and "changed" in has and draw > 0.8:
                files["a.jsonl"] = some(chance, has, window, made, files["a.jsonl"][1:])
        now = max(now, due * DAY + LAG + chance.choice([0, 5 * HOUR]))
        merging, lost = "hold" not in has or chance.random() < 0.5, "lose" in has and chance.random() < 0.5
        ends = chance.choice(["", *AT, *["refused"] * 4]) if "kill" in has else ""
        nights.append((now, {window: {**files} for window, files in export.items()}, merging, ends, lost))
    return job, nights, has


def check(seed: int, without: Collection[str] = ()) -> None:
    """Run a schedule night by night, and compare the target after each with the model."""
    play(f"seed {seed}", *schedule(random.Random(seed), without))


def play(title: str, job: Calendar, nights: list[Night], has: Collection[str] = ()) -> None:
    """Each night in turn; a second run of the same night finishes what a kill or a refusal left."""
    left, reads = list[int](), "reads" in has

    def answer(asked: Asked) -> Reply:
        """The service's answer; it has no quota left after as many requests as `left` says."""
        left[:] = [count - 1 for count in left]
        return Reply(402, b"quota") if left and left[0] < 0 else passed_on(service.url, asked.body)

    said = {"until": f"{START + timedelta(days=job.windows):%Y-%m-%d}", "set": "", "mapping": "segment"}
    said |= {"lookback": str(job.lookback), "changed": job.changed, "missing": job.missing}
    said |= {"mapping": "mixpanel", "persons": "{properties: final}"} if "profiles" in has else {}
    with TemporaryDirectory() as path, running(KEYS) as service, serving(answer) as relay:
        folder, personal = Path(path), dict[str, Any](personal_key=Secret(PERSONAL_KEY)) if reads else {}
        for number, (clock, export, merging, ends, lost) in enumerate(nights):
            for window, name, rows in ((day, *file) for day, files in export.items() for file in files.items()):
                profiles = [{"$distinct_id": one.user, "$properties": dict(one.values)} for one in rows]
                put(folder, window + 1, profiles if "profiles" in has else [*map(segment_call, rows)], name)
            now, merges = START + timedelta(seconds=clock), "{up-to: 1000}" if merging else "hold"
            file = write_job(folder, service.url if reads else relay.url, merges=merges, **said)
            if ends in AT:
                crashed(file, AT[ends], now, PERSONAL_KEY if reads else "")
            elif ends:
                left[:] = [random.Random(title).randint(0, 4)]
                run(file, now, **personal)
                left.clear()
            done, expected = run(file, now, **personal), job.night(clock, export, merging)
            where = f"{title}, night {number}" + (ends and f" after a run that ended: {ends}")
            reported = {int(window[-2:]) - 1: outcome for window, outcome in outcomes(done).items()}
            reported |= {window: "ignored" for window in reported if expected.get(window) == "ignored"}
            same(f"{where}: windows", reported, reported if ends else expected)
            same(f"{where}: read back as it was sent, {done.problem}", code(done) != 7, True)
            compare(where, service, job.target, once=ends not in AT)
            for state in (folder / "state/nightly").glob("state.sqlite*") if lost else ():
                state.unlink()
                job.lose()


def event(key: str, day: int, hour: int, user: str = "", device: str = "", name: str = "Seen") -> Row:
    """An event with a value of its own."""
    at = day * DAY + hour * HOUR
    return Row("event", key, at, at + 1, user, device, name, values=(("value", at),))


def group(key: str, day: int, hour: int, plan: str, kind: str = "company") -> Row:
    """The properties of a group from a moment on."""
    at = day * DAY + hour * HOUR
    return Row("group", key, at, at + 1, "u0", group=(kind, "g0"), values=(("plan", plan),))


def job(
    *windows: Rows, late: Mapping[int, tuple[int, Rows]] = {}, holds: str = "", lost: str = ""
) -> tuple[Calendar, list[Night]]:
    """A night for each window; `late` are files by the night when they come, with their window. `holds` and `lost` have
    a letter for each night on which merges are held (h), or after which the state is lost (x)."""
    nights: list[Night] = []
    files: dict[int, dict[str, Rows]] = {}
    for number in range(max(len(windows), *(night + 1 for night in late), 0)):
        arrived = [(number, windows[number])] if number < len(windows) else []
        for window, rows in (*arrived, *([late[number]] if number in late else [])):
            if rows:
                files.setdefault(window, {})[f"{number}.jsonl"] = rows
        now = min(number + 1, len(windows)) * DAY + LAG
        export = {window: {**parts} for window, parts in files.items()}
        nights.append((now, export, holds[number : number + 1] != "h", "", lost[number : number + 1] == "x"))
    return Calendar(len(windows), 9), nights


PAIR, ALONE, OTHER = event("k1", 0, 1, "u0", "d0"), event("k2", 1, 1, "", "d0"), event("k3", 2, 1, "u1")
AGAIN = replace(PAIR, at=PAIR.at + HOUR, values=(("value", 1),))
OLD, NEW, LATER = group("k4", 0, 1, "a"), group("k5", 0, 9, "b"), group("k6", 1, 1, "b")
SIX = [group(f"k{number}", number // 3, number, "a", f"type{number}") for number in range(6)]
SENT = (event("k8", 1, 2, "u2", "d2"), event("k9", 1, 1, "", "d2"))
SCHEDULES = {
    "held, of a pair that came when nothing was held": job((PAIR,), (ALONE,), (OTHER,), holds=" h "),
    "held in an older window than what was sent, and lost": job(
        (),
        SENT,
        (),
        (replace(OTHER, at=3 * DAY),),
        late={2: (0, (PAIR, replace(ALONE, at=0)))},
        holds="  h",
        lost="  x",
    ),
    "a group's value that returns": job((OLD,), (LATER,), (group("k7", 2, 1, "a"),), lost=" x"),
    "a late file with an older value of a group": job((NEW,), late={1: (0, (OLD,))}),
    "an older window with an older value of a group": job((), (LATER,), late={2: (0, (OLD,))}, lost=" x"),
    "a sixth group type": job(tuple(SIX[:3]), tuple(SIX[3:])),
    "a pair of a copy of what an earlier window sent": job(
        (event("k1", 0, 9, "u0"), event("k2", 0, 2, "", "d0")),
        (event("k1", 0, 1, "u0", "d0"), event("k3", 1, 1, "u1", "d0")),
    ),
    "a key of another person": job((PAIR,), (replace(AGAIN, user="u1", device=""), OTHER)),
    "a key of another name": job((PAIR,), (replace(AGAIN, name="Paid"),)),
    "a key of another day": job((PAIR,), (replace(AGAIN, at=PAIR.at + DAY),)),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule(name: str) -> None:
    play(name, *SCHEDULES[name])


def test_a_group_that_changed_is_read_back() -> None:
    """The group of two windows that are sent in one night."""
    found, nights = job((OLD, PAIR), (LATER, ALONE))
    play("read back", found, nights[-1:], {"reads"})


@pytest.mark.parametrize("seed", SEEDS)
def test_after_each_night_the_target_has_what_the_calendar_says(seed: int) -> None:
    check(seed)
