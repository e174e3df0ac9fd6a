"""Statsig: first exposures as its daily report has them, and events of a warehouse (docs/know/exports.md#statsig)."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from sample_data.generator.spelling import hexes, row

START = datetime(2023, 4, 20, 5, 13, 20, tzinfo=UTC)
PACIFIC = timedelta(hours=-7)


def exposures() -> bytes:
    """The report of two days as CSV: the second day has the exposures of the first again."""
    columns = ("company_id", "unit_id", "unit_type", "exposure_type", "name", "rule", "experiment_group",
               "first_exposure_utc", "first_exposure_pst_date", "as_of_pst_date", "percent", "rollout",
               "user_dimensions", "rule_name")  # fmt: skip
    text = io.StringIO()
    rows = csv.DictWriter(text, columns, lineterminator="\n")
    rows.writeheader()
    for day in (1, 2):
        for number in range(5 * day):
            at = START + timedelta(hours=number * 3)
            gate = number % 2
            group = ("pass" if number % 3 else "fail") if gate else ("Control" if number % 4 else "Test")
            rows.writerow({
                "company_id": "c-1", "unit_id": f"u-{number}", "unit_type": "userID",
                "exposure_type": "check_gate" if gate else "get_experiment",
                "name": "dark_mode" if gate else "new_cart", "rule": "r-1" if gate else "experiment",
                "experiment_group": group, "first_exposure_utc": f"{at:%Y-%m-%d %H:%M:%S}",
                "first_exposure_pst_date": f"{at + PACIFIC:%Y-%m-%d}",
                "as_of_pst_date": f"2023-04-2{day}", "percent": "0.5", "rollout": "1",
                "user_dimensions": json.dumps({"country": "DE"}), "rule_name": "everyone" if gate else "experiment",
            })  # fmt: skip
    return text.getvalue().encode()


def events(seed: int = 31) -> list[str]:
    """The events as lines of JSON."""
    rng = Random(seed)
    made: list[dict[str, Any]] = []
    for number in range(8):
        stable = hexes(rng, 32)
        user = {"customIDs": {"stableID": stable}, "country": "DE", "locale": "de"}
        at = START + timedelta(hours=number * 3)
        for after, name, value, known in (
            (0, "auto_capture::page_view", "https://lamps.example/", False),
            (70, "add_to_cart", f"lamp-{number}", True),
        ):
            made.append({
                "user_id": f"u-{number}" if known else "", "stable_id": stable, "custom_ids": "{}",
                "timestamp": f"{at + timedelta(seconds=after):%Y-%m-%d %H:%M:%S}.125", "event_name": name,
                "event_value": value, "user_object": json.dumps(user | ({"userID": f"u-{number}"} if known else {})),
                "statsig_metadata": json.dumps({"sdkType": "js-client"}),
                "company_metadata": json.dumps({"price": "9.99"}),
            })  # fmt: skip
    return [row(one) for one in made]
