"""GA4's tables `events_YYYYMMDD` of BigQuery: rows as the warehouse has them, and how each way out writes them.

An extract to JSON lines has integers as texts and no nulls; the console's download has nulls, and numbers with a
fraction as texts too; client libraries give numbers; Parquet and Avro have types (docs/know/exports.md#ga4-forms).
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pyarrow as pa

Row = dict[str, Any]

DAY = 1_700_006_400_000_000
"""2023-11-15T00:00:00Z, in microseconds."""
MINUTE = 60_000_000

_VALUE = {
    "string_value": pa.string(),
    "int_value": pa.int64(),
    "float_value": pa.float64(),
    "double_value": pa.float64(),
}


def _list(**members: pa.DataType) -> pa.DataType:
    return pa.list_(pa.struct(list(members.items())))


def _struct(**members: pa.DataType) -> pa.DataType:
    return pa.struct(list(members.items()))


def _texts(*names: str) -> dict[str, pa.DataType]:
    return dict.fromkeys(names, pa.string())


SCHEMA = pa.schema(
    {
        "event_date": pa.string(),
        "event_timestamp": pa.int64(),
        "event_name": pa.string(),
        "event_params": _list(key=pa.string(), value=_struct(**_VALUE)),
        "event_previous_timestamp": pa.int64(),
        "event_value_in_usd": pa.float64(),
        "event_bundle_sequence_id": pa.int64(),
        "event_server_timestamp_offset": pa.int64(),
        "user_id": pa.string(),
        "user_pseudo_id": pa.string(),
        "privacy_info": _struct(**_texts("analytics_storage", "ads_storage", "uses_transient_token")),
        "user_properties": _list(key=pa.string(), value=_struct(**_VALUE, set_timestamp_micros=pa.int64())),
        "user_first_touch_timestamp": pa.int64(),
        "user_ltv": _struct(revenue=pa.float64(), currency=pa.string()),
        "device": _struct(
            **_texts("category", "mobile_brand_name", "mobile_model_name", "mobile_marketing_name",
                     "mobile_os_hardware_model", "operating_system", "operating_system_version", "vendor_id",
                     "advertising_id", "language", "is_limited_ad_tracking"),
            time_zone_offset_seconds=pa.int64(),
            **_texts("browser", "browser_version"),
            web_info=_struct(**_texts("browser", "browser_version", "hostname")),
        ),
        "geo": _struct(**_texts("city", "country", "continent", "region", "sub_continent", "metro")),
        "app_info": _struct(**_texts("id", "version", "install_store", "firebase_app_id", "install_source")),
        "traffic_source": _struct(**_texts("name", "medium", "source")),
        "stream_id": pa.string(),
        "platform": pa.string(),
        "event_dimensions": _struct(hostname=pa.string()),
        "ecommerce": _struct(
            total_item_quantity=pa.int64(), purchase_revenue_in_usd=pa.float64(), purchase_revenue=pa.float64(),
            shipping_value=pa.float64(), tax_value=pa.float64(), unique_items=pa.int64(), transaction_id=pa.string(),
        ),
        "items": _list(
            **_texts("item_id", "item_name", "item_brand", "item_variant", "item_category"),
            price_in_usd=pa.float64(), price=pa.float64(), quantity=pa.int64(), coupon=pa.string(),
        ),
        "collected_traffic_source": _struct(
            **_texts("manual_campaign_id", "manual_campaign_name", "manual_source", "manual_medium", "manual_term",
                     "manual_content", "gclid", "dclid", "srsltid"),
        ),
        "is_active_user": pa.bool_(),
        "batch_event_index": pa.int64(),
        "batch_page_id": pa.int64(),
        "batch_ordering_id": pa.int64(),
    }
)  # fmt: skip

BROWSER = {
    "category": "desktop",
    "mobile_brand_name": "(not set)",
    "operating_system": "Macintosh",
    "operating_system_version": "Macintosh Intel 10.15",
    "language": "de-de",
    "is_limited_ad_tracking": "No",
    "web_info": {"browser": "Chrome", "browser_version": "119.0.0.0", "hostname": "shop.example"},
}
PHONE = {
    "category": "mobile",
    "mobile_brand_name": "Samsung",
    "mobile_model_name": "SM-G991B",
    "mobile_marketing_name": "Galaxy S21 5G",
    "mobile_os_hardware_model": "SM-G991B",
    "operating_system": "ANDROID",
    "operating_system_version": "Android 13",
    "language": "tr-tr",
    "is_limited_ad_tracking": "No",
    "time_zone_offset_seconds": 10800,
}
BERLIN = {"city": "Berlin", "country": "Germany", "continent": "Europe", "region": "Berlin",
          "sub_continent": "Western Europe", "metro": "(not set)"}  # fmt: skip
IZMIR = {"city": "Izmir", "country": "Türkiye", "continent": "Asia", "region": "Izmir",
         "sub_continent": "Western Asia", "metro": "(not set)"}  # fmt: skip


def _param(key: str, value: Any) -> Row:
    kind = "string_value" if isinstance(value, str) else "int_value" if isinstance(value, int) else "double_value"
    return {"key": key, "value": {kind: value}}


class _Table:
    """Collects rows in the order of their times."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.rows: list[Row] = []
        self.bundle = 0

    def add(self, name: str, at: int, params: Row, **own: Any) -> None:
        row: Row = {
            "event_date": "20231115",
            "event_timestamp": at,
            "event_name": name,
            "event_params": [_param(key, value) for key, value in params.items()],
            "event_bundle_sequence_id": self.bundle,
            "event_server_timestamp_offset": -self.rng.randrange(1_000_000),
            "user_properties": [],
            "items": [],
            "is_active_user": True,
            **own,
        }
        self.rows.append(row)


