"""The text of a mapping without the parts that decide nothing: comments, cases and open choices, which may quote
people."""

from __future__ import annotations

import re
from typing import Any

import yaml

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BEGIN = (
    yaml.BlockMappingStartToken,
    yaml.BlockSequenceStartToken,
    yaml.FlowMappingStartToken,
    yaml.FlowSequenceStartToken,
)
_END = (yaml.BlockEndToken, yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken)
_HEADER = re.compile(r"\A(\S+)[ \t]+#.*")
"""The first line of a block scalar, if it ends with a comment."""


def what_decides(text: str) -> str:
    """The text of a mapping file without `cases`, `open` and comments: they decide nothing and may quote people."""
    text = text.removeprefix("\ufeff")
    kept: list[str] = []
    level = end = 0
    named = hidden = False
    token: Any
    for token in yaml.scan(text, Loader=_Loader):
        level += isinstance(token, _BEGIN) - isinstance(token, _END)
        if named:
            hidden = token.value in ("cases", "open")
        named = level == 1 and isinstance(token, yaml.KeyToken)
        gap, shown = text[end : token.start_mark.index], text[token.start_mark.index : token.end_mark.index]
        if not shown:
            continue
        end = token.end_mark.index
        if not hidden:
            blank = gap[len(gap.rstrip(" \t")) :]
            kept.append(blank if blank == gap else f"\n{blank}")  # between tokens are comments and the ends of lines
            kept.append(_HEADER.sub(r"\1", shown) if getattr(token, "style", None) in ("|", ">") else shown)
    return "".join(kept).strip()
