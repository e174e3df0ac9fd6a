"""Definitions are read from the files of each tool, and what is not used is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.definitions.sources import Definition, read_definitions
from pipeline.errors import UsageError

LEXICON = {
    "results": [
        {"entityType": "event", "name": "Page Viewed", "schemaJson": {
            "description": "A page", "metadata": {"com.mixpanel": {"tags": ["KPI "], "dropped": True}},
            "properties": {"url": {"type": "string", "description": "Where"}, "n": {"type": ["null", "integer"]},
                           "at": {"type": "string", "format": "date-time"}, "of": {"type": "object"}}}},
        {"entityType": "profile", "name": "$user", "schemaJson": {"properties": {"$email": {"type": "string"}}}},
    ]
}  # fmt: skip
SEGMENT = {"data": {"rules": [
    {"type": "TRACK", "key": "Page Viewed", "jsonSchema": {"description": "A page", "properties": {"properties": {
        "properties": {"url": {"type": "string"}}}}}},
    {"type": "IDENTIFY", "key": "", "jsonSchema": {"properties": {"traits": {"properties": {"plan": {}}}}}},
    {"type": "GROUP", "key": "", "jsonSchema": {"properties": {"traits": {"properties": {"size": {}}}}}},
]}}  # fmt: skip
TAXONOMY = {"success": True, "data": [
    {"event_type": "Page Viewed", "category": {"name": "Web"}, "description": "A page", "tags": ["a", "B"],
     "is_hidden_from_dropdowns": True},
    {"event_property": "url", "event_type": "Page Viewed", "description": None, "type": "any", "is_required": False},
    {"user_property": "gp:plan", "description": "The plan", "type": "enum"},
]}  # fmt: skip
AMPLITUDE = """Action,Object Type,Object Name,Object Owner,Object Description,Tags,Event Hidden From Dropdowns,\
Event 30 Day Queries,Property Type,Event Property Name,Property Description,Property Value Type,Property Visibility
,Event,Page Viewed,ann,A page,b;A,TRUE,12,,,,,
,,,,,,,,Event Property,url,Where,string,VISIBLE
,,,,,,,,Event Property,n,,number,HIDDEN
,Property Group,Common,,,,,,,,,,
,,,,,,,,Property Group Property,lang,,string,
"""
USERS = (
    "Action,Property Type,Property Name,Property Description,Property Value Type\n,User Property,plan,The plan,enum\n"
)
LEXICON_CSV = """Entity Type;Event Name;Name;Display Name;Description;Status;30-Day Queries
Event;Page Viewed;;Page;A page;Dropped;0
Event Property;;url;;Where;Visible;3
User Profile Property;;plan;;;Hidden;
Custom Event;;Mine;;;;
"""
PLAIN = """kind,event,name,description,tags,verified,type,hidden,reviewer
event,,Page Viewed,"A ""page"", or","KPI, web",Ja,,nein,ann
property,Page Viewed,url,,,0,text,,
Person property,,plan,,,perhaps,colour,,
"""
PAGE: dict[str, Any] = {"description": "A page"}


@pytest.mark.parametrize(
    ("text", "found", "notices"),
    [
        (LEXICON, [
            ("event", "Page Viewed", "", PAGE | {"tags": ["kpi"], "hidden": True}, "dropped"),
            ("property", "url", "Page Viewed", {"description": "Where", "type": "String"}, ""),
            ("property", "n", "Page Viewed", {"type": "Numeric"}, ""),
            ("property", "at", "Page Viewed", {"type": "DateTime"}, ""),
            ("property", "of", "Page Viewed", {}, ""),
            ("person", "$email", "", {"type": "String"}, ""),
        ], ["left out: type object, which the target does not have (1, the first: 'of' in 'Page Viewed' of file)"]),
        (SEGMENT, [("event", "Page Viewed", "", PAGE, ""), ("property", "url", "Page Viewed", {"type": "String"}, ""),
                   ("person", "plan", "", {}, "")], ["left out: rows about group (1, the first: '' of file)"]),
        (TAXONOMY, [
            ("event", "Page Viewed", "", PAGE | {"tags": ["a", "b"], "hidden": True}, "hidden"),
            ("property", "url", "Page Viewed", {}, ""),
            ("person", "plan", "", {"description": "The plan", "type": "String"}, ""),
        ], ["2 columns not used: category, is_required",
            "left out: type any, which the target does not have (1, the first: item 2 of file)"]),
        (AMPLITUDE, [
            ("event", "Page Viewed", "", PAGE | {"tags": ["a", "b"], "hidden": True}, "12 queries, hidden"),
            ("property", "url", "Page Viewed", {"description": "Where", "type": "String"}, ""),
            ("property", "n", "Page Viewed", {"type": "Numeric", "hidden": True}, "hidden"),
            ("property", "lang", "", {"type": "String"}, ""),
        ], ["1 column not used: Object Owner", "left out: rows about propertygroup (1, the first: row 5 of file)"]),
        (USERS, [("person", "plan", "", {"description": "The plan", "type": "String"}, "")], []),
        (LEXICON_CSV, [
            ("event", "Page Viewed", "", PAGE | {"hidden": True}, "0 queries, dropped"),
            ("property", "url", "", {"description": "Where"}, "3 queries"),
            ("person", "plan", "", {"hidden": True}, "hidden"),
        ], ["1 column not used: Display Name", "left out: rows about customevent (1, the first: row 5 of file)"]),
        (PLAIN, [
            ("event", "Page Viewed", "", {"description": 'A "page", or', "tags": ["kpi", "web"], "verified": True},
             ""),
            ("property", "url", "Page Viewed", {"type": "String"}, ""), ("person", "plan", "", {}, ""),
        ], ["1 column not used: reviewer",
            "left out: verified 'perhaps', neither yes nor no (1, the first: row 4 of file)",
            "left out: type colour, which the target does not have (1, the first: row 4 of file)"]),
    ],
    ids=["lexicon", "segment", "taxonomy", "amplitude", "users", "lexicon-csv", "plain"],
)  # fmt: skip
def test_each_format_is_recognised_by_what_is_in_it(
    tmp_path: Path, text: Any, found: list[tuple[Any, ...]], notices: list[str]
) -> None:
    """Columns that mean nothing here, and rows of other kinds, are notices."""
    file = tmp_path / "file"
    file.write_text(text if isinstance(text, str) else json.dumps(text), "utf-8-sig")
    read = read_definitions(str(file))
    assert [Definition(*one[:5], "")._replace(place="") for one in read.found] == [
        Definition(*one, "") for one in found
    ]
    assert read.notices == [f"file: {one}" for one in notices]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kind,name,description\nevent,a,x\nproperty,,y\n", "row 3 of file has no name"),
        ("colour,size\nred,1\n", "row 2 of file has no name"),
        ("", "file has 0 tables"),
        ("[1, 2]", "file"),
        ('{"data": [', "cannot read"),
        ('{"success": true, "data": [{"id": 1, "name": "Web"}]}', "file"),
    ],
)
def test_a_file_of_no_known_shape_is_an_error(tmp_path: Path, text: str, problem: str) -> None:
    """With its line, if it has one."""
    file = tmp_path / "file"
    file.write_text(text, "utf-8")
    with pytest.raises(UsageError, match=problem) as error:
        read_definitions(str(file))
    assert error.value.hint
