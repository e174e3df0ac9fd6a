"""Two plans compared, for people: on a terminal, at most 40 lines with the worst first, and as a page."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from pipeline.charts.bars import bar
from pipeline.charts.timeline import timeline
from pipeline.mask import MASK
from pipeline.plan.diff.result import CodeChange, Diff, PropertyChange, Setting, Shift
from pipeline.plan.sealed.directory import EVENTS
from pipeline.report.terminal.tables import show_more, show_table, text
from pipeline.text import plural, pluralize, some_of
from pipeline.validator.codes import meaning

MOST_LINES = 40
_NAMES = {
    "identities": "merges",
    "groups": "group updates",
    "events": "events",
    "persons": "profile updates",
}
_WHAT = {
    "event": "event name",
    "distinct_id": "person",
    "timestamp": "time",
    "day": "UTC day",
    "properties": "properties",
    "order": "order of properties only",
}
_QUIET = frozenset(("option as_of",))
"""Settings that differ between any two plans."""


def show_diff(console: Console, diff: Diff) -> None:
    """The differences, the worst first, in at most 40 lines."""
    with console.capture() as captured:
        _show(console, diff)
    lines = captured.get().splitlines()
    if len(lines) > MOST_LINES:
        more = (
            f"{len(lines) - MOST_LINES + 1:,} more lines: --html FILE writes a page with everything, --json an object"
        )
        lines[MOST_LINES - 1 :] = [more]
    for line in lines:
        console.print(Text.from_ansi(line), soft_wrap=True)


def conclusion(diff: Diff) -> str:
    """Whether the plans differ, in one sentence."""
    if diff.equal:
        if not diff.compared:
            return "Equal: both plans recorded the same counts and digests."
        return "Equal: applying either plan sends the same events."
    if not diff.compared:
        return "Different: the plans recorded other counts or digests. Their events were not compared (--counts)."
    phases = [_phase_sentence(diff, phase) for phase in diff.phases]
    found = [sentence for sentence in phases if sentence]
    return (
        f"Different: {'; '.join(found)}." if found else "Different: only the counts of skipped or rejected rows differ."
    )


def _phase_sentence(diff: Diff, phase: str) -> str:
    one = diff.phases[phase]
    counts = (("changed", one.changed), ("only in A", one.only_a), ("only in B", one.only_b))
    shown = [(count, name) for name, count in counts if count]
    if not shown:
        return ""
    (first, name), *others = shown
    noun = _NAMES[phase].removesuffix("s")
    return ", ".join([f"{pluralize(first, noun)} {name}", *(f"{count:,} {name}" for count, name in others)])


def consequences(diff: Diff) -> list[tuple[int, str]]:
    """What applying B would do to a target that has all of A: counts and what each means, the worst first."""
    found = diff.consequences
    if found is None:
        return []
    merges = diff.phases["identities"]
    one = "true duplicate"
    lines = [
        (found.duplicated, one, ": the uuid is there with another name, person or UTC day, so both stay"),
        (found.rekeyed, one, ": the event of the same row is there under another uuid, so both stay"),
        (merges.only_a - found.merged, "merge", " of A that B does not make; a merge cannot be undone"),
        (merges.only_b, "new merge", "; a merge cannot be undone"),
        (found.left, "event", " of A that B does not have; what is there stays"),
        (found.replaced, "event", " with another content; uuid, name, person and UTC day are equal, so one stays"),
        (found.new, "new event", ""),
        (found.merged, "merge", " of A that B leaves out, because a plan before it sent them"),
    ]
    return [(count, f"{noun if count == 1 else plural(noun)}{words}") for count, noun, words in lines if count]


def settings(diff: Diff) -> list[Setting]:
    """The settings that decide the events and differ; a different instant by itself is not reported."""
    return [one for one in diff.settings if one.name not in _QUIET]


def _show(console: Console, diff: Diff) -> None:
    console.print(Text(conclusion(diff), style="bold green" if diff.equal else "bold yellow"))
    console.print(text(f"A: {diff.a.plan} ({diff.a.mapping}); B: {diff.b.plan} ({diff.b.mapping})", 600))
    if not diff.equal and (worst := consequences(diff)):
        console.print(Text("Applying B to a target that has A:", style="bold"))
        for count, words in worst:
            console.print(Text(f"  {count:,} {words}", style="yellow" if "true duplicates" in words else ""))
    _phases(console, diff)
    if diff.phases[EVENTS].changed:
        changed = [f"{_WHAT[name]} {count:,}" for name, count in diff.changed.items() if count]
        console.print(Text(f"Changed events by what differs: {', '.join(changed)}"))
    for one in diff.renamed[:3]:
        console.print(text(f"  {one.a} → {one.b}: {pluralize(one.events, 'event')}", 200))
    for shift in diff.shifts[:2]:
        console.print(Text(f"  {shift_in_words(shift)}: {pluralize(shift.events, 'event')}"))
    _properties(console, diff)
    _names_and_days(console, diff)
    if diff.persons.count:
        most = diff.persons.most[0]
        counted = f"{pluralize(diff.persons.count, 'distinct_id')} with events that differ"
        which = "" if most.distinct_id == MASK else f" ({most.distinct_id})"
        console.print(text(f"{counted}; the most of one person{which}: {most.events:,}", 200))
    for title, changes in (("Skipped rows", diff.skips), ("Rejected rows", diff.rejects)):
        if changes:
            console.print(text(f"{title}: {_codes(changes)}", 400))
    if found := settings(diff):
        columns = {"differs between the plans": 60, "in A": 200, "in B": 200}
        show_table(console, columns, [(one.name, one.a, one.b) for one in found[:4]])
        if len(found) > 4:
            console.print(Text(f"{len(found) - 4:,} more settings, files and lines of the mapping", style="dim"))


def _phases(console: Console, diff: Diff) -> None:
    names = ["#A", "#B", *(["#same", "#changed", "#only A", "#only B"] if diff.compared else [])]
    show_table(console, {"": 40} | dict.fromkeys(names, 0), [
        (_NAMES[phase], *(one.a, one.b, one.same, one.changed, one.only_a, one.only_b)[: len(names)])
        for phase, one in diff.phases.items()
        if one.a or one.b
    ])  # fmt: skip


def _properties(console: Console, diff: Diff) -> None:
    columns = {"property": 60, "#only in B": 0, "#only in A": 0, "#other value": 0, "for example": 60}
    show_table(console, columns, [
        (property_name(one), one.added, one.removed, one.changed, _example(one))
        for one in diff.properties[:6]
    ])  # fmt: skip
    if diff.properties and (more := diff.totals["properties"] - 6) > 0:
        show_more(console, more, "property")


def _example(one: PropertyChange) -> str:
    return f"{one.examples[0][0] or '–'} → {one.examples[0][1] or '–'}" if one.examples else ""


def property_name(one: PropertyChange) -> str:
    """The name of a property, with the kind of its update if it is not an event's property."""
    name = one.name or "all others"
    return name if one.phase == EVENTS else f"{name} ({_NAMES[one.phase]})"


