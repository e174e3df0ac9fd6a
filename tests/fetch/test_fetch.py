"""A fetch downloads a window of a tool's events whole, whatever the tool's API does, or says what is missing."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

import pipeline
from pipeline.errors import BackcastError, Refused, Unfinished, UsageError
from pipeline.extractors.fetched import MANIFEST
from pipeline.fetch.tool import tools
from pipeline.options import PlanOptions
from tests.support.export_apis import (
    DAY,
    HOUR,
    START,
    Amplitude,
    Api,
    FakeClock,
    Fault,
    Mixpanel,
    PostHog,
    cut_body,
    encrypted,
    exporting,
    fetch,
    fetched,
    files,
    in_archive,
    instead,
    plain,
    spread,
    text,
    truncated,
    uuid,
)
from tests.support.scripted_server import Asked, Canned

APIS: dict[str, Api] = {
    "mixpanel": Mixpanel([*spread(90, 2), START + 3 * DAY + 5]),
    "amplitude": Amplitude([*spread(90, 2), START + 3 * DAY + 5]),
    "posthog": PostHog([*spread(90, 2), START + 3 * DAY + 5]),
}
"""Four days, three of them with events."""


@pytest.mark.parametrize("name", APIS)
def test_a_fetched_folder_is_planned_without_a_hint(name: str, tmp_path: Path) -> None:
    """All events of all windows are rows of the plan, which recognises the tool; the other files of the folder are not
    read as rows."""
    api = APIS[name]
    found, _ = fetched(api, tmp_path / "export", 4)
    plan = pipeline.plan_export(tmp_path / "export", tmp_path / "plan", PlanOptions(workers=0))
    assert (found.rows, found.fewer, len(found.manifest.files)) == (91, 0, 3)
    assert (plan.tool, plan.rows.read, plan.rows.mapped) == (name, 91, 91)
    assert all(one.counted == one.rows for one in found.manifest.windows) or name == "amplitude"


PASSING: dict[str, Fault] = {
    "throttled": instead(429, b"slow down"),
    "throttled, with a time": instead(429, b"slow down", {"Retry-After": "40"}),
    "server error": instead(500, b"oops"),
    "gateway timeout": instead(504, b"<html>"),
    "request timeout": instead(408),
    "no answer": instead(0),
    "cut in the body": cut_body(0.5),
    "cut before the body": cut_body(0),
}
DAMAGED: dict[str, Fault] = {
    "cut off": truncated(0.6),
    "cut off by a byte": truncated(0.999),
    "a page": instead(200, b"<html>"),
}
ENDED: dict[str, Fault] = {
    "ended early": plain(lambda lines: lines + b"export terminated early\n"),
    "half a line": plain(lambda lines: lines[:-20]),
}
ARCHIVED: dict[str, Fault] = {
    "half a line in a file": in_archive(lambda lines: lines[:-20]),
    "a file with a password": encrypted,
    "a file ended early": in_archive(lambda lines: lines + b"export terminated early\n"),
}
FAULTS = {
    "mixpanel": DAMAGED | ENDED,
    "amplitude": DAMAGED | ARCHIVED | {name: PASSING[name] for name in ("server error", "cut in the body")},
    "posthog": PASSING,
}


@pytest.mark.parametrize("name", APIS)
def test_a_fault_that_passes_changes_nothing(name: str, tmp_path: Path) -> None:
    """Whichever request fails, the folder has the bytes of a fetch without a fault, except for the manifest, which
    names the port."""
    fetched(APIS[name], tmp_path / "undisturbed", 4)
    undisturbed = files(tmp_path / "undisturbed")
    del undisturbed[MANIFEST]
    for fault, spoil in FAULTS[name].items():
        api, clock = replace(APIS[name], faults={0: spoil, 3: spoil}), FakeClock()
        found, asked = fetched(api, tmp_path / fault, 4, clock=clock, count=False)
        assert len(asked) > 4, fault
        content = files(tmp_path / fault)
        assert json.loads(content.pop(MANIFEST))["left"] == []
        assert content == undisturbed, fault
        assert found.fewer == 0
        if fault == "throttled, with a time":
            assert max(clock.waits) >= 40


def test_what_is_too_large_for_amplitude_is_divided_down_to_hours(tmp_path: Path) -> None:
    """A 400 halves the window; each hour is fetched exactly once, and no hour is asked for alone if it fits together
    with others."""
    api = Amplitude([START + 9 * HOUR + n for n in range(20)] + [START + 17 * HOUR], most=20)
    found, asked = fetched(api, tmp_path, count=False)
    hours = [(one.query["start"][-2:], one.query["end"][-2:]) for one in asked]
    assert hours == [("00", "23"), ("00", "11"), ("12", "23")]
    halves = ("20230301T000000_20230301T120000", "20230301T120000_20230302T000000")
    assert sorted(files(tmp_path)) == [*(f"amplitude-{half}.zip" for half in halves), MANIFEST]
    assert [one.rows for one in found.manifest.windows] == [20, 1]


def test_an_hour_that_is_too_large_is_refused(tmp_path: Path) -> None:
    """There is no smaller window, so the error names the other way to get it; what fits is kept."""
    api = Amplitude([START + 60, START + 61, START + 20 * HOUR], most=1)
    with pytest.raises(Refused, match=r"2023-03-01 to 2023-03-01T01:00:00.*400") as caught:
        fetched(api, tmp_path)
    assert "bucket" in caught.value.hint


def test_a_window_that_cannot_be_given_whole_is_divided(tmp_path: Path) -> None:
    """If a tool keeps failing for several days together, it is asked for fewer of them."""

    class Slow(Mixpanel):
        def answer(self, asked: Asked) -> Canned:
            query = asked.query
            return Canned(504) if query.get("from_date") != query.get("to_date") else super().answer(asked)

    api = Slow([START + number % 4 * DAY for number in range(40)])
    found, _ = fetched(api, tmp_path, 4, window=4.0 * DAY)
    assert [one.rows for one in found.manifest.windows] == [10, 10, 10, 10]


def test_a_day_that_is_never_given_whole_leaves_the_fetch_unfinished(tmp_path: Path) -> None:
    """Exit 6, and `plan` refuses the folder; a later run has only that day left."""
    whole = Mixpanel(spread(30, 3))
    broken = replace(whole, faults={number: truncated(0.5) for number in range(2, 50)})
    with pytest.raises(Unfinished, match=r"2023-03-02 to 2023-03-03.*cut off"):
        fetched(broken, tmp_path, 3)
    with pytest.raises(BackcastError, match="is not finished: 2 windows of mixpanel to go"):
        pipeline.plan_export(tmp_path, tmp_path.parent / "plan", PlanOptions(workers=0))


def test_fewer_events_than_counted_are_asked_for_again(tmp_path: Path) -> None:
    """If a file is complete only the second time, the second one is kept."""
    api = replace(APIS["mixpanel"], faults={0: plain(lambda lines: b"".join(lines.splitlines(True)[:-1]))})
    found, asked = fetched(api, tmp_path, 2)
    assert len(asked) == 6
    assert (found.rows, found.fewer) == (90, 0)


@pytest.mark.parametrize("name", ["mixpanel", "posthog"])
def test_a_count_that_stays_larger_is_recorded(name: str, tmp_path: Path) -> None:
    """The fetch is kept, and its manifest and the plan's notices say which windows have fewer events."""
    api = replace(APIS[name])
    if isinstance(api, Mixpanel):
        api.uncounted = 1
    else:
        more = instead(200, {"results": [[99]]})
        api = replace(api, faults={0: more, 2: more, 4: more})
    found, _ = fetched(api, tmp_path / "export", 2)
    assert found.fewer == (2 if name == "mixpanel" else 1)
    assert found.manifest.windows[0].fewer == (("Step 0", "Step 1", "Step 2") if name == "mixpanel" else ("",))
    survey = pipeline.survey_export([str(tmp_path / "export")])
    assert any("counts more events than it gave" in sentence for _, _, sentence in survey.notices)


