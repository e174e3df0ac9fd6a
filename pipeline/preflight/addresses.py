"""Whether capture and management are addressed rightly, and whether capture answers.

The capture host is asked with a batch that holds no event and no key. Such a batch is refused before its key is
looked at (docs/know/service.md#answers), and whoever takes it has taken nothing.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from pipeline.batcher import Batch, Envelope, gzip_body
from pipeline.delivery.capture import CaptureDestination
from pipeline.delivery.destination import Response, ResponseKind
from pipeline.management.client import REGIONS, management_address
from pipeline.preflight.check import Check
from pipeline.targets import address_of, region_of

NAME = "address"
REACH = "capture_host"
_APPLICATION = {"app.posthog.com": "us", "us.posthog.com": "us", "eu.posthog.com": "eu"}
"""Hosts of the application, which take no events, and their regions (docs/know/service.md#routes-and-hosts)."""
_NO_EVENT = gzip_body(Envelope("").seal([]))


def check_address(target: str, api: str | None) -> Check:
    """Do capture and management belong together? Asks nobody. Raises UsageError for what is no address."""
    capture, management = address_of(target), management_address(target, api)
    host = urlsplit(capture).hostname or ""
    if host in _APPLICATION:
        region = _APPLICATION[host]
        return Check(NAME, "stop", f"{host} is the application's host, not that of capture", f"give --to {region}")
    takes = region_of(target)
    manages = next((name for name, address in REGIONS.items() if _origin(address) == _origin(management)), "")
    if takes and manages and takes != manages:
        detail = f"events would go to the region {takes}, and {management} is the region {manages}"
        return Check(NAME, "stop", detail, "name one region; a project is in one of them only")
    if takes and takes == manages:
        return Check(NAME, "ok", f"region {takes}: capture at {capture}, management at {management}")
    if _origin(capture) == _origin(management):
        return Check(NAME, "ok", f"capture and management at {capture}")
    detail = f"nothing shows that events sent to {capture} reach the projects of {management}"
    return Check(NAME, "unknown", detail, "send a small plan first and read it back with: backcast verify")


class Reached(NamedTuple):
    """The check, and the `Date` of the answer, empty without one."""

    check: Check
    date: str


def check_reach(
    target: str, *, dialect: str, ca_file: str | None, redirect_hosts: tuple[str, ...], timeout: float
) -> Reached:
    """Does somebody at the capture host take batches, as `apply` would send them? Raises UsageError."""
    probe = CaptureDestination(target, dialect=dialect, timeout=timeout, ca_file=ca_file, redirect_hosts=redirect_hosts)
    try:
        response = probe.send(Batch(0, -1, len(_NO_EVENT), _NO_EVENT))
    finally:
        probe.close()
    return Reached(_judged(response, probe.address), probe.date)


def _judged(response: Response, address: str) -> Check:
    said = f" ({response.detail})" if response.detail else ""
    if response.answer is ResponseKind.POISON:
        return Check(REACH, "ok", f"{address} answers, and refuses a batch without events{said}")
    if response.answer is ResponseKind.SETTLED:
        return Check(REACH, "ok", f"{address} answers, and takes a batch without events")
    if response.status in (401, 403) and "key" in response.detail.lower():
        return Check(REACH, "ok", f"{address} answers, and asks for a key first{said}")
    if response.answer is ResponseKind.RETRY and response.status:
        return Check(REACH, "warning", f"{address} takes no batches now: {response.status}{said}", "wait a little")
    if not response.status:
        hint = response.hint or "check the address and the network"
        return Check(REACH, "stop", f"{address} cannot be reached: {response.detail}", hint)
    detail = f"what answers at {address} does not take batches: {response.status}{said}"
    return Check(REACH, "stop", detail, response.hint or "check the address: it has to be the capture host")


def _origin(address: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(address)
    return parts.scheme, parts.hostname, parts.port
