"""The written contract, row by row (4.1, 4.2, 5, 7), through the client and through the commands.

Both speak to the local service, once as the contract states it and once as the real service was seen to answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from answers import AT_ONCE
from management_service import ALL, RECORDING, SCOPES, Asking, asking, key_with

from pipeline.cli import run
from pipeline.config import Secret
from pipeline.errors import UsageError
from pipeline.management import ManagementClient, problems
from pipeline.management.hog_functions import Icon
from pipeline.management.models import (
    HogFunction,
    HogFunctionListItem,
    HogFunctionWrite,
    Page,
    ServiceObject,
    SessionRecording,
    SharingConfiguration,
)
from pipeline.service import Settings

READ, WRITE = "hog_function:read", "hog_function:write"
WATCH, KEEP, SHARE = "session_recording:read", "session_recording:write", "sharing_configuration:read"
Do = Callable[[ManagementClient, str], Any]


class Row(NamedTuple):
    """One row of 4.1 or 4.2: its scope of 5, what the client does with an id, its command, its kind of answer.

    `kind` None is an empty body. A body is only checked where it is one of the contract's.
    """

    scope: str
    do: Do
    command: str
    kind: type[ServiceObject] | None


ROWS = {
    "list hog functions": Row(
        READ, lambda c, id: c.hog_functions.list().page(), "hog-functions list", Page[HogFunctionListItem]
    ),
    "create hog function": Row(
        WRITE,
        lambda c, id: c.hog_functions.create(HogFunctionWrite(name="n", hog="return event")),
        "hog-functions create --name n --hog return",
        HogFunction,
    ),
    "retrieve hog function": Row(READ, lambda c, id: c.hog_functions.retrieve(id), "hog-functions get ID", HogFunction),
    "update hog function": Row(
        WRITE, lambda c, id: c.hog_functions.update(id, {"name": "m"}), "hog-functions update ID --name m", HogFunction
    ),
    "soft delete": Row(WRITE, lambda c, id: c.hog_functions.delete(id), "hog-functions delete ID --yes", HogFunction),
    "broadcast": Row(
        WRITE, lambda c, id: c.hog_functions.broadcast(id, {"name": "n"}), "hog-functions broadcast ID --yes", None
    ),
    "invoke": Row(WRITE, lambda c, id: c.hog_functions.invoke(id, {"name": "n"}), "hog-functions invoke ID", None),
    "retrieve logs": Row(READ, lambda c, id: c.hog_functions.logs(id), "hog-functions logs ID", None),
    "retrieve metrics": Row(READ, lambda c, id: c.hog_functions.metrics(id), "hog-functions metrics ID", None),
    "retrieve metrics totals": Row(
        READ, lambda c, id: c.hog_functions.metrics_totals(id), "hog-functions totals ID", None
    ),
    "retrieve icon": Row(READ, lambda c, id: c.hog_functions.icon(), "hog-functions icon", None),
    "retrieve icons": Row(READ, lambda c, id: c.hog_functions.icons(), "hog-functions icons", None),
    "rearrange": Row(WRITE, lambda c, id: c.hog_functions.rearrange({id: 4}), "hog-functions rearrange ID=4", None),
    "list recordings": Row(
        WATCH, lambda c, id: c.session_recordings.list().page(), "recordings list", Page[SessionRecording]
    ),
    "retrieve recording": Row(
        WATCH, lambda c, id: c.session_recordings.retrieve(RECORDING), f"recordings get {RECORDING}", SessionRecording
    ),
    "update recording": Row(
        KEEP,
        lambda c, id: c.session_recordings.update(RECORDING, {"person": {"name": "Eve"}}),
        f'recordings update {RECORDING} --person {{"name":"Eve"}}',
        SessionRecording,
    ),
    "sharing configuration": Row(
        SHARE,
        lambda c, id: c.session_recordings.sharing(RECORDING),
        f"recordings sharing {RECORDING}",
        SharingConfiguration,
    ),
    "delete recording": Row(
        KEEP, lambda c, id: c.session_recordings.delete("rec-2"), "recordings delete rec-3 --yes", None
    ),
}


@pytest.fixture(scope="module")
def ask() -> Iterator[Asking]:
    """A service that answers what the contract states."""
    with asking() as made:
        yield made


@pytest.fixture(scope="module")
def real() -> Iterator[Asking]:
    """A service that answers as the real one was seen to."""
    with asking(Settings(behaviour="observed", icons="open", broadcast="success")) as made:
        yield made


def client(ask: Asking, key: str = ALL, project: str | None = "1") -> ManagementClient:
    return ManagementClient(ask.service.url, Secret(key), project, patience=AT_ONCE)


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command against a service; its exit code, stdout and stderr."""

    def calling(ask: Asking, line: str, id: str = "", *, key: str = ALL) -> tuple[int, str, str]:
        monkeypatch.setenv("BACKCAST_PERSONAL_KEY", key)
        words = [word.replace("ID", id, 1) if word.startswith("ID") else word for word in line.split()]
        capfd.readouterr()
        code = run([*words, "--to", ask.service.url, "--project", "1", "--json"])
        return code, *capfd.readouterr()

    return calling


