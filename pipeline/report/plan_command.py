"""The command that plans an export once more, to paste."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, takewhile

from pipeline.option_types import words_of
from pipeline.plan.sealed.manifest import Plan, as_name
from pipeline.text import quoted

_SHORT = {"--mapping": "-m"}


def plan_command(plan: Plan, place: str, options: Sequence[str], made: Sequence[str] = ()) -> str:
    """`backcast plan` with these `options` in place of those that the plan was made with. `made` are the words that
    made it, if they are known; else the export is planned into `place` with the plan's mapping, zones and settings."""
    words = list(made) or [
        *("backcast", "plan", export_of(plan), "-m", plan.mapping.name, "-o", place),
        *(word for zone, since in plan.options.zones for word in ("--timezone", f"{zone}@{since}" if since else zone)),
        *words_of(plan.options.settings),
    ]
    for option in filter(lambda word: word.startswith("--"), options):
        names = (option, _SHORT.get(option, option))
        words = [
            word for before, word in pairwise(("", *words))
            if before not in names and word not in names and not word.startswith(f"{option}=")
        ]  # fmt: skip
    return " ".join(map(quoted, [*words, *options]))


def stop_options(plan: Plan) -> list[str]:
    """The options that the failed checks of a plan name."""
    stops = [check for check in plan.gates if check.level == "stop" and isinstance(check.options, list)]
    return [word for check in stops for word in check.options or ()]


def export_of(plan: Plan) -> str:
    """The only file of a plan, else the folder of all of them."""
    files = sorted({as_name(part.file) for part in plan.parts})
    if len(files) == 1:
        return files[0]
    folders = zip(*(file.split("/")[:-1] for file in files), strict=False)
    common = takewhile(lambda names: len(set(names)) == 1, folders)
    return "/".join(names[0] for names in common) or "."
