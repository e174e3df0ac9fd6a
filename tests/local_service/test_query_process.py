"""Queries run in a separate process: it sees everything that landed, can be killed at any time, and leaves nothing
behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from pipeline.local_service import LocalService, Settings
from pipeline.local_service.query.runner import Abandoned, QueryRunner
from pipeline.local_service.store.database import EventColumns, Store, Unavailable
from tests.support.capture_service import batch, event, post
from tests.support.plain_http import PLAIN
from tests.support.services import wait_for

WEDGE = "select levenshtein(string_agg('ab', ''), string_agg('ba', '')) from range(500000)"
"""Takes hours, and cannot be interrupted."""
ENDS_WITHIN = 4.0
"""Two seconds, on a busy machine."""


def ask_at(url: str, key: str, sql: str) -> httpx.Response:
    body = {"query": {"kind": "HogQLQuery", "query": sql}}
    headers = {"authorization": f"Bearer {key}"}
    return httpx.post(f"{url}/api/projects/1/query/", json=body, headers=headers, timeout=60, **PLAIN)


def ask(service: LocalService, sql: str) -> httpx.Response:
    return ask_at(service.url, service.personal_key, sql)


def numbers(service: LocalService, sql: str) -> list[Any]:
    return [value for (value,) in ask(service, sql).json()["results"]]


def pid_of(service: LocalService) -> int:
    process = service._queries._process
    assert process is not None
    return process._running.pid


def has_ended(pid: int) -> bool:
    """Whether a process, which may not be our child, ends soon."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 30)[0])
    finally:
        os.close(descriptor)


def until_asked(queries: QueryRunner) -> None:
    """Wait until a query has reached the process."""
    wait_for(lambda: (turn := queries._turn) is not None and turn._process is not None)


def test_a_query_sees_all_that_was_accepted_before_it(service: LocalService) -> None:
    """After any mix of events, copies, refused requests, persons, groups and a killed process."""
    chosen = random.Random(13)
    sent: list[int] = []
    refused = 0
    for step in range(20):
        for _ in range(chosen.randrange(3)):
            number = chosen.randrange(20)
            changed = {"distinct_id": f"u{number}", "$set": {"n": step}}
            assert post(service, batch(event(event="$set", properties=changed, uuid=uuid(number)))).status_code == 200
            sent.append(number)
        if chosen.random() < 0.2:
            post(service, b"?")
            refused += 1
        if chosen.random() < 0.1 and service._queries._process is not None:
            os.kill(pid_of(service), signal.SIGKILL)
            assert has_ended(pid_of(service))
        people = "select id, properties from persons order by id"
        counts = {
            "count() from raw_events": len(sent),
            "count() from events": len(set(sent)),
            "count() from rejections": refused,
            "count(distinct person_id) from events": len(set(sent)),
        }
        asked = chosen.choice([*counts, people])
        if asked == people:
            told = ask(service, people).json()["results"]
            assert told == [list(row) for row in service.select(people)]
            assert len(told) == len(set(sent))
        else:
            assert numbers(service, f"select {asked}") == [counts[asked]], asked


def uuid(number: int) -> str:
    return f"0188a5eb-0000-7000-8000-{number:012x}"


def test_only_what_is_new_is_sent(service: LocalService) -> None:
    """The existing copy is extended, in the next process too; but if rows are deleted from the store behind the
    service's back, the next answer shows it."""
    post(service, batch(*(event(uuid=uuid(number)) for number in range(50))))
    assert numbers(service, "select count() from raw_events") == [50]
    os.kill(pid_of(service), signal.SIGKILL)
    assert has_ended(pid_of(service))
    with service.store.transaction() as connection:
        connection.execute("UPDATE accepted SET event = 'sent again' WHERE receipt <= 50")
    post(service, batch(event(uuid=uuid(50))))
    assert numbers(service, "select count() from raw_events") == [51]
    assert numbers(service, "select count() from raw_events where event = 'sent again'") == [0]
    with service.store.transaction() as connection:
        connection.execute("DELETE FROM accepted WHERE receipt = 3")
    post(service, batch(event(uuid=uuid(51))))
    assert numbers(service, "select count() from raw_events") == [51]


def test_several_may_ask_at_once(service: LocalService) -> None:
    """Each gets its own answer, also next to one that is refused and one that is too large."""
    post(service, batch(event()))
    asked = ["select count() from events", "select nothing", "select len(range(1000000000))", "select 1"]
    with ThreadPoolExecutor(len(asked)) as pool:
        answers = list(pool.map(lambda sql: ask(service, sql), asked))
    assert [one.status_code for one in answers] == [200, 400, 513, 200]
    assert [one.json()["results"] for one in answers[::3]] == [[[1]]] * 2


def test_a_client_that_goes_away_takes_its_query_along(service: LocalService) -> None:
    """The process is killed, queries behind it are answered, and one whose client left meanwhile is skipped."""
    assert ask(service, "select 1").status_code == 200
    pid = pid_of(service)
    body = json.dumps({"query": {"kind": "HogQLQuery", "query": WEDGE}})
    request = (
        f"POST /api/projects/{service.project_id}/query/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
        f"Authorization: Bearer {service.personal_key}\r\n\r\n{body}"
    ).encode()

    async def two_clients() -> None:
        (_, first), (_, second) = [await asyncio.open_connection("127.0.0.1", service.port) for _ in range(2)]
        for one in (first, second):
            one.write(request)
            await one.drain()
        await asyncio.to_thread(until_asked, service._queries)
        second.close()
        first.close()
        await asyncio.gather(first.wait_closed(), second.wait_closed())

    asyncio.run(two_clients())
    assert has_ended(pid)
    assert ask(service, "select 1").json()["results"] == [[1]]


