"""Which files of an export count: patterns, files that must not be planned together, and manifests."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from pipeline import extractors
from pipeline.errors import UnfitExport, UnreadableExport, UsageError
from pipeline.extractors.file_rules import FileRules
from pipeline.models import Source


def export(folder: Path, files: dict[str, Any]) -> Source:
    """An export of these files: JSON values as JSON, numbers as a file with a row of that number."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, int):
            content = f'{{"n":{content}}}\n'.encode()
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content, indent=1).encode())
    return extractors.open_source([str(folder)])


def counting(source: Source, **rules: Any) -> list[str]:
    chosen = extractors.choose_parts(source, FileRules(**rules))
    assert [part.index for part in chosen.parts] == list(range(len(chosen.parts)))
    assert len(chosen.sizes) == len(chosen.parts)
    assert {note.where for note in chosen.notes if note.code == "left_out_file"} == {
        part.path for part in source.parts
    } - {part.path for part in chosen.parts}
    return [part.path for part in chosen.parts]


def test_patterns_choose_files(tmp_path: Path) -> None:
    """By name, by folder, and by both."""
    source = export(tmp_path, {"x/events.jsonl": 1, "x/lookup.jsonl": 2, "y/events.jsonl": 3})
    assert counting(source) == ["x/events.jsonl", "x/lookup.jsonl", "y/events.jsonl"]
    assert counting(source, only=("events*",)) == ["x/events.jsonl", "y/events.jsonl"]
    assert counting(source, skip=("x",)) == ["y/events.jsonl"]
    assert counting(source, only=("x/*",), skip=("*lookup*",)) == ["x/events.jsonl"]


@pytest.mark.parametrize(
    ("apart", "together", "other", "message"),
    [
        (
            ("events_*", "events_intraday_*"), {"events_20240101.json": 1, "events_intraday_20240102.json": 2},
            "events_20240102.json", r"events_20240102.json and events_intraday_20240102.json contain the same events",
        ),
        (("tracks", "*"), {"tracks/1.jsonl": 1, "tracks/2.jsonl": 2}, "clicked/1.jsonl", "contain the same events"),
    ],
)  # fmt: skip
def test_tables_with_the_same_events_do_not_go_together(
    tmp_path: Path, apart: tuple[str, str], together: dict[str, int], other: str, message: str
) -> None:
    """A day and its intraday table, though that of another day may be there; a table of all (`*` is every other file)
    and the others."""
    rules = FileRules(apart=(apart,))
    assert len(extractors.choose_parts(export(tmp_path, together), rules).parts) == 2
    with pytest.raises(UnfitExport, match=message):
        extractors.choose_parts(export(tmp_path, {other: 3}), rules)


def heap_sync(number: int, **tables: tuple[bool, list[str]]) -> dict[str, Any]:
    return {
        "dump_id": number,
        "tables": [
            {"name": name, "incremental": incremental, "files": [f"s3://heap-rs3/{file}" for file in files]}
            for name, (incremental, files) in tables.items()
        ],
    }


def test_heap_replaces_whole_tables_and_appends_others(tmp_path: Path) -> None:
    """Syncs count in the order of their numbers; a file that no manifest lists does not count, and a file of a replaced
    table may be missing. A table that no manifest has whole is reported; a whole table that did not change has the same
    bytes again, and is read once."""
    source = export(
        tmp_path,
        {
            "manifests/10.json": heap_sync(10, users=(False, ["sync_10/users/a"]), views=(True, ["sync_10/views/a"])),
            "manifests/9.json": heap_sync(9, users=(False, ["sync_9/users/a"]), views=(True, ["sync_9/views/a"])),
            "manifests/8.json": heap_sync(8, users=(False, ["sync_8/users/gone"]), same=(False, ["sync_8/same/a"])),
            "manifests/11.json": heap_sync(11, same=(False, ["sync_11/same/a"])),
            "sync_9/users/a": 1, "sync_9/views/a": 2, "sync_10/users/a": 3, "sync_10/views/a": 4, "sync_8/views/a": 5,
            "sync_8/same/a": 6, "sync_11/same/a": 6,
        },
    )  # fmt: skip
    expected = ["sync_8/same/a", "sync_9/views/a", "sync_10/users/a", "sync_10/views/a"]
    assert counting(source, manifest="heap") == expected
    notes = extractors.choose_parts(source, FileRules(manifest="heap")).notes
    reasons = {note.where: note.detail for note in notes}
    assert reasons["sync_9/users/a"] == "manifests/10.json has all of table users (sync 10)"
    assert reasons["sync_8/views/a"] == "no manifest lists it"
    assert [note.detail for note in notes if note.code == "manifest"] == [
        "no manifest has all of table views, so its older rows are missing",
        "4 manifests list 4 files that count",
    ]


