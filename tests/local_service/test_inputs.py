"""Inputs that a hog function's schema requires, under `observed`: who asks for them, and when."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.local_service.settings import preset
from tests.support import management_service
from tests.support.management_service import LIST, Asking, asking

SCHEMA = [
    {"key": "url", "type": "string", "required": True},
    {"key": "token", "type": "string", "required": True, "secret": True},
    {"key": "note", "type": "string"},
]
WHOLE: dict[str, Any] = {"url": {"value": "u"}, "token": {"value": "t"}}


@pytest.fixture
def ask(observed: Asking) -> Asking:
    return observed


def refused(answer: Any) -> tuple[int, str, str]:
    """Status, field and words of a refusal."""
    return answer.status_code, answer.json()["attr"], answer.json()["detail"]


LACKING: dict[str, tuple[dict[str, Any], str]] = {
    "no inputs at all": ({}, "url"),
    "no inputs": ({"inputs": {}}, "url"),
    "no value": ({"inputs": WHOLE | {"url": {}}}, "url"),
    "an empty text": ({"inputs": WHOLE | {"url": {"value": ""}}}, "url"),
    "null": ({"inputs": WHOLE | {"url": {"value": None}}}, "url"),
    "no secret": ({"inputs": {"url": {"value": "u"}}}, "token"),
    "an empty secret": ({"inputs": WHOLE | {"token": {"value": ""}}}, "token"),
}


@pytest.mark.parametrize(("body", "key"), LACKING.values(), ids=LACKING.keys())
def test_a_function_is_not_made_without_a_required_input(ask: Asking, body: dict[str, Any], key: str) -> None:
    """400 names the input."""
    answer = ask("POST", LIST, {"hog": "h", "inputs_schema": SCHEMA, **body})
    assert refused(answer) == (400, f"inputs__{key}", "This field is required.")


def test_a_template_requires_its_inputs_too(ask: Asking) -> None:
    """One that requires none makes a function by itself."""
    assert refused(ask("POST", LIST, {"template_id": "template-webhook"}))[:2] == (400, "inputs__url")
    assert ask("POST", LIST, {"template_id": "template-geoip"}).status_code == 201
    given = {"template_id": "template-webhook", "inputs": {"url": {"value": "https://example.com"}}}
    assert ask("POST", LIST, given).status_code == 201


def test_false_and_zero_are_values(ask: Asking) -> None:
    """Nothing but null and the empty text is no value."""
    schema = [{"key": "a", "type": "boolean", "required": True}, {"key": "b", "type": "number", "required": True}]
    made = ask.made(hog="h", inputs_schema=schema, inputs={"a": {"value": False}, "b": {"value": 0}})
    assert {key: one["value"] for key, one in made["inputs"].items()} == {"a": False, "b": 0}


def test_an_update_is_held_to_the_schema_only_for_what_it_writes(ask: Asking) -> None:
    """A name changes without the inputs; written inputs replace all but the secrets that are kept."""
    path = LIST + ask.made(hog="h", inputs_schema=SCHEMA, inputs=WHOLE | {"note": {"value": "n"}})["id"] + "/"
    assert ask("PATCH", path, {"name": "other"}).status_code == 200
    assert refused(ask("PATCH", path, {"inputs": {"note": {"value": "m"}}})) == (
        400, "inputs__url", "This field is required.",
    )  # fmt: skip
    kept = ask("PATCH", path, {"inputs": {"url": {"value": "v"}}}).json()["inputs"]
    assert (list(kept), kept["url"]["value"], kept["token"]) == (["url", "token"], "v", {"secret": True})
    wider = [*SCHEMA, {"key": "more", "required": True}]
    assert ask("PATCH", path, {"inputs_schema": wider}).status_code == 200
    assert refused(ask("PATCH", path, {"inputs": kept}))[:2] == (400, "inputs__more")


def test_mappings_are_held_to_their_own_schemas(ask: Asking) -> None:
    """Those without inputs are not."""
    lacking = {"mappings": [{"inputs_schema": SCHEMA}, {"inputs_schema": SCHEMA, "inputs": {}}], "hog": "h"}
    assert refused(ask("POST", LIST, lacking)) == (400, "mappings__1__inputs__url", "This field is required.")
    made = ask.made(hog="h", mappings=[{"inputs_schema": SCHEMA}, {"inputs_schema": SCHEMA, "inputs": WHOLE}])
    assert made["mappings"][1]["inputs"]["token"] == {"secret": True}


def test_the_contract_requires_no_input() -> None:
    """It shows no such rule, and a seed is what is there, whatever it lacks."""
    management_service.shared().made(inputs_schema=SCHEMA)
    seed = {"hog_functions": [{"hog": "h", "inputs_schema": SCHEMA}]}
    with asking(preset("observed"), seed=seed) as ask:
        assert ask("GET", LIST).json()["count"] == 1
