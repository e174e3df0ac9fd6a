"""Exports in an object store: the same events as from a folder, and nothing is left out or changed without a
message."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import pipeline
from pipeline import storage
from pipeline.errors import UnreadableExport, UsageError
from pipeline.extractors import blocks, open_source
from pipeline.extractors.beside import beside
from pipeline.extractors.stream import content_of
from pipeline.local_service import LocalService
from pipeline.options import PlanOptions
from pipeline.plan.sealed.freshness import open_plan
from tests.golden import samples
from tests.support.deliveries import COLUMNS, uuid
from tests.support.jobs import KEYS
from tests.support.stores import SECRET, Bucket, a_bucket, a_store_that_fails

GENERIC = PlanOptions(mapping="generic", settings=COLUMNS, workers=0)


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    with a_bucket() as bucket:
        yield bucket


def lines(first: int, count: int, filler: str = "") -> bytes:
    """Rows of JSON lines."""
    rows = (
        {"event": "Step", "distinct_id": f"u{n % 7}", "timestamp": "2023-01-02T03:04:05Z", "uuid": uuid(n), "x": filler}
        for n in range(first, first + count)
    )
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adobe", "amplitude", "braze", "generic-parquet", "matomo", "pendo"])
def test_a_sample_in_a_bucket_is_the_same_events(name: str, bucket: Bucket) -> None:
    """Every format and container: events, uuids, counts and notices are those of the same files in a folder."""
    same_in_a_bucket(name, bucket)


def same_in_a_bucket(name: str, bucket: Bucket) -> None:
    """The golden file of a sample holds for its files in a bucket."""
    for file in samples.GOLDEN[name].files:
        bucket.copy(samples.SAMPLES / file, file)
    assert samples.golden(name, bucket.url) == samples.agreed(name)


@pytest.mark.parametrize("filler", ["", "f" * 2_000, "f" * 40_000])
def test_blocks_of_an_object_are_those_of_a_file(filler: str, bucket: Bucket, tmp_path: Path) -> None:
    """They are cut at the same bytes, also if a line is longer than what is read at each boundary."""
    content = lines(0, 30, filler)
    (tmp_path / "rows.jsonl").write_bytes(content)
    (here,) = open_source([str(tmp_path / "rows.jsonl")]).parts
    (there,) = open_source([bucket.put("rows.jsonl", content)]).parts
    for size in (1_000, 30_000, 1 << 20):
        local, remote = (
            [(replace(block, content=None), content_of(part, block)) for block in blocks(part, block_bytes=size)]
            for part in (here, there)
        )
        assert remote == local
        assert b"".join(text for _, text in remote) == content


def test_a_bucket_is_planned_sent_and_verified(bucket: Bucket, tmp_path: Path, call: Any) -> None:
    """Every step by command, with workers; no file of a plan contains the credentials."""
    bucket.put("day/1.jsonl", lines(0, 4_000))
    bucket.put("day/2.jsonl.gz", gzip.compress(lines(4_000, 500)))
    plan, sets = str(tmp_path / "plan"), [word for name in COLUMNS for word in ("--set", f"{name}={name}")]
    assert call("plan", f"{bucket.url}/day", "-o", plan, "-m", "generic", *sets, "--workers", "1").code == 0
    with LocalService(keys=KEYS) as service:
        assert call("apply", plan, "--to", service.url).code == 0
        assert service.count() == 4_500
    assert call("rejects", plan).code == 0
    assert [part.path for part in open_plan(plan)[0].parts] == ["1.jsonl", "2.jsonl.gz"]
    for file in (one for one in Path(plan).rglob("*") if one.is_file()):
        assert SECRET.encode() not in file.read_bytes(), file


def found(*urls: str) -> list[str]:
    return [part.path for part in open_source(list(urls)).parts]


def test_objects_prefixes_and_patterns(bucket: Bucket) -> None:
    """Each object is read once and in natural order, whatever its key looks like."""
    keys = ("a/2024-1-9.jsonl", "a/2024-1-10.jsonl", "a/b//ü #1%.jsonl", "a/[c].jsonl", "ab/other.jsonl")
    for number, key in enumerate(keys):
        bucket.put(key, lines(number, 1))
    bucket.put("a/b/", b"")
    whole = ["2024-1-9.jsonl", "2024-1-10.jsonl", "[c].jsonl", "b//ü #1%.jsonl"]
    assert found(f"{bucket.url}/a") == found(f"{bucket.url}/a/") == whole
    assert found(f"{bucket.url}/a/2024-1-9.jsonl") == ["2024-1-9.jsonl"]
    assert found(f"{bucket.url}/a/[c].jsonl") == ["[c].jsonl"]
    assert found(f"{bucket.url}/a/2024-*") == whole[:2]
    expected = ["a/2024-1-9.jsonl", "a/2024-1-10.jsonl", "a/[c].jsonl", "ab/other.jsonl"]
    assert found(f"{bucket.url}/a*/*.jsonl") == expected
    assert found(f"{bucket.url}/ab", f"{bucket.url}/a/2024-1-9.jsonl") == ["a/2024-1-9.jsonl", "ab/other.jsonl"]
    assert len(found(bucket.url)) == 5


def test_a_question_mark_and_another_place(bucket: Bucket, tmp_path: Path) -> None:
    """Unless a name and an equals sign follow it, it does not begin the query of a URL; in brackets it is the character
    itself. If a plan has paths of a store and of this machine, they are shown in full, so that no two look the same."""
    there = bucket.put("day=1/a", lines(0, 1))
    for number, key in enumerate(("day=2/b", "d?y=3/a"), 1):
        bucket.put(key, lines(number, number + 1))
    assert found(f"{bucket.url}/day=?/?") == ["day=1/a", "day=2/b"]
    assert found(f"{bucket.url}/d[?]y=3/a") == ["d?y=3/a"]
    (tmp_path / "a.jsonl").write_bytes(lines(9, 1))
    assert found(str(tmp_path), there) == [str(tmp_path / "a.jsonl"), there]


def test_files_outside_the_export_are_left_out_and_named(bucket: Bucket, tmp_path: Path) -> None:
    """Markers, hidden files, empty objects, copies, and plans that backcast wrote."""
    bucket.put("e/rows.jsonl", lines(0, 3))
    for key in ("e/_SUCCESS", "e/.hidden", "e/.tmp/x.jsonl", "e/empty.jsonl"):
        bucket.put(key, b"")
    bucket.put("e/copy.jsonl", lines(0, 3))
    pipeline.plan_export(f"{bucket.url}/e/rows.jsonl", tmp_path / "plan", GENERIC)
    bucket.copy(tmp_path / "plan", "e/plan")
    source = open_source([f"{bucket.url}/e"])
    assert [part.path for part in source.parts] == ["copy.jsonl"]
    assert sorted((note.code, note.where.removeprefix(f"{bucket.url}/e/")) for note in source.notes) == [
        ("empty_file", "empty.jsonl"), ("ignored_file", ".hidden"),
        ("ignored_file", "_SUCCESS"), ("ignored_file", "plan"), ("same_file", "rows.jsonl"),
    ]  # fmt: skip
    with pytest.raises(UsageError, match="is a plan of backcast"):
        open_source([f"{bucket.url}/e/plan"])


@pytest.mark.parametrize(
    ("url", "kind", "message"),
    [
        ("s3://BUCKET/none", UnreadableExport, "does not exist, and nothing is below it"),
        ("s3://BUCKET/tab", UnreadableExport, "does not exist, and nothing is below it"),
        ("s3://BUCKET/table", UnreadableExport, "is a Delta table"),
        ("s3://BUCKET/both", UsageError, "is an object and also a prefix of others"),
        ("s3://BUCKET/x*", UsageError, "no object matches"),
        ("s3://no-such-bucket-anywhere/a", UnreadableExport, "does not exist, and nothing is below it"),
        ("s3://user:secret@BUCKET/a", UsageError, "contains a user, a password"),
        ("az://container/a?sv=2022-11-02&sr=c&sig=secret%3D", UsageError, "contains a user, a password"),
        ("s3://BUCKET/a?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=secret", UsageError, "contains a user"),
        ("s3://BUCKET/a*&X-Amz-Signature=secret", UsageError, "contains a user"),
        ("gs://BUCKET/a?x-goog-signature=secret", UsageError, "contains a user"),
        (
            "https://user:secret@host/a.csv?sig=secret",
            UsageError,
            r"^backcast cannot read from https://\*\*\*@host/a.csv$",
        ),
        ("s3://", UsageError, "names no bucket"),
        ("s3:///a", UsageError, "names no bucket"),
        ("ftp://host/a", UsageError, "backcast cannot read from"),
        ("https://host/a.csv", UsageError, "backcast cannot read from"),
    ],
)
def test_a_url_that_cannot_be_read_says_why(url: str, kind: type[Exception], message: str, bucket: Bucket) -> None:
    bucket.put("table/_delta_log/00.json", b"{}")
    bucket.put("both", lines(0, 1))
    bucket.put("both/one", lines(0, 1))
    with pytest.raises(kind, match=message) as raised:
        open_source([url.replace("BUCKET", bucket.name)])
    assert "secret" not in str(raised.value) + raised.value.hint


def test_a_store_that_does_not_answer_is_an_error_with_its_cause(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, call: Any
) -> None:
    """Exit 3, no traceback."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    import fsspec

    fsspec.filesystem("s3").clear_instance_cache()
    printed = call("survey", f"{bucket.url}/a")
    fsspec.filesystem("s3").clear_instance_cache()
    assert printed.code == 3
    assert "cannot be read from its store: Could not connect to the endpoint" in printed.err


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(UsageError) as raised:
        open_source(["gs://bucket/a"])
    assert raised.value.hint == "install it: pip install 'backcast[gcs]'"


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_an_object_that_changes_while_it_is_planned_is_refused(name: str, bucket: Bucket, tmp_path: Path) -> None:
    """It does not matter which part of it was read before."""

    def packed(first: int) -> bytes:
        content = lines(first, 6_000)
        return gzip.compress(content) if name.endswith(".gz") else content

    url = bucket.put(name, packed(0))
    changed: list[int] = []

    def change(rows: int, length: int) -> None:
        if not changed:
            changed.append(rows)
            bucket.put(name, packed(1))

    with pytest.raises(UnreadableExport, match=r"changed while it was read"):
        pipeline.plan_export(url, tmp_path / "plan", GENERIC, progress=change)
    assert changed
    assert not (tmp_path / "plan/plan.json").exists()


def test_what_a_file_is_compared_by() -> None:
    """Size and time, or size and etag if there is one: a copy of an object has another time."""
    status = storage.FileStatus(1, 2, "e")
    assert status.is_same(storage.FileStatus(1, 3, "e"))
    assert not status.is_same(storage.FileStatus(1, 2, "f"))
    assert not status.is_same(storage.FileStatus(2, 2, "e"))
    assert storage.FileStatus(1, 2).is_same(status)
    assert not storage.FileStatus(1, 3).is_same(status)


def test_a_neighbouring_file_is_missing_only_if_it_does_not_exist(bucket: Bucket) -> None:
    """If the file of column names may not be read, that is an error: without it rows would have other names."""
    rows, name = bucket.put("day/hit_data.tsv", b"1\t2\n"), "column_headers.tsv"
    assert beside(rows, rows, (), name) == b""
    bucket.put(f"day/{name}", b"a\tb\n")
    assert beside(rows, rows, (), name) == b"a\tb\n"
    with (
        a_store_that_fails("GetObject", name, 403, "AccessDenied"),
        pytest.raises(UnreadableExport, match=f"day/{name} cannot be read: permission denied"),
    ):
        beside(rows, rows, (), name)
