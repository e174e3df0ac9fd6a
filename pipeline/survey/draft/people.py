"""The sections of a draft for the person's id, placeholder ids, and the pair of ids that joins two."""

from __future__ import annotations

import re
from collections import Counter

from pipeline import values
from pipeline.mapper.language.scalars import comment, scalar
from pipeline.survey.draft.decisions import MOST_OPTIONS, Choice, Decisions, Option, some_rows_have
from pipeline.survey.roles.ids import ANONYMOUS, EMAIL, SESSION, USER, IdColumn, other_ids
from pipeline.text import pluralize, printable
from pipeline.validator.placeholder_ids import is_placeholder

_NO_ID = re.compile(
    r"unknown|na|nil|test|default|nobody|system|visitor-unique-id|account-unique-id|00+|not set", re.IGNORECASE
)
"""Values that trackers write if an id is missing, and that could be ids: not placeholders of every tool."""
MOST_OF_ONE = 4
"""A user with most of this many anonymous ids is more likely a shared account than one person."""
MOST_IDS = 4
COMMON_SHARE = 0.3
"""An id that this share of many rows has is rarely a person."""


def people_sections(known: Decisions) -> str:
    """`distinct_id` and `pair`."""
    chain, missing, question = _chain(known.people)
    texts = {f"[{', '.join(known.ref(one.column) for one in chain)}]": chain} if chain else {}
    several = "the first of these that a row has"
    options = [Option(text, several if len(chain) > 1 else chain[0].column.evidence()) for text in texts]
    for column in other_ids(known.others) if missing and chain and chain[0].known else ():
        if missing <= set(column.rows):
            text = f"[{', '.join(known.ref(one) for one in (*(one.column for one in chain), column))}]"
            texts[text] = [*chain, IdColumn(column, ANONYMOUS, known=False)]
            options.append(Option(text, f"rows without the others have {column.path}: {column.evidence()}"))
    for one in known.people:
        if len(options) < MOST_OPTIONS and [one] != chain:
            options.append(Option(f"[{known.ref(one.column)}]", one.column.evidence()))
            texts[options[-1].text] = [one]
    if not chain or not chain[0].known:
        name = scalar(f"{known.tool}-rows")
        options.append(Option(f"[{{const: {name}}}]", "every row belongs to one person of this name"))
    text, lines = options[0].text, list[str]()
    if question or "distinct_id" in known.answers:
        text, lines = known.choose(Choice("distinct_id", question, tuple(options), free="column"))
        text = text if text.startswith("[") else f"[{text}]"
    chosen = texts.get(text) or [one for one in known.people if text == f"[{known.ref(one.column)}]"]
    if chosen:
        known.dropped.append(chosen[0].column.steps)
    placeholders, comments = _placeholders(known, chosen)
    ids = f"{{first: {text}, junk: {placeholders}}}" if placeholders else text
    head = ["", "# The person's id: the first of these that a row has, ignoring placeholders such as null.", *lines]
    return "\n".join([*head, *comments, f"distinct_id: {ids}", *_pair(known, chosen)])


def _chain(people: list[IdColumn]) -> tuple[list[IdColumn], set[int], str]:
    """The ids that together cover the most rows, the rows that have none, and the question about them, if any."""
    if not people or not people[0].known:
        question = "no column is named like the id of a person. Choose the column, or one person for all rows."
        return people[:1], set(), question
    chain, missing = people[:1], set(range(people[0].column.of)) - _identified(people[0])
    for one in people[1:]:
        if missing & _identified(one) and len(chain) < MOST_IDS:
            chain.append(one)
            missing -= _identified(one)
    # Rows that have only a possible placeholder are handled below.
    suspects = {text for one in chain for text, known in _common_placeholders(one) if not known}
    suspected = {
        row for one in chain for row, value in zip(one.column.rows, one.column.values, strict=True)
        if values.text(value) in suspects
    }  # fmt: skip
    question = ""
    if missing - suspected:
        question = f"{some_rows_have(len(missing), people[0].column.of)} none of these ids and would be rejected."
    elif chain[-1].of == SESSION:
        question = "a session is not a person: its rows are one person for as long as the session lasts."
    elif sum(one.of in (USER, EMAIL) for one in chain) > 1:
        question = "several user ids stand in for each other: a user who has both becomes two persons."
    return chain, missing, question


