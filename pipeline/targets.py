"""Where a target is: turns `us`, `eu`, a URL, a folder or a bucket into an address. It contacts nothing."""

from __future__ import annotations

import os
import re
from glob import has_magic
from pathlib import Path
from urllib.parse import urlsplit

from pipeline.errors import UsageError
from pipeline.storage import is_remote, refuse_foreign, without_credentials

REGIONS = {"us": "https://us.i.posthog.com", "eu": "https://eu.i.posthog.com"}
"""Capture hosts (docs/know/service.md#routes-and-hosts)."""
_NO_TARGET = "give us, eu or a URL such as http://127.0.0.1:8100; or file:DIR or s3://BUCKET/PREFIX for files to import"
_FILE = "file:"


def address_of(target: str) -> str:
    """The base address of a target: `us`, `eu`, an http(s) URL, `file:` and a whole path, or the URL of a bucket.

    Raises UsageError.
    """
    if target in REGIONS:
        return REGIONS[target]
    if (files := files_of(target)) is not None:
        return files if is_remote(files) else f"{_FILE}{files}"
    try:
        parts = urlsplit(target)
        plain = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
    except ValueError:
        plain = False
    if not plain or any(character.isspace() or not character.isprintable() for character in target):
        raise UsageError(f"{without_credentials(target)!r} is not a target", hint=_NO_TARGET)
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            "the target contains a user or a password",
            hint="remove it; give the key in BACKCAST_PROJECT_KEY or with --project-key-file FILE",
        )
    if parts.query or parts.fragment:
        shown = without_credentials(target)
        raise UsageError(f"a target must not have a query or a fragment: {shown!r}", hint=_NO_TARGET)
    return target.rstrip("/")


def files_of(target: str) -> str | None:
    """Where a target has files: the folder of `file:DIR` as a whole path, or the URL of a bucket without a trailing
    slash; None for a service. Raises UsageError."""
    if is_remote(target):
        refuse_foreign(target)
        if not target.isprintable() or has_magic(target):
            raise UsageError(f"{target!r} is not a prefix in a bucket", hint="give s3://BUCKET/PREFIX")
        return target.rstrip("/")
    if not target.startswith(_FILE):
        return None
    name = target.removeprefix(_FILE)
    if name.startswith("//"):  # a URL, whose host is empty
        name = name.removeprefix("//")
        if not name.startswith("/"):
            raise UsageError(f"{target!r} is not a folder on this machine", hint="give file:DIR")
    if not name or not name.isprintable():
        raise UsageError(f"{target!r} does not name a folder", hint="give file:DIR")
    return os.path.abspath(Path(name).expanduser())


def has_files(address: str) -> bool:
    """Whether an address is one of files, not of a service."""
    return address.startswith(_FILE) or is_remote(address)


def region_of(target: str) -> str:
    """`us` or `eu` if a target is one of the service's regions, by name or by URL; else ""."""
    host = urlsplit(address_of(target)).hostname
    return next((name for name, address in REGIONS.items() if urlsplit(address).hostname == host), "")


def is_loopback(address: str) -> bool:
    """Whether a target is this machine."""
    if is_remote(address):
        return False
    host = urlsplit(address).hostname or ""
    return host in ("localhost", "::1") or re.fullmatch(r"127(\.\d{1,3}){3}", host) is not None
