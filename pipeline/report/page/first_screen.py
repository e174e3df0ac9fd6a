"""The first screen of the page: what the person who signs a plan reads in two minutes."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import NamedTuple

import msgspec

from pipeline.charts.bars import months_between, sparkline
from pipeline.charts.timeline import Timeline, timeline
from pipeline.errors import UsageError
from pipeline.models import Finding
from pipeline.plan.sealed.manifest import Plan, as_name
from pipeline.report.contents import OTHERS, Report, duplicates_of, latest_canary, not_merged, phases_of
from pipeline.report.page.check_words import chapter_of, command_of, in_one_line
from pipeline.report.state import NextStep, next_step
from pipeline.report.verification_words import by_kind, listed
from pipeline.report.wording import advice_of, mapping_of, mood_of, state_in_words, to_check, zone_proof
from pipeline.targets import address_of, is_loopback, region_of
from pipeline.text import plural, pluralize, quoted

MOST_OPEN = 2
"""Up to as many checks are open; of more, those that stop the plan."""
MOST_LINES = 10
"""Checks with a line on the first screen; the lines of more are folded together, so that it stays one screen."""
MOST_NAMES = 12
"""Names next to their pictures; names that differ from one of them in case or spaces are shown with it."""
MOST_FOLDED = 50
_REGIONS = {"us": "US", "eu": "EU"}
GENERIC = "generic"
"""The tool of the mapping for tables of one's own."""
_TITLE = re.compile(r"""^title: *("[^"\n]*"|'[^'\n]*'|[^"'#\n].*?)(?: +#.*)?$""", re.MULTILINE)
_ASIDE = re.compile(r",| \(")
"""What follows it in a title says which files are meant."""
_INITIALS = re.compile(r"(?<=[A-Za-z])[A-Za-z]+| ")
_SEPARATORS = re.compile(r"[\s_\-.:]+")
SENT = ("sent", "sent-with-refusals", "verified", "differs")

SENTENCES = {
    "not-ready": "Apply refuses this plan until what failed is fixed. It can be rehearsed. {}",
    "ready": "Nothing was sent yet. {}",
    "rehearsed": "The whole import ran against the local service on this machine; nothing was sent to the target yet."
    " {}",
    "sending": "A run is sending this plan now.",
    "stopped": "Some events were sent, others were not. Apply resumes without sending one twice.",
    "sent": "Every planned event was accepted. What landed was not compared yet.",
    "sent-with-refusals": "The target refused some events; they did not land. All others were accepted.",
    "verified": "Every planned event was found once at the target.",
    "differs": "What was found at the target is not what was sent.",
}
"""What each state means, in one sentence. `{}` is what sending does for good."""
_FOR_GOOD = "Once sent, events cannot be deleted, and the names of properties stay stored."
_FOR_GOOD_WITH_MERGES = (
    "Once sent, events cannot be deleted, the names of properties stay stored, and merged identities cannot be"
    " separated."
)


class Problem(NamedTuple):
    """Something to check. `line` is shown until a person opens it; `remedy` is text and code in turns, beginning with
    text; `command` can be "", and so can `chapter`, the title of the chapter that has more."""

    check: Finding
    line: str
    open: bool
    remedy: list[str]
    command: str
    chapter: str


class Banner(NamedTuple):
    """The state of the plan; `mood` is a class of the style sheet. `checks` are the weightiest, `more` the others."""

    title: str
    mood: str
    sentence: str
    checks: list[Problem]
    more: list[Problem]


class Tile(NamedTuple):
    """A number with its unit, and a note under it."""

    value: str
    unit: str
    note: str = ""
    mood: str = ""


class Mood(NamedTuple):
    """A string, and a class of the style sheet for it, which can be ""."""

    text: str
    mood: str = ""


class EventName(NamedTuple):
    """A name with its events by month; `variant` if it is shown with a name that differs in case or spaces."""

    name: str
    events: int
    share: str
    first: str
    last: str
    months: str
    variant: bool


class Names(NamedTuple):
    """The most frequent names, the others that have days, and how many events the names beyond have."""

    shown: list[EventName]
    folded: list[EventName]
    more: int
    more_events: int


class FirstScreen(NamedTuple):
    """Everything on the first screen, in its order; the sections of the registry are next to the names."""

    title: str
    target: Mood
    zone: str
    banner: Banner
    tiles: list[tuple[str, list[Tile]]]
    total: str
    timeline: Timeline | None
    names: Names
    next: NextStep


def first_screen(report: Report) -> FirstScreen:
    plan = report.plan
    return FirstScreen(
        _tool(plan),
        target_of(report),
        zone_proof(plan),
        _banner(report),
        _tiles(report),
        _total(report),
        timeline(report.days),
        _names(report),
        next_step(report),
    )