def _visit(table: _Table, number: int, at: int) -> None:
    """A visit on the web: a page, three equal scrolls in one batch, a login, a purchase on every other one."""
    rng = table.rng
    pseudo_id = f"{rng.randrange(10**6, 10**9)}.{at // 1_000_000}"
    session, page = at // 1_000_000, at // 1_000 + 37
    address = f"https://shop.example/lamps/{number}?utm_source=mail&utm_medium=email"
    common = {
        "user_pseudo_id": pseudo_id,
        "device": BROWSER,
        "geo": BERLIN,
        "stream_id": "4567890123",
        "platform": "WEB",
        "privacy_info": {"analytics_storage": "Yes", "ads_storage": "Yes", "uses_transient_token": "No"},
        "traffic_source": {"name": "(organic)", "medium": "organic", "source": "google"},
        "collected_traffic_source": {
            "manual_source": "mail",
            "manual_medium": "email",
            "manual_campaign_name": "lamps",
        },
        "user_first_touch_timestamp": at,
        "event_dimensions": {"hostname": "shop.example"},
    }
    params = {
        "page_location": address,
        "page_title": f"Lamp {number}",
        "ga_session_id": session,
        "ga_session_number": 1,
    }
    table.bundle += 1
    # The events of one batch have one time.
    for index, name in enumerate(("first_visit", "session_start", "page_view"), 1):
        own = {"page_referrer": "https://search.example/"} if name == "page_view" else {"session_engaged": 1}
        table.add(
            name, at, {**params, **own}, **common, batch_page_id=page, batch_ordering_id=1, batch_event_index=index
        )
    table.bundle += 1
    for index in (1, 2, 3):
        table.add("scroll", at + MINUTE, {**params, "percent_scrolled": 90, "session_engaged": "1"}, **common,
                  batch_page_id=page, batch_ordering_id=2, batch_event_index=index)  # fmt: skip
    if number % 2:
        return
    plan = "pro" if number % 4 else "free"
    known = {**common, "user_id": f"u-{number}", "user_properties": [
        {"key": "plan", "value": {"string_value": plan, "set_timestamp_micros": at + MINUTE}},
        {"key": "seats", "value": {"int_value": number + 1, "set_timestamp_micros": at + MINUTE}},
    ]}  # fmt: skip
    table.bundle += 1
    table.add("login", at + 2 * MINUTE, {**params, "method": "password"}, **known,
              batch_page_id=page, batch_ordering_id=3, batch_event_index=1)  # fmt: skip
    price, quantity, order = 24.5 + number, 1 + number % 3, f"t-{number}"
    paid = price * quantity
    table.add(
        "purchase", at + 3 * MINUTE,
        {**params, "currency": "EUR", "value": paid, "transaction_id": order, "score": 0.1},
        **known, event_value_in_usd=paid * 1.125, user_ltv={"revenue": paid, "currency": "USD"},
        ecommerce={"total_item_quantity": quantity, "purchase_revenue": paid, "tax_value": 0.0,
                   "purchase_revenue_in_usd": paid * 1.125, "unique_items": 1, "transaction_id": order},
        items=[{"item_id": f"sku-{number}", "item_name": "Lamp, große", "item_brand": "(not set)", "price": price,
                "quantity": quantity}],
        batch_page_id=page, batch_ordering_id=4, batch_event_index=1,
    )  # fmt: skip


