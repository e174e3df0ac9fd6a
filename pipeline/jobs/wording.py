"""Turns what the steps of a window say about their options into the words of a job file."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TypeVar

from pipeline.errors import BackcastError
from pipeline.jobs.loading import STEPS
from pipeline.option_types import option_of
from pipeline.plan.checks.rows import REMEDIES

E = TypeVar("E", bound=BackcastError)
_OPTIONS = {flag: option for kind in STEPS for option in map(option_of, fields(kind)) for flag in option.flags}  # type: ignore[arg-type]
_SENTENCES = {
    REMEDIES[
        "recent_timestamp"
    ]: "they were under 48 hours old when their window fell due; write a longer `lag`, or set"
    " `window_timezone` to the zone of the export's days",
}
_FLAG = re.compile(
    r"`?backcast [^;`]*|(?<![\w-])(--[a-z][a-z-]+)(?: ((?:[A-Z0-9…]|[^\s;]*[=/_%,|])[^\s;]*[^\s;.,:)]|[A-Z0-9…]))?"
)
"""A command to paste, which stays as it is; or an option with its value."""


def in_job_words(text: str) -> str:
    """The text with keys of a job file in place of options that have one."""
    for sentence, other in _SENTENCES.items():
        text = text.replace(sentence, other)
    return _FLAG.sub(_key, re.sub(r"(--set \w+)(?![\w=])", r"\1=…", text))


def error_in_job_words(error: E) -> E:
    """The error with such a message and hint."""
    error.message, error.hint = in_job_words(error.message), in_job_words(error.hint)
    error.args = (error.message,)
    return error


def _key(match: re.Match[str]) -> str:
    option = _OPTIONS.get(match[1] or "")
    if option is None or not option.job:
        return match[0]
    outer, _, inner = option.job.partition(".")
    value = option.job_words[1] if option.job_words else match[2] or "…"
    if option.job == "set":
        value = "{" + value.replace("=", ": ", 1) + "}"
    elif "," in value:
        value = f"[{value}]"
    return f"`{outer}: {{{inner}: {value}}}`" if inner else f"`{outer}: {value}`"
