"""A small plan with something of every kind, and the golden report.json of it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import msgspec

from pipeline.identity.summary import Cluster, DecisionCount, MergeSummary, Partners
from pipeline.models import Dialect, Finding, Reject, SealedOptions
from pipeline.options import Limits
from pipeline.plan.sealed.directory import Directory, LinesWriter
from pipeline.plan.sealed.manifest import (
    EventCounts,
    Example,
    MappingSeal,
    PartSeal,
    PeopleSeal,
    Plan,
    ProfilesSeal,
    RowCounts,
    seal,
)
from pipeline.plan.zone import MonthEvidence
from pipeline.report.contents import Results
from pipeline.report.machine import write_report
from pipeline.report.results import ApplyResult, BatchCounts, SentCounts
from pipeline.verify.findings import CellCounts, FoundCounts, Verification

FOLDER = Path(__file__).resolve().parent
GOLDEN = FOLDER / "report.json"

REJECTS = [
    Reject("a.jsonl", 3, 240, "read", "bad_json", "Expecting value: line 1 column 44 (char 43)",
           '{"event": "Signup", "distinct_id": "u3", "email": oops, "plan": "gold"}'),
    Reject("b.csv", 2, 40, "validate", "missing_timestamp", "the row has no time; a missing time never becomes now",
           'Signup,u9,,"ada@example.com"'),
]  # fmt: skip

CELLS = [
    ("Order Placed", "2021-11-30", "mapped", 4),
    ("Order Placed", "2021-12-01", "mapped", 2),
    ("Order Placed", "2021-12-01", "duplicate_event", 1),
    ("Signup", "2021-11-07", "mapped", 1),
    ("Signup", "2022-01-02", "mapped", 3),
]

REHEARSAL = ApplyResult(
    digest="", dry_run=False, balanced=True, seconds=1.25, batches=BatchCounts(made=3, sent=3, retried=1, split=0),
    events=SentCounts(made=12, accepted=12),
)  # fmt: skip
VERIFICATION = Verification(
    cells=CellCounts(match=4), events=FoundCounts(expected=12, found=12, missing=0, extra=0), proved=True
)

PEOPLE = PeopleSeal(
    identities=MergeSummary(
        2, 3, 1, [DecisionCount("merge", "stated", 2), DecisionCount("refused", "junk_id", 1)],
        [Cluster("u1", 3, ["d1", "d2"])], [], [Partners("u1", 2, 5)],
    ),
    profiles=ProfilesSeal(3, 1, 9, 1, 10, {"$browser": 4}),
)  # fmt: skip


def part(path: str, rows: tuple[int, int, int, int], form: str = "jsonl", **more: Any) -> PartSeal:
    """One part of the plan; `rows` are the numbers read, mapped, skipped and rejected."""
    given = {
        "path": path, "bytes": 100 * rows[0], "digest": path[0] * 64, "rows": rows[0], "mapped": rows[1],
        "skipped": rows[2], "rejected": rows[3], "format": form, "codecs": (), "dialect": Dialect(),
        "file": f"/elsewhere/{path}", "member": "", "mtime_ns": 1,
    }  # fmt: skip
    return PartSeal(**{**given, **more})


def small_plan(**changes: Any) -> Plan:
    """A sealed plan of two parts; `changes` replace fields of it."""
    header = ("event", "distinct_id", "timestamp", "email")
    given: dict[str, Any] = {
        "verdict": "not-ready",
        "tool": "mixpanel",
        "zone": "America/New_York",
        "first": "2021-11-07T05:39:33Z",
        "last": "2022-01-02T23:00:00Z",
        "rows": RowCounts(14, 10, 2, 2),
        "events": EventCounts(12, {"identities": 2, "groups": 0, "events": 10, "persons": 0}),
        "parts": [
            part("a.jsonl", (12, 9, 2, 1), codecs=("gzip",)),
            part("b.csv", (2, 1, 0, 1), "csv", dialect=Dialect(header=header)),
        ],
        "skips": {"duplicate_event": 1, "campaign_event": 1},
        "rejects": {"bad_json": 1, "missing_timestamp": 1},
        "warnings": {"unsafe_integer": 3},
        "examples": {"unsafe_integer": Example("a.jsonl", 5, 512, "9007199254740993 is beyond 2^53")},
        "gates": [
            Finding("max_rejects", "stop", "2 of 14 rows (14.29%) rejected (limit 0)"),
            Finding("merge_approval", "open", "2 merges to approve by number: they cannot be undone", 2),
        ],
        "names": {"Order Placed": 6, "Signup": 4},
        "zone_evidence": [MonthEvidence("2021-11", -18000, 5, 6, (-18000, -14400), True)],
        "mapping": MappingSeal("mixpanel", "d" * 64, "format: backcast.mapping/1\ntool: mixpanel\n"),
        "options": SealedOptions(
            as_of=1_700_000_000_000_000, zones=(("America/New_York", ""),), settings={"source": "web"}
        ),
        "limits": Limits(),
        "target": "us",
        "version": "0.1.0",
        "libraries": {"msgspec": "1", "tzdata": "2", "pyarrow": "3"},
        "blocks": 2,
        "event_bytes": 4_321,
        "files": {"cells.jsonl": "c" * 64, "rejects.jsonl": "e" * 64},
        "requests": "f" * 64,
        "people": PEOPLE,
        "notices": [("ignored_file", "_SUCCESS", "a marker that writers leave next to an export")],
    }
    return seal(Plan(**{**given, **changes}))


def plan_directory(path: Path, cells: Any = CELLS, rejects: Any = REJECTS) -> Directory:
    """A plan directory with its cells and rejects."""
    path.mkdir(parents=True, exist_ok=True)
    directory = Directory(path)
    with LinesWriter(directory.cells) as writer:
        for event, day, outcome, count in cells:
            writer.write({"event": event, "day": day, "outcome": outcome, "count": count})
        writer.close()
    with LinesWriter(directory.rejects) as writer:
        writer.write_all(rejects)
        writer.close()
    return directory


def golden_report() -> bytes:
    """report.json of the small plan, rehearsed and verified."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = plan_directory(Path(scratch) / "small")
        plan = small_plan()
        rehearsal = msgspec.structs.replace(REHEARSAL, digest=plan.digest)
        write_report(directory, plan, Results(rehearsal, VERIFICATION))
        return directory.report_json.read_bytes()


def regenerate() -> None:
    """Write the golden file again, to be read as a diff."""
    GOLDEN.write_bytes(golden_report())
