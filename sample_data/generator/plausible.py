"""Plausible's export, unpacked: CSV files with the totals of each day, by pages, by sources, and in all."""

from __future__ import annotations

from random import Random


def members(seed: int = 13) -> dict[str, bytes]:
    """The files by their names."""
    rng = Random(seed)
    pages = ["date,hostname,page,visits,visitors,pageviews"]
    sources = [
        "date,source,referrer,utm_source,utm_medium,utm_campaign,utm_content,utm_term,pageviews,visitors,visits,"
        "visit_duration,bounces"
    ]
    visitors = ["date,visitors,pageviews,bounces,visits,visit_duration"]
    for day in range(1, 5):
        total = 0
        for page in ("/", "/preise", '"/blog/lampen, neu"'):
            count = rng.randrange(1, 9)
            total += count
            pages.append(f"2024-03-{day:02},lumen.example,{page},{count},{count},{count + 2}")
        sources.append(f"2024-03-{day:02},Google,google.com,,,,,,{total},{total},{total},{90 * total},1")
        visitors.append(f"2024-03-{day:02},{total},{total + 6},1,{total},{90 * total}")
    named = {"pages": pages, "sources": sources, "visitors": visitors}
    return {f"imported_{name}_20240301_20240304.csv": ("\n".join(rows) + "\n").encode() for name, rows in named.items()}
