"""Listings of a store: page by page, whole or an error, and no more of them than a pattern or a plan needs."""

from __future__ import annotations

import re
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from fsspec.utils import glob_translate

import pipeline
from pipeline import storage
from pipeline.errors import UnreadableExport
from pipeline.extractors import open_source
from pipeline.extractors.named_files import File, files_of
from pipeline.options import PlanOptions
from tests.support.deliveries import uuid
from tests.support.many_objects import PAGE, URL, Answer, Objects, refusal, serving


def keyed(*keys: str, **others: Any) -> Objects:
    ordered = sorted(keys, key=str.encode)
    return Objects(len(ordered), ordered.__getitem__, **others)


def row(number: int) -> bytes:
    event = b'{"event":"Step","distinct_id":"u","timestamp":"2023-01-02T03:04:05Z","uuid":"%s"}\n'
    return event % uuid(number).encode()


def days(number: int) -> str:
    """30 objects for each of the days of three months."""
    return f"e/2023/{number // 900 + 1:02d}/{number // 30 % 30 + 1:02d}/{number:06d}.jsonl"


def files(url: str, notes: list[tuple[str, ...]] | None = None) -> list[File]:
    return files_of([url], None, lambda *note: None if notes is None else notes.append(note))[0]


@pytest.mark.parametrize(
    ("pattern", "pages"),
    [
        ("e/2023/02/03/*", 1),
        ("e/2023/*/02/*.jsonl", 6),
        ("e/2023/0[13]/30/*9.jsonl", 4),
        ("e/2023/03/*/00264*", 8),
        ("e/2023/*/07", 7),
        ("e/**/02/*", 27),
        ("e/*/*/none/*", 95),
    ],
)
def test_a_pattern_lists_what_it_may_match(pattern: str, pages: int) -> None:
    """Names that cannot match are skipped, and what is found is what the pattern matches by the library's rules."""
    objects = Objects(2_700, days)
    wanted = re.compile(glob_translate(pattern))
    with serving(objects):
        found = [name.removeprefix(f"{URL}/") for name, _ in storage.listed(f"{URL}/{pattern}")]
    folders = [key for key in map(days, range(2_700)) if wanted.match(key) or wanted.match(key.rpartition("/")[0])]
    assert found == folders
    assert objects.requests["LIST"] <= pages + 1, "one of them looks for an object of this name"


def test_nothing_is_kept_of_objects_that_are_left_out() -> None:
    """A prefix with mostly markers takes only the memory of the other objects; the number of markers is noted."""
    objects = Objects(10_000, lambda number: f"e/{number:06d}" + (".jsonl" if not number % 1_000 else ".crc"))
    with serving(objects):
        storage.is_file(f"{URL}/none")  # what the library needs, however many objects there are
        tracemalloc.start()
        source = open_source([f"{URL}/e"])
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert len(source.parts) == 1, "all have the same bytes"
    ignored = [note for note in source.notes if note.code == "ignored_file"]
    assert [note.detail for note in ignored] == ["a marker that writers leave next to an export; so are 9,989 more"]
    assert peak < 4e6


def test_the_number_of_objects_that_are_listed_is_shown_meanwhile() -> None:
    """A long listing shows progress."""
    steps: list[tuple[str, int, int]] = []
    with serving(Objects(1_200, lambda number: f"e/{number:06d}.jsonl", row)):
        open_source([f"{URL}/e"], step=lambda *step: steps.append(step))
    assert [step for step in steps if step[0] == "objects listed"] == [("objects listed", 1_000, 0)]
    assert ("files recognised", 1_000, 1_200) in steps


def listing(*keys: str, more: str = "<IsTruncated>false</IsTruncated>") -> Answer:
    contents = "".join(f"<Contents><Key>{key}</Key><Size>{len(row(0))}</Size></Contents>" for key in keys)
    return 200, {}, f"<ListBucketResult>{more}{contents}</ListBucketResult>".encode()


