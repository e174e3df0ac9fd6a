"""A fetch that is killed continues where it stopped, and an incomplete file never counts as whole."""

from __future__ import annotations

import json
import multiprocessing
import re
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.errors import Busy, Refused, Unfinished, UnreadableExport, UsageError
from pipeline.extractors.fetched import MANIFEST, NEW
from tests.support.export_apis import (
    DAY,
    START,
    Amplitude,
    Api,
    Mixpanel,
    exporting,
    fetch,
    fetched,
    files,
    instead,
    kill_at,
    spread,
)
from tests.support.scripted_server import Server, serving
from tests.support.stores import a_bucket, a_store_that_fails

APIS: dict[str, Api] = {
    "mixpanel": Mixpanel([*spread(30, 1), START + 2 * DAY + 5]),
    "amplitude": Amplitude([*spread(30, 1), START + 2 * DAY + 5], most=20),
}
"""A day that is divided if the tool can, one without events, and one with a single event."""


def test_a_fetch_that_is_killed_at_any_step_ends_with_the_same_folder(tmp_path: Path) -> None:
    """Killed before each step that creates, renames or removes a file, and run again: the same files, byte for byte,
    and the same manifest. In between the folder is refused as an export, unless it is already whole."""
    api = APIS["amplitude"]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pipeline.fetch.run", "pipeline.fetch.transport", "tests.support.export_apis"])
    killed = 0
    with exporting(api) as server:
        fetch(api, server, tmp_path / "whole", 3)
        expected = files(tmp_path / "whole")
        for at in range(200):
            folder = tmp_path / str(at)
            process = context.Process(target=kill_at, args=(api, server, folder, at))
            process.start()
            process.join(60)
            if process.exitcode == 0:
                break
            assert process.exitcode == -signal.SIGKILL
            killed += 1
            if not folder.exists() or files(folder) != expected:
                with pytest.raises((UnreadableExport, UsageError)):
                    pipeline.survey_export([str(folder)])
            fetch(api, server, folder, 3)
            assert files(folder) == expected
    assert killed >= 14


def test_a_fetch_goes_on_after_the_windows_that_it_has(tmp_path: Path) -> None:
    """Nothing that was fetched is asked for again."""
    api = replace(APIS["amplitude"], faults={number: instead(503) for number in range(2, 200)})
    with exporting(api) as server, pytest.raises(Unfinished):
        fetch(api, server, tmp_path, 3, count=False)
    port = server.port
    api = APIS["amplitude"]
    (tmp_path / "amplitude-2023-03-09.zip").write_bytes(b"of a window that was then divided")
    (tmp_path / "amplitude-notes.txt").write_text("somebody's own")
    with serving(api, methods=("GET",), port=port) as server:
        found = fetch(api, server, tmp_path, 3, count=False)
        first = server.asked[0].query
    assert (first["start"], first["end"]) == ("20230301T12", "20230301T12")  # not its half of the day, which failed
    assert found.rows == 31
    assert set(files(tmp_path)) == {one.file for one in found.manifest.files} | {MANIFEST, "amplitude-notes.txt"}


def test_a_fetch_does_not_go_on_where_a_file_is_gone(tmp_path: Path) -> None:
    """A file in the manifest has to exist, or the next run would end with a gap."""
    api = replace(APIS["mixpanel"], faults={number: instead(403) for number in range(4, 9)})
    with exporting(api) as server, pytest.raises(Refused):
        fetch(api, server, tmp_path, 3)
    (tmp_path / "mixpanel-2023-03-01.jsonl.gz").unlink()
    with (
        serving(api, methods=("GET",), port=server.port) as server,
        pytest.raises(UnreadableExport, match="is missing"),
    ):
        fetch(api, server, tmp_path, 3)


