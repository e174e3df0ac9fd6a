"""The local service misbehaves on purpose: each fault as a client sees it on a real socket."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import socket
import threading
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx
import pytest

from pipeline.cli import run as command
from pipeline.local_service import Keyring, LocalService
from pipeline.local_service.faults import BadFault, Fault, catalogue, read_script
from pipeline.local_service.faults.request import CaptureRequest, Ending, Forward, HttpReply
from pipeline.local_service.keys import Project
from pipeline.local_service.landed import LandedEvent
from pipeline.plan.sealed.freshness import open_plan
from tests.support.capture_service import CLIENT
from tests.support.deliveries import identities, planned
from tests.support.deliveries import row as row_of
from tests.support.deliveries import uuid as uuid_of
from tests.support.services import running, wait_for

KEY = "phc_testMARKED"
KEYS = Keyring((Project(1, "Rehearsal", KEY),), {"phx_testMARKED": frozenset({"*"})})


def serve(*faults: str, seed: int = 0) -> AbstractContextManager[LocalService]:
    """The service with a script."""
    return running(KEYS, faults=faults, fault_seed=seed)


def body(*numbers: int, padding: int = 0) -> bytes:
    """A gzipped batch of these rows; `padding` bytes that do not compress."""
    events = [
        {name: one[name] for name in ("event", "timestamp", "uuid")}
        | {"properties": {"distinct_id": one["distinct_id"], "padding": os.urandom(padding // 2).hex()}}
        for one in map(row_of, numbers or (0,))
    ]
    return gzip.compress(json.dumps({"api_key": KEY, "historical_migration": True, "batch": events}).encode(), 1)


def post(to: LocalService | str, content: bytes | None = None, *, timeout: float = 20) -> httpx.Response:
    """One request on a connection of its own."""
    headers = {"content-encoding": "gzip", "connection": "close"}
    url = to if isinstance(to, str) else to.url + "/batch/"
    return CLIENT.post(url, content=content or body(), headers=headers, timeout=timeout)


def statuses(to: LocalService | str, count: int = 1) -> list[int]:
    """The statuses of this many requests, one after another; 0 if none came."""
    found = [0] * count
    for number in range(count):
        with contextlib.suppress(httpx.TransportError):
            found[number] = post(to).status_code
    return found


def copies(service: LocalService) -> int:
    """How many events were taken, counting each copy."""
    return service.store.raw_count()


def acted(service: LocalService) -> list[int]:
    return [tally.acted for tally in service.faults]


def test_an_error_before_stores_nothing_and_one_after_stores_everything() -> None:
    """Both look the same to the client. A batch that the service refuses gets its usual answer and is not counted."""
    with serve("before:500,times=1", "after:502,times=1") as service:
        assert [(*statuses(service), copies(service)) for _ in range(3)] == [(500, 0), (502, 1), (200, 2)]
    with serve("after:500") as service:
        bad = gzip.compress(json.dumps({"api_key": KEY, "batch": [{"event": ""}]}).encode())
        assert post(service, bad).status_code == 400
        assert acted(service) == [0]


def test_retry_after_comes_as_seconds_as_a_date_or_not_at_all() -> None:
    """The header is there only when asked for, and a date is no earlier than the seconds would be."""
    with serve("before:503,times=1", "before:503,retry-after=1.2,times=1", "before:429,retry-after=2,date") as service:
        found = [post(service).headers.get("retry-after") for _ in range(2)]
        now = time.time()
        date = post(service).headers["retry-after"]
    assert found == [None, "2"]
    assert 2 <= parsedate_to_datetime(date).timestamp() - now <= 5


def test_a_rate_lets_its_burst_through_refuses_the_rest_and_recovers() -> None:
    """3 a minute: one at once (a second's worth, at least one), then 429. At 2 a second the next is soon admitted."""
    with serve("rate:3/m,retry-after=20") as service:
        assert statuses(service, 3) == [200, 429, 429]
        refused = post(service)
        assert (refused.text, refused.headers["retry-after"]) == ("rate limited", "20")
        assert (copies(service), acted(service)) == (1, [3])
    with serve("rate:2/s") as service:
        assert statuses(service, 2) == [200, 200]
        wait_for(lambda: statuses(service) == [429])
        wait_for(lambda: statuses(service) == [200])


def test_maintenance_ends_after_a_number_of_requests_or_a_time() -> None:
    """503 for the first N requests; or for a time that begins with the first request."""
    with serve("maintenance:2,retry-after=1") as service:
        assert statuses(service, 4) == [503, 503, 200, 200]
    with serve("maintenance:0.2s") as service:
        assert statuses(service) == [503]
        wait_for(lambda: statuses(service) == [200])


def test_a_poison_event_by_name_refuses_its_whole_batch() -> None:
    """Nothing of the batch is stored, with or without the poison event at its end."""
    with serve("poison,event=Step 1") as service:
        assert post(service, body(0, 3, 1)).status_code == 400
        assert copies(service) == 0
        assert post(service, body(0, 3)).status_code == 200
        assert acted(service) == [1]


def test_poison_by_rate_is_the_same_events_in_every_batch() -> None:
    """One uuid in 8 by its hash: a pure function of uuid and seed, whatever else is in the batch."""
    with serve("poison:1/8") as service, serve("poison:1/8", seed=1) as other:
        poison = [number for number in range(40) if post(service, body(number)).status_code == 400]
        assert 2 <= len(poison) <= 12
        good = [number for number in range(40) if number not in poison]
        assert post(service, body(*good)).status_code == 200
        assert all(post(service, body(*good, number)).status_code == 400 for number in poison[:3])
        assert [number for number in range(40) if post(other, body(number)).status_code == 400] != poison


def test_a_body_over_the_limit_is_413() -> None:
    """The size of the body as it is sent counts."""
    with serve("large:2KiB") as service:
        assert post(service, body(0, padding=4096)).status_code == 413
        assert post(service, body(0)).status_code == 200
        assert copies(service) == 1


def test_a_used_up_quota_drops_events() -> None:
    """Both real forms; the batch that crosses the quota is still taken, and a refused one uses none of it."""
    limited = {"quota:4": (200, '{"status":"Ok","quota_limited":["events"]}')}
    for spelling, wanted in (limited | {"quota:4,form=402": (402, "billing limit reached")}).items():
        with serve(spelling, "before:500,times=1") as service:
            found = [(post(service, body(0, 1, 2)).status_code, copies(service)) for _ in range(3)]
            last = post(service, body(0))
        assert found == [(500, 0), (200, 3), (200, 6)]
        assert (last.status_code, last.text) == wanted
        assert acted(service) == [1, 1]


def test_a_chain_of_redirects_ends_at_the_service() -> None:
    """As many hops as asked for, each with that status, and each counted as one request of the chain."""
    for status in (301, 302, 303, 307, 308):
        with serve(f"redirect:{status},hops=3,every=2") as service:
            assert statuses(service) == [200]
            place, met = service.url + "/batch/", []
            while (said := post(place)).status_code != 200:
                met.append(said.status_code)
                place = str(httpx.URL(place).join(said.headers["location"]))
            assert met == [status] * 3
            assert (acted(service), copies(service)) == ([1], 2)


def test_a_redirect_loop_never_ends() -> None:
    """The address changes with each hop, so that a client has to count."""
    with serve("redirect:308,loop") as service:
        place, places = service.url + "/batch/", set()
        for _ in range(12):
            said = post(place)
            assert said.status_code == 308
            place = str(httpx.URL(place).join(said.headers["location"]))
            places.add(place)
        assert (len(places), copies(service)) == (12, 0)


def test_a_redirect_to_another_host_names_it() -> None:
    """`host=` keeps the port unless it gives one."""
    with serve("redirect:307,host=localhost,times=1", "redirect:307,host=elsewhere.invalid:99") as service:
        first, second = (post(service).headers["location"] for _ in range(2))
    assert first == f"http://localhost:{service.port}/batch/?hop0=1"
    assert second == "http://elsewhere.invalid:99/batch/?hop1=1"


@pytest.mark.parametrize(
    ("fault", "message", "stored"),
    [
        ("lost", "without sending a response", 1),
        ("truncated", "without sending complete message body", 1),
        ("garbage:noise", "illegal status line", 0),
        ("garbage:noise,stored", "illegal status line", 1),
    ],
)
def test_an_answer_that_is_not_whole_breaks_the_connection(fault: str, message: str, stored: int) -> None:
    """No byte at all, a body that is cut, or bytes that are not HTTP; the next request is served."""
    with serve(f"{fault},times=1") as service:
        with pytest.raises(httpx.RemoteProtocolError, match=message):
            post(service)
        assert copies(service) == stored
        assert statuses(service) == [200]


def test_a_reset_comes_in_the_middle_of_a_large_body() -> None:
    """The client is still sending when the RST arrives; nothing is stored."""
    content = body(0, padding=900_000)
    head = f"POST /batch/ HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: {len(content)}\r\n\r\n"
    with serve("reset,times=1") as service, socket.create_connection(("127.0.0.1", service.port), 20) as client:
        client.sendall(head.encode() + content[: len(content) // 2 + 1])
        with pytest.raises(ConnectionResetError):
            client.recv(1)
        assert copies(service) == 0
        with pytest.raises(OSError, match=r"Broken pipe|reset"):
            client.sendall(content)
        assert post(service, content).status_code == 200


def test_garbage_may_be_a_page_with_200() -> None:
    """For example a sign-in page; the events are stored only if the fault says so."""
    for asked, stored in (("", 0), (",stored", 1)):
        with serve(f"garbage:html{asked}") as service:
            page = post(service)
            assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
            assert page.text.startswith("<!doctype html>")
            assert copies(service) == stored


def test_slow_answers_bodies_and_readers_take_their_time() -> None:
    """A late answer makes a client wait for its head, a slow body only for the rest; a slow reader takes the request in
    the end."""
    with serve("slow-answer:0.4s,times=1", "slow-body:0.4s,skip=1") as service:
        with pytest.raises(httpx.ReadTimeout):
            post(service, timeout=0.1)
        with CLIENT.stream("POST", service.url + "/batch/", content=body()) as response:
            head = time.monotonic()
            said = response.read()
        assert (response.status_code, said) == (200, b'{"status":"Ok"}')
        assert time.monotonic() - head > 0.2
    with serve("slow-read:0.3s") as service:
        before = time.monotonic()
        assert post(service, body(0, padding=500_000)).status_code == 200
        assert time.monotonic() - before > 0.25


def test_a_service_that_closes_waits_for_no_slow_fault() -> None:
    """A minute of slowness ends when the service closes."""
    with serve("slow-answer:600s") as service:
        waiting = threading.Thread(target=statuses, args=(service,))
        waiting.start()
        wait_for(lambda: acted(service) == [1])
        before = time.monotonic()
        service.close()
    assert time.monotonic() - before < 4
    waiting.join(20)


def test_the_same_seed_gives_the_same_faults() -> None:
    """A decision depends on the seed, the place in the script and the count of requests."""
    script = ("mix:40%", "before:429,chance=30%")
    found = []
    for seed in (5, 5, 6):
        with serve(*script, seed=seed) as service:
            found.append((statuses(service, 30), service.faults))
    assert found[0] == found[1]
    assert found[0] != found[2]
    assert {0, 200, 429, 500, 503} == set(found[0][0])


def test_a_mix_shares_out_its_faults() -> None:
    """Ten in a hundred fail, in each of the five ways or in the named ones."""
    with serve("mix:50%", seed=1) as service:
        statuses(service, 60)
        tallies = service.faults
    assert [tally.fault for tally in tallies] == ["mix:50%", "before:503", "after:500", "lost", "reset", "truncated"]
    assert 20 <= tallies[0].acted <= 40
    assert all(tally.acted >= 2 for tally in tallies)
    assert sum(tally.acted for tally in tallies[1:]) == tallies[0].acted
    with serve("mix:100%,of=before:401+before:418") as service:
        assert set(statuses(service, 20)) == {401, 418}


def test_every_skip_and_times_choose_requests() -> None:
    """They count from the first request that reaches the fault; what an earlier fault answers does not reach it."""
    with serve("before:503,times=2", "before:500,skip=1,every=3,times=2") as service:
        assert statuses(service, 14) == [503] * 2 + [200] * 3 + [500] + [200] * 2 + [500] + [200] * 5
        assert [tally[1:] for tally in service.faults] == [(14, 2), (12, 2)]


def test_a_new_fault_is_one_class() -> None:
    """It is in the help and can be used in a script without any other change."""

    @dataclass(kw_only=True)
    class Teapot(Fault, example="teapot"):
        """answers 418"""

        async def act(self, request: CaptureRequest, forward: Forward) -> Ending:
            return HttpReply(418, b"short and stout") if self.claim() else await forward()

    try:
        assert ("teapot", "answers 418") in catalogue()
        with serve("teapot,times=1") as service:
            assert statuses(service, 2) == [418, 200]
    finally:
        del Fault.names[Teapot.name]


def test_only_capture_requests_meet_faults() -> None:
    """Queries and questions by GET stay healthy, and the tallies can be read meanwhile."""
    with serve("lost", "before:500") as service:
        assert CLIENT.get(service.url + "/batch/").status_code == 400
        bearer = {"Authorization": f"Bearer {service.personal_key}"}
        assert CLIENT.post(f"{service.url}/api/projects/1/query/", json={}, headers=bearer).json()["code"] == "required"
        assert service.count() == 0
        assert CLIENT.post(service.url + "/i/v0/e", content=b"{}").status_code == 500
        told = CLIENT.get(service.url + "/_faults").json()
    assert told == {
        "seed": 0,
        "faults": [{"fault": "lost", "met": 1, "acted": 0}, {"fault": "before:500", "met": 1, "acted": 1}],
    }


def test_a_client_that_goes_away_disturbs_no_other() -> None:
    """Half a request under a fault that needs all of it; the next request is served."""
    with serve("quota:1000") as service:
        with socket.create_connection(("127.0.0.1", service.port)) as client:
            client.sendall(b"POST /batch/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
        assert statuses(service) == [200]


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("lots", "there is no fault 'lots'", "did you mean lost? the faults are after, before, "),
        ("", "there is no fault ''", "the faults are after, "),
        ("lost,evry=2", "lost has no option 'evry'", "did you mean every? the options of lost are chance, every, "),
        ("lost:3", "lost takes no value, not '3'", "write lost"),
        ("rate", "rate needs a value", "write rate:20/s"),
        ("rate:20", "rate cannot be '20'", "write a rate such as 20/s or 300/m"),
        ("rate:nan/s", "rate cannot be 'nan/s'", "write a rate such as 20/s or 300/m"),
        ("before:200", "before cannot be '200'", "write a status from 400 to 599"),
        ("redirect:304", "redirect cannot be '304'", "write one of 301, 302, 303, 307, 308"),
        ("redirect:307,host=a b", "host of redirect cannot be 'a b'", "write a host name such as "),
        ("maintenance:soon", "maintenance cannot be 'soon'", "write a time such as 30s or 2m, or a number of requests"),
        ("large:0", "large cannot be '0'", "write a number of bytes such as "),
        ("poison", "'poison' is incomplete", "write either poison:1/5000 or poison,event=NAME"),
        ("quota:10,form=500", "form of quota cannot be '500'", "write 200 or 402"),
        ("before:500,date=1", "'date=1' is not a way to write date", "write date"),
        ("lost,every", "'every' is not a way to write every", "write every=VALUE"),
        ("lost,every=2,every=3", "every is repeated in 'lost,every=2,every=3'", "write it once"),
        ("lost,chance=0", "chance of lost cannot be '0'", "write a share such as 10% or 0.1"),
        ("mix:10%,of=lost+rats", "there is no fault 'rats'", "did you mean rate?"),
        ("mix:10%,of=mix:10%", "of of mix cannot be 'mix:10%'", "write faults joined by +"),
    ],
)
def test_a_misspelt_fault_is_answered_with_the_nearest_one(text: str, message: str, hint: str) -> None:
    """Strict, and with the nearest word."""
    with pytest.raises(BadFault) as caught:
        read_script([text])
    assert str(caught.value) == message
    assert caught.value.hint.startswith(hint)


def test_the_help_lists_every_fault_by_an_example_that_can_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` is the reference: each example works as written."""
    examples = [written for written, _ in catalogue() if "=" not in written]
    assert len(examples) == len(read_script(examples)) >= 15
    assert all(does.strip() for _, does in catalogue())
    for name in ("service", "rehearse"):
        assert command([name, "--help"]) == 0
        told = capsys.readouterr().out
        assert [written for written, _ in catalogue() if written not in told] == []


def test_a_rehearsal_through_faults_still_proves_equality(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Everything planned is read back although a third of the requests went wrong; poison events are refused, exit 5,
    and the others are read back."""
    directory = planned(tmp_path, 60, batch=4)
    assert command(["rehearse", str(directory), "--quiet", "--fault", "mix:30%", "--fault", "large:300"]) == 0
    counted = re.findall(r"^Fault (\S+): ([1-9]\d*) of \d+ requests$", capsys.readouterr().err, re.MULTILINE)
    assert {"mix:30%", "large:300"} <= {fault for fault, _ in counted}
    assert {(one.uuid, one.event, one.distinct_id, one.timestamp) for one in rehearsed(directory)} == identities(60)
    assert command(["rehearse", str(directory), "--quiet", "--fault", "poison,event=Step 1"]) == 5
    assert {one.uuid for one in rehearsed(directory)} == {uuid_of(number) for number in range(60) if number % 3 != 1}


def rehearsed(directory: Path) -> list[LandedEvent]:
    """The result of a plan's rehearsal."""
    with LocalService(open_plan(directory)[1].rehearsal / "store.duckdb") as service:
        return service.events()