def _tool(plan: Plan) -> str:
    """The tool by the name that its makers use, if the title of the mapping begins with it: `Google Analytics 4`.
    Otherwise the title of the mapping; for a table whose columns the command line names, its file."""
    if plan.tool == GENERIC:
        files = {as_name(part.file) for part in plan.parts}
        return files.pop().rsplit("/", 1)[-1] if len(files) == 1 else f"your own tables ({len(files):,} files)"
    found = _TITLE.search(plan.mapping.text)
    title = _ASIDE.split(found[1].strip("\"'"))[0].strip() if found else ""
    words = takewhile(lambda word: any(one.isupper() or one.isdigit() for one in word), title.split())
    name = " ".join(words).removesuffix("'s")
    joined, initials = (
        re.sub(r"[^a-z0-9]", "", text.lower()) for text in (name.split(" ")[0], _INITIALS.sub("", name))
    )
    if not name or (not re.sub(r"[^a-z0-9]", "", plan.tool.lower()).startswith(joined) and plan.tool != initials):
        return title[:1].upper() + title[1:] or mapping_of(plan)
    return name if plan.mapping.name == plan.tool else f"{name} ({plan.mapping.name})"


def target_of(report: Report) -> Mood:
    """The service, its region or address, and the project: of the target that the plan was applied to, or else was made
    for."""
    applied, project = report.results.applied, report.results.project
    address = applied.course.to if applied is not None and applied.course is not None else report.plan.target
    if project is not None and not address:
        address = project.to
    if not address and report.plan.options.dialect != "posthog":
        return Mood("no target chosen", "care")
    try:
        region = address and region_of(address)
        own = project is not None and address_of(address) == project.to
    except UsageError:  # a malformed address is shown as it is
        region, own = "", project is not None and address == project.to
    parts = [_REGIONS[region]] if region else []
    if project is not None and own:
        parts.append(f"project {project.name}")
    service = address if address and not region else "PostHog"
    return Mood(f"{service} ({', '.join(parts)})" if parts else service)


def _banner(report: Report) -> Banner:
    plan = report.plan
    state = report.state or ("ready" if plan.ready else "not-ready")
    applied = report.results.applied
    points = to_check(plan, begun=applied is not None)
    few = len(points) <= MOST_OPEN
    checks = [
        Problem(
            check,
            in_one_line(check),
            few or check.level == "stop",
            _remedy(advice_of(check), report.name),
            command_of(check, plan, report.name),
            chapter_of(check),
        )
        for check in [*points, *(gate for gate in plan.gates if gate.level == "accepted")]
    ]
    to = applied.course.to if applied is not None and applied.course is not None else ""
    words = state_in_words(state, applied.events.refused if applied is not None else 0, len(points), to)
    title = words[0].upper() + words[1:]
    rehearsal = report.results.rehearsal
    refused = rehearsal.events.refused if rehearsal is not None and state == "ready" else 0
    shown = max(MOST_LINES, sum(problem.check.level == "stop" for problem in checks))
    shown += len(checks) == shown + 1
    for_good = _FOR_GOOD_WITH_MERGES if phases_of(plan)["identities"] else _FOR_GOOD
    sentence, last = SENTENCES.get(state, "").format(for_good), report.results.verification
    if refused:
        sentence = f"In the rehearsal, the local service refused {pluralize(refused, 'event')}. {sentence}"
    if state == "differs" and last is not None and (kinds := by_kind(last)):
        sentence = f"{sentence[:-1]}: {listed(kinds)}."
    if state in SENT:  # the checks were read before the plan was sent
        shown = 0
    return Banner(title, mood_of(plan, state, refused, len(points)), sentence, checks[:shown], checks[shown:])


def _remedy(advice: str, name: str) -> list[str]:
    if not advice:
        return []
    pieces = (advice[0].upper() + advice[1:] + ".").split("`")
    return [re.sub(r"\bDIR\b", lambda _: quoted(name), piece) for piece in pieces]


def _tiles(report: Report) -> list[tuple[str, list[Tile]]]:
    """What is sent, what is not, and what came of it, each under its heading."""
    words = ("Will be sent", "Will not be sent") if report.results.applied is None else ("Planned", "Left out")
    return [(words[0], _to_send(report.plan)), (words[1], left_out(report.plan)), ("Result", [proof(report)])]


def _to_send(plan: Plan) -> list[Tile]:
    phases, initials = phases_of(plan), plan.people.initials
    # the persons that are created, if the target has none of their ids
    persons = plan.people.profiles.persons(plan.options.persons)
    created = f"{pluralize(persons, 'person')} created" if persons > 0 else ""
    groups = [_counted(phases["groups"] - initials, "group")] if phases["groups"] > initials else []
    return [
        _counted(phases["events"], "event", created if phases["events"] else ""),
        _counted(phases["identities"], "merged identity", "irreversible" if phases["identities"] else ""),
        _counted(phases["persons"] + initials, "profile update", "" if phases["events"] else created),
        *groups,
    ]


