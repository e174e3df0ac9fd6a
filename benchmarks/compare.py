"""Measure backcast and its peers, in turn and in one run, and print the ratios.

    python benchmarks/compare.py                       all inputs, one round: about eight minutes
    python benchmarks/compare.py --only csv --repeat 3
    python benchmarks/compare.py --memory              peak memory at one and at ten times the input
    python benchmarks/compare.py --mappings            every shipped mapping compared with Mixpanel's, by bytes
    python benchmarks/compare.py --against OTHER       two versions: OTHER is the `backcast` command of another one
    python benchmarks/compare.py --json                the numbers as JSON on stdout, the table on stderr

A round runs backcast's plan and apply and each peer one after the other, so that what else the machine does
hits them alike; a ratio is taken within its round, and the middle of the rounds is shown. Years of history are
millions of events, so backcast gets a million; its rates are of the whole command, from interpreter start to exit,
its ledger on. The peers, whose rates do not depend on how many, get fewer, and theirs leave their start and imports
out, which favours them. Deliveries are counted in a pass of its own, since counting is not free.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import generate, mappings, measure

PEERS = {
    "posthog": "posthog-python",
    "posthog-tuned": "posthog-python tuned",
    "pandas": "pandas + requests",
    "pandas-rows": "the same, stdlib times",
    "pandas-columns": "pandas, column-wise",
    "pandas-dicts": "pandas only reads",
}
ROOM = "  "
COLUMNS = [f"{name}={name}" for name in ("event", "distinct_id", "timestamp", "uuid")]
TABLE = ["-m", "generic", *(word for column in COLUMNS for word in ("--set", column))]
MAPPINGS = {
    "jsonl": ["-m", "mixpanel", "--timezone", "UTC"],
    "gz": ["-m", "mixpanel", "--timezone", "UTC"],
    "amplitude": ["-m", "amplitude"],
    "csv": TABLE,
    "parquet": TABLE,
}
FLAT = "jsonl"
"""The input with which the others are compared by bytes."""
KEY = {"BACKCAST_PROJECT_KEY": "phc_test_bench"}
PROVED_EVENTS = 12_000
Result = dict[str, Any]


@dataclass(slots=True)
class Bench:
    """Paths and options."""

    work: Path
    backcast: str | None
    peer_python: str | None
    events: int
    peer_events: int
    against: str | None = None
    besides: int = 0
    files: dict[tuple[str, int], Path] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    """By input, the bytes of the rows that backcast reads, uncompressed."""
    written: dict[str, int] = field(default_factory=dict)
    """By input, the bytes of the events made from them."""

    def file(self, kind: str, events: int) -> Path:
        """The generated input, written once."""
        if (kind, events) not in self.files:
            folder = self.work / f"{kind}-{events}"
            folder.mkdir()
            say(f"writing {events:,} events: {generate.KINDS[kind]}")
            self.files[kind, events] = generate.generate(kind, events, folder)
        return self.files[kind, events]

    def forget(self, kind: str) -> None:
        """Remove the inputs of one kind."""
        for key in [key for key in self.files if key[0] == kind]:
            shutil.rmtree(self.files.pop(key).parent)

    def plan_and_apply(
        self, kind: str, events: int, to: measure.Sink, *, fine: bool = False, command: str | None = None
    ) -> dict[str, Result]:
        """One plan and one apply of our command, or of another version's, each measured as a whole command."""
        command = command or self.backcast
        assert command is not None
        path, plan = self.file(kind, events), self.work / "plan"
        shutil.rmtree(plan, ignore_errors=True)
        common = [command]
        planned = measure.run(
            [*common, "plan", str(path), *MAPPINGS[kind], "-o", str(plan), "--quiet"], KEY, (to.pid,), fine=fine
        )
        self.written[kind] = json.loads((plan / "plan.json").read_bytes())["event_bytes"]
        applied = measure.run(
            [*common, "apply", str(plan), "--to", to.url, "--json", "--quiet"], KEY, (to.pid,), fine=fine
        )
        phases = {name: told["accepted"] for name, told in json.loads(applied.stdout)["phases"].items()}
        shutil.rmtree(plan)
        if phases["events"] != events:
            raise measure.Failed(f"backcast settled {phases['events']:,} of {events:,} events of {kind}")
        # Merges and profiles, which the peers do not send, take time but are not counted.
        self.besides = sum(phases.values()) - events
        return {"plan": summary(planned, events), "apply": summary(applied, events)}

    def peer(self, name: str, kind: str, events: int, to: measure.Sink) -> Result:
        """One run of a peer; its rate excludes its start and imports."""
        assert self.peer_python is not None
        script = str(Path(__file__).with_name("peers.py"))
        done = measure.run(
            [self.peer_python, script, name, kind, str(self.file(kind, events)), to.url], None, (to.pid,)
        )
        told = json.loads(done.stdout.splitlines()[-1])
        if told["events"] != events:
            raise measure.Failed(f"{name} sent {told['events']:,} of {events:,} events of {kind}")
        return summary(done, events) | {"rate": events / told["seconds"]}


