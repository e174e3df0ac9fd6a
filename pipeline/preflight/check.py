"""What a check says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pipeline.management.problems import Forbidden, ServiceProblem, Unauthenticated

Level = Literal["ok", "warning", "stop", "unknown"]


@dataclass(frozen=True, slots=True)
class Check:
    """One question about the target: its name, what came of it, and why. `hint` says what to do, where that is known.

    `ok`: proved. `warning`: it may harm, decide. `stop`: it would harm. `unknown`: it could not be told.
    """

    name: str
    level: Level
    detail: str
    hint: str = field(default="", compare=False)


def untold(name: str, error: ServiceProblem) -> Check:
    """What an answer that is no success leaves of a check: `unknown`, naming the scope where one is missing.

    It is a `stop` where the personal key is refused altogether, or nobody vouches for the host that it would go to.
    """
    if isinstance(error, Forbidden) and "scope" in error.detail:
        return Check(name, "unknown", f"the personal key lacks the scope {error.scope}", error.hint)
    if isinstance(error, Unauthenticated):
        return Check(name, "stop", f"the personal key is refused: {error.detail or error.message}", error.hint)
    level: Level = "stop" if "certificate is not trusted" in error.message else "unknown"
    return Check(name, level, error.message, error.hint)
