"""Which rows a draft is for: the largest table, the items of pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.mapper.language.loader import parse
from pipeline.survey.tables import table_name
from tests.support.drafts import checked, drafted
from tests.support.export_shapes import R, T, U, lines


@pytest.mark.parametrize("members", [{"has_more": False, "url": "/v1/charges"}, {"shop": "a.example"}])
def test_pages_on_one_line_are_opened(call: Any, tmp_path: Path, members: dict[str, Any]) -> None:
    """The rows are the items of the list; what else a page has is asked for, unless it says which page it is."""
    path, mine = tmp_path / "charges.json", tmp_path / "mine.yaml"
    page = {"charges": [{"event": "Charge", "customer": U[row], "created": T + row} for row in R], **members}
    path.write_text(json.dumps(page))
    seen = " ".join(call("survey", path).out.split())
    assert ("add --set rows=charges" if "shop" in members else "whose rows are the items of 'charges'") in seen
    printed = call("mapping", "new", path, "-o", mine)
    assert ("shop" in members) == ("rows: each row is a page whose list charges has the rows" in printed.err)
    assert parse(mine.read_text("utf-8"), "mine").files.rows == "charges"
    assert "6 events to send, from 6 of 6 rows" in call("plan", path, "-m", mine, "-o", tmp_path / "plan").out


def test_of_several_tables_the_largest_is_drafted_and_the_others_are_named(tmp_path: Path) -> None:
    """Files with the same columns are one table, called by their folder where the files have numbers."""
    for table_, columns, rows in (("users", "user_id,joined", 2), ("pageviews", "user_id,time,path,title", 9)):
        for number in range(2):
            path = tmp_path / "sync_1" / table_ / f"part-0000{number}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            values = ",".join([f"u-{number}", "2023-01-02T03:04:05Z", "/p", "P"][: columns.count(",") + 1])
            path.write_text("\n".join([columns, *[values] * rows]) + "\n")
    draft = drafted(tmp_path)
    assert checked(draft).tool == "pageviews"
    assert "users (2 files)" in checked(draft).open["tables"]
    assert checked(draft).event.arguments.get("const") == "$pageview"


def test_a_table_is_called_by_its_file_or_folder() -> None:
    """Without endings, dates and numbers."""
    for path, name in (
        ("orders.csv", "orders"), ("orders_2023-05-01.csv.gz", "orders"), ("events_20230101.json", "events"),
        ("sync_12/users/part-00001-5f2b8f0e.avro", "users"), ("all.zip!pages/1.json.gz", "pages"),
        ("2023-01-02.csv", ""), ("日本.csv", "日本"),
    ):  # fmt: skip
        assert table_name([path]) == name


def test_pages_are_opened_for_a_mapping_that_recognises_nothing(call: Any, tmp_path: Path) -> None:
    """Only where it reads what each event needs in the items, and nothing in the pages themselves."""
    items = [{"name": "A", "who": f"u-{n}", "at": f"2023-01-02T03:04:0{n}Z"} for n in range(3)]
    page = {"project": "lumen", "rows_of_it": items, "next": "abc"}
    path, mine = tmp_path / "pages.json", tmp_path / "mine.yaml"
    path.write_text(lines([page, {**page, "next": "abd"}]))
    mapping = "format: backcast.mapping/1\ntool: mine\ntitle: Mine\n"
    mapping += "event: /name\ndistinct_id: [/who]\ntime:\n  - {from: /at}\n"
    for more, rows in (("", 6), ("properties:\n  set:\n    project: /project\n", 2)):
        mine.write_text(mapping + more)
        plan = call("plan", path, "-m", mine, "-o", tmp_path / f"plan{rows}", "--json", "--workers", "0")
        assert plan.json["rows"]["read"] == rows
    words = [word for name, column in (("event", "name"), ("distinct_id", "who"), ("timestamp", "at"))
             for word in ("--set", f"{name}={column}")]  # fmt: skip
    plan = call("plan", path, "-m", "generic", *words, "-o", tmp_path / "generic", "--json", "--workers", "0")
    assert (plan.code, plan.json["rows"]["mapped"]) == (0, 6)
