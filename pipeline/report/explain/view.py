"""What became of a row, an event or a person, for people: on a terminal, and the rows of a plan's sample as a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from pipeline.mask import MASK
from pipeline.plan.samples.source_pairs import SourcePairs
from pipeline.plan.sealed.manifest import Plan, ReplayedPlan
from pipeline.plan.settled import ALREADY_SETTLED
from pipeline.report.explain.result import Copy, ExplainedEvent, ExplainedRow, Explanation, InRequest, Person, Update
from pipeline.report.pairs import PairRow
from pipeline.report.rejects import place_of
from pipeline.report.terminal.tables import show_more, show_table
from pipeline.report.wording import DECISIONS, decided_because, state_in_words
from pipeline.text import are, pluralize, printable, quoted
from pipeline.validator.codes import meaning

MOST_NAMES = 10
_WIDE = 400
_OUTCOMES = {
    "left out": "is left out",
    "rejected": "is rejected",
    "skipped": "is skipped: no event is made of it",
    "update": "makes no event: it states a merge, a profile or a group",
    "no event": "makes no event: it is skipped, or it states a merge, a profile or a group",
}
_KINDS = {"identities": "merge", "groups": "update", "persons": "profile update"}


def show_explanation(console: Console, found: Explanation, plan: Plan, directory: str) -> None:
    """Everything that was found, from the row to its people."""
    _line(console, _state(found))
    for row in found.rows:
        _show_row(console, row, found, plan, directory)
    for update in found.updates:
        _line(console, f"{_update(update)}.", style="bold")
        _line(console, _request(update.request, found), 2)
    for person in found.persons:
        _show_person(console, person, found, plan)
    for sentence in masks(found, plan):
        _line(console, sentence, style="dim")


def _state(found: Explanation) -> str:
    where = {"send": f"States are those at {found.to}.", "rehearse": "States are those of the rehearsal."}
    return f"Plan: {state_in_words(found.state, found.refused)}. {where.get(found.ledger, 'Nothing was sent yet.')}"


def masks(found: Explanation, plan: Plan) -> Iterator[str]:
    """What is masked, and how it is shown."""
    if any(row.events or row.rejects for row in found.rows) and (flags := _flags(found)):
        yield f"{MASK} stands for what {flags} shows."
    pairs = plan.source_pairs
    if isinstance(pairs, SourcePairs) and any(row.sampled for row in found.rows) and (flags := _flags(pairs)):
        yield f"The plan has the rows of its sample masked: to see their fields, plan again with {flags}."


def _flags(shown: Explanation | SourcePairs) -> str:
    """The options that show what is masked."""
    return " ".join(flag for flag, is_ in (("--show-values", shown.values), ("--show-ids", shown.ids)) if not is_)


def _show_row(console: Console, row: ExplainedRow, found: Explanation, plan: Plan, directory: str) -> None:
    for sentence in outcome(row):
        _line(console, sentence, style="bold" if sentence.startswith(row.file) else "")
    if row.outcome in ("skipped", "no event"):
        codes = [(count, code, meaning(code)) for code, count in row.codes.items()]
        show_table(console, {"#rows of the plan": 0, "code": 80, "what it means": _WIDE}, codes)
    for reject in row.rejects:
        _line(console, f"{reject.code}: {meaning(reject.code)} ({place_of(reject)}): {reject.detail}", 2)
        _line(console, reject.record, 4)
    if row.rejects:
        _line(console, f"What to do: correct the row or the mapping, and plan again{_replayed(found)}.", 2)
    if not row.sampled:
        _show_where(console, row, plan, directory)
    for event in row.events:
        _show_event(console, event, found, plan)
    if row.more_events:
        show_more(console, row.more_events, "event")
    shown = {(pair.anonymous_id, pair.user_id) for person in found.persons for pair in person.pairs}
    _show_pairs(console, [one for one in row.pairs if (one.anonymous_id, one.user_id) not in shown], plan)


def outcome(row: ExplainedRow) -> Iterator[str]:
    """What became of a row, in sentences."""
    becomes = f"becomes {pluralize(len(row.events) + row.more_events, 'event')}"
    if (left_out := sum(1 for event in row.events if event.code)) and not row.more_events:
        becomes += f", of which {left_out:,} {are(left_out)} left out"
    yield f"{row.file}, row {row.row:,} {_OUTCOMES.get(row.outcome, becomes)}."
    if row.outcome in ("skipped", "no event") and row.codes:
        if row.outcome == "skipped" and len(row.codes) == 1:
            yield "Its code:"
        else:
            yield "A plan counts skipped rows and does not name them. If it is skipped, its code is one of:"
    elif row.outcome == "update" and not row.pairs:
        yield "A plan does not say which: profiles and groups are made of all rows about them."


def _show_where(console: Console, row: ExplainedRow, plan: Plan, directory: str) -> None:
    """Where the text and the rules of a row are, if the plan does not have them."""
    commands = [("The row in the export:", row.look)]
    if not row.rejects:
        held = plan.source_pairs.pairs if isinstance(plan.source_pairs, SourcePairs) else 0
        held_of = f"The plan has the text and rules of {pluralize(held, 'row')} (plan --pairs)"
        _line(console, f"{held_of}; this one is not among them.", 2)
        like = row.like and f"backcast explain {quoted(directory)} {quoted(row.like)}"
        commands.append(("A row with the same event name, with its rules:", like))
    for title, command in commands:
        if command:
            _line(console, title, 2)
            console.print(Text(f"    {printable(command, 4_000)}", style="bold"), soft_wrap=True)


def _show_event(console: Console, event: ExplainedEvent, found: Explanation, plan: Plan) -> None:
    nth = f"Event {event.position + 1}" if event.position else "Event"
    _line(console, f"{nth}: {event.event}, {event.distinct_id}, {event.timestamp}, uuid {event.uuid}", style="bold")
    for sentence in event_words(event, found, plan):
        _line(console, sentence, 2)
    fields = [(one.field, one.value, f"left out: {one.by}" if one.by else _names(one.to)) for one in event.fields]
    show_table(console, {"field of the row": 60, "value": _WIDE, "goes to": 120}, fields)
    if event.more_fields:
        show_more(console, event.more_fields, "field")
    rows = [
        (one.name, one.value, _origin(one.fields, one.rule, one.line)) for one in (*event.members, *event.properties)
    ]
    columns = {"property": 60, "value as sent": _WIDE} | ({"from; rule": 200} if event.members else {})
    show_table(console, columns, [row[: len(columns)] for row in rows])
    if event.more_properties:
        show_more(console, event.more_properties, "property")


def event_words(event: ExplainedEvent, found: Explanation, plan: Plan) -> Iterator[str]:
    """What became of an event, the mapping's rule for its name, its copies and its verification, in sentences."""
    if event.code:
        yield f"Left out: {event.code}: {meaning(event.code)}{event.detail and f' ({event.detail})'}"
    else:
        yield _request(event.request, found)
    if event.event_rule:
        line = next((one.line for one in event.members if one.name == "event"), 0)
        text_of = plan.mapping.text.splitlines()[line - 1].strip() if line else ""
        yield f"By the rule for {event.event_rule}" + (f", line {line} of the mapping: {text_of}" if line else "")
    yield from _copies(event)
    if event.code == ALREADY_SETTLED and isinstance(plan.replays, ReplayedPlan):
        yield f"It was sent by: backcast explain {quoted(plan.replays.directory)} {event.uuid}"
    if event.request is not None and event.request.state == "refused":
        yield f"What to do: correct the row or the mapping, and plan again{_replayed(found)}."
    if event.difference:
        yield f"The last verification found it: {event.difference}"


