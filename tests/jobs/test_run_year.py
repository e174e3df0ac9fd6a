"""A simulated season of one job, night by night, with realistic exports and machines: the target has the union, once.

`tests/soak/soak_year.py` runs the same for 400 nights.
"""

from __future__ import annotations

import json
import random
import signal
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pipeline import api
from pipeline.jobs import load_job
from pipeline.jobs.receipt import check_any_receipt
from pipeline.local_service import LocalService
from tests.support.deliveries import uuid
from tests.support.jobs import (
    CRASHES,
    KEYS,
    OWN,
    PERSONAL_KEY,
    code,
    copies,
    crashed,
    identities,
    landed,
    run,
    write_job,
)

pytestmark = pytest.mark.slow

NIGHTS = 20
SEED = 2024
FIRST = datetime(2024, 1, 1, tzinfo=UTC)
LOOKBACK = 3
DUE = timedelta(days=1, hours=49)
"""From the beginning of a day to the night on which its window is due."""


class Year:
    """The exports of a tool, night by night, and every event that was ever in one of them."""

    def __init__(self, folder: Path, nights: int, seed: int) -> None:
        chance = random.Random(seed)
        self.folder = folder
        self.length = nights
        self.chance = chance
        self.union: list[dict[str, Any]] = []
        self.later: dict[int, list[tuple[int, str, list[dict[str, Any]]]]] = {}
        """Night → files that come then, as (day, name, rows)."""
        self.weeks = min(20, nights // 2 - 1)
        days = chance.sample(range(4, nights - self.weeks - 2), min(24, nights - self.weeks - 6))
        each = [days[number::4] for number in range(4)]
        self.missing, self.double, self.changed = (set(each[number]) for number in range(3))
        self.crashes = dict(zip(each[3], chance.sample([*CRASHES], len(CRASHES)), strict=False))
        self.off = range(nights // 3, nights // 3 + 7)

    def rows(self, day: int, count: int, start: int = 0) -> list[dict[str, Any]]:
        """New events of a day."""
        made = []
        for number in range(start, start + count):
            moment = FIRST + timedelta(days=day, seconds=self.chance.randrange(86_400))
            made.append({
                "event": f"Step {number % 3}",
                "distinct_id": f"person-{self.chance.randrange(50)}",
                "timestamp": moment.isoformat().replace("+00:00", "Z"),
                "uuid": uuid(day * 1_000 + number),
                "number": number,
            })  # fmt: skip
        self.union += made
        return made

    def put(self, day: int, name: str, rows: list[dict[str, Any]]) -> None:
        path = self.folder / (FIRST + timedelta(days=day)).strftime("exports/%Y/%m/%d") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(one) + "\n" for one in rows), "utf-8")

    def export(self, day: int) -> None:
        """What the tool writes when a day is due, and what it will write for that day later."""
        rows = self.rows(day, self.chance.randrange(3, 7))
        if day in self.missing:  # five nights late
            self.later.setdefault(day + 5, []).append((day, "a.jsonl", rows))
            return
        self.put(day, "a.jsonl", rows)
        if self.chance.random() < 0.15:  # rows that the tool received late, next to others that it wrote before
            late = [*self.rows(day, 2, start=100), rows[0]]
            self.later.setdefault(day + self.chance.randrange(1, LOOKBACK), []).append((day, "late.jsonl", late))
        if day in self.double:  # the next day's folder has the day before again
            self.later.setdefault(day + 1, []).append((day + 1, "again.jsonl", rows[::-1]))
        if day in self.changed:  # exported again after weeks: another value, a row less, two rows more
            again = [rows[0] | {"plan": "other"}, *rows[2:], *self.rows(day, 2, start=200)]
            self.later.setdefault(day + self.weeks, []).append((day, "a.jsonl", again))

    def nights(self) -> Iterator[tuple[int, datetime]]:
        """Each night on which the job runs, after the exports of that night."""
        for night in range(self.length):
            self.export(night)
            for day, name, rows in self.later.pop(night, []):
                self.put(day, name, rows)
            if night not in self.off:
                yield night, FIRST + timedelta(days=night) + DUE + timedelta(minutes=5)
        for files in self.later.values():
            for day, name, rows in files:
                self.put(day, name, rows)
        yield self.length, FIRST + timedelta(days=self.length) + DUE


def test_after_many_nights_the_target_has_the_union_once_as_the_receipt_proves(tmp_path: Path) -> None:
    """Late rows, days that come late, a day exported twice, days exported again, crashes, and a week without a run."""
    simulate(tmp_path, NIGHTS, SEED)


def simulate(folder: Path, nights: int, seed: int) -> None:
    """This many nights, and what must hold after them."""
    print(f"seed {seed}")
    year = Year(folder, nights, seed)
    until = (FIRST + timedelta(days=nights)).date().isoformat()
    ended: Counter[int] = Counter()
    with LocalService(keys=KEYS) as service:
        path = write_job(
            folder, service.url, until=until, lookback=str(LOOKBACK), changed="send-new", verify="{fields: none}"
        )
        job = load_job(path)
        for night, now in year.nights():
            if (at := year.crashes.get(night)) is not None:
                assert crashed(path, CRASHES[at], now, PERSONAL_KEY) == -signal.SIGKILL, at
            else:
                done = run(job, now, personal_key=OWN)
                ended[code(done)] += 1
                assert code(done) in (0, 6), (seed, night, done.problem)
        absent = [day for day in year.missing if day - 1 not in year.double]  # else its folder has the day before
        waited = {night for day in absent for night in range(day, day + 5)}
        assert ended[6] == len(waited - set(year.off) - year.crashes.keys())
        assert landed(service) == identities(year.union)
        assert len(service.events()) == len(year.union)
        twice = [uuid for uuid, count in copies(service).items() if count > 1]
        assert len(twice) <= 10 * list(year.crashes.values()).count("while it sends"), "more than what was in flight"
    receipt = api.write_job_receipt(job.state)
    found = {check.name: check.result for check in check_any_receipt(job.state / "receipt.json", folder).checks}
    assert {window.state for window in receipt.windows} == {"done"}
    assert (receipt.sums.settled, receipt.uuids, len(receipt.windows)) == (len(year.union),) * 2 + (nights,)
    assert (receipt.sums.proved, receipt.sums.in_doubt) == (receipt.sums.plans, 0)
    assert found.pop("signature") == "not checked"
    assert found.pop("inputs") == "failed"  # files that were exported again are different now
    assert set(found.values()) == {"ok"}, found