def _identified(one: IdColumn) -> set[int]:
    """The numbers of the rows that have an id in a column, and not a placeholder."""
    passed = {text for text, _ in _common_placeholders(one)}
    column = one.column
    return {
        row for row, value in zip(column.rows, column.values, strict=True) if (values.text(value) or "") not in passed
    }


def _common_placeholders(one: IdColumn) -> list[tuple[str, bool]]:
    """The values of a column that look like placeholders, and whether they are certainly not ids."""
    found, column = [], one.column
    many = len(column.values) >= 50 and len(column.texts) >= 10
    for text, count in column.texts.most_common():
        common = many and count > COMMON_SHARE * len(column.values)
        if (known := is_placeholder(text) or not any(map(str.isalnum, text))) or (
            one.of != SESSION and (common or _NO_ID.fullmatch(text))
        ):
            found.append((text, known))
    return found


def _placeholders(known: Decisions, chosen: list[IdColumn]) -> tuple[str, list[str]]:
    """The tool's own placeholder ids as a YAML list, or "", and comments."""
    comments: list[str] = []
    suspects: dict[str, str] = {}
    sure: list[str] = []
    for one in chosen:
        for written, is_known in _common_placeholders(one):
            share = one.column.texts[written] / len(one.column.values)
            text = written.removesuffix(".0") if "/".join(one.column.steps) in known.floats else written
            if is_known:
                sure += [] if is_placeholder(text) else [text]
                comments.append(comment(f"{scalar(text)}, {share:.0%} of {one.column.path}, is a placeholder."))
            else:
                suspects[text] = f"{share:.0%} of {one.column.path}"
    certain = f"[{', '.join(map(scalar, dict.fromkeys(sure)))}]"
    if not suspects:
        return (certain if sure else ""), comments
    evidence = "; ".join(f"{scalar(text)}: {share}" for text, share in suspects.items())
    options = (
        Option(f"[{', '.join(map(scalar, dict.fromkeys([*sure, *suspects])))}]", "placeholders, which are passed over"),
        Option(certain, "ids like all others"),
    )
    question = f"these values look like placeholders, not like ids of persons ({evidence})."
    text, lines = known.choose(Choice("placeholders", question, options))
    return ("" if text == "[]" else text), [*comments, *lines]


def _pair(known: Decisions, chosen: list[IdColumn]) -> list[str]:
    """The rule for rows with both a user's id and an id from before the user was known."""
    people = next((one for one in chosen if one.of == USER), None)
    others = next((one for one in known.people if one.of == ANONYMOUS), None)
    if people is None or others is None:
        return []
    user, other = people.column, others.column
    both = _identified(people) & _identified(others)
    users = dict(zip(user.rows, map(values.text, user.values), strict=True))
    owners: dict[str | None, set[str | None]] = {}
    for row, value in zip(other.rows, other.values, strict=True):
        if row in both:
            owners.setdefault(values.text(value), set()).add(users[row])
    if not owners:
        return []
    someone, count = Counter(user for found in owners.values() for user in found).most_common(1)[0]
    alone = sum(len(found) == 1 for found in owners.values()) / len(owners)
    rule = f"{{user: {known.ref(user)}, anonymous: {known.ref(other)}}}"
    evidence = f"{alone:.0%} of {pluralize(len(owners), 'id')} in {other.path} have one {user.path}"
    if len(owners) >= MOST_OF_ONE and count > len(owners) / 2:
        ids = f"{count:,} of {pluralize(len(owners), 'id')} in {other.path}"
        evidence = f"{printable(someone or '', 60)!r} alone has {ids}: is it an account that many people use?"
    elif alone >= 0.9:
        return ["", comment(f"A row with both ids joins them as one person: {evidence}."), f"pair: {rule}"]
    options = (Option("none", evidence), Option(rule, "rows with both ids join them, which cannot be undone"))
    text, lines = known.choose(Choice("pair", f"are {other.path} and {user.path} ids of one person?", options))
    return ["", *lines, comment(f"pair: {rule}") if text == "none" else f"pair: {text}"]
