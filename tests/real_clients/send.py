"""Sends with posthog-python what stdin asks: {"host", "key", "historical", "gzip", "batch", "events", "mode"}.

`batch` is how many events make a batch; `events` are captured with their timestamps and uuids, and after them one call
of each other kind is made, which the SDK dates and numbers itself. Exits with 1 if a batch was not taken.
"""

from __future__ import annotations

import json
import sys

from posthog import Posthog

asked = json.load(sys.stdin)
failures: list[str] = []
client = Posthog(
    asked["key"],
    host=asked["host"],
    historical_migration=asked["historical"],
    gzip=asked["gzip"],
    flush_at=asked["batch"],
    capture_mode=asked["mode"],
    on_error=lambda error, batch: failures.append(repr(error)),
)
for event in asked["events"]:
    client.capture(**event)
client.capture(
    "$identify",
    distinct_id="user-1",
    properties={"$set": {"plan": "pro"}, "$set_once": {"joined": "2023-01-01"}, "$anon_distinct_id": "device-1"},
)
client.alias("device-2", "user-1")
client.group_identify("company", "acme", {"seats": 12}, distinct_id="$company_acme")
client.set(distinct_id="user-2", properties={"plan": "free"})
client.set_once(distinct_id="user-2", properties={"joined": "2023-02-01"})
client.shutdown()
sys.exit("\n".join(failures) or 0)
