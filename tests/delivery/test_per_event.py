"""Sending to the endpoint that answers for each event: what leaves, what each verdict means, and when it is chosen.

What the service's public suite for its own clients asks of this endpoint is asked here too, over real sockets: path and
headers, body and event, one request id over all tries, attempts that count up, only `retry` sent again, no other status
tried again than 408, 429 and 5xx.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import pipeline
from pipeline.delivery.apply import SendLimits
from pipeline.delivery.capture_v1 import PATH, response_of
from pipeline.delivery.destination import ResponseKind
from pipeline.delivery.retry import RetryPolicy
from pipeline.errors import Refused, Unfinished, UsageError
from pipeline.local_service import LocalService, Settings
from pipeline.options import PlanOptions, VerifyOptions
from tests.support.commands import in_process
from tests.support.crashes import KEYS
from tests.support.deliveries import (
    AT_ONCE,
    COLUMNS,
    KEY,
    Asked,
    Reply,
    add,
    export,
    identities,
    in_ledger,
    landed,
    planned,
    relayed,
    row,
    run,
    scripted,
    serving,
    uuid,
    uuids,
)

Judge = Callable[[dict[str, Any]], str]
ONE = SendLimits(1, AT_ONCE)
EMPTY = {"error": "empty_batch", "error_description": "request batch is empty", "error_uri": ""}
OFFERED = Reply(400, EMPTY)  # to an empty request
FIRST = "0188a5eb-0000-7000-8000-000000000001"
SECOND = "0188a5eb-0000-7000-8000-000000000002"


@contextmanager
def service(*faults: str) -> Iterator[LocalService]:
    with LocalService(keys=KEYS, faults=faults, settings=Settings(per_event="on")) as made:
        yield made


def plan_of(folder: Path, rows: int = 40, **asked: Any) -> Path:
    return planned(folder, rows, files=1, batch=20, dialect="posthog", **asked)


def accepting(*others: Reply, first: Reply = OFFERED, judge: Judge = lambda event: "ok") -> Callable[[Asked], Reply]:
    """A service that gives `first` for an empty request; otherwise these replies, then verdicts; /batch/ accepts."""
    turn = iter(others)

    def answer(asked: Asked) -> Reply:
        if not asked.events:
            return first
        return next(turn, None) or (Reply() if asked.path == "/batch/" else verdicts(asked, judge))

    return answer


def verdicts(asked: Asked, judge: Judge) -> Reply:
    return Reply(200, {"results": {event["uuid"]: {"result": judge(event)} for event in asked.events}})


def states(directory: Path) -> dict[str, int]:
    counted = "select state, sum(last - first + 1) from batches where state != 'split' group by 1"
    return dict(in_ledger(directory, counted))


def test_a_request_is_what_the_service_asks_of_its_own_clients(tmp_path: Path) -> None:
    """Path, headers, envelope and event; the key is only in the header, and the history's clock is not corrected."""
    directory = plan_of(tmp_path)
    with serving(accepting()) as server:
        assert run(directory, server.url).balanced
    assert {one.path for one in server.asked} == {PATH}
    first, second = (one for one in server.asked if one.events)
    for one in (first, second):
        headers = one.headers
        assert headers["authorization"] == f"Bearer {KEY}"
        assert (headers["content-type"], headers["content-encoding"]) == ("application/json", "gzip")
        assert headers["user-agent"]
        assert re.fullmatch(".+/.+", headers["posthog-sdk-info"])
        assert headers["posthog-attempt"] == "1"
        assert UUID(headers["posthog-request-id"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", headers["posthog-request-timestamp"])
        body = json.loads(gzip.decompress(one.body))
        assert list(body) == ["created_at", "historical_migration", "batch"]
        assert body["historical_migration"] is True
        assert KEY not in gzip.decompress(one.body).decode()
        for event in body["batch"]:
            assert list(event) == ["event", "distinct_id", "options", "properties", "timestamp", "uuid"]
            assert event["options"] == {"disable_skew_correction": True}
            assert "distinct_id" not in event["properties"]
    assert first.headers["posthog-request-id"] != second.headers["posthog-request-id"]


def test_the_same_events_land_by_either_endpoint(tmp_path: Path) -> None:
    """Names, ids, times and properties are the same, byte for byte, except the mark of the uncorrected clock and the id
    among the properties; `$lib` stays that of the export."""
    rows = [
        {"event": "A \\" + '"{', "distinct_id": 'a"\\,é☃', "timestamp": "2023-01-02T03:04:05.678901Z", "uuid": uuid(1)}
        | {"$lib": "web", "x": 1.10, "deep": {"event": "x", "properties": {"distinct_id": "y"}}},
        {"event": "B", "distinct_id": "b", "timestamp": "2023-01-02T03:04:05Z", "uuid": uuid(2)},
    ]
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(json.dumps(one) + "\n" for one in rows), "utf-8")
    there = {}
    for transport in ("v1", "batch"):
        options = PlanOptions(mapping="generic", settings=COLUMNS, workers=0, dialect="posthog")
        pipeline.plan_export(source, tmp_path / transport, options)
        with service() as target:
            assert run(tmp_path / transport, target.url, transport=transport).balanced
            there[transport] = target.events()
            assert target.warnings() == []
    for one, other in zip(there["v1"], there["batch"], strict=True):
        mark, id_ = ',"$ignore_sent_at":true}', f'"distinct_id":{json.dumps(one.distinct_id, ensure_ascii=False)},'
        assert one.properties.endswith(mark)
        assert one.properties.removesuffix(mark) + "}" == other.properties.replace(id_, "", 1)
        assert (one.uuid, one.event, one.distinct_id, one.timestamp, one.historical_migration) == (
            other.uuid, other.event, other.distinct_id, other.timestamp, other.historical_migration,
        )  # fmt: skip
    assert json.loads(there["v1"][1].properties)["$lib"] == "web"


def test_properties_that_are_options_leave_as_options_and_land_as_properties(tmp_path: Path) -> None:
    """The service's public suite asks this of its clients; verify finds that what landed is what was sent."""
    moved = {"$cookieless_mode": True, "$process_person_profile": False, "$product_tour_id": 'tour "1" é'}
    kept = {"$process_person_profile": "no", "$product_tour_id": 7, "deep": moved}
    rows = [
        {"uuid": uuid(number), "event": "Seen", "distinct_id": f"u-{number}", "timestamp": "2023-01-02T03:04:05Z"}
        | {"properties": {"first": 1} | properties | {"last": [1.10]}}
        for number, properties in enumerate((moved, kept, {}))
    ]
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(json.dumps(one) + "\n" for one in rows), "utf-8")
    pipeline.plan_export(source, tmp_path / "plan", PlanOptions(mapping="posthog", workers=0, dialect="posthog"))
    with service() as target:
        with serving(lambda one: relayed(target.url, one)) as server:
            assert run(tmp_path / "plan", server.url, key=KEY).balanced
        sent = {event["uuid"]: event for one in server.asked if one.events for event in one.events}
        options = VerifyOptions(fields="all", project=str(target.project_id), api=target.url)
        found = pipeline.verify_plan(tmp_path / "plan", server.url, options, personal_key="phx_test")
        landed = {one.uuid: json.loads(one.properties) for one in target.events()}
        assert (found.proved, found.values.altered) == (True, 0)
    skew = {"disable_skew_correction": True}
    assert sent[uuid(0)]["options"] == skew | {name[1:]: value for name, value in moved.items()}
    assert [sent[uuid(number)]["options"] for number in (1, 2)] == [skew, skew]
    assert not moved.keys() & sent[uuid(0)]["properties"].keys()
    for number, properties in enumerate((moved, kept)):
        assert {name: landed[uuid(number)][name] for name in properties} == properties


