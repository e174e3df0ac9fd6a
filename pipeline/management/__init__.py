"""The service's management API: a typed client. This version knows the query endpoint; the rest follows."""

from __future__ import annotations

from pipeline.management.client import ManagementClient, QueryAnswer

__all__ = ["ManagementClient", "QueryAnswer"]
