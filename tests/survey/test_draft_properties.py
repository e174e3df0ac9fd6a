"""What a draft makes of the other columns: a key, properties, numbers, names of the service."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.drafts import checked, drafted, events_of, log, written
from tests.support.export_shapes import SHAPES, R, T


def test_amounts_are_numbers_when_they_can_be(tmp_path: Path) -> None:
    """Whole cents stay what they are until somebody decides; then the unit is exact, beside the old column. Those with
    a decimal comma have their digits; where one value is something else, all stay texts."""
    path = written(tmp_path, SHAPES["orders"])
    properties = [
        json.loads(events_of(drafted(path, answers=answers), path)[0]["properties"])
        for answers in ({}, {"amounts": "divide"})
    ]
    assert [one.get("total") for one in properties] == [None, 12.5]
    assert [one["total_cents"] for one in properties] == ["1250", "1250"]
    rows = [f"Kauf;K{n};2023-01-0{n}T03:04:05Z;{n}.234,5{n};{n},5" for n in range(1, 8)]
    path.write_text("\n".join(["Vorgang;Kundennr;Datum;Betrag;Version", *rows]) + "\n")
    found = json.loads(events_of(drafted(path), path)[0]["properties"])
    assert (found["Betrag"], found["Version"]) == (1234.51, "1,5")


def test_nothing_of_a_row_is_lost_beside_opened_properties(tmp_path: Path) -> None:
    """Columns that a section refers to are set again, under the names of other columns; a list of keys and values is
    opened, numbers as numbers."""
    row = {
        "event": "A", "time": "2023-01-02T03:04:05Z", "user": {"user_id": "u-1", "plan": "pro"}, "device_id": "d-1",
        "page_url": "https://a.example/", "extra": 1, "properties": {"x": 1},
    }  # fmt: skip
    path = log(tmp_path, [row, {**row, "user": {"plan": "free"}}])
    assert json.loads(events_of(drafted(path), path)[0]["properties"]) == {
        "x": 1, "$current_url": "https://a.example/", "log_device_id": "d-1", "log_user": row["user"], "log_extra": 1,
    }  # fmt: skip
    path = written(tmp_path, SHAPES["ga4"])
    properties = json.loads(events_of(drafted(path), path)[0]["properties"])
    assert (properties["page_location"], properties["ga_session_id"]) == ("https://a.example/", 1_672_628_000)


def test_a_column_of_different_codes_is_the_key(tmp_path: Path) -> None:
    """Whatever it is called, if all rows have one; of few rows, or of rows that share one, only a name shows it."""
    rows = [{"event": "A", "time": T + row, "user_id": "u", "Beleg": f"B-{row}"} for row in range(30)]
    for some, key in ((rows, True), (rows[:9], False), ([*rows, {**rows[0], "time": T + 99}], False)):
        draft = drafted(log(tmp_path, some)).text
        assert ("key: {of: [/Beleg], needs: [/Beleg]}" in draft) is key
        assert ("not its name: is it the id of a row?" in draft) is key


@pytest.mark.parametrize(
    ("values", "name"),
    [
        (("DE", "US"), "$geoip_country_code"),
        (("Germany", "France"), "$geoip_country_name"),
        (("DE", "France"), "country"),
    ],
)
def test_only_codes_are_the_code_of_a_country(tmp_path: Path, values: tuple[str, str], name: str) -> None:
    """Names have the service's property for names; a column of both keeps its own."""
    rows = [{"event": "A", "time": T, "user_id": f"u-{row}", "country": values[row % 2]} for row in R]
    path = log(tmp_path, rows)
    assert json.loads(events_of(drafted(path), path)[0]["properties"]) == {name: values[0]}


def test_numbers_with_a_decimal_comma_are_numbers(tmp_path: Path) -> None:
    """With any number of decimals, whole ones too; a comma between thousands leaves the column as it is."""
    rows = [
        {"event": "A", "time": T, "user_id": f"u-{row}", "Menge": f"{row},5" if row else "12", "n": f"{row + 1},234"}
        for row in R
    ]
    path = log(tmp_path, rows)
    found = [json.loads(one["properties"]) for one in events_of(drafted(path), path)]
    assert [(one["Menge"], one["n"]) for one in found[:2]] == [(12, "1,234"), (1.5, "2,234")]


def test_folders_that_repeat_the_day_are_no_properties(tmp_path: Path) -> None:
    """In any zone; folders of other days, such as those of the export, stay."""
    for day in (3, 4):
        folder = tmp_path / "sync" / "year=2023" / "month=02" / f"day={day:02d}" / "dt=2024-01-01"
        folder.mkdir(parents=True)
        log(folder, ({"event": "A", "user_id": f"u-{row}", "at": f"2023-02-0{day}T23:0{row}:00+02:00"} for row in R))
    draft = drafted(tmp_path / "sync")
    assert [one.arguments["ref"] for one in checked(draft).properties.drop[-3:]] == ["year", "month", "day"]
    assert "# year, month, day: the folders repeat the day of the event's time, so they are left out." in draft.text
