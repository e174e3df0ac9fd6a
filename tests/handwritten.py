"""A Mixpanel mapper written by hand: what a compiled mapping must equal in meaning and nearly in speed."""

from __future__ import annotations

from typing import Any

from pipeline.identity import Hasher, namespace
from pipeline.schema import Draft, Fault

RENAMED_EVENTS = {"$mp_web_page_view": "$pageview", "$ae_first_open": "Application Installed"}
RENAMED = {
    "$city": "$geoip_city_name",
    "$region": "$geoip_subdivision_1_name",
    "mp_country_code": "$geoip_country_code",
    "mp_lib": "$lib",
    "$model": "$device_model",
    "$carrier": "$network_carrier",
}
DROPPED = ("$mp_api_endpoint", "mp_sent_by_lib_version", "$had_persisted_distinct_id")


def _text(value: Any) -> str | None:
    if value is None:
        return None
    raw = bytes(value)
    return raw[1:-1].decode() if raw[:1] == b'"' else (None if raw == b"null" else raw.decode())


class HandwrittenMixpanel:
    """Reads rows of Mixpanel's raw export of a UTC project."""

    tool = "mixpanel"
    opens = ("properties",)

    def __init__(self) -> None:
        self.hasher = Hasher(namespace("mixpanel"))

    def map_row(self, record: dict[str, Any]) -> Draft | Fault:
        properties = record.get("properties")
        if type(properties) is not dict:
            return Fault("bad_value", "properties is no object")
        pop = properties.pop
        name = _text(record.get("event"))
        user = _text(properties.get("$user_id"))
        distinct_id = _text(pop("distinct_id", None))
        time = _text(pop("time", None))
        insert_id = _text(pop("$insert_id", None))
        received = pop("$mp_api_timestamp_ms", None)
        processed = pop("mp_processing_time_ms", None)
        for dropped in DROPPED:
            pop(dropped, None)
        for old, new in RENAMED.items():
            value = pop(old, None)
            if value is not None:
                properties[new] = value
        receive = received if received is not None else processed
        return Draft(
            RENAMED_EVENTS.get(name or "", name),
            user or distinct_id,
            int(time) * 1_000_000 if time else None,
            properties,
            f"{name}\x1f{time}\x1f{distinct_id}\x1f{insert_id}" if insert_id else None,
            None,
            int(bytes(receive)) * 1000 if receive is not None else None,
        )
