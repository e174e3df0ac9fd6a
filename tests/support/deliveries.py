"""Small plans to deliver, and a scripted server's answers to them; it can also pass requests on."""

from __future__ import annotations

import atexit
import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from uuid import UUID

import httpx
import msgspec

import pipeline
from pipeline.batcher import Batch, Envelope, seal_batch, unpack
from pipeline.config import Secret
from pipeline.delivery.apply import Apply, Delivery, Outcome, SendLimits
from pipeline.delivery.capture import CaptureDestination
from pipeline.delivery.destination import Destination, Response, ResponseKind
from pipeline.delivery.retry import RetryPolicy
from pipeline.delivery.send import Hooks, check_send, send_plan
from pipeline.ledger import Ledger
from pipeline.local_service import LocalService
from pipeline.options import ApplyOptions, PlanOptions
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.freshness import open_plan
from pipeline.plan.sealed.manifest import Plan
from tests.support.scripted_server import Asked, Canned
from tests.support.scripted_server import scripted as scripted
from tests.support.scripted_server import serving as serving

KEY = "phc_testMARKED"
COLUMNS = {name: name for name in ("event", "distinct_id", "timestamp", "uuid")}
AT_ONCE = RetryPolicy(seconds=60, first=0)
ONE_AT_A_TIME = SendLimits(1, AT_ONCE)
OK = Response(ResponseKind.SETTLED, 200)
ANY_ANSWERS = [
    *[OK] * 6,
    Response(ResponseKind.RETRY, 503),
    Response(ResponseKind.RETRY, 429, taken=False),
    Response(ResponseKind.RETRY, 0, taken=False),
    Response(ResponseKind.UNREACHABLE, 0, taken=False),
    Response(ResponseKind.DOUBT, 200),
    Response(ResponseKind.POISON, 400, taken=False),
    Response(ResponseKind.TOO_LARGE, 413),
    Response(ResponseKind.STOP, 401, taken=False),
]
"""All kinds of answers, most of them good: for a service that answers at random."""
BODY = seal_batch([b'{"event":"a","uuid":"0188a5eb-0000-7000-8000-000000000001"}'], 0, Envelope(KEY)).body
"""A request of one event."""
Identity = tuple[str, str, str, str]


def row(number: int) -> dict[str, Any]:
    """One row of the export: its uuid, person and time follow from its number."""
    return {
        "event": f"Step {number % 3}",
        "distinct_id": f"person-{number % 7}",
        "timestamp": f"2023-0{1 + number % 3}-02T03:04:{number % 60:02d}Z",
        "uuid": uuid(number),
        "number": number,
    }


def uuid(number: int) -> str:
    """The uuid of a row, in the form of version 4."""
    return str(UUID(int=(number * 0x9E3779B97F4A7C15F39CC0605CEDC835) % (1 << 128), version=4))


def export(folder: Path, rows: int = 100, files: int = 2, links: bool = False) -> Path:
    """JSON lines in some files; with `links` each row names an anonymous id, and the first of each names no person."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in range(files):
        mine = [row(number) for number in range(rows) if number % files == file]
        if links:
            mine = [linked(one) for one in mine]
        (folder / f"part-{file}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in mine), "utf-8")
    return folder


def linked(one: dict[str, Any]) -> dict[str, Any]:
    """A row with the device of its person; the first row of each device is from before the person was known."""
    number = one["number"]
    return one | {"anonymous_id": f"device-{number % 7}"} | ({"distinct_id": ""} if number < 7 else {})


def add(file: Path, text: bytes) -> None:
    """Add bytes at the end of a file."""
    file.write_bytes(file.read_bytes() + text)


def planned(
    folder: Path, rows: int = 100, *, files: int = 2, batch: int = 10, links: bool = False, **asked: Any
) -> Path:
    """The directory of a plan over such an export, with `batch` events a request.

    It is made once for all tests of a process, and copied with its export: then only its paths have to be changed, of
    which a plan's digest knows nothing.
    """
    settings = COLUMNS | ({"anonymous_id": "anonymous_id"} if links else {})
    options = PlanOptions(
        **{"mapping": "generic", "settings": settings, "workers": 0, "max_batch_events": batch, "canary": 0} | asked
    )
    key = repr((rows, files, links, options))
    if key not in _plans:
        made = Path(mkdtemp(dir=_plans_folder()))  # a plan that fails leaves its folder
        pipeline.plan_export(export(made / "export", rows, files, links), made / "plan", options)
        _plans[key] = made
    made = _plans[key]
    shutil.copytree(made, folder, dirs_exist_ok=True)
    for name in ("plan.json", "report.json", "report.html"):
        path = folder / "plan" / name
        path.write_text(path.read_text("utf-8").replace(str(made), str(folder)), "utf-8")
    return folder / "plan"


_plans: dict[str, Path] = {}


@cache
def _plans_folder() -> Path:
    folder = mkdtemp(prefix="plans-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def identities(rows: int) -> set[Identity]:
    """What must land of such an export: (uuid, event, distinct_id, timestamp)."""
    made = [row(number) for number in range(rows)]
    return {(one["uuid"], one["event"], one["distinct_id"], one["timestamp"][:-1] + ".000000Z") for one in made}


def landed(service: LocalService) -> set[Identity]:
    """The service's content: (uuid, event, distinct_id, timestamp)."""
    return {(one.uuid, one.event, one.distinct_id, one.timestamp) for one in service.events()}


