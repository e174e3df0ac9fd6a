"""What Mixpanel has besides events is fetched page by page, whole, and without what its API does wrong."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.errors import Refused, Unfinished, UnreadableExport, UsageError
from pipeline.extractors.fetched import MANIFEST
from pipeline.options import PlanOptions
from tests.support.commands import Printed
from tests.support.export_apis import (
    KEYS,
    START,
    FakeClock,
    Fault,
    Mixpanel,
    PostHog,
    exporting,
    fetch,
    fetched,
    files,
    instead,
)
from tests.support.scripted_server import Asked

PEOPLE = [f"u-{number}" for number in range(25)]
EVERYTHING: Mapping[str, Sequence[str]] = {
    "people": PEOPLE, "55": ["acme", "globex"], "cohort:12": PEOPLE[:11], "cohort:13": [],
}  # fmt: skip
ALL = ("people", "cohorts", "annotations", "group:company_id=55")


def mixpanel(**about: Any) -> Mixpanel:
    """A day of one event, and a project with people, groups, cohorts and an annotation."""
    api = Mixpanel([START + 5.0], faults=about.pop("faults", {}))
    api.members = EVERYTHING
    for name, value in about.items():
        setattr(api, name, value)
    return api


def ids(folder: Path, of: str) -> list[str]:
    """The ids of all pages of people or of a cohort."""
    pages = sorted(folder.glob(f"*mixpanel-{of}-p*.json"))
    return [one["$distinct_id"] for page in pages for one in json.loads(page.read_bytes())["results"]]


def pages_asked(asked: list[Asked]) -> list[Asked]:
    return [one for one in asked if one.path == "/api/query/engage"]


def test_people_and_groups_are_planned_with_their_events(tmp_path: Path) -> None:
    """One folder has all of them; cohorts and annotations are kept next to them, and the plan says that it leaves them
    out."""
    found, _ = fetched(mixpanel(), tmp_path / "export", extras=ALL)
    plan = pipeline.plan_export(tmp_path / "export", tmp_path / "plan", PlanOptions(workers=0))
    assert plan.rows.read == 1 + 3 + 2
    phases = json.loads((tmp_path / "plan" / "plan.json").read_text())["events"]["phases"]
    assert phases == {"identities": 0, "groups": 2, "events": 1, "persons": 25}
    assert ids(tmp_path / "export", "people") == PEOPLE
    assert ids(tmp_path / "export", "cohort-12") == PEOPLE[:11]
    kept = sorted(name for name in files(tmp_path / "export") if name.startswith("backcast-kept-"))
    notices = {name: detail for _, name, detail in pipeline.survey_export([str(tmp_path / "export")]).notices}
    assert len(kept) == 4
    assert all("kept by a fetch" in notices[str(tmp_path / "export" / name)] for name in kept)
    counts = {one.of: one.counted for one in found.manifest.pages if one.counted is not None}
    assert counts == {"people": 25, "group:company_id=55": 2, "cohort:12": 11, "cohort:13": 0}


def repeated(said: Any) -> Any:
    """The answer has the rows of the first page under its own number."""
    rows = [{"$distinct_id": id, "$properties": {}} for id in PEOPLE[:10]]
    return replace(said, body=said.body | {"results": rows})


def with_total(total: int) -> Fault:
    return lambda said: replace(said, body=said.body | {"total": total})


FAULTS: dict[str, dict[str, Any]] = {
    "a session that expired": {"expired": {4}},
    "a page under another number": {"faults": {3: lambda said: replace(said, body=said.body | {"page": 0})}},
    "a page that repeats another": {"faults": {3: repeated}},
    "a total that grows": {"faults": {4: with_total(26)}},
    "a page that is short": {"faults": {3: lambda said: replace(said, body=said.body | {"results": []})}},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_listing_that_is_not_whole_is_begun_again(fault: str, tmp_path: Path) -> None:
    """Its pages are given up together, so nobody is twice in the folder or missing from it."""
    api = mixpanel(**FAULTS[fault])
    found, _ = fetched(api, tmp_path, extras=("people",))
    assert api.sessions == 2
    assert ids(tmp_path, "people") == PEOPLE
    assert (found.short, len(found.manifest.pages)) == ((), 3)


def test_a_page_that_is_throttled_is_asked_for_later(tmp_path: Path) -> None:
    """Mixpanel's Retry-After is kept, and the session goes on; the limit of 60 queries an hour includes the counts."""
    clock = FakeClock()
    api = mixpanel(faults={3: instead(429, b"slow down", {"Retry-After": "1800"})}, page_size=1)
    api.members = {"people": [f"u-{number}" for number in range(70)]}
    fetched(api, tmp_path, extras=("people",), clock=clock)
    assert (api.sessions, len(ids(tmp_path, "people"))) == (1, 70)
    assert max(clock.waits) >= 1800
    assert clock.time >= 3600


