"""`backcast resume-functions`: turn on the hog functions that `apply --pause-functions` left off."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.cli import common, log
from pipeline.cli.flags import takes
from pipeline.options import KeyOptions, PreflightOptions

_OTHERS = ("allow_firing", "max_already_there", "allow_already_there")


@click.command("resume-functions", epilog="Example: BACKCAST_PERSONAL_KEY=… backcast resume-functions plan/ --to eu")
@common.directory
@common.target
@takes(PreflightOptions, without=_OTHERS)
@takes(KeyOptions, "keys")
@common.as_json
@log.option
@common.quiet
def resume_functions(
    directory: str, to: str, options: PreflightOptions, keys: KeyOptions, as_json: bool, quiet: bool,
) -> int:  # fmt: skip
    """Turn on the hog functions that `apply --pause-functions` left off, where a run was killed.

    DIR is the plan's directory, or the state directory of a job with `functions: pause`.
    A function that somebody changed meanwhile is left as it is, and named. Exit 5 where the service refuses, 6 where it
    did not answer; run it again.
    """
    from pipeline import config
    from pipeline.jobs import state_file
    from pipeline.plan.sealed.directory import Directory
    from pipeline.plan.sealed.freshness import open_plan
    from pipeline.preflight.pausing import resume_functions as resume
    from pipeline.preflight.run import PreflightRequest
    from pipeline.report.machine import update_report

    job = state_file(Path(directory)).exists()
    plan, folder = (None, Directory(Path(directory))) if job else open_plan(directory)
    key, personal = config.given_project_key(keys.project_key_file), config.personal_key(keys.personal_key_file)
    resumed = resume(PreflightRequest(to, key, personal, options), folder)
    if plan is not None:
        update_report(folder, plan, common.warn)
    for line in resumed.warnings():
        common.warn(line)
    names = {kind: [str(one) for one in getattr(resumed, kind)] for kind in ("on", "changed", "off")}
    words = f"Turned on: {', '.join(names['on'])}." if resumed.on else "No hog function was turned on."
    common.show(
        {"format": "backcast.resume-functions/1", **names},
        lambda console: console.print(words, markup=False, soft_wrap=True),
        as_json=as_json,
        quiet=quiet,
    )
    if resumed.problem is not None:
        raise resumed.problem
    return 0
