"""Whether people with live events will be those of the history, once it is imported (`--continuity`)."""

from __future__ import annotations

import msgspec

from pipeline.option_types import micros
from pipeline.preflight.check import check
from pipeline.preflight.target import Target
from pipeline.report.records import Check, Level
from pipeline.report.verification_words import continuity

CONTINUITY = "continuity"


@check(180, CONTINUITY, needs="events")
def check_people_continue(target: Target) -> Check | None:
    """How many people with live events are in the history, and how many would be split in two?"""
    options, plan, directory = target.request.options, target.plan, target.directory
    if not options.continuity and options.cut_over is None:
        return None
    from pipeline.verify.continuity import check_continuity

    if plan is None or directory is None:
        hint = "name the plan: backcast preflight DIR --to TARGET --continuity"
        return Check(CONTINUITY, "unknown", "people are compared with those of a plan, and none is named", hint)
    found = check_continuity(target.questions, plan, directory, micros(options.cut_over, "cut_over"))
    hint = f"look at the pairs, then plan again with --identities {found.merges}" if found.merges else ""
    level: Level = "warning" if found.split else "ok"
    return Check(CONTINUITY, level, " ".join(continuity(found)), hint, msgspec.to_builtins(found))
