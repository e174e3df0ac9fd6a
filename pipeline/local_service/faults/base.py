"""The base class of faults, and how a fault is written: `name[:value][,option=text][,flag]`."""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, ClassVar, NamedTuple, TypeVar

from pipeline.errors import UsageError
from pipeline.local_service.faults.request import CaptureRequest, ConnectionCut, Ending, Forward

Value = TypeVar("Value")


class BadFault(UsageError):
    """A string that is not a fault; `hint` explains how to write one."""


class FaultCounts(NamedTuple):
    """How many requests reached a fault, and how many of them it acted on."""

    fault: str
    reached: int
    acted: int


def value(read: Callable[[str], Any], default: Any = MISSING) -> Any:
    """A setting that follows the fault's name after a colon; `read` raises ValueError with what it expects."""
    return field(default=default, metadata={"read": read, "value": True})


def option(read: Callable[[str], Any], default: Any) -> Any:
    """A setting of the form `name=text`."""
    return field(default=default, metadata={"read": read})


def flag() -> Any:
    return field(default=False, metadata={"read": None})


def reader(pattern: str, convert: Callable[[re.Match[str]], Value | None], expected: str) -> Callable[[str], Value]:
    """A function that reads a string that a pattern matches completely.

    For other strings, and if `convert` returns None, it raises ValueError with what is expected.
    """

    def read(text: str) -> Value:
        match = re.fullmatch(pattern, text, re.ASCII)
        value = None if match is None else convert(match)
        if value is None:
            raise ValueError(expected)
        return value

    return read


NUMBER = r"(\d+\.?\d*|\.\d+)"
read_count = reader(r"\d+", lambda match: int(match[0]) or None, "a whole number of 1 or more")


def _share(match: re.Match[str]) -> float | None:
    share = float(match[1]) / (100 if match[2] else 1)
    return share if 0 < share <= 1 else None


read_share = reader(NUMBER + "(%)?", _share, "a share such as 10% or 0.1")


@dataclass(kw_only=True)
class Fault(ABC):
    """A simulated failure. By default it acts on every request that reaches it.

    The class's docstring is its line in the help. Only the server's event loop changes `reached` and `acted`.
    """

    names: ClassVar[dict[str, type[Fault]]] = {}
    name: ClassVar[str]
    example: ClassVar[str]

    every: int = option(read_count, 1)
    """Acts only on every Nth request."""
    chance: float = option(read_share, 1.0)
    """Acts on a request with this probability."""
    skip: int = option(read_count, 0)
    """Ignores the first N requests."""
    times: int | None = option(read_count, None)
    """Acts at most N times."""

    text: str = ""
    seed: str = "0"
    position: str = "0"
    reached: int = 0
    acted: int = 0

    def __init_subclass__(cls, *, example: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.example = example
        cls.name = example.partition(":")[0]
        if cls.name:
            Fault.names[cls.name] = cls

    async def handle(self, request: CaptureRequest, forward: Forward) -> Ending:
        """Count a request that reached this fault, then act on it or forward it."""
        self.reached += 1
        return await (self.act(request, forward) if self.is_due() else forward())

    @abstractmethod
    async def act(self, request: CaptureRequest, forward: Forward) -> Ending:
        """Fail the request if `claim` allows it; `forward` does what would happen without this fault."""

    def is_due(self) -> bool:
        turn = self.reached - self.skip
        if turn < 1 or turn % self.every:
            return False
        return self.chance == 1 or self.draw(self.reached) < self.chance

    def claim(self) -> bool:
        """Whether it may act once more. Counts that in the same step, since concurrent requests share `times`."""
        if self.times is not None and self.acted >= self.times:
            return False
        self.acted += 1
        return True

    def draw(self, of: object) -> float:
        """A number from 0 to 1, determined by the seed, this fault's position and `of`."""
        text = f"{self.seed}/{self.position}/{of}"
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) / 2**64

    async def forward_and_claim(self, request: CaptureRequest, forward: Forward) -> tuple[Ending, bool]:
        """Forward the request. Also returns whether its events were accepted, so that the answer may be changed."""
        if not self.claim():
            return await forward(), False
        ending = await forward()
        if isinstance(ending, ConnectionCut) or not ending.accepted:
            self.acted -= 1
            return ending, False
        return ending, True

    def counts(self) -> list[FaultCounts]:
        """The counts of this fault and of the faults inside it."""
        return [FaultCounts(self.text, self.reached, self.acted)]