_ENDLESS = "<IsTruncated>true</IsTruncated><NextContinuationToken>again</NextContinuationToken>"


@pytest.mark.parametrize("url", [f"{URL}/e", f"{URL}/e/*"])
def test_a_listing_that_ends_early_is_an_error(url: str) -> None:
    """It never becomes a shorter export."""
    objects = Objects(3 * PAGE, lambda number: f"e/{number:06d}.jsonl")
    later = {"continuation-token", "start-after"}  # every page but the first
    with serving(objects):
        for answer, why in (
            (refusal(403, "AccessDenied"), "cannot be read: permission denied"),
            (refusal(404, "NoSuchBucket"), "its bucket disappeared during the listing"),
            ((200, {}, b"<html><body>Sign in</body></html>"), "its answer is not a listing"),
            (listing("e/9", more="<IsTruncated>true</IsTruncated>"), "cannot be continued"),
            (listing("e/9", more=_ENDLESS), "repeats itself|a page twice"),
            (listing("e/000000.jsonl", more=_ENDLESS), "repeats itself|a page twice"),
        ):
            objects.fault = lambda kind, key, query, answer=answer: answer if later & query.keys() else None
            with pytest.raises(UnreadableExport, match=why):
                open_source([url])


def test_a_store_that_asks_for_fewer_requests_is_asked_again() -> None:
    """Its library repeats the request for a page."""
    refused: list[str] = []

    def slow_down(kind: str, key: str, query: dict[str, str]) -> Answer | None:
        if kind == "LIST" and "continuation-token" in query and len(refused) < 2:
            refused.append(kind)
            return refusal(503, "SlowDown")
        return None

    with serving(Objects(2 * PAGE + 1, lambda number: f"e/{number:06d}.jsonl", fault=slow_down)):
        assert len(files(f"{URL}/e")) == 2 * PAGE + 1
    assert len(refused) == 2


def test_an_object_that_is_listed_twice_is_read_once() -> None:
    """A notice says so."""

    def twice(kind: str, key: str, query: dict[str, str]) -> Answer | None:
        return listing("e/1", "e/2", "e/1") if kind == "LIST" and query["prefix"] == "e/" else None

    with serving(keyed("e/1", "e/2", content=row, fault=twice)):
        source = open_source([f"{URL}/e"])
    assert [part.path for part in source.parts] == ["1", "2"]
    assert [(note.code, note.detail) for note in source.notes] == [("same_file", "given twice; read once")]


def test_a_store_whose_listing_has_no_order_is_listed_whole() -> None:
    """Nothing is skipped then."""
    objects = Objects(4 * PAGE, lambda number: f"e/{number:06d}/{number % 2}/a")

    def backwards(kind: str, key: str, query: dict[str, str]) -> Answer | None:
        if kind != "LIST" or not query["prefix"]:
            return None
        if "start-after" in query:
            return listing()
        first = int(query.get("continuation-token") or 4 * PAGE)
        keys = [objects.key(number - 1) for number in range(first, first - PAGE, -1)]
        token = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{first - PAGE}</NextContinuationToken>"
        return listing(*keys, more=token if first > PAGE else "<IsTruncated>false</IsTruncated>")

    objects.fault = backwards
    with serving(objects):
        assert len(files(f"{URL}/e/*/1/*")) == 2 * PAGE


def test_any_name_of_an_object_is_read() -> None:
    """Line feeds, slashes that follow each other, percent signs, spaces, other alphabets."""
    keys = ("e/a\nb.jsonl", "e//c.jsonl", "e/%2F+ d.jsonl", "e/ü/\U0001f600.jsonl", "e/{x}?&=.jsonl")
    with serving(keyed(*keys, content=row)):
        source = open_source([f"{URL}/e"])
        assert {part.file for part in source.parts} == {f"{URL}/{key}" for key in keys}
        assert all(len(part.digest) == 64 for part in source.parts)


