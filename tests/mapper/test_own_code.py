"""A mapping's own code (`python`): exact, sealed, and a reject if it fails."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from pipeline import uuids
from pipeline.api import apply_plan, plan_export, read_rejects, rehearse_plan
from pipeline.errors import MappingError
from pipeline.extractors import blocks
from pipeline.local_service import LocalService
from pipeline.mapper import compile, load
from pipeline.mapper.inspection.cases import run_cases
from pipeline.mapper.inspection.ineffective import check_mapping
from pipeline.mapper.inspection.mutations import mutate
from pipeline.mapper.language.loader import parse
from pipeline.mapper.own_code import OwnCode, OwnCodeRunner
from pipeline.models import RejectReason, SealedOptions, Skip, UnvalidatedEvent
from pipeline.options import PlanOptions
from pipeline.plan.sealed.freshness import open_plan
from pipeline.plan.sealed.manifest import Plan
from pipeline.transform.block import BlockTransformer
from pipeline.transform.tasks import Task
from tests.golden.samples import AS_OF, GOLDEN, SAMPLES
from tests.support.commands import in_process
from tests.support.jobs import KEYS, code, days, run, sent_once, write_job
from tests.support.plan_config import config_of
from tests.support.sent_events import events_of
from tests.support.small_mappings import as_json

MAPPING = """format: backcast.mapping/1
tool: shop
title: Shop
event: /name
distinct_id: [/user, /anon]
pair: {user: /user, anonymous: /anon}
time: {from: /at}
key: {of: /id, needs: /id}
properties: {open: /p}
python: clean.py:clean
"""
ROW = {"id": "1", "name": "Seen", "user": "u-1", "at": "2023-01-02T03:04:05Z", "p": {"n": 1}}
KEY_UUID = uuids.Hasher(uuids.namespace("shop"))("1")


def written(place: Path, body: str, *rows: dict[str, Any] | str, mapping: str = MAPPING) -> Path:
    """A mapping with a function of this body, and rows next to it."""
    place.mkdir(exist_ok=True)
    lines = body.strip("\n").replace("\n", "\n    ")
    (place / "clean.py").write_text(f"import datetime, math, os, time\nKEPT = []\n\ndef clean(event):\n    {lines}\n")
    texts = (one if isinstance(one, str) else json.dumps(one) for one in rows or (ROW,))
    (place / "rows.jsonl").write_text("".join(f"{one}\n" for one in texts), "utf-8")
    path = place / "shop.yaml"
    path.write_text(mapping, "utf-8")
    return path


def planned(place: Path, body: str, *rows: dict[str, Any] | str, mapping: str = MAPPING, **asked: Any) -> Plan:
    """The plan of these rows, in one process."""
    path = written(place, body, *rows, mapping=mapping)
    options = PlanOptions(mapping=str(path), as_of=AS_OF, **{"workers": 0, "max_rejects": "100%", **asked})
    return plan_export([str(place / "rows.jsonl")], place / "plan", options)


def events(place: Path) -> list[dict[str, Any]]:
    """The events that an apply of that plan sends."""
    return events_of(place / "plan")


def without_code(mapping: str) -> str:
    return mapping.replace("python: clean.py:clean\n", "")


def own(text: str) -> OwnCode:
    return OwnCode("clean.py", "clean", text, text)


@pytest.mark.parametrize("name", ["adobe", "braze", "matomo", "mixpanel-people", "segment-warehouse"])
def test_code_that_changes_nothing_changes_no_byte_of_a_sample(name: str, tmp_path: Path) -> None:
    """Each block of samples of each kind has the same seal as without the code; `make soak` tries all."""
    unchanged_by_code(name, tmp_path)


def unchanged_by_code(name: str, tmp_path: Path) -> None:
    """Every block of a sample becomes the same events as without code."""
    sample = GOLDEN[name]
    files = [str(SAMPLES / file) for file in sample.files]
    plan = plan_export(files, tmp_path, PlanOptions(as_of=AS_OF, **sample.asked))
    _, directory = open_plan(tmp_path)
    config = config_of(plan, directory)
    text = f"{plan.mapping.text}\npython: clean.py:clean\n"
    compile_ = replace(config.compile, text=text, code=own("def clean(event): return event"))  # type: ignore[type-var]
    through = replace(config, compile=compile_)
    transformer, without = BlockTransformer(through), BlockTransformer(config)
    for number, block in enumerate(chain.from_iterable(map(blocks, config.parts))):
        task = Task(number, block)
        found, expected = (one.transform(task).digest for one in (transformer, without))
        assert found == expected
    assert bool(transformer.take_cost().events) == bool(plan.events.phases["events"])


LITERALS = st.sampled_from(
    (
        "1.10", "-0.0", "-0", "1E+2", "1e5", "0.1e-7", "12345678901234567890123", "18446744073709551616", "9" * 5000,
        '"\\u00e9"', '"\\ud83d"', '"\\/"', '""', '"NaN"', "null", "true", "1.0",
    )
)  # fmt: skip
VALUES = st.recursive(
    LITERALS | st.integers().map(str) | st.text().map(json.dumps),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: "[" + " ,".join(items) + "]")
        | st.lists(st.tuples(st.text(max_size=3).filter(str.isprintable).map(json.dumps), inner), max_size=3).map(
            lambda items: "{ " + ",".join(f"{name} : {value}" for name, value in items) + "}"
        )
    ),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(values=st.lists(VALUES, min_size=1, max_size=5))
@example(values=["9" * 5000])
def test_what_the_code_does_not_touch_keeps_its_bytes(values: list[str]) -> None:
    """Next to a property that it sets, in copies that it makes, and in events that it adds."""
    properties = {f"p{n}": text for n, text in enumerate(values)}
    for made in after(
        "import copy\nevent['properties']['new'] = 1\nreturn [event, copy.deepcopy(event)]", **properties
    ):
        assert {name: as_json(value) for name, value in made.properties.items()} == {**properties, "new": "1"}


def after(body: str, **properties: str) -> Any:
    """The outcome of a row with these properties, given as JSON, after a function of this body."""
    lines = body.strip("\n").replace("\n", "\n    ")
    code = own(f"import datetime, math\ndef clean(event):\n    {lines}\n")
    given = {name: Raw(text.encode()) for name, text in properties.items()}
    run = OwnCodeRunner(code, uuids.Hasher(uuids.namespace("shop"))).after
    return run(lambda *row: UnvalidatedEvent("Seen", "u", 0, given, "1"))({})


def test_numbers_are_exact_and_a_changed_object_keeps_the_digits_in_it() -> None:
    """An amount is a Decimal, a big integer an int; both are sent with their own digits."""
    body = """