def summary(done: measure.Measure, events: int) -> Result:
    """One run in the numbers that are compared; `rate` and `whole_rate` are events a second."""
    return {
        "rate": events / done.seconds,
        "whole_rate": events / done.seconds,
        "seconds": done.seconds,
        "cpu_us": done.cpu_seconds / events * 1e6,
        "peak_mb": done.peak_mb,
        "foreign": done.foreign,
    }


def prove(bench: Bench, kind: str) -> dict[str, Result]:
    """An untimed pass against a sink that opens each body: every contender delivers every event once."""
    found = {}
    contenders = (["backcast"] if bench.backcast else []) + (list(PEERS) if bench.peer_python else [])
    for name in contenders:
        sent = PROVED_EVENTS
        with measure.sink(open_bodies=True) as to:
            if name == "backcast":
                bench.plan_and_apply(kind, PROVED_EVENTS, to)
                sent += bench.besides
            else:
                bench.peer(name, kind, PROVED_EVENTS, to)
            counts = to.counts()
        if (counts["events"], counts["uuids"]) != (sent, sent):
            raise measure.Failed(f"{name} delivered {counts} of {PROVED_EVENTS:,} events of {kind}")
        found[name] = counts
    return found


def rounds(bench: Bench, kind: str, repeat: int) -> list[dict[str, Result]]:
    """That many rounds, each contender once in a round, in turn."""
    if bench.backcast:
        bench.bytes[kind] = generate.row_bytes(kind, bench.file(kind, bench.events))
    if bench.peer_python:
        bench.file(kind, bench.peer_events)
    made = []
    with measure.sink() as to:
        for number in range(repeat):
            one: dict[str, Result] = {}
            if bench.backcast and not (bench.against and number % 2 == 0):
                one |= bench.plan_and_apply(kind, bench.events, to)
            if bench.against:
                # Every other round begins with the other version, so that neither always has the warmer machine.
                other = bench.plan_and_apply(kind, bench.events, to, command=bench.against)
                if number % 2 == 0 and bench.backcast:
                    one = bench.plan_and_apply(kind, bench.events, to)
                one |= {f"{name} before": result for name, result in other.items()}
            if bench.peer_python:
                one |= {name: bench.peer(name, kind, bench.peer_events, to) for name in PEERS}
            say(f"{kind} round {number + 1}: " + ", ".join(f"{n} {r['rate']:,.0f}/s" for n, r in one.items()))
            made.append(one)
    return made


