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
from pipeline.report.terminal.tables import show_codes, show_more, show_table
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
_KINDS = {"identities": "Merge", "groups": "Update", "persons": "Profile update"}


class Sentences:
    """What a terminal and a page say of an explanation. `sample` is that of the plan."""

    def __init__(self, found: Explanation, plan: Plan) -> None:
        self.found, self.plan = found, plan
        self.sample = plan.source_pairs if isinstance(plan.source_pairs, SourcePairs) else SourcePairs(0, True, True, 0)

    @property
    def state(self) -> str:
        where = {"send": f"States are those at {self.found.to}.", "rehearse": "States are those of the rehearsal."}
        state = state_in_words(self.found.state, self.found.refused)
        return f"Plan: {state}. {where.get(self.found.ledger, 'Nothing was sent yet.')}"

    @property
    def masks(self) -> Iterator[str]:
        """What is masked, and how it is shown."""
        rows = self.found.rows
        if any(row.events or row.rejects for row in rows) and (flags := _flags(self.found)):
            yield f"{MASK} stands for what {flags} shows."
        if any(row.sampled for row in rows) and (flags := _flags(self.sample)):
            yield f"The plan has the rows of its sample masked: to see their fields, plan again with {flags}."

    def of_row(self, row: ExplainedRow) -> Iterator[str]:
        """What became of a row."""
        becomes = f"becomes {pluralize(len(row.events) + row.more_events, 'event')}"
        if (left_out := sum(1 for event in row.events if event.code)) and not row.more_events:
            becomes += f", of which {left_out:,} {are(left_out)} left out"
        yield f"{row.file}, row {row.row:,} {_OUTCOMES.get(row.outcome, becomes)}."
        if row.outcome == "skipped" and len(row.codes) == 1:
            yield "Its code:"
        elif row.codes:
            yield "A plan counts skipped rows and does not name them. If it is skipped, its code is one of:"
        elif row.outcome == "update" and not row.pairs:
            yield "A plan does not say which: profiles and groups are made of all rows about them."

    def of_event(self, event: ExplainedEvent) -> Iterator[str]:
        """What became of an event, the mapping's rule for its name, its copies and its verification."""
        if event.code:
            yield f"Left out: {event.code}: {meaning(event.code)}{event.detail and f' ({event.detail})'}"
        else:
            yield self.of_request(event.request)
        if event.event_rule:
            line = next((one.line for one in event.members if one.name == "event"), 0)
            text_of = self.plan.mapping.text.splitlines()[line - 1].strip() if line else ""
            yield f"By the rule for {event.event_rule}" + (f", line {line} of the mapping: {text_of}" if line else "")
        sent = [copy for copy in event.copies if not copy.code]
        if event.code and sent:
            yield f"Sent in its place: {_place(sent[0])}, uuid {sent[0].uuid}"
        elif sent:
            yield f"Identical rows, each sent as an event of its own: {_names(map(_place, sent))}"
        if left_out := [f"{_place(copy)} ({copy.code})" for copy in event.copies if copy.code]:
            yield f"Copies that are left out: {_names(left_out)}"
        if event.more_copies:
            yield f"{pluralize(event.more_copies, 'further event')} of the same key"
        if event.code == ALREADY_SETTLED and isinstance(self.plan.replays, ReplayedPlan):
            yield f"It was sent by: backcast explain {quoted(self.plan.replays.directory)} {event.uuid}"
        if event.request is not None and event.request.state == "refused":
            yield self.correct
        if event.difference:
            yield f"The last verification found it: {event.difference}"

    @property
    def correct(self) -> str:
        """What to do about a row that is rejected or refused, and how only what was not sent is planned again."""
        replay = f" with --replay {quoted(self.found.plan)}, which sends only what was not"
        again = replay if self.found.ledger == "send" else ""
        return f"What to do: correct the row or the mapping, and plan again{again}."

    def of_request(self, one: InRequest | None) -> str:
        """The request of an event and its state."""
        if one is None:
            return "It is in no request."
        canary = " (canary)" if one.canary else ""
        where = f"Request {one.request:,} of the phase {one.phase}{canary}, event {one.place + 1:,} of {one.events:,}"
        if one.state == "not sent":
            return f"{where}: not sent{' yet' if self.found.ledger else ''}."
        status = f", status {one.status}" if one.status else ""
        tries = f", {one.tries:,} tries" if one.tries > 1 else ""
        rehearsed = " in the rehearsal" if self.found.ledger == "rehearse" else ""
        detail = f": {one.detail}" if one.detail else ""
        return f"{where}: {one.state}{rehearsed} at {one.at}{status}{tries}{detail}."

    def because(self, pair: PairRow) -> tuple[str, str]:
        """The decision on a pair of ids, and why."""
        return DECISIONS.get(pair.decision, pair.decision), decided_because(pair.reason, self.plan)


def show_explanation(console: Console, found: Explanation, plan: Plan, directory: str, page: object = None) -> None:
    """Everything that was found, from the row to its people; with a `page` that shows it, where that is."""
    said = Sentences(found, plan)
    if page is not None:
        names = pluralize(said.sample.kinds, "event name")
        _line(console, f"{pluralize(len(found.rows), 'row')} of {names} and years: {page}")
        _line(console, "More rows: plan again with --pairs N.")
        return
    _line(console, said.state)
    for row in found.rows:
        _show_row(console, row, said, directory)
    for update in found.updates:
        _line(console, _update(update), style="bold")
        _line(console, said.of_request(update.request), 2)
    for person in found.persons:
        _show_person(console, person, said)
    for sentence in said.masks:
        _line(console, sentence, style="dim")


