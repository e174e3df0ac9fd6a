"""Plans in a bucket, the machines that use them, and runs that die while they publish one."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pipeline
from pipeline.options import PlanOptions
from tests.support.crashes import Counting, counted_writes
from tests.support.deliveries import COLUMNS
from tests.support.stores import Bucket

OPTIONS = PlanOptions(mapping="generic", settings=COLUMNS, workers=0, as_of=datetime(2024, 6, 1, tzinfo=UTC))
MACHINE = "BACKCAST_STATE_DIR"


def on(machine: Path) -> AbstractContextManager[Any]:
    """Inside, this process acts as another machine: it has its own state folder."""
    return patch.dict(os.environ, {MACHINE: str(machine)})


def publish(export: Path, url: str, environment: Mapping[str, str], at: int | None = None) -> list[str]:
    """Plan into a bucket in this process, which ends at point `at`; otherwise the names of the points.

    The points are before and after each sync and rename of a file, and before and after each change of the bucket.
    """
    os.environ.update(environment)
    count = Counting(at)
    with counted_writes(count):
        pipeline.plan_export(export, url, OPTIONS)
    return count.names


def files_in(folder: Path) -> dict[str, bytes]:
    """The files in a plan directory that belong to the plan."""
    others = ("report.html", "report.json", "ledger.sqlite", "sent-to.json", "bucket.json")
    places = [folder, folder / "requests", folder / "facts"]
    found = [one for place in places for one in place.iterdir() if one.is_file() and one.suffix != ".lock"]
    return {one.relative_to(folder).as_posix(): one.read_bytes() for one in found if one.name not in others}


def counting_plan(bucket: Bucket, prefix: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The content of the last object published at a prefix, and the objects in the folder that it names."""
    objects = bucket.objects(f"{prefix}/")
    last = max(key for key in objects if key.startswith(f"{prefix}/published-"))
    says = json.loads(objects[last])
    folder = f"{prefix}/{says['folder']}/"
    return says, {key.removeprefix(folder): content for key, content in objects.items() if key.startswith(folder)}
