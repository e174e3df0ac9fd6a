"""What some shipped mappings compile to, as golden files."""

from __future__ import annotations

from pathlib import Path

from pipeline.mapper import compile, load
from pipeline.mapper.program.printer import printed
from pipeline.models import SealedOptions

HERE = Path(__file__).parent / "programs"
SETTINGS: dict[str, dict[str, str]] = {
    "generic": {"event": "event", "distinct_id": "user", "timestamp": "at"},
    "mixpanel": {"groups": "company"},
    "segment-warehouse": {},
}
"""The mappings and their settings."""


def program_of(name: str) -> str:
    """The program of a mapping, as it is printed."""
    return printed(compile(load(name), SealedOptions(as_of=0, settings=SETTINGS[name])).program)


def regenerate() -> None:
    """Write the golden files again."""
    HERE.mkdir(exist_ok=True)
    for name in SETTINGS:
        (HERE / f"{name}.txt").write_text(program_of(name), encoding="utf-8")
