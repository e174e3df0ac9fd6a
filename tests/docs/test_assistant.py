"""`docs/assistant/SKILL.md`: a scripted assistant follows its steps for an export without a mapping."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import Printed

SKILL = Path(__file__).parents[2] / "docs/assistant/SKILL.md"
COMMANDS = re.findall(r"`backcast ([^`]* --json)`", SKILL.read_text("utf-8"))
ROWS = [
    {
        "wann": f"2023-01-{day:02}T10:00:00Z",
        "wer": f"person-{day % 7}",
        "was": was,
        "betrag": day * 1.5,
        "nr": f"n-{day}-{was}",
    }
    for day in range(1, 29)
    for was in ("Kauf", "Besuch")
]


class Assistant:
    """Runs the skill's commands in its own folder, and reads their JSON."""

    def __init__(self, call: Any) -> None:
        self.call = call
        self.mapping = Path("mine.yaml")
        Path("exports").mkdir()
        Path("exports/log.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))

    def run(self, begins: str) -> tuple[Printed, Any]:
        """The skill's command that begins so: what it printed, and its object."""
        (command,) = [one for one in COMMANDS if one.startswith(begins)]
        printed = self.call(*command.replace("EXPORT", "exports").split())
        return printed, printed.json if printed.out else None

    def edit(self, pattern: str, text: str) -> None:
        found, count = re.subn(pattern, text, self.mapping.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        assert count == 1, pattern
        self.mapping.write_text(found, "utf-8")


def test_a_mapping_is_proposed_and_accepted_by_proofs_alone(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The draft's open choices have options with evidence; while one is open, cases and plan refuse; then each proof of
    the skill holds, and every event of the export is in the rehearsal."""
    monkeypatch.chdir(tmp_path)
    mine = Assistant(call)
    survey = mine.run("survey")[1]
    assert survey["candidates"] == {}
    draft = mine.run("mapping new")[1]
    choices = {one["name"]: [option["text"] for option in one["options"]] for one in draft["open"]}
    assert "distinct_id" in choices
    assert all(option["evidence"] for one in draft["open"] for option in one["options"])
    unfinished, found = mine.run("mapping test mine.yaml --json")
    assert (unfinished.code, set(found["open"]["mine.yaml"])) == (7, set(choices))
    mine.edit(r"^open:\n(  [^\n]*\n)+", "")
    mine.edit(r"^distinct_id: [^\n]*", "distinct_id: [/wer]")
    mine.edit(r"^event: [^\n]*", "event: /was")
    call("mapping", "test", mine.mapping, "--update-cases")
    proved, found = mine.run("mapping test mine.yaml --json")
    assert (proved.code, found["failed"], found["open"]) == (0, 0, {})
    covered = mine.run("mapping check")[1]["coverage"]
    assert covered["rows"] == len(ROWS)
    planned, plan = mine.run("plan")
    assert (planned.code, plan["rows"]["rejected"], plan["events"]["made"]) == (0, 0, len(ROWS))
    assert all(gate["level"] != "stop" and gate["advice"] for gate in plan["gates"])
    rehearsed, found = mine.run("rehearse")
    assert (rehearsed.code, found["verify"]["proved"]) == (0, True)


def test_every_command_of_the_skill_exists(call: Any) -> None:
    """With its options."""
    for command in COMMANDS:
        words = [word for word in command.split() if word not in ("EXPORT", "mine.yaml", "plan") or word == "plan"]
        names = words[: 2 if words[0] == "mapping" else 1]
        shown = call(*names, "--help-all" if names == ["plan"] else "--help").out
        assert all(word in shown for word in words if word.startswith("--")), command