COMMON_OPTIONS = (
    ("every=N", "acts only on every Nth request that reaches it"),
    ("chance=P%", "acts on a request with this probability"),
    ("skip=N", "ignores the first N requests"),
    ("times=N", "acts at most N times"),
)


@cache
def _load_kinds() -> None:
    """Import the modules of `kinds`; each fault in them declares itself."""
    from pipeline.local_service.faults import kinds

    for module in iter_modules(kinds.__path__, f"{kinds.__name__}."):
        import_module(module.name)


def read_script(texts: Iterable[str], seed: int = 0) -> list[Fault]:
    """The faults of a script, in order. Raises BadFault."""
    return [read_fault(text, seed=str(seed), position=str(position)) for position, text in enumerate(texts)]


def read_fault(text: str, *, seed: str = "0", position: str = "0") -> Fault:
    """One fault. Raises BadFault, whose hint names the nearest name that exists."""
    _load_kinds()
    head, *items = text.split(",")
    name, colon, setting_text = head.partition(":")
    kind = Fault.names.get(name)
    if kind is None:
        raise BadFault(f"there is no fault {name!r}", hint=_nearest(name, Fault.names, "the faults are"))
    fields = {field.name: field for field in dataclasses.fields(kind) if "read" in field.metadata}
    main = next((field for field in fields.values() if "value" in field.metadata), None)
    settings: dict[str, Any] = {"text": text, "seed": seed, "position": position}
    if colon and main is None:
        raise BadFault(f"{name} takes no value, not {setting_text!r}", hint=f"write {kind.example}")
    if main is not None:
        if colon:
            settings[main.name] = _read(main, setting_text, text, kind)
        elif main.default is dataclasses.MISSING:
            raise BadFault(f"{name} needs a value", hint=f"write {kind.example}")
    options = {_spelt(field): field for field in fields.values() if field is not main}
    for item in items:
        key, equals, setting = item.partition("=")
        field = options.get(key)
        if field is None:
            raise BadFault(f"{name} has no option {key!r}", hint=_nearest(key, options, f"the options of {name} are"))
        if field.name in settings:
            raise BadFault(f"{key} is repeated in {text!r}", hint="write it once")
        if (field.metadata["read"] is None) == bool(equals):
            wanted = key if equals else f"{key}=VALUE"
            raise BadFault(f"{item!r} is not a way to write {key}", hint=f"write {wanted}")
        settings[field.name] = _read(field, setting, text, kind) if equals else True
    try:
        return kind(**settings)
    except ValueError as error:
        raise BadFault(f"{text!r} is incomplete", hint=f"write {error}") from None


def catalogue() -> Sequence[tuple[str, str]]:
    """An example of each fault with what it does; then the options that all faults have."""
    _load_kinds()
    kinds = sorted(Fault.names.items())
    return [(kind.example, " ".join((kind.__doc__ or "").split())) for _, kind in kinds] + list(COMMON_OPTIONS)


def _read(field: dataclasses.Field[Any], setting_text: str, text: str, kind: type[Fault]) -> Any:
    try:
        return field.metadata["read"](setting_text)
    except ValueError as error:
        named = kind.name if "value" in field.metadata else f"{_spelt(field)} of {kind.name}"
        raise BadFault(f"{named} cannot be {setting_text!r}", hint=f"write {error}") from None


def _spelt(field: dataclasses.Field[Any]) -> str:
    return field.name.replace("_", "-")


def _nearest(setting_text: str, known: Iterable[str], what: str) -> str:
    names = sorted(known)
    close = difflib.get_close_matches(setting_text, names, 1, 0.5)
    return (f"did you mean {close[0]}? " if close else "") + f"{what} {', '.join(names)}"
