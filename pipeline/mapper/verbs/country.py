"""The verb that gives the ISO 3166-1 code for a country's English name.

Many tools write the names of Unicode's CLDR, which Babel has. The names of ISO itself, of geographic databases and of
earlier times are below. Babel is loaded when a row first needs it.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache

from pipeline.mapper.language.kinds import VALUE, Field
from pipeline.mapper.program.functions import computed

NO_COUNTRIES = frozenset(["AC", "CP", "CQ", "DG", "EA", "EU", "EZ", "IC", "QO", "TA", "UN", "XA", "XB", "ZZ"])
"""CLDR codes that ISO has not assigned to a country. XK, Kosovo, is not listed because it is used like a country's."""

OTHER_NAMES = {
    "AE": ("UAE",),
    "AX": ("Åland",),
    "BN": ("Brunei Darussalam",),
    "BO": ("Bolivia, Plurinational State of",),
    "BQ": ("Bonaire, Sint Eustatius and Saba",),
    "CD": ("Congo, Democratic Republic of the", "DR Congo", "Congo (DRC)", "Zaire"),
    "CG": ("Congo", "Republic of the Congo"),
    "CI": ("Ivory Coast", "Cote d Ivoire"),
    "CN": ("People's Republic of China", "Mainland China"),
    "CV": ("Cabo Verde",),
    "CZ": ("Czech Republic",),
    "DE": ("Federal Republic of Germany", "West Germany", "East Germany"),
    "FK": ("Falkland Islands (Malvinas)",),
    "FM": ("Micronesia, Federated States of",),
    "GB": (
        "UK", "Great Britain", "Britain", "England", "Scotland", "Wales", "Northern Ireland",
        "United Kingdom of Great Britain and Northern Ireland",
    ),
    "GM": ("The Gambia",),
    "GR": ("EL",),
    "HK": ("Hong Kong", "Hong Kong SAR"),
    "HM": ("Heard Island and McDonald Islands",),
    "IE": ("Republic of Ireland",),
    "IR": ("Iran, Islamic Republic of",),
    "JO": ("Hashemite Kingdom of Jordan",),
    "KP": ("Korea, Democratic People's Republic of",),
    "KR": ("Korea, Republic of",),
    "LA": ("Lao People's Democratic Republic", "Lao PDR"),
    "LT": ("Republic of Lithuania",),
    "MD": ("Moldova, Republic of",),
    "MF": ("Saint Martin (French part)",),
    "MK": ("Macedonia", "Macedonia, the former Yugoslav Republic of", "FYROM", "Republic of North Macedonia"),
    "MM": ("Myanmar", "Burma"),
    "MO": ("Macao", "Macau", "Macao SAR", "Macau SAR China"),
    "NL": ("Holland", "The Netherlands"),
    "NR": ("Naoero",),
    "PN": ("Pitcairn",),
    "PS": ("Palestine", "Palestine, State of", "Palestinian Territory", "Palestinian Territory, Occupied"),
    "RU": ("Russian Federation",),
    "SH": ("Saint Helena, Ascension and Tristan da Cunha",),
    "SK": ("Slovak Republic",),
    "SX": ("Sint Maarten (Dutch part)",),
    "SY": ("Syrian Arab Republic",),
    "SZ": ("Swaziland",),
    "TL": ("East Timor",),
    "TR": ("Turkey",),
    "TW": ("Taiwan, Province of China", "Republic of China"),
    "TZ": ("Tanzania, United Republic of",),
    "UM": ("United States Minor Outlying Islands",),
    "US": ("United States of America", "America"),
    "VA": ("Holy See", "Vatican", "Holy See (Vatican City State)"),
    "VE": ("Venezuela, Bolivarian Republic of",),
    "VG": ("Virgin Islands, British",),
    "VI": ("Virgin Islands, U.S.", "US Virgin Islands"),
    "VN": ("Viet Nam",),
    "WS": ("Western Samoa",),
    "XK": ("XKX",),
}  # fmt: skip

LONGEST = 100
"""No name has more characters."""
_CODE = re.compile(r"[A-Z]{2}")
_SMALL_WORDS = frozenset(("the", "and", "of"))


@computed(
    "country",
    "the ISO 3166-1 alpha-2 code of a country, from its English name or its code of two or three letters, in any case;"
    " missing for any other text",
    "text",
    country=Field(VALUE, "the name or the code", True),
)
@lru_cache(maxsize=1024)
def country_code(text: str) -> str | None:
    """The code for a country's name or code; None for any other string."""
    return _codes().get(_key(text)) if len(text) <= LONGEST else None


@cache
def _codes() -> dict[str, str]:
    """The code of each name and code, by `_key`."""
    from babel.core import Locale, get_global

    named = Locale("en").territories
    codes = {code: name for code, name in named.items() if _CODE.fullmatch(code) and code not in NO_COUNTRIES}
    found = {_key(name): code for code, name in codes.items()} | {_key(code): code for code in codes}
    for old, new in get_global("territory_aliases").items():
        if len(old) == 3 and old.isalpha() and new[0] in codes and len(new) == 1:
            found[_key(old)] = new[0]
    return found | {_key(name): code for code, names in OTHER_NAMES.items() for name in names}


def _key(name: str) -> str:
    """The words of a name, sorted, without accents and small words: `Korea, Republic of` has the key of `Republic of
    Korea`."""
    plain = unicodedata.normalize("NFKD", name).casefold()
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter) and letter not in "'’‘`.")
    words = ("saint" if word == "st" else word for word in re.findall(r"\w+", plain))
    return " ".join(sorted(word for word in words if word not in _SMALL_WORDS)) or plain  # AND is Andorra's code