def left_out(plan: Plan) -> list[Tile]:
    """What the export has and the plan does not send."""
    duplicates, superseded = duplicates_of(plan), plan.skips.get("superseded", 0)
    items = sum(plan.rejects.values()) - plan.rows.rejected
    return [
        _counted(
            plan.rows.rejected, "rejected row", f"and {pluralize(items, 'item')} of other rows" if items > 0 else ""
        ),
        _counted(sum(plan.skips.values()) - duplicates, "skipped row"),
        _counted(duplicates, "duplicate", f"{superseded:,} of them with other values" if superseded else ""),
        _counted(not_merged(plan), "pair", "of ids not merged"),
    ]


def _counted(count: int, unit: str, note: str = "") -> Tile:
    return Tile(f"{count:,}", unit if count == 1 else plural(unit), note)


def proof(report: Report) -> Tile:
    """What was read back: from the target, else from the local service. What was sent since is not read back."""
    applied, rehearsal = report.results.applied, report.results.rehearsal
    rehearsed = None if applied is not None else report.results.rehearsed
    canary = latest_canary(report.results, 0 if applied is None else applied.events.accepted)
    read_back = (
        (report.results.verification, "verified", applied),
        (None if canary is None else canary.verification, "verified as a canary", applied),
        (rehearsed, "rehearsed", rehearsal),
    )
    for result, word, run in read_back:
        if result is not None:
            found = f"{result.events.found:,}"
            refused = run.events.refused if run is not None else 0
            if result.proved:
                where = " on this machine" if result is rehearsed else ""
                if refused:
                    return Tile(found, word, f"{refused:,} refused; the others were found once{where}", "care")
                return Tile(f"✓ {found}", word, f"each was found once{where}", "good")
            if kinds := by_kind(result):
                return Tile(f"✗ {sum(kinds.values()):,}", "not as sent", f"{word}: {listed(kinds)}", "stop")
            return Tile(f"✗ {found}", f"found of {result.events.expected:,}", f"{word}: not proved", "stop")
    if applied is not None:
        refused, rest = applied.events.refused, applied.events.unsent + applied.events.in_doubt
        note = f"{refused:,} refused, not verified" if refused else "not verified yet"
        note = f"{rest:,} not sent yet" if rest else note
        return Tile(f"{applied.events.accepted:,}", "sent", note, "care" if refused else "")
    return Tile("–", "not rehearsed")


def _total(report: Report) -> str:
    """The number that apply asks for, and the rows that it comes from."""
    plan = report.plan
    sent = "to send in all" if report.results.applied is None else "planned in all"
    if report.results.applied is None and plan.events.made and not is_loopback(plan.target):
        sent += ", the number that apply asks for"
    rows = f"from {plan.rows.mapped:,} of {pluralize(plan.rows.read, 'row')} in {pluralize(len(plan.parts), 'file')}"
    replays = "" if plan.replays is msgspec.UNSET else f", what plan {plan.replays.digest[:8]} did not deliver"
    return f"{plan.events.made:,} {sent}, {rows}{replays}."


def _names(report: Report) -> Names:
    """The most frequent names, each with those that differ from it in case or spaces, and the others."""
    plan = report.plan
    all_events = plan.events.phases.get("events", 0) or sum(plan.names.values())
    months = months_between(cell.month for cell in report.months)
    by_name: dict[str, dict[str, int]] = {}
    for cell in report.months:
        if cell.event != OTHERS:
            by_name.setdefault(cell.event, {})[cell.month] = cell.count
    alike: dict[str, list[str]] = {}
    for name in by_name:
        alike.setdefault(_SEPARATORS.sub("", name).casefold(), []).append(name)
    together = sorted(alike.values(), key=lambda names: -sum(plan.names.get(name, 0) for name in names))

    def row(name: str, variant: bool, pictured: bool) -> EventName:
        count, counts = plan.names.get(name, 0), by_name[name]
        span = report.spans[name]
        picture = sparkline(counts, months, "events") if pictured else ""
        return EventName(name, count, _share(count, all_events), span.first, span.last, picture, variant)

    shown: list[EventName] = []
    folded: list[EventName] = []
    for names in together:
        first = len(shown) < MOST_NAMES
        (shown if first else folded).extend(row(name, len(names) > 1, first) for name in names)
    named = {one.name for one in (*shown, *folded[:MOST_FOLDED])}
    more = [count for name, count in plan.names.items() if name not in named]
    return Names(shown, folded[:MOST_FOLDED], len(more), sum(more))


def _share(count: int, of: int) -> str:
    share = 100 * count / of if of else 0
    return f"{share:.1f}%" if share >= 0.1 or not count else "<0.1%"
