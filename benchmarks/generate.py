"""Seeded exports for measurements: the same events and seed give the same rows.

A row is put together from a pool of ready-made fragments and its own ids, times and numbers, so that writing
a million takes seconds; no two rows are alike. Rows are in time order, in UTC, and years older than 48 hours.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import IO

KINDS = {
    "jsonl": "mixpanel.jsonl",
    "gz": "mixpanel.jsonl.gz",
    "amplitude": "amplitude.zip",
    "csv": "rows.csv",
    "parquet": "rows.parquet",
}
START = datetime(2023, 1, 1, tzinfo=UTC)
SPAN_SECONDS = 180 * 86_400
POOL = 2_000
MEMBER_ROWS = 20_000
PARQUET_ROWS = 20_000

EVENTS = [
    "$mp_web_page_view",
    "$mp_click",
    "Purchase",
    "$mp_page_leave",
    "Lamp Switched",
    "Search",
    "Signed Up",
]
BROWSERS = [("Chrome", "Windows"), ("Firefox", "Linux"), ("Safari", "Mac OS X"), ("Mobile Safari", "iOS")]
PLACES = [("Kraków", "Małopolskie", "PL", "Poland"), ("Berlin", "Berlin", "DE", "Germany")]
PLACES += [("東京", "東京都", "JP", "Japan"), ("São Paulo", "São Paulo", "BR", "Brazil")]
WORDS = ["amber", "birch", "cobalt", "dune", "ember", "fjord", "grove", "harbor", "indigo", "juniper"]
WORDS += ["koala", "lumen", "meadow", "naïve", "été", "灯"]


def generate(kind: str, events: int, folder: Path, seed: int = 1) -> Path:
    """Write `events` rows of one kind into `folder`; returns the file."""
    path = folder / KINDS[kind]
    rng = Random(seed)
    if kind == "jsonl":
        with path.open("wb") as plain:
            plain.writelines(_mixpanel(rng, events))
    elif kind == "gz":
        with path.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
            out = io.BufferedWriter(packed, 1 << 20)
            out.writelines(_mixpanel(rng, events))
            out.flush()
    elif kind == "amplitude":
        _amplitude_zip(rng, events, path)
    elif kind == "csv":
        with path.open("w", encoding="utf-8", newline="") as text:
            text.writelines(_csv(rng, events))
    else:
        _parquet(rng, events, path)
    return path


def row_bytes(kind: str, path: Path) -> int:
    """The uncompressed bytes of the rows: of text as it is, of Parquet as Arrow's columns."""
    if kind == "parquet":
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            return sum(batch.nbytes for batch in file.iter_batches(PARQUET_ROWS, use_threads=False))
    if kind == "amplitude":
        with zipfile.ZipFile(path) as archive:
            return sum(_unpacked(archive.open(member)) for member in archive.namelist())
    return _unpacked(path.open("rb")) if kind == "gz" else path.stat().st_size


def _unpacked(packed: IO[bytes]) -> int:
    with packed, gzip.open(packed) as plain:
        return sum(iter(lambda: len(plain.read(1 << 20)), 0))


def _times(rng: Random, events: int) -> Iterator[tuple[int, int]]:
    """(second, millisecond) of each event, rising over half a year."""
    begin, step = int(START.timestamp()), SPAN_SECONDS / events
    for number in range(events):
        moment = begin + step * (number + rng.random())
        yield int(moment), int(moment * 1000) % 1000


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _address(rng: Random) -> str:
    path = "/".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 4)))
    return (
        f"https://shop.example/{path}?utm_source={rng.choice(WORDS)}&q={rng.randrange(10**6)}#part-{rng.randrange(9)}"
    )


