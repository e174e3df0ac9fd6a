"""Customer.io: Parquet files as its data warehouse integration writes them (docs/know/exports.md#customerio).

The second file of a table has what changed since the first: new rows, and rows that were exported before.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa

from sample_data.generator.spelling import hexes, letters

Row = dict[str, Any]

START = datetime(2023, 4, 20, 14, 13, 20, tzinfo=UTC)
WORKSPACE = 111528
_TIMES = ("created_at", "updated_at", "timestamp", "started_campaign_at", "delay_ends_at")
_COLUMNS = {
    "people": "workspace_id customer_id internal_customer_id deleted suppressed created_at updated_at email_addr",
    "attributes": "workspace_id internal_customer_id attribute_name attribute_value timestamp",
    "subjects": "workspace_id subject_name internal_customer_id campaign_type campaign_id event_id trigger_id"
    " started_campaign_at created_at seq_num",
    "outputs": "workspace_id output_id subject_name output_type action_id explanation delivery_id draft link_tracked"
    " split_test_index delay_ends_at branch_index manual_segment_id add_to_manual_segment created_at seq_num",
    "deliveries": "workspace_id delivery_id internal_customer_id subject_id event_id delivery_type campaign_id"
    " action_id newsletter_id content_id trigger_id created_at transactional_message_id seq_num",
    "metrics": "event_id workspace_id delivery_id metric reason link_id link_url created_at seq_num",
    "campaigns": "workspace_id campaign_id name created_at updated_at",
}
_TEXTS = ("id", "type", "name", "value", "addr", "url", "metric", "reason", "explanation")
_NUMBERS = ("workspace_id", "campaign_id", "action_id", "newsletter_id", "content_id", "trigger_id", "link_id",
            "transactional_message_id", "manual_segment_id")  # fmt: skip


def rows(seed: int = 37) -> dict[str, list[list[Row]]]:
    """Table: the rows of its files."""
    rng = Random(seed)
    made: dict[str, list[list[Row]]] = {name: [[], []] for name in _COLUMNS}
    number = 0

    def add(table: str, file: int, **columns: Any) -> Row:
        nonlocal number
        number += 1
        row = {"workspace_id": WORKSPACE, **columns}
        if "seq_num" in _COLUMNS[table].split():
            row["seq_num"] = number
        made[table][file].append(row)
        return row

    add("campaigns", 0, campaign_id=7, name="Onboarding", created_at=START, updated_at=START)
    for person in range(6):
        at = START + timedelta(hours=person)
        internal, journey, delivery = hexes(rng, 12), letters(rng, 20), letters(rng, 24)
        add("people", person % 2, customer_id=f"u-{person}" if person else None, internal_customer_id=internal,
            deleted=person == 5, suppressed=False, created_at=START - timedelta(days=30), updated_at=at,
            email_addr=f"u{person}@example.com")  # fmt: skip
        for after, name, value in ((0, "plan", "free"), (50, "plan", "pro"), (60, "größe", "XL")):
            add("attributes", person % 2, internal_customer_id=internal, attribute_name=name, attribute_value=value,
                timestamp=at + timedelta(minutes=after))  # fmt: skip
        common = {"internal_customer_id": internal, "campaign_id": 7}
        add("subjects", 0, **common, subject_name=journey, campaign_type="behavioral", event_id=letters(rng, 20),
            started_campaign_at=at, created_at=at)  # fmt: skip
        wait = add("outputs", 0, output_id=letters(rng, 20), subject_name=journey, output_type="delay",
                   action_id=41, created_at=at, delay_ends_at=at + timedelta(days=1))  # fmt: skip
        channel = ("email", "push", "sms")[person % 3]
        add("deliveries", 0, **common, delivery_id=delivery, subject_id=journey, delivery_type=channel, action_id=42,
            created_at=at + timedelta(days=1))  # fmt: skip
        add("outputs", 0, output_id=letters(rng, 20), subject_name=journey, output_type=channel, action_id=42,
            delivery_id=delivery, created_at=at + timedelta(days=1))  # fmt: skip
        sent = add("metrics", 0, event_id=letters(rng, 26), delivery_id=delivery, metric="sent",
                   created_at=at + timedelta(days=1, seconds=2))  # fmt: skip
        if person % 2:
            add("metrics", 1, event_id=letters(rng, 26), delivery_id=delivery, metric="clicked", link_id=3,
                link_url="https://shop.example/", created_at=at + timedelta(days=1, hours=2))  # fmt: skip
        if person == 0:
            made["metrics"][1].append(dict(sent))
            add("outputs", 1, **{**wait, "explanation": "The wait is over"})
    return made


def tables(seed: int = 37) -> dict[str, pa.Table]:
    """Name of a file: its rows."""
    return {
        f"{name}_v4_{WORKSPACE}_{number}.parquet": table(name, file)
        for name, files in rows(seed).items()
        for number, file in enumerate(files)
        if file
    }


def table(name: str, made: list[Row]) -> pa.Table:
    """The rows of one file with the columns that its table has."""
    columns = _COLUMNS[name].split()
    return pa.Table.from_pylist(made, pa.schema([(column, _type(column)) for column in columns]))


def _type(column: str) -> pa.DataType:
    if column in _TIMES:
        return pa.timestamp("us", tz="UTC")
    if column in _NUMBERS or column.endswith(("_index", "_num")):
        return pa.int64()
    return pa.string() if column.endswith(_TEXTS) else pa.bool_()
