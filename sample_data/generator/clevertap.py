"""CleverTap: a file of events as its export to a bucket writes CSV, with a column for each member of an object.

`ts` shows the clock of the account, which is in Kolkata; a session has its start as its id, in UTC
(docs/know/exports.md#clevertap).
"""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta
from random import Random

from sample_data.generator.spelling import hexes

START = 1_644_606_691
"""2022-02-11T19:11:31Z."""
KOLKATA = timedelta(hours=5, minutes=30)
COLUMNS = (
    "ts", "eventName", "profile.identity", "profile.objectId", "profile.all_identities", "profile.platform",
    "profile.phone", "profile.name", "profile.email", "profile.push_token", "deviceInfo.make", "deviceInfo.model",
    "deviceInfo.appVersion", "deviceInfo.sdkVersion", "deviceInfo.osVersion", "deviceInfo.browser", "deviceInfo.dpi",
    "controlGroupName", "eventProps.CT Session Id", "eventProps.Amount", "eventProps.Currency", "eventProps.sku",
    "sessionProps.utm_source", "sessionProps.utm_medium", "sessionProps.session_referrer",
)  # fmt: skip


def table_text(seed: int = 23) -> bytes:
    """The rows of one file."""
    rng = Random(seed)
    text = io.StringIO()
    rows = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n")
    rows.writeheader()
    for number in range(6):
        start = START + number * 86_400
        person = {
            "profile.objectId": f"__{hexes(rng, 16)}", "profile.platform": "iOS" if number % 2 else "Android",
            "deviceInfo.make": "Apple" if number % 2 else "samsung", "deviceInfo.osVersion": "12",
            "deviceInfo.browser": "MobileApp", "deviceInfo.appVersion": f"4.{number}", "deviceInfo.sdkVersion": "40300",
        }  # fmt: skip
        if number % 3:
            person |= {"profile.identity": f"u-{number}", "profile.email": f"u{number}@example.com"}
            person |= {"profile.all_identities": f"[u-{number}, u{number}@example.com]", "profile.name": "Ada Löwe"}
        session = {"eventProps.CT Session Id": str(start)}
        source = {"sessionProps.utm_source": "mail", "sessionProps.utm_medium": "email",
                  "sessionProps.session_referrer": "https://news.example/"}  # fmt: skip
        bought = {"eventProps.Amount": f"{12 + number}.50", "eventProps.Currency": "INR", "eventProps.sku": "lamp-1"}
        for after, name, own in (
            (0, "App Launched", session),
            (1, "UTM Visited", source),
            (40, "Lamp Viewed", session | {"eventProps.sku": "lamp-1"}),
            (95, "Charged", session | bought),
        ):
            clock = datetime.fromtimestamp(start + after, UTC) + KOLKATA
            rows.writerow({"ts": f"{clock:%Y%m%d%H%M%S}", "eventName": name, **person, **own})
    return text.getvalue().encode()
