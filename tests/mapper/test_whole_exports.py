"""Tools over whole exports: every format of the same rows gives the same events; what is ambiguous stops the plan."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import Raw

from pipeline.errors import UnfitExport
from pipeline.extractors import open_source
from pipeline.mapper import compile, load
from pipeline.models import PersonUpdate, SealedOptions
from pipeline.survey.recognition import guess_mapping
from sample_data.generator import (
    braze,
    clevertap,
    ga4,
    heap,
    matomo,
    mixpanel_warehouse,
    mparticle,
    openpanel,
    pendo,
    snowplow,
    umami,
)
from sample_data.generator.spelling import lines, row
from tests.support.plan_facts import found
from tests.support.sent_events import planned


def written(folder: Path, files: dict[str, bytes]) -> Path:
    """The folder with these files in it."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def write_lines(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    return write_lines(path, map(json.dumps, rows))


def test_both_forms_of_braze_give_the_same_events(tmp_path: Path) -> None:
    """Lines of the connector, its pages and the Avro files: every event with its uuid, and every merge."""
    made = braze.rows()
    text, page = write_lines(tmp_path / "lines.jsonl", braze.connector(made)), tmp_path / "page.json"
    page.write_text('{"events": [\n' + ",\n".join(braze.connector(made)) + "\n]}", encoding="utf-8")
    files = {braze.path_of(kind): braze.avro(kind, table) for kind, table in made.items()}
    expected, events = planned(tmp_path / "avro", [written(tmp_path / "bucket", files)])
    assert expected.skips == {"duplicate_event": 1}
    assert expected.events.phases["identities"] == 10
    for source, settings in ((text, {}), (page, {"rows": "events"})):
        plan, found = planned(tmp_path / source.stem, [source], **settings)
        assert (found, plan.events.phases) == (events, expected.events.phases)


def test_a_file_of_braze_without_its_folder_stops_the_plan(tmp_path: Path) -> None:
    """Its events would have no name."""
    kind = "users.behaviors.Purchase"
    (tmp_path / "a.avro").write_bytes(braze.avro(kind, braze.rows()[kind]))
    with pytest.raises(UnfitExport, match="cannot recognise the table"):
        planned(tmp_path / "plan", [tmp_path / "a.avro"])
    _, events = planned(tmp_path / "other", [tmp_path / "a.avro"], table=kind)
    assert {event["event"] for event in events} == {"purchase"}


@pytest.mark.parametrize(("zone", "ready"), [("Asia/Kolkata", True), ("UTC", False)])
def test_the_zone_of_clevertap_is_compared_with_session_starts(tmp_path: Path, zone: str, ready: bool) -> None:
    """The id of a session is its start in UTC, so a zone that the account did not have is refused."""
    (tmp_path / "events.csv.gz").write_bytes(gzip.compress(clevertap.table_text()))
    plan, _ = planned(tmp_path / "plan", [tmp_path / "events.csv.gz"], zone=zone)
    assert (plan.verdict != "not-ready") == ready
    assert [gate.name for gate in found(plan.gates)] == ([] if ready else ["zone"])


def test_every_form_of_mparticle_gives_the_same_events(tmp_path: Path) -> None:
    """Lines, one document with a list of all batches, and the identities of the input."""
    text, document = write_lines(tmp_path / "a.jsonl", mparticle.batches()), tmp_path / "b.json"
    document.write_text(json.dumps(mparticle.rows(), indent=1), encoding="utf-8")
    batches = mparticle.rows()
    for batch in batches:
        batch["user_identities"] = {one["identity_type"]: one["identity"] for one in batch["user_identities"]}
    inputs = write_rows(tmp_path / "c.jsonl", batches)
    expected, events = planned(tmp_path / "plan", [text])
    assert Counter(event["event"] for event in events) == {
        "Application Opened": 8, "$screen": 8, "Lamp Switched": 8, "purchase": 6,
    }  # fmt: skip
    assert expected.events.phases["identities"] == 6
    for source in (document, inputs):
        plan, found = planned(tmp_path / f"plan-{source.stem}", [source])
        assert (found, plan.events.phases) == (events, expected.events.phases)


