"""Answers of runs, logs and metrics on a terminal: what there is, or plainly that there is none."""

from __future__ import annotations

from typing import Any

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


def test_answers_are_shown_or_plainly_none() -> None:
    """No table without a number in it; a run shows its log line by line below what else it says, a log of another shape
    is a field: nothing is left out."""
    for answer in ({"labels": ["2023-01-01"], "series": []}, {"labels": [], "series": []}, {"totals": {}}, []):
        assert shown(answer) == "Metrics of x: none.\n"
    logs = [{"level": "INFO", "message": "one"}, {"level": "WARN", "message": "[two]", "more": {"access_token": "t"}}]
    lines = [line.split() for line in shown({"status": "success", "logs": logs}).splitlines()]
    for line in (["status", "success"], ["INFO", "one"], ["WARN", "[two]", '{"access_token":', '"***"}']):
        assert line in lines
    for odd in ([], ["text"], "text", None):
        assert "logs" in shown({"status": "success", "logs": odd})


def test_the_local_service_says_that_nothing_ran() -> None:
    """Through the client, as the commands show it."""
    with asking(preset("observed")) as ask, ManagementClient(ask.service.url, Secret(ALL), "1") as client:
        functions, id = client.hog_functions, ask.made(hog="h")["id"]
        assert "runs no hog function" in shown(functions.invoke(id, {"configuration": {}}))
        for answer in (functions.logs(id), functions.metrics(id), functions.metrics_totals(id)):
            assert shown(answer) == "Metrics of x: none.\n"
