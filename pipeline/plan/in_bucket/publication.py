"""The objects that say which plan of a prefix counts, and who sends it. Each change of a prefix adds one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from glob import has_magic

import msgspec

from pipeline import storage
from pipeline.errors import Unfinished, UnsafePlan, UsageError
from pipeline.plan.sealed.discarded import Discarded

FORMAT = "backcast.published-plan/1"
MARK = "plan.json"
_MARKED = (
    b'{"format": "backcast.plan/in-bucket",\n'
    b' "note": "A plan of backcast. The object published-N.json with the greatest number names the prefix of its files.'
    b' Commands take the URL of this prefix."}\n'
)
"""Constant, so that it never describes a plan that no longer counts. An export recognises plans by it."""
_NAME = re.compile(r"published-(\d{6})\.json")


class SealedFile(msgspec.Struct, frozen=True):
    """The content of a file of a plan."""

    bytes: int
    sha256: str


class Sender(msgspec.Struct, frozen=True):
    """Who sends a plan: the id of the only ledger that may, and where it is."""

    ledger: str
    plan: str
    target: str
    host: str
    directory: str
    since: str


class Publication(msgspec.Struct, frozen=True):
    """The plan that counts: the prefix of its `files`, when it was published, who sends it, and when its events were
    discarded."""

    folder: str
    files: Mapping[str, SealedFile]
    published: str
    sender: Sender | None = None
    discarded: Discarded | None = None
    format: str = FORMAT


class Latest(msgspec.Struct, frozen=True):
    """The last change of a prefix, with its number, or 0."""

    number: int = 0
    publication: Publication | None = None


def plan_url(text: str) -> str:
    """The URL of a plan without a trailing slash. Raises UsageError if it cannot be one, or has credentials."""
    storage.refuse_foreign(text)
    if "?" in text or "#" in text:
        raise UsageError(
            "the URL of a plan must not contain ? or #",
            hint="write only scheme, bucket and prefix; backcast finds credentials as the store's own tools do",
        )
    if has_magic(text):
        raise UsageError(f"{text} is a pattern, but a plan has one place", hint="name a prefix without * and [")
    return text.rstrip("/")


def object_of(url: str, number: int) -> str:
    return f"{url}/published-{number:06d}.json"


def number_of(name: str) -> int:
    """The number in the name of such an object; 0 for any other name."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else 0


def mark(url: str) -> None:
    """Create the object that marks the prefix, if it is missing. Raises Unfinished, and UsageError if nothing may be
    written, or if the store overwrites existing objects: `advance` would then let two changes succeed."""
    with answering(url):
        storage.create(f"{url}/{MARK}", _MARKED)
        storage.refuse_replacing(f"{url}/{MARK}", _MARKED)


def latest(url: str) -> Latest:
    """Which plan counts. Raises UsageError, UnsafePlan, Unfinished."""
    number = max((number_of(name) for name in names_in(url)), default=0)
    if not number:
        return Latest()
    place = object_of(url, number)
    with answering(url):
        try:
            content = storage.read(place)
        except FileNotFoundError:
            raise Unfinished(
                f"{url} changed while it was read",
                hint="someone is publishing a plan there; run the same command again",
            ) from None
    try:
        return Latest(number, msgspec.json.decode(content, type=Publication))
    except msgspec.MsgspecError as error:
        raise UnsafePlan(f"{place} is damaged: {error}", hint="remove that object, and plan again") from None


def advance(url: str, before: Latest, new: Publication) -> bool:
    """Make `new` what counts, if that is still `before`. Returns False if another change came first.

    The prefix must have its `mark`.

    Afterwards it reads again what counts: the store may have taken the object although its answer was lost, and an
    object with an earlier number may have been removed.
    """
    with answering(url):
        storage.create(object_of(url, before.number + 1), msgspec.json.format(msgspec.json.encode(new), indent=1))
    return latest(url) == Latest(before.number + 1, new)


def replaced(url: str, done: str) -> UnsafePlan:
    """The error for a plan that another one replaced since it was opened: nothing was `done`."""
    return UnsafePlan(
        f"the plan in {url} is no longer the one that was opened here; nothing was {done}",
        hint=f"someone published another plan there meanwhile. Look at it: backcast status {url}; then run the same"
        " command again",
    )


def names_in(url: str) -> list[str]:
    """The objects directly in a prefix. Raises UsageError, Unfinished."""
    with answering(url):
        try:
            return storage.names_in(url)
        except FileNotFoundError:
            return []


@contextmanager
def answering(url: str) -> Iterator[None]:
    """Turns errors of a plan's store into backcast's. Raises UsageError, Unfinished."""
    try:
        yield
    except storage.StoreError as error:
        raise Unfinished(
            f"the store of {error.url or url} did not answer as expected: {error}",
            hint=f"{error.hint}, then run the same command again",
        ) from None
    except PermissionError as error:
        raise UsageError(
            f"the store refused to read or write {error.filename or url}: {error.strerror or error}",
            hint="give these credentials the right to list, read, write and delete objects there",
        ) from None
    except FileNotFoundError:
        raise UsageError(
            f"the bucket of {url} does not exist", hint="create the bucket first, or check its name"
        ) from None
