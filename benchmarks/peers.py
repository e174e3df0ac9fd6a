"""What people use today, written plainly: posthog-python, and scripts with pandas and requests.

`pandas` is the usual script, which does with pandas what pandas can do: read in chunks of 1000, go over the rows with
`iterrows`, read the time of each with `pd.to_datetime`, make a dictionary of it, `requests.post` the chunk.
`pandas-rows` is the same but for the time, which the standard library reads. `pandas-columns` is by an expert in
pandas, who maps whole columns at once (and so turns integers with gaps into floats). `pandas-dicts` is the quickest
there is: pandas only reads, `to_dict` and plain dictionaries do the rest. All of them, and posthog-python, map with the
same plain functions where they map row by row, and nothing in any of them is there to slow it down.

Runs in an environment of its own (`benchmarks/requirements.txt`). Prints `{"events", "seconds"}`: the seconds
leave out the interpreter's start and the imports, which favours these peers over a whole command.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import time
import uuid
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import IO, Any

Row = dict[str, Any]
ReadTime = Callable[[Any], Any]
Convert = Callable[[Row, ReadTime], Row]
NAMESPACE = uuid.UUID(bytes=b"posthog_mixpanel")
KEY = "phc_test_bench"
CHUNK = 1_000

EVENT_NAMES = {"$mp_web_page_view": "$pageview", "$mp_click": "$autocapture", "$mp_page_leave": "$pageleave"}
PROPERTY_NAMES = {
    "$city": "$geoip_city_name",
    "$region": "$geoip_subdivision_1_name",
    "mp_country_code": "$geoip_country_code",
    "mp_lib": "$lib",
    "$model": "$device_model",
    "$carrier": "$network_carrier",
}
PAGE_NAMES = {"[Amplitude] Page Location": "$current_url", "[Amplitude] Page Title": "title"}
FIELD_NAMES = {
    "event_type": "event",
    "event_time": "timestamp",
    "uuid": "uuid",
    "os_name": "$browser",
    "os_version": "$browser_version",
    "device_family": "$os",
    "country": "$geoip_country_name",
    "city": "$geoip_city_name",
    "ip_address": "$ip",
    "user_properties": "$set",
    "groups": "$groups",
}
DROPPED = ["$mp_api_endpoint", "$mp_api_timestamp_ms", "mp_processing_time_ms", "$insert_id", "time"]


def read_time(value: Any) -> datetime:
    """Seconds since 1970 or a string, by the standard library."""
    if isinstance(value, str):
        return datetime.fromisoformat(value)
    return value if isinstance(value, datetime) else datetime.fromtimestamp(value, UTC)


def read_time_by_pandas(value: Any) -> Any:
    """The same by pandas."""
    import pandas as pd

    return pd.to_datetime(value, unit=None if isinstance(value, (str, datetime)) else "s", utc=True)


def from_mixpanel(row: Row, when_of: ReadTime) -> Row:
    """A Mixpanel row as an event."""
    properties = dict(row["properties"])
    when = when_of(properties["time"])
    ident = str(uuid.uuid5(NAMESPACE, properties["$insert_id"]))
    for name in DROPPED:
        properties.pop(name, None)
    for old, new in PROPERTY_NAMES.items():
        if old in properties:
            properties[new] = properties.pop(old)
    event = EVENT_NAMES.get(row["event"], row["event"])
    return {"event": event, "properties": properties, "timestamp": when, "uuid": ident}


def from_amplitude(row: Row, when_of: ReadTime) -> Row:
    """An Amplitude row as an event."""
    properties = dict(row["event_properties"])
    properties["distinct_id"] = row.get("user_id") or row["device_id"]
    properties["$current_url"] = properties.pop("[Amplitude] Page Location", None)
    properties["title"] = properties.pop("[Amplitude] Page Title", None)
    properties |= {
        "$browser": row["os_name"],
        "$browser_version": row["os_version"],
        "$os": row["device_family"],
    }
    properties |= {
        "$geoip_country_name": row["country"],
        "$geoip_city_name": row["city"],
        "$ip": row["ip_address"],
    }
    properties["$set"] = {key: value for key, value in row["user_properties"].items() if value != "EMPTY"}
    properties["$groups"] = {kind: keys[0] for kind, keys in row["groups"].items()}
    when = when_of(row["event_time"])
    event = "$pageview" if row["event_type"] == "[Amplitude] Page Viewed" else row["event_type"]
    return {
        "event": event,
        "properties": properties,
        "timestamp": when.replace(tzinfo=UTC),
        "uuid": row["uuid"],
    }


def from_table(row: Row, when_of: ReadTime) -> Row:
    """A row of a CSV or Parquet file as an event; a `properties` column is JSON."""
    rest = {key: value for key, value in row.items() if key not in ("event", "timestamp", "uuid")}
    if "properties" in rest:
        rest |= json.loads(rest.pop("properties"))
    when = when_of(row["timestamp"])
    return {"event": row["event"], "properties": rest, "timestamp": when, "uuid": row["uuid"]}


def read_plainly(kind: str, path: str) -> Iterator[Row]:
    """The rows of a file, with the standard library (and pyarrow for Parquet)."""
    if kind == "jsonl":
        with open(path, "rb") as file:
            yield from map(json.loads, file)
    elif kind == "gz":
        with gzip.open(path, "rb") as file:
            yield from map(json.loads, file)
    elif kind == "amplitude":
        for member in _members(path):
            yield from map(json.loads, member)
    elif kind == "csv":
        with open(path, encoding="utf-8", newline="") as text:
            yield from csv.DictReader(text)
    else:
        import pyarrow.parquet as pq

        for batch in pq.ParquetFile(path).iter_batches(CHUNK):
            yield from batch.to_pylist()


def _members(path: str) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as packed, gzip.open(packed, "rb") as member:
                yield member  # type: ignore[misc]


def read_by_pandas(kind: str, path: str) -> Iterator[Any]:
    """Frames of 1000 rows."""
    import pandas as pd

    if kind in ("jsonl", "gz"):
        yield from pd.read_json(path, lines=True, chunksize=CHUNK)
    elif kind == "amplitude":
        for member in _members(path):
            yield from pd.read_json(member, lines=True, chunksize=CHUNK)
    elif kind == "csv":
        yield from pd.read_csv(path, chunksize=CHUNK, dtype=str, keep_default_na=False)
    else:
        whole = pd.read_parquet(path)
        for first in range(0, len(whole), CHUNK):
            yield whole.iloc[first : first + CHUNK]


def by_posthog(kind: str, path: str, url: str, convert: Convert, tuned: bool) -> tuple[int, float]:
    """posthog-python; the producer waits while the client's queue is full, or events would be dropped."""
    from posthog import Posthog

    begin, sent = time.perf_counter(), 0
    settings: dict[str, Any] = {"flush_at": 2000, "gzip": True, "thread": 2} if tuned else {}
    client = Posthog(KEY, host=url, historical_migration=True, **settings)
    room = client.queue.maxsize - 1
    for row in read_plainly(kind, path):
        event = convert(row, read_time)
        if client.queue.qsize() >= room:
            while client.queue.qsize() > room // 2:
                time.sleep(0.01)
        properties = event["properties"]
        admitted = client.capture(
            event["event"],
            distinct_id=properties["distinct_id"],
            properties=properties,
            timestamp=event["timestamp"],
            uuid=event["uuid"],
        )
        if admitted is None:
            raise SystemExit("posthog-python did not take an event")
        sent += 1
    client.shutdown()
    return sent, time.perf_counter() - begin