p = event["properties"]
assert repr(p["price"]) == "Decimal('1.10')", p
p["cart"]["more"] = p["price"] + 1
p["half"] = 0.5
return event
"""
    made = after(body, price="1.10", cart='{"n": 12345678901234567890, "x": 0.10}')
    cart = '{"n":12345678901234567890,"x":0.10,"more":2.10}'
    assert [as_json(value) for value in made.properties.values()] == ["1.10", cart, "0.5"]


@pytest.mark.parametrize(
    ("body", "reject", "detail"),
    [
        ("x = 1\nraise ValueError('no\\nmore')", "python_error", "ValueError: no, at clean.py:4"),
        ("return math.sqrt(-1)", "python_error", "ValueError: math domain error, at clean.py:3"),
        ("raise SystemExit(3)", "python_error", "SystemExit: 3, at clean.py:3"),
        ("return clean(event)", "python_error", "RecursionError: "),
        ("return 'a'", "python_result", "returned of type str, not the event as a dict"),
        ("del event['distinct_id']\nreturn event", "python_result", "the event lacks 'distinct_id'"),
        ("return event | {'plan': 1}", "python_result", "an event has no member 'plan'; is it one"),
        ("return event | {'properties': []}", "python_result", "properties is of type list, not a dict"),
        ("return event | {'properties': {1: 2}}", "python_result", "properties has the name 1, which is not a string"),
        ("return event | {'event': 5}", "python_result", "event is of type int, not a string"),
        ("return event | {'event': '\\ud800'}", "python_result", "event has '\\ud800', which is not Unicode"),
        ("return event | {'uuid': 'u-1'}", "python_result", "uuid is 'u-1', which is not a UUID"),
        ("return event | {'uuid': 7}", "python_result", "uuid is 7, which is not a UUID"),
        ("return event | {'timestamp': 5}", "python_result", "timestamp is of type int, not a string"),
        ("return event | {'timestamp': 'soon'}", "python_result", "timestamp: not an ISO 8601 time: 'soon'"),
        ("return event | {'timestamp': '2023-01-02T03:04:05'}", "python_result", "has no offset"),
        ("return event | {'timestamp': '2023-01-02T03:04:05.1234567Z'}", "python_result", "below a microsecond"),
        ("return [event, 1]", "python_result", "item 1 of the list: returned of type int"),
        ("return [event] * 1001", "python_result", "a list of 1,001 events; the limit is 1,000"),
        ("event['properties']['a'] = {'b': [float('nan')]}\nreturn event", "python_result", "['a']['b'][0] is nan"),
        ("event['properties']['a'] = datetime.date(2023, 1, 1)\nreturn event", "python_result", "of type date"),
        ("event['properties']['a'] = 10 ** 400\nreturn event", "python_result", "beyond the range of a number"),
        ("event['properties']['a'] = a = []\na.append(a)\nreturn event", "python_result", "has more than 64 levels"),
    ],
)
def test_what_goes_wrong_is_a_reject_with_a_line_and_no_traceback(body: str, reject: str, detail: str) -> None:
    """The message says what was returned, or what was raised and where in the user's file."""
    made = after(body, n="1")
    assert isinstance(made, RejectReason)
    assert made.code == reject
    assert detail in made.detail


