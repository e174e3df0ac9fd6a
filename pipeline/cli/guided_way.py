"""The steps of `backcast start`, each printed as the command that it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click

from pipeline import api, config, guided
from pipeline.cli import common
from pipeline.cli.mapping import draft_of, show_unfinished
from pipeline.cli.progress import Line
from pipeline.extractors.plan_detection import FINISHED
from pipeline.files import write_atomically
from pipeline.guided import Planned, Surveyed
from pipeline.mapper import load
from pipeline.option_types import words_of, zones_of
from pipeline.options import SurveyOptions
from pipeline.plan.sealed.freshness import open_plan
from pipeline.plan.sealed.manifest import Plan
from pipeline.plan.zone import fitting_zones
from pipeline.report.rejects import remedies_of
from pipeline.report.state import IDENTITIES, PlanStatus, State, read_status, step_after
from pipeline.report.survey_view import show_answers, write_survey
from pipeline.report.terminal.steps import show_plan
from pipeline.report.terminal.tables import show_notices
from pipeline.survey.recognition import no_rows
from pipeline.targets import address_of, files_of, is_loopback
from pipeline.text import pluralize, printable, quoted

NOT_YET = "not yet"
"""The answer of who has no target."""


class Stopped(Exception):
    """A step did not succeed. `words` say how to go on."""

    def __init__(self, code: int, words: str = "") -> None:
        super().__init__(words)
        self.code, self.words = code, words


class Way:
    """The steps, in order, with what is known so far."""

    def __init__(self, sources: tuple[str, ...], settings: Mapping[str, str], folder: Path, option: str) -> None:
        """`settings` are those of --set, in addition to those that are kept.

        Raises UsageError for a folder that is another's, UnreadableExport."""
        self.sources, self.folder, self.directory = sources, folder, str(folder / "plan")
        self.again = f"backcast start {' '.join(map(quoted, sources))}{option}"
        self.file = folder / guided.FILE
        self.progress = guided.read_progress(folder, sources)
        kept = self.progress.answers
        self.answers = self.progress.answers = guided.set_by(kept, settings)
        self.reread = self.answers is not kept
        """Whether the settings changed, so that rows are others than before."""
        self.read = (*sources, *words_of(self.answers.settings))
        """The words of a command that say what is read, and how."""
        self.files = guided.digest_of_files(sources, folder, self.answers.settings)
        self.surveyed_now = False

    def go(self) -> None:
        """Raises Stopped for a step that did not succeed."""
        where = printable(str(self.folder), 300)
        if self.progress.survey is None:
            _say("The way from an export to a plan that can be sent: survey, mapping, plan, rehearsal on this machine.")
            _say(f"Nothing is sent to any service. All files go to {where}/. Ctrl-C stops; the same command goes on.")
        else:
            _say(f"Going on in {where}/; nothing is sent. Your answers are in {self.file.name} there: change or remove"
                 " one for another.")  # fmt: skip
        there = self._there()
        if there is not None and there[1].state not in (State.NOT_READY, State.READY, State.REHEARSED):
            self._run("This plan was sent already, or is being sent. Where it stands:", "status", self.directory)
            if self.progress.survey is not None and self.progress.survey.digest != self.files:
                _say("The export, or how it is read, has changed since. To plan it again, name another folder: -o DIR")
            return
        found = self._survey()
        mapping = self._mapping(found)
        if not self.answers.target:
            question = (
                "Where will the events go? us or eu (PostHog), or the URL of another service; Enter if you do not know"
                " yet, and for a rehearsal alone"
            )
            self._ask("target", question, (), _target, "Target", NOT_YET)
        self._end(self._plan(found, mapping))

    def _there(self) -> tuple[Plan, PlanStatus] | None:
        """The plan that is there and its status, or None, also if it was stopped."""
        if not any((self.folder / "plan" / name).exists() for name in ("plan.json", FINISHED)):
            return None
        return self._opened()

    def _opened(self) -> tuple[Plan, PlanStatus]:
        plan, directory = open_plan(self.directory, discarded=True)
        return plan, read_status(plan, directory)

    def _survey(self) -> Surveyed:
        page = self.folder / "survey.html"
        self._show("Which tool, fields, times and zone:", "survey", *self.read, "--report", str(page))
        found = self.progress.survey
        if found is not None and found.digest == self.files and page.exists():
            _say(f"Done before. {found.sentence}")
            return found
        with Line("Surveying:", quiet=False) as line:
            result = api.survey_export(self.sources, SurveyOptions(settings=self.answers.settings), step=line.step)
        if not result.rows:
            raise no_rows(result.notices)
        self.progress.survey = guided.surveyed(result, self.files, self.sources)
        show_answers(common.console(), result)
        show_notices(common.console(), result.notices)
        self.surveyed_now = True
        self._keep()
        write_survey(page, result, self.sources, SurveyOptions(settings=self.answers.settings))
        _say(f"Fields, events and hours of day: {page}")
        return self.progress.survey

    def _mapping(self, found: Surveyed) -> str:
        """The name of the mapping, or its file in the folder. Asks which, and what a draft leaves open."""
        file = self.folder / "mapping.yaml"
        if self.answers.mapping:
            return self.answers.mapping
        if file.exists():
            if self.reread:
                _say(f"\n{file} is from before --set changed. If the rows need another mapping now, remove it and run"
                     " start again.")  # fmt: skip
            self._run("The mapping of this export:", "mapping", "check", str(file))
            return str(file)
        if len(found.mappings) == 1:
            _say(f"\nMapping: {found.mappings[0]}, which recognises the rows.")
            return found.mappings[0]
        if found.mappings:
            question = "Several mappings recognise the rows. Which tool wrote them?"
            self._ask("mapping", question, found.mappings, _mapping, "Number")
            return self.answers.mapping
        words = "mapping", "new", *self.read, "--ask", "-o", str(file)
        self._show("No shipped mapping recognises the rows, so this drafts one:", *words)
        answers, settings = self.answers.draft, self.answers.settings
        draft = draft_of(self.sources, settings, answers, self._keep, notices=not self.surveyed_now).text
        write_atomically(file, draft.encode())
        self.answers.draft = {}  # the file has them from now on
        self._keep()
        if choices := load(str(file)).open:
            show_unfinished(str(file), choices)
            raise Stopped(7, f"Decide this in that file. Then go on: {self.again}")
        _say(f"Wrote {file}, which decides the name, person and time of every event. Look at it; after a change, run"
             " start again.")  # fmt: skip
        return str(file)

    def _zone(self, zones: Sequence[str]) -> None:
        """Ask for the zone of the times; `zones` had the offsets that receive times show."""
        why = "Nothing in the rows shows it, and nobody can correct it after sending"
        if zones:
            why = "These had the offsets that receive times show; the project's settings in the tool name the right one"
        prompt = "Number, or the name of another" if zones else "Zone, such as Europe/Berlin or UTC"
        self._ask("timezone", f"In which time zone are the times? {why}.", zones, _zones, prompt)

    def _plan(self, found: Surveyed, name: str) -> Plan:
        """The plan that is there, unless what it is made of has changed since; else a new one. It is ready.

        A plan with another zone is made if that stops it; or one without the rows that cannot be sent, if only they
        stop it and the person leaves them out."""
        mapping, before, there = load(name), self.progress.plan, self._there()
        by_hand = there is not None and (before is None or before.digest != there[0].digest)
        made = guided.made_of(found, mapping, self.answers)
        if there is not None and (by_hand or before == Planned(made, there[0].digest)):
            _say(f"\nGoing on with the plan in {self.directory}{', which another command made' if by_hand else ''}:")
            show_plan(common.console(), *there, self.directory)
            plan = there[0]
        else:
            if not self.answers.timezone and guided.asks_zone(mapping, found):
                self._zone(found.zones)
                made = guided.made_of(found, mapping, self.answers)
            why = "The export, the mapping or an answer changed, so it is planned again. " if there else ""
            why += "Read every row, and write what would be sent; this may take long:"
            code, new = self._code(why, *self._planning(name)), self._there()
            if code not in (0, 4) or new is None or (there is not None and there[0].digest == new[0].digest):
                raise self._stopped(code)
            plan = new[0]
        self.progress.plan = Planned(made, plan.digest)
        self._keep()
        if plan.ready:
            return plan
        stops = {gate.name: gate.detail for gate in plan.gates if gate.level == "stop"}
        if any("--timezone" in detail for detail in stops.values()):
            self._zone(fitting_zones(plan.zone_evidence))
            return self._plan(found, name)
        if [*stops] == ["max_rejects"]:
            rejected = sum(plan.rejects.values())
            _say(f"\n{pluralize(rejected, 'row')} cannot be sent, as above. To read all of them, in another terminal:")
            _show_command(_command("rejects", self.directory))
            for sentence in remedies_of(*open_plan(self.directory)):
                _say(sentence)
            if click.confirm(f"Leave {'it' if rejected == 1 else 'them'} out for good, and plan again?", err=True):
                self.answers.max_rejects = rejected
                self._keep()
                return self._plan(found, name)
        _say(f"\nThe plan is not ready. Correct what stops it, as above and in {self.directory}/report.html; then run:")
        _show_command(self.again)
        _say("If what stops it is all right, plan with the option that allows it; start goes on with that plan:")
        _show_command(_command(*self._planning(name, "OPTION")))
        raise Stopped(4)

    @property
    def to(self) -> str:
        """The target; "" without one."""
        return "" if self.answers.target == NOT_YET else self.answers.target

    def _planning(self, name: str, *options: str) -> list[str]:
        """The command that plans."""
        zones = [word for zone in self.answers.timezone.split() for word in ("--timezone", zone)]
        target = ["--for", self.to] if self.to else []
        most = ["--max-rejects", str(self.answers.max_rejects)] if self.answers.max_rejects else []
        return ["plan", *self.read, "-m", name, *zones, *target, *most, *options, "-o", self.directory]

    def _end(self, plan: Plan) -> None:
        """Rehearse, check the target if that is possible, and show the command that sends, and what it needs."""
        _say("\nOpen the report, which is for you and for whoever approves the import:")
        _show_command(f"{self.directory}/report.html")
        if self._opened()[1].state == State.REHEARSED:
            _say("It was rehearsed: the local service took all of it, and every event was found there.")
        elif plan.events.made:
            self._run("Send it to a local service in this process, and read that back:", "rehearse", self.directory)
        preflight = "preflight", self.directory, "--to", self.to
        checks = bool(self.to) and bool(files_of(self.to) or config.personal_key())
        if checks:
            self._run("Is the target ready? Nothing is changed there:", *preflight)
        _say("\nDone. Nothing was sent.")
        if not plan.events.made:
            _say("This plan sends nothing: no row of the export is an event.")
            return
        if not self.to:
            _say(f'No target is chosen yet. Once it is, write us, eu or a URL into {self.file} as "target", and run'
                 " again:")  # fmt: skip
            _show_command(self.again)
            return
        if not checks:
            _say(f"The target was not checked: that needs a personal key (phx_…) in {config.PERSONAL_KEY}. With it, run"
                 " again, or:")  # fmt: skip
            _show_command(_command(*preflight))
        _say("To send exactly this plan, which cannot be undone:")
        _show_command(step_after(*self._opened(), self.directory, to=self.to).command)
        if files_of(self.to):
            _say("It asks nothing, and needs no key.")
            return
        asks = "asks nothing, since the target is this machine"
        if not is_loopback(address_of(self.to)):
            asks = f"asks you to type the number of events: {plan.events.made}"
        _say(f"It needs the project's key (phc_…) in {config.PROJECT_KEY}, and {asks}.")
        if merges := plan.events.phases.get(IDENTITIES, 0):
            _say(f"{pluralize(merges, 'merge')} of two ids into one person cannot be undone either: the report"
                 " shows them with their reasons.")  # fmt: skip

    # -- asking, running and printing -------------------------------------------------------------------------

    def _keep(self) -> None:
        guided.write_progress(self.folder, self.progress)

    def _ask(
        self, name: str, question: str, options: Sequence[str], read: Callable[[str], str], prompt: str,
        default: str | None = None,
    ) -> None:  # fmt: skip
        """Ask for the answer of this name, and keep it."""
        _say(f"\n{question}")
        for number, option in enumerate(options, 1):
            _say(f"  {number}. {printable(option, 100)}")
        setattr(self.answers, name, common.choose(prompt, options, read, default))
        self._keep()

    def _show(self, why: str, *words: str) -> None:
        _say(f"\n{why}")
        _show_command(_command(*words), "$ ")

    def _code(self, why: str, *words: str) -> int:
        """Show a command and run it; its exit code."""
        from pipeline.cli import run

        self._show(why, *words)
        return run(list(words))

    def _run(self, why: str, *words: str) -> None:
        """Show a command and run it. Raises Stopped if it does not succeed."""
        if code := self._code(why, *words):
            raise self._stopped(code)

    def _stopped(self, code: int) -> Stopped:
        return Stopped(code, f"To go on from this step: {self.again}")


def _mapping(name: str) -> str:
    load(name)
    return name


def _target(text: str) -> str:
    if text != NOT_YET:
        address_of(text)
    return text


def _zones(text: str) -> str:
    zones_of(text.split())
    return " ".join(text.split())


def _command(*words: str) -> str:
    return " ".join(("backcast", *map(quoted, words)))


def _say(words: str) -> None:
    common.console().print(words, markup=False)


def _show_command(command: str, begin: str = "  ") -> None:
    common.console().print(begin + printable(command, 10_000), style="bold", markup=False, soft_wrap=True)
