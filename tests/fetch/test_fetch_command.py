"""`backcast fetch` on the command line: what it prints, its exit codes, and what it refuses before any request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.commands import Printed
from tests.support.export_apis import KEYS, Amplitude, Mixpanel, exporting, files, instead, spread
from tests.support.scripted_server import Server

Call = Callable[..., Printed]
pytestmark = pytest.mark.usefixtures("keys")
MARCH = ("--since", "2023-03-01", "--until", "2023-03-04")


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of all tools."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


def words(server: Server, folder: Path, tool: str = "mixpanel") -> list[object]:
    project = ["--project", "7"] if tool != "amplitude" else []
    return ["fetch", tool, "--from", server.url, *MARCH, *project, "-o", folder]


def test_a_fetch_says_what_it_has_and_what_is_next(call: Call, tmp_path: Path) -> None:
    """Exit 0; the printed next command works; a second run checks the digests."""
    with exporting(Mixpanel(spread(40, 3))) as server:
        done = call(*words(server, tmp_path / "export"))
        again = call(*words(server, tmp_path / "export"), "--json")
    first, counted, _, following = done.out.splitlines()
    assert first.startswith("Fetched: 40 events in 3 files, ")
    assert counted == "Complete: Mixpanel counts no more events in any window."
    assert (done.code, again.code, again.json["fetched"], again.json["rows"]) == (0, 0, 0, 40)
    assert [one["rows"] for one in again.json["windows"]] == [18, 11, 11]
    planned = call(*following.removeprefix("  backcast ").split()[:-1], tmp_path / "plan")
    assert planned.code == 0
    assert "from 40 of 40 rows in 3 files" in planned.out


def test_a_tool_that_counts_more_than_it_gave_is_exit_7(call: Call, tmp_path: Path) -> None:
    """The exit code is 7 although every file is whole."""
    api = Mixpanel(spread(40, 3))
    api.uncounted = 2
    with exporting(api) as server:
        done = call(*words(server, tmp_path), "--until", "2023-03-02")
    assert done.code == 7
    assert "Incomplete: Mixpanel counts more events than it gave in 1 window" in done.out


def test_a_window_without_an_event_is_exit_4(call: Call, tmp_path: Path) -> None:
    """404 for all of it means a wrong project more often than an empty window."""
    with exporting(Amplitude([])) as server:
        done = call(*words(server, tmp_path, "amplitude"))
    assert done.code == 4
    assert done.two_lines[0] == "Error: Amplitude has no event between 2023-03-01 and 2023-03-04"


def test_a_refusal_is_exit_5(call: Call, tmp_path: Path) -> None:
    """Two lines, without the key, which the answer repeats."""
    for status in (401, 403, 400, 302):
        api = replace(Mixpanel(spread(9, 1)), faults={0: instead(status, KEYS["BACKCAST_MIXPANEL_SECRET"].encode())})
        with exporting(api) as server:
            done = call(*words(server, tmp_path / str(status)))
            assert len(server.asked) == 1
        assert (done.code, len(done.two_lines)) == (5, 2), status
        assert "MARKED" not in done.out + done.err


def test_a_tool_that_asks_for_too_long_a_wait_is_exit_6(call: Call, tmp_path: Path) -> None:
    """A Retry-After longer than --retry-for is not waited for."""
    api = replace(Mixpanel(spread(9, 1)), faults={0: instead(429, b"", {"Retry-After": "9000"})})
    with exporting(api) as server:
        done = call(*words(server, tmp_path), "--retry-for", "1h")
    assert done.code == 6
    assert "run the same command again" in done.two_lines[1]


def test_without_a_key_nothing_is_asked(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the variable; no folder is made."""
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    for tool in ("mixpanel", "amplitude", "posthog"):
        done = call(*words(Server("http://127.0.0.1:9", 9, []), tmp_path / "export", tool))
        assert done.code == 2
        assert "BACKCAST_" in done.two_lines[0]
        assert not (tmp_path / "export").exists()


@pytest.mark.parametrize(
    ("tool", "options", "error"),
    [
        ("mixpanel", ["--since", "2023-03-01T05:00:00Z"], "must be the start of a day"),
        ("amplitude", ["--since", "2023-03-01T05:30:00Z"], "must be the start of an hour"),
        ("mixpanel", ["--since", "2023-03-04"], "--since is not before --until"),
        ("mixpanel", ["--until", "2999-01-01"], "may not have all events before 2999-01-01"),
        ("mixpanel", ["--since", "March"], "not"),
        ("mixpanel", ["--window", "12h"], "--window must be whole days"),
        ("mixpanel", ["--project", "Web"], "not a Mixpanel project id"),
        ("mixpanel", ["--project", " "], "needs the id of the project"),
        ("amplitude", ["--from", "in"], "has no region 'in'"),
        ("posthog", ["--from", "ftp://x"], "is not a target"),
    ],
)
def test_what_cannot_be_fetched_is_exit_2(
    tool: str, options: list[str], error: str, call: Call, tmp_path: Path
) -> None:
    """Before any request, and before a folder is made."""
    done = call(*words(Server("http://127.0.0.1:9", 9, []), tmp_path / "export", tool), *options)
    assert done.code == 2
    assert error in done.two_lines[0]
    assert files(tmp_path) == {}
