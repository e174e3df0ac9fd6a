"""Two tables of no tool in particular: a CSV as a spreadsheet saves it, and Parquet of typed columns."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random

import pyarrow as pa

from sample_data.generator.spelling import uuid4

EVENTS = ["Order Placed", "Order Shipped", "Review Written"]
NOTES = [
    "",
    'said "fine"',
    "two\nlines",
    "semi;colon",
    "naïve café",
    "=1+1",
    "🚚",
    "00042",
    "1.10",
    "NULL",
    "  ",
]
START = datetime(2023, 8, 1, 7, 15, tzinfo=UTC)


def table_text(seed: int = 8) -> bytes:
    """60 rows: a byte order mark, semicolons, CRLF, quoted line ends, and a uuid in two rows of three."""
    rng, out = Random(seed), io.StringIO(newline="")
    out.write("\ufeff")
    writer = csv.writer(out, delimiter=";", lineterminator="\r\n")
    writer.writerow(["event", "distinct_id", "timestamp", "uuid", "zip", "amount", "note", "region"])
    for number in range(60):
        at = START + timedelta(minutes=37 * number, seconds=rng.randrange(60), milliseconds=rng.randrange(1000))
        stamp = at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        uuid = uuid4(rng) if number % 3 else ""
        amount = f"{rng.randrange(100_000) / 100:.2f}".replace(".", ",")
        shop = rng.choice(["nord", "süd"])
        cells = [rng.choice(EVENTS), f"customer-{rng.randrange(20):03d}", stamp, uuid]
        writer.writerow([*cells, f"{rng.randrange(99_999):05d}", amount, NOTES[number % len(NOTES)], shop])
    return out.getvalue().encode()


def table(seed: int = 9) -> pa.Table:
    """60 rows: a zoned time, an exact decimal, 64-bit integers, a list, a struct, a map, a date, nulls."""
    rng = Random(seed)
    rows = []
    for number in range(60):
        at = START + timedelta(hours=2 * number, microseconds=rng.randrange(3_600_000_000))
        rows.append(
            {
                "event": rng.choice(EVENTS),
                "distinct_id": f"customer-{rng.randrange(20):03d}",
                "timestamp": at,
                "uuid": uuid4(rng),
                "amount": Decimal(rng.randrange(10_000_000)).scaleb(-2) if number % 7 else None,
                "counter": 2**53 + 1 + number if number % 20 == 0 else number,
                "weight": rng.randrange(1, 400) / 8,
                "gift": None if number % 5 == 0 else rng.random() < 0.3,
                "tags": [] if number % 4 == 0 else ["new", "naïve", None][: number % 4],
                "address": {"city": rng.choice(["Kraków", "Berlin"]), "zip": f"{rng.randrange(99_999):05d}"},
                "attributes": [("source", "shop"), ("slot", str(number))][: number % 3],
                "due": (at + timedelta(days=3)).date(),
            }
        )
    return pa.Table.from_pylist(rows, schema=COLUMNS)


COLUMNS = pa.schema(
    [
        ("event", pa.string()),
        ("distinct_id", pa.string()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("uuid", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("counter", pa.int64()),
        ("weight", pa.float64()),
        ("gift", pa.bool_()),
        ("tags", pa.list_(pa.string())),
        ("address", pa.struct([("city", pa.string()), ("zip", pa.string())])),
        ("attributes", pa.map_(pa.string(), pa.string())),
        ("due", pa.date32()),
    ]
)
