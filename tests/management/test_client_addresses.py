"""Where the typed client goes: hosts, ids and projects that cannot lead it elsewhere, and no redirect."""

from __future__ import annotations

import pytest

from pipeline.config import Secret
from pipeline.errors import UsageError
from pipeline.management import ManagementClient, problems
from pipeline.management.client import management_address
from tests.support.operations import FUNCTIONS, ID, PAGE
from tests.support.scripted_api import AT_ONCE, KEY, answering
from tests.support.scripted_server import Said

pytestmark = pytest.mark.slow


def test_ids_and_projects_are_one_segment_of_a_path_whatever_they_hold() -> None:
    """They are strings, percent-encoded."""
    with answering(lambda call: Said(200, {})) as service, service.client("@current") as client:
        client.session_recordings.retrieve("a/b?c#d ü..")
    assert service.asked[0].target == "/api/projects/%40current/session_recordings/a%2Fb%3Fc%23d%20%C3%BC../"


def test_an_id_that_would_lead_elsewhere_is_not_sent() -> None:
    """An empty id would be the list; two dots the level above; some words are other operations."""
    with answering(lambda call: Said(200, {})) as service, service.client() as client:
        for id in ("", ".", "..", " ", "a\nb", "icon", "rearrange"):
            for do in (client.hog_functions.retrieve, client.hog_functions.delete):
                with pytest.raises(UsageError):
                    do(id)
    assert service.asked == []


def test_a_project_that_would_lead_elsewhere_is_refused() -> None:
    """Before anything is sent."""
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
    """A capture host stands for its region; `api` names what a target does not tell
    (docs/know/service.md#routes-and-hosts)."""
    assert management_address(target, api) == address


def test_a_path_before_the_api_is_kept() -> None:
    """A service may live below another path."""
    with (
        answering(lambda call: Said(200, {})) as service,
        ManagementClient(service.url + "/hog/", Secret(KEY), "7", retry=AT_ONCE) as client,
    ):
        client.hog_functions.retrieve(ID)
    assert service.asked[0].path == f"/hog{FUNCTIONS}{ID}/"


def test_without_a_project_the_only_one_is_chosen() -> None:
    """More than one is an error that names them, none is one too."""
    one, two = {"id": 7, "name": "Shop"}, {"id": 8, "name": "Test"}
    pages = [[one], [one, two], []]
    with answering(lambda call: Said(200, {"results": pages[call.number]})) as service, service.client(None) as client:
        with pytest.raises(UsageError, match="which project"):
            client.hog_functions.retrieve(ID)
        assert (client.choose_project(), client.project_id) == ("7", "7")
        with pytest.raises(UsageError, match=r"7 \(Shop\), 8 \(Test\)"):
            client.choose_project()
        with pytest.raises(UsageError, match="no project"):
            client.choose_project()


def test_a_redirect_is_not_followed() -> None:
    """The key would go where the redirect says."""
    with answering(lambda call: PAGE) as other:
        onward = Said(307, b"", {"Location": f"{other.url}/api?k={KEY}"})
        with (
            answering(lambda call: onward) as service,
            service.client() as client,
            pytest.raises(problems.UnexpectedAnswer, match="redirect") as caught,
        ):
            client.hog_functions.list().page()
        assert other.asked == []
    assert KEY not in str(caught.value)
    assert other.url in str(caught.value)
