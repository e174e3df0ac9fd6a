"""Fetches what a tool has besides events, such as people: page by page, each committed before the next is asked for.

The pages of one listing belong together: a tool lists a copy that it made when the first was asked for, and gives the
others by a cursor. A cursor that a tool has forgotten, a page that comes twice, and a count that is larger than the
pages end the same way: all pages are given up and asked for again.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pipeline.errors import UsageError
from pipeline.fetch.folder import Folder
from pipeline.fetch.tool import GROUP, LATER, BeginAgain, FetchContext, FetchPage, Tool, TooLarge

TRIES = 3
"""How often a listing is begun before it is kept as it is, or the fetch ends."""


def known_extras(tool: Tool, extras: tuple[str, ...]) -> tuple[str, ...]:
    """Each once. Raises UsageError for what a tool does not have besides events."""
    for name in extras:
        is_group = GROUP in tool.extras and re.fullmatch(r"group:.+=[0-9]+", name)
        if not is_group and name not in set(tool.extras) - {GROUP}:
            raise UsageError(
                f"{name!r} cannot be fetched from {tool.title}",
                hint=f"give --with some of {', '.join(tool.extras)}" if tool.extras else "leave out --with",
            )
    return tuple(dict.fromkeys(extras))


def fetch_extras(place: Folder, ask: FetchPage, context: FetchContext, progress: Callable[[str], None]) -> int:
    """Fetch everything that still waits. Returns how many pages."""
    fetched = begun = 0
    while place.manifest.waiting:
        begun += 1
        try:
            fetched += _fetch_pages(place, ask, context, progress, is_last_try=begun == TRIES)
            begun = 0
        except BeginAgain:
            place.begin_again()
            if begun == TRIES:
                raise
        except TooLarge as error:
            raise error.final from None
    return fetched


def _fetch_pages(
    place: Folder, ask: FetchPage, context: FetchContext, progress: Callable[[str], None], *, is_last_try: bool
) -> int:
    """Fetch the remaining pages of the first that waits. Returns how many. Raises BeginAgain."""
    of, fetched, is_last = place.manifest.waiting[0], 0, False
    while not is_last:
        own = [one for one in place.manifest.pages if one.of == of]
        progress(f"{of}, page {len(own) + 1}")
        page = ask(context, of, len(own), place.manifest.cursor)
        is_last = not page.cursor
        fewer = is_last and page.counted is not None and page.rows + sum(one.rows for one in own) < page.counted
        is_repeated = page.key != "" and any(one.key == page.key for one in own)
        if is_repeated or (fewer and not is_last_try):
            what = "which repeats another one" if is_repeated else f"and counts {page.counted:,} rows, which is more"
            raise BeginAgain(f"{place.manifest.tool} gave page {len(own) + 1} of {of}, {what}", hint=LATER)
        place.commit_page(page, fewer=fewer)
        fetched += 1
    return fetched