def test_every_form_of_snowplow_gives_the_first_of_its_copies(tmp_path: Path) -> None:
    """Columns of a warehouse in either spelling, JSON of the SDKs and self-describing JSON in cells.

    A copy that was collected later has another derived time; one id with two fingerprints is two events.
    """
    made = snowplow.events()
    files = {snowplow.PATH: gzip.compress(snowplow.archive(made))}
    expected, events = planned(tmp_path / "one", [written(tmp_path / "bucket", files)])
    (tmp_path / "events.csv").write_bytes(snowplow.table_text(made))
    write_lines(tmp_path / "events.jsonl", snowplow.lines(made))
    pq.write_table(snowplow.table(made), tmp_path / "events.parquet")
    for form in ("csv", "jsonl", "parquet"):
        plan, found = planned(tmp_path / form, [tmp_path / f"events.{form}"])
        assert plan.mapping.name == expected.mapping.name == "snowplow"
        assert (found, plan.events.phases, plan.skips) == (events, expected.events.phases, expected.skips), form
    assert expected.skips == {"page_ping": 2, "duplicate_event": 1, "superseded": 1, "spider": 1}
    twice = [event for event in events if event["properties"]["event_id"] == events[0]["properties"]["event_id"]]
    assert [event["event"] for event in twice] == ["$pageview", "link_click"]
    assert twice[0]["properties"]["collector_tstamp"] == "2023-11-14T22:40:20.843Z"


NEW_YORK = "America/New_York"


def identity(event: dict[str, Any]) -> tuple[str, ...]:
    return (event["uuid"], event["event"], event["properties"]["distinct_id"], event["timestamp"])


def test_a_copy_of_mixpanels_export_is_the_same_events(tmp_path: Path) -> None:
    """Names, uuids, people and times of a project in New York agree, over the days on which its clock changes.

    Not of rows without $insert_id, whose uuids are of their whole content, nor of one with a property `properties`.
    """
    found = [
        one
        for one in mixpanel_warehouse.records()
        if one["properties"].keys() >= {"distinct_id", "$insert_id"} and "properties" not in one["properties"]
    ]
    raw = tmp_path / "raw.jsonl"
    raw.write_bytes(lines([row(one) for one in found]))
    _, expected = planned(tmp_path / "plan", [raw], zone=NEW_YORK)
    assert len(expected) > 50
    copies: tuple[Callable[[Any], Any], ...] = (
        mixpanel_warehouse.fivetran, mixpanel_warehouse.airbyte, mixpanel_warehouse.service
    )  # fmt: skip
    for copy in copies:
        text, file = copy(found), tmp_path / f"{copy.__name__}.data"
        file.write_bytes(text if isinstance(text, bytes) else lines(text))
        plan, events = planned(tmp_path / copy.__name__, [file], zone=NEW_YORK)
        assert plan.mapping.name == "mixpanel-warehouse"
        assert sorted(map(identity, events)) == sorted(map(identity, expected)), copy


def test_openpanel_rows_are_the_same_events_in_every_form(tmp_path: Path) -> None:
    """Properties are an object in JSON lines, a map in Parquet, and JSON in CSV if the query makes it so."""
    rows = openpanel.events()
    table, parquet = tmp_path / "events.csv", tmp_path / "events.parquet"
    cells = [row | {name: json.dumps(row[name]) for name in ("properties", "groups")} for row in rows]
    table.write_bytes(umami.table_text(cells))
    maps = pa.array([list(row["properties"].items()) for row in rows], pa.map_(pa.string(), pa.string()))
    made = pa.Table.from_pylist([{key: row[key] for key in row if key != "properties"} for row in rows])
    pq.write_table(made.append_column("properties", maps), parquet)
    plan, expected = planned(tmp_path / "plan", [write_rows(tmp_path / "events.jsonl", rows)])
    assert (plan.mapping.name, plan.rejects, len(expected)) == ("openpanel", {}, 10)
    for other in (table, parquet):
        assert planned(tmp_path / f"plan{other.suffix}", [other])[1] == expected


def test_matomo_visits_are_the_same_events_in_both_forms_and_in_its_database(tmp_path: Path) -> None:
    """A list of actions in JSON and numbered columns of CSV in UTF-16 are the same actions, with the same uuids.

    What the API and the queries of the database both have is the same; uuids are not, so one of them is taken.
    """
    rows = matomo.visits()
    document, table, folder = tmp_path / "visits.json", tmp_path / "visits.csv", tmp_path / "queried"
    document.write_bytes(matomo.document(rows))
    table.write_bytes(matomo.table_text(rows))
    folder.mkdir()
    for name, queried in zip(("actions", "conversions"), matomo.queried(rows), strict=True):
        write_rows(folder / f"{name}.jsonl", queried)
    (_, expected), (plan, found) = planned(tmp_path / "one", [document]), planned(tmp_path / "two", [table])
    assert (plan.mapping.name, plan.rejects, plan.skips) == ("matomo", {}, {})
    assert len(found) == sum(len(row["actionDetails"]) for row in rows)
    assert [event["uuid"] for event in found] == [event["uuid"] for event in expected]
    assert [_texts(event) for event in found] == [_texts(event) for event in expected]
    plan, found = planned(tmp_path / "three", [folder])
    assert (plan.mapping.name, plan.rejects, plan.skips) == ("matomo-database", {}, {})
    assert len(found) == len(expected)
    assert {_seen(event) for event in found} == {_seen(event) for event in expected}