def middle(made: list[dict[str, Result]]) -> dict[str, Result]:
    """Per contender the median of each number over the rounds, and of its ratios within each round."""
    found: dict[str, Result] = {}
    for name in made[0]:
        found[name] = {key: statistics.median(one[name][key] for one in made) for key in made[0][name]}
        found[name]["peak_mb"] = max(one[name]["peak_mb"] for one in made)
        found[name]["foreign"] = max(one[name]["foreign"] for one in made)
        for other in ("posthog", "pandas", "apply"):
            if other in made[0]:
                ratios = [one[name]["rate"] / one[other]["rate"] for one in made]
                found[name][f"to_{other}"] = statistics.median(ratios)
        if (before := f"{name} before") in made[0]:
            for key in ("rate", "cpu_us", "peak_mb"):
                ratios = [one[name][key] / one[before][key] for one in made]
                found[name][f"{key}_to_before"] = statistics.median(ratios)
    return found


def compare_bytes(
    results: dict[str, dict[str, Result]], made: dict[str, list[dict[str, Result]]], bench: Bench
) -> None:
    """Add to plan and apply of each input how many bytes a CPU second reads and writes, compared with flat JSON lines:
    above 1 is faster. The least time of the rounds counts, so that other work of the machine hardly matters."""
    for name in ("plan", "apply"):
        seconds = {kind: min(one[name]["cpu_us"] for one in each) for kind, each in made.items() if name in each[0]}
        for key, counted in (("read", bench.bytes), ("written", bench.written)):
            for kind in seconds:
                results[kind][name][f"bytes_{key}"] = counted[kind]
                if FLAT in seconds:
                    pace = counted[kind] / seconds[kind] * seconds[FLAT] / counted[FLAT]
                    results[kind][name][f"to_jsonl_by_bytes_{key}"] = pace


def table(results: dict[str, dict[str, Result]]) -> str:
    """The numbers as a table; ratios are of rates, to posthog-python with default settings and to pandas."""
    head = [
        "input",
        "what",
        "events/s",
        "x posthog",
        "x pandas",
        "x apply",
        "x jsonl by bytes read",
        "by bytes written",
        "CPU us/event",
        "peak MB",
        "foreign CPU",
    ]
    lines = [head]
    names = {"plan": "backcast plan", "apply": "backcast apply", **PEERS}
    names |= {f"{name} before": f"{names[name]} of --against" for name in ("plan", "apply")}
    for kind, contenders in results.items():
        for name, r in contenders.items():
            ratios = [f"{r[key]:.1f}" if key in r else "" for key in ("to_posthog", "to_pandas")]
            ratios.append(f"{r['to_apply']:.2f}" if "to_apply" in r and name == "plan" else "")
            for key in ("to_jsonl_by_bytes_read", "to_jsonl_by_bytes_written"):
                ratios.append(f"{r[key]:.2f}" if key in r else "")
            rest = [f"{r['cpu_us']:.1f}", f"{r['peak_mb']:.0f}", f"{r['foreign']:.0%}"]
            lines.append([kind, names[name], f"{r['rate']:,.0f}", *ratios, *rest])
    return aligned(lines) + versions(results)


def versions(results: dict[str, dict[str, Result]]) -> str:
    """How this version compares with the other one: above 1 is faster, dearer and larger."""
    head = ["input", "what", "events/s", "CPU us/event", "peak MB"]
    lines = [
        [kind, name, *(f"{r[f'{key}_to_before']:.2f}" for key in ("rate", "cpu_us", "peak_mb"))]
        for kind, contenders in results.items()
        for name, r in contenders.items()
        if "rate_to_before" in r
    ]
    return (
        f"\n\nThis version divided by the other, the median of the rounds:\n{aligned([head, *lines])}" if lines else ""
    )


