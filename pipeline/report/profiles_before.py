"""profiles-before.jsonl: what live profiles had where a plan writes, as a preflight read it before anything was sent.

What is overwritten cannot be read any more, so this is what is known of it for an undo. A preflight looks up a sample
of the profiles, and all of them where they are few (`pipeline.preflight.live_persons.MOST`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from pipeline.files import private, write_atomically
from pipeline.plan.sealed.directory import Directory


class ProfileBefore(msgspec.Struct, frozen=True):
    """One live profile: the id that the plan writes to, the person that it belonged to, and the values of the
    properties that the plan writes; `absent` are those that it did not have."""

    distinct_id: str
    person: str
    properties: dict[str, Any]
    absent: list[str]


class _Head(msgspec.Struct):
    digest: str


@private()
def write_profiles_before(directory: Directory, digest: str, profiles: Iterable[ProfileBefore]) -> None:
    """Replace the file by what a preflight of the plan with this digest read. Raises OSError."""
    lines = [_Head(digest), *profiles]
    write_atomically(directory.profiles_before, msgspec.json.Encoder().encode_lines(lines))


def read_profiles_before(directory: Directory, digest: str) -> Iterator[ProfileBefore]:
    """The profiles of the plan with this digest; none where no preflight read any."""
    try:
        head, *lines = directory.profiles_before.read_bytes().splitlines()
        if msgspec.json.decode(head, type=_Head).digest != digest:
            return
    except (OSError, ValueError):
        return
    decode = msgspec.json.Decoder(ProfileBefore).decode
    yield from map(decode, lines)