def test_ids_without_an_identity_keep_their_flag(tmp_path: Path) -> None:
    """`--persons identified`: the flag of a visitor is before the id, and stays a property, by either endpoint."""
    source = export(tmp_path / "export", 40, files=1, links=True)
    visitor = row(40) | {"distinct_id": "", "anonymous_id": "visitor"}
    add(source / "part-0.jsonl", json.dumps(visitor).encode())
    columns = COLUMNS | {"anonymous_id": "anonymous_id"}
    asked = {"mapping": "generic", "settings": columns, "dialect": "posthog", "persons": "identified", "workers": 0}
    for transport in ("v1", "batch"):
        pipeline.plan_export(source, tmp_path / transport, PlanOptions(**asked))
        with service() as target:
            assert run(tmp_path / transport, target.url, transport=transport).balanced
            flagged = [one.uuid for one in target.events() if "$process_person_profile" in json.loads(one.properties)]
            assert (flagged, len(target.persons())) == ([uuid(40)], 7)


def test_each_verdict_is_settled_refused_or_sent_again_by_itself(tmp_path: Path) -> None:
    """Of 40 events some are dropped, some have a warning, some are asked for again: those are sent again, in their own
    request."""
    directory = plan_of(tmp_path)
    faults = ("verdict:retry,one-in=4,retry-after=0", "verdict:drop,event=Step 1,rounds=9", "verdict:warning,one-in=5")
    with service(*faults) as target:
        with serving(lambda one: relayed(target.url, one)) as server:
            outcome = run(directory, server.url, send_limits=ONE)
        there = landed(target)
        assert target.store.raw_count() == len(there)  # nothing was stored twice
    dropped = {one for one in identities(40) if one[1] == "Step 1"}
    assert there == identities(40) - dropped
    assert (outcome.problem, outcome.balanced, outcome.counts.refused) == (None, True, len(dropped))
    assert states(directory) == {"settled": 40 - len(dropped), "refused": len(dropped)}
    refused = in_ledger(directory, "select uuid, status, detail from refused_events")
    assert {one[0] for one in refused} == {one[0] for one in dropped}
    assert {one[1:] for one in refused} == {(200, "rejected")}
    ((detail, events, example),) = in_ledger(directory, "select * from event_warnings")
    assert (detail, outcome.warnings) == ("person_processing_disabled", {detail: events})
    assert events > 0
    assert example in {one[0] for one in there}
    requests: dict[str, list[Asked]] = {}
    for one in server.asked:
        if one.events:
            requests.setdefault(one.headers["posthog-request-id"], []).append(one)
    assert len(requests) == 2
    for tries in requests.values():
        assert [one.headers["posthog-attempt"] for one in tries] == [str(number + 1) for number in range(len(tries))]
        assert len({one.headers["posthog-request-timestamp"] for one in tries}) == len(tries)
        sent = uuids(tries)
        assert set(sent[1]) < set(sent[0])
        assert len(sent) == 2


