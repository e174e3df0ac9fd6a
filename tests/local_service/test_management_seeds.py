"""What the management API of the local service has from the start: a seed, or the file of an earlier service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.local_service import LocalService
from pipeline.local_service.management.seeds import BadSeed, load_seed
from pipeline.local_service.settings import Behaviour, preset
from tests.support.management_service import KEYS, LIST, RECORDING, SECRET, asking


def test_a_file_keeps_everything(tmp_path: Path) -> None:
    """Functions, deleted ones, recordings, deleted ones and tokens are there again; the seed comes once."""
    file, path = tmp_path / "s.duckdb", f"/api/projects/1/session_recordings/{RECORDING}/"
    with asking(store=file) as ask:
        kept, gone = ask.made(name="kept"), ask.made(name="gone")
        ask("PATCH", f"{LIST}{gone['id']}/", {"deleted": True})
        token = ask("GET", "/api/projects/1/session_recordings/rec-2/sharing/").json()["access_token"]
        ask("DELETE", path)
        ask("PATCH", "/api/projects/1/session_recordings/rec-2/", {"person": {"name": "Eve"}})
    with asking(store=file) as ask:
        assert [one["id"] for one in ask("GET", LIST).json()["results"]] == [kept["id"]]
        assert ask("GET", f"{LIST}{kept['id']}/").json() == kept
        assert ask("PATCH", f"{LIST}{gone['id']}/", {"deleted": False}).json()["name"] == "gone"
        assert ask("GET", path).status_code == 404
        assert ask("GET", "/api/projects/1/session_recordings/rec-2/").json()["person"] == {"name": "Eve"}
        assert ask("GET", "/api/projects/1/session_recordings/rec-2/sharing/").json()["access_token"] == token
        assert ask("GET", "/api/projects/1/session_recordings/").json()["count"] == 2


@pytest.mark.parametrize("behaviour", ["contract", "observed"])
def test_a_seeded_function_keeps_what_the_service_made_of_it(tmp_path: Path, behaviour: Behaviour) -> None:
    """Its status and code, also after a restart and a change of its name; the code is removed when its source is
    written."""
    status = {"state": 2, "rating": 0.5, "tokens": 9000}
    made: dict[str, Any] = {"status": status, "bytecode": ["_H", 1, 29], "transpiled": "() => 1"}
    coded = {"value": "x", "bytecode": ["_H", 1, 32, "x"], "order": 3, "transpiled": {"code": "1"}}
    parts: dict[str, Any] = {
        "inputs": {"url": coded},
        "filters": {"events": [], "source": "events", "bytecode": ["_H", 1, 29], "transpiled": "2"},
        "masking": {"ttl": 60, "threshold": None, "hash": "{event}", "bytecode": ["_H", 1, 31]},
    }
    schema = {"inputs_schema": [{"key": "url", "type": "string"}]}
    if behaviour == "contract":
        parts["masking"] = parts["masking"] | {"threshold": 1}
    mapping = {"name": "m", **schema, "inputs": parts["inputs"], "filters": parts["filters"]}
    entry = {"hog": "return 1", "name": "n", "mappings": [mapping], **schema, **parts, **made}
    if behaviour == "observed":
        parts["filters"] = {name: value for name, value in parts["filters"].items() if name != "events"}
    file, settings = tmp_path / "s.duckdb", preset(behaviour)
    with asking(settings, seed={"hog_functions": [entry]}, store=file) as ask:
        (listed,) = ask("GET", LIST).json()["results"]
        assert listed["status"] == made["status"]
    with asking(settings, seed={}, store=file) as ask:
        path = f"{LIST}{listed['id']}/"
        whole = ask("GET", path).json()
        for found in (whole, ask("PATCH", path, {"name": "other"}).json()):
            assert {name: found[name] for name in made | parts} == made | parts
            assert found["mappings"] == [mapping]
        changed = ask("PATCH", path, {"hog": "return 2"}).json()
    assert changed["status"] == made["status"]
    assert changed["bytecode"] != made["bytecode"]
    assert changed["transpiled"] in ("", None)


@pytest.mark.parametrize("behaviour", ["contract", "observed"])
def test_a_seed_may_be_the_answer_of_a_service(behaviour: Behaviour) -> None:
    """Null for a part that was not made counts as missing."""
    entry = {"hog": "return 1", "status": None, "bytecode": None, "transpiled": None, "masking": None}
    with asking(preset(behaviour), seed={"hog_functions": [entry]}) as ask:
        (listed,) = ask("GET", LIST).json()["results"]
        found = ask("GET", f"{LIST}{listed['id']}/").json()
    assert (found["masking"], found["status"]["state"]) == (None, 0)


def test_a_seeded_template_stays_what_it_is() -> None:
    """Any object of the contract's form, under any id."""
    template = {"id": "my-template", "name": "Mine", "status": "alpha", "free": True, "type": "destination"}
    with asking(
        preset("contract"), seed={"hog_functions": [{"template_id": "my-template", "template": template}]}
    ) as ask:
        (listed,) = ask("GET", LIST).json()["results"]
        found = ask("GET", f"{LIST}{listed['id']}/").json()
    assert (found["template"], found["template_id"], listed["template"]) == (template, "my-template", "my-template")


@pytest.mark.parametrize(
    ("seed", "where"),
    [
        ({"functions": []}, "functions"),
        ({"hog_functions": {}}, '"hog_functions"'),
        ({"hog_functions": [1]}, "hog_functions[0]"),
        ({"hog_functions": [{}, {"name": {"v": SECRET}}]}, "hog_functions[1] of the seed, field name"),
        ({"hog_functions": [{"id": "x"}]}, "field id"),
        ({"hog_functions": [{"created_at": SECRET}]}, "field created_at"),
        ({"hog_functions": [{"template_id": 5}]}, "field template_id"),
        ({"session_recordings": [{"viewed": SECRET}]}, "session_recordings[0] of the seed, field viewed"),
        ({"session_recordings": [{"retention_period_days": "30"}]}, "field retention_period_days"),
        ({"session_recordings": [{"retention_period_days": 0}]}, "field retention_period_days"),
        ({"hog_functions": [{"status": {"state": SECRET}}]}, "field status__state"),
        ({"session_recordings": [{"sharing": {"access_token": [SECRET]}}]}, "field sharing__access_token"),
        ({"session_recordings": [{"id": "a"}, {"id": "a"}]}, "the same id"),
    ],
)
def test_a_bad_seed_says_where(seed: dict[str, Any], where: str) -> None:
    """The error repeats no value."""
    with pytest.raises(BadSeed) as raised:
        LocalService(keys=KEYS, seed=seed)
    assert where in str(raised.value)
    assert SECRET not in str(raised.value)


def test_a_seed_is_a_json_file(tmp_path: Path) -> None:
    """Anything but a JSON object is refused, and so is a missing file."""
    file = tmp_path / "seed.json"
    file.write_text(json.dumps({"hog_functions": [{"name": "x"}]}))
    assert load_seed(file) == {"hog_functions": [{"name": "x"}]}
    file.write_text("[1")
    with pytest.raises(BadSeed, match="not a JSON object"):
        load_seed(file)
    with pytest.raises(BadSeed, match="cannot be read"):
        load_seed(tmp_path / "nowhere.json")
