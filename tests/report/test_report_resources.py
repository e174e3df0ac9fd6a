"""Answers of runs, logs and metrics on a terminal: what there is, or plainly that there is none."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from pipeline.config import Secret
from pipeline.local_service.settings import preset
from pipeline.management import ManagementClient
from pipeline.report.terminal.resources import show_answer
from tests.support.management_service import ALL, asking


def shown(answer: Any) -> str:
    """What a terminal of 100 columns shows."""
    console = Console(width=100, no_color=True)
    with console.capture() as captured:
        show_answer(console, "Metrics of x", answer)
    return captured.get()


@pytest.mark.parametrize(
    "answer",
    [{"labels": ["2023-01-01"], "series": []}, {"labels": [], "series": []}, {"totals": {}}, {"results": []}, []],
)
def test_nothing_is_told_in_a_line(answer: Any) -> None:
    """No table without a number in it."""
    assert shown(answer) == "Metrics of x: none.\n"


def test_a_run_shows_its_log_line_by_line() -> None:
    """Below what else it says."""
    logs = [{"level": "INFO", "message": "one"}, {"level": "WARN", "message": "[two]", "more": {"access_token": "t"}}]
    lines = [line.split() for line in shown({"status": "success", "logs": logs}).splitlines()]
    assert ["status", "success"] in lines
    assert ["INFO", "one"] in lines
    assert ["WARN", "[two]", '{"access_token":', '"***"}'] in lines


@pytest.mark.parametrize("logs", [[], ["text"], "text", None])
def test_a_log_of_another_shape_is_a_field(logs: Any) -> None:
    """Nothing is left out."""
    assert "logs" in shown({"status": "success", "logs": logs})


def test_the_local_service_says_that_nothing_ran() -> None:
    """Through the client, as the commands show it."""
    with asking(preset("observed")) as ask, ManagementClient(ask.service.url, Secret(ALL), "1") as client:
        functions, id = client.hog_functions, ask.made(hog="h")["id"]
        assert "runs no hog function" in shown(functions.invoke(id, {"configuration": {}}))
        for answer in (functions.logs(id), functions.metrics(id), functions.metrics_totals(id)):
            assert shown(answer) == "Metrics of x: none.\n"
