"""Where the typed client sends: hosts, ids and projects cannot lead it elsewhere, and it follows pages."""

from __future__ import annotations

from itertools import islice

import pytest

from pipeline.config import Secret
from pipeline.errors import UsageError
from pipeline.management import ManagementClient, problems
from pipeline.management.client import management_address
from tests.support.operations import ID, PAGE
from tests.support.scripted_api import AT_ONCE, KEY, answering
from tests.support.scripted_server import Answer, Asked, Canned, scripted


def test_ids_and_projects_are_always_one_segment_of_a_path() -> None:
    """They are percent-encoded. A service may be below another path, which is kept."""
    with (
        answering(lambda call: Canned(200, {})) as service,
        ManagementClient(service.url + "/hog/", Secret(KEY), "@current", retry=AT_ONCE) as client,
    ):
        client.session_recordings.retrieve("a/b?c#d ü..")
    assert service.asked[0].target == "/hog/api/projects/%40current/session_recordings/a%2Fb%3Fc%23d%20%C3%BC../"


def test_an_id_or_a_project_that_would_lead_elsewhere_is_not_sent() -> None:
    """An empty id would be the list; two dots the level above; some words are other operations."""
    with answering(lambda call: Canned(200, {})) as service, service.client() as client:
        for id in ("", ".", "..", " ", "a\nb", "icon", "rearrange"):
            for do in (client.hog_functions.retrieve, client.hog_functions.delete):
                with pytest.raises(UsageError):
                    do(id)
    assert service.asked == []
    for project in ("", "..", "1\n"):
        with pytest.raises(UsageError):
            ManagementClient("eu", Secret(KEY), project)


@pytest.mark.parametrize(
    ("target", "api", "address"),
    [
        ("us", None, "https://us.posthog.com"),
        ("eu", None, "https://eu.posthog.com"),
        ("https://eu.i.posthog.com/", None, "https://eu.posthog.com"),
        ("https://us.posthog.com", None, "https://us.posthog.com"),
        ("http://127.0.0.1:8100/", None, "http://127.0.0.1:8100"),
        ("https://in.example.com", "https://api.example.com/", "https://api.example.com"),
        ("https://in.example.com", "eu", "https://eu.posthog.com"),
    ],
)
def test_the_management_api_has_hosts_of_its_own(target: str, api: str | None, address: str) -> None:
    """A capture host stands for its region; `api` gives the address that a target does not show
    (docs/know/service.md#routes-and-hosts)."""
    assert management_address(target, api) == address


def test_without_a_project_the_only_one_is_chosen() -> None:
    """More than one is an error that names them; none is an error too."""
    one, two = {"id": 7, "name": "Shop"}, {"id": 8, "name": "Test"}
    pages = [[one], [one, two], []]
    with (
        answering(lambda call: Canned(200, {"results": pages[call.number]})) as service,
        service.client(None) as client,
    ):
        with pytest.raises(UsageError, match="needs a project"):
            client.hog_functions.retrieve(ID)
        assert (client.choose_project(), client.project_id) == ("7", "7")
        with pytest.raises(UsageError, match=r"7 \(Shop\), 8 \(Test\)"):
            client.choose_project()
        with pytest.raises(UsageError, match="cannot read any project"):
            client.choose_project()


def test_a_redirect_is_not_followed() -> None:
    """The key would be sent to the new address."""
    with answering(lambda call: PAGE) as other:
        onward = Canned(307, b"", {"Location": f"{other.url}/api?k={KEY}"})
        with (
            answering(lambda call: onward) as service,
            service.client() as client,
            pytest.raises(problems.UnexpectedAnswer, match="redirect") as caught,
        ):
            client.hog_functions.list().page()
        assert other.asked == []
    assert KEY not in str(caught.value)
    assert other.url in str(caught.value)


