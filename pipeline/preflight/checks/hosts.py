"""The hosts of capture and management: their addresses, whether capture responds, and the time there."""

from __future__ import annotations

from urllib.parse import urlsplit

from pipeline.delivery.destination import ResponseKind
from pipeline.management.client import REGIONS, management_address
from pipeline.preflight.check import Check, check
from pipeline.preflight.target import ServiceClock, Target
from pipeline.targets import address_of, region_of

ADDRESS = "address"
REACH = "capture_host"
CLOCK = "clock"
_APPLICATION = {"app.posthog.com": "us", "us.posthog.com": "us", "eu.posthog.com": "eu"}
"""Hosts of the application, which take no events, and their regions (docs/know/service.md#routes-and-hosts)."""
CLOSE = 60
"""Seconds that do not matter: a `Date` is written in whole seconds and an answer takes a while."""
MOST = 24 * 3600
"""Seconds beyond which no age holds: capture's own window for history is 24 hours
(docs/know/service.md#historical-migration)."""


@check(10, ADDRESS)
def check_address(target: Target) -> Check:
    """Do capture and management belong together? Asks nobody. Raises UsageError for what is no address."""
    to = target.request.to
    capture, management = address_of(to), management_address(to, target.request.options.api)
    host = urlsplit(capture).hostname or ""
    if host in _APPLICATION:
        region = _APPLICATION[host]
        return Check(ADDRESS, "stop", f"{host} is the application's host, not that of capture", f"give --to {region}")
    takes = region_of(to)
    manages = next((name for name, address in REGIONS.items() if _origin(address) == _origin(management)), "")
    if takes and manages and takes != manages:
        detail = f"events would go to the region {takes}, and {management} is the region {manages}"
        return Check(ADDRESS, "stop", detail, "name one region; a project is in one of them only")
    if takes and takes == manages:
        return Check(ADDRESS, "ok", f"region {takes}: capture at {capture}, management at {management}")
    if _origin(capture) == _origin(management):
        return Check(ADDRESS, "ok", f"capture and management at {capture}")
    detail = f"nothing shows that events sent to {capture} reach the projects of {management}"
    return Check(ADDRESS, "unknown", detail, "send a small plan first and read it back with: backcast verify")


@check(25, REACH)
def check_capture_host(target: Target) -> Check | None:
    """Does the capture host take batches, as `apply` would send them?"""
    if target.capture_host is None:
        return None
    response, address, _ = target.capture_host
    said = f" ({response.detail})" if response.detail else ""
    if response.kind is ResponseKind.POISON:
        return Check(REACH, "ok", f"{address} answers, and refuses a batch without events{said}")
    if response.kind is ResponseKind.SETTLED:
        return Check(REACH, "ok", f"{address} answers, and takes a batch without events")
    if response.status in (401, 403) and "key" in response.detail.lower():
        return Check(REACH, "ok", f"{address} answers, and asks for a key first{said}")
    if response.kind is ResponseKind.RETRY and response.status:
        return Check(REACH, "warning", f"{address} takes no batches now: {response.status}{said}", "wait a little")
    if not response.status:
        hint = response.hint or "check the address and the network"
        return Check(REACH, "stop", f"{address} cannot be reached: {response.detail}", hint)
    detail = f"what answers at {address} does not take batches: {response.status}{said}"
    return Check(REACH, "stop", detail, response.hint or "check the address: it has to be the capture host")


@check(30, CLOCK)
def check_clock(target: Target) -> Check:
    """Does this machine's clock agree with the service's?

    Age decides whether an event is historical: under 48 hours it may be billed
    (docs/know/service.md#historical-migration), and a plan takes the age from this machine's clock.
    """
    return compare_clocks(target.clock)


def compare_clocks(clock: ServiceClock) -> Check:
    """Compare the `Date` of a response with our clock when it came."""
    if clock.there is None:
        return Check(CLOCK, "unknown", "no answer told the time there")
    ahead = (clock.asked - clock.there).total_seconds()
    if abs(ahead) <= CLOSE:
        return Check(CLOCK, "ok", "this machine's clock and the service's agree")
    detail = f"this machine's clock is {_length(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} the service's"
    hint = "set this machine's clock, then plan again: a plan reads the age of events off it"
    return Check(CLOCK, "stop" if abs(ahead) > MOST else "warning", detail, hint)


def _length(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} seconds"


def _origin(address: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(address)
    return parts.scheme, parts.hostname, parts.port
