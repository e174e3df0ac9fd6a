"""Adobe Analytics: two days of a data feed, one in a single archive, one in several files with a manifest
(docs/know/exports.md#adobe)."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from random import Random

START = 1_682_000_000
"""2023-04-20T14:13:20Z."""
_SUITE = "lampshop"
COLUMNS = (
    "hitid_high", "hitid_low", "hit_time_gmt", "date_time", "exclude_hit", "hit_source", "post_page_event",
    "post_page_event_var1", "post_page_event_var2", "post_pagename", "post_page_url", "post_referrer", "ref_type",
    "post_visid_high", "post_visid_low", "post_cust_visid", "mcvisid", "visit_num", "visit_start_time_gmt",
    "post_event_list", "post_product_list", "post_purchaseid", "duplicate_purchase", "post_currency", "browser", "os",
    "language", "country", "geo_country", "geo_city", "s_resolution", "accept_language", "ip", "user_agent",
    "mobile_id", "post_evar1", "prop1",
)  # fmt: skip
LOOKUPS = {
    "event.tsv": {
        "1": "Purchase",
        "2": "Product View",
        "12": "Cart Add",
        "200": "Lamp Lit",
        "100": "Instance of eVar1",
    },
    "browser.tsv": {"497": "Google Chrome 112.0", "498": "Safari 16.4"},
    "operating_systems.tsv": {"1550374905": "OS X 10.15.7", "1550374906": "Windows 10"},
    "languages.tsv": {"45": "German (Switzerland)"},
    "resolution.tsv": {"78": "1920 x 1080"},
    "country.tsv": {"756": "Switzerland"},
    "referrer_type.tsv": {"1": "Inside Your Site", "3": "Search Engines", "6": "Typed/Bookmarked"},
    "search_engines.tsv": {"3": "Google"},
    "connection_type.tsv": {"2": "LAN/Wifi"},
    "color_depth.tsv": {"5": "24 bits (millions)"},
}


def files(seed: int = 37) -> dict[str, bytes]:
    """The files by their names."""
    rng = Random(seed)
    first, second = (_hits(rng, day) for day in range(2))
    lookups = {"column_headers.tsv": "\t".join(COLUMNS) + "\n"}
    lookups |= {name: "".join(f"{key}\t{text}\n" for key, text in table.items()) for name, table in LOOKUPS.items()}
    names = f"{_SUITE}_2023-04-21-lookup_data.tar.gz", f"01-{_SUITE}_2023-04-21.tsv.gz"
    delivered = _archive(lookups), _gzipped(second.encode("latin-1"))
    return {
        f"{_SUITE}_2023-04-20.tar.gz": _archive({"hit_data.tsv": first, **lookups}),
        **dict(zip(names, delivered, strict=True)),
        f"{_SUITE}_2023-04-21.txt": _manifest(names, delivered, second.count("\n") - second.count("\\\n")),
    }


def _hits(rng: Random, day: int) -> str:
    """The rows of a day: visits with a search, a link, a purchase that is sent twice, and hits that do not count."""
    made: list[dict[str, str]] = []
    for number in range(4):
        at = START + day * 86_400 + number * 3_600
        # The ids of visitors and hits are unsigned, and many are beyond 2^63.
        visitor = {
            "post_visid_high": str(2**63 + number * 7_000_000_007), "post_visid_low": str(2**62 + number),
            "visit_num": str(day + 1), "visit_start_time_gmt": str(at),
            "post_cust_visid": f"u-{number}" if number % 2 and day else "", "mcvisid": f"{number:038}",
            "browser": str(497 + number % 2), "os": str(1_550_374_905 + number % 2), "language": "45", "country": "756",
            "geo_country": "che", "geo_city": "zürich", "s_resolution": "1920x1080",
            "accept_language": "de-CH,de;q=0.9",
            "ip": "203.0.113.9", "user_agent": "Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0",
            "mobile_id": "0", "hit_source": "1", "exclude_hit": "0", "duplicate_purchase": "0", "post_currency": "CHF",
        }  # fmt: skip
        page = {"post_page_event": "0", "post_page_url": f"https://lamps.example/lampen/{number}?utm_source=mail"}
        hits = [
            {**page, "post_pagename": "Zürich: Lampen", "post_event_list": "2,100",
             "post_evar1": "Suche\\\tTab\\\nZeile\\\\", "post_product_list": f"home;Lampe {number}", "ref_type": "3",
             "post_referrer": "https://search.example/?q=lampe"},
            {"post_page_event": "100", "post_page_event_var2": "Lamp Switched", "post_event_list": "200=4.50",
             "prop1": "größe XL"},
            {"post_page_event": "101", "post_page_event_var1": "https://lamps.example/a.pdf"},
        ]  # fmt: skip
        if number > 1:
            bought = {**page, "post_pagename": "Danke", "post_event_list": "1", "post_purchaseid": f"o-{day}-{number}",
                      "post_product_list": f"home;Lampe {number};2;39.80,;Birne^, klein;1;4.95"}  # fmt: skip
            hits += [bought, {**bought, "duplicate_purchase": "1"}]
        hits += [{**page, "exclude_hit": "1"}, {**page, "hit_source": "5"}]
        for step, hit in enumerate(hits):
            time = at + step * 40
            made.append({
                **visitor, **hit, "hit_time_gmt": str(time), "date_time": "2023-04-20 16:13:20",
                "hitid_high": str(rng.getrandbits(64)), "hitid_low": str(rng.getrandbits(64)),
            })  # fmt: skip
    # A hit is delivered twice.
    made.append(made[0])
    return "".join("\t".join(hit.get(name, "") for name in COLUMNS) + "\n" for hit in made)


def _manifest(names: tuple[str, str], contents: tuple[bytes, bytes], records: int) -> bytes:
    digests = [hashlib.md5(content, usedforsecurity=False).hexdigest() for content in contents]
    return (
        f"Datafeed-Manifest-Version: 1.0\nLookup-Files: 1\nData-Files: 1\nTotal-Records: {records}\n\n"
        f"Lookup-File: {names[0]}\nMD5-Digest: {digests[0]}\nFile-Size: {len(contents[0])}\n\n"
        f"Data-File: {names[1]}\nMD5-Digest: {digests[1]}\nFile-Size: {len(contents[1])}\nRecord-Count: {records}\n"
    ).encode()


def _gzipped(content: bytes) -> bytes:
    """Gzip without compression, so that the digests in the manifest do not depend on the version of a library."""
    out = io.BytesIO()
    with gzip.GzipFile("", "wb", compresslevel=0, fileobj=out, mtime=0) as file:
        file.write(content)
    return out.getvalue()


def _archive(members: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, text in members.items():
            content = text.encode("latin-1")
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return _gzipped(out.getvalue())
