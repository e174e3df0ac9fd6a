"""What a person decides about checks and codes of a plan: which stop it, are left out, or were accepted and why.

The decisions come from `--stop-on`, `--accept`, a file (`--checks`), and `checks` in a job file:

    spike: stop
    mixed_types: ignore
    level: {level: warn, level_times: 2.5}
    empty_days: {accept: "the site was closed"}

A limit is named after its option and the unit of that: `--level TIMES` is `level_times`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import Field, fields, replace
from difflib import get_close_matches
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.errors import JobError, UsageError
from pipeline.models import Finding
from pipeline.option_types import CheckRule, option_of
from pipeline.options import PlanOptions
from pipeline.validator.rules import SKIP

if TYPE_CHECKING:
    import yaml

    from pipeline.mapper.language.loader import Reader

ALL = "all"
_LEVELS = {"stop": "stop", "warn": "warning", "ignore": "ignore"}
_UNITS = {"TIMES", "DAYS", "PERCENT", "POINTS"}


def with_rules(options: PlanOptions, levels: Mapping[str, str]) -> PlanOptions:
    """The options with everything that they say about checks under `checks`, and with the limits of these rules, unless
    the command line gives the same limit.

    `levels` are the own levels of all checks and codes. Raises UsageError for a check or a limit that does not exist,
    and for accepting or ignoring a check that stops a plan by itself.
    """
    given = options.checks
    rules = dict(given if isinstance(given, Mapping) else _read_file(fspath(given)))
    for name in options.stop_on:
        for one in [each for each in levels if levels[each] not in (SKIP, "open")] if name == ALL else (name,):
            rule = rules.get(one, CheckRule())
            rules[one] = rule if name == ALL and rule.level else rule._replace(level="stop")
    for name, reason in options.accept.items():
        if not reason.strip():
            raise UsageError(f"{name} is accepted without a reason", hint=f'say why: --accept {name}="…"')
        rules[name] = rules.get(name, CheckRule())._replace(accepted=reason)
    for name, rule in rules.items():
        if name not in levels:
            message, hint = _unknown(name, levels)
            raise UsageError(message, hint=hint)
        if levels[name] == "stop" and (rule.accepted or rule.level in ("warning", "ignore")):
            raise UsageError(
                f"the check {name} stops a plan by itself: it cannot be accepted, ignored or made a warning",
                hint="leave this rule out; if the check stops the plan, the plan says what to do",
            )
    default = PlanOptions()
    limits = {
        field.name: value for field, value in _limits(rules)
        if getattr(options, field.name) == getattr(default, field.name)
    }  # fmt: skip
    return replace(options, checks=rules, **limits)


def _read_file(text: str) -> Mapping[str, CheckRule]:
    """The rules of a file. Raises UsageError, with line and column if an entry is wrong."""
    from pipeline.mapper.language.loader import Reader

    try:
        content = Path(text).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{text} is not UTF-8", hint="save it as UTF-8") from None
    reader = Reader(text, JobError)
    root = reader.compose(content)
    return {} if root is None else read_rules(reader, root)


def read_rules(reader: Reader, node: yaml.Node) -> dict[str, CheckRule]:
    """The rules in a table of a file. Raises the reader's error, at the place of a wrong entry."""
    from pipeline.plan.checks import levels_by_name

    entries, levels = reader.table(node, "checks"), levels_by_name()
    for name in entries:
        if name not in levels:
            raise reader.wrong(reader.key(node, name), *_unknown(name, levels))
    return {name: _rule(reader, one, name) for name, one in entries.items()}


def _unknown(name: str, levels: Mapping[str, str]) -> tuple[str, str]:
    near = get_close_matches(name, levels, 3) or ["the names that a plan shows, such as spike or clock_skew"]
    return f"there is no check or code {name!r}", f"there are: {', '.join(near)}"


def _rule(reader: Reader, node: yaml.Node, name: str) -> CheckRule:
    if getattr(node, "id", "") != "mapping":
        return CheckRule(_LEVELS[reader.choice(node, tuple(_LEVELS), name)])
    entries = dict(reader.table(node, name))
    level = reader.choice(entries.pop("level"), tuple(_LEVELS), "level") if "level" in entries else ""
    accepted = reader.text(reason := entries.pop("accept"), "accept") if "accept" in entries else None
    if accepted is not None and not accepted.strip():
        raise reader.wrong(reason, f"{name} is accepted without a reason", 'say why: accept: "…"')
    limits = {key: reader.text(one, key) for key, one in entries.items()}
    return CheckRule(_LEVELS.get(level, ""), accepted or "", limits)


def _limits(rules: Mapping[str, CheckRule]) -> list[tuple[Field[Any], Any]]:
    """The options that the rules limit, and their values. Raises UsageError."""
    found = []
    for name, rule in rules.items():
        known = {_key(one): one for one in fields(PlanOptions) if name in option_of(one).checks.split()}
        for key, text in rule.limits.items():
            if key not in known:
                own = f"it has {', '.join(known)}" if known else f"write {name}: stop, warn or ignore"
                raise UsageError(f"the check {name} has no limit {key!r}", hint=own)
            found.append((known[key], _value(text, str(known[key].type), key)))
    return found


def _key(field: Field[Any]) -> str:
    unit = option_of(field).metavar or ""
    return f"{field.name}_{unit.lower()}" if unit in _UNITS else field.name


def _value(text: str, kind: str, key: str) -> str | float:
    if "str" in kind:
        return text
    try:
        return int(text) if "int" in kind else float(text)
    except ValueError:
        raise UsageError(f"{key}: {text!r} is not a number", hint=f"write {key}: 3") from None


def unused_acceptances(options: PlanOptions, findings: Sequence[Finding]) -> list[tuple[str, str, str]]:
    """A notice for each check that was accepted and found nothing."""
    found = {finding.name for finding in findings}
    rules = options.checks if isinstance(options.checks, Mapping) else {}
    return [
        ("accepted", name, f"found nothing, so there was nothing to accept ({rule.accepted})")
        for name, rule in rules.items() if rule.accepted and name not in found
    ]  # fmt: skip