def copies(service: LocalService) -> Counter[str]:
    """How often a service took each uuid."""
    return Counter(str(uuid) for (uuid,) in service.select("select uuid from raw_events"))


def run(directory: Path, to: str, *, key: str = KEY, send_limits: SendLimits | None = None, **asked: Any) -> Outcome:
    """Apply a plan in this process, without waiting between tries."""
    plan, place = open_plan(directory)
    limits = send_limits or SendLimits(4, AT_ONCE)
    hooks = Hooks(**{name: asked.pop(name) for name in ("progress", "warn", "interrupted") if name in asked})
    target_known = asked.pop("target_known", False)
    options = ApplyOptions(
        max_concurrency=limits.concurrency, retry_for=limits.retry.seconds, max_retries=limits.retry.tries,
        first_pause=limits.retry.first, longest_pause=limits.retry.most, max_refused=limits.max_refused,
        rate=",".join(f"{limit.most:f}" for limit in limits.rates) or None, max_duration=limits.max_seconds,
        **asked,
    )  # fmt: skip
    check_send(plan, place, to, Secret(key), options)
    return send_plan(plan, place, to, Secret(key), options, hooks, target_known=target_known)


def applying(
    plan: Plan,
    place: Directory,
    destination: Destination,
    ledger: Ledger,
    send_limits: SendLimits | None = None,
    **asked: Any,
) -> Apply:
    """A run over a plan with an open ledger; `asked` are fields of its `Delivery`, or arguments of `Apply`."""
    named = {name: asked.pop(name) for name in ("interrupted", "progress") if name in asked}
    delivery = Delivery(plan, place, KEY, limits=send_limits or SendLimits(4, AT_ONCE), **asked)
    return Apply(delivery, destination, ledger, **named)


def request_of(body: bytes) -> Batch:
    """A batch of these bytes, which counts as one event."""
    return Batch(0, 0, len(body), body)


def run_to(
    directory: Path, destination: Destination, *, send_limits: SendLimits | None = None, **asked: Any
) -> Outcome:
    """Apply a plan in this process to a given destination."""
    plan, place = open_plan(directory)
    with closing(Ledger(place.ledger).open(plan.digest, "test", destination.address)) as ledger:
        return applying(plan, place, destination, ledger, send_limits, **asked).run()


def send(url: str, **options: Any) -> Response:
    """The result of one request to an address."""
    with closing(CaptureDestination(url, key=Secret(KEY), **options)) as destination:
        return destination.send(request_of(BODY))


def in_ledger(directory: Path, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query in the ledger of a plan."""
    with closing(sqlite3.connect(directory / "ledger.sqlite")) as database, database:
        return database.execute(sql).fetchall()


def balances(outcome: Outcome, plan: Plan) -> bool:
    """The balance of a run (docs/know/promises.md#balance)."""
    counts = outcome.counts
    made = counts.accepted + counts.refused + counts.in_doubt + counts.already_settled
    return counts.made == made and made + outcome.unsent == plan.events.made and outcome.unsent >= 0


class CallDestination:
    """A destination that is one function."""

    address = "a function"

    def __init__(self, send: Callable[[bytes], Response]) -> None:
        self._send = send

    def send(self, batch: Batch) -> Response:
        return self._send(batch.body)

    def close(self) -> None:
        return


@dataclass(frozen=True)
class Reply(Canned):
    """One answer of capture; by default that everything was taken."""

    body: Any = b'{"status":"Ok"}'


def tamper(service: LocalService, sql: str) -> None:
    """Change what landed, in a way that no client can; the copy that queries see is made again."""
    service.store._writer.execute(sql)
    process = service._queries._process
    if process is not None and process.have is not None:
        process.have = msgspec.structs.replace(process.have, folded=-1, accepted=-1)


def passed_on(url: str, body: bytes) -> Reply:
    """The answer of the service at `url` to the same request; none if it has ended."""
    gzipped = {"Content-Encoding": "gzip"}
    try:
        said = httpx.post(url + "/batch/", content=body, headers=gzipped, trust_env=False, verify=False, timeout=30)
    except httpx.TransportError:
        return Reply(0)
    return Reply(said.status_code, said.content)


def relayed(url: str, asked: Asked) -> Reply:
    """The answer of the service at `url` to the same request, path and headers too; none if it has ended."""
    hop = ("host", "content-length", "connection", "accept-encoding", "transfer-encoding")
    headers = {name: value for name, value in asked.headers.items() if name not in hop}
    try:
        said = httpx.post(url + asked.target, content=asked.body, headers=headers, trust_env=False, timeout=30)
    except httpx.TransportError:
        return Reply(0)
    kept = {name: said.headers[name] for name in ("retry-after", "content-type") if name in said.headers}
    return Reply(said.status_code, said.content, kept)


def uuids_in(body: bytes) -> list[str]:
    """The uuids of one request."""
    return [json.loads(event)["uuid"] for event in unpack(body)]


def uuids(asked: Sequence[Asked]) -> list[list[str]]:
    """The uuids of each request."""
    return [[event["uuid"] for event in one.events] for one in asked]


def forget(directory: Path) -> None:
    """Make a plan as if it was never applied."""
    for leftover in (*directory.glob("ledger.sqlite*"), directory / "sent-to.json"):
        leftover.unlink(missing_ok=True)
