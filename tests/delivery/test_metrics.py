"""The metrics of a run agree with its outcome, in a file and on a port, and show nothing of an event or a key."""

from __future__ import annotations

import shutil
import socket
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from pipeline.delivery.outcome import RunCounts
from pipeline.errors import UsageError
from pipeline.local_service import LocalService
from tests.support.deliveries import planned, run


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Every sample by its name and the values of its labels. Raises ValueError for text of another format."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
        for sample in family.samples
    }


def test_the_file_has_the_outcome_at_the_end(tmp_path: Path) -> None:
    """During the run the port answers with its counts; afterwards the file has those of the outcome."""
    plan, file = planned(tmp_path, 60, links=True), tmp_path / "backcast.prom"
    with socket.create_server(("127.0.0.1", 0)) as probe:
        free_port = probe.getsockname()[1]
    served: list[dict[tuple[str, ...], float]] = []

    def ask(counts: RunCounts) -> None:
        if not served and counts.accepted:
            accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
            request = urllib.request.Request(f"http://127.0.0.1:{free_port}/metrics", headers=accept)
            with urllib.request.urlopen(request) as answer:
                served.append(samples(answer.read().decode()))

    with LocalService() as service:
        outcome = run(plan, service.url, key=service.capture_key, metrics=file, metrics_port=free_port, progress=ask)
    text = file.read_text()
    found = samples(text)
    settled = {key[1]: value for key, value in found.items() if key[0] == "backcast_events" and key[2] == "settled"}
    assert settled == {phase: counts.accepted for phase, counts in outcome.counts.phases.items()}
    assert sum(settled.values()) == outcome.planned
    assert found["backcast_run_batches_total", "sent"] == outcome.counts.batches_sent
    assert found["backcast_run_ended",] == 1
    assert served
    assert served[0]["backcast_run_ended",] == 0
    assert sum(value for key, value in served[0].items() if key[0] == "backcast_events" and key[2] == "settled") > 0
    assert not [secret for secret in (service.capture_key, "person-1", "Step 1") if secret in text]


def test_a_file_that_can_no_longer_be_written_stops_no_run(tmp_path: Path) -> None:
    """One warning, and everything is sent; if the file cannot be written at all, the run stops before anything is
    sent."""
    plan, folder = planned(tmp_path, 40), tmp_path / "metrics"
    warnings: list[str] = []

    def remove(counts: RunCounts) -> None:
        if folder.exists():
            shutil.rmtree(folder)

    with LocalService() as service:
        asked = {"key": service.capture_key, "metrics": folder / "backcast.prom", "warn": warnings.append}
        with pytest.raises(UsageError, match="cannot write metrics to"):
            run(plan, service.url, **asked)
        folder.mkdir()
        assert run(plan, service.url, progress=remove, **asked).balanced
    assert [one for one in warnings if "metrics" in one] == [
        f"cannot write metrics to {folder / 'backcast.prom'}: No such file or directory; the run goes on"
    ]
