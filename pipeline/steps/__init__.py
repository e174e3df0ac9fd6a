"""The steps after a plan: apply, verify and discard, one module each. Commands, the library and jobs call these alike.

Each takes an open plan, asks nothing and prints nothing by itself, updates the report of the plan, and returns one
result, which the terminal, the report and `--json` show. Each of the other steps is one function of the library
(`pipeline.api`).

    keys        where the keys of a step come from
    target      the target of a step: its preflight, and the project that is read back
    applying    sends a plan, or its canary
    verifying   reads back what was sent, and sends again what is missing
    discarding  removes the events of a plan that is sent and verified
"""

from pipeline.steps.applying import Applied, ApplyHooks, apply
from pipeline.steps.discarding import Discarding, discard
from pipeline.steps.keys import KeySource
from pipeline.steps.target import record_preflight, refuse_stops
from pipeline.steps.verifying import Verified, verify

__all__ = [
    "Applied",
    "ApplyHooks",
    "Discarding",
    "KeySource",
    "Verified",
    "apply",
    "discard",
    "record_preflight",
    "refuse_stops",
    "verify",
]
