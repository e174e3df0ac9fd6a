"""The requests of a plan on disk: `requests.jsonl` has a line for each, `requests/*.pack` have their events.

requests.jsonl              number, phase, lane, file, offset, length, crc, sha256, bytes, events; in sending order
requests/events-00012.pack  the fragments of one file, one after the other
facts/00012.parquet         for the phase events: a row for each event (`pipeline.plan.requests.pack`)
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from types import TracebackType
from typing import BinaryIO, NamedTuple, Self

import msgspec

from pipeline.errors import StalePlan
from pipeline.fragment import Fragment, inflate
from pipeline.plan.sealed.directory import Directory, digest_file, read_lines

NO_LANE = -1


class PackedRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of requests.jsonl. `number` counts from 0 in the phase; `file` has its fragment at `offset`.

    `length` is the size of the fragment; `bytes`, `crc` and `sha256` are those of its events before deflate. Requests
    of one `lane` are sent one after the other, requests without a lane in any order. `hot` are (hash of an id, events):
    the ids that are faster than the service takes them. `canary`: its events are in the sample that can be sent before
    the rest. `first` is the line of its first event in the sealed file of its phase, from 0. In the phase events,
    `part` is the number of the file of facts, and `nth` the number of the request in it.
    """

    number: int
    phase: str
    file: str
    offset: int
    length: int
    crc: int
    sha256: str
    bytes: int
    events: int
    lane: int = NO_LANE
    hot: tuple[tuple[int, int], ...] = ()
    canary: bool = False
    first: int = 0
    part: int = 0
    nth: int = 0


def digest_of_requests(directory: Directory) -> str:
    """A sha256 over the requests of a plan before deflate, whose output may differ between processors."""
    digest = hashlib.sha256()
    for request in read_lines(directory.requests, PackedRequest):
        digest.update(msgspec.json.encode(msgspec.structs.replace(request, offset=0, length=0)))
    return digest.hexdigest()


class RequestEvents(NamedTuple):
    """A request and its events, as they are sent."""

    request: PackedRequest
    events: list[bytes]


def read_requests(directory: Directory, phase: str) -> Iterator[PackedRequest]:
    """The requests of a phase, in the order of sending."""
    for request in read_lines(directory.requests, PackedRequest):
        if request.phase == phase:
            yield request


def read_events(directory: Directory, phase: str, numbers: Collection[int] | None = None) -> Iterator[RequestEvents]:
    """The requests of a phase with their events, or those of these numbers. Raises StalePlan."""
    with RequestReader(directory) as reader:
        for request in read_requests(directory, phase):
            if numbers is None or request.number in numbers:
                yield RequestEvents(request, reader.events(request))


class RequestReader:
    """Reads the fragments of a plan's requests; one file is open at a time. A context manager.

    `digests` are the sealed digests of the plan's files by name: if they are given, each file is checked as it is
    opened.
    """

    def __init__(self, directory: Directory, digests: Mapping[str, str] | None = None) -> None:
        self._directory = directory
        self._digests = digests
        self._name = ""
        self._file: BinaryIO | None = None

    def fragment(self, request: PackedRequest) -> Fragment:
        """The fragment of a request. Raises StalePlan if its file is missing or was changed."""
        if request.file != self._name or self._file is None:
            self._open(request.file)
        assert self._file is not None
        self._file.seek(request.offset)
        data = self._file.read(request.length)
        if len(data) != request.length:
            raise _damaged(self._directory, request.file)
        return Fragment(data, request.bytes, request.crc)

    def events(self, request: PackedRequest) -> list[bytes]:
        """The events of a request. Raises StalePlan."""
        try:
            return inflate(self.fragment(request).data)
        except ValueError:
            raise _damaged(self._directory, request.file) from None

    def _open(self, name: str) -> None:
        self.close()
        try:
            if self._digests is not None:
                check_digest(self._directory, name, self._digests.get(name))
            self._file, self._name = (self._directory.path / name).open("rb"), name
        except FileNotFoundError:
            raise _missing(self._directory, name) from None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file, self._name = None, ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def check_digest(directory: Directory, name: str, digest: str | None) -> None:
    """Raise StalePlan if a file of a plan changed after it was sealed."""
    try:
        if digest_file(directory.path / name) != digest:
            raise _damaged(directory, name)
    except FileNotFoundError:
        raise _missing(directory, name) from None


def _missing(directory: Directory, name: str) -> StalePlan:
    return StalePlan(
        f"{directory.path / name} is missing from the plan", differences=[f"{name}: missing"],
        hint="copy the whole directory again; plan again only if nothing was sent",
    )  # fmt: skip


def _damaged(directory: Directory, name: str) -> StalePlan:
    return StalePlan(
        f"{directory.path / name} was changed after it was sealed", differences=[f"{name}: changed after sealing"],
        hint="restore the plan's directory from a copy; plan again only if nothing was sent",
    )  # fmt: skip
