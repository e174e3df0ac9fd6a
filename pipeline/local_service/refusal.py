"""The one exception of the capture endpoint: a status and the plain text that the real service answers."""

from __future__ import annotations


class Refusal(Exception):
    """A request that is turned away as a whole (service-behaviour 1.5: error bodies are plain text)."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(status, text)
        self.status = status
        self.text = text


def undecodable(detail: str) -> Refusal:
    """The body is not gzip, base64, a form or UTF-8 as it claims."""
    return Refusal(400, f"failed to decode request: {detail}")


def unparsable(detail: str) -> Refusal:
    """The body is not JSON, or no JSON of a known shape."""
    return Refusal(400, f"failed to parse request: {detail}")


def too_large(detail: str) -> Refusal:
    """The body or one event is over a limit."""
    return Refusal(413, f"maximum event size exceeded: {detail}")
