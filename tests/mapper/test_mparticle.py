"""mParticle over whole sources: a batch is many events of one person, and every digit of an id stays."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from sample_data.generator import mparticle
from tests.support.sent_events import planned


def as_input(batch: dict[str, Any]) -> dict[str, Any]:
    """The batch with its identities in the form of the input."""
    identities = {one["identity_type"]: one["identity"] for one in batch["user_identities"]}
    return {**batch, "user_identities": identities}


def test_every_form_gives_the_same_events(tmp_path: Path) -> None:
    """Lines, one document with a list of all batches, and the identities of the input."""
    lines, document, inputs = tmp_path / "a.jsonl", tmp_path / "b.json", tmp_path / "c.jsonl"
    lines.write_text("\n".join(mparticle.batches()), encoding="utf-8")
    document.write_text(json.dumps(mparticle.rows(), indent=1), encoding="utf-8")
    inputs.write_text("\n".join(json.dumps(as_input(one)) for one in mparticle.rows()), encoding="utf-8")
    expected, events = planned(tmp_path / "plan", [lines])
    assert Counter(event["event"] for event in events) == {
        "Application Opened": 8, "$screen": 8, "Lamp Switched": 8, "purchase": 6,
    }  # fmt: skip
    assert expected.events.phases["identities"] == 6
    for source in (document, inputs):
        plan, found = planned(tmp_path / f"plan-{source.stem}", [source])
        assert (found, plan.events.phases) == (events, expected.events.phases)
