"""mParticle: batches of events as an output to S3 writes them, a batch a line (docs/know/exports.md#mparticle)."""

from __future__ import annotations

import json
from random import Random
from typing import Any

Row = dict[str, Any]

START = 1_682_000_000_000
"""2023-04-20T14:13:20Z, in milliseconds."""


def rows(seed: int = 17) -> list[Row]:
    """The batches, with integers of 64 bits as integers."""
    rng = Random(seed)
    made: list[Row] = []

    def event(kind: str, at: int, session: Row, **data: Any) -> Row:
        number = rng.getrandbits(63) * (-1 if rng.random() < 0.3 else 1)
        return {"event_type": kind, "data": {"event_id": number, "timestamp_unixtime_ms": at, **session, **data}}

    for number in range(8):
        at = START + number * 3_700_123
        session = {
            "session_id": rng.getrandbits(63), "session_uuid": f"S-{number}", "session_start_unixtime_ms": at,
        }  # fmt: skip
        web = number % 3 == 2
        batch = {
            "mpid": rng.getrandbits(63) - 2**62, "mp_deviceid": f"d-{number}", "schema_version": 2,
            "environment": "production", "batch_id": rng.getrandbits(63), "timestamp_unixtime_ms": at + 90_000,
            "ip": "203.0.113.9", "source_info": {"channel": "javascript" if web else "native"},
            "device_info": {"platform": "web", "http_header_user_agent":
                            "Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0"} if web else
                           {"platform": "iOS", "os_version": "16.4", "device_model": "iPhone14,2", "is_tablet": False,
                            "device_manufacturer": "Apple", "device_country": "DEU", "locale_language": "de"},
            "application_info": {"application_name": "Lamps", "application_version": f"2.{number}",
                                 "package": "com.example.lamps"},
        }  # fmt: skip
        first = [
            event("session_start", at, session),
            event("application_state_transition", at + 5, session,
                  application_transition_type="application_initialized",
                  is_first_run=number == 0, launch_referral="https://lamps.example/?utm_source=mail&utm_medium=email"),
            event("screen_view", at + 1_000, session, screen_name="Lamps"),
            event("custom_event", at + 9_000, session, event_name="Lamp Switched", custom_event_type="other",
                  custom_attributes={"lamp": f"l-{number}", "größe": "XL", "watts": 4.5}),
        ]  # fmt: skip
        made.append({**batch, "user_identities": [], "user_attributes": {}, "events": first})
        if number % 4 == 3:
            continue
        user: Row = {
            "user_identities": [
                {"identity_type": "customer_id", "identity": f"u-{number}", "timestamp_unixtime_ms": at + 20_000},
                {"identity_type": "email", "identity": f"u{number}@example.com", "timestamp_unixtime_ms": at + 20_000},
            ],
            "user_attributes": {"$city": "Berlin", "plan": "pro" if number % 2 else "free"},
        }
        second = [
            event("user_identity_change", at + 20_000, session, new=user["user_identities"][0], old=None),
            event("user_attribute_change", at + 21_000, session, user_attribute_name="plan", deleted=False, old=None,
                  new=user["user_attributes"]["plan"]),
            event("commerce_event", at + 30_000, session, currency_code="EUR", product_action={
                "action": "purchase", "transaction_id": f"t-{number}", "total_amount": 12.5 + number,
                "products": [{"id": f"lamp-{number}", "name": "Lampe", "price": 12.5 + number, "quantity": 1}],
            }),
            event("session_end", at + 60_000, session, session_duration_ms=60_000),
        ]  # fmt: skip
        made.append({**batch, **user, "batch_id": rng.getrandbits(63), "events": second})
    # Delivered twice.
    made.append(made[0])
    return made


def batches(seed: int = 17) -> list[str]:
    """The batches as lines of JSON."""
    return [json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in rows(seed)]
