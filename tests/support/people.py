"""What the tests of people share: rows of each tool, a plan of them, and who is who after it was sent."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import strategies as st

import pipeline
from pipeline.options import PlanOptions
from pipeline.plan.sealed.manifest import Plan
from tests.support.deliveries import ONE_AT_A_TIME, run
from tests.support.rehearsal import NOW, Room, fresh

AS_OF = datetime.fromtimestamp(NOW // 1_000_000, UTC)
JANUARY = 1_672_531_200
"""2023-01-01T00:00:00Z, in seconds."""
Rows = Sequence[dict[str, Any]]


def write(folder: Path, *files: Rows) -> Path:
    """An export of JSON lines."""
    folder.mkdir(parents=True)
    for number, rows in enumerate(files):
        (folder / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return folder


def planned(place: Path, mapping: str, *files: Rows, **asked: Any) -> Plan:
    """A plan of these rows, in `place`/plan."""
    zone = {"timezone": "UTC"} if mapping == "mixpanel" else {}
    return pipeline.plan_export(
        write(place / "export", *files),
        place / "plan",
        PlanOptions(mapping=mapping, as_of=AS_OF, workers=0, **(zone | asked)),
    )


def sent(place: Path, mapping: str, *files: Rows, room: Room | None = None, **asked: Any) -> Room:
    """The project of the local service that such a plan was sent to."""
    room = room or fresh()
    planned(place, mapping, *files, **asked)
    outcome = run(place / "plan", room.url, key=room.key())
    assert outcome.balanced, outcome
    return room


def people(room: Room) -> dict[tuple[str, ...], dict[str, Any]]:
    """Each person's properties by its ids; persons of groups, which have no other use, are left out."""
    return {
        one.distinct_ids: one.properties
        for one in room.persons()
        if not one.distinct_ids[0].startswith(("$company_", "$team_"))
    }


def groups(room: Room) -> dict[tuple[str, str], dict[str, Any]]:
    """Each group's properties by its type and key."""
    return {(one.type, one.key): one.properties for one in room.groups()}


def mixpanel(at: int, distinct_id: str, name: str = "Seen", **more: Any) -> dict[str, Any]:
    """A row; in names of properties `_x` means `$x`. Its $insert_id depends on the rest."""
    named = {f"${key[1:]}" if key.startswith("_") else key: value for key, value in more.items()}
    insert = f"{name}-{at}-{distinct_id}-{len(named)}"
    return {
        "event": name,
        "properties": {"time": JANUARY + at, "distinct_id": distinct_id, "$insert_id": insert} | named,
    }


def amplitude(at: int, user: str | None, device: str, name: str = "Seen", **more: Any) -> dict[str, Any]:
    """A row."""
    when = datetime.fromtimestamp(JANUARY + at, UTC).strftime("%Y-%m-%d %H:%M:%S.000000")
    ids = {"user_id": user, "device_id": device, "$insert_id": f"{name}-{at}-{user}-{device}"}
    return {"event_type": name, "event_time": when} | ids | more


def segment(at: int, kind: str, user: str | None, anonymous: str | None, **more: Any) -> dict[str, Any]:
    """A call."""
    when = datetime.fromtimestamp(JANUARY + at, UTC).isoformat()
    name = {"event": "Seen"} if kind == "track" else {}
    ids = {"messageId": f"{kind}-{at}-{user}-{anonymous}", "userId": user, "anonymousId": anonymous}
    return {"type": kind, "timestamp": when} | name | ids | more


IDS = st.sampled_from(["a", "b", "c"])
USERS = st.sampled_from(["u", "v", None])
TRAITS = st.dictionaries(st.sampled_from(["plan", "n"]), st.integers(0, 3), max_size=2)
CALLS = st.one_of(
    st.builds(lambda at, user, one: segment(at, "track", user, one), st.integers(0, 9), USERS, IDS),
    st.builds(
        lambda at, user, one, traits: segment(at, "identify", user, one, traits=traits),
        st.integers(0, 9), USERS, IDS, TRAITS,
    ),
    st.builds(
        lambda at, user, key, traits: segment(at, "group", user, "a", groupId=key, traits=traits),
        st.integers(0, 9), USERS, st.sampled_from(["acme", "zoo"]), TRAITS,
    ),
    st.builds(lambda at, one: segment(at, "alias", "u", None, previousId=one), st.integers(0, 9), IDS),
)  # fmt: skip


def came_to(
    calls: Rows,
    chance: random.Random | None,
    promote: str,
    mapping: str = "segment",
    room: Room | None = None,
    **asked: Any,
) -> object:
    """Everything at the service after these calls: in random order, files and batches if given, otherwise in theirs."""
    with TemporaryDirectory() as folder:
        rows = list(calls)
        cut, batch = len(rows), 5_000
        if chance is not None:
            chance.shuffle(rows)
            cut, batch = chance.randint(0, len(rows)), chance.randint(1, 5)
        room = room or fresh(promote_properties=promote)
        plan = planned(Path(folder), mapping, rows[:cut], rows[cut:], max_batch_events=batch, **asked)
        send_limits = ONE_AT_A_TIME if chance is None else None
        if plan.events.made:  # calls may have no content, and then nothing may be sent
            outcome = run(Path(folder) / "plan", room.url, key=room.key(), send_limits=send_limits)
            assert outcome.balanced, outcome
        ids = sorted((one.distinct_ids, sorted(one.properties.items())) for one in room.persons())
        return ids, sorted((*key, sorted(held.items())) for key, held in groups(room).items()), room.warnings()
