"""The config of a plan, rebuilt from the plan: for tests that map its rows again."""

from __future__ import annotations

from pipeline.mapper import Compile
from pipeline.plan.lookups import load_lookups
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.freshness import read_ids
from pipeline.plan.sealed.manifest import Plan
from pipeline.transform.tasks import TransformConfig


def config_of(plan: Plan, directory: Directory) -> TransformConfig:
    """The config of a plan, whose export has not moved."""
    compile_ = Compile(plan.mapping.name, plan.mapping.text, load_lookups(plan, directory), plan.mapping.python or None)
    parts = tuple(sealed.part(index) for index, sealed in enumerate(plan.parts))
    excluded = read_ids(directory.excluded) if plan.options.excluded_ids else frozenset[str]()
    return TransformConfig(compile_, plan.options, plan.limits, parts, excluded)
