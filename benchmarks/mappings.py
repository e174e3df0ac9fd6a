"""Measure every shipped mapping by the bytes it plans, compared with Mixpanel's: what `compare.py --mappings` prints.

    python benchmarks/mappings.py PLAN     the CPU seconds of the transform alone over a plan

A round plans each sample's large export (benchmarks/samples.py) once, each in a process of its own with one worker.
Numbers are CPU seconds, of the rounds the least, so that what else the machine does hardly matters.

The ratio that counts is that of the bytes read. If a row of a few bytes becomes a whole event, as CleverTap's cells do,
or several, as each of Plausible's roll-ups does, most of the time is that of writing events, and the fair measure is
the ratio of the bytes written, which is next to it.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import measure

BESIDE = "mixpanel"
AS_OF = "2026-01-01T00:00:00Z"
HEAD = (
    "mapping", "sample", "MB", "events", "plan MB/s", "to Mixpanel", "written MB/s", "to Mixpanel",
    "transform MB/s", "to Mixpanel", "us/row",
)  # fmt: skip
RATES = (("plan", "bytes", "plan"), ("written", "event_bytes", "plan"), ("transform", "bytes", "transform"))
"""The rates: their names, the bytes and the seconds in them."""
Result = dict[str, Any]


def rounds(
    command: str, size: int, repeat: int, only: list[str], work: Path, say: Callable[[str], None]
) -> dict[str, Result]:
    """By sample: its mapping, bytes, rows and events, and the least CPU seconds of `plan` and of the transform; rates
    by the bytes read, and of `plan` also by the bytes of its events, with their ratios to Mixpanel's."""
    from benchmarks import samples

    exports = {}
    for name in samples.names():
        if not only or name in only or name == BESIDE:
            say(f"writing {name}")
            exports[name] = samples.export(name, size, work / name)
    found: dict[str, Result] = {}
    place = work / "plan"
    for number in range(repeat):
        for name, export in exports.items():
            words = [command, "plan", *map(str, export.files), *export.words, "--workers", "1", "--as-of", AS_OF]
            words += ["-o", str(place), "--quiet", "--json", "--allow-recent", "--allow-key-conflicts"]
            done = measure.run(words, codes=(0, 4))
            told = json.loads(done.stdout)
            events = json.loads((place / "plan.json").read_bytes())["event_bytes"]
            alone = measure.run([str(Path(command).with_name("python")), __file__, str(place)])
            shutil.rmtree(place)
            one = found.setdefault(
                name, {"mapping": export.mapping, "bytes": export.bytes, "rows": told["rows"]["read"]}
            )
            one["events"], one["event_bytes"] = told["events"]["phases"]["events"], events
            one["plan"] = min(one.get("plan", done.cpu_seconds), done.cpu_seconds)
            one["transform"] = min(one.get("transform", float(alone.stdout)), float(alone.stdout))
        say(f"round {number + 1} of {repeat}")
    for one in found.values():
        for what, counted, seconds in RATES:
            one[f"{what}_mb"] = one[counted] / one[seconds] / 1e6
            beside = found[BESIDE]
            one[f"{what}_ratio"] = one[f"{what}_mb"] / (beside[counted] / beside[seconds] / 1e6)
    if not only:
        for mapping in samples.without_sample({one["mapping"] for one in found.values()}):
            say(f"{mapping}: no sample")
    return found


def table(found: dict[str, Result]) -> list[list[str]]:
    """The lines of the table, the slowest first."""
    lines = [list(HEAD)]
    for name, one in sorted(found.items(), key=lambda item: item[1]["plan_ratio"]):
        rates = [
            f"{one[f'{what}_{key}']:.{digits}f}" for what, _, _ in RATES for key, digits in (("mb", 1), ("ratio", 2))
        ]
        per_row = f"{one['transform'] / one['rows'] * 1e6:.1f}"
        lines.append([one["mapping"], name, f"{one['bytes'] / 1e6:.1f}", f"{one['events']:,}", *rates, per_row])
    return lines


def transform_seconds(place: Path) -> float:
    """The CPU seconds in which this process reads, maps, checks and encodes the blocks of a plan."""
    from pipeline.extractors import blocks
    from pipeline.plan.sealed.freshness import open_plan
    from pipeline.transform.block import BlockTransformer, observe_block
    from pipeline.transform.tasks import Task
    from tests.support.plan_config import config_of

    plan, directory = open_plan(place)
    config = config_of(plan, directory)
    transformer = BlockTransformer(config)
    begin = time.process_time()
    every = chain.from_iterable(map(blocks, config.parts))
    for number, block in enumerate(every):
        observe_block(transformer, Task(number, block))
    return time.process_time() - begin


if __name__ == "__main__":
    print(transform_seconds(Path(sys.argv[1])))