def _replayed(found: Explanation) -> str:
    """How only what a sent plan did not deliver is planned again."""
    return f" with --replay {quoted(found.plan)}, which sends only what was not" if found.ledger == "send" else ""


def _copies(event: ExplainedEvent) -> Iterator[str]:
    sent = [copy for copy in event.copies if not copy.code]
    if event.code and sent:
        yield f"Sent in its place: {_place(sent[0])}, uuid {sent[0].uuid}"
    elif sent:
        yield f"Identical rows, each sent as an event of its own: {_names(map(_place, sent))}"
    left_out = [copy for copy in event.copies if copy.code]
    if left_out:
        yield f"Copies that are left out: {_names(f'{_place(one)} ({one.code})' for one in left_out)}"
    if event.more_copies:
        yield f"{pluralize(event.more_copies, 'further event')} of the same key"


def _request(one: InRequest | None, found: Explanation) -> str:
    """The request of an event and its state."""
    if one is None:
        return "It is in no request."
    canary = " (canary)" if one.canary else ""
    where = f"Request {one.request:,} of the phase {one.phase}{canary}, event {one.place + 1:,} of {one.events:,}"
    if one.state == "not sent":
        return f"{where}: not sent{' yet' if found.ledger else ''}."
    status = f", status {one.status}" if one.status else ""
    tries = f", {one.tries:,} tries" if one.tries > 1 else ""
    rehearsed = " in the rehearsal" if found.ledger == "rehearse" else ""
    detail = f": {one.detail}" if one.detail else ""
    return f"{where}: {one.state}{rehearsed} at {one.at}{status}{tries}{detail}."