def test_a_fetch_that_stopped_among_pages_goes_on_with_the_next(tmp_path: Path) -> None:
    """The pages that it has are not asked for again, unless the session has expired meanwhile; then all are."""
    for expired, numbers in ((False, ["2"]), (True, ["2", "0", "1", "2"])):
        folder = tmp_path / str(expired)
        api = mixpanel(faults={number: instead(403) for number in range(4, 9)})
        with exporting(api) as server:
            with pytest.raises(Refused, match="people"):
                fetch(api, server, folder, extras=("people",))
            with pytest.raises(UnreadableExport, match="not finished: people of mixpanel to go"):
                pipeline.survey_export([str(folder)])
            api.faults = {}
            api.sessions += expired
            before = len(server.asked)
            fetch(api, server, folder, extras=("people",))
            forms = [one.body.decode() for one in pages_asked(server.asked[before:])]
        assert [form.partition("page=")[2][:1] or "0" for form in forms] == numbers
        assert ids(folder, "people") == PEOPLE


def test_a_count_that_stays_larger_is_said(tmp_path: Path) -> None:
    """After three tries the pages are kept, and the result and the manifest name what is short. A later fetch asks for
    these pages again."""
    api = mixpanel(faults={number: with_total(26) for number in range(2, 99)})
    with exporting(api) as server:
        found = fetch(api, server, tmp_path, extras=("people",))
        assert (api.sessions, found.short) == (3, ("people",))
        assert json.loads((tmp_path / MANIFEST).read_text())["pages"][-1]["fewer"] is True
        survey = pipeline.survey_export([str(tmp_path)])
        assert any("counts more than it gave of people" in sentence for _, _, sentence in survey.notices)
        api.faults = {}
        whole = fetch(api, server, tmp_path, extras=("people",))
    assert (whole.short, whole.fetched, ids(tmp_path, "people")) == ((), 3, PEOPLE)


def test_a_listing_that_never_holds_leaves_the_fetch_unfinished(tmp_path: Path) -> None:
    """Exit 6 after three sessions, and no page of the last one stays."""
    api = mixpanel(expired=range(3, 99))
    with pytest.raises(Unfinished, match="no longer has the session that page 2 of people belongs to"):
        fetched(api, tmp_path, extras=("people",))
    assert api.sessions == 3
    assert ids(tmp_path, "people") == []


