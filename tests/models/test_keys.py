"""Random sets of copies against the model of keys: which row is sent, and that no other has any effect."""

import json
import random
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import pipeline
from pipeline.options import ApplyOptions, PlanOptions
from tests.models.calendar import Target
from tests.models.keys import DAY, START, Row, instant, segment_call, standing, table_row
from tests.support.services import running

SEEDS = range(10)
ODD = "clash ties rejects outside devices groups traits unreceived spelling collapse allowed"
"""What a set of copies may have, and how it may be planned; each has some of them."""
SINCE, UNTIL = DAY // 2, 2 * DAY
EARLIEST = """{format: backcast.mapping/1, tool: shop, title: A log of which the first copy stands, event: /event,
distinct_id: [/distinct_id, /anonymous_id], time: {from: /timestamp}, received: {from: /got},
key: {of: /uuid, needs: /uuid, keep: earliest}, pair: {user: /distinct_id, anonymous: /anonymous_id},
properties: {rest: keep, drop: [event, distinct_id, anonymous_id, timestamp, got, uuid]}}"""
"""docs/use/mappings.md, Write one; docs/change/architecture.md, Duplicates."""
RAW = "select event, distinct_id, strftime(timestamp, '%Y-%m-%dT%H:%M:%SZ'), properties::varchar from raw_events"
"""Every copy that arrived (docs/use/local-service.md, Queries)."""


def a_row(chance: random.Random, has: Collection[str], window: int, number: int) -> Row:
    """A row of a day, or of the day before, of few people. No two have the same time."""
    types = [*["company"] * ("groups" in has), *[f"type{chance.randrange(7)}"] * ("types" in has)]
    kinds = ["event", "event", *["group"] * bool(types), *["profile"] * ("traits" in has)]
    kind, ids = chance.choice(["profile"] if "profiles" in has else kinds), chance.choice(["u", "d", "ud"])
    at = (window - (chance.random() < 0.1)) * DAY + chance.randrange(800) * 100 + number
    user, device = f"u{chance.randrange(3)}", f"d{chance.randrange(3)}"
    row = Row(kind, f"k{number}", at, at + chance.randrange(DAY), user, values=(("value", str(number)),))
    if kind == "event":
        row = replace(row, user=user * ("u" in ids), device=device * ("d" in ids))
        return replace(row, name=chance.choice(["Seen", "Paid"]))
    values = [(name, chance.choice([None, "x", "y"])) for name in "ab" if chance.random() < 0.7]
    group = (chance.choice(types), f"g{chance.randrange(2)}") if kind == "group" else None
    return replace(row, values=(*row.values, *values), group=group)


def a_copy(chance: random.Random, has: Collection[str], row: Row, number: int) -> Row:
    """A copy of a row: equal, or with another time of receipt, time, content, device, name or person."""
    if chance.random() < 0.3:
        return row
    other = replace(row, values=(("value" if row.kind == "event" else "a", f"{number} {chance.choice('xyé')}"),))
    if "ties" not in has or row.kind != "event" or chance.random() < 0.5:
        at = row.at - row.at % DAY + chance.randrange(800) * 100 + number  # of the same day
        other = replace(other, received=row.at + number, at=at)
    if "unreceived" in has and chance.random() < 0.3:
        other = replace(other, received=None)
    if "devices" in has and other.user and row.kind != "group" and chance.random() < 0.5:
        other = replace(other, device=f"d{chance.randrange(3)}")
    if "rejects" in has and row.kind == "event" and chance.random() < 0.3:
        other = replace(other, name="")
    if "clash" in has and row.kind == "event" and chance.random() < 0.2:
        person = replace(other, user=other.user and f"u{chance.randrange(3)}")
        other = chance.choice([person, replace(other, name="Left"), replace(other, at=(other.at + DAY) % (3 * DAY))])
    return other


def copies(chance: random.Random, without: Collection[str] = ()) -> tuple[str, list[Row], set[str]]:
    """A tool, some rows of few people and days with their copies, and what is unusual about them."""
    has, made = {one for one in ODD.split() if chance.random() < 0.4} - set(without), list[Row]()
    tool = chance.choice(["segment", "segment", "shop", "generic", "keyless"])
    for _ in range(chance.randint(5, 12)):
        row = a_row(chance, has if tool == "segment" else (), chance.randrange(3), len(made))
        made.append(row)
        made += [a_copy(chance, has, row, len(made) + n) for n in range(chance.choice([0, 0, 1, 1, 2, 3]))]
    if tool == "keyless":
        made = [replace(one, key="") for one in [*made, *chance.choices(made, k=5)]]
    if tool in ("keyless", "generic"):
        made = [replace(one, received=None) for one in made]
    return tool, made, has


