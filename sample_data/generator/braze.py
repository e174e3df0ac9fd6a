"""Braze Currents: Avro files below a folder for each type of event, and the JSON of the custom HTTP connector.

The columns of a type are those of Braze's public samples (docs/know/exports.md#braze); prices are 32-bit numbers.
"""

from __future__ import annotations

import io
import json
from random import Random
from typing import Any

import fastavro

Row = dict[str, Any]

START = 1_682_000_000
"""2023-04-20T14:13:20Z."""
_TEXTS = ("external_user_id", "device_id", "app_id", "timezone", "platform", "os_version", "device_model", 
          "sdk_version", "app_version", "language", "country")  # fmt: skip
_OWN: dict[str, dict[str, Any]] = {
    "users.behaviors.CustomEvent": {"name": "string", "properties": "string"},
    "users.behaviors.Purchase": {
        "product_id": "string", "price": "float", "currency": "string", "properties": "string",
    },
    "users.behaviors.app.FirstSession": {"session_id": "string"},
    "users.messages.email.Send": {"campaign_id": "string", "campaign_name": "string", "dispatch_id": "string"},
    "users.messages.email.Open": {
        "campaign_id": "string", "campaign_name": "string", "dispatch_id": "string", "user_agent": "string",
    },
    "users.UserOrphan": {"orphaned_by_id": "string"},
}  # fmt: skip
_USER = ("user_id", "external_user_id", "device_id", "timezone")


def rows(seed: int = 13) -> dict[str, list[Row]]:
    """Type of event: its rows, with `properties` as an object; a column that is null is left out."""
    rng = Random(seed)
    made: dict[str, list[Row]] = {name: [] for name in _OWN}

    def add(kind: str, at: int, **columns: Any) -> None:
        made[kind].append({"id": f"{rng.getrandbits(128):032x}", "time": at, **columns})

    for number in range(8):
        at = START + number * 5_400
        web = number % 2
        common = {
            "user_id": f"{rng.getrandbits(96):024x}", "device_id": f"{rng.getrandbits(64):016x}",
            "app_id": f"app-{web}", "timezone": "Europe/Berlin", "language": "de", "country": "DE",
            **({"platform": "web", "os_version": "Chrome 112"} if web else
               {"platform": "ios", "os_version": "16.4", "device_model": "iPhone14,2", "app_version": f"2.{number}"}),
            "sdk_version": "4.6.0" if web else "5.11.2",
        }  # fmt: skip
        known = {**common, "external_user_id": f"u-{number}"}
        add("users.behaviors.app.FirstSession", at, **common, session_id=f"s-{number}")
        add("users.behaviors.CustomEvent", at + 30, **common, name="Lamp Viewed", properties={"sku": f"lamp-{number}"})
        add("users.behaviors.CustomEvent", at + 60, **known, name="Added to Cart", properties={
            "sku": f"lamp-{number}", "quantity": 1 + number % 3, "größe": "XL", "tags": ["new", "sale"], "gift": False,
        })  # fmt: skip
        message = {
            "user_id": known["user_id"], "external_user_id": f"u-{number}", "timezone": "Europe/Berlin",
            "campaign_id": "c-1", "campaign_name": "Spring", "dispatch_id": f"di-{number}",
        }  # fmt: skip
        add("users.messages.email.Send", at + 3_600, **message)
        if number % 3:
            add("users.messages.email.Open", at + 3_700, **message, user_agent="Mozilla/5.0 (X11; Linux x86_64)")
            add("users.behaviors.Purchase", at + 3_900, **known, product_id=f"lamp-{number}", currency="EUR",
                price=3.14 + number, properties={"coupon": "SPRING"})  # fmt: skip
        if number % 4 == 0:
            other = f"{rng.getrandbits(96):024x}"
            add(
                "users.behaviors.CustomEvent",
                at - 600,
                **{**common, "user_id": other},
                name="Lamp Viewed",
                properties={},
            )
            add("users.UserOrphan", at + 70, user_id=other, orphaned_by_id=known["user_id"], app_id="app-1")
    # Delivered at least once.
    made["users.behaviors.CustomEvent"].append(made["users.behaviors.CustomEvent"][0])
    return made


def path_of(kind: str) -> str:
    """The path of a type's file, as Currents lays it out in a bucket."""
    return (
        f"dataexport.prod-01.S3.integration.5f1e/event_type={kind}/date=2023-04-20-14/version=3/"
        "dataexport.prod-01.S3.integration.5f1e+3+0000001.avro"
    )


def avro(kind: str, table: list[Row]) -> bytes:
    """The Avro file of one type: uncompressed, as the samples that Braze publishes."""
    fields: list[dict[str, Any]] = [{"name": "id", "type": "string"}, {"name": "user_id", "type": "string"}]
    fields += [{"name": name, "type": ["null", "string"], "default": None} for name in _TEXTS]
    fields += [{"name": "time", "type": "int"}]
    fields += [{"name": name, "type": type_} for name, type_ in _OWN[kind].items()]
    schema = {"type": "record", "name": kind.rpartition(".")[2], "namespace": "com.example.braze", "fields": fields}
    records = [
        {**one, "properties": json.dumps(one["properties"], ensure_ascii=False)} if "properties" in one else one
        for one in table
    ]
    target = io.BytesIO()
    fastavro.writer(target, schema, records, sync_marker=b"backcast-samples")
    return target.getvalue()


def connector(made: dict[str, list[Row]]) -> list[str]:
    """The events as lines of the JSON that the custom HTTP connector sends."""
    return [json.dumps(_nested(kind, one), ensure_ascii=False) for kind, table in made.items() for one in table]


def _nested(kind: str, one: Row) -> Row:
    properties = {name: value for name, value in one.items() if name not in (*_USER, "id", "time", "properties")}
    if "properties" in one:
        properties["custom_properties"] = one["properties"]
    user = {name: one.get(name) for name in _USER if name != "device_id" or name in one}
    return {"event_type": kind, "id": one["id"], "time": one["time"], "user": user, "properties": properties}
