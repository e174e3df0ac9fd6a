"""Universal Analytics 360: tables `ga_sessions_YYYYMMDD` of BigQuery, one session a row, as an extract to JSON lines.

Integers are texts, nulls are left out (docs/know/exports.md#universal-analytics).
"""

from __future__ import annotations

from random import Random
from typing import Any

from sample_data.generator.spelling import row

START = 1_501_591_568
"""2017-08-01T12:46:08Z, in the view's zone 05:46."""


def _session(rng: Random, number: int) -> dict[str, Any]:
    start = START + number * 1_733
    page = {"hostname": "shop.example", "pageTitle": "Lamps", "pagePathLevel1": "/lamps"}
    clock = {"hour": str(start // 3_600 % 24 - 7), "minute": str(start // 60 % 60)}
    hits: list[dict[str, Any]] = [
        {"type": "PAGE", "time": "0", "isEntrance": True, "isInteraction": True, "referer": "https://search.example/",
         "page": {**page, "pagePath": f"/lamps?page={number}"}, "customDimensions": [{"index": "1", "value": "lamps"}]},
        {"type": "EVENT", "time": "4200", "isInteraction": True, "page": {**page, "pagePath": "/lamps"},
         "eventInfo": {"eventCategory": "Cart", "eventAction": "Add to cart", "eventLabel": f"Lamp {number}",
                       "eventValue": str(number)}},
    ]  # fmt: skip
    if number % 3 == 0:
        order = {"transactionId": f"t-{number}", "transactionRevenue": str((20 + number) * 1_100_000),
                 "transactionTax": "0", "currencyCode": "EUR"}  # fmt: skip
        hits.append({"type": "TRANSACTION", "time": "61000", "transaction": order})
        item = {
            "transactionId": f"t-{number}",
            "productName": "Lamp",
            "productSku": f"sku-{number}",
            "itemQuantity": "1",
        }
        hits.append({"type": "ITEM", "time": "61010", "item": {**item, "itemRevenue": order["transactionRevenue"]}})
    if number % 3 == 1:
        order = {"transactionId": f"t-{number}", "transactionRevenue": "49100000", "currencyCode": "EUR"}
        hits.append(
            {"type": "PAGE", "time": "70000", "isExit": True, "page": {**page, "pagePath": "/thanks"},
             "transaction": order,
             "eCommerceAction": {"action_type": "6", "step": "1"},
             "product": [{"productSKU": "sku-1", "v2ProductName": "Lamp", "productPrice": "24550000",
                          "productQuantity": "2"}]}
        )  # fmt: skip
    return {
        "visitNumber": str(1 + number % 2),
        "visitId": str(start),
        "visitStartTime": str(start),
        "date": "20170801",
        "fullVisitorId": f"0{rng.randrange(10**17, 10**18)}",
        "clientId": f"{rng.randrange(10**6, 10**9)}.{start - 60}",
        **({"userId": f"u-{number}"} if number % 4 == 0 else {}),
        "channelGrouping": "Email",
        "totals": {"visits": "1", "hits": str(len(hits)), "pageviews": "1"},
        "trafficSource": {"source": "newsletter", "medium": "email", "campaign": "lamps",
                          "keyword": "(not provided)",
                          "adwordsClickInfo": {"criteriaParameters": "not available in demo dataset"}},
        "device": {"browser": "Chrome", "browserVersion": "not available in demo dataset",
                   "operatingSystem": "Macintosh",
                   "deviceCategory": "desktop", "isMobile": False, "language": "not available in demo dataset"},
        "geoNetwork": {"continent": "Europe", "subContinent": "Eastern Europe", "country": "Romania",
                       "region": "Bucharest", "city": "Bucharest", "networkDomain": "(not set)"},
        "customDimensions": [{"index": "4", "value": "EMEA"}],
        "hits": [{"hitNumber": str(at), **clock, **hit} for at, hit in enumerate(hits, 1)],
    }  # fmt: skip


def sessions(seed: int = 20170801) -> list[str]:
    """The rows, each as JSON text. The last two are one session, which midnight split."""
    rng = Random(seed)
    made = [_session(rng, number) for number in range(12)]
    before = {**made[-1], "hits": made[-1]["hits"][:1]}
    after = {**made[-1], "visitStartTime": str(START - START % 86_400 + 7 * 3_600 + 86_400), "date": "20170802",
             "hits": made[-1]["hits"][:1]}  # fmt: skip
    return [row(one) for one in [*made[:-1], before, after]]
