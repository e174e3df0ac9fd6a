"""The options of downloading an export."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.option_types import Checked, option, read_seconds
from pipeline.options import shared


@dataclass(frozen=True, kw_only=True)
class FetchOptions(Checked):
    """The options of a fetch. `host` is a region of the tool or a URL, `window` and `retry_for` are seconds; the pauses
    between tries, in seconds too, have no flag."""

    host: str = option(
        "us", "--from", metavar="us|eu|in|URL", shown=True,
        help="The region that the project is in, or the address of the API.",
    )  # fmt: skip
    project: str | None = option(
        None, "--project", metavar="ID", help="The project's id, for Mixpanel and PostHog.",
    )  # fmt: skip
    window: float | None = option(
        None, "--window", metavar="TIME", read=read_seconds,
        help="How much to ask for at once; what is too large for the tool is divided.  [default: 1d]",
    )  # fmt: skip
    count: bool = option(
        True, "--no-count", help="Do not compare with the tool's own counts of events, which costs it a query a window."
    )
    retry_for: float = option(
        7200.0, "--retry-for", least=0, metavar="TIME", read=read_seconds, shown="2h",
        help="How long one request is tried again that the tool does not answer for now.",
    )  # fmt: skip
    timeout: float = shared.timeout(300.0)
    ca_file: str | None = shared.ca_file()
    first_pause: float = option(1.0)
    longest_pause: float = option(300.0)