def test_a_file_that_a_manifest_lists_and_that_is_missing_stops(tmp_path: Path) -> None:
    """Its name is in the error; an empty file is not missing, and a lookup file that the operator added counts: no
    manifest can list it."""
    files = {"manifests/1.json": heap_sync(1, views=(True, ["sync_1/views/a", "sync_1/views/b"])), "sync_1/views/a": 1}
    with pytest.raises(UnfitExport, match=r"manifests/1.json lists s3://heap-rs3/sync_1/views/b, which"):
        counting(export(tmp_path, files), manifest="heap")
    assert counting(export(tmp_path, {"sync_1/views/b": b""}), manifest="heap") == ["sync_1/views/a"]
    source = export(tmp_path, {"names.csv": 2})
    chosen = extractors.choose_parts(source, FileRules(manifest="heap", lookups=("names.*",)))
    assert [part.path for part in (*chosen.parts, *chosen.lookups)] == ["sync_1/views/a", "names.csv"]


def test_pendo_replaces_a_period_by_a_later_export(tmp_path: Path) -> None:
    """Matched events repeat all events; an export without `allEvents` for a period has those of changed rules of pages
    and features, and replaces nothing."""

    def exported(number: int, period: str, *files: str) -> dict[str, Any]:
        matched = [{"id": "Page/1", "files": [f"{number}/matched"]}]
        listed: dict[str, Any] = {"periodId": period, "matchedEvents": matched}
        if files:
            listed["allEvents"] = {"files": list(files)}
        return {"counter": number, "rootUrl": "gs://bucket/datasync/s/a", "timeDependent": [listed]}

    exports = [exported(2, "2023-06-01", "2/one"), exported(1, "2023-06-01", "1/one", "1/two")]
    exports += [exported(3, "2023-06-02", "3/one"), exported(4, "2023-06-01")]
    files = {"1/one": 1, "1/two": 2, "2/one": 3, "3/one": 4, "1/matched": 5, "2/matched": 6, "3/matched": 7}
    files["4/matched"] = 8
    source = export(tmp_path, {"exportmanifest.json": {"exports": exports}, **files})
    assert counting(source, manifest="pendo") == ["2/one", "3/one"]
    (tmp_path / "3/one").unlink()
    with pytest.raises(UnfitExport, match="datasync/s/a/3/one"):
        counting(extractors.open_source([str(tmp_path)]), manifest="pendo")


def pendo_export(counter: int | None, uuid: str, *periods: str, root: bool = True, **more: Any) -> dict[str, Any]:
    """An export of Data Sync, as a manifest lists it: a file of all events for each period."""
    files = [{"periodId": period, "allEvents": {"files": [f"allevents-{period}.jsonl"]}} for period in periods]
    listed: dict[str, Any] = {"timeDependent": files, **more}
    if counter is not None:
        listed["counter"] = counter
    return listed | ({"rootUrl": f"s3://bucket/datasync/s/app/{uuid}"} if root else {})


