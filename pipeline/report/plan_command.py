"""The command that plans an export once more, to paste."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import pairwise, takewhile

from pipeline.models import SealedOptions
from pipeline.option_types import option_of, words_of
from pipeline.options import PlanOptions
from pipeline.plan.sealed.manifest import Plan, as_name
from pipeline.text import quoted
from pipeline.timestamps import format_utc

_SHORT = {"--mapping": "-m"}
_SEALED = {one.name for one in fields(SealedOptions)} - {"as_of", "dialect", "settings"}


def plan_command(plan: Plan, place: str, options: Sequence[str], made: Sequence[str] = ()) -> str:
    """`backcast plan` with these `options` in place of those that the plan was made with. `made` are the words that
    made it, if they are known; else the export is planned into `place` with what the plan seals about its events."""
    words = list(made) or [
        *("backcast", "plan", export_of(plan), "-m", plan.mapping.name, "-o", place),
        *(word for zone, since in plan.options.zones for word in ("--timezone", f"{zone}@{since}" if since else zone)),
        *words_of(plan.options.settings),
        *_sealed_words(plan),
    ]
    for option in {word for word in options if word.startswith("--")} - {"--accept"}:
        names = (option, _SHORT.get(option, option))
        words = [
            word for before, word in pairwise(("", *words))
            if before not in names and word not in names and not word.startswith(f"{option}=")
        ]  # fmt: skip
    return " ".join(map(quoted, [*words, *options]))


def _sealed_words(plan: Plan) -> Iterator[str]:
    """The options that a plan seals, unless they have their defaults. A plan has no files: their name is FILE."""
    sealed, defaults = plan.options, SealedOptions(0, joined_users=PlanOptions.joined_users)
    given: dict[str, object] = {name: getattr(sealed, name) for name in _SEALED}
    given |= {name: format_utc(at) for name in ("since", "until") if (at := getattr(sealed, name)) is not None}
    given |= {"identities": sealed.identities and "FILE", "exclude_ids": sealed.excluded_ids and "FILE"}
    given |= {"target": plan.target, "provenance": sealed.marks or ("" if sealed.provenance else "none")}
    for field in fields(PlanOptions):
        value = given.get(field.name)
        if value and value != getattr(defaults, field.name, None):
            yield option_of(field).flags[0]
            yield from () if value is True else [",".join(value) if isinstance(value, tuple) else str(value)]


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
