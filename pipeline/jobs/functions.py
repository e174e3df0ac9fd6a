"""Hog functions that a job turns off while it sends: `functions: pause` in the job file.

They are turned off before the first window that would fire them, and turned on again once, after the last window of the
run and the settle time. Their record is in the job's state folder, so the next run, or `backcast resume-functions` with
that folder, knows what a killed run left off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import Unfinished
from pipeline.jobs.windows import BeforeSending
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import Plan
from pipeline.preflight.pausing import pausing_for
from pipeline.preflight.run import PreflightRequest
from pipeline.preflight.target import planned_events
from pipeline.text import pluralize
from pipeline.verify.settle import settle_seconds, wait_to_settle


@contextmanager
def functions_off(
    request: PreflightRequest, state: Path, settle: float | None, warn: Callable[[str], None]
) -> Iterator[BeforeSending]:
    """Within it, calling the value with a plan turns off functions that would fire on that plan, if the job pauses
    them.

    However it ends, they are turned on again, `settle` seconds after the last event; None means the option's default.
    Raises as `pipeline.preflight.pausing.pausing_for` does, and Unfinished if one could not be turned on.
    """
    with pausing_for(request, Directory(state), None, warn, pauses=request.options.pause_functions) as pausing:
        if pausing is None:
            yield lambda plan, directory: None
            return
        ledgers: list[Path] = []

        def before_sending(plan: Plan, directory: Directory) -> None:
            functions = pausing.would_fire(planned_events(plan, directory).names)
            if functions:
                warn(pausing.notice(functions))
            ledgers.append(directory.ledger)
            pausing.pause(functions)

        try:
            yield before_sending
        finally:
            if pausing.recorded and ledgers:
                wait_to_settle(ledgers[-1], settle_seconds(request.to, settle), lambda name, done, total: None)
            resumed = pausing.resume()
            for line in resumed.warnings():
                warn(line)
        if resumed.off:
            raise Unfinished(
                f"{pluralize(len(resumed.off), 'hog function')} could not be turned on again",
                hint=f"the next run tries again; or run: backcast resume-functions {state} --to {request.to}",
            )
