"""The objects of the contract: names, nesting, nullability, exact round trips, no secret shown."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pipeline.management import models
from pipeline.management.models import (
    Filters,
    HogFunction,
    HogFunctionListItem,
    HogFunctionWrite,
    ListPage,
    ServiceObject,
    SessionRecording,
    SharingConfiguration,
)
from tests.support.contract_table import exact

FUNCTION = (
    "id type kind name description created_at created_by updated_at enabled deleted hog bytecode transpiled"
    " inputs_schema inputs filters masking mappings icon_url template template_id status execution_order"
    " _create_in_folder"
)
OMITTED = "deleted bytecode transpiled inputs_schema inputs mappings template_id _create_in_folder"
FIELDS = {
    "HogFunction": FUNCTION,
    "HogFunctionListItem": " ".join(name for name in FUNCTION.split() if name not in OMITTED.split()),
    "HogFunctionWrite": "type kind name description enabled deleted hog inputs_schema inputs filters masking mappings"
    " icon_url template_id execution_order _create_in_folder",
    "User": "id uuid distinct_id first_name last_name email is_email_verified hedgehog_config role_at_organization",
    "InputSchemaItem": "type key label choices required default secret hidden description integration integration_key"
    " requires_field integration_field requiredScopes templating",
    "InputValue": "value bytecode order transpiled",
    "Filters": "actions events properties bytecode transpiled filter_test_accounts bytecode_error",
    "Masking": "ttl threshold hash bytecode",
    "FunctionMapping": "name inputs_schema inputs filters",
    "Template": "mapping_templates mappings status free type id name hog inputs_schema category description filters"
    " masking icon_url kind",
    "MappingTemplate": "name include_by_default filters inputs inputs_schema",
    "TemplateMapping": "name filters inputs inputs_schema",
    "Status": "state rating tokens",
    "SessionRecording": "id distinct_id viewed viewers recording_duration active_seconds inactive_seconds start_time"
    " end_time click_count keypress_count mouse_activity_count console_log_count console_warn_count"
    " console_error_count start_url person storage snapshot_source ongoing activity_score",
    "Person": "id name distinct_ids properties created_at uuid",
    "SharingConfiguration": "created_at enabled access_token",
    "ListPage": "count next previous results",
}
"""The fields of the contract's objects, in its order (docs/know/service.md#hog-functions, #session-recordings)."""
NULL = {
    "HogFunction": "bytecode masking",
    "HogFunctionListItem": "filters masking",
    "HogFunctionWrite": "type filters masking",
    "InputSchemaItem": "default",
    "InputValue": "value transpiled",
    "Filters": "bytecode transpiled",
    "Masking": "bytecode",
    "Person": "properties",
    "ListPage": "next previous",
}
"""The fields that may be null: by the contract, and by the service's source for the value of an input and `masking`."""
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def kind(name: str) -> type[ServiceObject]:
    found: type[ServiceObject] = getattr(models, name)
    return ListPage[HogFunction] if name == "ListPage" else found