def _show_person(console: Console, person: Person, found: Explanation, plan: Plan) -> None:
    _line(console, f"Person of {pluralize(len(person.ids), 'id')}: {_names(person.ids)}", style="bold")
    if person.excluded:
        _line(console, "The id is in --exclude-ids: its rows are left out (excluded_id) and not listed.", 2)
    if person.first:
        words = ", ".join(f"{count:,} {name}" for name, count in (*person.events.items(), *person.left_out.items()))
        _line(console, f"Events of {person.ids[0]} from {person.first} to {person.last}: {words}", 2)
        rows = [(copy.file, copy.row, copy.uuid, copy.code) for copy in person.rows]
        show_table(console, {"file": 200, "#row": 0, "uuid": 40, "left out": 80}, rows)
    _show_pairs(console, person.pairs, plan)
    for update in person.updates:
        _line(console, f"{_update(update)}. {_request(update.request, found)}", 2)


def _show_pairs(console: Console, pairs: Sequence[PairRow], plan: Plan) -> None:
    columns = {"id": 200, "and": 200, "": 60, "why": 200, "first in": 300}
    show_table(console, columns, [
        (pair.anonymous_id, pair.user_id, DECISIONS.get(pair.decision, pair.decision),
         decided_because(pair.reason, plan), pair.where)
        for pair in pairs
    ])  # fmt: skip


def _update(one: Update) -> str:
    kind, place = _KINDS[one.phase].capitalize(), f"line {one.line:,} of {one.file} in the plan"
    if one.other:
        return f"{kind}: {one.distinct_id} absorbs {one.other}, dated {one.timestamp}, {place}"
    return f"{kind} of {one.distinct_id}: {_names(one.names)}, dated {one.timestamp}, {place}"


def _origin(fields: Sequence[str], rule: str, line: int) -> str:
    return "; ".join(filter(None, (_names(fields), f"{rule}, line {line}" if line else rule)))


def _place(copy: Copy) -> str:
    return f"{copy.file}, row {copy.row:,}"


def _names(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - MOST_NAMES:,} more" if len(every) > MOST_NAMES else ""
    return ", ".join(every[:MOST_NAMES]) + more


def _line(console: Console, line: str, indent: int = 0, style: str = "") -> None:
    """A line of text of an export; on a terminal what is folded stays indented, in a pipe it is one line."""
    shown = Text(printable(line, 4_000), style=style, overflow="fold")
    if console.is_terminal and indent:
        console.print(Padding(shown, (0, 0, 0, indent), expand=False))
    else:
        console.print(Text(" " * indent) + shown, soft_wrap=not console.is_terminal)


def show_sample(console: Console, found: Explanation, plan: Plan, path: str) -> None:
    """Where the page is, and how it has more rows."""
    kinds = plan.source_pairs.kinds if isinstance(plan.source_pairs, SourcePairs) else 0
    rows = pluralize(len(found.rows), "row")
    _line(console, f"{rows} of {pluralize(kinds, 'event name')} and years: {path}")
    _line(console, "More rows: plan again with --pairs N.")


def render_sample(found: Explanation, plan: Plan) -> str:
    """The page as text: self-contained, without scripts."""
    from pipeline.report.page.html import NAME_CHARACTERS, rendered

    names: dict[str, list[ExplainedRow]] = {}
    for row in found.rows:
        events = sorted(row.events, key=lambda event: not event.members)
        names.setdefault(events[0].event if events else "", []).append(row)
    return rendered(
        "explain.html.j2", found=found, plan=plan, names=names, state=_state(found), words=event_words,
        masks=list(masks(found, plan)), decisions=DECISIONS, because=decided_because, most=MOST_NAMES,
        plain_name=printable(found.plan, NAME_CHARACTERS),
    )  # fmt: skip