def _seen(event: dict[str, Any]) -> tuple[Any, ...]:
    """What both exports have in common."""
    names = ("distinct_id", "$session_id", "$current_url", "title", "$referrer", "$os", "$browser", "$device_type")
    names += ("utm_campaign", "utm_medium", "siteSearchKeyword", "eventName", "revenue", "order_id")
    names += ("$geoip_country_code",)
    return (event["event"], event["timestamp"], *(event["properties"].get(name) for name in names))


def _texts(event: dict[str, Any]) -> dict[str, Any]:
    """The event with the numbers in its properties as strings, as all cells of CSV are."""
    return event | {"properties": {name: str(value) for name, value in event["properties"].items()}}


def test_a_visit_of_500_actions_is_a_warning(tmp_path: Path) -> None:
    """Matomo leaves out later actions, and its answer does not always say so."""
    (visit, *_) = matomo.visits()
    first = visit["actionDetails"][0]
    document = tmp_path / "visits.json"
    for count, warnings in ((499, {}), (500, {"actions_left_out": 1})):
        visit["actionDetails"] = [first | {"pageId": str(n), "timestamp": first["timestamp"] + n} for n in range(count)]
        document.write_bytes(matomo.document([visit]))
        plan, events = planned(tmp_path / f"plan-{count}", [document])
        assert (len(events), plan.warnings) == (count, warnings)


def avro_type(kind: pa.DataType, name: str) -> Any:
    """The Avro type that BigQuery writes for a column: a record or a list of them, or a scalar that may be null."""
    if pa.types.is_list(kind):
        return {"type": "array", "items": avro_type(kind.value_type, name)}
    if pa.types.is_struct(kind):
        fields = [{"name": one.name, "type": avro_type(one.type, f"{name}_{one.name}")} for one in kind]
        record = {"type": "record", "name": name, "fields": fields}
        whole = name == "Root" or kind.get_field_index("key") >= 0 or name.endswith("_items")
        return record if whole else ["null", record]
    return ["null", {"string": "string", "int64": "long", "double": "double", "bool": "boolean"}[str(kind)]]


def in_form(folder: Path, form: str, rows: list[ga4.Row]) -> Path:
    """The rows in one of BigQuery's formats."""
    if form == "parquet":
        pq.write_table(ga4.typed(rows), folder / "rows.parquet")
        return folder / "rows.parquet"
    if form == "avro":
        with (folder / "rows.avro").open("wb") as file:
            fastavro.writer(file, avro_type(pa.struct(list(ga4.SCHEMA)), "Root"), ga4.filled(rows), codec="snappy")
        return folder / "rows.avro"
    spelled = {"extract": ga4.extract_lines, "console": ga4.console_lines, "client": ga4.client_lines}[form]
    return write_lines(folder / "rows.json", spelled(rows))


def test_every_form_of_the_table_gives_the_same_events(tmp_path: Path) -> None:
    """Nulls, strings for numbers and types are details of a file format, and change no event and no uuid: neither of
    rows with a key nor of those without, some of which are equal."""
    rows = ga4.rows()
    bare = [row for row in rows if "batch_event_index" not in row]
    rows += bare[:2]
    _, expected = planned(tmp_path / "extract", [in_form(tmp_path, "extract", rows)])
    assert bare
    assert len({event["uuid"] for event in expected}) == len(expected) == len(rows)
    for form in ("console", "client", "parquet", "avro"):
        assert planned(tmp_path / form, [in_form(tmp_path, form, rows)])[1] == expected, form