def odd_json(value: Any, chance: random.Random) -> str:
    """The same JSON with members in another order, and unnecessary escapes."""
    if isinstance(value, dict):
        members = [f"{odd_json(name, chance)} : {odd_json(one, chance)}" for name, one in value.items()]
        return "{" + ", ".join(chance.sample(members, len(members))) + "}"
    if isinstance(value, str) and value and chance.random() < 0.5:
        return f'"\\u{ord(value[0]):04X}{json.dumps(value[1:], ensure_ascii=False)[1:]}'
    return json.dumps(value)


def check(seed: int, without: Collection[str] = ()) -> None:
    """Plan and send copies, in two orders and perhaps spellings, and compare both with the model."""
    judge(f"seed {seed}", *copies(random.Random(seed), without))


def judge(title: str, tool: str, rows: list[Row], has: Collection[str] = ()) -> None:
    """In another order and with another spelling the rows give the same result, and it is that of the model."""
    # What is rejected, or outside the requested time, has no effect (your-export.md, Choose rows; invariant 7).
    kept = [one for one in rows if one.name or one.kind != "event"]
    kept = [one for one in kept if "outside" not in has or SINCE <= one.at < UNTIL]
    if not kept:
        return  # nothing to send: not ready
    chance, picks, landings = random.Random(title), set[Row](), []
    rules = tool == "shop", "collapse" in has
    first, columns = standing(kept, (), *rules), ["event", "distinct_id", "timestamp", "anonymous_id", "uuid"]
    with TemporaryDirectory() as path:
        folder = Path(path)
        (folder / "shop.yaml").write_text(EARLIEST, "utf-8")
        options = PlanOptions(
            mapping={"shop": str(folder / "shop.yaml"), "keyless": "generic"}.get(tool, tool), max_rejects="100%",
            settings={name: name for name in columns[: {"generic": 5, "keyless": 4}.get(tool, 0)]}, workers=0,
            allow_key_conflicts="allowed" in has, collapse_identical="collapse" in has,
            since=START + timedelta(seconds=SINCE) if "outside" in has else None,
            until=START + timedelta(seconds=UNTIL) if "outside" in has else None,
        )  # fmt: skip
        for writing in ("as they are", "otherwise"):
            where, plan_folder = f"{title}, {tool}, {writing}", folder / f"plan {writing}"
            stated = [segment_call(one) if tool == "segment" else table_row(one) for one in rows]
            lines, name = list(map(json.dumps, stated)), "a.jsonl"
            if "spelling" in has and writing == "otherwise" and tool == "generic":
                cells, name = [[*stated[0]], *([*one.values()] for one in stated)], "a.csv"
                lines = [",".join(f'"{text}"' for text in one) for one in cells]
            elif "spelling" in has and writing == "otherwise":
                lines = [odd_json(one, chance) for one in stated]
            (folder / writing).mkdir()
            (folder / writing / name).write_text("\n".join(lines), "utf-8")
            plan = pipeline.plan_export(folder / writing, plan_folder, options)
            same(f"{where}: ready, {first.clashes}", plan.ready, "allowed" in has or not first.clashes)
            if not plan.ready:
                return
            with running() as service:
                pipeline.apply_plan(plan_folder, service.url, ApplyOptions(), project_key=service.capture_key)
                events = service.events()  # the uuid of a profile depends on its bytes
                landings.append(
                    {(one.uuid * (one.event[:1] != "$"), one.event, one.distinct_id, one.timestamp) for one in events}
                )
                sent = [json.loads(one.properties) for one in service.events()]
                values = {(said.get("key"), said.get("value")) for said in sent}
                picks |= {one for one in first.tied if not picks and (one.key, dict(one.values).get("value")) in values}
                stand, target = standing(kept, picks, *rules), Target()
                target.take(stand.rows)
                compare(where, service, target)
            same(f"{where}: skipped", {code: plan.skips.get(code, 0) for code in stand.skipped}, dict(stand.skipped))
            rows = chance.sample(rows, len(rows))
    same(f"{title}, {tool}: both", *landings)


