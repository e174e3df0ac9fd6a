"""Whether two versions of backcast plan and send the same: all samples, and many generated rows of each tool.

    python benchmarks/same_bytes.py --against OTHER                  OTHER is the `backcast` command of another version
    python benchmarks/same_bytes.py --against OTHER --rows 200000

Both versions plan the same inputs for the same instant and send them to a sink that keeps every request. Compared are
what `plan --json` prints (paths and digests of the plan itself aside), the exit codes, what `rejects` lists, and the
multiset of the events, byte for byte; requests may be cut otherwise. The exit code is 1 if anything differs, and the
folder with both versions' plans and bodies is kept.

Half of the rows are those of the samples with ids of their own, so that they are sent; the other half are mutated in
their bytes, tokens, names and numbers (as in the differential test of the native part), so that rejected and odd rows
are compared too. Beside them are rows as benchmarks/generate.py writes them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import generate, measure  # noqa: E402
from tests.support.mutations import Mutator, sample_rows  # noqa: E402

SAMPLES = ROOT / "sample_data"
AS_OF = "2026-01-01T00:00:00Z"
TABLE = [word for name in ("event", "distinct_id", "timestamp") for word in ("--set", f"{name}={name}")]
UUID = ["--set", "uuid=uuid"]
FILE_ROWS = 20_000
ID = re.compile(rb'(?<=")([0-9A-Za-z-]*)[0-9a-f]{6}(?=")')
"""The end of an id, in hexadecimal digits."""
ALIKE = ("plan", "digest", "seconds", "version")
"""What `plan --json` says about the plan itself and not about the export; everything else has to be equal."""
SAMPLE_INPUTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "mixpanel": (("mixpanel",), ("-m", "mixpanel", "--timezone", "America/New_York")),
    "mixpanel people": (
        ("mixpanel", "mixpanel-people"),
        ("-m", "mixpanel", "--timezone", "America/New_York", "--set", "groups=company"),
    ),
    "mixpanel promoted": (
        ("mixpanel",),
        (
            "-m",
            "mixpanel",
            "--timezone",
            "America/New_York",
            "--promoted-properties",
            "final",
            "--persons",
            "identified",
        ),
    ),
    "amplitude": (("amplitude",), ("-m", "amplitude")),
    "amplitude posthog": (("amplitude",), ("-m", "amplitude", "--dialect", "posthog")),
    "posthog": (("posthog",), ("-m", "posthog")),
    "posthog persons": (("posthog", "posthog-persons"), ("-m", "posthog", "--profile-policy", "overwrite")),
    "csv": (("generic/orders.csv",), ("-m", "generic", *TABLE, *UUID)),
    "parquet": (("generic/orders.parquet",), ("-m", "generic", *TABLE, *UUID)),
    "segment": (("segment/archive",), ("-m", "segment")),
    "segment warehouse": (("segment/warehouse",), ("-m", "segment-warehouse")),
    "rudderstack": (("rudderstack/storage",), ("-m", "rudderstack")),
    "rudderstack staging": (("rudderstack/staging",), ("-m", "rudderstack-warehouse")),
    "rudderstack lake": (("rudderstack/lake",), ("-m", "rudderstack-warehouse")),
    "rejects": (("rejects/broken.jsonl", "rejects/broken.csv"), ("-m", "generic", *TABLE, "--max-rejects", "100%")),
}
GENERATED = {
    "jsonl": ("-m", "mixpanel", "--timezone", "UTC"),
    "amplitude": ("-m", "amplitude"),
    "csv": ("-m", "generic", *TABLE, *UUID),
    "parquet": ("-m", "generic", *TABLE, *UUID),
}
MUTATED = {
    "mixpanel": ("-m", "mixpanel", "--timezone", "America/New_York", "--set", "groups=company"),
    "amplitude": ("-m", "amplitude"),
    "segment": ("-m", "segment"),
    "rudderstack": ("-m", "rudderstack"),
    "posthog": ("-m", "posthog"),
    "generic": ("-m", "generic", *TABLE),
}
ANYTHING = ("--max-rejects", "100%", "--allow-recent", "--allow-key-conflicts")
KEY = {"BACKCAST_PROJECT_KEY": "phc_test_bench"}


class Body(msgspec.Struct):
    """A request."""

    batch: list[msgspec.Raw]


@dataclass(frozen=True, slots=True)
class Sent:
    """The result of one version for an input."""

    codes: tuple[int, int, int]
    plan: dict[str, Any]
    rejects: bytes
    events: Counter[bytes]


def send(command: str, sources: list[str], words: tuple[str, ...], folder: Path) -> Sent:
    """Plan an input, send it to a sink, list its rejects; everything that can be compared."""
    plan, bodies = folder / "plan", folder / "bodies"
    bodies.mkdir(parents=True)
    planned = _run(command, "plan", *sources, *words, *ANYTHING, "--as-of", AS_OF, "-o", str(plan), "--json", "--quiet")
    told = json.loads(planned.stdout or b"{}")
    with measure.sink(keep=bodies) as to:
        merges = told.get("events", {}).get("phases", {}).get("identities", 0)
        applied = _run(command, "apply", str(plan), "--to", to.url, "--quiet", "--yes", "--approve-merges", str(merges))
    rejected = _run(command, "rejects", str(plan), "--format", "jsonl")
    return Sent(
        (planned.returncode, applied.returncode, rejected.returncode),
        {name: value for name, value in told.items() if name not in ALIKE},
        rejected.stdout,
        events_in(bodies),
    )


def events_in(bodies: Path) -> Counter[bytes]:
    """How often each event is in these request bodies, by its digest."""
    found: Counter[bytes] = Counter()
    for path in bodies.iterdir():
        batch = msgspec.json.decode(path.read_bytes(), type=Body).batch
        found.update(hashlib.sha256(event).digest() for event in batch)
    return found


def _run(*command: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, capture_output=True, check=False, env={**os.environ, **KEY}, cwd=ROOT)


def differences(one: Sent, other: Sent) -> list[str]:
    """How two versions differ for one input, a sentence each."""
    found = []
    if one.codes != other.codes:
        found.append(f"exit codes of plan, apply and rejects: {one.codes} and {other.codes}")
    found += [
        f"plan --json, {name}: {json.dumps(one.plan.get(name))[:300]} and {json.dumps(other.plan.get(name))[:300]}"
        for name in sorted({*one.plan, *other.plan})
        if one.plan.get(name) != other.plan.get(name)
    ]
    if one.rejects != other.rejects:
        found.append("the rejected rows")
    if one.events != other.events:
        only = sum((one.events - other.events).values()), sum((other.events - one.events).values())
        found.append(f"events: {only[0]} only here, {only[1]} only there, of {sum(one.events.values())}")
    return found


def mutated(tool: str, rows: int, folder: Path) -> Path:
    """An export of this many rows: in turn one of the samples' with its own ids, and a mutated one."""
    base = sample_rows({"generic": "rejects"}.get(tool, tool))
    where = folder / tool
    where.mkdir()
    for number in range(-(-rows // FILE_ROWS)):
        count = min(FILE_ROWS, rows - number * FILE_ROWS)
        odd = iter(Mutator(number).rows(base, count))
        written = [
            next(odd) if index % 2 else _with_own_ids(base[index // 2 % len(base)], number * FILE_ROWS + index)
            for index in range(count)
        ]
        (where / f"{number:04}.jsonl").write_bytes(b"\n".join(written) + b"\n")
    return where


def _with_own_ids(row: bytes, number: int) -> bytes:
    """The row with other digits at the end of each id; a few rows in a row keep theirs, as one visitor's do."""
    return ID.sub(lambda found: found.group(1) + b"%06x" % (number // 5 % 0xFFFFFF), row)


def main() -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backcast", default=str(Path(sys.executable).with_name("backcast")), help="our command")
    parser.add_argument("--against", required=True, help="the other version's command")
    parser.add_argument("--rows", type=int, default=20_000, help="generated rows of each kind (default 20,000)")
    parser.add_argument("--only", action="append", help="one input; may be repeated")
    asked = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="backcast-same-bytes-"))
    inputs: dict[str, tuple[list[str], tuple[str, ...]]] = {
        f"sample: {name}": ([str(SAMPLES / source) for source in sources], words)
        for name, (sources, words) in SAMPLE_INPUTS.items()
    }
    for kind, words in GENERATED.items():
        inputs[f"generated: {kind}"] = ([kind], words)
    for tool, words in MUTATED.items():
        inputs[f"mutated: {tool}"] = ([tool], words)
    wrong = 0
    for name, (sources, words) in inputs.items():
        if asked.only and name not in asked.only:
            continue
        folder = work / name.replace(": ", "-").replace(" ", "-")
        folder.mkdir()
        if name.startswith("generated"):
            sources = [str(generate.generate(sources[0], asked.rows, folder))]
        elif name.startswith("mutated"):
            sources = [str(mutated(sources[0], asked.rows, folder))]
        here, there = (
            send(command, sources, words, folder / side)
            for side, command in (("here", asked.backcast), ("there", asked.against))
        )
        found = differences(here, there)
        counts = here.plan.get("rows", {})
        print(
            f"{name}: {counts.get('read', 0):,} rows, {counts.get('mapped', 0):,} mapped, "
            f"{counts.get('rejected', 0):,} rejected, {sum(here.events.values()):,} events, exit {here.codes}: "
            + ("; ".join(found) if found else "the same"),
            flush=True,
        )
        wrong += bool(found)
        if not found:
            shutil.rmtree(folder)
    if not wrong:
        shutil.rmtree(work)
    print(f"{wrong} of {len(inputs)} inputs differ" + (f"; see {work}" if wrong else ""))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
