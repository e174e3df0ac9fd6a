"""`backcast start` on a terminal: what it runs and asks, how it continues, and where it stops."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import msgspec
import openpyxl
import pytest

from pipeline.guided import Answers, Surveyed, asks_zone, folder_for, made_of
from pipeline.local_service import LocalService
from pipeline.mapper import load
from tests.support.commands import SAMPLES
from tests.support.forked import run
from tests.support.terminals import typed

ORDERS = (
    "\ufeffZeitpunkt;Aktion;Kunden-Nr;Betrag\n"
    "03.01.2023 08:15;Anmeldung;K-1;12,50\n03.01.2023 09:20;Kauf;K-1;1.299,00\n"
    "04.01.2023 10:00;Kauf;null;7,99\n15.02.2023 23:59;Abmeldung;K-2;0,00\n"
)


def commands(shown: str) -> list[str]:
    """The commands that were shown for its steps."""
    return re.findall(r"^\$ backcast (.*)$", shown, re.MULTILINE)


def test_a_known_tool_is_asked_for_little_and_ends_with_the_command_that_sends(tmp_path: Path) -> None:
    """If the receive times contradict the zone, it asks again. A second run asks, plans and sends nothing."""
    shutil.copytree(SAMPLES / "mixpanel", tmp_path / "my export")
    code, shown = typed("start", "my export", lines="nowhere\nus\nMars\nEurope/Berlin\n1\n", cwd=tmp_path)
    survey, folder = "survey 'my export' --report 'my export-import/survey.html'", "'my export-import/plan'"
    plans = [
        f"plan 'my export' -m mixpanel --timezone {zone} --for us -o {folder}"
        for zone in ("Europe/Berlin", "America/New_York")
    ]
    assert (code, commands(shown)) == (0, [survey, *plans, f"rehearse {folder}"])
    assert ("'nowhere' is not a target" in shown, "'Mars'" in shown, shown.count("STOP zone")) == (True, True, 1)
    ending = shown.split("Done. Nothing was sent.")[1]
    assert f"  backcast apply {folder} --to us --approve-merges 3\n" in ending
    assert "type the number of events: 104." in " ".join(ending.split())
    assert f"  backcast preflight {folder} --to us\n" in ending
    code, again = typed("start", "my export", cwd=tmp_path)
    assert (code, commands(again), again.split("Done. Nothing was sent.")[1]) == (0, [survey], ending)


def test_a_table_without_a_mapping_is_drafted_by_questions(tmp_path: Path) -> None:
    """Each answer is kept at once. Rows that cannot be sent are left out only if the person says so; `start` continues
    with a plan that the person makes by hand, and plans a changed export again."""
    (tmp_path / "orders.csv").write_text(ORDERS, "utf-8")
    code, shown = typed("start", "orders.csv", lines="1\n", cwd=tmp_path)
    assert (code, "Try: run the same command again" in shown) == (130, True)
    code, shown = typed("start", "orders.csv", lines="\n\nnot yet\nEurope/Berlin\nn\n", cwd=tmp_path)
    plan = "plan orders.csv -m orders-import/mapping.yaml --timezone Europe/Berlin"
    assert (code, commands(shown)[2:]) == (4, [f"{plan} -o orders-import/plan"])
    assert "event: no column" not in shown
    assert "STOP max_rejects" in shown
    assert "in 1 rejected row without distinct_id: /Zeitpunkt (1 row, 1 value), /" in " ".join(shown.split())
    assert "backcast apply" not in shown
    assert f"  backcast {plan} OPTION -o orders-import/plan\n" in shown

    assert run(*plan.split(), "--max-rejects", "50%", "-o", "orders-import/plan", cwd=tmp_path)[0] == 0
    code, by_hand = typed("start", "orders.csv", cwd=tmp_path)
    assert (code, commands(by_hand)[2:]) == (0, ["rehearse orders-import/plan"])
    assert "which another command made" in by_hand
    assert by_hand.split("Done. Nothing was sent.")[1].startswith("\nNo target is chosen yet.")

    with (tmp_path / "orders.csv").open("a", encoding="utf-8") as file:
        file.write("16.02.2023 12:30;Kauf;K-3;5,10\n")
    code, changed = typed("start", "orders.csv", lines="y\n", cwd=tmp_path)
    again, without = f"{plan} -o orders-import/plan", f"{plan} --max-rejects 1 -o orders-import/plan"
    assert (code, commands(changed)[2:]) == (0, [again, without, "rehearse orders-import/plan"])


def test_settings_of_files_go_to_each_step_and_are_kept(tmp_path: Path) -> None:
    """The notice names the sheet that was left out. With another sheet, the export is surveyed and drafted again, and
    answers about the rows of the first sheet are gone; a mapping that was drafted before is named."""
    book = openpyxl.Workbook()
    book.active.title = "Now"
    old = [["Log"], ["2022", "x"], ["Who", "Action", "At"], *[["o-1", "Paid", "2022-05-06 07:08:09"]] * 9]
    for cells in (["customer", "kind", "at"], ["c-1", "Seen", "2023-01-02 10:00:00"]):
        book.active.append(cells)
    sheet = book.create_sheet("Old log")
    for cells in old:
        sheet.append(cells)
    book.save(tmp_path / "activity.xlsx")
    code, shown = typed("start", "activity.xlsx", lines="=Visit\n", cwd=tmp_path)
    assert code == 130
    read = "activity.xlsx: read only the sheet 'Now', not 'Old log' (--set sheet=NAME)"
    assert " ".join(shown.split()).count(read) == 1
    chosen = "activity.xlsx --set 'sheet=Old log' --set header=3"
    words = "start", "activity.xlsx", "--set", "sheet=Old log", "--set", "header=3"
    code, shown = typed(*words, lines="2\n\n2\nnot yet\n", cwd=tmp_path)
    expected = [
        f"survey {chosen} --report activity-import/survey.html",
        f"mapping new {chosen} --ask -o activity-import/mapping.yaml",
        f"plan {chosen} -m activity-import/mapping.yaml -o activity-import/plan",
    ]
    assert (code, commands(shown)[:3]) == (0, expected), shown
    code, again = typed("start", "activity.xlsx", cwd=tmp_path)
    assert (code, commands(again)[0], "before --set changed" in again) == (0, expected[0], False)
    code, changed = typed("start", "activity.xlsx", "--set", "header=4", cwd=tmp_path)
    assert (commands(changed)[0][:55], "before --set changed" in changed) == (f"survey {chosen[:-1]}4 --rep"[:55], True)


def test_with_a_key_the_target_is_checked_and_a_plan_that_was_sent_is_left_alone(tmp_path: Path) -> None:
    with LocalService() as service:
        env = {"BACKCAST_PROJECT_KEY": service.capture_key, "BACKCAST_PERSONAL_KEY": service.personal_key}
        words = "start", SAMPLES / "june", "-o", "here"
        code, shown = typed(*words, lines=f"{service.url}\n", cwd=tmp_path, env=env)
        assert (code, commands(shown)[-1]) == (0, f"preflight here/plan --to {service.url}")
        (send,) = re.findall(r"^  backcast (apply .*)$", shown.split("Done. Nothing was sent.")[1], re.MULTILINE)
        assert run(*send.split(), env=env, cwd=tmp_path)[0] == 0
    code, sent = typed(*words, cwd=tmp_path)
    assert (code, commands(sent)) == (0, ["status here/plan"])
    assert "State: sent\n" in sent


def test_what_decides_a_plan_is_a_change_of_it() -> None:
    """Changes of the files, of the mapping's content, and of each answer that becomes an option."""
    found, mapping, answers = Surveyed("files", "", [], "", []), load("june"), Answers()
    digests = {
        made_of(found, mapping, answers),
        made_of(Surveyed("others", "", [], "", []), mapping, answers),
        made_of(found, msgspec.structs.replace(mapping, text="edited"), answers),
        *(made_of(found, mapping, Answers(**{name: 1})) for name in ("target", "timezone", "max_rejects")),
    }
    assert len(digests) == 6


