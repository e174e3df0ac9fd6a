"""The sample exports are what their seeds give, and hold what they say they hold."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq

from sample_data import generate
from sample_data.generator import mixpanel

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "sample_data"


def test_the_samples_are_what_their_seeds_give() -> None:
    """Every committed sample equals what the generator makes now."""
    assert generate.differences() == []


def test_the_check_names_a_changed_and_a_missing_sample(tmp_path: Path) -> None:
    """One changed byte and one lost file are each named by the check."""
    folder = tmp_path / "samples"
    shutil.copytree(SAMPLES, folder)
    changed = folder / "generic" / "orders.csv"
    changed.write_bytes(changed.read_bytes().replace(b"customer-001", b"customer-002", 1))
    (folder / "amplitude" / "export.zip").unlink()
    assert generate.differences(folder) == [
        "amplitude/export.zip is missing",
        "generic/orders.csv is not what its seed gives",
    ]


def test_the_generator_depends_on_neither_zone_nor_hash_seed() -> None:
    """Under another host zone and another hash seed the generator still gives the committed samples."""
    environment = os.environ | {"TZ": "Asia/Kolkata", "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-m", "sample_data.generate", "--check"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_sample_is_small() -> None:
    """No sample file is larger than 60 kB."""
    assert [name for name in generate.files() if (SAMPLES / name).stat().st_size >= 60_000] == []


def test_no_sample_stands_outside_the_generator() -> None:
    """Every file of the sample folders is one that the generator writes."""
    kept = {str(path.relative_to(SAMPLES)) for path in SAMPLES.rglob("*.*") if path.is_file()}
    assert {name for name in kept if not name.endswith((".py", ".pyc", ".md"))} == set(generate.files())


def test_mixpanel_time_is_the_wall_clock_of_new_york() -> None:
    """Each row's `time` read as New York's clock, in one of its two folds, is the row's true instant."""
    for made in mixpanel.rows():
        wall = datetime.fromtimestamp(float(str(made.record["properties"]["time"]).lstrip("\ue000")), UTC)
        local = wall.replace(tzinfo=mixpanel.ZONE)
        folds = {local.replace(fold=fold).astimezone(UTC) for fold in (0, 1)}
        assert made.true in {moment.replace(microsecond=round(moment.microsecond, -3)) for moment in folds}


def test_mixpanel_rows_stand_on_both_sides_of_the_repeated_hour() -> None:
    """The night of 7 November has rows in the first 01:00-02:00, in the second, before and after."""
    night = [made for made in mixpanel.rows() if made.file == mixpanel.SECOND]
    hours = Counter(made.true.hour for made in night if made.true.day == 7)
    assert set(hours) == {4, 5, 6, 7}
    assert min(hours[5], hours[6]) >= 8


def test_mixpanel_receive_times_are_seconds_late_but_for_four_rows() -> None:
    """The processing time follows the true time within a minute, but for two offline rows, an import, a resend."""
    late = []
    for made in mixpanel.rows():
        processed = datetime.fromtimestamp(made.record["properties"]["mp_processing_time_ms"] / 1000, UTC)
        assert processed > made.true
        if processed - made.true > timedelta(seconds=60):
            late.append((made.record["event"], round((processed - made.true) / timedelta(hours=1))))
    assert late == [("Lamp Switched", 7), ("Lamp Switched", 20), ("Order Imported", 216), ("Purchase", 1)]


def test_mixpanel_holds_an_exact_copy_and_a_superseded_row_across_its_files() -> None:
    """Between the two files one row stands twice word for word and one key with other content."""
    rows = mixpanel.rows()
    first = {r.text for r in rows if r.file == mixpanel.FIRST}
    keys: Counter[tuple[object, ...]] = Counter()
    for made in rows:
        own = made.record["properties"]
        if "$insert_id" in own:
            keys[made.record["event"], own["time"], own.get("distinct_id"), own["$insert_id"]] += 1
    assert sorted(keys.values())[-3:] == [1, 2, 2]
    copies = [r for r in rows if r.file == mixpanel.SECOND and json.loads(r.text) in map(json.loads, first)]
    assert len(copies) == 1


def test_the_service_export_overlaps_with_equal_rows() -> None:
    """Sixteen uuids stand in both files of the service's export, with the same event, time and properties."""
    lines = (SAMPLES / "posthog" / "events-0.jsonl").read_text("utf-8").splitlines()
    first = {row["uuid"]: row for row in map(json.loads, lines)}
    second = {row["uuid"]: row for row in pq.read_table(SAMPLES / "posthog" / "events-1.parquet").to_pylist()}
    both = first.keys() & second.keys()
    assert len(both) == 16
    for uuid in both:
        assert first[uuid]["event"] == second[uuid]["event"]
        assert datetime.fromisoformat(first[uuid]["timestamp"]) == second[uuid]["timestamp"]
        assert first[uuid]["properties"] == json.loads(second[uuid]["properties"])


def test_there_is_a_row_for_each_reject_code() -> None:
    """The broken samples hold a row for every reject code that a file can hold forever."""
    texts = [(SAMPLES / "rejects" / name).read_bytes() for name in ("broken.jsonl", "broken.csv")]
    texts.append(gzip.decompress((SAMPLES / "rejects" / "too-large.jsonl.gz").read_bytes()))
    named = re.findall(rb'"expect":"(\w+)"|Z,(\w+),', b"\n".join(texts))
    assert {(one or other).decode() for one, other in named} == {
        "mapped",
        "bad_json",
        "bad_utf8",
        "bad_csv_row",
        "too_deep",
        "bad_value",
        "missing_event",
        "long_event",
        "missing_distinct_id",
        "junk_distinct_id",
        "long_distinct_id",
        "missing_timestamp",
        "bad_timestamp",
        "ancient_timestamp",
        "future_timestamp",
        "event_too_large",
    }
