"""Cases of the models of keys and of a calendar that the product fails: to be moved to the tests as each is mended.

The number in a name is that of the fault. Run them with `pytest tests/models/open_jobs_and_keys.py`.
"""

from dataclasses import replace

import pytest

from tests.models import test_keys
from tests.models.calendar import HOUR
from tests.models.keys import DAY, Row
from tests.models.test_calendar import AGAIN, OTHER, PAIR, event, job, play
from tests.models.test_keys import judge

SCHEDULES = {
    "3 a pair of a copy of what an earlier window sent": job(
        (event("k1", 0, 9, "u0"), event("k2", 0, 2, "", "d0")),
        (event("k1", 0, 1, "u0", "d0"), event("k3", 1, 1, "u1", "d0")),
    ),
    "11 a key of another person": job((PAIR,), (replace(AGAIN, user="u1", device=""), OTHER)),
    "11 a key of another name": job((PAIR,), (replace(AGAIN, name="Paid"),)),
    "11 a key of another day": job((PAIR,), (replace(AGAIN, at=PAIR.at + DAY),)),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule(name: str) -> None:
    play(name, *SCHEDULES[name])


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


@pytest.mark.parametrize("seed", [5, 6, 7, 8, 14, 16, 17, 24, 28, 30, 31, 34, 39])
def test_seeds_of_copies(seed: int) -> None:
    test_keys.check(seed)
