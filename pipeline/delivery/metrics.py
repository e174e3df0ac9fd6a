"""Counts of a run for monitoring, in the OpenMetrics text format: in a file, and on a port of this machine.

The library `prometheus_client`, which the extra `backcast[metrics]` installs, writes the format. No part of an event,
an id or a key is in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import start_http_server
from prometheus_client.core import CollectorRegistry, CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest

from pipeline.delivery.outcome import RunCounts
from pipeline.errors import UsageError
from pipeline.files import write_atomically
from pipeline.plan.sealed.manifest import Plan

EVERY = 5.0
"""Seconds between two versions of the file."""
_RESULTS = ("settled", "refused", "in_doubt")


class RunMetrics:
    """The metrics of one run, collected on request. `take` is the run's progress hook."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._counts: RunCounts | None = None
        self._ended = False

    def take(self, counts: RunCounts) -> None:
        """Take the counts of the run, which the run keeps changing."""
        self._counts = counts

    def end(self) -> None:
        """Record that the run ended."""
        self._ended = True

    def collect(self) -> Iterator[Metric]:
        """Each metric as it is now."""
        plan = GaugeMetricFamily(
            "backcast_plan_events", "Events of the plan, by phase.", labels=["plan", "tool", "phase"]
        )
        for phase, events in self._plan.events.phases.items():
            plan.add_metric([self._plan.digest[:12], self._plan.tool, phase], events)
        yield plan
        yield GaugeMetricFamily("backcast_run_ended", "1 when the run has ended, 0 while it is running.", self._ended)
        yield GaugeMetricFamily("backcast_updated_timestamp_seconds", "When these metrics were read.", time.time())
        if (counts := self._counts) is not None:
            yield from _of_counts(counts)


def _of_counts(counts: RunCounts) -> Iterator[Metric]:
    events = GaugeMetricFamily(
        "backcast_events", "Events by phase and result, over all runs of the plan.", labels=["phase", "result"]
    )
    for phase, of in counts.phases.items():
        settled = of.accepted + of.already_settled
        for result, count in zip(_RESULTS, (settled, of.refused, of.in_doubt), strict=True):
            events.add_metric([phase, result], count)
    yield events
    accepted = CounterMetricFamily("backcast_run_accepted_events", "Events accepted in this run.", labels=["phase"])
    for phase, of in counts.phases.items():
        accepted.add_metric([phase], of.accepted)
    yield accepted
    batches = CounterMetricFamily(
        "backcast_run_batches", "Batches of this run, by what became of each.", labels=["what"]
    )
    batches.add_metric(["sent"], counts.batches_sent)
    batches.add_metric(["retried"], counts.batches_retried)
    batches.add_metric(["split"], counts.batches_split)
    yield batches
    yield CounterMetricFamily("backcast_run_sent_bytes", "Bytes of requests of this run.", counts.bytes_sent)
    yield GaugeMetricFamily("backcast_requests_in_flight", "Requests without a response yet.", counts.in_flight)
    yield GaugeMetricFamily("backcast_requests_limit", "Requests that may be in flight now.", counts.limit)
    yield GaugeMetricFamily(
        "backcast_pause_seconds", "Seconds until requests may be sent again, as the service asked.", counts.paused
    )
    yield GaugeMetricFamily("backcast_quiet_seconds", "Seconds until the quiet hours end.", counts.quiet)
    yield GaugeMetricFamily(
        "backcast_id_wait_seconds", "Seconds for which a batch still waits for the rate of one id.", counts.id_wait
    )
    if counts.behind is not None:
        yield GaugeMetricFamily(
            "backcast_job_behind_seconds",
            "Seconds since the end of the job's window that is being sent.",
            counts.behind,
        )
    yield GaugeMetricFamily(
        "backcast_idle_seconds", "Seconds in which no batch settled while a request was in flight.", counts.idle
    )


@contextmanager
def measured(
    plan: Plan,
    file: Path | None,
    port: int | None,
    progress: Callable[[RunCounts], None],
    warn: Callable[[str], None] = lambda line: None,
) -> Iterator[Callable[[RunCounts], None]]:
    """Within it, the yielded progress hook keeps the file up to date and serves the port, and calls `progress`.

    Afterwards the file has the final counts. Raises UsageError if the file or the port cannot be used at first. If the
    file cannot be written later, the run goes on and `warn` gets a line, once.
    """
    metrics = RunMetrics(plan)
    collected = CollectorRegistry(auto_describe=False)
    collected.register(metrics)
    written, failed = -EVERY, False

    def write() -> None:
        if file is not None:
            write_atomically(file, generate_latest(collected))  # type: ignore[no-untyped-call]

    def update() -> None:
        nonlocal failed
        try:
            write()
        except OSError as error:
            if not failed:
                warn(f"cannot write metrics to {file}: {error.strerror}; the run goes on")
            failed = True

    def hook(counts: RunCounts) -> None:
        nonlocal written
        metrics.take(counts)
        if (now := time.monotonic()) - written >= EVERY:
            written = now
            update()
        progress(counts)

    try:
        write()
        server = None if port is None else start_http_server(port, "127.0.0.1", collected)
    except OSError as error:
        of_file = file is not None and not file.exists()
        where, flag = (str(file), "--metrics FILE") if of_file else (f"port {port}", "--metrics-port PORT")
        raise UsageError(f"cannot write metrics to {where}: {error.strerror}", hint=f"choose another {flag}") from None
    try:
        yield hook
    finally:
        metrics.end()
        if server is not None:
            server[0].shutdown()
            server[0].server_close()
        update()