def without_a_file(said: Canned) -> Canned:
    """The archive, whole in itself, but without its second file."""
    content = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(said.body)) as before, zipfile.ZipFile(content, "w") as after:
        for name in before.namelist()[:1] + before.namelist()[2:]:
            after.writestr(name, before.read(name))
    return replace(said, body=content.getvalue())


def test_an_hour_that_amplitudes_archive_lacks_is_asked_for(tmp_path: Path) -> None:
    """If the hour has events, the window is fetched again; hours that have none stay away from the archive."""
    api = Amplitude([START + hour * HOUR + minute for hour in (2, 3, 4, 9) for minute in range(5)])
    found, asked = fetched(replace(api, faults={0: without_a_file}), tmp_path / "passing")
    assert (found.rows, found.fewer) == (20, 0)
    asked_for = [(one.query["start"][-2:], one.query["end"][-2:]) for one in asked]
    empty = [("00", "01"), ("05", "08"), ("10", "23")]
    assert asked_for == [("00", "23"), empty[0], ("03", "03"), *empty[1:], ("00", "23"), *empty]
    faults = dict.fromkeys((0, 5, 10), without_a_file)
    found, _ = fetched(replace(api, faults=faults), tmp_path / "lasting")
    assert (found.rows, found.fewer, found.manifest.windows[0].counted) == (15, 1, 20)
    assert sorted(files(tmp_path / "lasting")) == ["amplitude-2023-03-01.zip", MANIFEST]


