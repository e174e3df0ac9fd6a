"""Customer.io: reporting webhooks as somebody stored them, an object a line (docs/know/exports.md#customerio)."""

from __future__ import annotations

from random import Random
from typing import Any

from sample_data.generator.spelling import letters, row

START = 1_682_000_000
"""2023-04-20T14:13:20Z."""
AGE = {"email": ("drafted", "sent", "delivered", "opened", "clicked"), "push": ("sent", "delivered", "bounced"),
       "in_app": ("sent", "opened", "converted")}  # fmt: skip
"""What becomes of a message of each channel."""


def lines(seed: int = 41) -> list[str]:
    """Messages to six persons, one of them known by Customer.io's own id alone; one webhook was sent again."""
    rng = Random(seed)
    made: list[dict[str, Any]] = []

    def add(channel: str, metric: str, at: int, person: dict[str, str], **members: Any) -> None:
        made.append({
            "data": {"customer_id": person["id"], "identifiers": person, **members},
            "event_id": f"01{letters(rng, 24).upper()}", "object_type": channel, "metric": metric, "timestamp": at,
        })  # fmt: skip

    for number in range(6):
        person = {
            "id": "" if number == 5 else f"u-{number}",
            "email": f"person.{number}@lamps.example",
            "cio_id": f"a3000001{number:02x}",
        }
        for step, channel in enumerate(AGE):
            at = START + number * 3_607 + step * 61
            common = {
                "delivery_id": letters(rng, 16), "campaign_id": 7 + step, "action_id": 42 + step,
                "recipient": person["email"] if channel == "email" else f"device-{number}",
            }  # fmt: skip
            for later, metric in enumerate(AGE[channel][: 2 + (number + step) % 4]):
                own: dict[str, Any] = {"subject": "Lampen für Sie"} if channel == "email" else {}
                if metric == "clicked":
                    own |= {"href": f"https://lamps.example/lampen/{number}?utm_source=mail", "link_id": 3}
                if metric == "bounced":
                    own |= {"failure_message": "the device is not registered"}
                add(channel, metric, at + 37 * later, person, **common, **own)
        if number % 3 == 0:
            add("customer", "unsubscribed" if number else "subscribed", START + number * 3_607 + 600, person,
                email_address=person["email"])  # fmt: skip
    return [row(one) for one in (*made, made[3])]
