"""Requests to a tool's API: one at a time, within its limits, retried after passing errors, into a file or memory.

A body is read as it was sent, still compressed, so that the file has exactly the tool's bytes. A request whose file
turns out to be cut off counts as failed, like one that got no answer.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from urllib.parse import urlsplit

import msgspec

from pipeline.config import Secret, masking
from pipeline.delivery.retry import RetryPolicy, backoff, last_result, with_retries
from pipeline.errors import BackcastError, Refused, Unfinished
from pipeline.fetch.tool import RequestLimit, TooLarge
from pipeline.http import MOST_ANSWER, Reply, certificates_for, exchange, httpx, open_client
from pipeline.text import printable

if TYPE_CHECKING:
    from tenacity import RetryCallState

TRIES = 5
"""How often a request is tried if the tool fails at it, gives it cut off, or never answered on that host. For a 429,
and for a host that answered before, only time counts."""
_SHOWN = 300
_PIECE = 1 << 18

T = TypeVar("T")
Check = Callable[[Path, Mapping[str, str]], Any]
"""Looks at a downloaded file, with the headers of the response. Raises CutOff."""


class Clock(msgspec.Struct, frozen=True):
    """Time and waiting; tests provide their own."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class Pace:
    """Waits before a request if a tool's limits for its kind require it: a number per second and per hour.

    Requests of other programs are not known here; a 429 shows those.
    """

    def __init__(self, limits: Mapping[str, tuple[RequestLimit, ...]], clock: Clock) -> None:
        self.clock = clock
        self._limits = limits
        self._began = {
            kind: deque[float](maxlen=max(limit.requests for limit in some)) for kind, some in limits.items()
        }

    def wait(self, kind: str) -> None:
        """Wait until a request of this kind may begin, and count it."""
        began = self._began[kind]
        now = self.clock.now()
        due = max(
            (
                began[-limit.requests] + limit.seconds
                for limit in self._limits[kind]
                if len(began) >= limit.requests
            ),
            default=now,
        )  # fmt: skip
        if due > now:
            self.clock.sleep(due - now)
        began.append(max(due, now))


class Transport:
    """Sends requests with a tool's keys: two are user and password, one is a bearer token.

    `timeout` bounds each wait for bytes, in seconds. In `retry`, `seconds` bounds how long one request is retried, and
    `first` and `most` bound the pauses.
    """

    def __init__(
        self,
        base: str,
        secrets: tuple[Secret, ...],
        pace: Pace,
        retry: RetryPolicy,
        *,
        timeout: float,
        ca_file: str | None,
    ) -> None:
        self._pace = pace
        self._answered = False
        self._retry = retry
        keys = [secret.reveal() for secret in secrets]
        self._mask = masking(*keys, ":".join(keys))
        self._client = open_client(
            base,
            {"Authorization": f"Bearer {keys[0]}"} if len(keys) == 1 else {},
            timeout=timeout,
            certificates=certificates_for(base, ca_file),
            auth=httpx.BasicAuth(keys[0], keys[1]) if len(keys) == 2 else None,
        )

    def close(self) -> None:
        self._client.close()

    def download(self, kind: str, url: str, parameters: Mapping[str, str], file: Path, check: Check) -> Reply:
        """GET into a file, which each try writes anew. If the answer is not 200, its body is returned."""

        def save(response: httpx.Response) -> Any:
            with file.open("wb") as stream:
                for piece in response.iter_raw(_PIECE):
                    stream.write(piece)
            return check(file, response.headers)

        return self._with_retries(kind, lambda: exchange(self._client, "GET", url, params=parameters, save=save))

    def ask(
        self, kind: str, url: str, *, json: object = None, form: Mapping[str, str] | None = None, method: str = "POST"
    ) -> Reply:
        """POST a JSON body or a form, or GET, and read the answer into memory. It must not change anything, since it
        may be repeated."""

        def send() -> Reply:
            reply = exchange(self._client, method, url, json=json, data=form)
            too_long = len(reply.body) > MOST_ANSWER
            return Reply(413, failure="an answer of more than 512 MiB") if too_long else reply

        return self._with_retries(kind, send)

    def _with_retries(self, kind: str, send: Callable[[], Reply]) -> Reply:
        clock = self._pace.clock
        began = clock.now()
        failures = 0

        def attempt() -> Reply:
            nonlocal failures
            self._pace.wait(kind)
            reply = send()
            self._answered = self._answered or reply.status > 0
            counts = reply.reached or not self._answered
            failures += counts and reply.status != 429 and reply.is_passing
            return reply

        def is_retried(reply: Reply) -> bool:
            return reply.is_passing and not reply.final and failures < TRIES

        def budget() -> float:
            return max(0.0, self._retry.seconds - (clock.now() - began))

        def gives_up(state: RetryCallState) -> bool:
            return budget() <= 0 or last_result(state).retry_after > budget()

        wait = backoff(self._retry, budget)
        return with_retries(attempt, is_retried, wait=wait, stop=gives_up, sleep=clock.sleep)

    def decoded(self, what: str, url: str, reply: Reply, kind: type[T]) -> T:
        """The content of an answer in JSON. Raises like `fail` for another status, and Refused if it cannot be read."""
        if reply.status != 200:
            self.fail(what, url, reply)
        try:
            return msgspec.json.decode(reply.body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Refused(
                f"{url} answered without a query result: {error}",
                hint="check --from: it must be a region, or the address of the tool's API itself",
            ) from None

    def described(self, reply: Reply) -> str:
        """The answer to a failed request, without any key."""
        if not reply.status:
            text = reply.failure
        else:
            words = reply.failure or reply.body.decode("utf-8", "replace").strip()
            text = f"the answer is {reply.status}" + (f": {words}" if words else "")
        return self._shown(text)

    def _shown(self, text: str) -> str:
        return printable(self._mask.sub("***", text), _SHOWN)

    def fail(self, what: str, url: str, reply: Reply, *, too_large: int = 413, hint: str = "") -> NoReturn:
        """Raise the error of a failed request: TooLarge if a smaller request may be answered, which a tool may say with
        a status of its own, or a BackcastError. `hint` is what to do if even the smallest gets `too_large`."""
        error = self._error(what, url, reply)
        if reply.status == too_large:
            error.hint = hint or error.hint
            raise TooLarge(error)
        if reply.reached and reply.is_passing and reply.status != 429:
            raise TooLarge(error)
        raise error

    def _error(self, what: str, url: str, reply: Reply) -> BackcastError:
        message = f"cannot fetch {what} from {urlsplit(url).netloc}: {self.described(reply)}"
        again = "run the same command again; what was fetched is kept"
        if reply.status in (401, 403):
            return Refused(message, status=reply.status, hint="check the keys, what they may read, and --from")
        if 300 <= reply.status < 400:
            onward = urlsplit(reply.headers.get("location", "")).netloc
            return Refused(
                message, status=reply.status, hint=f"use --from with the address of {self._shown(onward) or 'the API'}"
            )
        if reply.is_passing:
            return Unfinished(message, status=reply.status, retry_after=reply.retry_after, hint=again)
        return Refused(message, status=reply.status, hint="check the project, the dates and --from")
