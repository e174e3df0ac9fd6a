"""A server with the interface of S3 on this machine, and its objects."""

from __future__ import annotations

import atexit
import logging
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

SECRET = "test-secret-of-the-store"


@cache
def _client() -> Any:
    """A client of the server, which is started once and ends with the process."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server.start()
    atexit.register(server.stop)
    host, port = server.get_host_and_port()
    return boto3.client(
        "s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1",
        aws_access_key_id="test", aws_secret_access_key=SECRET,
    )  # fmt: skip


class Bucket:
    """An empty bucket. Its URL is that of the store's own tools, which find the server in the environment."""

    def __init__(self) -> None:
        self._client = _client()
        self.name = f"exports-{uuid.uuid4().hex[:12]}"
        self.url = f"s3://{self.name}"
        self._client.create_bucket(Bucket=self.name)

    def put(self, key: str, content: bytes) -> str:
        """Write an object. Returns its URL."""
        self._client.put_object(Bucket=self.name, Key=key, Body=content)
        return f"{self.url}/{key}"

    def copy(self, path: Path, key: str) -> str:
        """Write a file, or the files of a folder. Returns the URL of the object or of the prefix."""
        for file in [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file()):
            self.put("/".join([key, *file.relative_to(path).parts]), file.read_bytes())
        return f"{self.url}/{key}"

    def delete(self, key: str) -> None:
        self._client.delete_object(Bucket=self.name, Key=key)

    def objects(self, prefix: str = "") -> dict[str, bytes]:
        """Every object by its key, or those whose key has this prefix."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        keys = [one["Key"] for page in pages for one in page.get("Contents", ())]
        return {key: self._client.get_object(Bucket=self.name, Key=key)["Body"].read() for key in keys}


@contextmanager
def a_bucket() -> Iterator[Bucket]:
    """A bucket of a server that the environment names, as for a company's own store."""
    bucket = Bucket()
    found = {
        "AWS_ENDPOINT_URL": bucket._client.meta.endpoint_url, "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": SECRET,
    }  # fmt: skip
    with patch.dict(os.environ, found):
        yield bucket


@contextmanager
def a_store_that_replaces() -> Iterator[None]:
    """Inside, an object that was to be written only if it does not exist yet is replaced, as in some stores."""
    with _requests(lambda _, parameters: parameters.pop("IfNoneMatch", None)):
        yield


@contextmanager
def a_store_that_answers(next_answer: Callable[[], tuple[int, str] | None]) -> Iterator[None]:
    """Inside, a conditional write is answered with this status and code; by the server if there is none."""

    def answer(operation: str, parameters: dict[str, Any]) -> None:
        if "IfNoneMatch" in parameters and (found := next_answer()):
            raise _error(operation, *found)

    with _requests(answer):
        yield


@contextmanager
def a_store_that_fails(operation: str, part: str, status: int, code: str) -> Iterator[None]:
    """Inside, requests about a key or a prefix that contains this part are answered with a status and a code."""

    def answer(asked: str, parameters: dict[str, Any]) -> None:
        if asked == operation and part in parameters.get("Key", parameters.get("Prefix", "")):
            raise _error(operation, status, code)

    with _requests(answer):
        yield


def _error(operation: str, status: int, code: str) -> Exception:
    from botocore.exceptions import ClientError

    response: Any = {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, operation)


@contextmanager
def _requests(before: Callable[[str, dict[str, Any]], Any]) -> Iterator[None]:
    """Inside, `before` gets the operation and the parameters of each request before it is sent."""
    from aiobotocore.client import AioBaseClient

    call = AioBaseClient._make_api_call

    async def changed(client: Any, operation: str, parameters: dict[str, Any]) -> Any:
        before(operation, parameters)
        return await call(client, operation, parameters)

    with patch.object(AioBaseClient, "_make_api_call", changed):
        yield