def test_pendo_lists_exports_of_more_than_30_days_ago_in_their_own_folders(tmp_path: Path) -> None:
    """They come before those of the manifest. Another application has its own periods, and its files are different ones
    with the same names; a file of events that nothing lists stops, and so do two exports whose order is unknown."""
    files: dict[str, Any] = {
        "app/exportmanifest.json": {"exports": [pendo_export(7, "u3", "d2")]},
        "app/u3/allevents-d2.jsonl": 1,
        "app/u3/billofmaterials.json": pendo_export(None, "u3", "d2", root=False),
        "app/u1/allevents-d1.jsonl": 2, "app/u1/allevents-d2.jsonl": 3,
        "app/u1/billofmaterials.json": pendo_export(None, "u1", "d1", "d2", root=False),
        "other/u9/allevents-d2.jsonl": 4,
        "other/u9/billofmaterials.json": pendo_export(None, "u9", "d2", root=False),
    }  # fmt: skip
    expected = ["app/u1/allevents-d1.jsonl", "app/u3/allevents-d2.jsonl", "other/u9/allevents-d2.jsonl"]
    assert counting(export(tmp_path / "a", files), manifest="pendo") == expected
    with pytest.raises(UnfitExport, match=r"no manifest lists app/u0/allevents-d0\.jsonl"):
        counting(export(tmp_path / "a", {"app/u0/allevents-d0.jsonl": 5}), manifest="pendo")
    files |= {
        "app/u2/allevents-d1.jsonl": 6, "app/u2/billofmaterials.json": pendo_export(None, "u2", "d1", root=False),
    }  # fmt: skip
    with pytest.raises(UnfitExport, match=r"app/u1/.* and app/u2/.* both have the period d1, and no counter"):
        counting(export(tmp_path / "b", files), manifest="pendo")


def test_pendo_reads_definitions_in_the_order_of_exports(tmp_path: Path) -> None:
    """Whatever their folders are called; the latest names count."""
    files: dict[str, Any] = {
        "app/exportmanifest.json": {
            "exports": [
                pendo_export(number, uuid, pageDefinitionsFile=["allpages.jsonl"])
                for number, uuid in enumerate(["u2", "u1", "u3"])
            ]
        },
        "app/u1/allpages.jsonl": 1, "app/u2/allpages.jsonl": 2, "app/u3/allpages.jsonl": 2,
    }  # fmt: skip
    chosen = extractors.choose_parts(export(tmp_path, files), FileRules(manifest="pendo", lookups=("allpages*",)))
    assert [part.path for part in chosen.lookups] == ["app/u1/allpages.jsonl", "app/u2/allpages.jsonl"]
    assert chosen.parts == ()
    assert "same_file" not in [note.code for note in chosen.notes]  # they are expected to come again


def test_pendo_without_a_manifest_reads_all_events_or_else_matched_ones(tmp_path: Path) -> None:
    """With several files of all events it says that none replaces another."""
    files = {"u1/allevents.jsonl": 1, "u1/matchedEvents/Page/p.jsonl": 2, "u2/allevents.jsonl": 3}
    source = export(tmp_path / "a", files)
    assert counting(source, manifest="pendo") == ["u1/allevents.jsonl", "u2/allevents.jsonl"]
    notes = extractors.choose_parts(source, FileRules(manifest="pendo")).notes
    assert ("manifest", "u1/allevents.jsonl") in [(note.code, note.where) for note in notes]
    source = export(tmp_path / "b", {"u1/matchedEvents/Page/p.jsonl": 2})
    assert counting(source, manifest="pendo") == ["u1/matchedEvents/Page/p.jsonl"]


def test_adobe_lists_files_with_their_digests(tmp_path: Path) -> None:
    """A missing file, and one with another digest, stop the plan."""
    data = b'{"n":1}\n'
    digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
    text = (
        f"Datafeed-Manifest-Version: 1.0\nData-Files: 1\n\nData-File: a.jsonl\nMD5-Digest: {digest}\nRecord-Count: 1\n"
    )
    source = export(tmp_path, {"a.jsonl": data, "rs_2023-01-02.txt": text.encode()})
    assert counting(source, manifest="adobe") == ["a.jsonl"]
    source = export(tmp_path, {"a.jsonl": b'{"n":2}\n'})
    with pytest.raises(UnreadableExport, match=r"is not the file that rs_2023-01-02.txt lists"):
        counting(source, manifest="adobe")
    source = export(tmp_path, {"rs_2023-01-02.txt": text.encode() + b"Data-File: b.jsonl\n"})
    (tmp_path / "a.jsonl").write_bytes(data)
    with pytest.raises(UnfitExport, match=r"lists b.jsonl"):
        counting(source, manifest="adobe")


