"""Requests to a tool's API: one at a time, under its limits, again after what passes, into a file or into memory.

A body is read as it was sent, still compressed, so that the file has the very bytes of the tool. A request whose file
turns out to be cut off counts as failed, like one that got no answer.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from pipeline.config import Secret, masking
from pipeline.delivery.http_library import httpx
from pipeline.delivery.retry import RetryPolicy, backoff, last_result, with_retries
from pipeline.delivery.transport import retry_after, trusted
from pipeline.errors import BackcastError, Refused, Unfinished
from pipeline.fetch.pace import Pace
from pipeline.fetch.tool import TooLarge
from pipeline.targets import is_loopback
from pipeline.text import printable

if TYPE_CHECKING:
    from tenacity import RetryCallState

TRIES = 5
"""Requests for one thing that the tool fails at or gives cut off, or to a host that never answered. For a 429, and for
a host that answered before, only time counts."""
_SHOWN = 300
_PIECE = 1 << 18
_MOST_ANSWER = 512 << 20
"""Bytes of an answer that is read into memory."""
_MOST_REFUSAL = 64 << 10
"""The same of an answer other than 200, of which the first words are shown."""


class CutOff(Exception):
    """A file that arrived is not whole; the message says how that was seen."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The result of one request. Status 0: no whole answer, and `failure` is the reason; `final`: it would stay so.

    `value` is what the check of a downloaded file returned. `reached`: a server answered or may have.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)
    value: Any = None
    failure: str = ""
    retry_after: float = 0.0
    final: bool = False
    reached: bool = True


Check = Callable[[Path, Mapping[str, str]], Any]
"""Looks at a downloaded file, with the headers of the response. Raises CutOff."""


