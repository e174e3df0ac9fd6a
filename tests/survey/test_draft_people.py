"""Which ids of persons a draft proposes, and what it asks about them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.api import survey_export
from tests.support.drafts import checked, drafted, events_of, log
from tests.support.export_shapes import R, T, iso


def test_ids_of_two_kinds_are_a_pair_only_where_they_show_one_person(tmp_path: Path) -> None:
    """A device with one user joins; a device with many is asked for, as is a user with most of all devices, and joins
    nothing until a person says so."""
    rows = [{"event": "A", "time": T + row, "user_id": f"u-{row}", "device_id": f"d-{row}"} for row in R]
    assert checked(drafted(log(tmp_path, rows))).pair is not None
    shared = drafted(log(tmp_path, ({**row, "user_id": "admin"} for row in rows)))
    assert checked(shared).pair is None
    assert "'admin' alone has" in {choice.name: choice for choice in shared.choices}["pair"].options[0].evidence
    path = log(tmp_path, ({**row, "device_id": "d-1"} for row in rows))
    shared = drafted(path)
    assert (checked(shared).pair, [choice.name for choice in shared.choices]) == (None, ["pair"])
    rule = shared.choices[0].options[1].text
    assert checked(drafted(path, answers={"pair": rule})).pair is not None


def test_an_id_of_a_third_of_the_rows_is_asked_for(tmp_path: Path) -> None:
    """What looks like a placeholder is passed over until a person says that it is an id."""
    users = [f"u-{row}" if row % 2 else "nobody" for row in range(60)]
    path = log(tmp_path, ({"event": "A", "time": T + row, "user_id": user} for row, user in enumerate(users)))
    draft = drafted(path)
    assert [choice.name for choice in draft.choices] == ["placeholders"]
    assert checked(draft).distinct_id.junk == ("nobody",)
    assert checked(drafted(path, answers={"placeholders": "[]"})).distinct_id.junk == ()
    numbers = (1_000.0 + row if row % 2 else 777.0 for row in range(60))
    path = log(tmp_path, ({"event": "A", "time": T + row, "user_id": user} for row, user in enumerate(numbers)))
    draft = checked(drafted(path))
    assert (draft.files.integers, draft.distinct_id.junk) == (("user_id",), ("777",))  # as the id is read


def test_a_column_that_stands_in_for_ids_is_an_option(tmp_path: Path) -> None:
    """Placeholders count as missing; what such rows have instead is proposed, and chosen by a person."""
    rows = [
        {"msec": f"{T + row}.5", "cookie_uid": f"c-{row % 20}" if row % 3 else "-", "remote_addr": f"192.0.2.{row % 9}"}
        for row in range(60)
    ]
    path = log(tmp_path, rows)
    draft = drafted(path)
    choice = next(choice for choice in draft.choices if choice.name == "distinct_id")
    assert "20 of 60 rows have none of these ids" in choice.question
    assert [one.text for one in choice.options] == ["[/cookie_uid]", "[/cookie_uid, /remote_addr]"]
    decided = drafted(path, answers={"event": "{const: $pageview}", "distinct_id": choice.options[1].text})
    people = [one["distinct_id"] for one in events_of(decided, path)]
    assert people == [row["cookie_uid"] if row["cookie_uid"] != "-" else row["remote_addr"] for row in rows]


def test_few_rows_without_a_name_or_an_id_are_counted(tmp_path: Path) -> None:
    """As a share of all rows they would be 0 %."""
    rows = [{"event": "A" if row else None, "time": T + row, "user_id": f"u-{row}"} for row in range(301)]
    (choice,) = drafted(log(tmp_path, [*rows, {"event": "A", "time": T}])).choices[1:]
    assert choice.question.startswith("1 of 302 rows has none of these ids and would be rejected.")
    assert choice.options[0].evidence.startswith("1 blank, 301 different values in 301 rows")
    (choice,) = drafted(log(tmp_path, rows)).choices
    assert choice.question.startswith("1 of 301 rows has no event. Name what")


def test_rare_words_for_a_missing_id_are_placeholders(tmp_path: Path) -> None:
    """However many ids are more frequent."""
    users = [*(f"u-{row % 9}" for row in range(60)), "NULL", "nil", "na", "-"]
    path = log(tmp_path, ({"event": "A", "time": T + row, "user_id": user} for row, user in enumerate(users)))
    assert checked(drafted(path)).distinct_id.junk == ("-", "nil", "na")


@pytest.mark.parametrize(
    ("person", "time", "birthday"),
    [
        ("Besucher", "Zeitpunkt", "Geburtsdatum"), ("Kunden-Nr", "Bestelldatum", "Änderungsdatum"),
        ("id_cliente", "fecha", "fecha_nacimiento"), ("visiteur", "heure", "date_naissance"),
        ("Usuário", "hora", "expirado_hora"), ("klantnummer", "tijdstip", "geboortedatum"),
    ],
)  # fmt: skip
def test_columns_may_be_named_in_other_languages(tmp_path: Path, person: str, time: str, birthday: str) -> None:
    """The person, the time and the row's own id are found by the survey and the draft alike; nothing about them is
    asked. The draft is named after the file, and its cases after their events."""
    rows = [
        {
            birthday: "1990-02-01T00:00:00Z",
            "event": "AB"[row % 2],
            time: iso(row, "%Y-%m-%dT%H:%M:%SZ"),
            person: f"{row % 9 + 1}",
            "Beleg": f"B-{1000 + row}",
        }
        for row in range(40)
    ]
    path = tmp_path / "häßliche Événements.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    draft = drafted(path)
    assert draft.choices == ()
    mapping = checked(draft)
    assert mapping.tool == "haessliche_evenements"
    assert [case.name for case in mapping.cases] == ["A", "B", "A (2)"]
    for line in (f"distinct_id: [/{person}]", f"from: /{time},", "key: {of: [/Beleg]"):
        assert line in draft.text.replace('"', "")
    assert {one.role_guess: one.path for one in survey_export([path]).fields if one.role_guess} == {
        "event": "event", "distinct_id": person, "timestamp": time, "uuid": "Beleg"
    }  # fmt: skip
