"""The capture endpoint, asked what time it is there besides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.delivery.capture import CaptureDestination

if TYPE_CHECKING:
    import httpx


class Probe(CaptureDestination):
    """A capture destination that remembers `date`, the `Date` header of the last answer; empty without one."""

    date = ""

    def _post(self, url: str, body: bytes) -> tuple[int, httpx.Headers, bytes]:
        status, headers, said = super()._post(url, body)
        self.date = headers.get("date", "")
        return status, headers, said
