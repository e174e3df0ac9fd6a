"""The files of a plan directory. A person can read each of them, and `ls` shows the state of the plan.

`Directory` names the files of a plan. There may also be `sent-to.json`, the target that something was sent to, which
reveals a lost ledger (`pipeline.ledger.marker`); `plan.lock`, the process that writes, or last wrote, a plan
here; and `unfinished-plan/`, a plan that is being written or was left by a program that was stopped
(`pipeline.plan.sealed.commit`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

T = TypeVar("T")


class _File:
    """A file or folder of a directory, as an attribute."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, directory: Directory, owner: type[Directory]) -> Path:
        return directory.path / self.name


EXCLUDED = "excluded-ids.txt"
PHASES = ("identities", "groups", "events", "persons")
EVENTS = "events"


@dataclass(frozen=True)
class Directory:
    """The files of one plan. `url` is set for a plan in a bucket; then `path` is its working copy
    (`plan.in_bucket`)."""

    path: Path
    url: str = ""

    plan = _File("plan.json")
    """The plan: what was read, what would be sent, the digests that seal the rest."""
    report_json = _File("report.json")
    """The same for programs, with the results of rehearsal and verification."""
    report_html = _File("report.html")
    """The same for people."""
    requests = _File("requests.jsonl")
    """A line for each request, in the order of sending (`pipeline.plan.requests.store`)."""
    packs = _File("requests")
    """The events of the requests, deflated."""
    facts = _File("facts")
    """A row for each event, as Parquet."""
    identities = _File("identities.jsonl")
    """The merges to send, which come first."""
    pairs = _File("identities.parquet")
    """Every pair of ids, the decision on it, and the reason."""
    groups = _File("groups.jsonl")
    """The group updates to send; then the properties set once for persons before all events."""
    persons = _File("persons.jsonl")
    """The profile updates to send, which come last."""
    identified = _File("identified.bin")
    """With `--persons identified`: the hashes of the ids that get a profile."""
    cells = _File("cells.jsonl")
    """Counts of event x UTC day x outcome."""
    drift = _File("drift.jsonl")
    """How each property of each event name looks in each month."""
    source_pairs = _File("source-pairs.jsonl")
    """Some rows of the source next to the events that they become."""
    rejects = _File("rejects.jsonl")
    """Rejected rows: file, row, offset, code, text."""
    profiles_before = _File("profiles-before.jsonl")
    """Values of live profiles that the plan writes, as a preflight read them."""
    ledger = _File("ledger.sqlite")
    """What was sent, and the responses."""
    lookups = _File("lookups.json")
    """The entries of the mapping's lookup files, if it has any."""
    lookup_entries = _File("lookups.entries")
    """The entries of lookup tables that are too large for memory."""
    lookup_slots = _File("lookups.slots")
    """The place of each of those entries."""
    excluded = _File(EXCLUDED)
    """With `--exclude-ids`: the ids that are left out."""
    stdin = _File("stdin")
    """The standard input, so that it can be read again."""
    preflight = _File("preflight.json")
    """What the target answered before sending: the checks, and the first event of other senders."""
    answers = _File("preflight-answers")
    """The target's answers to a preflight that was interrupted, or that ended a short while ago."""
    paused = _File("paused-functions.json")
    """Hog functions that are off while the plan is sent (`apply --pause-functions`)."""
    rehearsal = _File("rehearsal")
    """The same plan applied to the local service, with its own ledger and store."""
    verification = _File("verification")
    """What an interrupted verification read so far."""
    differences = _File("differences.jsonl")
    """Every difference that the last verification found, with its row."""
    continuity = _File("continuity-merges.csv")
    """Pairs of ids that would join people who are two at the target (`--continuity`)."""
    metrics = _File("metrics.jsonl")
    """The numbers of charts that the last `verify --metrics` compared."""
    source_verification = _File("source-verification")
    """What an interrupted comparison with the source read so far."""
    source_differences = _File("source-differences.jsonl")
    """Every event that the last `verify --source` found on one side only."""
    undo_list = _File("undo-list")
    """What was sent, as lists and queries (`backcast undo-list`)."""
    receipt = _File("receipt.json")
    """What was read, planned, sent and found again, with digests (`backcast receipt write`)."""
    discarded = _File("discarded.json")
    """When the events of the plan were discarded (`backcast discard`)."""
    bucket = _File("bucket.json")
    """Which plan in which bucket this is the working copy of."""
    scratch = _File("scratch")
    """What planning needs only while it runs."""
    blocks = _File("scratch/blocks.jsonl")
    """A line for each block (`pipeline.plan.blocks`)."""
    copies = _File("scratch/copies.jsonl")
    """The decisions on duplicates, by block."""
    staged = _File("scratch/staged")
    """What workers make of the export's blocks (`pipeline.transform.staged`)."""
    block_facts = _File("scratch/staged/facts")
    """The facts of each block (`pipeline.transform.facts`), next to the tables of what its rows state."""
    asked = _File("scratch/staged/asked")
    """The keys of joined rows that each block looks up."""
    joined_keys = _File("scratch/joined-keys")
    """All keys of joined rows (`pipeline.plan.lookup_rows`)."""

    @property
    def name(self) -> str:
        """The name by which people give it to a command."""
        return self.url or str(self.path)

    def files_for(self, url: str) -> Path:
        """The folder in which files for a bucket are written before they are copied there."""
        return self.path / f"files-{hashlib.sha256(url.encode()).hexdigest()[:12]}"

    @property
    def replaced(self) -> tuple[Path, ...]:
        """The files other than plan.json that are removed when another plan replaces this one."""
        return (
            self.report_json, self.report_html, self.requests, self.packs, self.facts,
            self.identities, self.pairs, self.groups, self.persons, self.identified, self.cells, self.drift,
            self.source_pairs, self.rejects, self.lookups, self.lookup_entries,
            self.lookup_slots, self.excluded,
        )  # fmt: skip


