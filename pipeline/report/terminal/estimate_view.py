"""An estimate on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from pipeline.plan.estimate import Estimate
from pipeline.report.terminal.tables import table, text
from pipeline.text import pluralize


def show_estimate(console: Console, found: Estimate) -> None:
    """The totals, the hours, the limit that binds first, and what the estimate rests on."""
    first = found.limits[0]
    console.print(
        Text(f"About {found.events:,} events in {pluralize(found.files, 'file')}: {_time(found.apply_hours)} to send.",
             style="bold")
    )  # fmt: skip
    shown = table("estimate", "of the whole export")
    for name, value in (
        ("stored", _size(found.bytes)),
        ("rows", f"{found.rows:,}"),
        ("events", f"{found.events:,}, before duplicates are left out; merges and profiles come on top"),
        ("requests", f"{found.requests:,}, {_size(found.json_bytes)} of JSON, {_size(found.sent_bytes)} gzipped"),
        (
            "plan",
            f"{_time(found.plan_hours)} with {pluralize(found.workers, 'worker')}, {found.plan_cpu:,.0f} s of CPU",
        ),
        ("apply", "; ".join(f"{_time(limit.hours)} by {limit.detail}" for limit in found.limits)),
        ("network", f"{_size(found.sent_bytes / max(found.apply_hours * 3_600, 1e-9))} a second at that pace"),
        _keeping_up(found),
    ):
        shown.add_row(name, text(value, 400))
    console.print(shown)
    console.print(Text(f"Binds first: {first.detail}."))
    console.print(
        text(
            f"From {pluralize(found.sampled.rows, 'row')} of {pluralize(found.sampled.files, 'file')}"
            f" ({_size(found.sampled.bytes)}), read in {found.sampled.seconds:,.0f} s. The sampled files differ by"
            f" {found.spread:.0%} in events for each byte. The answer time of the service is not known.",
            600,
        )
    )


def _keeping_up(found: Estimate) -> tuple[str, str]:
    """How many machines, or workers of a cluster, the rate needs; and how many this machine can receive from."""
    if found.engine == "local":
        return "machines", f"{found.machines:,} like this one" + (" keep up with that rate" if found.rate else "")
    of_use = min(found.plan_cpu / (found.plan_parent or 1e-9), found.apply_cpu / (found.apply_parent or 1e-9))
    rate = f"{found.workers_needed:,} for that rate; " if found.rate else ""
    return "workers", f"{rate}this machine keeps up with at most {max(1, round(of_use)):,}"


def _time(hours: float) -> str:
    if hours * 3_600 < 90:
        return f"{hours * 3_600:,.1f} s"
    if hours < 1.5:
        return f"{hours * 60:,.0f} minutes"
    return f"{hours:,.1f} hours" if hours < 72 else f"{hours / 24:,.1f} days"


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if count < 1_000 or unit == "TB":
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"
        count /= 1_000
    raise AssertionError