def test_what_is_never_stored_stops_the_run_resumable(tmp_path: Path) -> None:
    """`retry` for ever: --max-retries ends it with exit code 6; the next run sends only those events."""
    directory = plan_of(tmp_path, 20)
    stubborn = {uuid(3), uuid(4), uuid(9)}
    with serving(accepting(judge=lambda event: "retry" if event["uuid"] in stubborn else "ok")) as server:
        outcome = run(directory, server.url, send_limits=SendLimits(1, RetryPolicy(tries=2, first=0)))
        assert isinstance(outcome.problem, Unfinished)
        assert "3 of the events: retry" in str(outcome.problem)
        assert [len(one.events) for one in server.asked] == [0, 20, 3, 3]
        assert states(directory) == {"settled": 17, "waiting": 3}
        assert (outcome.counts.accepted, outcome.counts.in_doubt, outcome.unsent) == (17, 0, 3)
        stubborn.clear()
        assert run(directory, server.url).balanced
    assert sorted(uuid for one in uuids(server.asked[4:]) for uuid in one) == sorted([uuid(3), uuid(4), uuid(9)])


def test_what_is_left_of_a_batch_may_be_refused_as_a_whole(tmp_path: Path) -> None:
    """After a partial answer a 400 for the rest: each range is sent by itself, down to the event at fault."""
    directory = plan_of(tmp_path, 20)
    again, bad = {uuid(number) for number in (2, 3, 11, 12, 13)}, uuid(12)
    seen: Counter[str] = Counter()

    def answer(asked: Asked) -> Reply:
        if not asked.events:
            return OFFERED
        seen.update(event["uuid"] for event in asked.events)
        if seen[uuid(2)] == 1 and len(asked.events) == 20:
            return verdicts(asked, lambda event: "retry" if event["uuid"] in again else "ok")
        if any(event["uuid"] == bad for event in asked.events):
            return Reply(400, {"error": "request_parsing_error", "error_description": "no", "error_uri": ""})
        return verdicts(asked, lambda event: "ok")

    with serving(answer) as server:
        outcome = run(directory, server.url, send_limits=ONE)
    assert (outcome.balanced, outcome.counts.refused, outcome.counts.accepted) == (True, 1, 19)
    assert in_ledger(directory, "select uuid, detail from refused_events") == [(bad, "request_parsing_error: no")]
    assert [len(one.events) for one in server.asked if one.events][:3] == [20, 5, 2]


def test_more_drops_than_allowed_stop_the_run(tmp_path: Path) -> None:
    """--max-refused counts them; what was decided is in the ledger."""
    directory = plan_of(tmp_path)
    with service("verdict:drop,rounds=9,reason=non_historical_import_drop") as target:
        outcome = run(directory, target.url, send_limits=SendLimits(1, AT_ONCE, max_refused=5))
    assert isinstance(outcome.problem, Refused)
    assert "non_historical_import_drop" in str(outcome.problem)
    assert states(directory)["refused"] == 20


