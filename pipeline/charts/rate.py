"""Events over the seconds to days that sending them took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime

from pipeline.charts import at, picture, short
from pipeline.charts.timeline import Reading, TableRow, Tick, Timeline, bars_of
from pipeline.text import pluralize

MOST_BARS = 240
_UNITS = {
    1: "second", 10: "10 seconds", 60: "minute", 600: "10 minutes", 3_600: "hour", 21_600: "6 hours", 86_400: "day",
}  # fmt: skip
_GROUPS = 60
_TICKS = 8
_LEAST_BARS = 20


def rate(settled: Mapping[int, int], failed: Mapping[int, int]) -> Timeline | None:
    """The picture of events that were accepted, and of requests that failed, by second since 1970; None without any.

    A bar of another colour has failed requests.
    """
    seconds = settled.keys() | failed.keys()
    if not seconds:
        return None
    span = max(seconds) - min(seconds) + 1
    size = next((size for size in _UNITS if span <= size * MOST_BARS), 86_400)
    first, last = min(seconds) // size, max(seconds) // size
    events, failures = _grouped(settled, size), _grouped(failed, size)
    count = last - first + 1
    width = max(count, _LEAST_BARS)
    top = max([1, *events.values()])
    shapes: dict[bool, list[str]] = {False: [], True: []}
    for bar in sorted(events.keys() | failures.keys()):
        height = max(0.8, 100 * events[bar] / top)
        shapes[failures[bar] > 0].append(f"M{bar - first} 100v-{short(height)}h.9V100z")
    title = f"Accepted events per {_UNITS[size]}"
    sums = pluralize(sum(events.values()), "event"), pluralize(sum(failures.values()), "request")
    dates = f"From {_instant(first * size)} to {_instant((last + 1) * size)} UTC"
    description = f"{dates}: {sums[0]} accepted, {sums[1]} failed."
    svg = picture("timeline", f"0 0 {width} 100", (title, description), bars_of(width, shapes))
    readings, rows = [], []
    for bar in range(first, last + 1):
        text = f"{events[bar]:,}" + (f", {pluralize(failures[bar], 'failed request')}" if failures[bar] else "")
        name = _instant(bar * size)
        readings.append(Reading(f"{name}: {text}", str((bar - first) // _GROUPS), "", ""))
        if events[bar] or failures[bar]:
            rows.append(TableRow(name, [], events[bar], "", ""))
    step = -(-width // _TICKS)
    ticks = []
    for number in range(0, count, step):
        text = _instant((first + number) * size)
        ticks.append(Tick(at(100 * number / width), text[5:16] if size > 600 else text[11:], bool(number // step % 2)))
    filled = at(100 * count / width)
    return Timeline("rate", _UNITS[size], "events", svg, top, ticks, [], 0, readings, filled, [], rows)


def _grouped(counts: Mapping[int, int], size: int) -> Counter[int]:
    grouped: Counter[int] = Counter()
    for second, count in counts.items():
        grouped[second // size] += count
    return grouped


def _instant(second: int) -> str:
    """`2021-03-01 12:00:05`, in UTC."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%d %H:%M:%S")
