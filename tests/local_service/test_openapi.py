"""`/openapi.json` describes the service, and `/docs` shows it without the internet."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pipeline.local_service.management.requests import HANDLERS
from pipeline.management.operations import operations
from tests.support import management_service
from tests.support.management_service import Asking


@pytest.fixture(scope="module")
def document(ask: Asking) -> Any:
    return ask("GET", "/openapi.json", key=None).json()


def test_every_operation_has_a_handler_and_a_place_in_the_document(either: Asking) -> None:
    """One table: what is in it is served and described, and nothing else is; some of it only under `observed`."""
    assert {one.id for one in operations(observed=True)} == {*HANDLERS, "query"}
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


def test_the_page_shows_the_document_without_the_internet(ask: Asking, document: Any) -> None:
    """Every operation and object is on it, and no key; every link stays on the service; nothing is loaded or run."""
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
