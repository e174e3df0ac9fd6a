"""Options that several steps have."""

from __future__ import annotations

from typing import Any

from pipeline.option_types import option, read_instant


def workers() -> Any:
    return option(
        None, "--workers", least=0, most=256, metavar="N",
        help="Number of worker processes; 0 works in this process.  [default: one per processor]",
    )  # fmt: skip


def api() -> Any:
    return option(
        None, "--api", metavar="us|eu|URL", complete="targets",
        help="Where the management API is.  [default: where --to is]",
        job="api", job_help="where the management API is, if not where `to` is",
    )  # fmt: skip


def project(default: str) -> Any:
    return option(
        None, "--project", metavar="ID", help=f"The project's id.  [default: {default}]", job="project",
        job_help="the id of the target's project, if the personal key can read several",
    )  # fmt: skip


def ca_file() -> Any:
    return option(
        None, "--ca-file", metavar="FILE", help="Certificates to trust, as PEM.  [default: SSL_CERT_FILE]", read=str
    )


def allow_firing() -> Any:
    return option(
        False, "--allow-firing", help="Continue even if the project's hog functions would fire on these events."
    )


def timeout(seconds: float) -> Any:
    return option(
        seconds, "--timeout", least=0.1, metavar="SECONDS", shown=True, help="How long to wait for one response."
    )


def show_values(where: str = "") -> Any:
    return option(False, "--show-values", help=f"Show values of properties{where}, which are masked otherwise.")


def show_ids(where: str = "") -> Any:
    return option(False, "--show-ids", help=f"Show ids{where}, which are masked otherwise.")


def continuity() -> Any:
    return option(
        False, "--continuity",
        help="Also count how many people with live events are the same as in the plan, and write pairs of ids that join"
        " those who are two persons. Reads every event of the plan.",
    )  # fmt: skip


def cut_over() -> Any:
    return option(
        None, "--cut-over", metavar="TIME", read=read_instant,
        help="--continuity, and since when people count as live (UTC).", without="the first live event",
    )  # fmt: skip
