"""The objects of a store, out of listings that are read page by page: below a prefix, of a pattern, or of given names.

A store with the interface of S3 lists 1,000 objects for a request, in the order of their names. The pages are
requested here, because its library returns a listing only as a whole, at more than a kilobyte for each object. Of the
other stores the library's own listing is used.
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
"""No name has this character, so that it comes after all that begins as it does."""
ENOUGH = 32
"""A page that has so many of the names that are sought is cheaper than a request for each."""


class _Page(NamedTuple):
    """Objects by their keys, and the token that continues the listing, "" at its end."""

    objects: list[Found]
    token: str


def below(prefix: str) -> Iterator[Found]:
    """Every object whose URL begins with `prefix`, in the order of a listing; none where there is no such bucket.

    An object whose name ends in a slash is one that a console made to show a folder, unless it has content. Raises
    OSError, also after the first objects: what was listed is not all then.
    """
    if scheme_of(prefix) != "s3":
        yield from _by_library(file_system(prefix).find, prefix)
        return
    bucket, start = _split(prefix)
    for page in _pages(bucket, start):
        yield from _urls(bucket, page)


def matching(pattern: str) -> Iterator[Found]:
    """The objects that a URL with `*`, `**`, `?` or `[` stands for, and those below a prefix that it stands for.

    What comes before the first of these characters is the prefix of the listing, and what cannot match is jumped over.
    Raises OSError, also after the first objects.
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
            # What comes after a page is known only where the order is: all has to be listed then.
            yield from (found for found in _rest(bucket, wanted, page) if is_wanted(found[0]))
            return
        last = keys[-1] if keys else last
        target = "" if bucket.endswith("--x-s3") else _next(last, wanted)  # directory buckets have no order
        after, token = (target, "") if target > last else (after, page.token)


def _rest(bucket: str, wanted: str, page: _Page) -> Iterator[Found]:
    for following in _pages(bucket, _literal(wanted), page):
        yield from _urls(bucket, following)


def statuses_in_listings(names: Sequence[str]) -> dict[str, FileStatus]:
    """The statuses of those of these URLs, which are sorted, that listings show with fewer requests than one for each.

    A name that is not in the result has to be asked for.
    """
    found: dict[str, FileStatus] = {}
    bucket, prefix = _split(commonprefix(names))  # noqa: RUF071  # keys are not divided into steps
    if scheme_of(names[0]) != "s3" or not bucket or not all(name.startswith(f"s3://{bucket}/") for name in names):
        return found
    at = 0
    while len(names) - at >= ENOUGH:
        try:
            # A listing begins after a name: after one that is a little shorter than the first one that is sought.
            page = _page(bucket, prefix, _split(names[at])[1][:-1], "")
        except OSError:  # such as where objects may be read and not be listed
            return found
        listed = dict(_urls(bucket, page))
        end = bisect_right(names, next(reversed(listed), "")) if page.token else len(names)
        found.update((name, listed[name]) for name in names[at:end] if name in listed)
        at = end if end - at >= ENOUGH else max(end, at) + 4 * ENOUGH
    return found


# -- pages of a store with the interface of S3 -----------------------------------------------------------------


def _pages(bucket: str, prefix: str, page: _Page | None = None) -> Iterator[_Page]:
    """The pages of a listing, or those after one. Raises StoreError where it does not come to its end."""
    url = f"s3://{bucket}/{prefix}"
    tokens: set[str] = set()
    first = ""
    while page is None or page.token:
        if page is not None:
            if page.token in tokens:
                raise StoreError("its listing repeats itself, so that it is not known what is there", url)
            tokens.add(page.token)
        page = _page(bucket, prefix, "", page.token if page is not None else "")
        if page.objects and page.objects[0][0] == first:
            raise StoreError("its listing has a page twice, so that it is not known what is there", url)
        first = page.objects[0][0] if page.objects else first
        yield page


def _page(bucket: str, prefix: str, after: str, token: str) -> _Page:
    """One page. An answer that is no listing is an error, and not the end of one."""
    url = f"s3://{bucket}/{prefix}"
    place = {"ContinuationToken": token} if token else {"StartAfter": after} if after else {}
    try:
        with errors(url):
            answer: dict[str, Any] = file_system("s3://").call_s3(
                "list_objects_v2", Bucket=bucket, Prefix=prefix, **place
            )
    except FileNotFoundError:
        if token:
            raise StoreError("its bucket is gone while it is listed", url) from None
        return _Page([], "")
    if "IsTruncated" not in answer:
        raise StoreError("what it answered is no listing", url)
    more = answer["IsTruncated"]
    if more and not answer.get("NextContinuationToken"):
        raise StoreError("its listing cannot be continued: it has more objects, and names no place to go on", url)
    objects = [
        (one["Key"], FileStatus(one["Size"], nanoseconds(one.get("LastModified")), one.get("ETag", "").strip('"')))
        for one in answer.get("Contents", ())
    ]
    return _Page(objects, answer["NextContinuationToken"] if more else "")


def _urls(bucket: str, page: _Page) -> Iterator[Found]:
    return ((f"s3://{bucket}/{key}", status) for key, status in page.objects if status.size or key[-1:] != "/")


def _split(url: str) -> tuple[str, str]:
    """The bucket and the key of a URL, whose last character is kept where the library would leave out a slash."""
    bucket, key, _ = file_system(url).split_path(f"{url}.")
    return bucket, key[:-1] if key else ""


# -- the library's own listing ---------------------------------------------------------------------------------


def _by_library(find: Any, prefix: str) -> Iterator[Found]:
    try:
        with errors(prefix):
            listed = find(prefix, detail=True)
    except FileNotFoundError:
        return
    # Of a URL that names an object, the libraries find that object, some as a list.
    scheme = scheme_of(prefix)
    for info in listed.values() if isinstance(listed, dict) else ():
        url = f"{scheme}://{info['name']}"
        if info["type"] == "file" and url.startswith(prefix) and (info["size"] or not url.endswith("/")):
            yield url, status_of(info)


# -- patterns --------------------------------------------------------------------------------------------------


class _Pattern:
    """A pattern, as the library that reads a store understands it. `path` has the bucket and no scheme."""

    def __init__(self, path: str) -> None:
        self._of_objects = not path.endswith("/")
        self._slash = "/" if path.endswith(("/", "/**")) else ""
        self._whole = _translated(path)
        self._folder = ""
        self._has_folder = False

    def matches(self, url: str) -> bool:
        """Whether it stands for an object, or for a prefix that the object is below."""
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
    """What a pattern begins with, up to its first special character."""
    return re.split(r"[*?[]", pattern, maxsplit=1)[0]


def _next(key: str, pattern: str) -> str:
    """A name after `key` that nothing that a pattern stands for lies before; "" where it may be the next one.

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
