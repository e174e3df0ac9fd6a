"""The written contract (docs/know/service.md#management-api), row by row, through the client and through the commands.

Both speak to the local service, once as the contract states it and once as the real service was seen to answer. The
operations are those of `contract_table`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli import run
from pipeline.config import Secret
from pipeline.errors import UsageError
from pipeline.local_service import Settings
from pipeline.management import ManagementClient, problems
from pipeline.management.models import HogFunction, HogFunctionWrite, ServiceObject
from pipeline.management.resources import Icon
from tests.support.contract_table import FILTERS, MODELS, OPERATIONS, SPENDING, WRITABLE, holds, opening
from tests.support.management_service import ALL, RECORDING, SCOPES, Asking, asking, key_with, key_without
from tests.support.scripted_api import AT_ONCE

pytestmark = pytest.mark.slow

Do = Callable[[ManagementClient, str], Any]


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


NO_FILE = {
    "type", "kind", "name", "description", "enabled", "deleted", "icon_url", "template_id", "execution_order",
    "_create_in_folder",
}  # fmt: skip
"""Writable fields whose option is the text itself."""


def client(ask: Asking, key: str = ALL, project: str | None = "1") -> ManagementClient:
    return ManagementClient(ask.service.url, Secret(key), project, retry=AT_ONCE)


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command against a service; its exit code, stdout and stderr."""

    def calling(ask: Asking, line: str, id: str = "", *, key: str = ALL, project: bool = True) -> tuple[int, str, str]:
        monkeypatch.setenv("BACKCAST_PERSONAL_KEY", key)
        words = [word.replace("ID", id, 1) if word.startswith("ID") else word for word in line.split()]
        capfd.readouterr()
        code = run([*words, "--to", ask.service.url, *(["--project", "1"] if project else []), "--json"])
        return code, *capfd.readouterr()

    return calling


@pytest.fixture
def asked(name: str, request: pytest.FixtureRequest) -> Any:
    """A service for one row: the shared one, where the row destroys no recording."""
    if name != "delete recording":
        yield request.getfixturevalue("ask")
        return
    with asking() as fresh:
        yield fresh


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_row_of_the_contract_through_the_client(asked: Asking, name: str) -> None:
    """The object the contract names, and every field of it by its types; or nothing; or the refusal by its status."""
    row, id = OPERATIONS[name], asked.made(name="n", hog="return event")["id"]
    with client(asked) as speaking:
        if row.status >= 400:
            with pytest.raises(problems.ServiceProblem) as caught:
                row.do(speaking, id)
            assert (caught.value.status, caught.value.detail) == (row.status, "")
            return
        found = row.do(speaking, id)
    kind = MODELS[row.answer]
    if kind is None:
        assert found in (None, [], Icon(b"", ""))
    else:
        assert isinstance(found, kind)
        assert kind.model_validate(found.plain()) == found


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_row_of_the_contract_through_its_command(asked: Asking, command: Any, name: str) -> None:
    """Exit 0 and the same object as JSON; or exit 2 and the refusal's status."""
    row, id = OPERATIONS[name], asked.made(name="n", hog="return event")["id"]
    code, out, err = command(asked, row.command, id)
    if row.status >= 400:
        assert (code, out, f"answered {row.status}" in err) == (2, "", True)
        return
    assert (code, err) == (0, "")
    said, kind = json.loads(out), MODELS[row.answer]
    if kind is not None:
        assert kind.model_validate(said).plain() == said
        assert {"id", "access_token", "results"} & set(said)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_key_without_the_scope_is_told_which_one_is_missing(asked: Asking, command: Any, name: str) -> None:
    """By every scope but its own, one by one and together, through the client and the command; its own is enough."""
    row, id = OPERATIONS[name], asked.made(name="n", hog="return event")["id"]
    wrong = [key_with(scope) for scope in SCOPES if scope not in opening(row.scope)]
    for key in (key_without(row.scope), *wrong):
        with client(asked, key) as speaking, pytest.raises(problems.Forbidden) as caught:
            row.do(speaking, id)
        assert caught.value.scope == row.scope
    for key in (key_without(row.scope), "phx_test_none"):
        code, out, err = command(asked, row.command, id, key=key)
        assert (code, out) == (5, "")
        assert row.scope in err.splitlines()[1]
    assert command(asked, row.command, id, key=key_with(row.scope))[0] == (2 if row.status >= 400 else 0)
    if row.status < 400 and name not in SPENDING:
        with client(asked, key_with(row.scope)) as speaking:
            row.do(speaking, id)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_wrong_key_opens_nothing(ask: Asking, command: Any, name: str) -> None:
    """401: an error of its own, and exit 5."""
    row, id = OPERATIONS[name], ask.made(name="n")["id"]
    with client(ask, "phx_test_unknown") as speaking, pytest.raises(problems.Unauthenticated):
        row.do(speaking, id)
    code, out, err = command(ask, row.command, id, key="phx_test_unknown")
    assert (code, out, "answered 401" in err) == (5, "", True)


