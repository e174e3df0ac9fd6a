"""The capture endpoint: `POST {ingest_url}/batch/`, JSON, gzip.

One pure function here decides what a response means, following the table of docs/know/service.md#what-backcast-does
(docs/know/service.md#answers: error bodies are plain text; one bad event rejects its whole batch; a 200 can state that
the quota dropped everything). `pipeline.delivery.transport` sends the request.
"""

from __future__ import annotations

import json
import re

from pipeline.batcher import Batch
from pipeline.config import Secret
from pipeline.delivery.destination import Response, ResponseKind
from pipeline.delivery.transport import MOST_ANSWER, Transport
from pipeline.targets import address_of

_SHOWN = 300


class CaptureDestination:
    """Sends to one capture endpoint. Thread-safe. The arguments after `dialect` are those of `Transport`."""

    def __init__(
        self,
        target: str,
        *,
        key: Secret | None = None,
        dialect: str = "contract",
        timeout: float = 60.0,
        ca_file: str | None = None,
        redirect_hosts: tuple[str, ...] = (),
    ) -> None:
        self.address = address_of(target)
        self._dialect = dialect
        self._transport = Transport(
            self.address,
            {
                "Content-Type": "application/json",
                "Content-Encoding": "gzip",
                "Accept": "application/json, text/plain",
            },
            key=key,
            timeout=timeout,
            ca_file=ca_file,
            redirect_hosts=redirect_hosts,
        )

    @property
    def date(self) -> str:
        """The `Date` header of the last response, "" if it had none."""
        return self._transport.date

    def send(self, batch: Batch) -> Response:
        answer = self._transport.post("/batch/", batch.body)
        if isinstance(answer, Response):
            return answer
        return response_of(answer.status, answer.body, retry_after=answer.retry_after, dialect=self._dialect)

    def close(self) -> None:
        self._transport.close()


def response_of(status: int, body: bytes, *, retry_after: float = 0.0, dialect: str = "contract") -> Response:
    """What one response means. Pure. `retry_after` is its Retry-After, in seconds."""
    text = body[:_SHOWN].decode("utf-8", "replace").strip()
    if 200 <= status < 300:
        return _success(status, body, text, dialect)
    if status in (408, 429) or 500 <= status < 600:
        return Response(ResponseKind.RETRY, status, text, retry_after, taken=status != 429)
    if status == 400:
        return Response(ResponseKind.POISON, status, text, taken=False)
    if status == 413:
        # Events before the large one may be stored already (docs/know/service.md#answers); the halves have its
        # uuids.
        return Response(ResponseKind.TOO_LARGE, status, text)
    return Response(ResponseKind.STOP, status, text or "no reason given", taken=not 400 <= status < 500)


def _success(status: int, body: bytes, text: str, dialect: str) -> Response:
    """What a 2xx means: settled only if its body confirms it in the plan's dialect, else in doubt
    (docs/know/service.md#what-backcast-does)."""

    def doubt(reason: str) -> Response:
        return Response(ResponseKind.DOUBT, status, reason)

    if len(body) > MOST_ANSWER:
        return doubt(f"an answer of more than {MOST_ANSWER:,} bytes: {text}")
    if not body.strip():
        is_success = dialect == "contract" and status == 200
        return Response(ResponseKind.SETTLED, status) if is_success else doubt("an empty answer")
    try:
        # Decoded here, because `json` would try encodings other than UTF-8.
        answer = json.loads(body.decode("utf-8"), object_pairs_hook=_unique_members, parse_constant=_not_json)
    except _DuplicateMember:
        return doubt(f"an answer that names a member twice: {text}")
    except (ValueError, RecursionError):
        return doubt(f"an answer that is not JSON: {text}")
    if not isinstance(answer, dict):
        return doubt(f"an answer that is not a JSON object: {text}")
    limited = answer.get("quota_limited")
    if limited:
        # A list without "events" names other quotas: some of the events may have been taken.
        taken = isinstance(limited, list) and "events" not in limited
        return Response(ResponseKind.STOP, status, f"the quota is used up and events were dropped: {text}", taken=taken)
    # The service's own JSON errors have `detail` (docs/know/service.md#answers).
    if any(value and re.match(r"error|(detail|exception)$", name.casefold()) for name, value in answer.items()):
        return doubt(f"an answer that names an error: {text}")
    if not _is_ok(answer, dialect):
        return doubt(f"an answer that does not confirm success: {text}")
    return Response(ResponseKind.SETTLED, status)


class _DuplicateMember(ValueError):
    """An object has a member twice; readers disagree about which of the two counts."""


def _unique_members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise _DuplicateMember
    return members


def _not_json(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def _is_ok(answer: dict[str, object], dialect: str) -> bool:
    """Whether the status is Ok or the number 1 (but not true or 1.0); the contract shows none, so it may be missing."""
    if "status" not in answer:
        return dialect == "contract"
    status = answer["status"]
    return status == "Ok" or (type(status) is int and status == 1)
