"""The per-event endpoint: `POST {ingest_url}/i/v1/analytics/events`, JSON, gzip, the key in a header.

Its answer has a verdict for each event (docs/know/service.md#per-event-endpoint). One pure function here decides what
an answer means; `pipeline.delivery.transport` sends the request.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import uuid
from collections.abc import Callable
from typing import Any

import msgspec

from pipeline.batcher import Batch
from pipeline.config import Secret
from pipeline.delivery.destination import Response, ResponseKind, Verdict, Verdicts
from pipeline.delivery.transport import Transport
from pipeline.encoder.encoded import UUID_LENGTH
from pipeline.targets import address_of
from pipeline.timestamps import utc_now

PATH = "/i/v1/analytics/events"
MOST_ANSWER = 16 * 1024 * 1024
"""At most this many bytes of an answer are read: about 60 for each event, and 100 more for each with a reason."""
_SHOWN = 300
_REQUESTS = uuid.UUID("5f0a3c52-6c0e-5c1d-9d3b-2f6f0f1f7a41")
"""The namespace of request ids."""
_OF_REQUEST = frozenset(
    ("missing_required_headers", "invalid_header_value", "invalid_batch", "empty_batch", "empty_body")
)
"""Refusals with 400 that no event causes: the service would not accept a smaller request either."""
_ACCEPTED, _WARNED = "ok", ("warning", "limited")  # the older name


class PerEventDestination:
    """Sends to one per-event endpoint. Thread-safe. The arguments are those of `Transport`.

    The key is in the header Authorization of each request, so no redirect to another host is followed.
    """

    def __init__(self, target: str, *, key: Secret, timeout: float = 60.0, ca_file: str | None = None) -> None:
        self.address = address_of(target)
        # With the trailing slash the service accepts the header but reads no name and version from it. Otherwise it
        # would
        # overwrite `$lib` and `$lib_version` in each event of the export.
        sdk = f"backcast/{importlib.metadata.version('backcast')}/"
        self._transport = Transport(
            self.address,
            {
                "Authorization": f"Bearer {key.reveal()}",
                "Content-Type": "application/json",
                "Content-Encoding": "gzip",
                "Accept": "application/json",
                "PostHog-Sdk-Info": sdk,
            },
            key=key,
            timeout=timeout,
            ca_file=ca_file,
            redirect_hosts=None,
            most_answer=MOST_ANSWER,
        )

    def send(self, batch: Batch) -> Response:
        """Send one batch. Its request id is derived from its bytes, so it is the same in each run."""
        return self._post(batch, lambda *answer: response_of(batch.uuids, *answer))

    def ask(self, batch: Batch) -> Response:
        """Ask with a batch without events whether the target has this endpoint: settled if it has, refused if not."""
        return self._post(batch, _offer)

    def _post(self, batch: Batch, judge: Callable[[int, bytes, float], Response]) -> Response:
        headers = {
            "PostHog-Attempt": str(batch.attempt),
            "PostHog-Request-Id": request_id(batch),
            "PostHog-Request-Timestamp": utc_now(),
        }
        answer = self._transport.post(PATH, batch.body, headers)
        return answer if isinstance(answer, Response) else judge(answer.status, answer.body, answer.retry_after)

    def close(self) -> None:
        self._transport.close()


def request_id(batch: Batch) -> str:
    """The id of a request: the same for each try, and for what its answer left open."""
    return batch.request or str(uuid.UUID(bytes=hashlib.sha1(_REQUESTS.bytes + batch.body).digest()[:16], version=5))


class _Result(msgspec.Struct, gc=False):
    """What an answer says about one event."""

    result: str
    details: Any = None


class _Answer(msgspec.Struct):
    results: dict[str, _Result]


class _Refusal(msgspec.Struct):
    """An error of the endpoint; `error` is a stable name."""

    error: str
    error_description: str


_read_answer = msgspec.json.Decoder(_Answer).decode
_read_refusal = msgspec.json.Decoder(_Refusal).decode


def response_of(uuids: str, status: int, body: bytes, retry_after: float = 0.0) -> Response:
    """What one response to the events with these uuids means. Pure. `retry_after` is in seconds."""
    text = body[:_SHOWN].decode("utf-8", "replace").strip()
    if 200 <= status < 300:
        return _verdicts(uuids, status, body, text, retry_after)
    error, description = _error(body)
    text = f"{error}: {description}"[:_SHOWN] if error else text
    if error == "billing_limit_exceeded":
        return Response(
            ResponseKind.STOP,
            status,
            f"the quota is used up: {text}",
            taken=False,
            hint="raise the quota of the project",
        )
    if status in (408, 429) or 500 <= status < 600:
        return Response(ResponseKind.RETRY, status, text, retry_after, taken=status >= 500)
    if status == 400 and error not in _OF_REQUEST:
        return Response(ResponseKind.POISON, status, text, taken=False)
    if status == 413:
        return Response(ResponseKind.TOO_LARGE, status, text, taken=False)
    return Response(ResponseKind.STOP, status, text or "no reason given", taken=not 400 <= status < 500)


def _verdicts(uuids: str, status: int, body: bytes, text: str, retry_after: float) -> Response:
    """What a 2xx means: a verdict for exactly these events, or else the batch is in doubt."""
    if len(body) > MOST_ANSWER:
        return Response(ResponseKind.DOUBT, status, f"an answer of more than {MOST_ANSWER:,} bytes: {text}")
    try:
        results = _read_answer(body).results
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Response(ResponseKind.DOUBT, status, f"an answer without a verdict for each event: {text}")
    # First compare in order, as the service answers: that is much faster than one by one.
    positions: dict[str, int] = {}
    if "".join(results) != uuids:
        positions = _positions(uuids)
        if results.keys() != positions.keys():
            return Response(ResponseKind.DOUBT, status, f"an answer with verdicts for other events: {text}")
    again: list[Verdict] = []
    refused: list[Verdict] = []
    warned: list[Verdict] = []
    others = [
        (key, one.result, one.details)
        for key, one in results.items()
        if one.result != _ACCEPTED or one.details is not None
    ]
    positions = positions or (_positions(uuids) if others else {})
    for key, result, details in others:
        reason = details if isinstance(details, str) and details else result
        verdict = Verdict(positions[key], reason[:_SHOWN])
        if result == "retry":
            again.append(verdict)
        elif result in (_ACCEPTED, *_WARNED):
            warned.append(verdict)
        else:  # dropped; a verdict with an unknown name is final too, and accepts nothing
            refused.append(verdict if result == "drop" else verdict._replace(reason=f"{result}: {reason}"[:_SHOWN]))
    verdicts = Verdicts(*(tuple(sorted(some)) for some in (again, refused, warned)))
    if len(again) == len(results) > 0:
        return Response(ResponseKind.RETRY, status, _summary(again), retry_after, taken=False)
    if not again and not refused:
        return Response(ResponseKind.SETTLED, status, verdicts=verdicts)
    return Response(
        ResponseKind.PARTLY, status, _summary(again or refused), retry_after, taken=False, verdicts=verdicts
    )


def _positions(uuids: str) -> dict[str, int]:
    """The position of each uuid."""
    return {uuids[start : start + UUID_LENGTH]: start // UUID_LENGTH for start in range(0, len(uuids), UUID_LENGTH)}


def _summary(verdicts: list[Verdict]) -> str:
    """How many events, and the reason of the first."""
    return f"{len(verdicts):,} of the events: {min(verdicts).reason}"


def _error(body: bytes) -> tuple[str, str]:
    """The name and the text of an error, both empty if it is not one of this endpoint."""
    try:
        refusal = _read_refusal(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return "", ""
    return refusal.error, refusal.error_description


def _offer(status: int, body: bytes, retry_after: float) -> Response:
    """What the answer to a batch without events means: an error in this endpoint's form shows that it exists."""
    text = body[:_SHOWN].decode("utf-8", "replace").strip()
    passing = status in (408, 429) or 500 <= status < 600
    if _error(body)[0] and not (passing and status != 429):
        return Response(ResponseKind.SETTLED, status, text)
    if passing:
        return Response(ResponseKind.RETRY, status, text, retry_after, taken=False)
    return Response(ResponseKind.POISON, status, text, taken=False)
