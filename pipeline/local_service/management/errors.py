"""Answers other than success: the JSON envelope of the management API (service-behaviour 5.1; the contract shows none).

One problem an answer; the name of a nested field is joined by `__`. No text here repeats a value that was sent, since
a value may be a secret.
"""

from __future__ import annotations

from collections.abc import Mapping


class ApiError(Exception):
    """An answer of the management API that is no success: a status, its envelope, and headers."""

    def __init__(
        self,
        status: int,
        kind: str,
        code: str,
        detail: str,
        attr: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, code)
        self.status = status
        self.envelope: dict[str, object] = {"type": kind, "code": code, "detail": detail, "attr": attr}
        self.headers = dict(headers or {})


class BareError(ApiError):
    """A problem whose body is not the envelope: `body` as it stands, None for none at all."""

    def __init__(self, status: int, body: dict[str, object] | None, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, "", "", "", None, headers)
        self.body = body


def invalid(attr: str | None, detail: str, code: str = "invalid_input") -> ApiError:
    """400: a field, a filter or the body."""
    return ApiError(400, "validation_error", code, detail, attr)


def malformed(detail: str) -> ApiError:
    """400: the body is no JSON that can be kept."""
    return ApiError(400, "validation_error", "parse_error", f"JSON parse error: {detail}")


def not_found(detail: str = "Not found.") -> ApiError:
    """404."""
    return ApiError(404, "invalid_request", "not_found", detail)


def forbidden(detail: str) -> ApiError:
    """403."""
    return ApiError(403, "authentication_error", "permission_denied", detail)


def not_allowed(method: str, allowed: str) -> ApiError:
    """405 of a method that a path does not have."""
    shown = method if method.isascii() and method.isalpha() else "?"
    detail = f'Method "{shown[:16]}" not allowed.'
    return ApiError(405, "invalid_request", "method_not_allowed", detail, headers={"Allow": allowed})
