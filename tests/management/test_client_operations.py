"""The typed client sends each operation as the contract writes it, and returns its answer as the contract's object."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from pipeline.management.models import HogFunctionWrite, SessionRecordingWrite
from tests.support.operations import FUNCTIONS, ID, OPERATIONS, PAGE, Do
from tests.support.scripted_api import KEY, answering
from tests.support.scripted_server import Canned, scripted


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_asked_as_the_contract_writes_it(name: str) -> None:
    """Method, path with its final slash, and the key as a Bearer token; one request."""
    do, method, path, said = OPERATIONS[name]
    with answering(lambda call: said) as service, service.client() as client:
        do(client)
    assert [(call.method, call.target) for call in service.asked] == [(method, path)]
    assert service.asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert (service.asked[0].headers.get("content-type") == "application/json") is bool(service.asked[0].body)


def test_all_ten_filters_of_the_list_are_sent() -> None:
    """Several types or kinds are a comma list; a bool is true or false; what is not given is not sent."""
    with answering(lambda call: PAGE) as service, service.client() as client:
        client.hog_functions.list(
            created_at="2024-01-01", created_by=3, enabled=False, exclude_kind=["a", "b"], id=ID, kind=("c", "d"),
            limit=5, offset=10, type="destination,site_app", updated_at="2024-01-02T03:04:05+00:00",
        ).page()  # fmt: skip
        client.hog_functions.list(type=[]).page()
    assert service.asked[0].query == {
        "created_at": "2024-01-01", "created_by": "3", "enabled": "false", "exclude_kind": "a,b", "id": ID,
        "kind": "c,d", "limit": "5", "offset": "10", "type": "destination,site_app",
        "updated_at": "2024-01-02T03:04:05+00:00",
    }  # fmt: skip
    assert service.asked[1].target == FUNCTIONS


@pytest.mark.parametrize(
    ("do", "sent"),
    [
        (lambda c: c.hog_functions.create(HogFunctionWrite(name="a", enabled=False)), {"name": "a", "enabled": False}),
        (lambda c: c.hog_functions.update(ID, {"filters": None}), {"filters": None}),
        (lambda c: c.hog_functions.update(ID, b'{"execution_order": 1.10}'), b'{"execution_order": 1.10}'),
        (lambda c: c.hog_functions.update(ID, {"execution_order": 10**30}), {"execution_order": 10**30}),
        (lambda c: c.hog_functions.delete(ID), {"deleted": True}),
        (lambda c: c.hog_functions.broadcast(ID), {}),
        (lambda c: c.hog_functions.broadcast(ID, HogFunctionWrite(hog="return 1")), {"hog": "return 1"}),
        (lambda c: c.hog_functions.invoke(ID, {"configuration": {"hog": ""}}), {"configuration": {"hog": ""}}),
        (lambda c: c.hog_functions.invoke(ID, HogFunctionWrite(kind="k")), {"kind": "k"}),
        (lambda c: c.hog_functions.rearrange({ID: 2, "b": 1}), {"orders": {ID: 2, "b": 1}}),
        (lambda c: c.hog_functions.rearrange(body=HogFunctionWrite(execution_order=3)), {"execution_order": 3}),
        (lambda c: c.session_recordings.update("r", SessionRecordingWrite(person={"id": 1})), {"person": {"id": 1}}),
        (lambda c: c.session_recordings.update("r", {"viewed": True}), {"viewed": True}),
    ],
)
def test_a_body_has_what_was_given_and_nothing_else(do: Do, sent: Any) -> None:
    """The writable fields wherever the contract lists them, the service's own forms, and JSON as given."""
    with answering(lambda call: Canned(200, {})) as service, service.client() as client:
        do(client)
    call = service.asked[0]
    assert (call.body if isinstance(sent, bytes) else call.json) == sent


def test_answers_become_the_objects_of_the_contract() -> None:
    """Typed, and fields that the contract does not have are kept."""
    function = {"id": ID, "name": "a", "inputs": {"u": {"value": "x"}}, "newer": [1]}
    with answering(lambda call: Canned(200, function)) as service, service.client() as client:
        found = client.hog_functions.retrieve(ID)
    assert found.inputs is not None
    assert (found.name, found.inputs["u"].value, found.plain()) == ("a", "x", function)


def test_a_rearrangement_gives_the_functions_that_are_shown() -> None:
    """A plain array as the service answers it, or nothing; the contract leaves it open."""
    shown = scripted(Canned(200, [{"id": "a"}, {"id": "b"}]), Canned(200), Canned(204))
    with answering(shown) as service, service.client() as client:
        found = [[one.id for one in client.hog_functions.rearrange({"a": 1})] for _ in range(3)]
    assert found == [["a", "b"], [], []]


def test_parameters_that_only_the_service_shows_are_sent_too() -> None:
    """Filters of logs, metrics and icons (docs/know/service.md#hog-functions)."""
    with answering(lambda call: Canned(200, {"totals": {}})) as service, service.client() as client:
        client.hog_functions.logs(ID, limit=2, after="a", before="b", level="ERROR", search="s", instance_id="i")
        client.hog_functions.metrics(ID, after="-7d", interval="day", breakdown_by="kind", name=["x", "y"], kind="k")
        assert client.hog_functions.metrics_totals(ID, before="b") == {"totals": {}}
        client.hog_functions.icon("slack.com")
        client.hog_functions.icons("slack")
    assert [call.query for call in service.asked] == [
        {"limit": "2", "after": "a", "before": "b", "level": "ERROR", "search": "s", "instance_id": "i"},
        {"after": "-7d", "interval": "day", "breakdown_by": "kind", "name": "x,y", "kind": "k"},
        {"before": "b"},
        {"id": "slack.com"},
        {"query": "slack"},
    ]


def test_an_icon_is_its_bytes_and_their_type() -> None:
    """Never decoded."""
    said = Canned(200, b"\x89PNG\xff", {"Content-Type": "image/png; x=1"})
    with answering(lambda call: said) as service, service.client() as client:
        assert client.hog_functions.icon() == (b"\x89PNG\xff", "image/png")


def test_what_does_not_need_the_models_does_not_load_them() -> None:
    """Planning and applying load neither the management API, nor the server and the database of the service."""
    script = """
import sys, pipeline.local_service
print([name for name in ("duckdb", "uvicorn", "pyarrow") if name in sys.modules])
import pipeline.management.problems, pipeline.api
print("pydantic" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "False"]