@pytest.mark.parametrize(("mapping", "clock", "asked"), [
    ("mixpanel", "", True), ("mixpanel", "UTC", False), ("matomo", "UTC", True), ("matomo", "own", False),
    ("amplitude", "", False),
])  # fmt: skip
def test_the_zone_is_asked_for_if_the_mapping_needs_it_and_nothing_shows_it(
    mapping: str, clock: str, asked: bool
) -> None:
    assert asks_zone(load(mapping), Surveyed("", "", [], clock, [])) is asked


def test_what_it_refuses_leaves_no_folder(tmp_path: Path) -> None:
    """No rows, two tools, a folder inside the export or of another program, and stdin as the export."""
    (tmp_path / "empty").mkdir()
    for tool in ("amplitude", "mixpanel"):
        shutil.copytree(SAMPLES / tool, tmp_path / "two" / tool)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    for words, said in (
        (["empty"], "there are no files in empty"),
        (["two"], "backcast start two/amplitude, then backcast start two/mixpanel"),
        (["two", "-o", "two/plan"], "such as -o two-import"),
        (["two", "-o", "mine"], "contains files that `backcast start` did not write"),
        (["-"], "need stdin"),
    ):
        code, shown = typed("start", *words, cwd=tmp_path)
        assert (code, said in shown) == (2, True), shown
    assert sorted(one.name for one in tmp_path.iterdir()) == ["empty", "mine", "two"]


def test_a_folder_of_another_export_and_a_slip_in_its_file_are_named(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    shutil.copytree(SAMPLES / "june", tmp_path / "export")
    for progress, said in (
        ({"sources": ["/elsewhere"]}, "belongs to another export: /elsewhere"),
        ({"sources": [str(tmp_path / "export")], "answers": {"zone": "UTC"}}, "`zone`"),
    ):
        (here / "start.json").write_text(json.dumps(progress), "utf-8")
        code, shown = typed("start", "export", "-o", "here", cwd=tmp_path)
        assert (code, said in shown) == (2, True), shown


def test_without_a_terminal_it_names_the_commands(call: Any, tmp_path: Path) -> None:
    printed = call("start", tmp_path / "export.jsonl", "-o", tmp_path / "here")
    assert printed.code == 2
    assert f"backcast plan {tmp_path}/export.jsonl -m MAPPING" in printed.two_lines[1]
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize(("source", "folder"), [
    ("exports/mixpanel/", "mixpanel-import"), ("a/events.2024.csv.gz", "events-import"),
    ("logs/2021-*/*.gz", "logs-import"), ("s3://bucket/raw/", "raw-import"), ("/.hidden", "hidden-import"),
])  # fmt: skip
def test_the_folder_is_named_after_the_export(source: str, folder: str) -> None:
    assert str(folder_for([source])) == folder
