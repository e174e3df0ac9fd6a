"""Faults of single events, at the endpoint that has a verdict for each (docs/know/service.md#per-event-endpoint)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import msgspec

from pipeline.local_service.faults.base import Fault, option, read_count, reader, value
from pipeline.local_service.faults.kinds.refusals import read_seconds
from pipeline.local_service.faults.request import CaptureRequest, Ending, EventKey, Forward, HttpReply

read_verdict = reader("retry|drop|warning|[a-z_]{3,40}", lambda match: match[0], "retry, drop or warning")
_REASONS = {"retry": "not_persisted", "drop": "rejected", "warning": "person_processing_disabled"}
_ACCEPTED = ("warning", "limited")
_Results = dict[str, dict[str, str]]


class _Answer(msgspec.Struct):
    results: _Results


@dataclass(kw_only=True)
class Verdict(Fault, example="verdict:retry"):
    """answers retry, drop or warning (or another word) for some events of the per-event endpoint, and stores only those
    with a warning: one uuid in N, chosen by hash, with one-in=N, or with event=NAME every event of that name; each
    event the first time it arrives, or the first N times with rounds=N; reason=WORD is the service's reason, and
    retry-after=SECONDS (1) is sent with retry"""

    verdict: str = value(read_verdict)
    one_in: int = option(read_count, 1)
    event: str | None = option(str, None)
    rounds: int = option(read_count, 1)
    reason: str | None = option(str, None)
    retry_after: float = option(read_seconds, 1.0)
    seen: Counter[str] = field(default_factory=Counter)

    async def act(self, request: CaptureRequest, forward: Forward) -> Ending:
        events = await request.events() if request.per_event else []
        chosen = {event.uuid for event in events if self._is_chosen(event)}
        if not chosen or not self.claim():
            return await forward()
        self.seen.update(chosen)
        results: _Results = {}
        if self.verdict in _ACCEPTED or len(chosen) < len(events):
            if self.verdict not in _ACCEPTED:
                await request.remove(chosen)
            ending = await forward()
            if not isinstance(ending, HttpReply) or not ending.accepted:
                return ending
            results = msgspec.json.decode(ending.body, type=_Answer).results
        reason = self.reason or _REASONS.get(self.verdict, self.verdict)
        if self.verdict in _ACCEPTED:  # no verdict may claim that an event was stored if it was not
            chosen = {uuid for uuid in chosen if results.get(uuid, {}).get("result") in ("ok", *_ACCEPTED)}
        results |= {uuid: {"result": self.verdict, "details": reason} for uuid in chosen}
        in_order = {event.uuid: results[event.uuid] for event in events if event.uuid in results}
        headers = [(b"content-type", b"application/json")]
        if any(result["result"] == "retry" for result in in_order.values()):
            headers.append((b"retry-after", str(int(-(-self.retry_after // 1))).encode()))
        return HttpReply(200, msgspec.json.encode({"results": in_order}), tuple(headers))

    def _is_chosen(self, event: EventKey) -> bool:
        if self.seen[event.uuid] >= self.rounds or self.event not in (None, event.event):
            return False
        return self.one_in == 1 or int(self.draw(event.uuid) * self.one_in) == 0
