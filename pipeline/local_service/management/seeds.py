"""What exists from the start: `{"hog_functions": [...], "session_recordings": [...]}` in a JSON file.

It goes to the first project. Objects that a store has or once had stay as they are, so a service restarted with the
same seed and store has everything once. A recording may include its `sharing` configuration.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.errors import UsageError
from pipeline.local_service.management.access import Caller
from pipeline.local_service.management.documents import DocumentKind
from pipeline.local_service.management.function_fields import check_shape, read_fields, store_inputs
from pipeline.local_service.management.recordings import new_sharing
from pipeline.local_service.management.requests import (
    ApiError,
    Json,
    ManagementState,
    parse_instant,
    read_json_body,
    uuid_of,
)

_IDS = uuid.UUID("5d1f0c4e-7a0b-5f0d-9c1e-2b7f3a6d8e92")
_READ_ONLY = ("id", "created_at", "updated_at", "created_by")
_ADDED = ("status", "bytecode", "transpiled")
"""Fields that the service adds to a function, and that a seed may set too; null counts as absent."""
_LISTS = ("hog_functions", "session_recordings")


class BadSeed(UsageError):
    """A seed cannot be used; the message has the position, but repeats no value."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="correct the seed")


def load_seed(path: Path) -> Json:
    try:
        return read_json_body(path.read_bytes(), "application/json")
    except OSError as error:
        raise BadSeed(f"the seed {path} cannot be read: {error.strerror}") from None
    except ApiError as error:
        raise BadSeed(f"the seed {path} is not a JSON object that can be stored: {error.problem.detail}") from None


def store_seed(state: ManagementState, seed: Mapping[str, Any], now: str) -> None:
    """Store a seed in the first project. Raises BadSeed, and then changes nothing."""
    unknown = sorted(set(seed) - set(_LISTS))
    if unknown:
        raise BadSeed(f"a seed can have the lists {' and '.join(_LISTS)}, but not {unknown[0]!r}")
    project = state.keys.projects[0].id
    created: dict[DocumentKind, list[Json]] = {"hog_function": [], "session_recording": [], "sharing": []}
    for name in _LISTS:
        listed = seed.get(name, [])
        if not isinstance(listed, list):
            raise BadSeed(f'"{name}" of the seed is not a list')
        for index, entry in enumerate(listed):
            where = f"{name}[{index}] of the seed"
            if not isinstance(entry, dict):
                raise BadSeed(f"{where} is not an object")
            try:
                if name == "hog_functions":
                    created["hog_function"].append(_function(state, entry, index, now))
                else:
                    _recording(entry, index, now, created)
            except ApiError as error:
                field = f", field {error.problem.attr}" if error.problem.attr else ""
                raise BadSeed(f"{where}{field}: {error.problem.detail}") from None
    for kind, documents in created.items():
        if len({document["id"] for document in documents}) < len(documents):
            raise BadSeed(f"two entries of the seed have the same id ({kind})")
    for kind, documents in created.items():
        fresh = [document for document in documents if not state.documents.existed(kind, project, document["id"])]
        state.documents.put(kind, project, *fresh)


def _function(state: ManagementState, entry: Json, index: int, now: str) -> Json:
    fields = read_fields(entry, observed=state.observed)
    record = {name: entry[name] for name in _READ_ONLY if name in entry}
    record |= {name: entry[name] for name in _ADDED if entry.get(name) is not None}
    if not state.observed and isinstance(entry.get("template"), dict):  # in a list item it is a name
        record["template"] = entry["template"]
    check_shape("HogFunction", record)
    for name in ("created_at", "updated_at"):
        if name in entry and parse_instant(entry[name]) is None:
            raise ApiError(400, "", "", "Enter a valid date/time.", name)
    id = entry.get("id")
    if id is not None and uuid_of(id) is None:
        raise ApiError(400, "", "", "Enter a valid UUID.", "id")
    function: Json = {
        "type": "destination",
        "created_at": now,
        "updated_at": entry.get("created_at", now),
        "created_by": Caller(1, frozenset(), None).user,
        "version": 1,
    }
    function |= record | fields
    function["id"] = uuid_of(id) if id is not None else _id("hog_function", index, entry)
    store_inputs(function, function, observed=state.observed)
    return function


def _recording(entry: Json, index: int, now: str, created: dict[DocumentKind, list[Json]]) -> None:
    recording = {name: value for name, value in entry.items() if name != "sharing"}
    check_shape("SessionRecording", recording)
    days = recording.get("retention_period_days")
    if days is not None and (type(days) is not int or days < 1):
        raise ApiError(400, "", "", "A valid integer is required.", "retention_period_days")
    recording["id"] = entry["id"] if entry.get("id") else _id("session_recording", index, entry)
    created["session_recording"].append({"viewed": False, "viewers": [], "ongoing": False} | recording)
    if "sharing" in entry:
        sharing = entry["sharing"]
        check_shape("SharingConfiguration", sharing, attr="sharing")
        created["sharing"].append(new_sharing(recording["id"], now) | sharing | {"id": recording["id"]})


def _id(kind: str, index: int, entry: Json) -> str:
    """An id for an entry without one: the same at every start."""
    return str(uuid.uuid5(_IDS, f"{kind} {index} {json.dumps(entry, sort_keys=True)}"))
