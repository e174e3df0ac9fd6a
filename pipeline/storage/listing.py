"""The objects of a store, from listings read page by page: below a prefix, by a pattern, or with given names.

A store with the interface of S3 lists 1,000 objects per request, sorted by name. The pages are requested here because
the library returns a listing only as a whole, at more than a kilobyte per object. Other stores are listed by their
libraries.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from os.path import commonprefix
from typing import Any, NamedTuple

from pipeline.storage.store import FileStatus, StoreError, errors, file_system, nanoseconds, scheme_of, status_of

Found = tuple[str, FileStatus]
"""The URL of an object, and its status."""
_LAST = "\U0010fffd"
"""No name has this character, so it sorts after every name with the same beginning."""
ENOUGH = 32
"""If a page has this many of the wanted names, it is cheaper than one request for each."""


class _Page(NamedTuple):
    """Objects by key, and the token that continues the listing, "" at its end."""

    objects: list[Found]
    token: str


def below(prefix: str) -> Iterator[Found]:
    """Every object whose URL begins with `prefix`, in the order of the listing; none if the bucket does not exist.

    An empty object whose name ends in a slash is left out: a console made it to show a folder. Raises OSError, even
    after the first objects; the listing is incomplete then.
    """
    if scheme_of(prefix) != "s3":
        yield from _by_library(file_system(prefix).find, prefix)
        return
    bucket, start = _split(prefix)
    for page in _pages(bucket, start):
        yield from _urls(bucket, page)


def matching(pattern: str) -> Iterator[Found]:
    """The objects that a URL with `*`, `**`, `?` or `[` matches, and those below a prefix that it matches.

    The part before the first of these characters is the prefix of the listing; names that cannot match are skipped.
    Raises OSError, even after the first objects.
    """
    is_wanted = _Pattern(pattern.partition("://")[2]).matches
    if scheme_of(pattern) != "s3":
        prefix = _literal(pattern).rpartition("/")[0] + "/"
        yield from (found for found in _by_library(file_system(pattern).find, prefix) if is_wanted(found[0]))
        return
    bucket, wanted = _split(pattern)
    after = token = last = ""
    while True:
        page = _page(bucket, _literal(wanted), after, token)
        yield from (found for found in _urls(bucket, page) if is_wanted(found[0]))
        if not page.token:
            return
        keys = [key for key, _ in page.objects]
        if any(one <= before for before, one in zip([max(last, after), *keys], keys, strict=False)):
            if after:
                raise StoreError("its listing is not in the order of names; name a prefix without a pattern", pattern)
            # Skipping is only safe if the listing is sorted. It is not, so all of it has to be listed.
            yield from (found for found in _rest(bucket, wanted, page) if is_wanted(found[0]))
            return
        last = keys[-1] if keys else last
        target = "" if bucket.endswith("--x-s3") else _next(last, wanted)  # directory buckets have no order
        after, token = (target, "") if target > last else (after, page.token)


def _rest(bucket: str, wanted: str, page: _Page) -> Iterator[Found]:
    for following in _pages(bucket, _literal(wanted), page):
        yield from _urls(bucket, following)


def statuses_in_listings(names: Sequence[str]) -> dict[str, FileStatus]:
    """The statuses of the URLs, which are sorted, that listings find with fewer requests than one per URL.

    Ask for each name that is missing from the result.
    """
    found: dict[str, FileStatus] = {}
    bucket, prefix = _split(commonprefix(names))  # noqa: RUF071  # keys are not divided into steps
    if scheme_of(names[0]) != "s3" or not bucket or not all(name.startswith(f"s3://{bucket}/") for name in names):
        return found
    at = 0
    while len(names) - at >= ENOUGH:
        try:
            # A listing begins after a name: here, one slightly shorter than the first wanted name.
            page = _page(bucket, prefix, _split(names[at])[1][:-1], "")
        except OSError:  # for example, permission to read objects but not to list them
            return found
        listed = dict(_urls(bucket, page))
        end = bisect_right(names, next(reversed(listed), "")) if page.token else len(names)
        found.update((name, listed[name]) for name in names[at:end] if name in listed)
        at = end if end - at >= ENOUGH else max(end, at) + 4 * ENOUGH
    return found


# -- pages of a store with the interface of S3 -----------------------------------------------------------------


def _pages(bucket: str, prefix: str, page: _Page | None = None) -> Iterator[_Page]:
    """The pages of a listing, or those after `page`. Raises StoreError if the listing does not end."""
    url = f"s3://{bucket}/{prefix}"
    tokens: set[str] = set()
    first = ""
    while page is None or page.token:
        if page is not None:
            if page.token in tokens:
                raise StoreError("its listing repeats itself, so its objects are unknown", url)
            tokens.add(page.token)
        page = _page(bucket, prefix, "", page.token if page is not None else "")
        if page.objects and page.objects[0][0] == first:
            raise StoreError("its listing has a page twice, so its objects are unknown", url)
        first = page.objects[0][0] if page.objects else first
        yield page


def _page(bucket: str, prefix: str, after: str, token: str) -> _Page:
    """One page. An answer that is not a listing is an error, not the end of the listing."""
    url = f"s3://{bucket}/{prefix}"
    place = {"ContinuationToken": token} if token else {"StartAfter": after} if after else {}
    try:
        with errors(url):
            answer: dict[str, Any] = file_system("s3://").call_s3(
                "list_objects_v2", Bucket=bucket, Prefix=prefix, **place
            )
    except FileNotFoundError:
        if token:
            raise StoreError("its bucket disappeared during the listing", url) from None
        return _Page([], "")
    if "IsTruncated" not in answer:
        raise StoreError("its answer is not a listing", url)
    more = answer["IsTruncated"]
    if more and not answer.get("NextContinuationToken"):
        raise StoreError("its listing cannot be continued: it has more objects but names no place to continue", url)
    objects = [
        (one["Key"], FileStatus(one["Size"], nanoseconds(one.get("LastModified")), one.get("ETag", "").strip('"')))
        for one in answer.get("Contents", ())
    ]
    return _Page(objects, answer["NextContinuationToken"] if more else "")


def _urls(bucket: str, page: _Page) -> Iterator[Found]:
    return ((f"s3://{bucket}/{key}", status) for key, status in page.objects if status.size or key[-1:] != "/")


def _split(url: str) -> tuple[str, str]:
    """The bucket and key of a URL. A slash at the end is kept, which the library would drop."""
    bucket, key, _ = file_system(url).split_path(f"{url}.")
    return bucket, key[:-1] if key else ""


# -- the library's own listing ---------------------------------------------------------------------------------


def _by_library(find: Any, prefix: str) -> Iterator[Found]:
    try:
        with errors(prefix):
            listed = find(prefix, detail=True)
    except FileNotFoundError:
        return
    # If a URL names an object, the libraries find that object, some of them as a list.
    scheme = scheme_of(prefix)
    for info in listed.values() if isinstance(listed, dict) else ():
        url = f"{scheme}://{info['name']}"
        if info["type"] == "file" and url.startswith(prefix) and (info["size"] or not url.endswith("/")):
            yield url, status_of(info)


# -- patterns --------------------------------------------------------------------------------------------------


class _Pattern:
    """A pattern as the store's library understands it. `path` has the bucket but no scheme."""

    def __init__(self, path: str) -> None:
        self._of_objects = not path.endswith("/")
        self._slash = "/" if path.endswith(("/", "/**")) else ""
        self._whole = _translated(path)
        self._folder = ""
        self._has_folder = False

    def matches(self, url: str) -> bool:
        """Whether it matches an object or a prefix above it."""
        path = url.partition("://")[2]
        folder = path.rpartition("/")[0]
        if folder != self._folder:  # objects of one prefix follow each other
            steps = folder.split("/")
            prefixes = ("/".join(steps[:count]) + self._slash for count in range(1, len(steps) + 1))
            self._folder, self._has_folder = folder, any(map(self._whole.match, prefixes))
        return self._has_folder or (self._of_objects and self._whole.match(path) is not None)


def _translated(pattern: str) -> re.Pattern[str]:
    from fsspec.utils import glob_translate

    with errors(pattern):
        return re.compile(glob_translate(pattern))


_translated_step = lru_cache(maxsize=64)(_translated)


def _literal(pattern: str) -> str:
    """The beginning of a pattern, up to its first special character."""
    return re.split(r"[*?[]", pattern, maxsplit=1)[0]


def _next(key: str, pattern: str) -> str:
    """A name after `key` such that the pattern matches nothing in between; "" if it may match the very next name.

    Steps of the key are compared with those of the pattern, until one cannot match.
    """
    above = ""
    parts = key.split("/")
    for place, (part, step) in enumerate(zip(parts, pattern.split("/"), strict=False)):
        if "**" in step:
            return ""
        head = _literal(step)
        start = part[: len(head)]
        if start < head:
            return above + head[:-1] + chr(ord(head[-1]) - 1) + _LAST
        if start > head:
            return above and above + _LAST
        if head == step and part > step:
            return above + _LAST if part[len(step)] > "/" else f"{above}{step}.{_LAST}"
        if not _translated_step(step).match(part):
            return f"{above}{part}/{_LAST}" if place < len(parts) - 1 else ""
        above += f"{part}/"
    return ""
