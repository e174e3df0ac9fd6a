"""Why a run stops before everything is sent: the signal that its threads share, and the error for each reason."""

from __future__ import annotations

import threading
import time

from pipeline.delivery.destination import Response, ResponseKind
from pipeline.delivery.retry import RetryPolicy, SendResult
from pipeline.errors import Interrupted, Refused, Unfinished
from pipeline.text import are, pluralize

SETTLED = "what was in flight is settled"


class StopSignal:
    """Whether a run stops, and the first `problem` that stopped it. Thread-safe.

    Setting `interrupted` requests an orderly end. `max_seconds` is how long the run may last, None for no limit. Once
    `event` is set, no request begins and every wait ends.
    """

    def __init__(self, interrupted: threading.Event, max_seconds: float | None) -> None:
        self.event = threading.Event()
        self.problem: BaseException | None = None
        self._interrupted = interrupted
        self._max_seconds = max_seconds
        self._started = time.monotonic()

    def fail(self, problem: BaseException) -> None:
        """Stop the run because of an error. A later error does not replace the first one."""
        self.problem = self.problem or problem
        self.event.set()

    def check(self) -> bool:
        """Whether the run stops, after a check of the interruption and the time limit."""
        if self._interrupted.is_set():
            self.event.set()
        elif self._max_seconds is not None and not self.event.is_set() and self.seconds >= self._max_seconds:
            self.fail(_out_of_time(self._max_seconds))
        return self.event.is_set()

    @property
    def seconds(self) -> float:
        """Seconds since the run started."""
        return time.monotonic() - self._started

    @property
    def reason(self) -> BaseException | None:
        """What stopped the run; None if nothing did."""
        if self._interrupted.is_set() and (self.problem is None or isinstance(self.problem, Unfinished)):
            # Ctrl-C also ends the workers, which is not a failure.
            return Interrupted(f"stopped by hand; {SETTLED}", hint="run the same command again")
        return self.problem


def with_doubt(problem: BaseException | None, events: int) -> BaseException | None:
    """The reason why a run stopped, with the number of events that were in flight without an answer."""
    if not isinstance(problem, Interrupted | Unfinished) or SETTLED not in problem.message:
        return problem
    doubt = f"{pluralize(events, 'event')} {are(events)} in doubt, and the next run begins with them"
    return type(problem)(problem.message.replace(SETTLED, doubt), hint=problem.hint)


def too_many_refused(refused: int, last: str) -> Refused:
    """More events were refused than `--max-refused` allows. `last` is the last answer that refused one."""
    return Refused(
        f"the service refused {pluralize(refused, 'event')}; the last: {last}",
        status=int(last.partition(" ")[0] or 0),
        hint="list them: backcast rejects PLAN; or raise --max-refused to continue anyway",
    )


def refused_access(address: str, response: Response) -> Refused:
    """The service refused access, not single events."""
    key = "check the capture key (BACKCAST_PROJECT_KEY or --project-key-file) and that it belongs to this host"
    quota = "raise the quota of the project"
    hints = {0: "correct the cause", 200: quota, 401: key, 402: quota, 403: key}
    hint = response.hint or hints.get(
        response.status, "check what answers at this address, and correct --to or the cause"
    )
    return Refused(
        f"{address} answered {response.status}: {response.detail}"
        if response.status
        else f"{address}: {response.detail}",
        status=response.status,
        hint=f"{hint}; nothing is lost: run the same command again to resume",
    )


def gave_up(address: str, sent: SendResult, retry: RetryPolicy) -> Unfinished:
    """The retry policy gave up on a batch."""
    response, tries = sent.response, pluralize(sent.tries, "try")
    last = f"the last answer was {response.status or 'none'}: {response.detail}"
    if response.kind is ResponseKind.UNREACHABLE:
        return Unfinished(
            f"cannot reach {address}: {response.detail}",
            hint=f"{response.hint or 'check the address'}; then run the same command again",
        )
    if response.retry_after > retry.seconds:
        return Unfinished(
            f"{address} asks for a pause of {response.retry_after:,.0f} s, longer than --retry-for"
            f" ({retry.seconds:,.0f} s); {last}",
            hint="run the same command again after that time; it resumes",
        )
    if response.kind is ResponseKind.DOUBT:
        return Unfinished(
            f"{address} gave no answer that settles a batch in {tries}; {last}",
            hint="check what answers instead of the service (a proxy, a sign-in page); then run the same command again",
        )
    return Unfinished(
        f"no request to {address} succeeded in {tries}; {last}", hint="run the same command again to resume"
    )


def _out_of_time(seconds: float) -> Unfinished:
    return Unfinished(
        f"the run reached its time limit (--max-duration, {f'{seconds:,.3f}'.rstrip('0').rstrip('.')} s); {SETTLED}",
        hint="run the same command again to resume",
    )
