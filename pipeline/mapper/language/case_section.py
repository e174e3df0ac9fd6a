"""The section `cases` of a mapping file: examples of rows, and what each gives."""

from __future__ import annotations

from collections.abc import Mapping as Map
from typing import Any

from pipeline.mapper.language.kinds import (
    NAMES,
    TEXT,
    TEXTS,
    Choice,
    Field,
    Json,
    Keys,
    ListOf,
    Place,
    Section,
    TableOf,
    entry,
)

OUTCOME = Section(
    "outcome",
    dict,
    {
        "event": Field(TEXT, "the event's name"),
        "distinct_id": Field(TEXT, "its distinct_id"),
        "timestamp": Field(TEXT, "its time, as 2020-12-30T12:00:00Z"),
        "received": Field(TEXT, "when the tool received it, in the same form"),
        "uuid": Field(TEXT, "the source's own uuid"),
        "key": Field(NAMES, "the parts of its dedupe key; `none` if the row has none"),
        "properties": Field(Json(), "all of its properties, exactly"),
        "has": Field(Json(), "properties that must be among them"),
        "lacks": Field(NAMES, "properties that it must not have"),
        "warnings": Field(NAMES, "the codes of its warnings; none if left out"),
        "skip": Field(TEXT, "the row is left out, with this code"),
        "reject": Field(TEXT, "the row cannot be sent, with this code"),
        "link": Field(NAMES, "kind, the id that stays, the id that is absorbed"),
        "pair": Field(NAMES, "for an event: its anonymous id and its user's"),
        "set": Field(Json(), "the properties set on its person, or on a group, exactly"),
        "set_once": Field(Json(), "the properties set once on its person, exactly"),
        "unset": Field(NAMES, "the properties removed from its person"),
        "person": Field(TEXT, "the row updates this person and is not an event"),
        "group": Field(NAMES, "the row updates a group and is not an event: its type and key"),
    },
)


class Case(Keys):
    place: Place
    name: str = entry(TEXT, "what the case shows")
    row: str = entry(Json(), "the row as JSON text")
    gives: tuple[Map[str, Any], ...] = entry(ListOf(OUTCOME), "the outcomes of the row, in order")
    settings: Map[str, str] = entry(TEXTS, "as given with --set", dict)
    zones: tuple[str, ...] = entry(NAMES, "as given with --timezone", ())
    dialect: str = entry(Choice(("contract", "posthog")), "the target's spelling", "contract")
    path: str = entry(TEXT, "the file that the row is in, with its folders (`table_from_path`)", "")
    lookups: Map[str, Map[str, str]] = entry(
        TableOf(TEXTS), "the entries of tables of `lookup_files`, by the table's name", dict
    )
    format: str = entry(
        Choice(("json", "csv")),
        "csv: every value is the text of a cell, and `blanks` decides what blank cells are; json if left out",
        "json",
    )
