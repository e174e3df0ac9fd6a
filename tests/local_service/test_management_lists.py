"""Lists of the management API of the local service: limits, the URLs of pages, filters, order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.management_service import LIST, RECORDING, Asking, asking, problem

pytestmark = pytest.mark.slow


def test_limits_and_offsets_out_of_the_way(hundred: Asking) -> None:
    """A limit under 1 is the usual one, there is no greatest; an offset past the end gives an empty page."""
    most = "9" * 3000
    sizes = {
        "": 100, "limit=0": 100, "limit=-1": 100, f"limit={most}": 101, "offset=100": 1, "offset=101": 0,
        f"offset={most}": 0, "offset=-5": 100, "limit=&offset=": 100, "limit=1&limit=2": 2,
    }  # fmt: skip
    found = {query: hundred("GET", f"{LIST}?{query}").json() for query in sizes}
    assert {query: len(page["results"]) for query, page in found.items()} == sizes
    assert {page["count"] for page in found.values()} == {101}


@pytest.fixture(scope="module")
def hundred() -> Iterator[Asking]:
    """A service with 101 functions, from a seed."""
    with asking(seed={"hog_functions": [{"name": f"f{n}"} for n in range(101)]}) as found:
        yield found


def test_what_cannot_be_read_is_refused(ask: Asking) -> None:
    """400, and the parameter is named: a limit that is no integer, as the contract states them, or a filter."""
    for query in (
        *("limit=x", "limit=1.5", "offset=٣", "limit=%2B1", "offset=1e3", "created_at=x", "updated_at=yesterday"),
        *("created_by=x", "created_by=1.0", "enabled=maybe", "id=1"),
    ):
        assert problem(ask("GET", f"{LIST}?{query}"), 400) == ("invalid_input", query.partition("=")[0])


def test_the_url_of_a_page_keeps_the_request_as_it_was(hundred: Asking) -> None:
    """Scheme, host, path and slash of the request; other parameters, encoded; nothing of a crooked Host header."""
    found = hundred("GET", "/api/environments/1/hog_functions?limit=1&enabled=false&id=&x=%C3%BC%26").json()
    assert found["next"] == (
        f"{hundred.service.url}/api/environments/1/hog_functions?enabled=false&id=&x=%C3%BC%26&limit=1&offset=1"
    )
    other = hundred("GET", LIST + "?limit=1", headers={"host": "local.test:99"}).json()["next"]
    assert other.startswith("http://local.test:99/api/")
    crooked = hundred("GET", LIST + "?limit=1", headers={"host": "a b/[<x>"}).json()["next"]
    assert crooked.startswith(hundred.service.url)


FUNCTIONS = [
    {"id": f"0190c0de-0000-7000-8000-00000000000{n}", "name": f"f{n}", **more}
    for n, more in enumerate(
        [
            {"kind": "a", "enabled": True, "execution_order": 5, "created_at": "2023-01-01T00:00:00Z"},
            {"kind": "b", "enabled": False, "execution_order": 4, "type": "transformation"},
            {"kind": "c", "enabled": True, "execution_order": 3, "updated_at": "2023-05-05T05:05:05.000001Z"},
            {"enabled": True, "execution_order": 2, "created_by": {"id": 42}},
            {"kind": "a", "deleted": True, "execution_order": 1},
            {"kind": "b", "execution_order": 6, "type": "site_app"},
        ]
    )
]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", "f3 f2 f1 f0 f5"),
        ("created_at=2023-01-01T00:00:00Z", "f0"),
        ("created_at=2023-01-01T01:00:00%2B01:00", "f0"),
        ("created_at=2023-01-01T00:00:01Z", ""),
        ("updated_at=2023-05-05T05:05:05.000001Z", "f2"),
        ("updated_at=2023-05-05T05:05:05Z", ""),
        ("created_by=42", "f3"),
        ("created_by=1", "f2 f1 f0 f5"),
        ("created_by=99", ""),
        ("enabled=true", "f3 f2 f0"),
        ("enabled=False", "f1 f5"),
        ("enabled=1&kind=a", "f0"),
        ("id=0190C0DE-0000-7000-8000-000000000002", "f2"),
        ("id=0190c0de-0000-7000-8000-000000000004", ""),
        ("kind=a", "f0"),
        ("kind=a,b", "f1 f0 f5"),
        ("kind=a&kind=c", "f2 f0"),
        ("kind=a,%20c,", "f2 f0"),
        ("kind=nowhere", ""),
        ("exclude_kind=a", "f3 f2 f1 f5"),
        ("exclude_kind=a,b,c", "f3"),
        ("exclude_kind=b&kind=a,b", "f0"),
        ("type=transformation,site_app", "f1 f5"),
        ("type=destination", "f3 f2 f0"),
        ("limit=2&offset=1", "f2 f1"),
        ("type=destination&limit=1&offset=1", "f2"),
        ("unknown=1", "f3 f2 f1 f0 f5"),
    ],
)
def test_each_filter_of_the_list(filtered: Asking, query: str, names: str) -> None:
    """All ten query parameters, alone and together, by execution order."""
    found = filtered("GET", f"{LIST}?{query}").json()["results"]
    assert " ".join(one["name"] for one in found) == names


@pytest.fixture(scope="module")
def filtered() -> Iterator[Asking]:
    with asking(seed={"hog_functions": FUNCTIONS}) as found:
        yield found


def test_recordings_are_listed_latest_first(ask: Asking) -> None:
    """With limit, offset and the URLs of neighbours, as every list."""
    found = ask("GET", "/api/projects/1/session_recordings?limit=1&offset=1").json()
    assert [one["id"] for one in found["results"]] == [RECORDING]
    assert found["next"].endswith("session_recordings?limit=1&offset=2")
    assert found["previous"].endswith("session_recordings?limit=1")
    assert ask("GET", "/api/projects/2/session_recordings/").json()["count"] == 0