@pytest.mark.parametrize("name", ROWS)
def test_a_row_of_the_contract_through_the_client(ask: Asking, name: str) -> None:
    """The object the contract names, and every field of it by its types; or nothing."""
    row, id = ROWS[name], ask.made(name="n", hog="return event")["id"]
    with client(ask) as speaking:
        found = row.do(speaking, id)
    if row.kind is None:
        assert found in (None, [], Icon(b"", ""))
    else:
        assert isinstance(found, row.kind)
        assert row.kind.model_validate(found.plain()) == found


@pytest.mark.parametrize("name", ROWS)
def test_a_row_of_the_contract_through_its_command(ask: Asking, command: Any, name: str) -> None:
    """Exit 0 and the same object as JSON."""
    row, id = ROWS[name], ask.made(name="n", hog="return event")["id"]
    code, out, err = command(ask, row.command, id)
    assert (code, err) == (0, "")
    said = json.loads(out)
    if row.kind is not None:
        assert row.kind.model_validate(said).plain() == said
        assert {"id", "access_token", "results"} & set(said)


@pytest.mark.parametrize("name", ROWS)
def test_a_key_without_the_scope_is_told_which_one_is_missing(ask: Asking, command: Any, name: str) -> None:
    """Every scope but the one of the operation, and its write that includes a read, is refused by name."""
    row, id = ROWS[name], ask.made(name="n", hog="return event")["id"]
    for scope in SCOPES:
        if scope in (row.scope, row.scope.replace(":read", ":write")):
            continue
        with client(ask, key_with(scope)) as speaking, pytest.raises(problems.Forbidden) as caught:
            row.do(speaking, id)
        assert caught.value.scope == row.scope
    code, _, err = command(ask, row.command, id, key="phx_test_none")
    assert code == 5
    assert row.scope in err.splitlines()[1]


def test_the_scopes_of_the_contract_are_enough(ask: Asking) -> None:
    """One key with the one scope does its operations."""
    for name, row in ROWS.items():
        if name != "delete recording":
            id = ask.made(name="n", hog="return event")["id"]
            with client(ask, key_with(row.scope)) as speaking:
                row.do(speaking, id)


def test_hard_deletion_is_refused_by_the_service_too(ask: Asking, command: Any) -> None:
    """405 with an empty body (7)."""
    id = ask.made(name="n")["id"]
    with client(ask) as speaking, pytest.raises(problems.NotAllowed) as caught:
        speaking.hog_functions.hard_delete(id, send=True)
    assert (caught.value.status, caught.value.detail) == (405, "")
    code, _, err = command(ask, "hog-functions delete ID --hard --send --yes", id)
    assert (code, "answered 405" in err) == (2, True)


def test_a_deleted_function_is_gone_until_it_is_brought_back(ask: Asking, command: Any) -> None:
    """The transitions of 3, by commands."""
    id = ask.made(name="n")["id"]
    assert command(ask, "hog-functions delete ID --yes", id)[0] == 0
    assert command(ask, "hog-functions get ID", id)[0] == 2
    assert id not in command(ask, "hog-functions list --all")[1]
    assert command(ask, "hog-functions update ID --deleted false", id)[0] == 0
    assert json.loads(command(ask, "hog-functions get ID", id)[1])["deleted"] is False


def test_a_deleted_recording_is_gone(real: Asking) -> None:
    """For good (4.2)."""
    with client(real) as speaking:
        speaking.session_recordings.delete("rec-2")
        with pytest.raises(problems.NotFound):
            speaking.session_recordings.retrieve("rec-2")


@pytest.mark.parametrize(
    ("do", "kind"),
    [
        (lambda c: c.hog_functions.retrieve("0190c0de-0000-7000-8000-00000000dead"), problems.NotFound),
        (lambda c: c.hog_functions.create({"enabled": "yes"}), problems.BadRequest),
        (lambda c: c.hog_functions.update("x", {"name": 5}), problems.NotFound),
        (lambda c: c.session_recordings.sharing("no-such"), problems.NotFound),
    ],
)
def test_a_refusal_carries_the_words_of_the_service(ask: Asking, do: Any, kind: type[problems.ServiceProblem]) -> None:
    """type, code and detail; attr where a field is wrong."""
    with client(ask) as speaking, pytest.raises(kind) as caught:
        do(speaking)
    assert caught.value.type
    assert caught.value.code
    assert caught.value.detail
    assert (caught.value.attr == "enabled") is (kind is problems.BadRequest)