def _app(table: _Table, number: int, at: int) -> None:
    """An installation of the app and its screens; apps send no batch fields."""
    rng = table.rng
    session, hour = at // 1_000_000, at // 3_600_000_000
    common = {
        "user_pseudo_id": f"{rng.getrandbits(128):032x}",
        "device": PHONE,
        "geo": IZMIR,
        "app_info": {"id": "com.example.shop", "version": "2.3.0", "firebase_app_id": "1:22:android:33",
                     "install_source": "com.android.vending"},
        "stream_id": "4567890999",
        "platform": "ANDROID",
        "traffic_source": {"name": "(direct)", "medium": "(none)", "source": "(direct)"},
        "user_properties": [
            {"key": "first_open_time", "value": {"int_value": hour * 3_600_000, "set_timestamp_micros": at}},
            {"key": "ga_session_id", "value": {"int_value": session, "set_timestamp_micros": at}},
        ],
    }  # fmt: skip
    table.bundle += 1
    table.add("first_open", at, {"ga_session_id": session, "engaged_session_event": 1}, **common)
    for screen, name in enumerate(("Home", "Cart"), 1):
        params = {"firebase_screen": name, "firebase_screen_class": f"{name}Activity", "ga_session_id": session}
        table.add("screen_view", at + screen * MINUTE, params, **common)
    table.add("app_update", at + 5 * MINUTE, {"previous_app_version": "2.2.9", "ga_session_id": session}, **common)


def _nobody(table: _Table, at: int) -> None:
    """A page view without consent: no id of any kind."""
    table.bundle += 1
    table.add(
        "page_view", at, {"page_location": "https://shop.example/", "page_title": "Shop"},
        device=BROWSER, geo={"country": "Germany", "continent": "Europe"}, stream_id="4567890123", platform="WEB",
        privacy_info={"analytics_storage": "No", "ads_storage": "No", "uses_transient_token": "Yes"},
        batch_page_id=at // 1_000, batch_ordering_id=1, batch_event_index=1,
    )  # fmt: skip


def rows(seed: int = 20231115) -> list[Row]:
    """The rows of the table, with numbers as numbers; a member that is null is left out."""
    table = _Table(seed)
    for number in range(8):
        _visit(table, number, DAY + number * 47 * MINUTE + 123_456)
    for number in range(3):
        _app(table, number, DAY + number * 31 * MINUTE + 777)
    for number in range(3):
        _nobody(table, DAY + number * 11 * MINUTE)
    return table.rows