@pytest.mark.parametrize("running", ["events_intraday_20231115", "events_fresh_20231115"])
def test_a_day_with_its_running_table_stops(tmp_path: Path, running: str) -> None:
    """The table of the running day has the day's rows again; that of another day has others."""
    lines = ga4.extract_lines(ga4.rows())
    for number, name in enumerate(("events_20231115", running, running.replace("15", "16"))):
        (tmp_path / name).mkdir()
        write_lines(tmp_path / name / "000000000000.json", lines[: number + 1])
    with pytest.raises(UnfitExport, match=f"{running}.* contain the same events"):
        planned(tmp_path / "plan", [tmp_path / "events_20231115", tmp_path / running])
    plan, _ = planned(tmp_path / "other", [tmp_path / "events_20231115", tmp_path / running.replace("15", "16")])
    assert len(plan.parts) == 2


ALL_EVENTS = ["event_id", "user_id", "session_id", "time", "event_table_name"]
Expected = tuple[Any, list[dict[str, Any]]]


def unloaded(folder: Path, form: str) -> Path:
    """The same tables as a warehouse unloads them: CSV, CSV of Snowflake, or Parquet of BigQuery's tables `…_raw`."""
    folder.mkdir()
    (folder / "heap_names.csv").write_bytes(heap.bucket()["heap_names.csv"])
    for name, rows in heap.tables().items():
        files = {"snowflake": f"{name.upper()}/data_0_0_0.csv", "parquet": f"{name}_raw/000000000000.parquet"}
        path = folder / files.get(form, f"{name}.csv")
        path.parent.mkdir(parents=True, exist_ok=True)
        if form == "parquet":
            pq.write_table(heap.parquet_table(name, [*rows, *rows[:1]]), path)
        else:
            path.write_bytes(heap.table_text(list(heap.COLUMNS[name]), rows, capitals=form == "snowflake"))
    return folder


def typed(event: dict[str, Any]) -> dict[str, Any]:
    """An event whose custom number is a string, as in every CSV."""
    properties = event["properties"]
    return {**event, "properties": properties | ({"seats": str(properties["seats"])} if "seats" in properties else {})}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Expected:
    """The plan of the bucket, and its events."""
    folder = tmp_path_factory.mktemp("heap")
    return planned(folder / "plan", [written(folder / "bucket", heap.bucket())])


@pytest.mark.parametrize("form", ["csv", "snowflake", "parquet"])
def test_tables_of_a_warehouse_give_the_events_of_the_bucket(tmp_path: Path, form: str, expected: Expected) -> None:
    """Every event with its uuid, every merge and every profile."""
    plan, events = planned(tmp_path / "plan", [unloaded(tmp_path / "tables", form)])
    assert plan.mapping.name == "heap"
    assert plan.rejects == {}
    assert [typed(event) for event in events] == [typed(event) for event in expected[1]]
    assert plan.events.phases == expected[0].events.phases


def test_all_events_adds_only_what_no_other_table_has(tmp_path: Path, expected: Expected) -> None:
    """Next to the other tables it changes nothing; if a table is missing, its events come without their properties."""
    folder = unloaded(tmp_path / "tables", "csv")
    (folder / "all_events.csv").write_bytes(heap.table_text(ALL_EVENTS, heap.all_events()))
    plan, events = planned(tmp_path / "one", [folder])
    assert [typed(event) for event in events] == [typed(event) for event in expected[1]]
    assert plan.skips == {"session_event": 6, "duplicate_event": 1, "superseded": 31}
    (folder / "sign_up.csv").unlink()
    _, events = planned(tmp_path / "two", [folder])
    found = [event for event in events if event["event"] == "Signed Up"]
    assert [event["uuid"] for event in found] == [e["uuid"] for e in expected[1] if e["event"] == "Signed Up"]
    assert "plan_name" not in found[0]["properties"]


def test_a_bucket_is_recognised_by_its_manifests(tmp_path: Path) -> None:
    """They come before all other files, also as documents over several lines."""
    for number in range(25):
        content = json.loads(heap.bucket()["manifests/sync_1.json"]) | {"dump_id": number}
        (tmp_path / f"sync_{number}.json").write_text(json.dumps(content, indent=number % 2 or None))
    assert guess_mapping(open_source([str(tmp_path)])) == "heap"


ROW = {"event_id": 1, "user_id": 2, "session_id": 3, "time": "2024-03-10 09:03:00", "library": "web"}
A_ROW_OF_HEAP = heap.table_text(list(ROW), [ROW])


