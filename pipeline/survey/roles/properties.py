"""Which columns have the properties of an event, and what the service calls them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pipeline import values
from pipeline.survey.columns import INTEGER, IP, LIST, OBJECTS, Column, Steps, named

_OBJECT = (
    "properties", "event_properties", "props", "event_props", "params", "event_params", "custom_attributes",
    "event_attributes", "attributes", "data_fields", "metadata", "event_data",
    "data", "payload", "segmentation", "sg", "body",
)  # fmt: skip
_AMOUNT = re.compile(
    r"(?:^|_)(?:amount|price|total|subtotal|revenue|cost|fee|tax|charge|paid|sum|value|balance|betrag|preis|gmv|cents?"
    r"|micros|pence)(?:_|$)|_(?:cents?|micros)$"
)
_SMALL_UNITS = (
    (re.compile(r"micro|_e6$"), 1_000_000),
    (re.compile(r"cents?(?:_|$)|pence|minor|_ct$"), 100),
)
_URL = re.compile(r"https?://", re.IGNORECASE)
_AGENT = re.compile(r"(?:Mozilla|Opera|Dalvik|okhttp)/|\S+/\d\S* CFNetwork/")
_COUNTRY, _COUNTRY_NAME = re.compile(r"[A-Z]{2}$", re.ASCII), re.compile(r"(?!.{1,3}$)[^\d]+$")
_RENAMES: tuple[tuple[str, str, re.Pattern[str] | None], ...] = (
    (r"^(?:page_?|current_?|document_|full_)?ur[li]$|^page_location$|^href$", "$current_url", _URL),
    (r"^(?:page_|http_)?referr?er(?:_url)?$|^page_referr?er$", "$referrer", _URL),
    (r"user_?agent$|^ua$|^agent$", "$raw_user_agent", _AGENT),
    (r"(?:^|_)ip(?:_?addr(?:ess)?)?$|ipaddress$", "$ip", IP),
    (r"^(?:geo_)?country(?:_?code)?$|^country_iso$|^land$", "$geoip_country_code", _COUNTRY),
    (r"^(?:geo_)?country(?:_name)?$", "$geoip_country_name", _COUNTRY_NAME),
    (r"^(?:geo_)?city(?:_name)?$", "$geoip_city_name", None),
    (r"^browser(?:_name)?$", "$browser", None),
    (r"^os(?:_name)?$|^operating_system(?:_name)?$", "$os", None),
    (r"^device_type$|^device_category$", "$device_type", None),
)
"""Names, what the service calls them, and how their values begin."""


def properties_in(columns: Iterable[Column]) -> Column | None:
    """The column with the object, or the list of keys and values, that holds an event's own properties."""

    def fits(one: Column) -> bool:
        return len(one.steps) == 1 and (one.share(*OBJECTS) >= 0.9 or entry_keys(one) is not None)

    return next((column for column in named(list(columns), _OBJECT) if fits(column)), None)


def entry_keys(column: Column) -> tuple[str, tuple[str, ...]] | None:
    """For lists of objects with a name and values: the member with the name, and the paths of values."""
    names: dict[str, None] = {}
    paths: dict[str, None] = {}
    if column.share(*LIST) < 0.9:
        return None
    for value in column.values[:100]:
        for item in values.items(value) or []:
            try:
                members = values.opened(item) or {}
            except values.BadValue:
                return None
            key = next((name for name in ("key", "name", "k") if name in members), None)
            if key is None:
                return None
            names[key] = None
            for name, inner in members.items():
                if name == key or not (name == "v" or "value" in name):
                    continue
                try:
                    nested = values.opened(inner) or {}
                except values.BadValue:
                    paths[name] = None
                    continue
                paths.update(dict.fromkeys(f"{name}/{member}" for member in nested if "value" in member))
    return (next(iter(names)), tuple(paths)) if len(names) == 1 and paths else None


def small_unit(column: Column) -> int | None:
    """For whole numbers that may be amounts in a small unit of money: how many make one unit, 100 or 1,000,000."""
    if not column.values or not _AMOUNT.search(column.name) or column.share(*INTEGER) < 0.95:
        return None
    named = next((factor for pattern, factor in _SMALL_UNITS if pattern.search(column.name)), None)
    numbers = [abs(int(text)) for text in column.texts if re.fullmatch(r"[+-]?\d{1,18}", text, re.ASCII)]
    large = bool(numbers) and sorted(numbers)[len(numbers) // 2] >= 100
    return named or (100 if large else None)


def renames_in(columns: Iterable[Column]) -> dict[Steps, str]:
    """The service's names for columns: a URL, a referrer, a user agent, an address, a country. A name counts only if
    its values fit; of two columns, the first gets the name."""
    found = [column for column in columns if column.values]
    taken = {column.steps[-1] for column in found}
    renames: dict[Steps, str] = {}
    for name, new, pattern in _RENAMES:
        for column in found:
            if (
                column.steps not in renames
                and new not in taken
                and re.search(name, column.name)
                and (
                    column.share("text") >= 0.9
                    if pattern is None
                    else column.matching(pattern) >= (0.95 if pattern is _COUNTRY else 0.8)
                )
            ):
                renames[column.steps] = new
                taken.add(new)
    return renames