def adobe_day(day: int, data: bytes, lookup: bytes, records: int = 1) -> dict[str, bytes]:
    """The files of a delivery: one with rows, one with lookups, the manifest of both."""
    names = {f"01-rs_{day}.jsonl.gz": gzip.compress(data, mtime=0), f"rs_{day}-lookup.jsonl": lookup}
    digests = [hashlib.md5(content, usedforsecurity=False).hexdigest() for content in names.values()]
    (file, other), (digest, of_other) = names, digests
    text = f"Datafeed-Manifest-Version: 1.0\n\nLookup-File: {other}\nMD5-Digest: {of_other}\n"
    text += f"Data-File: {file}\nMD5-Digest: {digest}\nRecord-Count: {records}\n"
    return names | {f"rs_{day}.txt": text.encode()}


def test_adobe_delivers_the_same_lookups_every_day(tmp_path: Path) -> None:
    """They count as copies, and as present. The manifest of a day that was not given does not matter for another."""
    days = [adobe_day(day, f'{{"n":{day}}}\n'.encode(), b'{"id":1}\n') for day in (1, 2)]
    source = export(tmp_path, days[0] | days[1])
    parts = extractors.choose_parts(source, FileRules(manifest="adobe")).parts
    assert [part.path for part in parts] == ["01-rs_1.jsonl.gz", "01-rs_2.jsonl.gz", "rs_1-lookup.jsonl"]
    (tmp_path / "01-rs_2.jsonl.gz").write_bytes(b"another")
    source = extractors.open_source([str(tmp_path / "01-rs_1.jsonl.gz")])
    assert counting(source, manifest="adobe") == ["01-rs_1.jsonl.gz"]


def test_the_rows_of_an_unpacked_file_of_adobe_are_counted(tmp_path: Path) -> None:
    """Its MD5 is lost; a file with fewer rows than the manifest lists stops the plan."""
    data = b'{"n":1}\n{"n":2}\n'
    files = adobe_day(1, data, b'{"id":1}\n', records=2)
    del files["01-rs_1.jsonl.gz"]
    source = export(tmp_path, {**files, "01-rs_1.jsonl": data})
    assert counting(source, manifest="adobe") == ["01-rs_1.jsonl", "rs_1-lookup.jsonl"]
    source = export(tmp_path, {"01-rs_1.jsonl": data[:8]})
    with pytest.raises(UnreadableExport, match=r"01-rs_1.jsonl has 1 rows, but rs_1.txt lists 2 for 01-rs_1.jsonl.gz"):
        counting(source, manifest="adobe")


@pytest.mark.parametrize(
    ("name", "kind", "content", "message"),
    [
        ("manifests/1.json", "heap", {"other": 1}, "is not a manifest of Heap"),
        ("exportmanifest.json", "pendo", {"other": 1}, "is not a manifest of"),
        ("u/billofmaterials.json", "pendo", {"other": 1}, "is not a bill of materials of"),
        *(
            (
                "manifests/1.json",
                "heap",
                {"dump_id": 1, "tables": [entry]},
                r"json is not a manifest of Heap: .*tables\[0",
            )
            for entry in (7, {"files": ["a"]}, {"name": "users", "files": None}, {"name": "users", "files": 7})
        ),
    ],
)
def test_a_manifest_of_another_shape_is_named(tmp_path: Path, name: str, kind: str, content: Any, message: str) -> None:
    """It decides what counts, so it is not ignored; the error has the place in it. An unknown kind is a usage error."""
    source = export(tmp_path, {name: content})
    with pytest.raises(UnreadableExport, match=message):
        counting(source, manifest=kind)
    with pytest.raises(UsageError, match="`files: manifest` has the unknown value 'haep'"):
        counting(source, manifest="haep")
