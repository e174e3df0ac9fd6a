"""Keys come from a file or the environment, are checked before they are used, and are never shown."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import traceback
from pathlib import Path

import msgspec
import pytest

from pipeline.config import Secret, personal_key, project_key
from pipeline.errors import UsageError

KEY = "phc_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"


@pytest.mark.parametrize(
    "shown",
    [
        repr(Secret(KEY)),
        str(Secret(KEY)),
        f"{Secret(KEY)}",
        f"{Secret(KEY)!r:>10}",
        f"{Secret(KEY):>60}",
        "%s %r" % (Secret(KEY), Secret(KEY)),  # noqa: UP031 - logging formats so
        "{:s}".format(Secret(KEY)),  # noqa: UP032
        repr([Secret(KEY)]),
        json.dumps({"key": Secret(KEY)}, default=str),
        str(UsageError(f"with {Secret(KEY)}")),
        logging.makeLogRecord({"msg": "%s", "args": (Secret(KEY),)}).getMessage(),
    ],
)
def test_a_secret_never_shows_itself(shown: str) -> None:
    """However a secret is written out, its value is not there."""
    assert KEY not in shown
    assert "***" in shown


@pytest.mark.parametrize("copier", [pickle.dumps, copy.copy, copy.deepcopy, msgspec.json.encode, json.dumps])
def test_a_secret_is_never_copied_out_of_the_process(copier: object) -> None:
    """Pickling, copying and encoding refuse, and their message does not show it either."""
    with pytest.raises(TypeError) as caught:
        copier(Secret(KEY))  # type: ignore[operator]
    assert KEY not in "".join(traceback.format_exception(caught.value))


def test_a_key_is_of_a_file_or_else_of_the_environment(tmp_path: Path) -> None:
    """White space around it is removed, 64 characters are the maximum; a missing personal key is an empty secret, which
    is false. `reveal` is the only way to the value."""
    (tmp_path / "key").write_text(f"{KEY}\n")
    longest = "phc_" + "x" * 60
    assert project_key(str(tmp_path / "key"), {"BACKCAST_PROJECT_KEY": "phc_other"}).reveal() == KEY
    assert project_key(None, {"BACKCAST_PROJECT_KEY": f" {longest}\n"}).reveal() == longest
    assert personal_key(None, {"BACKCAST_PERSONAL_KEY": "phx_abc"}).reveal() == "phx_abc"
    assert personal_key(None, {}).reveal() == ""
    assert (bool(Secret(KEY)), bool(Secret(""))) == (True, False)


def test_no_project_key_is_an_error_that_says_how_to_give_one() -> None:
    """Exit 2, naming the variable and the flag."""
    with pytest.raises(UsageError, match="there is no capture key") as caught:
        project_key(None, {})
    assert "BACKCAST_PROJECT_KEY" in caught.value.hint
    assert "--project-key-file" in caught.value.hint


@pytest.mark.parametrize("text", ["phx_0123456789", "phc_" + "x" * 61, "phc_ä", "phc_a b", "phc_a\nphc_b", "phc_\0a"])
def test_a_project_key_that_capture_would_refuse_is_refused_here_without_showing_it(text: str) -> None:
    """Personal keys, over 64 characters, not ASCII, white space or NUL inside (docs/know/service.md#event-fields)."""
    with pytest.raises(UsageError) as caught:
        project_key(None, {"BACKCAST_PROJECT_KEY": text})
    assert text not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize(
    ("text", "cloud", "elsewhere"),
    [
        (KEY, "", ""),
        ("phc_test_any", "", ""),
        ("abc", "stops", "warns"),
        ("phc_", "stops", "warns"),
        ("not.a.key.of.any.project", "stops", "warns"),
        ("sTmFpSfHdP1sSg", "warns", "warns"),
        ("phx_0123456789", "stops", "stops"),
    ],
)
def test_a_value_that_does_not_look_like_a_capture_key(text: str, cloud: str, elsewhere: str) -> None:
    """A region refuses a key that cannot be one of its keys; its oldest projects, and other services, have keys of
    other forms."""
    for at_cloud, expected in ((True, cloud), (False, elsewhere)):
        warned: list[str] = []
        found = ""
        try:
            project_key(None, {"BACKCAST_PROJECT_KEY": text}, cloud=at_cloud, warn=warned.append)
        except UsageError as error:
            found = "stops"
            warned = [error.message, error.hint]
        assert (found or ("warns" if warned else "")) == expected
        assert not warned or text == "phc_" or text not in " ".join(warned)


def test_a_key_file_that_cannot_be_read_names_the_file_and_the_flag(tmp_path: Path) -> None:
    """Exit 2 for a missing file and for one that is not text."""
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\0")
    for name in ("absent", "bytes"):
        with pytest.raises(UsageError, match=name) as caught:
            project_key(str(tmp_path / name), {})
        assert "--project-key-file" in caught.value.hint


@pytest.mark.parametrize("text", [KEY, "phx_a\nb", "phx_ä"])
def test_a_personal_key_that_could_not_work_is_refused_without_showing_it(text: str) -> None:
    """A project key in its place, or characters that no header carries (whose error would show them)."""
    with pytest.raises(UsageError) as caught:
        personal_key(None, {"BACKCAST_PERSONAL_KEY": text})
    assert text not in str(caught.value) + caught.value.hint