def _mixpanel(rng: Random, events: int) -> Iterator[bytes]:
    """Raw-export rows of about 850 bytes of a project in UTC."""
    pool = []
    for _ in range(POOL):
        browser, system = rng.choice(BROWSERS)
        city, region, code, _name = rng.choice(PLACES)
        members = {
            "$browser": browser,
            "$browser_version": rng.randrange(80, 120),
            "$city": city,
            "$current_url": _address(rng),
            "$initial_referring_domain": "search.example",
            "$os": system,
            "$referrer": _address(rng),
            "$region": region,
            "$screen_height": 1080,
            "mp_country_code": code,
            "mp_lib": "web",
            "$lib_version": "2.45.0",
            "tags": [rng.choice(WORDS) for _ in range(rng.randrange(4))],
            "items": [{"sku": rng.choice(WORDS), "qty": rng.randrange(1, 5)} for _ in range(rng.randrange(3))],
            "title": " ".join(rng.choice(WORDS) for _ in range(5)) + " ✨",
            "logged_in": rng.random() < 0.5,
            "coupon": None,
        }
        pool.append(_text(members)[1:-1])
    people = max(100, events // 20)
    for second, milli in _times(rng, events):
        person = rng.randrange(people)
        bits = rng.getrandbits(96)
        received = second * 1000 + milli + 300 + (bits & 0xFFF)
        yield (
            f'{{"event":"{EVENTS[bits % 7]}","properties":{{"time":{second},"distinct_id":"user-{person}",'
            f'"$insert_id":"{bits:024x}","$user_id":"user-{person}",'
            f'"$device_id":"{person * 2654435761:016x}",'
            f'{pool[bits % POOL]},"amount":{(bits & 0xFFFFF) / 100},"score":{rng.random()},'
            f'"$mp_api_endpoint":"api.mixpanel.com","$mp_api_timestamp_ms":{received},'
            f'"mp_processing_time_ms":{received + 700}}}}}\n'
        ).encode()


def _amplitude(rng: Random, events: int) -> Iterator[bytes]:
    """Export API rows of about 2 kB, most keys present and half of them null."""
    pool = []
    nulls = "adid dma global_user_properties idfa location_lat location_lng partner_id source_id start_version"
    for _ in range(POOL):
        browser, system = rng.choice(BROWSERS)
        city, region, _code, country = rng.choice(PLACES)
        location = _address(rng)
        members: dict[str, object] = dict.fromkeys(nulls.split())
        members |= {
            "$schema": 13,
            "app": 274651,
            "city": city,
            "country": country,
            "data": {"path": "/2/httpapi", "group_first_event": {}, "group_ids": {}},
            "data_type": "event",
            "device_family": system,
            "device_type": "Mac",
            "group_properties": {},
            "groups": {"company": [rng.choice(WORDS)]},
            "language": "English",
            "library": "amplitude-ts/2.16.1",
            "os_name": browser,
            "os_version": str(rng.randrange(80, 120)),
            "paying": None,
            "plan": {},
            "platform": "Web",
            "region": region,
            "user_properties": {f"initial_{key}": "EMPTY" for key in ("gclid", "fbclid", "utm_source", "utm_medium")}
            | {
                "tier": rng.choice(WORDS),
                "seats": rng.randrange(50),
                "bio": " ".join(rng.choices(WORDS, k=30)),
            },
            "event_properties": {
                "[Amplitude] Page Location": location,
                "[Amplitude] Page URL": location.split("?")[0],
                "[Amplitude] Page Domain": "shop.example",
                "[Amplitude] Page Title": " ".join(rng.choices(WORDS, k=6)),
                "[Amplitude] Page Counter": rng.randrange(30),
                "referrer": _address(rng),
                "items": [{"sku": rng.choice(WORDS), "qty": rng.randrange(1, 5)} for _ in range(rng.randrange(4))],
                "note": " ".join(rng.choices(WORDS, k=20)),
            },
        }
        pool.append(_text(members)[1:-1])
    people = max(100, events // 20)
    kinds = ["[Amplitude] Page Viewed", "Plan Chosen", "Search", "Lamp Switched"]
    minute, stamp = -1, ""
    for number, (second, milli) in enumerate(_times(rng, events)):
        if second // 60 != minute:
            minute = second // 60
            stamp = f"{datetime.fromtimestamp(minute * 60, UTC):%Y-%m-%d %H:%M:}"
        at = f"{stamp}{second % 60:02d}.{milli:03d}000"
        person, bits = rng.randrange(people), rng.getrandbits(128)
        ident = f"{bits:032x}"
        uuid = f"{ident[:8]}-{ident[8:12]}-4{ident[13:16]}-a{ident[17:20]}-{ident[20:]}"
        yield (
            f'{{"$insert_id":"{ident}","amplitude_id":{person + 38 * 10**10},"client_event_time":"{at}",'
            f'"client_upload_time":"{at}","device_id":"{person * 2654435761:032x}","event_id":{number},'
            f'"event_time":"{at}","event_type":"{kinds[bits % 4]}","ip_address":"203.0.113.{bits % 254}",'
            f'"processed_time":"{at}","server_received_time":"{at}","server_upload_time":"{at}",'
            f'"session_id":{minute * 60_000},"user_id":"user-{person}","uuid":"{uuid}",'
            f"{pool[bits % POOL]}}}\n"
        ).encode()


def _amplitude_zip(rng: Random, events: int, path: Path) -> None:
    rows = _amplitude(rng, events)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for member in range(0, events, MEMBER_ROWS):
            packed = gzip.compress(b"".join(next(rows) for _ in range(min(MEMBER_ROWS, events - member))), 6)
            hour = START + timedelta(hours=member // MEMBER_ROWS)
            archive.writestr(f"274651/274651_{hour:%Y-%m-%d}_{hour.hour}#0.json.gz", packed)


def _row(rng: Random, second: int, milli: int, people: int) -> tuple[str, str, str, str]:
    ident = f"{rng.getrandbits(128):032x}"
    uuid = f"{ident[:8]}-{ident[8:12]}-4{ident[13:16]}-a{ident[17:20]}-{ident[20:]}"
    at = f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}.{milli:03d}Z"
    return EVENTS[second % 7], f"user-{rng.randrange(people)}", at, uuid


def _csv(rng: Random, events: int) -> Iterator[str]:
    """32 columns; one cell in fifty is quoted and contains a line end."""
    yield "event,distinct_id,timestamp,uuid," + ",".join(f"column_{n}" for n in range(28)) + "\r\n"
    pool = []
    for number in range(POOL):
        cells = [rng.choice(WORDS) for _ in range(12)] + [str(rng.randrange(10**6)) for _ in range(6)]
        cells += [_address(rng), "", "", "true", f"{rng.randrange(10**5):05d}", "1.10", "2023-05-06"]
        cells.append('"two\nlines, and a comma"' if number % 50 == 0 else "plain")
        pool.append(",".join(cells))
    people = max(100, events // 20)
    for second, milli in _times(rng, events):
        head = ",".join(_row(rng, second, milli, people))
        yield f"{head},{rng.random()},{rng.randrange(10**9)},{pool[rng.randrange(POOL)]}\r\n"


def _parquet(rng: Random, events: int, path: Path) -> None:
    """Four text columns and `properties` as JSON text."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = ["event", "distinct_id", "timestamp", "uuid", "properties"]
    schema = pa.schema([(name, pa.string()) for name in names])
    pool = [
        _text({word: rng.choice(WORDS) for word in WORDS} | {"tags": rng.choices(WORDS, k=3), "url": _address(rng)})[
            :-1
        ]
        for _ in range(POOL)
    ]
    people = max(100, events // 20)
    times = _times(rng, events)
    with pq.ParquetWriter(path, schema, compression="zstd") as out:
        for first in range(0, events, PARQUET_ROWS):
            rows = [_row(rng, *next(times), people) for _ in range(min(PARQUET_ROWS, events - first))]
            columns = [list(column) for column in zip(*rows, strict=True)]
            columns.append([f'{rng.choice(pool)},"amount":{rng.random()}}}' for _ in rows])
            out.write_table(pa.table(dict(zip(names, columns, strict=True)), schema=schema))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("events", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    written = generate(asked.kind, asked.events, asked.folder, asked.seed)
    print(f"{written}: {written.stat().st_size:,} bytes, {written.stat().st_size / asked.events:.0f} an event")