def _flags(shown: Explanation | SourcePairs) -> str:
    """The options that show what is masked."""
    return " ".join(flag for flag, is_ in (("--show-values", shown.values), ("--show-ids", shown.ids)) if not is_)


def _show_row(console: Console, row: ExplainedRow, said: Sentences, directory: str) -> None:
    for nth, sentence in enumerate(said.of_row(row)):
        _line(console, sentence, style="" if nth else "bold")
    show_codes(console, "rows of the plan", row.codes, {})
    for reject in row.rejects:
        _line(console, f"{reject.code}: {meaning(reject.code)} ({place_of(reject)}): {reject.detail}", 2)
        _line(console, reject.record, 4)
    if row.rejects:
        _line(console, said.correct, 2)
    elif not row.sampled:
        has = f"The plan has the text and rules of {pluralize(said.sample.pairs, 'row')} (plan --pairs)"
        _line(console, f"{has}; this one is not among them.", 2)
    if not row.sampled:
        _show_command(console, "The row in the export:", row.look)
        like = f"backcast explain {quoted(directory)} {quoted(row.like)}" if row.like else ""
        _show_command(console, "A row with the same event name, with its rules:", like)
    for event in row.events:
        _show_event(console, event, said)
    show_more(console, row.more_events, "event")
    shown = {(pair.anonymous_id, pair.user_id) for person in said.found.persons for pair in person.pairs}
    _show_pairs(console, [one for one in row.pairs if (one.anonymous_id, one.user_id) not in shown], said)


def _show_event(console: Console, event: ExplainedEvent, said: Sentences) -> None:
    nth = f"Event {event.position + 1}" if event.position else "Event"
    _line(console, f"{nth}: {event.event}, {event.distinct_id}, {event.timestamp}, uuid {event.uuid}", style="bold")
    for sentence in said.of_event(event):
        _line(console, sentence, 2)
    fields = [(one.field, one.value, f"left out: {one.by}" if one.by else _names(one.to)) for one in event.fields]
    show_table(console, {"field of the row": 60, "value": _WIDE, "goes to": 120}, fields)
    show_more(console, event.more_fields, "field")
    columns = {"property": 60, "value as sent": _WIDE} | ({"from; rule": 200} if event.members else {})
    rows = []
    for one in (*event.members, *event.properties):
        origin = (_names(one.fields), f"{one.rule}, line {one.line}" if one.line else one.rule)
        rows.append((one.name, one.value, "; ".join(filter(None, origin)))[: len(columns)])
    show_table(console, columns, rows)
    show_more(console, event.more_properties, "property")


def _show_person(console: Console, person: Person, said: Sentences) -> None:
    _line(console, f"Person of {pluralize(len(person.ids), 'id')}: {_names(person.ids)}", style="bold")
    if person.excluded:
        _line(console, "The id is in --exclude-ids: its rows are left out (excluded_id) and not listed.", 2)
    if person.first:
        words = ", ".join(f"{count:,} {name}" for name, count in (*person.events.items(), *person.left_out.items()))
        _line(console, f"Events of {person.ids[0]} from {person.first} to {person.last}: {words}", 2)
        rows = [(copy.file, copy.row, copy.uuid, copy.code) for copy in person.rows]
        show_table(console, {"file": 200, "#row": 0, "uuid": 40, "left out": 80}, rows)
    _show_pairs(console, person.pairs, said)
    for update in person.updates:
        _line(console, f"{_update(update)} {said.of_request(update.request)}", 2)


def _show_pairs(console: Console, pairs: Sequence[PairRow], said: Sentences) -> None:
    rows = [(pair.anonymous_id, pair.user_id, *said.because(pair), pair.where) for pair in pairs]
    show_table(console, {"id": 200, "and": 200, "": 60, "why": 200, "first in": 300}, rows)


def _update(one: Update) -> str:
    what = f"{one.distinct_id} absorbs {one.other}" if one.other else f"of {one.distinct_id}: {_names(one.names)}"
    kind = f"{_KINDS[one.phase]}{':' if one.other else ''}"
    return f"{kind} {what}, dated {one.timestamp}, line {one.line:,} of {one.file} in the plan."


def _place(copy: Copy) -> str:
    return f"{copy.file}, row {copy.row:,}"


def _names(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - MOST_NAMES:,} more" if len(every) > MOST_NAMES else ""
    return ", ".join(every[:MOST_NAMES]) + more


def _show_command(console: Console, title: str, command: str) -> None:
    """A command that is one line, to copy; nothing without one."""
    if command:
        _line(console, title, 2)
        console.print(Text(f"    {printable(command, 4_000)}", style="bold"), soft_wrap=True)


def _line(console: Console, line: str, indent: int = 0, style: str = "") -> None:
    """A line of text of an export; on a terminal what is folded stays indented, in a pipe it is one line."""
    shown = Text(printable(line, 4_000), style=style, overflow="fold")
    if console.is_terminal and indent:
        console.print(Padding(shown, (0, 0, 0, indent), expand=False))
    else:
        console.print(Text(" " * indent) + shown, soft_wrap=not console.is_terminal)


def render_sample(found: Explanation, plan: Plan) -> str:
    """The page as text: self-contained, without scripts."""
    from pipeline.report.page.html import NAME_CHARACTERS, rendered

    names: dict[str, list[ExplainedRow]] = {}
    for row in found.rows:
        events = sorted(row.events, key=lambda event: not event.members)
        names.setdefault(events[0].event if events else "", []).append(row)
    title = printable(found.plan, NAME_CHARACTERS)
    return rendered(
        "explain.html.j2", found=found, names=names, said=Sentences(found, plan), most=MOST_NAMES, plain_name=title
    )
