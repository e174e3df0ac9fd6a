"""The verbs for parts of URLs."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote_plus, urlsplit

from pipeline.mapper.language.kinds import TEXT, VALUE, Call, Field, value
from pipeline.mapper.program.builder import Builder
from pipeline.mapper.program.expressions import Apply, Constant, Value
from pipeline.mapper.program.functions import computed, function

PARTS = ("host", "path", "query", "scheme")
PARAMETER = "query:"
DIRECT = "$direct"


@value(
    "url",
    "a part of a URL; missing if the URL has none",
    url=Field(
        TEXT,
        "which part: host, path, query or scheme, or query:NAME for one parameter of the query, decoded; a text that is"
        " only a query has parameters too",
        True,
    ),
    of=Field(VALUE, "the URL", True),
)
def url(build: Builder, call: Call) -> Value:
    part, of = call.arguments["url"], build.text(call.arguments["of"])
    if part in PARTS:
        return Apply("url_part", (of, Constant(part)))
    if not part.startswith(PARAMETER) or part == PARAMETER:
        raise call.place.error(f"a URL has no part {part!r}", f"use {', '.join(PARTS)} or query:NAME")
    return Apply("query_parameter", (of, Constant(part.removeprefix(PARAMETER))))


_HOST = re.compile(
    r"(?:(?:[\w-]+\.)+(?P<end>[^\W\d_]{2,}|xn--[\w-]+)|(?:\d{1,3}\.){3}\d{1,3}|localhost)(?::\d+)?(?=(/)|[?#]|$)"
)
"""The host at the beginning of a URL without a scheme."""
_FILES = frozenset(
    ("asp", "aspx", "cfm", "cgi", "htm", "html", "js", "jsp", "json", "pdf", "php", "txt", "xhtml", "xml")
)
"""File name endings, which begin a relative URL."""


def _starts_with_host(url: str) -> bool:
    found = _HOST.match(url)
    return found is not None and (found[2] is not None or (found["end"] or "").lower() not in _FILES)


@function(needs=1)
def url_part(url: str, part: str) -> str | None:
    """The host, path, query or scheme of a URL, with or without its scheme; None if it has none or is not a URL."""
    try:
        split = urlsplit(f"//{url}" if _starts_with_host(url) else url)
    except ValueError:
        return None
    parts = {"host": split.netloc, "path": split.path, "query": split.query, "scheme": split.scheme}
    return parts[part] or None


@function(needs=1)
def query_parameter(url: str, name: str) -> str | None:
    """The first parameter with this name in the query of a URL, or in a query by itself; None if it is missing or
    blank.

    Anything other than percent-encoded UTF-8 stays as it is written, as in the service's own library.
    """
    text = (_parameters if len(url) <= LONGEST_KEPT else _read_parameters)(url).get(name)
    return _decoded(text) or None if text is not None else None


def _read_parameters(url: str) -> dict[str, str]:
    """The first value of each parameter, decoded, by its name as written and as decoded."""
    url = url.partition("#")[0]
    before = url.partition("=")[0]
    query = url.partition("?")[2] if "?" in before or "/" in before else url
    found: dict[str, str] = {}
    for pair in query.split("&"):
        key, _, text = pair.partition("=")
        found.setdefault(key, text)
        if "%" in key or "+" in key:
            found.setdefault(_decoded(key), text)
    return found


_parameters = lru_cache(64)(_read_parameters)
"""A mapping reads many parameters of one URL."""
LONGEST_KEPT = 4_000


def _decoded(text: str) -> str:
    try:
        return unquote_plus(text, errors="strict")
    except UnicodeDecodeError:
        return text


@computed(
    "referring_domain",
    "the host of the URL of a referrer, in lower case; $direct for an empty or direct one",
    "text",
    referring_domain=Field(VALUE, "the referrer; missing stays missing", True),
)
def domain_of(referrer: str) -> str | None:
    """The host of a referrer with or without a scheme, in lower case, without user information; `$direct` if it has
    none."""
    text = referrer.strip().lower()
    if text in ("", DIRECT, "direct", "(direct)"):
        return DIRECT
    try:
        host = urlsplit(text if "//" in text else f"//{text}").netloc.rpartition("@")[2]
    except ValueError:
        return None
    # Without a scheme, only a name with a dot is a host: `google` is the name of a source.
    return host if host and ("//" in text or "." in host) and " " not in host else None
