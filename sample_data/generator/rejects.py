"""One row for each code a row can be rejected with, so that documents and tests have a real one to show.

The rows are of the `generic` shape (`event`, `distinct_id`, `timestamp`); each names its own code as the
property `expect`, which stands in the text even of a row that is no JSON. Two codes are not here:
`recent_timestamp` moves with the day of the plan, and `unmapped_event` needs a mapping that lists its events.
"""

from __future__ import annotations

from typing import Any

from sample_data.generator.spelling import row

TIME = "2023-02-03T04:05:06.789Z"


def _row(code: str, **own: Any) -> str:
    fields = {"event": "Lamp Switched", "distinct_id": "person-1", "timestamp": TIME, "expect": code}
    return row({key: value for key, value in (fields | own).items() if value is not ...})


def broken_lines() -> bytes:
    """JSON lines: a good row (`expect` is `mapped`) at both ends, a rejected row of each code between."""
    good = _row("mapped")
    deep = "[" * 70 + "]" * 70
    texts = [
        good,
        good[:-1] + ',"cut":',
        good.replace("mapped", "bad_json")[:-1] + ',"rate":NaN}',
        _row("bad_utf8", note="§"),
        _row("too_deep", deep="§").replace('"§"', deep),
        _row("bad_value", note="§").replace("§", "\\ud83d"),
        _row("bad_value", size="§").replace('"§"', "1E400"),
        _row("missing_event", event=...),
        _row("long_event", event="Lamp " * 41),
        _row("missing_distinct_id", distinct_id="  "),
        _row("junk_distinct_id", distinct_id="undefined"),
        _row("long_distinct_id", distinct_id="p" * 201),
        _row("missing_timestamp", timestamp=...),
        _row("bad_timestamp", timestamp="2023-02-30 25:00"),
        _row("ancient_timestamp", timestamp="1969-12-31T23:59:59Z"),
        _row("future_timestamp", timestamp="2999-01-01T00:00:00Z"),
        _row("mapped", distinct_id="person-2"),
    ]
    texts[1] = texts[1].replace("mapped", "bad_json")
    return "".join(text + "\n" for text in texts).encode().replace("§".encode(), b"\xff\xfe")


def broken_table() -> bytes:
    """A CSV whose second row has a cell too many."""
    good = f"Lamp Switched,person-1,{TIME},mapped"
    bad = f"Lamp Switched,person-1,{TIME},bad_csv_row,one too many"
    return f"event,distinct_id,timestamp,expect\n{good}\n{bad}\n".encode()


def too_large() -> bytes:
    """One line of an event that is larger than a request may hold."""
    return (_row("event_too_large", note="lamp " * 200_000) + "\n").encode()