def results(*pairs: tuple[str, Any]) -> bytes:
    results = {key: {"result": one} if isinstance(one, str) else one for key, one in pairs}
    return json.dumps({"results": results}).encode()


def error(name: str) -> bytes:
    return json.dumps({"error": name, "error_description": "why", "error_uri": ""}).encode()


RETRIED = {408: "request_timeout", 429: "rate_limited", 500: "internal_error", 503: "unavailable", 504: "timeout"}
STOPPED = {400: "missing_required_headers", 401: "invalid_api_token", 403: "forbidden", 415: "unsupported_encoding"}


@pytest.mark.parametrize(
    ("status", "body", "kind", "detail"),
    [
        (200, results((SECOND, "ok"), (FIRST, "ok")), ResponseKind.SETTLED, ""),
        (200, results((FIRST, "limited"), (SECOND, "warning")), ResponseKind.SETTLED, ""),
        (200, results((FIRST, "retry"), (SECOND, "retry")), ResponseKind.RETRY, "2 of the events: retry"),
        (200, results((FIRST, "ok"), (SECOND, "retry")), ResponseKind.PARTLY, "1 of the events: retry"),
        (200, results((FIRST, "ok"), (SECOND, "drop")), ResponseKind.PARTLY, "1 of the events: drop"),
        (200, results((FIRST, "ok"), (SECOND, "later")), ResponseKind.PARTLY, "1 of the events: later: later"),
        (200, results((FIRST, "ok")), ResponseKind.DOUBT, None),
        (200, results((FIRST, "ok"), (SECOND, "ok"), (FIRST[:-1] + "9", "ok")), ResponseKind.DOUBT, None),
        (200, results((FIRST, {"result": 1}), (SECOND, "ok")), ResponseKind.DOUBT, None),
        (200, b'{"status":"Ok"}', ResponseKind.DOUBT, None),
        (200, b"<", ResponseKind.DOUBT, None),
        (204, b"", ResponseKind.DOUBT, None),
        (400, error("duplicate_event_uuid"), ResponseKind.POISON, "duplicate_event_uuid: why"),
        (400, b"no", ResponseKind.POISON, "no"),
        (400, error("invalid_header_value"), ResponseKind.STOP, "invalid_header_value: why"),
        (402, error("billing_limit_exceeded"), ResponseKind.STOP, "the quota is used up: billing_limit_exceeded: why"),
        (429, error("billing_limit_exceeded"), ResponseKind.STOP, "the quota is used up: billing_limit_exceeded: why"),
        (404, b"", ResponseKind.STOP, "no reason given"),
        (413, error("payload_too_large"), ResponseKind.TOO_LARGE, "payload_too_large: why"),
        (502, b"<html>", ResponseKind.RETRY, "<html>"),
        *((status, error(name), ResponseKind.RETRY, f"{name}: why") for status, name in RETRIED.items()),
        *((status, error(name), ResponseKind.STOP, f"{name}: why") for status, name in STOPPED.items()),
    ],
)
def test_an_answer_means(status: int, body: bytes, kind: ResponseKind, detail: str | None) -> None:
    """Each answer to two events; an answer that is not for exactly these two leaves them in doubt."""
    response = response_of(FIRST + SECOND, status, body)
    assert response.kind is kind
    assert detail is None or response.detail == detail
    assert response.taken is (kind in (ResponseKind.SETTLED, ResponseKind.DOUBT) or status >= 500)


def test_a_lost_answer_is_in_doubt_and_the_same_request_leaves_again(tmp_path: Path) -> None:
    """The service stored it: the next run sends the same uuids under the same request id, and they land once."""
    directory = plan_of(tmp_path, 20)
    with service("lost,skip=1,times=1") as target:
        with serving(lambda one: relayed(target.url, one)) as server:
            once = SendLimits(1, RetryPolicy(tries=0, first=0))
            assert run(directory, server.url, send_limits=once).counts.in_doubt == 20
            assert run(directory, server.url).balanced
        assert landed(target) == identities(20)
    batches = [one for one in server.asked if one.events]
    assert len(batches) == 2
    assert len({(one.headers["posthog-request-id"], one.body) for one in batches}) == 1


def test_retry_after_pauses_the_rest_of_a_batch(tmp_path: Path) -> None:
    """The least wait also counts for a partial answer."""
    directory = plan_of(tmp_path, 20)
    with service("verdict:retry,one-in=2,retry-after=1") as target:
        outcome = run(directory, target.url)
    assert outcome.balanced
    assert outcome.seconds >= 1