def test_a_row_that_goes_wrong_is_rejected_alone(tmp_path: Path) -> None:
    """A property that the code removes is missing to the validation rules; the other rows are sent."""
    body = """
match event["properties"]["n"]:
    case 1: raise ValueError("no")
    case 2: event["event"] = ""
    case 3: event["timestamp"] = None
    case 4: event["distinct_id"] = None
return event
"""
    rows = [{**ROW, "id": str(n), "p": {"n": n}} for n in range(5)]
    plan = planned(tmp_path, body, *rows)
    codes = ["python_error", "missing_event", "missing_timestamp", "missing_distinct_id"]
    assert [(one.row, one.code) for one in read_rejects(tmp_path / "plan")] == [*enumerate(codes, 2)]
    assert (plan.rows.mapped, plan.rows.balanced) == (1, True)


def test_none_and_an_empty_list_skip_the_row() -> None:
    for nothing in ("None", "[]"):
        made = after(f"return {nothing}")
        assert (type(made), made.code) == (Skip, "python_skipped")


def test_the_events_of_a_list_have_uuids_of_their_own(tmp_path: Path) -> None:
    """The first has the row's; an event that shares it gets a UUIDv5 of it and its index."""
    other = "11111111-2222-4333-8444-555555555555"
    body = f"""
first, second, third, fourth = (dict(event) for _ in range(4))
second["event"] = "Second"
third["uuid"] = "{other.upper()}"
del fourth["uuid"]
return [first, second, third, fourth]
"""
    planned(tmp_path, body)
    made = {event["uuid"]: event["event"] for event in events(tmp_path)}
    derived = [str(uuid5(UUID(KEY_UUID), index)) for index in ("1", "3")]
    assert made == {KEY_UUID: "Seen", derived[0]: "Second", other: "Seen", derived[1]: "Seen"}


def test_events_after_a_list_keep_their_uuids(tmp_path: Path) -> None:
    """A row's further event has the same uuid as without the code, however many events come before it."""
    also = MAPPING + "also: {event: {const: Extra}, properties: {a: n}}\n"
    planned(tmp_path / "plain", "", mapping=without_code(also))
    planned(tmp_path / "more", "return [event] * 3 if event['event'] == 'Seen' else event", mapping=also)
    extra = [[one for one in events(tmp_path / name) if one["event"] == "Extra"] for name in ("plain", "more")]
    assert extra[0] == extra[1] != []
    assert len(events(tmp_path / "more")) == 4


def test_rows_without_a_key_have_no_uuid_yet_and_the_cost_is_printed_and_never_sealed(tmp_path: Path) -> None:
    """It depends on the whole source; the events of a list differ from each other and stay the same in each plan. The
    line about the cost is on stderr, like what the code prints; two plans have one digest."""
    keyless = MAPPING.replace("key: {of: /id, needs: /id}\n", "")
    path = written(tmp_path, "print('seen')\nassert event['uuid'] is None\nreturn [event, event]", mapping=keyless)
    found = []
    for name in ("a", "b"):
        words = ["plan", str(tmp_path / "rows.jsonl"), "-m", str(path), "-o", str(tmp_path / name / "plan"), "--json"]
        done = in_process(*words, "--as-of", "2026-01-01T00:00:00Z")
        assert "clean.py:clean: 1 event, 0.0 s," in done.stderr
        found.append((json.loads(done.stdout)["digest"], [event["uuid"] for event in events(tmp_path / name)]))
    assert found[0] == found[1]
    assert len(set(found[0][1])) == 2