@pytest.mark.parametrize("name", ["list hog functions", "delete hog function", "list recordings"])
def test_a_row_of_the_contract_through_a_process_of_its_own(ask: Asking, command: Any, name: str) -> None:
    """The installed command ends with the same exit code and prints the same."""
    row, id = OPERATIONS[name], ask.made(name="n", hog="return event")["id"]
    words = row.command.replace("ID", id).split()
    ran = subprocess.run(
        [sys.executable, "-m", "pipeline", *words, "--to", ask.service.url, "--project", "1", "--json"],
        env=os.environ | {"BACKCAST_PERSONAL_KEY": ALL}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout, ran.stderr) == command(ask, row.command, id)


@pytest.mark.parametrize("field", WRITABLE)
def test_a_writable_field_is_written_by_client_and_command(
    ask: Asking, command: Any, field: str, tmp_path: Path
) -> None:
    """By create and by update, read back by retrieve."""
    value = WRITABLE[field]
    option = value if isinstance(value, str) else json.dumps(value)
    (tmp_path / "value").write_text(option, "utf-8")
    words = f"--{field} {option if field in NO_FILE else f'@{tmp_path}/value'}"
    with client(ask) as speaking:
        made = speaking.hog_functions.create({"name": "n", "hog": "return null"} | {field: value})
        changed = speaking.hog_functions.update(ask.made(name="n")["id"], HogFunctionWrite(**{field: value}))
        name = "" if field == "name" else "--name n"
        by_create = command(ask, f"hog-functions create {name} {words}")
        by_update = command(ask, f"hog-functions update ID {words}", ask.made(name="n")["id"])
        for code, _, err in (by_create, by_update):
            assert (code, err) == (0, "")
        ids = [made.id, changed.id, *(json.loads(out)["id"] for _, out, _ in (by_create, by_update))]
        for id in ids:
            assert holds(speaking.hog_functions.retrieve(str(id)).plain()[field], value)
            assert holds(json.loads(command(ask, "hog-functions get ID", id)[1])[field], value)


@pytest.mark.parametrize("verb", ["create", "update ID", "broadcast ID --yes", "invoke ID", "rearrange"])
def test_the_whole_list_of_writable_fields_is_a_body(ask: Asking, command: Any, verb: str, tmp_path: Path) -> None:
    """Wherever the contract lists it, from a file and as an object."""
    (tmp_path / "body.json").write_text(json.dumps(WRITABLE), "utf-8")
    id, verb_name = ask.made(name="n")["id"], verb.split()[0]
    assert command(ask, f"hog-functions {verb} --data @{tmp_path}/body.json", id)[::2] == (0, "")
    with client(ask) as speaking:
        do = getattr(speaking.hog_functions, verb_name)
        found = {"create": do, "rearrange": lambda body: do(body=body)}.get(verb_name, lambda body: do(id, body))(
            WRITABLE
        )
    assert holds(found.plain(), WRITABLE) if isinstance(found, HogFunction) else found in (None, [])


