"""Persons with their ids, and groups, as the page lists them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipeline.local_service.page.events import containing, is_uuid
from pipeline.local_service.page.reader import PAGE, ProjectReader, literal
from pipeline.local_service.page.rendering import PlainText, ShownProperties

LARGE = 20_000
"""Bytes of properties over which a list leaves them out."""
MOST_IDS = 500
_FIRST_IDS = 3
_LISTED_PROPERTIES, _LISTED_VALUE = 40, 200
_ALL_PROPERTIES, _WHOLE_VALUE = 1_000, 10_000


@dataclass(frozen=True, slots=True)
class PersonRow:
    """A person: its first ids in alphabetical order, how many it has, and its properties, None where too large."""

    id: str
    created_at: str
    is_identified: bool
    ids: list[str]
    id_count: int
    properties: ShownProperties | None


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group: the number and name of its type, its key, and its properties, None where too large."""

    index: int
    type: str
    key: str
    created_at: str
    properties: ShownProperties | None


def listed(reader: ProjectReader, text: str, page: int, plain: PlainText) -> tuple[list[PersonRow], int]:
    """One page of the persons with this text in an id or a property, the oldest first; and how many there are."""
    condition = "true"
    if text:
        by_id = f"SELECT person_id FROM person_distinct_ids WHERE {containing('distinct_id', text)}"
        condition = f"(id IN ({by_id}) OR {containing('properties', text)}"
        condition += f" OR id = CAST({literal(text)} AS UUID))" if is_uuid(text) else ")"
    total = reader.number(f"SELECT count(*) FROM persons WHERE {condition}")
    found = reader.rows(
        f"SELECT id, created_at, is_identified, {_bounded()} FROM persons WHERE {condition} "
        f"ORDER BY created_at, id LIMIT {PAGE} OFFSET {(page - 1) * PAGE}"
    )
    ids = _ids(reader, [row[0] for row in found])
    return [
        PersonRow(id, at, identified, *ids.get(id, ([], 0)), _opened(text, plain)) for id, at, identified, text in found
    ], total


def person(reader: ProjectReader, id: str, plain: PlainText) -> PersonRow | None:
    """One person with all its properties and up to MOST_IDS ids."""
    key = f"CAST({literal(id)} AS UUID)"
    found = reader.rows(f"SELECT id, created_at, is_identified, properties FROM persons WHERE id = {key}")
    if not found:
        return None
    ((_, created_at, is_identified, properties),) = found
    count = reader.number(f"SELECT count(*) FROM person_distinct_ids WHERE person_id = {key}")
    ids = reader.rows(
        f"SELECT distinct_id FROM person_distinct_ids WHERE person_id = {key} ORDER BY distinct_id LIMIT {MOST_IDS}"
    )
    shown = plain.properties(properties, most=_ALL_PROPERTIES, limit=_WHOLE_VALUE)
    return PersonRow(id, created_at, is_identified, [one for (one,) in ids], count, shown)


def person_of(reader: ProjectReader, distinct_id: str) -> str | None:
    """The person of an id, or None."""
    found = reader.rows(f"SELECT person_id FROM person_distinct_ids WHERE distinct_id = {literal(distinct_id)}")
    return str(found[0][0]) if found else None


def group_types(reader: ProjectReader) -> list[tuple[int, str, int]]:
    """The group types by number, each with how many groups it has."""
    found = reader.rows(
        'SELECT t."index", t.type, count(g.key) FROM group_types t LEFT JOIN groups g ON g."index" = t."index" '
        'GROUP BY t."index", t.type ORDER BY t."index"'
    )
    return [(index, name, count) for index, name, count in found]


def groups(
    reader: ProjectReader, index: int | None, text: str, page: int, plain: PlainText
) -> tuple[list[GroupRow], int]:
    """One page of the groups of a type with this text in the key or a property, by type and key; and how many."""
    condition = "true" if index is None else f'"index" = {index}'
    if text:
        condition += f" AND ({containing('key', text)} OR {containing('properties', text)})"
    total = reader.number(f"SELECT count(*) FROM groups WHERE {condition}")
    found = reader.rows(
        f'SELECT "index", type, key, created_at, {_bounded()} FROM groups WHERE {condition} '
        f'ORDER BY "index", key LIMIT {PAGE} OFFSET {(page - 1) * PAGE}'
    )
    return [GroupRow(number, kind, key, at, _opened(text, plain)) for number, kind, key, at, text in found], total


def _bounded() -> str:
    return f"CASE WHEN strlen(properties) <= {LARGE} THEN properties END"


def _opened(text: str | None, plain: PlainText) -> ShownProperties | None:
    return None if text is None else plain.properties(text, most=_LISTED_PROPERTIES, limit=_LISTED_VALUE)


def _ids(reader: ProjectReader, persons: list[str]) -> dict[str, tuple[list[str], int]]:
    """The first ids of some persons, and how many each has."""
    if not persons:
        return {}
    keys = ", ".join(f"CAST('{id}' AS UUID)" for id in persons)
    found: list[tuple[Any, ...]] = reader.rows(
        f"SELECT person_id, min(distinct_id, {_FIRST_IDS}), count(*) FROM person_distinct_ids "
        f"WHERE person_id IN ({keys}) GROUP BY person_id"
    )
    return {id: (list(first), count) for id, first, count in found}
