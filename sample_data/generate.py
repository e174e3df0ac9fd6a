"""Write the sample exports again from their seeds, or prove that the ones here are what the seeds give.

    python -m sample_data.generate            write them all
    python -m sample_data.generate --check    compare, write nothing; exit 1 and a line per difference

A compressed file is compared by what is inside, Avro and Parquet as tables: the bytes around them depend on the
version of a library. Everything else is compared byte for byte.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import lzma
import sys
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from sample_data.generator import (
    adobe,
    amplitude,
    braze,
    clevertap,
    countly,
    customerio,
    customerio_webhooks,
    ga4,
    ga4_flat,
    ga4_warehouse,
    generic,
    heap,
    intercom,
    june,
    keen,
    kissmetrics,
    matomo,
    mixpanel,
    mixpanel_people,
    mixpanel_warehouse,
    mparticle,
    openpanel,
    pendo,
    plausible,
    rejects,
    rudderstack,
    segment,
    service,
    snowplow,
    statsig,
    story,
    story_layouts,
    umami,
    universal_analytics,
    vercel,
)
from sample_data.generator.spelling import lines, row

HERE = Path(__file__).resolve().parent


@cache
def files() -> dict[str, bytes]:
    """Every sample file: its path below `sample_data/`, and its bytes; those of an `.xz` are compressed when they are
    written, which takes longer than all the rest."""
    rows = mixpanel.rows()
    first, second = (lines([r.text for r in rows if r.file == name]) for name in (mixpanel.FIRST, mixpanel.SECOND))
    exported, persons = service.export(), service.persons()
    return {
        f"mixpanel/{mixpanel.FIRST}": _gzipped(first),
        f"mixpanel/{mixpanel.SECOND}": second,
        **{f"mixpanel-people/engage-{n}.json": lines([page]) for n, page in enumerate(mixpanel_people.pages())},
        "ga4-flat/events.csv": ga4_flat.table(),
        "ga4-warehouse/event.csv": ga4_warehouse.table(),
        "mixpanel-warehouse/event.csv": mixpanel_warehouse.fivetran(mixpanel_warehouse.records(30)),
        "amplitude/export.zip": _zipped({name: _gzipped(lines(hour)) for name, hour in amplitude.members().items()}),
        "posthog/events-0.jsonl": lines(exported.lines),
        "posthog-persons/persons-0.jsonl": lines([row(one) for one in persons[:6]]),
        "posthog-persons/persons-1.parquet": _parquet(service.person_table(persons[6:]), rows=16),
        "posthog/events-1.parquet": _parquet(exported.table, rows=16),
        "generic/orders.csv": generic.table_text(),
        "generic/orders.parquet": _parquet(generic.table(), rows=25),
        "rejects/broken.jsonl": rejects.broken_lines(),
        "rejects/broken.csv": rejects.broken_table(),
        "rejects/too-large.jsonl.gz": _gzipped(rejects.too_large()),
        "ga4/events_20231115/000000000000.json.gz": _gzipped(lines(ga4.extract_lines(ga4.rows()))),
        **{
            f"ga4/{name}_20231115/000000000000.json.gz": _gzipped(lines(ga4.user_lines(rows)))
            for name, rows in ga4.users(ga4.rows()).items()
        },
        "matomo/visits.json": matomo.document(matomo.visits()),
        "matomo/visits.csv": matomo.table_text(matomo.visits()),
        "matomo-database/actions.jsonl": lines([json.dumps(row) for row in matomo.queried(matomo.visits())[0]]),
        "matomo-database/conversions.jsonl": lines([json.dumps(row) for row in matomo.queried(matomo.visits())[1]]),
        "universal-analytics/ga_sessions_20170801/000000000000.json.gz": _gzipped(
            lines(universal_analytics.sessions())
        ),
        f"snowplow/{snowplow.PATH}": _gzipped(snowplow.archive(snowplow.events())),
        **{f"umami/{name}.csv": text for name, text in umami.tables().items()},
        **{f"braze/{braze.path_of(kind)}": braze.avro(kind, table) for kind, table in braze.rows().items()},
        **{f"heap/{path}": content for path, content in heap.bucket().items()},
        "mparticle/2023/04/20/14/batches.json.gz": _gzipped(lines(mparticle.batches())),
        **{f"adobe/{name}": content for name, content in adobe.files().items()},
        **{f"kissmetrics/{name}": content for name, content in kissmetrics.files().items()},
        "keen/2018-03-10T10-00-00.000Z/purchases/part.json.gz": _gzipped(lines(keen.events())),
        "vercel/drain.jsonl": lines(vercel.events()),
        "clevertap/1644606691-1645212000-all-20220218-0-in1.csv.gz": _gzipped(clevertap.table_text()),
        **{f"customerio/{name}": _parquet(made, rows=20) for name, made in customerio.tables().items()},
        "customerio-webhooks/webhooks.jsonl": lines(customerio_webhooks.lines()),
        "intercom/events.json": intercom.page(),
        "statsig/first_exposures.csv": statsig.exposures(),
        "statsig/events.jsonl": lines(statsig.events()),
        "countly/drill_events.jsonl": lines(countly.lines()),
        **{f"june/{name}.csv": text for name, text in june.tables().items()},
        **{f"openpanel/{name}.jsonl": lines(rows) for name, rows in openpanel.tables().items()},
        **{f"plausible/{name}": content for name, content in plausible.members().items()},
        **{f"pendo/{name}": content for name, content in pendo.files().items()},
        **_segment(),
        **_rudderstack(),
        **{f"story/{name}": content for name, content in _story().items()},
    }


def _segment() -> dict[str, bytes]:
    tables = segment.warehouse()
    found = {f"segment/archive/{name}": _gzipped(lines(day)) for name, day in segment.archive().items()}
    named = {"identifies": "identifies/000000000000", "groups": "prod.groups_2023-04-21", "screens": "screens/part-0"}
    for name in ("tracks", "order_completed", "plan_chosen", "aliases", *named):
        found[f"segment/warehouse/{named.get(name, name)}.csv"] = segment.table_text(tables[name])
    for name in ("lamp_switched", "invoice_paid", "pages", "users"):
        found[f"segment/warehouse/{name}.parquet"] = _parquet(segment.table(tables[name]), rows=25)
    return found


def _rudderstack() -> dict[str, bytes]:
    found = {f"rudderstack/storage/{name}": _gzipped(lines(day)) for name, day in rudderstack.logs().items()}
    found["rudderstack/staging/rudder-warehouse-staging-logs/staging.json.gz"] = _gzipped(lines(rudderstack.staging()))
    return found | {f"rudderstack/lake/{name}": _parquet(made, rows=25) for name, made in rudderstack.lake().items()}


def _story() -> dict[str, bytes]:
    calls = story.calls()
    return {
        f"{write.__name__}/{name}.xz": text for write in story_layouts.LAYOUTS for name, text in write(calls).items()
    }


def differences(folder: Path = HERE) -> list[str]:
    """A sentence for each file below `folder` that is missing, or is not what its seed gives."""
    found = []
    for name, fresh in files().items():
        path = folder / name
        if not path.is_file():
            found.append(f"{name} is missing")
        elif _inside(name, path.read_bytes()) != (fresh if name.endswith(".xz") else _inside(name, fresh)):
            found.append(f"{name} is not what its seed gives")
    return found


def _gzipped(content: bytes) -> bytes:
    """Gzip without a name or a time, so that the same content gives the same bytes."""
    out = io.BytesIO()
    with gzip.GzipFile("", "wb", compresslevel=9, fileobj=out, mtime=0) as file:
        file.write(content)
    return out.getvalue()


def _zipped(members: dict[str, bytes]) -> bytes:
    """A zip of stored members with one fixed date."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name, (2022, 5, 11, 0, 0, 0))
            entry.create_system = 3
            archive.writestr(entry, content)
    return out.getvalue()