def test_only_the_listed_events_are_fetched(tmp_path: Path) -> None:
    """PostHog is asked for them; from another tool's files only they are kept, with the bytes that they came with."""
    listing = tmp_path / "list.txt"
    for api, name in ((PostHog([START + number for number in range(600)]), "uuid"), (mixpanel(), "$insert_id")):
        if isinstance(api, Mixpanel):
            api.events = [START + float(number) for number in range(600)]
            listing.write_text("i3\ni599\nnobody\n")
        else:
            wanted = [id for _, id, _ in api.rows()][:550]
            listing.write_text("\n".join([*wanted, "00000000-0000-4000-8000-00000000beef"]).upper())
        folder = tmp_path / name
        found, asked = fetched(api, folder, 2, uuids=listing)
        assert found.rows == (2 if name == "$insert_id" else 550)
        assert len(found.missing) == 1
        if name == "uuid":
            assert [one.json["query"]["query"].count("uuid in") for one in asked] == [1, 1, 1, 1]
        if name == "$insert_id":
            lines = gzip.decompress((folder / found.manifest.files[0].file).read_bytes())
            expected = [
                row for row in api.rows("2023-03-01", "2023-03-01") if row["properties"]["$insert_id"] in ("i3", "i599")
            ]
            assert lines == b"".join(json.dumps(row).encode() + b"\n" for row in expected)
        plan = pipeline.plan_export(folder, tmp_path / f"plan {name}", PlanOptions(workers=0))
        assert plan.rows.mapped == found.rows


def test_another_list_of_events_has_another_folder(tmp_path: Path) -> None:
    """A folder has one list; what is not a uuid, or no list, is an error before any request."""
    listing = tmp_path / "list.txt"
    api = mixpanel()
    with exporting(api) as server:
        listing.write_text("i0")
        fetch(api, server, tmp_path / "export", uuids=listing)
        listing.write_text("i1")
        with pytest.raises(UsageError, match="the list of --uuids was"):
            fetch(api, server, tmp_path / "export", uuids=listing)
        before = len(server.asked)
        with pytest.raises(UsageError, match=r"'i1' in .* is not a uuid"):
            fetch(PostHog([]), server, tmp_path / "other", uuids=listing)
        with pytest.raises(UsageError, match="'funnels' cannot be fetched from Mixpanel"):
            fetch(api, server, tmp_path / "other", extras=("people", "funnels"))
        with pytest.raises(UsageError, match="Mixpanel has no windows of the time of ingestion"):
            fetch(api, server, tmp_path / "other", by="ingestion")
        assert len(server.asked) == before


def test_a_day_without_events_is_no_missing_file(tmp_path: Path) -> None:
    """A fetch asked for it; a day whose file is gone is missing."""
    api = Mixpanel([START + day * 86_400.0 + hour for day in (0, 1, 2, 4, 5, 6) for hour in range(9)])
    fetched(api, tmp_path / "export", 7)

    def missing(folder: Path) -> list[str]:
        gates = pipeline.plan_export(folder, tmp_path / "plan", PlanOptions(workers=0, timezone="UTC")).gates
        noted = [code for code, _, _ in pipeline.survey_export([str(folder)]).notices]
        return [gate.name for gate in gates if gate.name == "missing_files"] + [
            code for code in noted if code == "missing_files"
        ]

    assert missing(tmp_path / "export") == []
    (tmp_path / "export" / MANIFEST).unlink()
    assert missing(tmp_path / "export") == ["missing_files"] * 2


def test_the_command_says_what_else_it_fetched_and_what_it_did_not_find(
    call: Callable[..., Printed], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Exit 7 if a listed event is missing, with its id, also with --quiet. The next command names the groups."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "list.txt").write_text("i0\ni99\n")
    with exporting(mixpanel()) as server:
        words = ["fetch", "mixpanel", "--from", server.url, "--project", "7", "--since", "2023-03-01"]
        words += ["--until", "2023-03-02", "--with", ",".join(ALL), "--uuids", str(tmp_path / "list.txt")]
        done = call(*words, "-o", tmp_path / "export")
        assert (
            call(*words, "-o", tmp_path / "export", "--quiet").out.partition("Also")[2] == done.out.partition("Also")[2]
        )
    assert done.code == 7
    assert f"backcast plan {tmp_path / 'export'} -m mixpanel --set groups=company_id -o plan" in done.out.replace(
        "\n", ""
    )
    assert "Also fetched: people (25), cohorts (2), cohort:12 (11), cohort:13 (0), annotations (1)," in done.out
    assert "Not found: 1 of the listed events, i99; --json has all." in done.out
