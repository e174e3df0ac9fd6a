"""What the local service's page says beside the events: functions that would fire, warnings, rejected requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline.local_service import LocalService
from tests.support.page_service import CLIENT, PERSONAL, event, make, read, send, totals, uuid, uuids

pytestmark = pytest.mark.slow


@pytest.fixture
def service() -> Iterator[LocalService]:
    with make() as fresh:
        yield fresh


def test_functions_with_what_they_would_meet(service: LocalService) -> None:
    """Each function with the number of events that it would or may fire for."""
    send(service, event(1, "Paid"), event(2, "Paid"), event(3))
    rows = {row[0].split(" ")[0]: row[2:5] for row in read(service, "/functions").cells()[1:]}
    assert rows == {"Pay": ["yes", "2", "0"], "Narrow": ["yes", "0", "3"], "Off": ["no", "0", "0"]}


def test_a_deleted_function_is_gone(service: LocalService) -> None:
    """It fires for nothing, and is not shown."""
    send(service, event(1, "Paid"))
    address = f"{service.url}/api/projects/1/hog_functions/"
    headers = {"authorization": f"Bearer {PERSONAL}"}
    pay = next(one for one in CLIENT.get(address, headers=headers).json()["results"] if one["name"].startswith("Pay"))
    assert CLIENT.patch(f"{address}{pay['id']}/", headers=headers, json={"deleted": True}).status_code == 200
    assert [row[0].split()[0] for row in read(service, "/functions").cells()[1:]] == ["Narrow", "Off"]
    assert "would fire" not in read(service, f"/events/{uuid(1)}").text
    assert totals(read(service, "/"))["Functions that fire"] == "1"


def test_warnings_and_rejected_requests_are_paged(service: LocalService) -> None:
    """The warnings of a type, and the requests that were turned away with reason and body, the last first."""
    send(service, *(event(n, "$create_alias", alias="null") for n in range(1, 61)))
    send(service, event(99, id="i" * 300))
    page = read(service, "/warnings", type="cannot_merge_with_illegal_distinct_id")
    assert "60 warnings" in page.text
    assert "Page 1 of 2" in page.text
    assert len(set(uuids(page))) == 50
    assert set(uuids(read(service, "/warnings", type="distinct_id_shortened"))) == {uuid(99)}
    for number in range(55):
        CLIENT.post(service.url + "/batch/", content=f"not json {number}")
    first, second = read(service, "/rejected"), read(service, "/rejected", page=2)
    assert "55 requests rejected" in first.text
    bodies = [row[3] for page in (first, second) for row in page.cells()[1:]]
    assert sorted(bodies) == sorted(f"not json {number}" for number in range(55))
