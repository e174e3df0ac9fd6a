"""Compiled page templates, stored beside them in `__pycache__` as Python stores modules: compiling all of them takes a
tenth of a small plan's time, and every step that writes a report would pay it again."""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import sys
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket, BytecodeCache


class TemplateCache(BytecodeCache):
    """What is stored is used as long as the template's text, the template engine and its `options` are the same.

    Where nothing can be written, or Python is told to write no bytecode, templates are compiled each time.
    """

    def __init__(self, options: str) -> None:
        self._engine = f"{MAGIC_NUMBER.hex()} {jinja2.__version__} {options} "

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        """Where a template's code is stored; "" for a template that is in no file."""
        return cache_from_source(f"{filename}.py") if filename else ""

    def get_source_checksum(self, source: str) -> str:
        """What has to be the same for stored code to be used."""
        return hashlib.sha256((self._engine + source).encode()).hexdigest()

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fill the bucket, unless nothing fitting is stored."""
        with contextlib.suppress(OSError, EOFError, ValueError, TypeError):
            stored = Path(bucket.key).read_bytes() if bucket.key else b""
            checksum = bucket.checksum.encode()
            if stored.startswith(checksum):
                bucket.code = marshal.loads(stored[len(checksum) :])

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Store the code of a bucket, whole or not at all."""
        if sys.dont_write_bytecode or not bucket.key:
            return
        path = Path(bucket.key)
        aside = path.with_name(f"{path.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                aside.write_bytes(bucket.checksum.encode() + marshal.dumps(bucket.code))
                aside.replace(path)
            finally:
                aside.unlink(missing_ok=True)
