"""The end of the page: what a person approves with a name and a date, and the numbers that `apply` asks for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from pipeline.plan.sealed.manifest import Plan
from pipeline.report.contents import Report, phases_of
from pipeline.report.page.first_screen import SENT, left_out, proof, target_of
from pipeline.report.wording import to_check
from pipeline.targets import is_loopback

_OF_IDS = "of ids not merged"
"""Stands after the pairs, which are the last of what is left out."""


class SignOff(NamedTuple):
    """`sentence` says what is approved; `lines` have a name, a value, and a note or "". There are none if there is
    nothing to approve."""

    sentence: str
    lines: list[tuple[str, str, str]]


def sign_off(report: Report) -> SignOff:
    """The approval of a plan before it is sent, and of what became of it afterwards."""
    plan, applied, sent = report.plan, report.results.applied, report.state in SENT
    if not plan.ready and not sent:
        return SignOff("There is nothing to approve yet: fix the failed checks and plan again.", [])
    if not plan.events.made:
        return SignOff("There is nothing to approve: this plan sends nothing.", [])
    merges, left = phases_of(plan)["identities"], ", ".join(f"{tile.value} {tile.unit}" for tile in left_out(plan))
    gone = "Sent events cannot be deleted" + (", and merged identities cannot be separated." if merges else ".")
    lines = [
        ("plan", f"{plan_in_words(plan)}, in {report.name}", ""), ("digest", plan.digest, ""),
        *([("marks", plan.marked, "on every event")] if plan.marked else ()),
        ("target", target_of(report).text, ""),
    ]  # fmt: skip
    if sent:
        found, made = proof(report), f"{plan.events.made:,}"
        lines += [("planned in all", made, ""), ("left out", left, _OF_IDS),
                  ("result", f"{found.value} {found.unit}", found.note)]  # fmt: skip
        return SignOff(f"I have read what became of this plan. {gone}", lines)
    events = plan.events.made if applied is None else applied.events.unsent + applied.events.in_doubt
    local = is_loopback(plan.target)
    lines.append(
        (
            "to send in all" if applied is None else "left to send",
            f"{events:,}",
            "" if local else "type this number when apply asks for it",
        )
    )
    if merges:
        lines.append(("merges", f"{merges:,}", "" if local else f"give apply --approve-merges {merges}"))
    lines.append(("will not be sent", left, _OF_IDS))
    if points := to_check(plan, begun=applied is not None):
        lines.append(("things to check", f"{len(points):,}", "accepted as found"))
    lines += [(f"accepted: {check}", reason, "") for check, reason in plan.accepted.items()]
    return SignOff(f"I approve that the plan with this digest is sent, and no other. {gone}", lines)


def plan_in_words(plan: Plan) -> str:
    """`plan of 26 Nov 2026, a9e891e1`: the day in UTC, and how its digest begins."""
    made = datetime.fromtimestamp(plan.options.as_of / 1e6, UTC)
    return f"plan of {made.day} {made:%b %Y}, {plan.digest[:8] or 'not sealed'}"
