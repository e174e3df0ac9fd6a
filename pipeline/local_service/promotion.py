"""Event properties that the service copies to the person by itself (service-behaviour 1.10).

Each goes to `$set` under its own name and to `$set_once` as `$initial_…`, unless the event says otherwise there.
"""

from __future__ import annotations

from msgspec import Raw

PROMOTED = frozenset(
    {
        "$app_build", "$app_name", "$app_namespace", "$app_version", "$browser", "$browser_version", "$device_type",
        "$current_url", "$pathname", "$os", "$os_name", "$os_version", "$referring_domain", "$referrer",
        "$screen_height", "$screen_width", "$viewport_height", "$viewport_width", "$raw_user_agent", "utm_source",
        "utm_medium", "utm_campaign", "utm_content", "utm_name", "utm_term", "gclid", "gad_source", "gclsrc", "dclid",
        "gbraid", "wbraid", "fbclid", "msclkid", "twclid", "li_fat_id", "mc_cid", "igshid", "ttclid", "rdt_cid",
        "irclid", "_kx", "epik", "qclid", "sccid",
    }
)  # fmt: skip
MINOR = frozenset(
    {
        "$browser", "$browser_version", "$device_type", "$current_url", "$pathname", "$os", "$os_name", "$os_version",
        "$referring_domain", "$referrer", "$screen_height", "$screen_width", "$viewport_height", "$viewport_width",
        "$raw_user_agent", "$geoip_postal_code", "$geoip_time_zone", "$geoip_latitude", "$geoip_longitude",
        "$geoip_accuracy_radius", "$geoip_subdivision_1_code", "$geoip_subdivision_1_name", "$geoip_subdivision_2_code",
        "$geoip_subdivision_2_name", "$geoip_subdivision_3_code", "$geoip_subdivision_3_name", "$geoip_city_confidence",
        "$geoip_country_confidence", "$geoip_postal_code_confidence", "$geoip_subdivision_1_confidence",
        "$geoip_subdivision_2_confidence",
    }
)  # fmt: skip
"""Properties whose new values alone may not be worth a write (the switch `promoted_changes`)."""

_INITIAL = {name: "$initial_" + name.removeprefix("$") for name in PROMOTED}
_NEVER = frozenset({"$snapshot", "$performance_event"})


def promote(event: str, properties: dict[str, Raw], set_: dict[str, Raw], once: dict[str, Raw]) -> None:
    """Add what the service would to `set_` and `once`. `$os_name` counts as a second name of `$os`."""
    found = PROMOTED & properties.keys()
    if not found or event in _NEVER:
        return
    for name in sorted(found):
        set_.setdefault(name, properties[name].copy())
        once.setdefault(_INITIAL[name], properties[name].copy())
    if "$os_name" in found:
        alias = properties["$os_name"].copy()
        set_.setdefault("$os", alias)
        once.setdefault("$initial_os", alias)
        set_.pop("$os_name")
        once.pop("$initial_os_name")
