"""What a plan finds by itself is in plan.json, on the terminal and on the report's page."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.support.commands import generic
from tests.support.tiny_tool import write

FIRST = datetime(2023, 1, 2, tzinfo=UTC)


def planted(directory: Path, *, faults: bool) -> Path:
    """An export of ninety days in a file each: 25 events a day, and, if it has faults, each of them once."""
    for day in range(90):
        if faults and 40 <= day < 46:
            continue
        at = FIRST + timedelta(days=day)
        name = "purchase" if faults and day >= 60 else "Purchase"
        rows = [
            {"event": name if number % 5 else "Search", "distinct_id": f"u{number}", "uuid": f"{day}-{number}",
             "timestamp": (at + timedelta(minutes=number)).isoformat()}
            for number in range(31 * 25 if faults and day == 25 else 25)
        ]  # fmt: skip
        write(directory / f"events_{at:%Y-%m-%d}.jsonl", rows)
    return directory


def test_each_planted_fault_is_named_and_nothing_in_a_clean_twin(call: Any, tmp_path: Path) -> None:
    """Each has level, count and examples in JSON, and for people what to do about it; one gap is one check."""
    words = (*generic(), "--for", "us")
    clean = planted(tmp_path / "clean", faults=False)
    assert call("plan", clean, *words, "-o", tmp_path / "clean-plan", "--json").json["gates"] == []
    source = planted(tmp_path / "faulty", faults=True)
    gates = call("plan", source, *words, "-o", tmp_path / "plan", "--json").json["gates"]
    found = {gate["name"]: (gate["level"], gate["count"]) for gate in gates}
    assert found == dict.fromkeys(("missing_files", "renamed_event", "spike"), ("warning", 1))
    examples = {gate["name"]: gate["examples"][0] for gate in gates}
    hole = "2023-02-11 to 2023-02-16 (6 days) before events_2023-02-17.jsonl"
    assert examples["missing_files"] == f"{hole}; no event of another file has a time there"
    assert examples["spike"] == "2023-01-27 (775 events, 31 times the usual 25), 620 of them Purchase"
    assert examples["renamed_event"].startswith("Purchase from 2023-01-02 until 2023-03-02")
    sealed = json.loads((tmp_path / "plan" / "plan.json").read_bytes())
    plain = [{name: gate[name] for name in gate if name not in ("advice", "command")} for gate in gates]
    assert sealed["gates"] == plain
    commands = {gate["name"]: gate["command"].split()[1] for gate in gates}
    assert commands == {"missing_files": "survey", "renamed_event": "mapping", "spike": "plan"}
    assert all(gate["advice"] for gate in gates)
    page = (tmp_path / "plan" / "report.html").read_text()
    assert "WARNING spike" in call("plan", source, *words, "-o", tmp_path / "plan").out
    assert examples["spike"] in re.sub("<.*?>", "", page)
    assert "ook at rows of that day" in page
    relaxed = call("plan", source, *words, "-o", tmp_path / "plan", "--json", "--spike", "40", "--gap", "7").json
    assert [gate["name"] for gate in relaxed["gates"]] == ["renamed_event"]
