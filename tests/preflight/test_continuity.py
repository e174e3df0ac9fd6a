"""Of people seen live after the cut-over, which are those of the imported history; and what joins the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.config import Secret
from pipeline.management import ManagementClient
from pipeline.verify.live_people import read_live_people
from tests.support.commands import Printed
from tests.support.management_service import ALL, Asking
from tests.support.preflight import planned_rows, send

CUT_OVER = "2024-05-01T00:00:00Z"
COUNTS = ("looked_up", "by_id", "by_merge", "split", "ambiguous", "new", "joinable", "active", "not_seen_again")


def row(person: str, day: str = "2024-04-20", anonymous: str = "", email: str = "") -> dict[str, Any]:
    row = {"event": "Seen", "timestamp": f"{day}T00:00:00Z", "distinct_id": person, "anonymous_id": anonymous}
    return row | ({"email": email} if email else {})


HISTORY = [
    row("u-1"),
    row("u-2"),
    row("", anonymous="d-3"), row("u-3", anonymous="d-3"),
    row("u-5", email="Ann@x.org"),
    row("", anonymous="d-6"), row("u-6", anonymous="d-6", email="bob@x.org"),
    row("u-7", email="team@x.org"), row("u-8", email="team@x.org"),
    row("u-9", email="noreply@x.org"),
    row("u-4", anonymous="d-4"),
    row("u-10"), row("u-11", "2023-01-01"),
]  # fmt: skip


def live(event: str, person: str, day: str = "2024-05-02", **properties: Any) -> dict[str, Any]:
    return {"event": event, "properties": {"distinct_id": person} | properties, "timestamp": f"{day}T00:00:00Z"}


LIVE = [
    live("Seen", "u-1"),
    live("$identify", "u-2", "2024-04-29", **{"$anon_distinct_id": "sdk-2"}), live("Seen", "sdk-2"),
    live("Seen", "d-3"),
    live("Seen", "d-4"),
    live("Seen", "sdk-5", **{"$set": {"email": "ann@X.org"}}),
    live("$identify", "n-6", **{"$anon_distinct_id": "sdk-6"}), live("Seen", "n-6", email="bob@x.org"),
    live("Seen", "sdk-7", email="team@x.org"),
    live("Seen", "sdk-9", email="noreply@x.org"),
    live("Seen", "sdk-12", email="eve@x.org"), live("Seen", "sdk-13"),
    live("Seen", "imported", analytics_source="another"),
]  # fmt: skip
FOUND = {"looked_up": 10, "by_id": 2, "by_merge": 1, "split": 3, "ambiguous": 2, "new": 2, "joinable": 2,
         "active": 10, "not_seen_again": 4}  # fmt: skip


def asked(here: Callable[..., Printed], command: str, directory: Path, url: str) -> dict[str, Any]:
    """The object of `preflight` or `verify` about the people of a plan."""
    printed = here(command, directory, "--to", url, "--continuity", "--cut-over", CUT_OVER, "--json")
    answer = json.loads(printed.out)
    if command == "verify":
        found: dict[str, Any] = answer["continuity"]
        return found
    [check] = [check for check in answer["checks"] if check["name"] == "continuity"]
    assert check["level"] == "warning"
    return {"detail": check["detail"], **check["facts"]}


def counts(found: dict[str, Any]) -> dict[str, int]:
    return {name: found.get(name, 0) for name in COUNTS}


def test_people_who_split_are_found_and_joined_by_the_written_pairs(
    ask: Asking, here: Callable[..., Printed], tmp_path: Path
) -> None:
    """Before sending, each planted person is counted once, by how it continues; the pairs that are written, planned
    with --identities, join those whom the service lets a merge join."""
    url = ask.service.url
    send(ask, *LIVE)
    directory = planned_rows(tmp_path / "before", *HISTORY)
    found = asked(here, "preflight", directory, url)
    assert counts(found) == FOUND
    assert "The same as in the history: 3 (30.0 %), 2 by id and 1 by merges." in found["detail"]
    assert {(one["live"], one["history"], one["by"], one["joins"]) for one in found["splits"]} == {
        ("sdk-5", "u-5", "email", True), ("n-6", "u-6", "email", False), ("d-4", "u-4", "device", True),
    }  # fmt: skip
    pairs = Path(found["merges"])
    assert pairs.read_text() == "anonymous_id,user_id\nd-4,u-4\nsdk-5,u-5\n"
    kept = pairs.rename(tmp_path / "merges.csv")
    joined = planned_rows(tmp_path / "joined", *HISTORY, identities=kept)
    assert here("apply", joined, "--to", url).code == 0
    after = asked(here, "verify", joined, url)
    assert counts(after) == FOUND | {"by_merge": 3, "split": 1, "joinable": 0}
    assert [one["live"] for one in after["splits"]] == ["n-6"]


def test_what_landed_decides_once_the_history_is_sent(
    ask: Asking, here: Callable[..., Printed], tmp_path: Path
) -> None:
    """A person of the history who is not identified joins the identified live one; ids that are an e-mail count. The
    report has no ids, and `discard` removes the pairs."""
    url = ask.service.url
    rows = [row("Cat@x.org"), row("u-3") | {"$email": "dan@x.org"}]
    send(ask, live("$identify", "n-2", **{"$anon_distinct_id": "sdk-2", "$set": {"email": "cat@x.org"}}),
         live("$identify", "dan@x.org", **{"$anon_distinct_id": "sdk-3"}), live("Seen", "new"))  # fmt: skip
    directory = planned_rows(tmp_path / "rows", *rows)
    assert here("apply", directory, "--to", url).code == 0
    found = asked(here, "verify", directory, url)
    assert counts(found) == {"looked_up": 3, "by_id": 0, "by_merge": 0, "split": 2, "ambiguous": 0, "new": 1,
                             "joinable": 2, "active": 2, "not_seen_again": 0}  # fmt: skip
    assert Path(found["merges"]).read_text() == "anonymous_id,user_id\nCat@x.org,n-2\nu-3,dan@x.org\n"
    assert "n-2" not in (directory / "report.json").read_text()
    here("discard", directory, "--unsent", "--yes")
    assert not Path(found["merges"]).exists()
    refused = here("preflight", directory, "--to", url, "--continuity")
    assert refused.code == 2
    assert "were discarded" in refused.err


def test_of_too_many_people_a_sample_is_read(ask: Asking) -> None:
    """The sample is about as large as asked, its share says what it stands for, and pages lose nobody."""
    send(ask, *(live("Seen", f"sdk-{number}") for number in range(600)))
    with ManagementClient(ask.service.url, Secret(ALL), "1") as client:
        everyone = read_live_people(client, "", None)
        some = read_live_people(client, "", everyone.since, 150)
    assert (everyone.people, len({min(person.ids) for person in everyone.persons}), everyone.share) == (600, 600, 1.0)
    assert 100 < len(some.persons) < 200
    assert some.share == 0.25