@pytest.mark.parametrize("status", [302, 308])
def test_the_key_never_follows_a_redirect_to_another_host(tmp_path: Path, status: int) -> None:
    """Not even if the operator allows the host, as is possible for /batch/; the other host is never asked."""
    directory = plan_of(tmp_path, 20)
    with serving(accepting()) as other:
        elsewhere = Reply(status, b"", {"Location": f"http://localhost:{other.port}{PATH}"})
        with serving(scripted(elsewhere)) as server:
            outcome = run(directory, server.url, transport="v1", redirect_hosts=("localhost",))
        assert isinstance(outcome.problem, Refused)
        assert "the Authorization header with the key is never sent there" in str(outcome.problem)
        assert other.asked == []
        assert KEY not in str(outcome.problem)
        assert states(directory) == {"waiting": 20}
        # Another port may be another server; within the origin, method, body and headers arrive, as for /batch/.
        with serving(scripted(Reply(status, b"", {"Location": other.url + PATH}))) as server:
            assert not run(plan_of(directory / "port", 20), server.url).balanced
        assert other.asked == []
        accept = accepting()
        moved = Reply(status, b"", {"Location": f"/moved{PATH}"})
        with serving(lambda asked: accept(asked) if asked.target.startswith("/moved") else moved) as server:
            assert run(plan_of(directory / "again", 20), server.url).balanced
            assert {one.headers["authorization"] for one in server.asked} == {f"Bearer {KEY}"}


def test_an_answer_that_repeats_the_key_is_stored_without_it(tmp_path: Path) -> None:
    """In the ledger as on the terminal."""
    directory = plan_of(tmp_path, 20)
    echo = Reply(401, {"error": "invalid_api_token", "error_description": f"Bearer {KEY}", "error_uri": ""})
    with serving(scripted(echo)) as server:
        words = ["apply", directory, "--to", server.url, "--transport", "v1"]
        done = in_process(*words, env={"BACKCAST_PROJECT_KEY": KEY})
    assert done.returncode == 5
    assert "invalid_api_token: Bearer ***" in done.stderr
    written = b"".join(file.read_bytes() for file in directory.rglob("*") if file.is_file())
    assert KEY not in done.stdout + done.stderr
    assert KEY.encode() not in written


@pytest.mark.parametrize("reply", [OFFERED, Reply(404, b"Not Found"), Reply(200, b"<html>"), Reply(400, b"no")])
def test_auto_asks_once_and_never_changes(tmp_path: Path, reply: Reply) -> None:
    """The question has no event: the answer applies to the whole plan. If anything else answers, /batch/ is used."""
    directory = plan_of(tmp_path)
    chosen, other, path = ("v1", "batch", PATH) if reply is OFFERED else ("batch", "v1", "/batch/")
    with serving(accepting(Reply(401, EMPTY), first=reply)) as server:
        assert isinstance(run(directory, server.url, send_limits=ONE).problem, Refused)
        assert run(directory, server.url).balanced
    assert [(one.path, len(one.events)) for one in server.asked] == [(PATH, 0), *[(path, 20)] * 3]
    assert in_ledger(directory, "select value from meta where key = 'transport'") == [(chosen,)]
    assert run(directory, server.url).balanced  # nothing is left, and no question is asked
    with pytest.raises(UsageError, match=f"begun with --transport {chosen}, and keeps it"):
        run(directory, server.url, transport=other)


def test_an_outage_leaves_the_choice_open(tmp_path: Path) -> None:
    """503 to the question: it is asked again by the rules of a batch; if that fails, nothing is chosen or sent."""
    directory = plan_of(tmp_path)
    with serving(scripted(Reply(503))) as server:
        outcome = run(directory, server.url, send_limits=SendLimits(1, RetryPolicy(tries=2, first=0)))
        assert isinstance(outcome.problem, Unfinished)
        assert len(server.asked) == 3
    assert in_ledger(directory, "select count(*) from meta where key = 'transport'") == [(0,)]
    with serving(accepting()) as server:
        assert isinstance(run(directory, server.url).problem, type(None))


def test_contract_stays_on_batch(tmp_path: Path) -> None:
    """No question is asked, and the other endpoint is refused for such a plan before anything leaves."""
    directory = planned(tmp_path, 40, files=1, batch=20)
    with serving(scripted(Reply())) as server:
        for transport in ("auto", "v1"):  # a dry run builds every request, and asks nothing either
            assert run(plan_of(tmp_path / transport), server.url, dry_run=True, transport=transport).balanced
        assert server.asked == []
        with pytest.raises(UsageError, match="dialect contract"):
            run(directory, server.url, transport="v1")
        assert run(directory, server.url).balanced
        assert {one.path for one in server.asked} == {"/batch/"}