def test_two_tables_of_equal_bytes_are_two_tables(tmp_path: Path) -> None:
    """They are not copies of each other, but a second file of one table is a copy."""
    files = dict.fromkeys(("click_buy.csv", "click_buy_on_shop.csv", "copies/click_buy.csv"), A_ROW_OF_HEAP)
    plan, events = planned(tmp_path / "plan", [written(tmp_path / "tables", files)])
    assert {event["event"] for event in events} == {"click_buy", "click_buy_on_shop"}
    assert [where for code, where, _ in plan.notices if code == "same_file"] == ["copies/click_buy.csv"]


def test_a_file_that_names_no_table_stops_the_plan(tmp_path: Path) -> None:
    """Its events would have no name."""
    folder = written(tmp_path / "2024", {"0001.csv": A_ROW_OF_HEAP})
    with pytest.raises(UnfitExport, match="cannot recognise the table"):
        planned(tmp_path / "plan", [folder / "0001.csv"])
    _, events = planned(tmp_path / "other", [folder], table="Sign_Up")
    assert {event["event"] for event in events} == {"sign_up"}


FIRST, SECOND = (f"{pendo.ROOT}/{export}" for export in pendo.EXPORTS[:2])


def exported(folder: Path, *names: str) -> Path:
    """The files of Pendo's sample with one of these strings in their paths."""
    files = pendo.files().items()
    return written(folder, {path: content for path, content in files if any(part in path for part in names)})


def sent(days: list[tuple[str, bool]]) -> int:
    """The number of rows of these days that are events."""
    kinds = [row["eventType"] for day, final in days for row in pendo.events(day, final=final)]
    return sum(kind not in ("focus", "meta", "identify") for kind in kinds)


def test_without_a_manifest_each_event_is_sent_once(tmp_path: Path) -> None:
    """From both deliveries of the day: also the event that Pendo removed."""
    plan, events = planned(tmp_path / "plan", [exported(tmp_path / "export", "allevents", "alltracktypes")])
    assert len(events) == sent([(pendo.DAYS[0], True), (pendo.DAYS[1], False)]) + 1
    updates = sum(row["eventType"] == "identify" for row in pendo.events(pendo.DAYS[0], final=True))
    assert plan.skips["duplicate_event"] == sent([(pendo.DAYS[0], True)]) - 1 + updates


def test_matched_events_alone_have_the_names_of_their_features(tmp_path: Path) -> None:
    """They have keys of their own: two features may have one event."""
    plan, events = planned(tmp_path / "plan", [exported(tmp_path / "export", "matchedEvents", f"{FIRST}/allfeatures")])
    assert plan.mapping.name == "pendo"
    assert {(event["event"], event["properties"]["feature_name"]) for event in events} == {("Buy button", "Buy button")}


def test_avro_and_lines_of_json_are_the_same_events(tmp_path: Path) -> None:
    """Times as milliseconds, and an object instead of its JSON."""
    _, expected = planned(tmp_path / "two", [exported(tmp_path / "avro", f"{SECOND}/all", f"{FIRST}/allguides")])
    rows = [*pendo.events(pendo.DAYS[0], final=True), *pendo.events(pendo.DAYS[1], final=False)]
    for one in rows:
        one |= {"periodId": str(one["periodId"]), "browserTimestamp": round(one["browserTimestamp"].timestamp() * 1000)}
        if one.get("propertiesJson"):
            one["propertiesJson"] = json.loads(one["propertiesJson"])
    folder = exported(tmp_path / "json", f"{SECOND}/alltracktypes", f"{FIRST}/allguides")
    write_rows(folder / "allevents.jsonl", rows)
    assert planned(tmp_path / "three", [folder])[1] == expected


def test_a_profile_has_the_time_of_its_last_change() -> None:
    """In every form; without one the plan dates it."""
    mapper = compile(load("pendo"), SealedOptions(as_of=0, settings={"table": "visitors"}))
    forms = [
        '{"visitorId":"u","metadata":{"auto":{"lastupdated":1685611800123}}}',
        '{"visitorId":"u","metadata_auto":{"x":1},"lastupdated":"2023-06-01T09:30:00.123Z"}',
        '{"id":"u","auto__lastupdated":"2023-06-01T09:30:00.123Z"}',
        '{"id":"u","auto":{"lastupdated":1685611800123}}',
        '{"id":"u","agent__plan":"pro"}',
    ]
    found = []
    for form in forms:
        outcome = mapper.map_row({name: Raw(json.dumps(value)) for name, value in json.loads(form).items()})
        assert isinstance(outcome, PersonUpdate)
        found.append(outcome.time)
    assert found == [*[1685611800123000] * 4, None]