def paged(sizes: list[int]) -> Answer:
    """A list in pages of these sizes, by offset, each with the URL of its next."""

    def answer(call: Asked) -> Canned:
        at = int(call.query.get("offset", 0))
        page = sum(sum(sizes[:n]) <= at for n in range(len(sizes))) - 1
        items = [{"id": str(at + n)} for n in range(sizes[page])]
        host = call.headers["host"]
        more = f"http://{host}{call.path}?limit=2&offset={at + sizes[page]}" if page + 1 < len(sizes) else None
        return Canned(200, {"count": sum(sizes), "next": more, "previous": None, "results": items})

    return answer


def test_iterating_follows_next_to_the_end() -> None:
    """Every item of every page once and in order; asking for one page makes one request."""
    with answering(paged([2, 2, 1])) as service, service.client() as client:
        found = client.hog_functions.list(limit=2, type="destination")
        assert service.asked == []
        assert [one.id for one in found] == ["0", "1", "2", "3", "4"]
        assert len(service.asked) == 3
        assert [one.id for one in found.page().results or ()] == ["0", "1"]
        assert len(service.asked) == 4
    assert service.asked[0].query == {"limit": "2", "type": "destination"}
    assert {call.headers["authorization"] for call in service.asked} == {f"Bearer {KEY}"}


def test_where_the_service_has_no_next_the_offset_moves_on() -> None:
    """Recordings say `has_next` (docs/know/service.md#session-recordings)."""

    def answer(call: Asked) -> Canned:
        at = int(call.query.get("offset", 0))
        return Canned(200, {"results": [{"id": str(at)}], "has_next": at < 2, "version": 4})

    with answering(answer) as service, service.client() as client:
        assert [one.id for one in client.session_recordings.list(limit=1)] == ["0", "1", "2"]


AWAY = (
    "https://127.0.0.1:{port}/api/projects/7/hog_functions/?offset=1",
    "http://localhost:{port}/api/projects/7/hog_functions/?offset=1",
    "http://127.0.0.1:{other}/api/projects/7/hog_functions/?offset=1",
    "//evil.example/x",
    "http://127.0.0.1:{port}@evil.example/x",
    "http://user:word@127.0.0.1:{port}/x",
    "file:///etc/passwd",
    "http://[",
    "http://127.0.0.1:99999/",
)


def test_a_next_that_leads_away_is_an_error_and_not_followed() -> None:
    """The key is sent to one scheme, host and port."""

    def answer(call: Asked) -> Canned:
        ports = {"port": call.headers["host"].split(":")[1], "other": other.port}
        return Canned(200, {"count": 2, "next": AWAY[call.number].format(**ports), "results": [{"id": "a"}]})

    with answering(lambda call: PAGE) as other, answering(answer) as service, service.client() as client:
        for asked in range(1, len(AWAY) + 1):
            with pytest.raises(problems.UnexpectedAnswer, match="another address"):
                list(client.hog_functions.list())
            assert len(service.asked) == asked
        assert other.asked == []


def test_pages_that_lead_in_a_circle_are_an_error() -> None:
    """Rather than a command that never ends."""

    def answer(call: Asked) -> Canned:
        onward = f"http://{call.headers['host']}{call.path}?offset={(call.number + 1) % 3}"
        return Canned(200, {"count": 9, "next": onward, "results": [{"id": "a"}]})

    with answering(answer) as service, service.client() as client:
        with pytest.raises(problems.UnexpectedAnswer, match="circle"):
            list(islice(client.hog_functions.list(offset=0), 20))
        assert len(service.asked) <= 4


def test_anything_but_a_page_is_an_error() -> None:
    """Something other than the service answered."""
    bodies = [b"", b"<html>", [], {"count": 1}, {"results": {}}, {"results": [1]}, {"results": [], "next": 5}]
    with answering(scripted(*(Canned(200, body) for body in bodies))) as service, service.client() as client:
        for _ in bodies:
            with pytest.raises(problems.UnexpectedAnswer):
                list(client.hog_functions.list())
    assert len(service.asked) == len(bodies)