_LINES_AT_ONCE = 500


class BytesWriter:
    """Writes a file of the plan. `close` returns its sha256."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb", buffering=1 << 18)
        self._hash = hashlib.sha256()
        self._at = 0

    def write_bytes(self, data: bytes) -> tuple[int, int]:
        """Write some bytes. Returns their position, and their number."""
        self._hash.update(data)
        self._file.write(data)
        self._at += len(data)
        return self._at - len(data), len(data)

    def close(self) -> str:
        """Flush the file to disk and return its sha256."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return self._hash.hexdigest()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._file.closed:
            self._file.close()


class LinesWriter(BytesWriter):
    """Writes a file of JSON lines; `count` is the number of lines."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        encoder = msgspec.json.Encoder()
        self._encode, self._encode_lines = encoder.encode, encoder.encode_lines
        self.count = 0

    def write(self, value: Any) -> None:
        self.write_bytes(self._encode(value) + b"\n")
        self.count += 1

    def write_all(self, values: Iterable[Any]) -> None:
        remaining = iter(values)
        while some := list(islice(remaining, _LINES_AT_ONCE)):
            self.write_bytes(self._encode_lines(some))
            self.count += len(some)

    def write_lines(self, lines: bytes) -> None:
        """Write encoded lines, each with its line end."""
        self.write_bytes(lines)
        self.count += lines.count(b"\n")


def sealed_file(phase: str, directory: Directory) -> Path:
    """The file that seals a phase other than events: one JSON line for each event."""
    return {"identities": directory.identities, "groups": directory.groups, "persons": directory.persons}[phase]


def read_lines(path: Path, kind: type[T]) -> Iterator[T]:
    """The values of a file of JSON lines, one at a time."""
    decode = msgspec.json.Decoder(kind).decode
    with path.open("rb") as file:
        for line in file:
            yield decode(line)


def digest_file(path: Path) -> str:
    """The sha256 of a file, as lower-case hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
