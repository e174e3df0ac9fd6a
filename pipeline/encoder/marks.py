"""The marks of `--provenance`, by which events are found at the service: the plan, and the row of the export.

They are written into encoded events as these become requests, after everything is decided. So nothing that compares
events sees them: duplicates, identical rows, what a job settled, `diff`. They are the last properties, in the order of
MARKS; the encoder removes a row's own properties of these names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from pipeline.option_types import MARKS

_AFTER_PROPERTIES = b'},"timestamp":"'
_encode = msgspec.json.Encoder().encode


def marked(events: Iterable[bytes], plan: str, places: Iterable[str] = ()) -> Iterator[bytes]:
    """Encoded events with the marks: `plan` unless it is "", and the place of each unless there are none."""
    constant = _member("plan", plan) if plan else b""
    ends = (constant + _member("row", place) for place in places)
    for event in events:
        end = event.rindex(_AFTER_PROPERTIES)
        yield event[:end] + next(ends, constant) + event[end:]


def unmarked(event: bytes, marks: Sequence[str]) -> bytes:
    """An encoded event without these marks, all of which it has."""
    end = start = event.rindex(_AFTER_PROPERTIES)
    for mark in reversed(marks):
        start = event.rindex(_name(mark), 0, start)
    return event[:start] + event[end:]


def _name(mark: str) -> bytes:
    return b',"%b":' % MARKS[mark].encode()


def _member(mark: str, value: str) -> bytes:
    return _name(mark) + _encode(value)