def _parquet(table: pa.Table, rows: int) -> bytes:
    """Parquet with `rows` in a row group, and without a writer's pandas notes."""
    out = io.BytesIO()
    pq.write_table(table, out, row_group_size=rows, compression="zstd", store_schema=True)
    return out.getvalue()


def _rows(content: bytes) -> object:
    reader = fastavro.reader(io.BytesIO(content))
    return reader.writer_schema, reader.codec, list(reader)


def _inside(name: str, content: bytes) -> object:
    openers: dict[str, Callable[[bytes], object]] = {
        ".gz": gzip.decompress,
        ".xz": lzma.decompress,
        ".zip": _members,
        ".avro": _rows,
        ".parquet": _table,
    }
    return openers.get(Path(name).suffix, bytes)(content)


def _table(content: bytes) -> pa.Table:
    """The table of a Parquet file, read in this thread alone.

    `pq.read_table` reads in Arrow's threads, and one that still holds the Python file when the interpreter ends
    aborts the process (https://github.com/apache/arrow/issues/34314): 27 of 60 runs that end after reading.
    """
    return pq.ParquetFile(io.BytesIO(content), pre_buffer=False).read(use_threads=False)


def _members(content: bytes) -> list[tuple[str, tuple[int, ...], bytes]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return [(e.filename, e.date_time, gzip.decompress(archive.read(e))) for e in archive.infolist()]


def main(arguments: list[str] | None = None) -> int:
    """The command; gives its exit code."""
    parser = argparse.ArgumentParser(prog="python -m sample_data.generate", description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file differs from its seed")
    if parser.parse_args(arguments).check:
        found = differences()
        for sentence in found:
            print(sentence, file=sys.stderr)
        return 1 if found else 0
    for name, content in files().items():
        path = HERE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME) if name.endswith(".xz") else content)
        print(f"{path.stat().st_size:7,} bytes  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
