"""Keys, scopes and seeds of the local service come from files; no key is ever shown."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from pipeline.local_service import Keyring
from pipeline.local_service.keys import BadKeys, allows, generate_keys, load_keys
from tests.support.capture_service import CLIENT, batch
from tests.support.commands import in_process
from tests.support.management_service import LIST

GOOD: dict[str, Any] = {
    "projects": [
        {"id": 1, "name": "One", "capture_key": "phc_test_1"},
        {"id": 2, "name": "Two", "capture_key": "phc_test_2"},
    ],
    "keys": {
        "phx_test_read": ["hog_function:read"],
        "phx_test_all": ["*"],
        "phx_test_two": {"scopes": ["*"], "projects": [2]},
    },
}


def read(tmp_path: Path, content: Any) -> Keyring:
    file = tmp_path / "keys.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return load_keys(file)


def test_a_file_gives_projects_keys_and_scopes(tmp_path: Path) -> None:
    """Scopes as a list, or as an object with the projects that a key reaches."""
    keys = read(tmp_path, GOOD)
    assert (keys.project_of("phc_test_2"), keys.project_of("phc_test_3")) == (2, None)
    assert [(one.id, one.name, one.capture_key) for one in keys.projects] == [
        (1, "One", "phc_test_1"),
        (2, "Two", "phc_test_2"),
    ]
    assert keys.personal["phx_test_read"] == {"hog_function:read"}
    assert (keys.personal["phx_test_two"], keys.reach) == ({"*"}, {"phx_test_two": {2}})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("{", "truncated"),
        ("[]", "Expected `object`"),
        ({"projects": []}, "length >= 1 - at `$.projects`"),
        ({"projects": [{"id": "1", "capture_key": "phc_test_1"}]}, "$.projects[0].id"),
        ({"projects": [{"id": 0, "capture_key": "phc_test_1"}]}, "$.projects[0].id"),
        ({"projects": [{"id": True, "capture_key": "phc_test_1"}]}, "$.projects[0].id"),
        ({"projects": [{"id": 2**40, "capture_key": "phc_test_1"}]}, "$.projects[0].id"),
        ({"projects": [{"id": 1, "capture_key": "phx_test_1"}]}, "$.projects[0].capture_key"),
        ({"projects": GOOD["projects"][:1] * 2}, "the same id"),
        ({"keys": []}, "$.keys"),
        ({"keys": {"phc_test_1": ["*"]}}, "personal key 1"),
        ({"keys": {"phx_test 1": ["*"]}}, "personal key 1"),
        ({"keys": {"phx_test_1": "*"}}, "personal key 1"),
        ({"keys": {"phx_test_1": ["*"], "phx_test_2": ["hog_function.read"]}}, "personal key 2"),
        ({"keys": {"phx_test_1": ["hog_function:delete"]}}, "personal key 1"),
        ({"keys": {"phx_test_1": {"scopes": ["*"], "projects": [3]}}}, '"projects" of personal key 1'),
        ({"keys": {"phx_test_1": {"scopes": ["*"], "projects": 1}}}, "$.projects"),
        ({"keys": {"phx_test_1": {"projects": [1]}}}, "field `scopes`"),
    ],
)
def test_a_bad_file_says_where_and_shows_no_key(tmp_path: Path, change: Any, said: str) -> None:
    with pytest.raises(BadKeys) as raised:
        read(tmp_path, change if isinstance(change, str) else GOOD | change)
    assert said in str(raised.value)
    assert "phx_test" not in str(raised.value)
    assert "phc_test" not in str(raised.value)


def test_a_keyring_shows_no_key(tmp_path: Path) -> None:
    """Neither its own keys nor those it made."""
    assert "test_" not in repr(read(tmp_path, GOOD))
    made = generate_keys()
    assert not any(key in repr(made) for key in made.texts())
    assert len(set(made.texts())) == 2


def test_scopes_open_what_they_name() -> None:
    """A star opens everything, write includes read, and nothing else is implied."""
    for scopes, scope, opens in (
        ({"*"}, "query:read", True),
        ({"query:read"}, "query:read", True),
        ({"hog_function:write"}, "hog_function:read", True),
        ({"hog_function:read"}, "hog_function:write", False),
        ({"session_recording:write"}, "hog_function:read", False),
        (set(), "query:read", False),
    ):
        assert allows(frozenset(scopes), scope) is opens, (scopes, scope)


def test_the_command_serves_its_files_and_its_faults(tmp_path: Path) -> None:
    """Keys, a seed, a store, a behaviour, a setting and faults, in a separate process; its last line counts the faults,
    and no key is printed."""
    (tmp_path / "keys.json").write_text(json.dumps(GOOD))
    (tmp_path / "seed.json").write_text(json.dumps({"hog_functions": [{"name": "seeded", "hog": "h"}]}))
    process = subprocess.Popen(
        [sys.executable, "-m", "pipeline", "service", "--port", "0", "--keys", str(tmp_path / "keys.json"), "--seed",
         str(tmp_path / "seed.json"), "--store", str(tmp_path / "store.duckdb"), "--behaviour", "observed", "--set",
         "icons=open", "--fault", "before:503,every=2", "--fault", "lost,times=1", "--fault-seed", "7"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        functions = first.split()[-1] + LIST
        headers = {"authorization": "Bearer phx_test_all"}
        found = CLIENT.get(functions, headers=headers).json()
        assert [one["name"] for one in found["results"]] == ["seeded"]
        assert "search_match_type" in found["results"][0]
        assert CLIENT.get(functions + "icons/", headers=headers).status_code == 200
        capture = functions.removesuffix(LIST) + "/batch/"
        with pytest.raises(httpx.TransportError):
            CLIENT.post(capture, content=batch(api_key="phc_test_1"))
        sent = [CLIENT.post(capture, content=batch(api_key="phc_test_1")).status_code for _ in range(3)]
        assert sent == [503, 200, 503]
    finally:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert err.splitlines()[-2:] == [
        "Fault before:503,every=2: 2 of 4 requests", "Fault lost,times=1: 1 of 2 requests",
    ]  # fmt: skip
    assert "test_" not in first + out + err.replace(str(tmp_path), "")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--set", "nowhere=1"], "no setting"),
        (["--set", "icons=ajar"], "icons must be closed or open"),
        (["--fault", "lsot"], "Error: there is no fault 'lsot'\nTry: did you mean lost? "),
        (["--seed", "SEED"], "hog_functions[0] of the seed, field name"),
    ],
)
def test_a_wrong_option_is_two_lines(tmp_path: Path, options: list[str], said: str) -> None:
    """Exit 2, what happened and what to do, no traceback."""
    seed = tmp_path / "seed.json"
    seed.write_text(json.dumps({"hog_functions": [{"name": 1}]}))
    ran = in_process("service", "--port", "0", *(seed if option == "SEED" else option for option in options))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert said in ran.stderr
    assert [line.split(":")[0] for line in ran.stderr.splitlines()] == ["Error", "Try"]