@pytest.mark.parametrize("name", ["mixpanel", "posthog"])
def test_a_window_with_fewer_events_is_fetched_again_by_the_same_command(name: str, tmp_path: Path) -> None:
    """It replaces what was there if it is more, whatever the tool does meanwhile, and the other windows stay."""
    short = Mixpanel(APIS[name].events[:-1]) if name == "mixpanel" else replace(APIS[name])
    more = instead(200, {"results": [[99]]})
    with exporting(short) as server:
        if isinstance(short, Mixpanel):
            short.uncounted = 1
        else:
            short.faults = {0: more, 2: more, 4: more}
        before = fetch(short, server, tmp_path, 4)
        kept = files(tmp_path)
        again = fetch(short, server, tmp_path, 4)
        assert (before.fewer > 0, again.fewer) == (True, before.fewer if name == "mixpanel" else 0)
        assert name == "posthog" or files(tmp_path) == kept
        if isinstance(short, Mixpanel):
            short.uncounted = 0
        whole = fetch(short, server, tmp_path, 4)
        assert (whole.fewer, whole.rows, whole.manifest.left) == (0, before.rows, ())
        assert [one.since for one in whole.manifest.windows] == [one.since for one in before.manifest.windows]
        requests = len(server.asked)
        assert fetch(short, server, tmp_path, 4).fetched == 0
        assert len(server.asked) == requests


def test_a_count_that_is_refused_is_asked_for_once(tmp_path: Path) -> None:
    """The fetch continues without it, and says so: in a warning, and in the manifest."""
    warnings: list[str] = []
    api = replace(APIS["mixpanel"], faults={1: instead(403, b"no JQL for testMARKED-mixpanel")})
    found, asked = fetched(api, tmp_path, 4, warn=warnings.append)
    assert [one.path for one in asked].count("/api/query/jql") == 1
    assert found.counted == 0
    said = "Mixpanel gives no counts (the answer is 403: no JQL for ***), so nothing proves that its files are complete"
    assert warnings == [said]


def test_the_limits_of_a_tool_are_kept(tmp_path: Path) -> None:
    """Mixpanel: 60 exports in any hour and 3 in any second, by the clock of the fetch; the wait is announced."""
    clock, times = FakeClock(), list[float]()

    class Timed(Mixpanel):
        def answer(self, asked: Asked) -> Canned:
            times.append(clock.time)
            return Canned(404)

    warnings: list[str] = []
    fetched(Timed([]), tmp_path, 126, clock=clock, count=False, warn=warnings.append)
    assert len(times) == 126
    assert warnings[0].startswith("126 windows take 2 hours or more, since Mixpanel allows 60 requests in 1 h;")
    assert all(later - earlier >= 3600 for earlier, later in zip(times, times[60:], strict=False))
    assert all(later - earlier >= 1 for earlier, later in zip(times, times[3:], strict=False))
    assert times[-1] < 2 * 3600 + 60


def test_a_day_of_posthog_is_counted_divided_and_paged(tmp_path: Path) -> None:
    """A window of more than one page is divided; a second that is too large is read in pages by time and uuid."""
    events = [START + 3 * HOUR + n / 4 for n in range(40)] + [float(START + 20 * HOUR)] * 10_001
    api = PostHog(events)
    found, asked = fetched(api, tmp_path)
    limits = [one.json["query"]["query"].rpartition("limit ")[2] for one in asked]
    lines = b"".join(gzip.decompress((tmp_path / one.file).read_bytes()) for one in found.manifest.files).splitlines()
    assert [json.loads(line)["uuid"] for line in lines] == [id for _, id, _ in api.rows()]
    assert (found.rows, found.fewer, set(limits)) == (10_041, 0, {"1", "10000"})
    assert b'"properties":{"price": 1.10, "big": 1180591620717411303424}' in lines[0]


