"""A configuration for clients of servers on this machine.

It trusts no certificate and reads no proxy: to read all trusted certificates takes longer than a request over plain
HTTP, and `httpx` does so for each client, and for each request that is made without one.
"""

from __future__ import annotations

from typing import Any

PLAIN: dict[str, Any] = {"trust_env": False, "verify": False}
