"""Writes the Python source that finds the steps of an event's rule by its number."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipeline.mapper.codegen.values import Emitter
from pipeline.mapper.program import operations as program
from pipeline.mapper.program.operations import Step

MOST_TESTED = 8
"""Rules that are tested one after the other. More are halved first, so that a row costs the same with many rules."""


def write_by_rule(
    emitter: Emitter, rules: Sequence[program.RuleSteps], write: Callable[[Sequence[Step]], None]
) -> None:
    """Write the steps of rules, which are in the order of their numbers."""
    if len(rules) > MOST_TESTED:
        middle = len(rules) // 2
        with emitter.block(f"if rule < {rules[middle].rule}:"):
            write_by_rule(emitter, rules[:middle], write)
        with emitter.block("else:"):
            write_by_rule(emitter, rules[middle:], write)
        return
    for rule in rules:
        with emitter.block(f"if rule == {rule.rule}:"):
            write(rule.steps)
