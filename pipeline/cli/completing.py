"""Shell completion for the values of options and arguments that come from a closed list."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def _among(words: Callable[[], Iterable[str]]) -> Complete:
    """A completer; its words are computed only when a shell asks for them."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        return [word for word in words() if word.startswith(incomplete)]

    return complete


def _mappings() -> Iterable[str]:
    from pipeline.mapper.registry import available

    return available()


def _zones() -> Iterable[str]:
    from zoneinfo import available_timezones

    return sorted(available_timezones())


def _faults() -> Iterable[str]:
    from pipeline.local_service.faults import catalogue

    return [example.partition(":")[0].partition(",")[0] for example, _ in catalogue()]


def _codes() -> Iterable[str]:
    from pipeline.validator.codes import codes

    return sorted(codes())


targets = _among(lambda: ("us", "eu"))
policies = _among(lambda: ("fill-only", "overwrite", "prefix="))
mappings = _among(_mappings)
zones = _among(_zones)
faults = _among(_faults)
codes = _among(_codes)


def phases(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The phases that the text does not name yet, after those that it names."""
    from pipeline.plan.sealed.directory import PHASES

    *before, last = incomplete.split(",")
    return [",".join([*before, phase]) for phase in PHASES if phase.startswith(last) and phase not in before]
