"""The rows of the Mixpanel sample as loaders copy them into a warehouse (docs/know/exports.md#mixpanel-copies).

Every copy writes the project's clock as if it were UTC, and names without the dollar sign.
"""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from typing import Any

from sample_data.generator import mixpanel
from sample_data.generator.spelling import row

SYNCED = "2022-01-03 04:05:06"
OWN_COLUMNS = frozenset(
    ("insert_id", "mp_processing_time_ms", "mp_api_timestamp_ms", "mp_country_code", "mp_lib", "city", "region", "os",
     "os_version", "browser", "browser_version", "current_url", "referrer", "referring_domain", "initial_referrer",
     "initial_referring_domain", "screen_height", "screen_width", "device", "device_id", "user_id",
     "distinct_id_before_identity", "manufacturer", "model", "brand", "carrier", "wifi", "radio", "lib_version",
     "app_version_string", "app_build_number", "ae_session_length")
)  # fmt: skip
"""What Fivetran has columns for; everything else is in `properties`."""


def records(most: int = 200) -> list[dict[str, Any]]:
    """Rows of the raw export with whole seconds, as a loader that reads numbers exactly has them."""
    found = [json.loads(one.text, parse_float=str) for one in mixpanel.rows()]
    return [one for one in found if isinstance(one["properties"].get("time"), int)][:most]


def fivetran(found: list[dict[str, Any]]) -> bytes:
    """The table `event` as CSV."""
    rows = []
    for number, record in enumerate(found):
        properties = dict(record["properties"])
        one = {
            "_fivetran_id": f"k4G7{number:04}",
            "name": record["event"],
            "time": _clock(properties.pop("time"), " ", ""),
        }
        one |= {"distinct_id": properties.pop("distinct_id", ""), "_fivetran_synced": SYNCED}
        plain = {name: name.removeprefix("$") for name in properties}
        one |= {plain[name]: properties.pop(name) for name in plain if plain[name] in OWN_COLUMNS}
        rows.append(one | {"properties": row(properties)})
    out = io.StringIO()
    names = dict.fromkeys(name for one in rows for name in one)
    writer = csv.DictWriter(out, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def airbyte(found: list[dict[str, Any]]) -> list[str]:
    """The stream `export` as JSON lines: every property is a column of text, as Python writes its value."""
    rows = []
    for number, record in enumerate(found):
        one = {"_airbyte_raw_id": f"r-{number}", "_airbyte_extracted_at": SYNCED, "event": record["event"]}
        one |= {name.removeprefix("$"): str(value) for name, value in record["properties"].items()}
        rows.append(row(one | {"time": _clock(record["properties"]["time"], "T", "Z")}))
    return rows


def service(found: list[dict[str, Any]]) -> list[str]:
    """The table `export` of the service's own copy: an underscore for the dollar sign, seconds as they were."""
    return [
        row({"event": record["event"], "_dlt_id": f"d-{number}"} | {
            f"_{name[1:]}" if name.startswith("$") else name: value for name, value in record["properties"].items()
        })
        for number, record in enumerate(found)
    ]  # fmt: skip


def _clock(seconds: int, between: str, end: str) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d{between}%H:%M:%S}{end}"
