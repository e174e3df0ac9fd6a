"""The sections of a draft with the person's id, placeholder ids, and the pair of ids that joins two."""

from __future__ import annotations

import re

from pipeline import values
from pipeline.survey import roles
from pipeline.survey.draft.decisions import MOST_OPTIONS, Choice, Decisions, Option, rows_without
from pipeline.survey.draft.scalars import comment, scalar
from pipeline.survey.roles import IdColumn
from pipeline.text import pluralize
from pipeline.validator.placeholder_ids import is_placeholder

_NO_ID = re.compile(
    r"unknown|n/?a|none|nil|test|default|nobody|system|guest|anonymous|visitor-unique-id|account-unique-id|-+|\?+|0+"
    r"|\(?not set\)?|undefined|null",
    re.IGNORECASE,
)
"""Values that trackers write where an id is missing (docs/know/service.md#ids-and-text), and others like them."""
MOST_IDS = 4
COMMON_SHARE = 0.3
"""An id that this share of many rows has is rarely a person."""


def people_sections(known: Decisions) -> str:
    """`distinct_id` and `pair`."""
    chain, question = _chain(known.people)
    texts = {f"[{', '.join(known.ref(one.column) for one in chain)}]": chain} if chain else {}
    options = [Option(text, "the first of these that a row has") for text in texts]
    for one in known.people:
        if len(options) < MOST_OPTIONS and [one] != chain:
            options.append(Option(f"[{known.ref(one.column)}]", one.column.evidence()))
            texts[options[-1].text] = [one]
    if not chain or not chain[0].known:
        name = scalar(f"{known.tool}-rows")
        options.append(Option(f"[{{const: {name}}}]", "every row belongs to one person of this name"))
    text, lines = options[0].text, list[str]()
    if question or "distinct_id" in known.answers:
        text, lines = known.choose(Choice("distinct_id", question, tuple(options), free=True))
        text = text if text.startswith("[") else f"[{text}]"
    chosen = texts.get(text) or [one for one in known.people if text == f"[{known.ref(one.column)}]"]
    if chosen:
        known.dropped.append(chosen[0].column.steps)
    placeholders, comments = _placeholders(known, chosen)
    ids = f"{{first: {text}, junk: {placeholders}}}" if placeholders else text
    head = ["", "# The person's id: the first of these that a row has and that is no placeholder such as null.", *lines]
    return "\n".join([*head, *comments, f"distinct_id: {ids}", *_pair(known, chosen)])


def _chain(people: list[IdColumn]) -> tuple[list[IdColumn], str]:
    """The ids that together cover the most rows, and the question that they leave open, "" for none."""
    if not people or not people[0].known:
        return people[:1], "no column is named like the id of a person. Choose the column, or one person for all rows."
    chain, missing = people[:1], rows_without(people[0].column)
    for one in people[1:]:
        if missing & set(one.column.rows) and len(chain) < MOST_IDS:
            chain.append(one)
            missing -= set(one.column.rows)
    if missing:
        share = len(missing) / people[0].column.of
        return chain, f"{share:.0%} of the rows have none of these ids and would be rejected."
    if chain[-1].of == roles.SESSION:
        return chain, "a session is no person: its rows are one person for as long as the session lasts."
    if sum(one.of in (roles.USER, roles.EMAIL) for one in chain) > 1:
        return chain, "several ids of users stand in for each other: a user who has both becomes two persons."
    return chain, ""


def _placeholders(known: Decisions, chosen: list[IdColumn]) -> tuple[str, list[str]]:
    """The tool's own placeholder ids as a list in YAML, "" for none, and comments."""
    comments: list[str] = []
    suspects: dict[str, str] = {}
    for one in chosen:
        many = len(one.column.values) >= 50 and len(one.column.texts) >= 10
        for text, count in one.column.texts.most_common(5):
            share = count / len(one.column.values)
            if is_placeholder(text):
                comments.append(comment(f"{scalar(text)}, {share:.0%} of {one.column.path}, is a placeholder."))
            elif one.of != roles.SESSION and (_NO_ID.fullmatch(text) or (many and share > COMMON_SHARE)):
                suspects[text] = f"{share:.0%} of {one.column.path}"
    if not suspects:
        return "", comments
    evidence = "; ".join(f"{scalar(text)}: {share}" for text, share in suspects.items())
    options = (
        Option(f"[{', '.join(map(scalar, suspects))}]", "placeholders, which are passed over"),
        Option("[]", "ids like all others"),
    )
    question = f"these values look like placeholders and not like ids of persons ({evidence})."
    text, lines = known.choose(Choice("placeholders", question, options))
    return ("" if text == "[]" else text), [*comments, *lines]


def _pair(known: Decisions, chosen: list[IdColumn]) -> list[str]:
    """The rule for rows with the id of a user and one from before the user was known."""
    user = next((one.column for one in chosen if one.of == roles.USER), None)
    other = next((one.column for one in known.people if one.of == roles.ANONYMOUS), None)
    if user is None or other is None:
        return []
    users = dict(zip(user.rows, map(values.text, user.values), strict=True))
    owners: dict[str | None, set[str | None]] = {}
    for row, value in zip(other.rows, other.values, strict=True):
        if row in users:
            owners.setdefault(values.text(value), set()).add(users[row])
    if not owners:
        return []
    alone = sum(len(found) == 1 for found in owners.values()) / len(owners)
    rule = f"{{user: {known.ref(user)}, anonymous: {known.ref(other)}}}"
    evidence = f"{alone:.0%} of {pluralize(len(owners), 'id')} in {other.path} have one {user.path}"
    if alone >= 0.9:
        return ["", comment(f"A row with both ids joins them to one person: {evidence}."), f"pair: {rule}"]
    options = (Option("none", evidence), Option(rule, "rows with both ids join them, which cannot be undone"))
    text, lines = known.choose(Choice("pair", f"do {other.path} and {user.path} show one person?", options))
    return ["", *lines, comment(f"pair: {rule}") if text == "none" else f"pair: {text}"]
