"""Ids, groups and persons of a plan on a terminal: a few lines and short tables; report.html has the longer ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

from pipeline.plan.manifest import PartnersSeal, Plan
from pipeline.report import people
from pipeline.report.tables import number, table, text
from pipeline.text import pluralize

MOST = 5
"""Rows of each table of ids."""
MOST_NAMES = 10
ID_CHARACTERS = 80


def show_people(console: Console, plan: Plan, *, directory: str = "") -> None:
    """What a plan does to people: merges, groups, profiles. One line where it does nothing."""
    if people.nothing(plan):
        console.print(Text(" ".join((people.NOTHING, *people.profiles_sentences(plan)))))
    else:
        _identities(console, plan, directory)
        _groups(console, plan)
        _persons(console, plan)
        for sentence in people.profiles_sentences(plan):
            console.print(Text(sentence))
    _promoted(console, plan)


def _identities(console: Console, plan: Plan, directory: str) -> None:
    console.print(Text(people.identities_sentence(plan)))
    found = plan.people.identities
    if found.decisions:
        made = table("pairs of ids", "#count", "why")
        for one in people.decisions(plan):
            made.add_row(text(one.what, 80), number(one.seal.pairs), Text(one.why, style="dim"))
        console.print(made)
    if found.largest:
        made = table("largest persons", "#ids", "some of the others")
        for cluster in found.largest[:MOST]:
            some = ", ".join(text(one, ID_CHARACTERS).plain for one in cluster.some)
            more = cluster.ids - 1 - len(cluster.some)
            others = f"{some} and {more:,} more" if more > 0 else some
            made.add_row(text(cluster.canonical, ID_CHARACTERS), number(cluster.ids), Text(others, overflow="fold"))
        console.print(made)
        if more := people.more_persons(plan, min(MOST, len(found.largest))):
            console.print(Text(f"and {pluralize(more, 'more person')} of several ids", style="dim"))
    _partners(console, "ids of several users", "users", found.shared)
    _partners(console, "users of several ids", "ids", found.crowded)
    if approval := people.approval(plan):
        console.print(Text(f"{approval}.", style="bold yellow"))
        console.print(Text(f"Each pair with its place: {directory or 'DIR'}/identities.parquet", style="dim"))


def _partners(console: Console, what: str, unit: str, found: Sequence[PartnersSeal]) -> None:
    if not found:
        return
    made = table(what, f"#{unit}", "#rows")
    for one in found[:MOST]:
        made.add_row(text(one.id, ID_CHARACTERS), number(one.partners), number(one.events))
    console.print(made)
    if len(found) > MOST:
        console.print(Text(f"and {len(found) - MOST:,} more in the report", style="dim"))


def _groups(console: Console, plan: Plan) -> None:
    found = plan.people.groups
    console.print(Text(people.groups_sentence(plan)))
    if found.types:
        made = table("group type", "#rows", "")
        for one in people.group_types(plan)[:MOST_NAMES]:
            made.add_row(text(one.type, ID_CHARACTERS), number(one.rows), one.place)
        console.print(made)
        if len(found.types) > MOST_NAMES:
            console.print(Text(f"and {len(found.types) - MOST_NAMES:,} more", style="dim"))
    _left_out(console, "groups left out", found.left_out)


def _persons(console: Console, plan: Plan) -> None:
    found = plan.people.persons
    console.print(Text(people.persons_sentence(plan)))
    if found.names:
        _names(console, "person property", "persons", people.bounded(found.names, MOST_NAMES, found.properties))
    _left_out(console, "profiles left out", found.left_out)


def _promoted(console: Console, plan: Plan) -> None:
    if sentence := people.promoted_sentence(plan):
        console.print(Text(sentence))
        found = people.bounded(plan.people.profiles.promoted, MOST_NAMES)
        _names(console, "property of events", "events", found)


def _names(console: Console, title: str, unit: str, found: people.Bounded) -> None:
    made = table(title, f"#{unit}")
    for name, count in found.shown:
        made.add_row(text(name, 120), number(count))
    if found.more:
        made.add_row(Text(found.more, style="dim"), number(found.rest))
    console.print(made)


def _left_out(console: Console, title: str, counts: Mapping[str, int]) -> None:
    if not counts:
        return
    made = table(title, "#count", "what it means")
    for code, count, why in people.left_out(counts):
        made.add_row(text(code, 80), number(count), Text(why, style="dim"))
    console.print(made)
