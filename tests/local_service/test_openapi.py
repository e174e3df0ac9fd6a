"""`/openapi.json` says what the service does, and `/docs` shows it without the internet."""

from __future__ import annotations

import re
from typing import Any

import jsonschema
import pytest

from pipeline.local_service.management.operations import OPERATIONS, operations
from tests.support import management_service
from tests.support.management_service import ALL, RECORDING, Asking, key_with


@pytest.fixture(scope="module")
def document(ask: Asking) -> Any:
    return ask("GET", "/openapi.json", key=None).json()


def test_every_operation_has_a_handler_and_a_place_in_the_document(either: Asking) -> None:
    """One table: what is in it is served and described, and nothing else is; some of it under `observed` alone."""
    assert [operation.name for operation in OPERATIONS if operation.run is None] == ["query"]
    observed = either is management_service.shared("observed")
    document = either("GET", "/openapi.json").json()
    described = {
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods if "/api/" in path
    }
    assert described == {(one.method, one.path + "/") for one in operations(observed=observed)}
    assert (("PUT", "/api/projects/{project_id}/hog_functions/{id}/") in described) is observed
    ids = [one["operationId"] for methods in document["paths"].values() for one in methods.values()]
    assert len(ids) == len(set(ids))
    assert "/batch/" in document["paths"]


def test_every_reference_leads_somewhere(document: Any) -> None:
    """A `$ref` names a schema of the document, and every schema is a JSON Schema."""
    names = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    waiting: list[Any] = [document]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            assert node.get("$ref", next(iter(names))) in names
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_answers_fit_their_schemas(either: Asking, queried: Asking) -> None:
    """What the main operations answer is what the document says, errors too."""
    document = either("GET", "/openapi.json").json()
    inputs = {"slack_workspace": {"value": "1"}, "channel": {"value": "C1"}}
    id = either.made(template_id="template-slack", name="x", enabled=True, inputs=inputs)["id"]
    root = "/api/projects/{project_id}/"
    for method, path, body, key in (
        ("GET", root + "hog_functions/", None, ALL),
        ("POST", root + "hog_functions/", {"hog": "h", "masking": {"ttl": 60, "hash": "x"}}, ALL),
        ("POST", root + "hog_functions/", {"enabled": 1}, ALL),
        ("GET", root + "hog_functions/{id}/", None, ALL),
        ("GET", root + "hog_functions/{id}/", None, key_with("query:read")),
        ("PATCH", root + "hog_functions/{id}/", {"filters": None}, ALL),
        ("GET", root + "hog_functions/{id}/metrics/totals/", None, ALL),
        ("GET", root + "session_recordings/", None, ALL),
        ("GET", root + "session_recordings/{id}/", None, ALL),
        ("GET", root + "session_recordings/{recording_id}/sharing/", None, ALL),
        ("GET", "/api/projects/", None, ALL),
        ("POST", root + "query/", {"query": {"kind": "HogQLQuery", "query": "select 1"}}, ALL),
    ):
        address = path.format(project_id=1, id=RECORDING if "recordings" in path else id, recording_id=RECORDING)
        answer = (queried if path.endswith("query/") else either)(method, address, body, key=key)
        said = document["paths"][path][method.lower()]["responses"][str(answer.status_code)]
        if "content" not in said:
            assert answer.content == b""
            continue
        schema = said["content"]["application/json"]["schema"] | {"components": document["components"]}
        jsonschema.Draft202012Validator(schema).validate(answer.json())


def test_the_page_shows_the_document_without_the_internet(ask: Asking, document: Any) -> None:
    """Every operation and object is on it, no key; every link stays on the service; nothing is loaded or run."""
    answer = ask("GET", "/docs", key=None)
    ids = set(re.findall(r'\sid="([^"]+)"', answer.text))
    links = set(re.findall(r'\s(?:href|src)="([^"]*)"', answer.text))
    for methods in document["paths"].values():
        assert {one["operationId"] for one in methods.values()} <= ids
    assert set(document["components"]["schemas"]) <= ids
    assert links - {"/openapi.json"} <= {f"#{id}" for id in ids}
    assert re.findall(r"<(?:script|link|img|iframe)\b", answer.text) == []
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; style-src 'unsafe-inline'; ")
    assert "http://" not in answer.text.replace(ask.service.url, "")
    for path in ("/openapi.json", "/docs"):
        text = ask("GET", path).text
        assert ("phx_test" in text, "phc_test" in text) == (False, False)