def test_a_deleted_function_is_gone_until_it_is_brought_back(ask: Asking, command: Any) -> None:
    """The transitions of 3, by commands."""
    id = ask.made(name="n")["id"]
    assert command(ask, "hog-functions delete ID --yes", id)[0] == 0
    assert command(ask, "hog-functions get ID", id)[0] == 2
    assert id not in command(ask, "hog-functions list --all")[1]
    assert command(ask, "hog-functions update ID --deleted false", id)[0] == 0
    assert json.loads(command(ask, "hog-functions get ID", id)[1])["deleted"] is False


def test_a_deleted_recording_is_gone(real: Asking) -> None:
    """For good."""
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


def test_every_filter_of_the_list_is_an_option(ask: Asking, command: Any) -> None:
    """The ten of 4.1, each by itself and all at once, leave the one function that they fit."""
    with client(ask) as speaking:
        one = speaking.hog_functions.create({"name": "one", "type": "site_app", "kind": "only", "enabled": True})
        two = speaking.hog_functions.create({"name": "two", "type": "destination", "kind": "b", "enabled": False})
    user = one.created_by.id if one.created_by else None
    values = (one.created_at, user, "true", "b,c", one.id, "only,x", 500, 0, "site_app,x", one.updated_at)
    words = {name: f"--{name} {value}" for name, value in zip(FILTERS, values, strict=True)}

    def found(*names: str) -> set[str]:
        code, out, err = command(ask, " ".join(["hog-functions list", *(words[name] for name in names)]))
        assert (code, err) == (0, "")
        return {item["id"] for item in json.loads(out)["results"]}

    assert found(*FILTERS) == {one.id}
    for name in FILTERS:
        seen = found(name, "limit")
        assert one.id in seen
        assert (two.id in seen) is (name in ("created_by", "limit", "offset")), name
    assert json.loads(command(ask, "hog-functions list --created_by 999")[1])["results"] == []


@pytest.mark.parametrize("what", ["hog-functions", "recordings"])
def test_pages_of_a_list_by_its_command(ask: Asking, command: Any, what: str) -> None:
    """`--limit` and `--offset` choose a page, whose neighbours it names; `--all` is every page as one."""
    for n in range(3):
        ask.made(name=f"page {n}")
    whole = json.loads(command(ask, f"{what} list --all --limit 2")[1])
    first, second = (json.loads(command(ask, f"{what} list --limit 2 --offset {at}")[1]) for at in (0, 2))
    assert whole["count"] == first["count"] == len(whole["results"])
    assert whole["results"][:3] == (first["results"] + second["results"])[:3]
    assert (first["previous"], "offset=2" in first["next"], second["previous"] is None) == (None, True, False)


def test_the_ids_of_projects_by_their_command(ask: Asking, command: Any) -> None:
    """Section 4: what `--project` takes; a key sees the projects that it reaches."""
    code, out, _ = command(ask, "projects list", project=False)
    assert (code, [(one["id"], one["name"]) for one in json.loads(out)["results"]]) == (0, [(1, "A"), (2, "B")])
    _, out, _ = command(ask, "projects list", key="phx_test_b", project=False)
    assert [one["id"] for one in json.loads(out)["results"]] == [2]


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
"""What the real service asks for, where that is not what the contract shows (docs/know/service.md#hog-functions,
#session-recordings)."""


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_same_operations_against_the_service_as_it_was_seen(real: Asking, command: Any, name: str) -> None:
    """The client takes its other shapes, and the commands print them."""
    row = OPERATIONS[name]
    id = real.made(name="n", hog="return event", type="transformation")["id"]
    do, line = CHANGED.get(name, (row.do, row.command))
    code, out, err = command(real, line, id)
    if row.status >= 400:
        assert (code, f"answered {row.status}" in err) == (2, True)
        return
    assert (code, err) == (0, "")
    if name in SPENDING:
        return
    with client(real) as speaking:
        found = do(speaking, id)
    kind = MODELS[row.answer]
    if name in OBSERVED:
        assert (found.plain() if isinstance(found, ServiceObject) else found) == OBSERVED[name]
        assert json.loads(out) == OBSERVED[name]
    elif kind is not None:
        assert isinstance(found, kind)
    elif name == "rearrange":
        assert [one.execution_order for one in found if one.id == id] == [4]
    elif name == "retrieve icon":
        assert (found.media_type, found.content[:4]) == ("image/png", b"\x89PNG")
