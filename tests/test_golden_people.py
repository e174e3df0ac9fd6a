"""Every sample export's people, at the local service and on its page, are just those of their golden file."""

from __future__ import annotations

import html
import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from pipeline.local_service import LocalService
from tests.golden import people
from tests.support.plain_http import PLAIN

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def service() -> Iterator[LocalService]:
    """One service with a project for each sample, empty."""
    with LocalService(keys=people.KEYS) as started:
        yield started


def told(name: str) -> list[dict[str, Any]]:
    """The lines of a golden file."""
    return [json.loads(line) for line in people.path_of(name).read_text("utf-8").splitlines()]


@pytest.mark.parametrize("name", people.NAMES)
def test_a_samples_people_are_those_of_its_golden_file(name: str, service: LocalService) -> None:
    """The persons with their ids and properties, and the groups, are those that were read and agreed to; the service
    refused no merge and had to pass over nothing; and each person is found on the service's page by any of its ids."""
    people.send(name, service)
    assert people.people(name, service) == people.path_of(name).read_text(encoding="utf-8")
    project = people.NAMES.index(name) + 1
    assert service.warnings(project) == []
    with httpx.Client(base_url=service.url, timeout=30, **PLAIN) as browser:
        for person in told(name) if name in ("mixpanel-people", "segment") else ():
            for one in person.get("ids", ()):
                shown = found(browser, project, one)
                wanted = [*person["ids"], *person["properties"]]
                assert [text for text in wanted if text not in shown] == [], (one, shown)


def found(browser: httpx.Client, project: int, text: str) -> str:
    """The page of people with this text, once persons are worked out of what landed."""
    until = time.monotonic() + 60
    while True:
        answer = browser.get("/people", params={"project": project, "text": text})
        if 'http-equiv="refresh"' not in answer.text or time.monotonic() > until:
            return html.unescape(answer.text)
        time.sleep(0.02)


def test_people_are_the_same_from_the_archive_and_from_the_warehouse() -> None:
    """Which ids belong together, and what is said of their persons, is told by every form of an export alike."""
    for forms in (("segment", "segment-warehouse"), ("rudderstack", "rudderstack-staging", "rudderstack-lake")):
        persons = [{tuple(one["ids"]): one["properties"] for one in told(name) if "ids" in one} for name in forms]
        for one in persons:
            one.pop(("user-0",), None)  # of before the archive: the warehouse's `users` alone remember
        assert all(one == persons[0] for one in persons)
        assert all({"user-1", "user-1b"} <= {id for ids in one for id in ids} for one in persons)
