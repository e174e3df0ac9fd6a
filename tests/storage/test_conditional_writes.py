"""Writing an object only if it does not exist yet, and what stores and their libraries answer."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline import storage
from pipeline.errors import UsageError
from pipeline.storage import one_file
from pipeline.storage.store import errors
from tests.support.file_size_limit import file_size_limit
from tests.support.stores import Bucket, a_bucket, a_store_that_answers


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    monkeypatch.setattr(one_file, "_CONFLICTS", (0.0, 0.0))
    with a_bucket() as bucket:
        yield bucket


def test_the_first_one_stays(bucket: Bucket) -> None:
    place = f"{bucket.url}/a"
    assert storage.create(place, b"first")
    assert not storage.create(place, b"second")
    storage.refuse_replacing(place, b"first")
    assert storage.read(place) == b"first"


def test_the_answers_of_stores(bucket: Bucket) -> None:
    """Amazon names the condition that failed, and others do not; on a conflict it asks for another attempt."""
    place = f"{bucket.url}/a"
    with a_store_that_answers(lambda: (412, "PreconditionFailed")):
        assert not storage.create(place, b"")
    with (
        a_store_that_answers(lambda: (501, "NotImplemented")),
        pytest.raises(UsageError, match="has no conditional writes"),
    ):
        storage.create(place, b"")
    with a_store_that_answers(lambda: (409, "ConditionalRequestConflict")), pytest.raises(storage.StoreError):
        storage.create(place, b"")
    with a_store_that_answers(lambda: (403, "AccessDenied")), pytest.raises(PermissionError):
        storage.create(place, b"")
    assert not bucket.objects()
    conflicts = iter([(409, "ConditionalRequestConflict")] * 2)
    with a_store_that_answers(lambda: next(conflicts, None)):
        assert storage.create(place, b"mine")
    assert bucket.objects() == {"a": b"mine"}


class _Answered(Exception):
    """An error like those of azure.core."""

    def __init__(self, message: str, status_code: int) -> None:
        super().__init__(message)
        self.status_code = status_code


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (_Answered("The specified container does not exist.\nRequestId: 1", 404), FileNotFoundError, "container"),
        (_Answered("Server failed to authenticate the request.\nmore", 403), PermissionError, "authenticate"),
        (_Answered("Signature not valid", 401), PermissionError, "Signature"),
        (OSError("Forbidden: b/bucket/o\nno access to the bucket"), PermissionError, "no access to the bucket"),
        (_Answered("The server is busy", 503), storage.StoreError, "busy"),
        (ValueError("anything"), storage.StoreError, "anything"),
    ],
)
def test_errors_are_of_the_same_kinds_for_each_library(error: Exception, kind: type[Exception], message: str) -> None:
    """Each has the URL: a StoreError in its message, since what is read is named before its message, others as
    usual."""
    with pytest.raises(kind, match=message) as raised, errors("s3://b/key"):
        raise error
    assert type(raised.value) is kind
    assert "\n" not in str(raised.value)
    assert "Forbidden" not in str(raised.value)
    raised = pickle.loads(pickle.dumps(raised.value))
    if isinstance(raised, storage.StoreError):
        assert (raised.url, "b/key" in str(raised)) == ("s3://b/key", False)
    else:
        assert str(raised).endswith(": 's3://b/key'")


def test_a_full_disk_is_not_an_error_of_the_store(bucket: Bucket, tmp_path: Path) -> None:
    """A failure on this machine while an object is copied keeps its kind and its path."""
    url = bucket.put("a", b"x" * 10_000)
    with file_size_limit(100), pytest.raises(OSError, match="File too large") as raised:
        storage.download(url, str(tmp_path / "a"))
    assert type(raised.value) is OSError
    with pytest.raises(FileNotFoundError) as missing:
        storage.upload(str(tmp_path / "none"), url)
    assert missing.value.filename == str(tmp_path / "none")


def test_a_colon_that_a_library_takes_for_a_port_is_refused() -> None:
    """adlfs writes the object, and then fails."""
    for place in ("az://plans/10:00/june", "az://plans/10:a"):
        with pytest.raises(UsageError, match="has a colon"):
            storage.create(place, b"")


def test_what_libraries_log_is_not_printed() -> None:
    """They log a traceback for each error that they also raise."""
    program = (
        "import logging\n"
        "from pipeline.storage.store import file_system\n"
        "file_system('s3://bucket/a')\n"
        "for name in ('gcsfs', 'azure.identity', 's3fs'):\n"
        "    logging.getLogger(name).error('printed')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={**os.environ, "HOME": "/"}
    )
    assert done.stderr == ""