def wire_names(model: type[ServiceObject]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


@pytest.mark.parametrize("name", FIELDS)
def test_an_object_has_the_fields_of_the_contract(name: str) -> None:
    """In its order, and no other; all are optional. Null is accepted only where the contract shows it, by the model and
    by its JSON Schema."""
    model, schema = kind(name), kind(name).model_json_schema()
    assert wire_names(model) == FIELDS[name].split()
    made = model.model_validate({})
    assert (made.plain(), made.model_fields_set, "required" in schema) == ({}, set(), False)
    taken, validator = set(), jsonschema.Draft202012Validator(schema)
    for field in wire_names(model):
        with contextlib.suppress(ValidationError):
            model.model_validate({field: None})
            taken.add(field)
    assert taken == set(NULL.get(name, "").split())
    assert {field for field in wire_names(model) if validator.is_valid({field: None})} == taken


@pytest.mark.parametrize("name", FIELDS)
@settings(max_examples=5)
@given(data=st.data())
def test_what_was_read_is_written_again(name: str, data: st.DataObject) -> None:
    """Whatever the service sends, known and unknown fields of any type, comes back exactly."""
    model = kind(name)
    names = st.sampled_from(wire_names(model)) | st.text(max_size=8) | st.sampled_from(["_x", "plain", "read", "copy"])
    value = data.draw(st.dictionaries(names, JSON, max_size=8))
    assert exact(model.read(value).plain()) == exact(value)


def test_unknown_fields_survive_inside_nested_objects() -> None:
    """At each depth, next to typed fields."""
    value = {
        "new": 1,
        "created_by": {"email": "a@b.c", "new": 2},
        "inputs": {"url": {"value": "x", "new": 3}},
        "inputs_schema": [{"key": "url", "new": None}],
        "mappings": [{"filters": {"events": [], "new": 4}, "inputs": {"a": {"order": 1, "new": 5}}}],
        "template": {"mapping_templates": [{"name": "t", "new": 6}], "mappings": [{"new": 7}]},
        "status": {"rating": 1, "tokens": 10**30, "new": 1.0},
    }
    found = HogFunction.model_validate(value)
    assert exact(found.plain()) == exact(value)
    assert found.mappings is not None
    assert isinstance(found.mappings[0].filters, Filters)
    assert found.status is not None
    assert type(found.status.rating) is int


@pytest.mark.parametrize(
    ("field", "value"),
    [("enabled", "true"), ("enabled", 1), ("execution_order", "5"), ("execution_order", 5.0), ("execution_order", True),
     ("name", 5), ("inputs", []), ("mappings", {}), ("filters", "x"), ("status", {"state": "1"}),
     ("inputs", {"a": {"order": "5"}}), ("template", "a text, as in a list")],
)  # fmt: skip
def test_a_value_of_another_type_is_refused_and_never_coerced(field: str, value: Any) -> None:
    """`model_validate` judges by the contract; `read` keeps what came."""
    with pytest.raises(ValidationError):
        HogFunction.model_validate({field: value})
    assert exact(HogFunction.read({field: value}).plain()) == exact({field: value})


def test_items_pages_and_writes_have_what_they_were_given() -> None:
    """A list item has its template as a string, a full record has an object. A write has exactly what was set,
    including false, null and an empty object; all are immutable."""
    given = {"template": "template-webhook", "filters": None}
    item = HogFunctionListItem.model_validate(given)
    assert (item.template, item.filters, item.plain()) == ("template-webhook", None, given)
    with pytest.raises(ValidationError):
        HogFunctionListItem.model_validate({"template": {}})
    page = ListPage[SessionRecording].model_validate({"count": 1, "next": None, "results": [{"id": "r"}]})
    assert [type(one) for one in page.results or ()] == [SessionRecording]
    body = HogFunctionWrite(enabled=False, filters=None, inputs={}, _create_in_folder="Imports")
    assert body.plain() == {"enabled": False, "filters": None, "inputs": {}, "_create_in_folder": "Imports"}
    with pytest.raises(ValidationError):
        HogFunction.read({"name": "a"}).name = "b"


SECRET = "swordfish"


@pytest.mark.parametrize(
    "made",
    [
        HogFunction.read({"id": "1", "inputs": {"token": {"value": SECRET}}, "draft": {"inputs": SECRET}}),
        HogFunction.read({"id": "1", "inputs": SECRET, "mappings": [{"inputs": {"a": {"value": SECRET}}}]}),
        HogFunctionWrite.read({"inputs": {"token": {"value": SECRET}}}),
        SharingConfiguration.read({"enabled": True, "access_token": SECRET, "share_passwords": [SECRET]}),
        ListPage[HogFunction].read({"count": 1, "results": [{"inputs": {"t": {"value": SECRET}}}]}),
        SessionRecording.read({"id": "r", "person": {"name": "p", "properties": {"iban": SECRET}}}),
    ],
    ids=lambda made: type(made).__name__,
)
def test_no_secret_is_shown(made: ServiceObject) -> None:
    """Neither `repr` nor `str` nor formatting shows it, though the object has it."""
    assert SECRET not in f"{made!r} {made} {[made]}"
    assert SECRET in json.dumps(made.plain())


def test_a_refusal_shows_the_field_and_not_its_value() -> None:
    """The wrong value may be a secret in the wrong place."""
    with pytest.raises(ValidationError) as caught:
        HogFunctionWrite.model_validate({"inputs": {"token": SECRET}, "name": [SECRET]})
    assert SECRET not in str(caught.value)
    assert "inputs.token" in str(caught.value)


def test_schemas_say_formats_and_no_default() -> None:
    """They go into a description of the service as they are."""
    schema = HogFunction.model_json_schema()
    assert schema["properties"]["id"] == {"type": "string", "format": "uuid"}
    assert schema["properties"]["created_at"] == {"type": "string", "format": "date-time"}
    assert schema["$defs"]["Status"]["properties"]["rating"] == {"type": "number"}
    assert '"default": null' not in json.dumps(schema)