def compare(where: str, service: Any, target: Target, once: bool = True) -> None:
    """Compare the service's content with the model; unless `once`, a row may have arrived twice."""
    arrived = [(name, id, time, json.loads(text)) for name, id, time, text in service.select(RAW)]
    found = Counter((said["key"], *one, said["value"]) for *one, said in arrived if "key" in said)
    sent = target.events.values()
    expected = Counter((one.key, one.name, one.distinct_id, instant(one.at), dict(one.values)["value"]) for one in sent)
    same(f"{where}: events", found if once else Counter(set(found)), expected)
    ids = {one.distinct_id for one in sent}
    persons = {frozenset(ids & set(one.distinct_ids)) for one in service.persons()} - {frozenset()}
    same(f"{where}: persons", persons, target.persons)
    profiles = {id: one.properties for one in service.persons() for id in one.distinct_ids if id in target.profiles}
    same(f"{where}: profiles", real(profiles), real(target.profiles))
    groups = {(one.type, one.key): one.properties | {"groupType": None} for one in service.groups()}  # of the calls
    same(f"{where}: groups", real(groups), real(target.groups))


def real(profiles: dict[Any, Any]) -> dict[Any, Any]:
    """Without nulls, which count as missing (docs/know/service.md, Persons)."""
    return {one: {name: value for name, value in said.items() if value is not None} for one, said in profiles.items()}


def same(what: str, found: Any, expected: Any) -> None:
    """An AssertionError that shows what only one of them has."""
    if isinstance(found, Counter | set):
        found, expected = found - expected, expected - found
    assert found == expected, f"{what}\n  the product: {found}\n  the model:   {expected}"


test_of_copies_one_stands_and_no_other_has_an_effect = pytest.mark.parametrize("seed", SEEDS)(check)


@pytest.mark.parametrize("tool", ["segment", "generic"])
def test_a_row_of_another_person_is_not_a_copy(tool: str) -> None:
    """It stops the plan (`Row.event`)."""
    first = Row("event", "k0", 3_600, 3_601, "u0", name="Seen", values=(("value", 1),))
    judge("another person", tool, [first, replace(first, user="u1", received=3_609)])


FIRST = Row("event", "k0", 3_600, 3_601, "u0", name="Seen", values=(("value", 3_600),))
G0 = ("company", "g0")
OLDER = (("a", "old"), ("b", "old"))
SETS = {
    "a superseded pair": [
        FIRST,
        replace(FIRST, key="k1", at=7_200, received=7_201, user="", device="d0", values=(("value", 7_200),)),
        replace(FIRST, device="d0", received=FIRST.at, values=(("value", 0),)),
    ],
    "a superseded profile": [
        FIRST,
        Row("profile", "k1", 3_600, 7_200, "u0", values=(("a", "new"),)),
        Row("profile", "k1", 3_600, 3_600, "u0", values=OLDER),
    ],
    "a superseded group": [
        FIRST,
        Row("group", "k1", 3_600, 7_200, "u0", group=G0, values=(("a", "new"),)),
        Row("group", "k1", 3_600, 3_600, "u0", group=G0, values=OLDER),
    ],
}


@pytest.mark.parametrize("tool", ["segment", "shop", "generic"])
@pytest.mark.parametrize("name", SETS)
def test_a_set_of_copies(name: str, tool: str) -> None:
    rows = SETS[name]
    if tool != "segment" and any(one.kind != "event" for one in rows):
        pytest.skip("calls of Segment alone")
    if tool == "shop":  # of which the first one received is sent
        rows = [replace(one, received=DAY - (one.received or 0)) for one in rows]
    if tool == "generic":  # without receive times the latest is sent
        rows = [replace(one, at=one.at + (one.received or 0) - FIRST.at, received=None) for one in rows]
    judge(name, tool, rows)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
@pytest.mark.parametrize("tool", ["segment", "shop", "generic"])
def test_content_decides_and_not_how_it_is_written(tool: str, seed: int) -> None:
    tied = [replace(FIRST, values=(("value", f"{number} é"),)) for number in range(4)]
    judge(f"tied, {seed}", tool, tied, {"spelling"})
