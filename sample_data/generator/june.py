"""June's export: tracks, identifies and groups as CSV, with objects as JSON text (docs/know/exports.md#june)."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from sample_data.generator.spelling import uuid4

START = datetime(2024, 3, 30, 22, 40, tzinfo=UTC)
AGENT = (
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/122.0.0.0"
    " Safari/537.36"
)
PAGES = [("/", "utm_source=mail&utm_medium=email", "Lumen"), ("/preise", "", "Preise – Lumen")]


def tables(seed: int = 31) -> dict[str, bytes]:
    """The three files, by their names."""
    rng = Random(seed)
    tracks, identifies, groups = [], [], []
    for number in range(5):
        at = START + timedelta(minutes=17 * number)
        ids = {"anonymous_id": uuid4(rng), "user_id": f"user-{number}" if number % 2 else ""}
        for step, (path, query, title) in enumerate(PAGES):
            url = f"https://lumen.example{path}{'?' if query else ''}{query}"
            page = {"url": url, "path": path, "title": title, "referrer": "" if step == 0 else "https://lumen.example/"}
            context: dict[str, Any] = {"page": page, "userAgent": AGENT, "ip": f"203.0.113.{number}", "locale": "de-DE"}
            context["library"] = {"name": "june-analytics", "version": "1.2.0"}
            own: dict[str, Any] = {"context": context, "name": title, "properties": page, "type": "page"}
            tracks.append(ids | own | {"timestamp": _text(at, 31 * step)})
        if number % 2:
            # An object's digits are those of its text.
            own = {"context": {"groupId": "acme"}, "name": "Order Completed", "type": "track"}
            own["properties"] = {"revenue": 49.1 + number, "items": ["L-1"], "note": "", "gift": number == 3}
            tracks.append(ids | own | {"timestamp": _text(at, 90)})
            traits: dict[str, Any] = {"email": f"user-{number}@lumen.example", "plan": "pro", "seats": number}
            identifies.append(ids | {"context": {}, "traits": traits, "timestamp": _text(at, 60)})
            traits = {"name": "Acme", "employees": 40 + number}
            groups.append(ids | {"group_id": "acme", "context": {}, "traits": traits, "timestamp": _text(at, 61)})
    return {name: _table(rows) for name, rows in (("tracks", tracks), ("identifies", identifies), ("groups", groups))}


def _text(moment: datetime, seconds: int) -> str:
    return f"{moment + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}.120Z"


def _table(rows: list[dict[str, Any]]) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: json.dumps(value) if isinstance(value, dict) else value for name, value in row.items()})
    return out.getvalue().encode()