class Transport:
    """Sends requests with the keys of a tool: two are user and password, one is a bearer token.

    `timeout` bounds each wait for bytes, in seconds. Of `retry`, `seconds` bounds how long one request is tried, and
    `first` and `most` the back-off.
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
        self._client = httpx.Client(
            auth=httpx.BasicAuth(keys[0], keys[1]) if len(keys) == 2 else None,
            headers={"User-Agent": "backcast", "Accept-Encoding": "gzip"}
            | ({"Authorization": f"Bearer {keys[0]}"} if len(keys) == 1 else {}),
            timeout=httpx.Timeout(timeout, connect=min(timeout, 20.0)),
            verify=trusted(ca_file) if base.startswith("https") else False,
            trust_env=not is_loopback(base),
        )

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def download(self, kind: str, url: str, parameters: Mapping[str, str], file: Path, check: Check) -> Reply:
        """GET into a file, which is written anew by each try; of an answer other than 200 the body is returned."""
        request = self._client.build_request("GET", url, params=parameters)
        return self._with_retries(kind, lambda: self._download(request, file, check))

    def ask(self, kind: str, url: str, *, json: object = None, form: Mapping[str, str] | None = None) -> Reply:
        """POST a JSON body or a form, and read the answer into memory. It has to be a question: it may be repeated."""
        request = self._client.build_request("POST", url, json=json, data=form)
        return self._with_retries(kind, lambda: self._ask(request))

    def _with_retries(self, kind: str, send: Callable[[], Reply]) -> Reply:
        clock = self._pace.clock
        began = clock.now()
        tries = failures = 0

        def attempt() -> Reply:
            nonlocal tries, failures
            self._pace.wait(kind)
            tries += 1
            try:
                reply = send()
            except CutOff as error:
                reply = Reply(0, failure=str(error))
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                distrusted = "CERTIFICATE_VERIFY_FAILED" in str(error)
                reply = Reply(0, failure=f"no connection: {error}", final=distrusted, reached=False)
            except httpx.HTTPError as error:
                reply = Reply(0, failure=f"{type(error).__name__}: {error}")
            self._answered = self._answered or reply.status > 0
            counts = reply.reached or not self._answered
            failures += counts and reply.status != 429 and is_passing(reply)
            return reply

        def is_retried(reply: Reply) -> bool:
            return is_passing(reply) and not reply.final and failures < TRIES

        def budget() -> float:
            return max(0.0, self._retry.seconds - (clock.now() - began))

        def gives_up(state: RetryCallState) -> bool:
            return budget() <= 0 or last_result(state).retry_after > budget()

        wait = backoff(self._retry, budget)
        return with_retries(attempt, is_retried, wait=wait, stop=gives_up, sleep=clock.sleep)

    def _download(self, request: httpx.Request, file: Path, check: Check) -> Reply:
        response = self._client.send(request, stream=True)
        try:
            if response.status_code != 200:
                return self._reply(response, _body(response, _MOST_REFUSAL))
            with file.open("wb") as stream:
                for piece in response.iter_raw(_PIECE):
                    stream.write(piece)
            return Reply(200, response.headers, value=check(file, response.headers))
        finally:
            response.close()

    def _ask(self, request: httpx.Request) -> Reply:
        response = self._client.send(request, stream=True)
        try:
            most = _MOST_ANSWER if response.status_code == 200 else _MOST_REFUSAL
            body = _body(response, most)
            if len(body) > _MOST_ANSWER:
                return Reply(413, failure="an answer of more than 512 MiB")
            return self._reply(response, body)
        finally:
            response.close()

    def _reply(self, response: httpx.Response, body: bytes) -> Reply:
        floor = retry_after(response.headers.get("retry-after", ""), datetime.now(UTC))
        return Reply(response.status_code, response.headers, body, retry_after=floor)

    def described(self, reply: Reply) -> str:
        """What a request that failed was answered, without any key."""
        if not reply.status:
            text = reply.failure
        else:
            words = reply.failure or reply.body.decode("utf-8", "replace").strip()
            text = f"the answer is {reply.status}" + (f": {words}" if words else "")
        return self._shown(text)

    def _shown(self, text: str) -> str:
        return printable(self._mask.sub("***", text), _SHOWN)

    def fail(self, what: str, url: str, reply: Reply, *, too_large: int = 413, hint: str = "") -> NoReturn:
        """Raise the error of a request that failed: TooLarge where less may be answered, which a tool may state with a
        status of its own, or a BackcastError. `hint` is what to do where `too_large` is answered to the least."""
        error = self._error(what, url, reply)
        if reply.status == too_large:
            error.hint = hint or error.hint
            raise TooLarge(error)
        if reply.reached and is_passing(reply) and reply.status != 429:
            raise TooLarge(error)
        raise error

    def _error(self, what: str, url: str, reply: Reply) -> BackcastError:
        message = f"cannot fetch {what} from {urlsplit(url).netloc}: {self.described(reply)}"
        again = "run the same command again; what was fetched stays"
        if reply.status in (401, 403):
            return Refused(message, status=reply.status, hint="check the keys, what they may read, and --from")
        if 300 <= reply.status < 400:
            onward = urlsplit(reply.headers.get("location", "")).netloc
            return Refused(
                message, status=reply.status, hint=f"give the address of {self._shown(onward) or 'the API'} to --from"
            )
        if is_passing(reply):
            return Unfinished(message, status=reply.status, retry_after=reply.retry_after, hint=again)
        return Refused(message, status=reply.status, hint="check the project, the dates and --from")


def _body(response: httpx.Response, most: int) -> bytes:
    """A body without its gzip, of one that is longer `most` bytes and one more. Raises CutOff.

    No other compression was asked for, so none is taken off: a few bytes of one can be any number of bytes.
    """
    gunzip = zlib.decompressobj(31) if response.headers.get("content-encoding", "").lower() == "gzip" else None
    body = bytearray()
    for piece in response.iter_raw(_PIECE):
        try:
            body += gunzip.decompress(piece, most + 1 - len(body)) if gunzip else piece[: most + 1 - len(body)]
        except zlib.error as error:
            if response.status_code == 200:
                raise CutOff(f"the compressed body is damaged ({error})") from None
            break
        if len(body) > most:
            break
    return bytes(body)


def is_passing(reply: Reply) -> bool:
    """Whether a request may succeed later."""
    return reply.status in (0, 408, 429) or reply.status >= 500