def test_a_query_of_posthog_that_takes_too_long_is_asked_for_less(tmp_path: Path) -> None:
    api = PostHog(spread(90, 1), slow=30)
    found, _ = fetched(api, tmp_path)
    assert (found.rows, found.fewer) == (90, 0)
    assert len(found.manifest.windows) == 4


def test_a_copy_in_posthog_at_the_edge_of_a_page_is_not_a_missing_event(tmp_path: Path) -> None:
    """The service may still have an event twice. Distinct pairs of time and uuid are counted at the service and in the
    file, so copies do not hide a missing event either."""

    class Twice(PostHog):
        def rows(self) -> list[tuple[float, str, int]]:
            return sorted(super().rows() * 2)

    def without_first(count: int) -> Fault:
        return lambda said: replace(said, body=said.body | {"results": said.body["results"][count:]})

    twice = Twice(spread(50, 1), faults={1: without_first(2)})
    at_two_times = PostHog(spread(50, 1), same={49: 25}, faults={1: without_first(1)})
    for api, rows in ((twice, 100), (at_two_times, 50)):
        found, asked = fetched(api, tmp_path / str(rows))
        assert len(asked) == 4
        assert (found.rows, found.fewer, found.manifest.windows[0].counted) == (rows, 0, 50)


@pytest.mark.parametrize("name", APIS)
def test_a_key_that_is_refused_stops_at_once(name: str, tmp_path: Path) -> None:
    """401 is not tried again, and the key is masked in the message if the answer repeats it."""
    marks = b"bad key: testMARKED-account testMARKED-mixpanel testMARKED-amplitude phx_testMARKED"
    api = replace(APIS[name], faults={number: instead(401, marks) for number in range(9)})
    with exporting(api) as server:
        with pytest.raises(Refused, match="401: bad key") as caught:
            fetch(api, server, tmp_path)
        assert len(server.asked) == 1
    shown = str(caught.value)
    assert {"mixpanel": "testMARKED-mixpanel", "amplitude": "testMARKED-amplitude"}.get(name, "phx_test") not in shown
    assert all(b"MARKED" not in content for content in files(tmp_path).values())


def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    """The keys go only to the host that was named, and the error names the other one."""
    api = replace(APIS["mixpanel"], faults={0: instead(302, b"", {"Location": "https://other.example/x"})})
    with pytest.raises(Refused, match="302") as caught:
        fetched(api, tmp_path)
    assert "other.example" in caught.value.hint


def test_each_region_has_its_host() -> None:
    """Or any address that is given."""
    hosts = {
        ("mixpanel", "us"): "https://data.mixpanel.com", ("mixpanel", "eu"): "https://data-eu.mixpanel.com",
        ("mixpanel", "in"): "https://data-in.mixpanel.com", ("amplitude", "us"): "https://amplitude.com",
        ("amplitude", "eu"): "https://analytics.eu.amplitude.com", ("posthog", "us"): "https://us.posthog.com",
        ("posthog", "eu"): "https://eu.posthog.com", ("posthog", "https://ph.example/"): "https://ph.example",
    }  # fmt: skip
    assert {(tool, region): tools()[tool].address(region) for tool, region in hosts} == hosts
    with pytest.raises(UsageError, match="Amplitude has no region 'in'"):
        tools()["amplitude"].address("in")


def test_each_archive_stays_as_it_came(tmp_path: Path) -> None:
    """The zip of Amplitude is the one that was received, with its members."""
    api = APIS["amplitude"]
    found, _ = fetched(api, tmp_path)
    with zipfile.ZipFile(tmp_path / found.manifest.files[0].file) as archive:
        assert archive.namelist()[0] == f"7/7_{text(START, '%Y-%m-%d')}_0#0.json.gz"
        lines = [line for name in archive.namelist() for line in gzip.decompress(archive.read(name)).splitlines()]
    rows = [json.loads(line) for line in lines]
    assert {row["uuid"] for row in rows} <= {uuid(number) for number in range(91)}
    assert len(rows) == found.rows