def test_a_wrong_key_and_another_project_are_two_things(ask: Asking) -> None:
    """401, and 403 that names no scope."""
    with client(ask, "phx_test_unknown") as speaking, pytest.raises(problems.Unauthenticated):
        speaking.hog_functions.list().page()
    with client(ask, "phx_test_b") as speaking, pytest.raises(problems.Forbidden) as caught:
        speaking.hog_functions.list().page()
    assert "project" in caught.value.hint


def test_pages_follow_each_other_to_the_end(ask: Asking) -> None:
    """By the service's own `next`, filters kept."""
    with client(ask, project="2") as speaking:
        made = {speaking.hog_functions.create({"name": f"n{n}", "type": "site_app"}).id for n in range(7)}
        speaking.hog_functions.create({"name": "other", "type": "destination"})
        found = [one.id for one in speaking.hog_functions.list(type=["site_app"], limit=3)]
        page = speaking.hog_functions.list(type="site_app", limit=3, offset=3).page()
    assert len(found) == 7
    assert set(found) == made
    assert (page.count, [one.id for one in page.results or ()]) == (7, found[3:6])
    assert page.previous is not None
    assert page.next is not None


def test_every_filter_of_the_list_filters(ask: Asking) -> None:
    """All ten of 4.1 in one call find the one function, and each of them alone leaves another out."""
    with client(ask, project="2") as speaking:
        one = speaking.hog_functions.create({"name": "one", "type": "site_app", "kind": "a", "enabled": True})
        two = speaking.hog_functions.create({"name": "two", "type": "destination", "kind": "b", "enabled": False})
        assert one.created_by is not None
        wanted: dict[str, Any] = {
            "created_at": one.created_at, "created_by": one.created_by.id, "enabled": True, "exclude_kind": ["b", "c"],
            "id": one.id, "kind": ["a"], "limit": 5, "offset": 0, "type": ["site_app", "x"],
            "updated_at": one.updated_at,
        }  # fmt: skip
        assert [found.id for found in speaking.hog_functions.list(**wanted)] == [one.id]
        for name in ("created_at", "enabled", "exclude_kind", "id", "kind", "type", "updated_at"):
            found_ids = {found.id for found in speaking.hog_functions.list(**{name: wanted[name]})}
            assert (one.id in found_ids, two.id in found_ids) == (True, False), name
        assert list(speaking.hog_functions.list(created_by=999)) == []


def test_the_only_project_of_a_key_is_found(ask: Asking) -> None:
    """A key that reaches two has to be told which (4)."""
    with client(ask, "phx_test_b", None) as speaking:
        assert speaking.choose_project() == "2"
    with client(ask, project=None) as speaking, pytest.raises(UsageError, match=r"1 \(A\), 2 \(B\)"):
        speaking.choose_project()


OBSERVED = {
    "broadcast": {"success": True}, "update recording": {"success": True},
    "retrieve logs": {"count": 0, "next": None, "previous": None, "results": []},
    "retrieve metrics totals": {"totals": {}},
}  # fmt: skip
CHANGED: dict[str, tuple[Do, str]] = {
    "invoke": (
        lambda c, id: c.hog_functions.invoke(id, {"configuration": {}}),
        'hog-functions invoke ID --data {"configuration":{}}',
    ),
    "retrieve icon": (lambda c, id: c.hog_functions.icon("slack.com"), "hog-functions icon --id slack.com"),
    "update recording": (
        lambda c, id: c.session_recordings.update(RECORDING, {"viewed": True}),
        f'recordings update {RECORDING} --data {{"viewed":true}}',
    ),
    "delete recording": (lambda c, id: c.session_recordings.delete("rec-3"), "recordings delete rec-3 --yes"),
}
"""What the real service asks for, where that is not what the contract shows (service-behaviour 5.2, 5.3)."""


@pytest.mark.parametrize("name", ROWS)
def test_the_same_operations_against_the_service_as_it_was_seen(real: Asking, command: Any, name: str) -> None:
    """The client takes its other shapes, and the commands print them."""
    row = ROWS[name]
    id = real.made(name="n", hog="return event", type="transformation")["id"]
    do, line = CHANGED.get(name, (row.do, row.command))
    code, out, err = command(real, line, id)
    assert (code, err) == (0, "")
    if name == "soft delete":
        return
    with client(real) as speaking:
        found = do(speaking, id)
    if name in OBSERVED:
        assert (found.plain() if isinstance(found, ServiceObject) else found) == OBSERVED[name]
        assert json.loads(out) == OBSERVED[name]
    elif row.kind is not None:
        assert isinstance(found, row.kind)
    elif name == "rearrange":
        assert [one.execution_order for one in found if one.id == id] == [4]
    elif name == "retrieve icon":
        assert (found.media_type, found.content[:4]) == ("image/png", b"\x89PNG")