def _names_and_days(console: Console, diff: Diff) -> None:
    columns = {"event": 80, "#changed": 0, "#only A": 0, "#only B": 0}
    show_table(console, columns, [(one.event, one.changed, one.only_a, one.only_b) for one in diff.names[:5]])
    if diff.names and (more := diff.totals["names"] - 5) > 0:
        show_more(console, more, "event name")
    if diff.days:
        worst = max(diff.days, key=lambda day: day.changed + day.only_a + day.only_b)
        most = worst.changed + worst.only_a + worst.only_b
        span = f"{diff.days[0].day} to {diff.days[-1].day}" if len(diff.days) > 1 else diff.days[0].day
        console.print(Text(f"UTC days that differ: {len(diff.days):,} ({span}), most on {worst.day}: {most:,} events"))


def _codes(changes: Sequence[CodeChange]) -> str:
    return some_of([f"{one.code} {one.a:,} → {one.b:,}" for one in changes], 4)


def shift_in_words(shift: Shift) -> str:
    """`2 h later`, `0.5 s earlier`."""
    if shift.seconds is None:
        return "other shifts"
    size = abs(shift.seconds)
    direction = "later" if shift.seconds > 0 else "earlier"
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if size >= seconds and size % seconds == 0:
            return f"{size / seconds:,.0f} {unit} {direction}"
    return f"{size:,.6f}".rstrip("0").rstrip(".") + f" s {direction}"


def render_diff(diff: Diff) -> str:
    """The page as text: self-contained, without scripts."""
    from pipeline.report.page.html import rendered  # a comparison without a page needs no templates

    days = {one.day: one.changed + one.only_a + one.only_b for one in diff.days}
    most = max((one.changed + one.only_a + one.only_b for one in diff.names), default=0)
    return rendered(
        "diff.html.j2",
        diff=diff,
        masked=all(one.distinct_id == MASK for one in diff.persons.most),
        conclusion=conclusion(diff),
        consequences=consequences(diff),
        settings=settings(diff),
        line=timeline(days, gaps_shown=False),
        names=[(one, bar(one.changed + one.only_a + one.only_b, most)) for one in diff.names],
        changed=[(_WHAT[name], count) for name, count in diff.changed.items() if count],
        phases=[(_NAMES[phase], one) for phase, one in diff.phases.items() if one.a or one.b],
        property_name=property_name,
        shift=shift_in_words,
        codes=[
            (kind, one, meaning(one.code))
            for kind, changes in (("skipped", diff.skips), ("rejected", diff.rejects))
            for one in changes
        ],
    )
