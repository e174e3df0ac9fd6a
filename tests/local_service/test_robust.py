"""The local service when bodies are huge, times lie at the edge of the calendar, and projects are not there."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import httpx
import pytest

from tests.support.management_service import ALL, LIST, Asking, query
from tests.support.plain_http import PLAIN

MIB = 1024 * 1024


SPANS = {
    "?after=9999-12-31&before=9999-12-31": ["9999-12-31"],
    "?after=9999-12-30&before=9999-12-31&interval=week": ["9999-12-30"],
    "?after=0001-01-01&before=0001-01-02": ["0001-01-01", "0001-01-02"],
    "?after=2023-01-31T23:30:00Z&before=2023-02-01T00:45:00Z&interval=hour": ["2023-01-31T23:00", "2023-02-01T00:00"],
    "?after=2023-01-02&before=2023-01-01": [],
}


def test_metrics_reach_to_the_ends_of_the_calendar(observed: Asking) -> None:
    """Labels are ISO 8601 with years of four digits, and the last day has no following one."""
    path = f"{LIST}{observed.made(hog='h')['id']}/metrics/"
    for span, labels in SPANS.items():
        answer = observed("GET", path + span)
        assert (answer.status_code, answer.json()) == (200, {"labels": labels, "series": []}), span


def test_a_run_says_that_it_did_not_happen(observed: Asking) -> None:
    """The shape is that of a run, and its log is true."""
    path = f"{LIST}{observed.made(hog='h')['id']}/invocations/"
    run = observed("POST", path, {"configuration": {"hog": "h"}}).json()
    assert [line["message"] for line in run["logs"]] == [
        "The local service runs no hog function: this one did not run."
    ]
    described = observed("GET", "/openapi.json").json()["paths"]
    told = described["/api/projects/{project_id}/hog_functions/{id}/logs/"]["get"]["description"]
    assert "runs no hog function" in told


def pieces(piece: bytes, count: int) -> Iterator[bytes]:
    """A body that is never whole in the memory of the test."""
    for _ in range(count):
        yield piece


def posted(url: str, content: bytes | Iterator[bytes]) -> tuple[httpx.Response, int]:
    """The answer to a body, and the most memory that it took."""
    headers = {"authorization": f"Bearer {ALL}", "content-type": "application/json"}
    tracemalloc.start()
    try:
        answer = httpx.post(url, content=content, headers=headers, timeout=60, **PLAIN)
        return answer, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("path", ["/flags/", "/batch/", "/e/", LIST, "/api/projects/1/query/", "/api/nowhere/"])
def test_a_body_over_its_limit_takes_no_memory(ask: Asking, path: str) -> None:
    """It is read to its end and forgotten on the way."""
    answer, peak = posted(ask.service.url + path, pieces(b"0" * MIB, 48))
    assert answer.status_code in (200, 404, 413)
    assert peak < 30 * MIB


def test_judging_a_large_body_takes_little_beside_it(ask: Asking) -> None:
    """A list of half a million numbers is walked through, not copied."""
    body = b'{"name": [' + b"0," * 500_000 + b"0]}"
    answer, peak = posted(ask.service.url + LIST, body)
    assert (answer.status_code, answer.json()["attr"]) == (400, "name")
    assert peak < 16 * len(body)


DEEP = {
    "as deep as may be": (b"[" * 97 + b"0" + b"]" * 97, 201),
    "one too deep": (b"[" * 98 + b"0" + b"]" * 98, 400),
    "a bad text at the end": (b'[1, [2], {"a": [3, "\\ud800"]}]', 400),
    "a bad name within": (b'[{"a\\u0000": 1}]', 400),
    "no number": (b"[[1e999]]", 400),
    "an empty one": (b"[[], {}, [{}]]", 201),
}


@pytest.mark.parametrize(("value", "status"), DEEP.values(), ids=DEEP.keys())
def test_every_corner_of_a_body_is_looked_at(ask: Asking, value: bytes, status: int) -> None:
    """`default` of an input may be any JSON that can be kept."""
    body = b'{"inputs_schema": [{"key": "a", "default": ' + value + b"}]}"
    answer = ask("POST", LIST, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status, answer.text
    assert status == 201 or answer.json()["attr"] == "inputs_schema"


def test_the_way_back_from_a_project_that_is_not_there_leads_somewhere(ask: Asking) -> None:
    """The links of its page are those of the first project."""
    answer = ask("GET", "/events?project=9", key=None)
    assert answer.status_code == 404
    assert 'href="/"' in answer.text
    assert "project=9" not in answer.text


def test_the_query_says_what_it_takes(queried: Asking) -> None:
    """Every table that can be named is in the document."""
    told = queried("GET", "/openapi.json", key=None).json()["paths"]["/api/projects/{project_id}/query/"]["post"]
    for name in ("events", "raw_events", "persons", "person_distinct_ids", "groups", "warnings", "rejections"):
        assert name in told["description"]
        assert query(queried, f"from {name}").status_code == 200


def test_an_order_for_no_id_is_told_in_a_sentence(ask: Asking) -> None:
    """What is no UUID is not repeated."""
    answer = ask("PATCH", LIST + "rearrange/", {"orders": {"x\x1b": 1}})
    assert answer.json()["detail"] == "HogFunction with the given id does not exist"