def by_pandas(peer: str, kind: str, path: str, url: str, convert: Convert) -> tuple[int, float]:
    """A chunk of 1000 rows, a list of dictionaries, `requests.post`."""
    import requests

    begin, sent = time.perf_counter(), 0
    for frame in read_by_pandas(kind, path):
        if peer in ("pandas", "pandas-rows"):
            when_of = read_time_by_pandas if peer == "pandas" else read_time
            batch = [convert(row.to_dict(), when_of) for _, row in frame.iterrows()]
        elif peer == "pandas-columns":
            batch = by_columns(kind, frame)
        else:
            batch = [convert(row, read_time) for row in frame.to_dict("records")]
        for event in batch:
            event["timestamp"] = event["timestamp"].isoformat()
        body: Row = {"api_key": KEY, "historical_migration": True, "batch": batch}
        requests.post(f"{url}/batch/", json=body, timeout=30).raise_for_status()
        sent += len(batch)
    return sent, time.perf_counter() - begin


def by_columns(kind: str, frame: Any) -> list[Row]:
    """A frame as events, mapped the way pandas is meant to be used: by whole columns."""
    import pandas as pd

    if kind in ("jsonl", "gz"):
        flat = pd.json_normalize(frame["properties"].tolist(), max_level=0)
        flat["event"] = frame["event"].replace(EVENT_NAMES).to_numpy()
        flat["timestamp"] = pd.to_datetime(flat["time"], unit="s", utc=True)
        flat["uuid"] = flat["$insert_id"].map(lambda key: str(uuid.uuid5(NAMESPACE, key)))
        flat = flat.rename(columns=PROPERTY_NAMES).drop(columns=DROPPED, errors="ignore")
    elif kind == "amplitude":
        own = pd.json_normalize(frame["event_properties"].tolist(), max_level=0).rename(columns=PAGE_NAMES)
        flat = pd.concat([own, frame[list(FIELD_NAMES)].reset_index(drop=True).rename(columns=FIELD_NAMES)], axis=1)
        flat["event"] = flat["event"].replace({"[Amplitude] Page Viewed": "$pageview"})
        flat["distinct_id"] = frame["user_id"].fillna(frame["device_id"]).to_numpy()
        flat["timestamp"] = pd.to_datetime(flat["timestamp"], utc=True)
        flat["$groups"] = flat["$groups"].map(lambda groups: {name: keys[0] for name, keys in groups.items()})
        flat["$set"] = flat["$set"].map(lambda own: {name: v for name, v in own.items() if v != "EMPTY"})
    else:
        flat = frame
        if "properties" in frame:
            spread = pd.json_normalize(frame["properties"].map(json.loads).tolist(), max_level=0)
            flat = pd.concat([frame.drop(columns="properties").reset_index(drop=True), spread], axis=1)
        flat = flat.assign(timestamp=pd.to_datetime(flat["timestamp"], utc=True))
    batch = []
    for row in flat.to_dict("records"):
        event = {name: row.pop(name) for name in ("event", "timestamp", "uuid")}
        batch.append(event | {"properties": {name: value for name, value in row.items() if value == value}})
    return batch


def _load(peer: str, kind: str) -> None:
    """Import what the peer needs before the clock starts."""
    if peer.startswith("posthog"):
        import posthog  # noqa: F401
    else:
        import pandas  # noqa: F401
        import requests  # noqa: F401
    if kind == "parquet":
        import pyarrow.parquet  # noqa: F401


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "peer", choices=["posthog", "posthog-tuned", "pandas", "pandas-rows", "pandas-columns", "pandas-dicts"]
    )
    parser.add_argument("kind", choices=["jsonl", "gz", "amplitude", "csv", "parquet"])
    parser.add_argument("path")
    parser.add_argument("url")
    asked = parser.parse_args()
    convert = {"jsonl": from_mixpanel, "gz": from_mixpanel, "amplitude": from_amplitude}.get(asked.kind, from_table)
    _load(asked.peer, asked.kind)
    if asked.peer.startswith("pandas"):
        sent, seconds = by_pandas(asked.peer, asked.kind, asked.path, asked.url, convert)
    else:
        sent, seconds = by_posthog(asked.kind, asked.path, asked.url, convert, asked.peer == "posthog-tuned")
    print(json.dumps({"events": sent, "seconds": seconds}))


if __name__ == "__main__":
    main()
