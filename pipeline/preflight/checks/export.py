"""Whether the export and the mapping are still those of the plan: `apply` refuses any other."""

from __future__ import annotations

from pipeline.errors import StalePlan, UnreadableExport
from pipeline.plan.sealed.freshness import check_fresh, transform_config_for
from pipeline.preflight.check import Check, check
from pipeline.preflight.target import Target

EXPORT = "export"


@check(115, EXPORT)
def check_export_is_fresh(target: Target) -> Check | None:
    """Are the files of the export and the mapping as they were planned?"""
    plan, directory = target.plan, target.directory
    if plan is None or directory is None:
        return None
    root = target.request.options.source_root
    try:
        config = transform_config_for(plan, directory, root)
        check_fresh(plan, config, directory)
    except (StalePlan, UnreadableExport) as error:
        return Check(EXPORT, "stop", error.message, error.hint)
    return Check(EXPORT, "ok", "the export and the mapping are as they were planned")
