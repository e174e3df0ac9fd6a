"""The hosts of capture and management: their addresses, whether capture responds, and their time."""

from __future__ import annotations

from urllib.parse import urlsplit

from pipeline.delivery.destination import ResponseKind
from pipeline.management.client import REGIONS, management_address
from pipeline.preflight.check import check
from pipeline.preflight.target import ServiceClock, Target
from pipeline.report.records import Check
from pipeline.targets import address_of, region_of

ADDRESS = "address"
REACH = "capture_host"
CLOCK = "clock"
_APPLICATION = {"app.posthog.com": "us", "us.posthog.com": "us", "eu.posthog.com": "eu"}
"""Hosts of the application, which accept no events, and their regions (docs/know/service.md#routes-and-hosts)."""
CLOCK_TOLERANCE = 60
"""Seconds: a `Date` has whole seconds, and an answer takes some time."""
CLOCK_LIMIT = 24 * 3600
"""Beyond this many seconds, the service judges the age of events wrongly: its own window for history is 24 hours
(docs/know/service.md#historical-migration)."""


@check(10, ADDRESS)
def check_address(target: Target) -> Check:
    """Do the addresses of capture and management belong together? Raises UsageError for a bad address."""
    to = target.request.to
    capture, management = address_of(to), management_address(to, target.request.options.api)
    host = urlsplit(capture).hostname or ""
    if host in _APPLICATION:
        detail = f"{host} is the application's host, not the capture host"
        return Check(ADDRESS, "stop", detail, f"give --to {_APPLICATION[host]}")
    region = region_of(to)
    other = next((name for name, address in REGIONS.items() if _origin(address) == _origin(management)), "")
    if region and other and region != other:
        detail = f"events would go to the region {region}, but {management} is in the region {other}"
        return Check(ADDRESS, "stop", detail, "give --to and --api the same region: a project is in only one")
    if region and region == other:
        return Check(ADDRESS, "ok", f"region {region}: capture at {capture}, management at {management}")
    if _origin(capture) == _origin(management):
        return Check(ADDRESS, "ok", f"capture and management at {capture}")
    detail = f"nothing shows that events sent to {capture} reach the projects of {management}"
    hint = f"send a small plan first and read it back: backcast verify DIR --to {to} --api {management} --project ID"
    return Check(ADDRESS, "unknown", detail, hint)


@check(25, REACH)
def check_capture_host(target: Target) -> Check | None:
    """Does the capture host accept batches as `apply` sends them?"""
    if target.capture_host is None:
        return None
    response, address, *_ = target.capture_host
    reason = f" ({response.detail})" if response.detail else ""
    if response.kind is ResponseKind.POISON:
        return Check(REACH, "ok", f"{address} answers, and refuses a batch without events{reason}")
    if response.kind is ResponseKind.SETTLED:
        return Check(REACH, "ok", f"{address} answers, and accepts a batch without events")
    if response.status in (401, 403) and "key" in response.detail.lower():
        return Check(REACH, "ok", f"{address} answers, and requires a key first{reason}")
    if response.kind is ResponseKind.RETRY and response.status:
        return Check(
            REACH, "warning", f"{address} accepts no batches now: {response.status}{reason}", "try again later"
        )
    if not response.status:
        hint = response.hint or "check the address in --to, and the network"
        return Check(REACH, "stop", f"cannot reach {address}: {response.detail}", hint)
    detail = f"{address} answers, but does not accept batches: {response.status}{reason}"
    return Check(REACH, "stop", detail, response.hint or "check the address in --to: it must be the capture host")


@check(30, CLOCK)
def check_clock(target: Target) -> Check:
    """Does this machine's clock agree with the service's?

    Age decides whether an event is historical: under 48 hours it may be billed
    (docs/know/service.md#historical-migration), and a plan takes the age from this machine's clock.
    """
    return compare_clocks(target.clock)


def compare_clocks(clock: ServiceClock) -> Check:
    """Compare the `Date` of a response with this machine's clock."""
    if clock.service is None:
        return Check(CLOCK, "unknown", "no answer from the service showed its time")
    ahead = (clock.local - clock.service).total_seconds()
    if abs(ahead) <= CLOCK_TOLERANCE:
        return Check(CLOCK, "ok", "this machine's clock and the service's agree")
    detail = f"this machine's clock is {_length(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} the service's"
    hint = "correct this machine's clock, then plan again: the plan takes the age of events from it"
    return Check(CLOCK, "stop" if abs(ahead) > CLOCK_LIMIT else "warning", detail, hint)


def _length(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} seconds"


def _origin(address: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(address)
    return parts.scheme, parts.hostname, parts.port
