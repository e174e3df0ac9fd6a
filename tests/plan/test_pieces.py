"""What a plan decides about a whole source does not depend on the pieces into which the source is cut."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.options import PlanOptions
from pipeline.plan import fact_tables, statements
from tests.golden import samples


def crowded(folder: Path, seed: int) -> list[Path]:
    """Rows with many collisions: few keys, few people, few seconds, equal rows without a key, and profiles."""
    chosen = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for _ in range(400):
        who = f"u{chosen.randrange(6)}"
        rows.append({
            "event": chosen.choice(["Seen", "Paid"]),
            "who": who,
            "device": chosen.choice([None, f"d{chosen.randrange(9)}"]),
            "at": f"2023-01-0{chosen.randrange(1, 4)}T00:00:{chosen.randrange(60):02}Z",
            "id": chosen.choice([None, str(chosen.randrange(60))]),
            "$set": {chosen.choice("abc"): chosen.randrange(9)},
            "n": chosen.randrange(3),
        })  # fmt: skip
    folder.mkdir()
    for number in range(3):
        lines = [
            json.dumps({name: value for name, value in row.items() if value is not None}) for row in rows[number::3]
        ]
        (folder / f"{number}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [folder]


COLUMNS = {"event": "event", "distinct_id": "who", "anonymous_id": "device", "timestamp": "at", "uuid": "id"}
LIMITS = {"per_second": 2, "per_minute": 5, "per_day": 40}
ASKED = {"mapping": "generic", "settings": COLUMNS, "allow_key_conflicts": True, **LIMITS}


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("crowded", 0), ("crowded", 1), ("mixpanel-people", 2), ("posthog-persons", 3), ("segment", 0),
        ("generic-csv", 1),
    ],
)  # fmt: skip
def test_any_split_gives_the_same_plan(name: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Byte for byte: the digest seals every table. A piece may have room for one record, a query any number of
    threads."""
    if name == "crowded":
        files, asked = crowded(tmp_path / "rows", seed), ASKED
    else:
        sample = samples.GOLDEN[name]
        files, asked = [samples.SAMPLES / file for file in sample.files], sample.asked
    asked = {"as_of": samples.AS_OF, "workers": 0, **asked}
    whole = pipeline.plan_export(files, tmp_path / "whole", PlanOptions(**asked))
    chosen = random.Random(seed)
    monkeypatch.setattr(fact_tables, "THREADS", chosen.choice([1, 3]))
    monkeypatch.setattr(statements, "PIECE_BYTES", chosen.choice([1, 2_000, 20_000]))
    split = pipeline.plan_export(files, tmp_path / "split", PlanOptions(**asked))
    assert split.digest == whole.digest
    assert split.rows.read > 0