def test_an_object_whose_name_ends_in_a_slash_is_not_left_out_in_silence() -> None:
    """Without content it is how a console shows a folder."""
    with serving(keyed("e/1.jsonl", "e/empty/", "e/full/", content=lambda number: b"" if number == 1 else row(number))):
        source = open_source([f"{URL}/e"])
    assert [part.path for part in source.parts] == ["1.jsonl"]
    assert [(note.code, note.where) for note in source.notes] == [("ignored_file", f"{URL}/e/full/")]


def test_a_name_that_is_not_utf_8_is_an_error() -> None:
    """The store's library cannot ask for such an object."""

    def odd(kind: str, key: str, query: dict[str, str]) -> Answer | None:
        if kind == "LIST" and query["prefix"]:
            return listing("e/%FF.jsonl", more="<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>")
        return None

    with serving(keyed("e/1", fault=odd)), pytest.raises(UnreadableExport, match="does not exist"):
        open_source([f"{URL}/e"])


def test_small_objects_are_requested_twice_for_a_plan(tmp_path: Path) -> None:
    """One request recognises an object and gets its digest, another gets its rows."""
    objects = Objects(300, lambda number: f"e/{number:06d}.jsonl", row)
    options = PlanOptions(mapping="segment", workers=0, max_rejects="100%")
    with serving(objects):
        pipeline.plan_export(f"{URL}/e", tmp_path / "plan", options)
        assert objects.requests["GET"] < 2 * 300 + 200, "the first rows are read once more to recognise settings"
        assert objects.requests["HEAD"] < 100


def test_statuses_are_those_that_each_object_would_give() -> None:
    """For names in any order, between many others, and for missing ones."""
    objects = Objects(3_000, lambda number: f"e/{number:06d}", row, page=1_000)
    names = [f"{URL}/e/{number:06d}" for number in (*range(2_999, -1, -7), 9_999, *range(0, 3_000, 50), 12, 3)]
    with serving(objects):
        found = list(storage.statuses(names))
        before = objects.requests["HEAD"]
        single = [next(storage.statuses([name])) for name in names[::40]]
    assert before < 10
    assert [type(status) for status in found].count(FileNotFoundError) == 1
    assert isinstance(found[names.index(f"{URL}/e/009999")], FileNotFoundError)
    assert [one for one in found[::40] if isinstance(one, storage.FileStatus)] == single


def test_objects_that_may_not_be_listed_are_asked_for_one_by_one() -> None:
    """Permission to read objects is enough for a plan of objects that were named."""

    def denied(kind: str, key: str, query: dict[str, str]) -> Answer | None:
        return refusal(403, "AccessDenied") if kind == "LIST" else None

    objects = Objects(100, lambda number: f"e/{number:06d}", row, fault=denied)
    with serving(objects):
        found = list(storage.statuses([f"{URL}/e/{number:06d}" for number in range(100)]))
    assert all(isinstance(status, storage.FileStatus) for status in found)
    assert objects.requests["HEAD"] == 100


@pytest.mark.parametrize("taken", [0, 1, 40])
def test_objects_are_read_ahead_of_their_turn_and_released_after_it(taken: int) -> None:
    """Each is requested once, also if the loop over them ends early."""
    from pipeline.storage.store import _AHEAD

    objects = Objects(40, lambda number: f"e/{number:06d}", row)
    names = [f"{URL}/e/{number:06d}" for number in range(40)]
    with serving(objects):
        coming = storage.ahead(names, lambda name: (name, len(row(0))))
        for number, name in zip(range(taken), coming, strict=False):
            assert storage.read_range(name, 0, 1_000) == row(number)
            assert len(_AHEAD) <= 32
        coming.close()  # type: ignore[attr-defined]
    assert not _AHEAD
    assert objects.requests["GET"] <= min(40, taken + 31)
