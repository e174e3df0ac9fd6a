"""An ordinary event is appended by the native part as Python appends it, and nothing else is."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.encoder.event import Encoder
from pipeline.models import RejectReason, SealedOptions, Skip, UnvalidatedEvent
from pipeline.native import AVAILABLE, native
from pipeline.transform.rows import RowTransformer
from pipeline.validator.rules import fast_test

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="backcast was installed without a compiler")

NEWEST = 1_700_000_000_000_000
SECOND = 1_600_000_000_000_000
UUID = "c6ef3124-b53a-4b13-a233-0088f79dcbcb"


def transformer() -> Any:
    """What `RowTransformer.append` and `appender` read of one."""
    encoder = Encoder("shop", SealedOptions(as_of=NEWEST))
    made: Any = SimpleNamespace(
        encoder=encoder, is_valid=fast_test(), newest=NEWEST, max_bytes=400, keyless=set(),
        valid_heads={"Seen": encoder.head("Seen")}, content_of=lambda row: f"content of {row}",
        buffer=SimpleNamespace(ends=[], times=[], keys=[], own={}), events=SimpleNamespace(row_of=[]),
    )  # fmt: skip
    made.append = lambda *arguments: RowTransformer.append(made, *arguments)
    return made


def members(**values: Any) -> Any:
    return native.Header()(values)


def outcomes() -> list[Any]:
    """An outcome of each kind, each made anew: writing one may change its properties."""
    ordinary: dict[str, Any] = {"event": "Seen", "distinct_id": "u", "time": SECOND, "key": "k"}
    changes: list[dict[str, Any]] = [
        {}, {"time": SECOND + 5_000}, {"time": SECOND + 5}, {"time": 0}, {"uuid": UUID}, {"uuid": UUID, "key": None},
        {"key": None}, {"key": ""}, {"warnings": (("code", "detail"),)}, {"event": "Other"}, {"event": None},
        {"distinct_id": None}, {"distinct_id": ""}, {"distinct_id": 'a"b'}, {"distinct_id": "\ud800"},
        {"distinct_id": "é"}, {"distinct_id": "u" * 201}, {"time": None}, {"time": RejectReason("bad_timestamp", "")},
        {"time": -1}, {"time": NEWEST}, {"time": NEWEST + 1}, {"time": 1 << 80}, {"time": 1.5}, {"time": True},
    ]  # fmt: skip
    written = [{"properties": made(a="x")} for made in (dict, members)]
    written += [{"properties": made(**values)} for made in (dict, members) for values in (
        {}, {"a": "x" * 400}, {"a": '"' * 120}, {"import_name": "x"}, {"$ip": ""}, {"$ip": "10.0.0.1"},
    )]  # fmt: skip
    events = [
        UnvalidatedEvent(**{**ordinary, **properties, **change})
        for properties in ({"properties": members(a="x")}, {"properties": {"a": "x"}})
        for change in changes
    ]
    events += [UnvalidatedEvent(**{**ordinary, **properties}) for properties in written]
    return [*events, Skip("left_out"), RejectReason("bad_value", ""), [], None]


def test_every_outcome_is_appended_as_python_appends_it() -> None:
    """Its text, the columns, and whether it was appended at all."""
    python, quick = transformer(), transformer()
    append = RowTransformer.appender(quick, quick.is_valid)
    texts = bytearray(), bytearray()
    appended = []
    for row, (one, other) in enumerate(zip(outcomes(), outcomes(), strict=True)):
        appended.append(python.append(texts[0], row, one))
        assert append(texts[1], row, other) == appended[-1], one
        assert texts[0] == texts[1], one
    assert python.buffer == quick.buffer
    assert (python.events, python.keyless) == (quick.events, quick.keyless)
    assert len(quick.buffer.own) == 4
    assert appended.count(True) == 24 == len(quick.events.row_of)


def test_a_failing_rule_stops_the_block_and_holds_nothing() -> None:
    """An exception of a rule is raised, nothing is appended, and no reference stays; wrong arguments are an error."""
    made = transformer()

    def fail(*_: Any) -> bool:
        raise ZeroDivisionError

    append = RowTransformer.appender(made, fail)
    text, event = bytearray(), UnvalidatedEvent("Seen", "u", SECOND, members(a="x"), "k")
    before = sys.getrefcount(event), sys.getrefcount(made.valid_heads["Seen"])
    for _ in range(100):
        with pytest.raises(ZeroDivisionError):
            append(text, 0, event)
    assert (sys.getrefcount(event), sys.getrefcount(made.valid_heads["Seen"])) == before
    assert (text, made.events.row_of) == (b"", [])
    append = RowTransformer.appender(made, made.is_valid)
    made.valid_heads["Seen"] = "text"  # no bytes
    for arguments in ((), (bytearray(), 0), (b"", 0, None), (bytearray(), 0, None, None), (bytearray(), 0, event)):
        with pytest.raises(TypeError):
            append(*arguments)