class Unhurried(Store):
    """A store that is read only when released."""

    def __init__(self) -> None:
        self.asked, self.let = threading.Event(), threading.Event()
        self.let.set()
        super().__init__()
        self.asked.clear()
        self.let.clear()

    @contextmanager
    def snapshot(self, *, people: bool) -> Iterator[Any]:
        self.asked.set()
        self.let.wait(60)
        with super().snapshot(people=people) as cursor:
            yield cursor


@contextmanager
def asking(store: Store) -> Iterator[QueryRunner]:
    """Queries of a store with one event."""
    store.append(1, EventColumns(0, [uuid(1)], ["Seen"], ["u1"], [0], [b"{}"], [True]))
    queries = QueryRunner(store, Settings())
    try:
        yield queries
    finally:
        queries.close()
        store.close()


async def stay() -> None:
    """A client that waits for its answer."""
    await asyncio.Event().wait()


async def noticed() -> None:
    """Wait until clients that left have been noticed."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_who_has_left_before_the_turn_is_not_answered() -> None:
    """No process is started for it."""

    async def asked(queries: QueryRunner) -> None:
        release = threading.Event()
        queries._worker.submit(release.wait)
        answer = asyncio.ensure_future(queries.answer("select 1", 1, asyncio.sleep(0)))
        await noticed()
        release.set()
        with pytest.raises(Abandoned):
            await answer

    with asking(Store()) as queries:
        asyncio.run(asked(queries))
        assert queries._process is None


def test_a_client_that_goes_away_does_not_undo_the_copy() -> None:
    """However long the copy of a large store takes, and however often its clients give up, it is made once."""
    store = Unhurried()

    async def leave() -> None:
        await asyncio.to_thread(store.asked.wait, 60)

    async def asked(queries: QueryRunner) -> bytes:
        first = asyncio.ensure_future(queries.answer("select 1", 1, leave()))
        await leave()
        await noticed()
        store.let.set()
        with pytest.raises(Abandoned):
            await first
        with store.transaction() as connection:
            connection.execute("UPDATE accepted SET event = 'sent again'")
        return await queries.answer("select count() from raw_events where event = 'Seen'", 1, stay())

    with asking(store) as queries:
        assert json.loads(asyncio.run(asked(queries)))["results"] == [[1]]


def test_no_query_begins_once_the_service_closes() -> None:
    """The answer says that the service is closing, and the process is gone."""
    with asking(Store()) as queries:
        found = asyncio.run(queries.answer("select count() from events", 1, stay()))
        assert json.loads(found)["results"] == [[1]]
        folder, process = queries._folder, queries._process
        assert folder is not None
        assert process is not None
        assert folder.stat().st_mode & 0o777 == 0o700
        queries.close()
        assert not folder.exists()
        assert has_ended(process._running.pid)
    with pytest.raises((Unavailable, RuntimeError)):
        asyncio.run(queries.answer("select 1", 1, stay()))


def test_the_service_ends_while_a_query_runs(service: LocalService) -> None:
    """At once; a waiting client gets a 503."""
    told: list[int] = []
    asking = threading.Thread(target=lambda: told.append(ask(service, WEDGE).status_code))
    asking.start()
    until_asked(service._queries)
    began = time.monotonic()
    service.close()
    took = time.monotonic() - began
    asking.join()
    assert (told, took < ENDS_WITHIN) == ([503], True)


@contextmanager
def started(store: Path) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """The command as it runs, its address and its personal key."""
    arguments = [sys.executable, "-m", "pipeline", "service", "--port", "0", "--store", str(store)]
    environment, pipe = os.environ | {"PYTHONUNBUFFERED": "1"}, subprocess.PIPE
    with subprocess.Popen(arguments, stdout=pipe, stderr=pipe, text=True, env=environment) as command:
        try:
            assert command.stdout is not None
            url, _, key = (command.stdout.readline().split()[-1].split("=")[-1] for _ in range(3))
            yield command, url, key
        finally:
            command.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_ends_the_command_whatever_runs(number: signal.Signals, tmp_path: Path) -> None:
    """A query that cannot be interrupted and a client that never ends its body; no process and no folder is left, even
    if the service itself was killed."""

    def asked(sql: str) -> None:
        with contextlib.suppress(httpx.TransportError):
            ask_at(url, key, sql)

    def half_a_body() -> Iterator[bytes]:
        yield b"{"
        ended.wait(60)

    ended = threading.Event()
    with started(tmp_path / "store.duckdb") as (command, url, key), ThreadPoolExecutor(2) as pool:
        asked("select 1")
        (child,) = children_of(command.pid)
        pool.submit(asked, WEDGE)
        pool.submit(httpx.post, f"{url}/batch/", content=half_a_body(), timeout=60)
        before = work_of(child)
        wait_for(lambda: work_of(child) >= before + 10)
        folder = folder_of(child)
        assert folder.exists()
        began = time.monotonic()
        command.send_signal(number)
        _, errors = command.communicate(timeout=60)
        took = time.monotonic() - began
        ended.set()
    assert has_ended(child)
    assert not folder.exists()
    assert (took < ENDS_WITHIN, "Traceback" in errors) == (True, False)
    assert command.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 0)


def children_of(pid: int) -> list[int]:
    """The processes that a process has started, in any of its threads."""
    found = []
    for other in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(other.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(other.parent.name))
    return found


def work_of(pid: int) -> int:
    """The CPU time of a process, in hundredths of a second."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])


def folder_of(pid: int) -> Path:
    """The folder in which the query process keeps its copy."""
    opened = [Path(os.readlink(one)) for one in Path(f"/proc/{pid}/fd").iterdir()]
    return next(one.parent for one in opened if one.name == "copy.duckdb")