def aligned(lines: list[list[str]]) -> str:
    """Columns of equal width, the first two to the left."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        ROOM.join(
            cell.ljust(w) if n < 2 else cell.rjust(w) for n, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def memory(bench: Bench, kinds: list[str]) -> dict[str, Result]:
    """Peak memory of plan and apply at `events` and at ten times as many."""
    found: dict[str, Result] = {}
    for kind in kinds:
        for times in (1, 10):
            with measure.sink() as to:
                for name, r in bench.plan_and_apply(kind, bench.events * times, to, fine=True).items():
                    found.setdefault(kind, {})[f"{name} x{times}"] = round(r["peak_mb"], 1)
            bench.forget(kind)
        say(f"{kind}: {found[kind]}")
    return found


def help_seconds(backcast: str) -> float:
    """The median time of seven `backcast --help`."""
    return statistics.median(measure.run([backcast, "--help"]).seconds for _ in range(7))


def say(sentence: str) -> None:
    """Progress, for a person."""
    print(sentence, file=sys.stderr, flush=True)


def main() -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, help="rows for backcast (default 1,000,000; 100,000 with --memory)")
    parser.add_argument("--peer-events", type=int, default=30_000, help="rows for each peer (default 30,000)")
    parser.add_argument("--repeat", type=int, default=1, help="rounds (default 1)")
    parser.add_argument("--only", action="append", choices=generate.KINDS, help="one input; may be repeated")
    parser.add_argument("--memory", action="store_true", help="compare peak memory at one and ten times the input")
    parser.add_argument("--mappings", action="store_true", help="measure every shipped mapping and Mixpanel's")
    parser.add_argument("--sample", action="append", default=[], help="with --mappings: one sample; may be repeated")
    parser.add_argument("--megabytes", type=int, default=16, help="with --mappings: of each export (default 16)")
    parser.add_argument("--json", action="store_true", help="the numbers as JSON on stdout")
    parser.add_argument("--backcast", default=str(Path(sys.executable).with_name("backcast")), help="our command")
    parser.add_argument("--against", help="another version's command, measured in the same rounds")
    parser.add_argument("--peer-python", help="the interpreter of the peers' environment; none: no peers")
    parser.add_argument("--folder", type=Path, help="where inputs and plans go for the time being")
    asked = parser.parse_args()

    kinds = asked.only or list(generate.KINDS)
    events = asked.events or (100_000 if asked.memory else 1_000_000)
    backcast = asked.backcast if os.access(asked.backcast, os.X_OK) else None
    if backcast is None:
        say(f"{asked.backcast} is not there: only the peers are measured")
    report: Result = {"format": "backcast.bench/1", "cores": os.cpu_count(), "python": sys.version.split()[0]}
    with tempfile.TemporaryDirectory(prefix="backcast-bench-", dir=asked.folder) as work:
        # The installed version is measured: compiled, whatever this environment says, and not into the repository.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(work) / "bytecode")
        bench = Bench(Path(work), backcast, asked.peer_python, events, asked.peer_events, asked.against)
        if asked.mappings and backcast:
            size = asked.megabytes * 1_000_000
            report["mappings"] = mappings.rounds(backcast, size, asked.repeat, asked.sample, Path(work), say)
            text = aligned(mappings.table(report["mappings"]))
        elif asked.memory:
            report["memory_mb"] = memory(bench, kinds)
            words = [["input", "", *next(iter(report["memory_mb"].values()))]]
            words += [[kind, "peak MB", *map(str, r.values())] for kind, r in report["memory_mb"].items()]
            text = aligned(words)
        else:
            report |= {
                "events": events,
                "peer_events": asked.peer_events,
                "inputs": {},
                "proved": {},
                "rounds": {},
            }
            for kind in kinds:
                report["proved"][kind] = prove(bench, kind)
                report["rounds"][kind] = rounds(bench, kind, asked.repeat)
                report["inputs"][kind] = middle(report["rounds"][kind])
                bench.forget(kind)
            compare_bytes(report["inputs"], report["rounds"], bench)
            text = table(report["inputs"])
        if backcast:
            report["help_seconds"] = help_seconds(backcast)
            text += f"\n\nbackcast --help: {report['help_seconds']:.3f} s"
    print(text, file=sys.stderr if asked.json else sys.stdout)
    if asked.json:
        print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