def test_a_changed_id_is_still_excluded_and_never_joined(tmp_path: Path) -> None:
    """People who asked to be forgotten are found by the id in the export; a merge by the old id is left out."""
    (tmp_path / "gone.txt").write_text("u-2\n")
    rows = [{**ROW, "anon": "a-1"}, {**ROW, "id": "2", "user": "u-2"}, {**ROW, "id": "3", "user": None, "anon": "a-1"}]
    asked = {"exclude_ids": str(tmp_path / "gone.txt")}
    plan = planned(tmp_path / "same", "", *rows, mapping=without_code(MAPPING), **asked)
    assert (dict(plan.skips), plan.events.phases["identities"]) == ({"excluded_id": 1}, 1)
    plan = planned(tmp_path / "changed", "event['distinct_id'] += '!'\nreturn event", *rows, **asked)
    assert (dict(plan.skips), plan.events.phases["identities"]) == ({"excluded_id": 1}, 0)
    assert plan.warnings["python_changed_id"] == 1
    assert {event["properties"]["distinct_id"] for event in events(tmp_path / "changed")} == {"u-1!", "a-1!"}


def test_a_plan_needs_its_code_no_more(tmp_path: Path) -> None:
    """Its page and its report name the code that made its events; the file may be changed or deleted."""
    plan = planned(tmp_path, "event['event'] = 'Cleaned'\nreturn event")
    assert isinstance(plan.mapping.python, OwnCode)
    sealed = {"file": "clean.py", "function": "clean", "digest": plan.mapping.python.digest}
    report = json.loads((tmp_path / "plan" / "report.json").read_text())
    assert report["mapping"]["python"] == report["plan"]["python"] == sealed
    assert plan.mapping.python.digest in (tmp_path / "plan" / "report.html").read_text()
    (tmp_path / "clean.py").unlink()
    with LocalService() as service:
        assert apply_plan(tmp_path / "plan", service.url, project_key=service.capture_key).counts.accepted == 1


def test_the_workers_run_the_code_and_a_rehearsal_proves_it(tmp_path: Path) -> None:
    """The processes get the code as a string; no file is read again."""
    planned(tmp_path, "event['properties']['seen'] = True\nreturn event", workers=1)
    assert rehearse_plan(tmp_path / "plan").verification.proved


def test_a_job_runs_the_code_of_its_mapping(tmp_path: Path) -> None:
    """Each window is planned and sent with it."""
    rows = days(tmp_path, 1, 2, rows=3)
    path = written(tmp_path, "return event", mapping=load("generic").text + "python: clean.py:clean\n")
    with LocalService(keys=KEYS) as service:
        job = write_job(tmp_path, service.url, mapping=path.name, until="2024-01-03")
        assert code(run(job)) == 0
        assert sent_once(service, rows)


@pytest.mark.parametrize(
    ("python", "text", "message"),
    [
        ("clean.py", "", r"'clean.py' does not name a function, at .*shop.yaml:10:1"),
        ("gone.py:clean", "", r"cannot read .*gone.py: No such file or directory, at .*shop.yaml:10:1"),
        (
            "clean.py:clean",
            "def clean(event)\n    return event\n",
            r"the file is not valid Python: .*, at clean.py:1:17",
        ),
        ("clean.py:clean", "x = 1\nimport nowhere_to_be_found\n", r"ModuleNotFoundError: .*, at clean.py:2:1"),
        ("clean.py:clean", "def other(event): ...\n", r"the file has no function 'clean', at clean.py"),
    ],
)
def test_check_names_what_is_wrong_with_the_code(tmp_path: Path, python: str, text: str, message: str) -> None:
    """The error has its line, in the mapping or in the file itself."""
    path = written(tmp_path, "return event", mapping=MAPPING.replace("clean.py:clean", python))
    if text:
        (tmp_path / "clean.py").write_text(text)
    with pytest.raises(MappingError, match=message):
        check_mapping(load(str(path)))


def test_cases_show_what_the_code_makes(tmp_path: Path) -> None:
    """A case has the event after the code, and fails if that differs."""
    case = f"cases:\n  - name: one\n    row: '{json.dumps(ROW)}'\n"
    text = MAPPING + case + """    gives: {event: NAME, properties: '{"n": 2}'}\n"""
    for name, passed in (("Seen", False), ("Seen!", True)):
        body = "event['event'] += '!'\nevent['properties']['n'] += 1\nreturn event"
        path = written(tmp_path, body, mapping=text.replace("NAME", name))
        assert [one.passed for one in run_cases(load(str(path)))] == [passed]
    assert not any("python" in one.what for one in mutate(load(str(path))).survivors)


def test_no_code_runs_from_a_mapping_that_was_not_named_by_its_path() -> None:
    """Code in a mapping given as a string, as the shipped ones are, is refused."""
    with pytest.raises(MappingError, match="only a mapping that is named by its path may have `python`"):
        compile(parse(MAPPING, "shop.yaml"), SealedOptions(as_of=0))