def users(table: list[Row], day: str = "20231115") -> dict[str, list[Row]]:
    """The rows of the tables `pseudonymous_users_` and `users_` of the day: one for each id of the events that has
    consented."""
    found: dict[str, list[Row]] = {"pseudonymous_users": [], "users": []}
    for name, column, key in (
        ("pseudonymous_users", "user_pseudo_id", "pseudo_user_id"),
        ("users", "user_id", "user_id"),
    ):
        for number, one in enumerate(dict.fromkeys(row[column] for row in table if column in row)):
            own = [row for row in table if row.get(column) == one]
            first, last = own[0], own[-1]
            named = {"stream_id": int(last["stream_id"])} if key == "pseudo_user_id" else {}
            places, device = last["geo"], last["device"]
            paid = [row["ecommerce"]["purchase_revenue_in_usd"] for row in own if "ecommerce" in row]
            found[name].append({
                key: one,
                **named,
                "user_info": {
                    "last_active_timestamp_micros": last["event_timestamp"],
                    "user_first_touch_timestamp_micros": first.get("user_first_touch_timestamp", 0),
                    **({"first_purchase_date": day} if paid else {}),
                },
                "device": {name: device[name] for name in ("operating_system", "category") if name in device},
                "geo": {name: places[name] for name in ("city", "country", "continent", "region") if name in places},
                "audiences": [{
                    "id": 5_000_000 + number, "name": "Buyers", "npa": False,
                    "membership_start_timestamp_micros": last["event_timestamp"],
                    "membership_expiry_timestamp_micros": last["event_timestamp"] + 30 * 24 * 60 * MINUTE,
                }] if paid else [],
                "user_properties": [
                    {"key": f"slot_{slot:02d}", "value": {
                        "string_value": str(next(iter(held["value"].values()))),
                        "set_timestamp_micros": held["value"]["set_timestamp_micros"],
                        "user_property_name": held["key"],
                    }}
                    for slot, held in enumerate(last["user_properties"], 1)
                    if not held["key"].startswith(("ga_", "first_open"))
                ],
                "user_ltv": {"revenue_in_usd": sum(paid, 0.0), "sessions": 1, "purchases": len(paid),
                             "engagement_time_millis": 1_000 * len(own)},
                "predictions": {},
                "privacy_info": {"is_limited_ad_tracking": "No"},
                "occurrence_date": day,
                "last_updated_date": str(int(day) + 1),
            })  # fmt: skip
    return found


def extract_lines(table: list[Row]) -> list[str]:
    """As `bq extract` writes them: integers are texts, nulls are left out, an empty record is `{}`."""
    return [_line(_filled(row, empty=True), ("int",)) for row in table]


def user_lines(table: list[Row]) -> list[str]:
    """Rows of users as `bq extract` writes them."""
    return [_line(row, ("int",)) for row in table]


def console_lines(table: list[Row]) -> list[str]:
    """As the console's download: nulls are written, every number is a text."""
    return [_line(_with_nulls(row), ("int", "float")) for row in table]


def client_lines(table: list[Row]) -> list[str]:
    """As client libraries give them: nulls are written, numbers are numbers."""
    return [_line(_with_nulls(row), ()) for row in table]


def filled(table: list[Row]) -> list[Row]:
    """The rows with every column and member, null where they have none: as in a file with types."""
    return [_with_nulls(row) for row in table]


def typed(table: list[Row]) -> pa.Table:
    """As the table of a Parquet extract."""
    return pa.Table.from_pylist(filled(table), schema=SCHEMA)


def _line(row: Row, as_text: tuple[str, ...]) -> str:
    return json.dumps(_spelled(row, as_text), ensure_ascii=False, separators=(",", ":"))


def _spelled(value: Any, as_text: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {name: _spelled(member, as_text) for name, member in value.items()}
    if isinstance(value, list):
        return [_spelled(item, as_text) for item in value]
    return repr(value) if type(value).__name__ in as_text else value


def _filled(row: Row, empty: bool) -> Row:
    """The row with an empty record where it has none."""
    records = ("privacy_info", "collected_traffic_source", "ecommerce")
    return {**row, **{name: {} for name in records if name not in row}} if empty else row


def _with_nulls(row: Row) -> Row:
    filled: Row = _null_filled(row, pa.struct(list(SCHEMA)))
    return filled


def _null_filled(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _null_filled(value.get(field.name), field.type) for field in kind}
    if pa.types.is_list(kind):
        return [_null_filled(item, kind.value_type) for item in value]
    return value
