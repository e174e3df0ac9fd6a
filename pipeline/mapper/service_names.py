"""The names of events and properties that mean something to the service: a mapping need not name what has one already.

The list is that of the service's taxonomy and of its SDKs (docs/know/exports.md#session-ids).
"""

from __future__ import annotations

EVENTS = frozenset(
    (
        "$autocapture", "$dead_click", "$exception", "$feature_flag_called", "$pageleave", "$pageview", "$rageclick",
        "$screen", "$web_vitals", "Application Backgrounded", "Application Became Active", "Application Installed",
        "Application Opened", "Application Updated", "Deep Link Opened", "survey dismissed", "survey sent",
        "survey shown",
    )
)  # fmt: skip
_PROPERTIES = frozenset(
    (
        "$active_feature_flags", "$app_build", "$app_name", "$app_namespace", "$app_version", "$browser",
        "$browser_language", "$browser_version", "$current_url", "$device", "$device_id", "$device_manufacturer",
        "$device_model", "$device_name", "$device_type", "$el_text", "$event_type", "$feature_flag",
        "$feature_flag_response", "$groups", "$host", "$ip", "$lib", "$lib_version", "$locale", "$network_carrier",
        "$network_cellular", "$network_wifi", "$os", "$os_version", "$pathname", "$raw_user_agent", "$referrer",
        "$referring_domain", "$screen_density", "$screen_height", "$screen_name", "$screen_width", "$search_engine",
        "$session_id", "$timezone", "$timezone_offset", "$user_agent", "$viewport_height", "$viewport_width",
        "$window_id", "currency", "revenue", "title",
        "_kx", "dclid", "epik", "fbclid", "gad_source", "gbraid", "gclid", "gclsrc", "igshid", "irclid", "li_fat_id",
        "mc_cid", "msclkid", "qclid", "rdt_cid", "sccid", "ttclid", "twclid", "utm_campaign", "utm_content",
        "utm_medium", "utm_source", "utm_term", "wbraid",
    )
)  # fmt: skip
_PREFIXES = ("$feature/", "$geoip_", "$initial_", "$survey_", "$web_vitals_")


def is_property(name: str) -> bool:
    """Whether the service gives a property of this name a meaning."""
    return name in _PROPERTIES or name.startswith(_PREFIXES)