def test_a_complete_fetch_is_checked_by_its_digests(tmp_path: Path) -> None:
    """A second run requests nothing, and finds a file of the same size with other bytes."""
    api = APIS["mixpanel"]
    with exporting(api) as server:
        found = fetch(api, server, tmp_path, 3)
        asked = len(server.asked)
        assert fetch(api, server, tmp_path, 3).fetched == 0
        assert len(server.asked) == asked
        file = tmp_path / found.manifest.files[0].file
        file.write_bytes(bytes(255 - byte for byte in file.read_bytes()))
        with pytest.raises(UnreadableExport, match="has changed since it was fetched"):
            fetch(api, server, tmp_path, 3)


@pytest.mark.parametrize("change", ["missing", "shorter"])
def test_a_plan_refuses_a_fetch_with_a_changed_file(change: str, tmp_path: Path) -> None:
    """Gone or cut: found before any row is read."""
    api = APIS["mixpanel"]
    found, _ = fetched(api, tmp_path, 3)
    file = tmp_path / found.manifest.files[1].file
    file.unlink() if change == "missing" else file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(UnreadableExport, match="is missing" if change == "missing" else "bytes instead of"):
        pipeline.survey_export([str(tmp_path / "*")])


@pytest.mark.parametrize(
    ("part", "status", "code", "message"),
    [
        (MANIFEST, 403, "AccessDenied", "cannot be read: permission denied"),
        (".jsonl.gz", 400, "Odd", "cannot be read from its store: .*Odd"),
    ],
)
def test_a_store_that_refuses_does_not_make_a_fetched_file_missing(
    part: str, status: int, code: str, message: str, tmp_path: Path
) -> None:
    """The remedy is the permission to read it, or the network, not another fetch."""
    fetched(APIS["mixpanel"], tmp_path)
    with a_bucket() as bucket:
        url = bucket.copy(tmp_path, "export")
        with a_store_that_fails("HeadObject", part, status, code), pytest.raises(UnreadableExport) as caught:
            pipeline.survey_export([url])
    assert re.search(f"{part}.* {message}", str(caught.value))
    assert "fetch" not in caught.value.hint


def test_a_fetch_of_something_else_has_another_folder(tmp_path: Path) -> None:
    """Other dates, another project: refused, with the option that differs."""
    api = APIS["mixpanel"]
    with exporting(api) as server:
        fetch(api, server, tmp_path, 2)
        with pytest.raises(UsageError, match="--until was 2023-03-03 and is now 2023-03-04"):
            fetch(api, server, tmp_path, 3)


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("dear")
    with pytest.raises(UsageError, match="such as thesis"):
        fetched(APIS["mixpanel"], tmp_path)
    assert list(files(tmp_path)) == ["thesis.txt"]


def test_two_fetches_do_not_share_a_folder(tmp_path: Path) -> None:
    refused: list[str] = []

    class Meeting(Mixpanel):
        def answer(self, asked: Any) -> Any:
            if not refused:
                with pytest.raises(Busy) as caught:
                    fetch(self, Server(f"http://{asked.headers['host']}", 0, []), tmp_path)
                refused.append(caught.value.message)
            return super().answer(asked)

    found, _ = fetched(Meeting(spread(3, 1)), tmp_path)
    assert (len(refused), found.rows) == (1, 3)


def test_a_damaged_manifest_is_an_error(tmp_path: Path) -> None:
    """A manifest damaged by hand is named, and nothing is fetched over it."""
    (tmp_path / MANIFEST).write_text('{"format": "backcast.fetch/1"')
    with pytest.raises(UnreadableExport, match="cannot be read as the manifest"):
        fetched(APIS["mixpanel"], tmp_path)
    assert not (tmp_path / NEW).exists()


def test_the_manifest_has_no_key(tmp_path: Path) -> None:
    """It names the host, the project and the windows, and neither keys nor times of day."""
    fetched(APIS["mixpanel"], tmp_path)
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    assert set(manifest) == {
        "format", "tool", "host", "project", "since", "until", "count", "window", "windows", "left"
    }  # fmt: skip
    assert all(b"MARKED" not in content for content in files(tmp_path).values())
