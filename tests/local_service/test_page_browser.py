"""The page of the local service in a real browser: offline, by keyboard, in light and dark, without scripts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pipeline.local_service import LocalService
from tests.support.browser import Tab
from tests.support.page_service import CLIENT, event, make, send, uuid

PAGES = (
    "/", "/events", "/people", "/groups", "/functions", "/warnings", "/rejected", "/events?text=nothing-like-it",
    "/people/of?id=u1", f"/events/{uuid(1)}", "/events?since=never",
)  # fmt: skip
HOSTILE = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
SEED = {"hog_functions": [{"name": HOSTILE, "type": "destination", "enabled": True}]}
PICTURES = os.environ.get("BACKCAST_TEST_PICTURES")
"""A folder for pictures of the pages, for anyone who wants to look at them."""

CONTRAST = """(() => {
  const channel = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const shade = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const parts = text => text.match(/[0-9.]+/g).map(Number);
  const behind = element => {
    for (; element; element = element.parentElement) {
      const colour = parts(getComputedStyle(element).backgroundColor);
      if (colour.length < 4 || colour[3] === 1) return colour;
    }
    return matchMedia('(prefers-color-scheme: dark)').matches ? [18, 18, 18] : [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility() || element.closest('svg')) continue;
    const [a, b] = [shade(parts(getComputedStyle(element).color)), shade(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    found.push([ratio, element.tagName + '.' + element.className, walker.currentNode.data.trim().slice(0, 40)]);
  }
  return found;
})()"""
FOCUSED = """(() => {
  const one = document.activeElement;
  const style = getComputedStyle(one);
  const name = one.name || one.getAttribute('href') || one.getAttribute('aria-label') || one.textContent;
  return {tag: one.tagName, name,
    outline: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1};
})()"""
UNNAMED = """[...document.querySelectorAll('input:not([type=hidden]), select, button, a, [role=region]')]
.filter(one => !one.closest('svg')).filter(one => !(
  one.labels?.length && one.labels[0].innerText.trim() || one.getAttribute('aria-label') || one.textContent.trim()
)).map(one => one.outerHTML)"""


@pytest.fixture(scope="module")
def service() -> Iterator[LocalService]:
    with make(SEED) as fresh:
        events = [
            event(number, ("Seen", "Song played", HOSTILE)[number % 3], f"u{number % 9}",
                  f"2023-{1 + number % 6:02}-{1 + number * 7 % 28:02}T03:04:05Z", plan="pro", html=HOSTILE, n=number)
            for number in range(1, 121)
        ]  # fmt: skip
        group = {"$group_type": "company", "$group_key": HOSTILE, "$group_set": {"seats": 4}}
        send(fresh, *events, event(121, "$groupidentify", "g", **group), event(122, "$create_alias", alias="null"))
        send(fresh, events[0] | {"timestamp": "2023-01-01T00:00:00Z"}, historical=False)
        assert CLIENT.post(fresh.url + "/batch/", content=HOSTILE).status_code == 400
        yield fresh


def test_every_page_is_whole_readable_and_named(service: LocalService, tab: Tab) -> None:
    """No request leaves the origin, nothing is missing, the console stays empty, and no hostile text runs.

    All text has a contrast of 4.5 to 1 with its background, in light and in dark. Controls and links are named,
    headings in order, cells under headers, one landmark holds the content. On a telephone too nothing is wider than the
    window: wide tables scroll inside of themselves.
    """
    for number, path in enumerate(PAGES):
        assert (tab.failures, tab.complaints) == ([], [])  # for the pages before; none of them was refused
        tab.open(service.url + path)
        assert tab.run("document.title.endsWith('backcast service')"), path
        assert tab.run("document.scripts.length + document.images.length") == 0, path
        assert tab.run(UNNAMED) == [], path
        assert tab.run("[document.documentElement.lang, document.querySelectorAll('h1, main').length]") == ["en", 2]
        levels = tab.run("[...document.querySelectorAll('h1, h2, h3')].map(one => +one.tagName[1])")
        assert levels[0] == 1, path
        assert all(after <= before + 1 for before, after in pairwise(levels)), (path, levels)
        assert tab.run("[...document.querySelectorAll('thead th, tbody th')].every(one => one.scope)"), path
        ids = tab.run("[...document.querySelectorAll('[id]')].map(one => one.id)")
        assert len(ids) == len(set(ids)), path
        for width in (1250, 360):
            tab.width(width)
            assert tab.run("document.documentElement.scrollWidth") <= width, path
        tab.width(1250)
        if path in ("/events", "/groups"):
            some = ".events tbody tr:nth-child(-n+2) details, .over-time details, tbody tr:nth-child(-n+2) details"
            tab.run(f"document.querySelectorAll('{some}').forEach(one => one.open = true)")
        for scheme, paper in (("dark", "rgb(23, 25, 27)"), ("light", "rgb(255, 255, 255)")):
            tab.colours(scheme)
            found = tab.run(CONTRAST)
            assert len(found) > 10, path
            assert [one for one in found if one[0] < 4.5] == [], (path, scheme)
            assert tab.run("getComputedStyle(document.body).backgroundColor") == paper, path
            if PICTURES:
                tab.picture(Path(PICTURES) / f"{scheme}-{number}.png")
    here = urlsplit(service.url).netloc
    assert {one for one in tab.requests if urlsplit(one)[:2] != ("http", here) and not one.startswith("data:")} == set()
    assert len(tab.requests) > len(PAGES)


def focused(tab: Tab, presses: int = 60) -> list[dict[str, str | bool]]:
    """What has the focus after each press of Tab."""
    found: list[dict[str, str | bool]] = []
    for _ in range(presses):
        tab.press("Tab")
        one = tab.run(FOCUSED)
        if one["tag"] == "BODY":
            break
        if one not in found[-1:]:  # a field for a day has several stops
            found.append(one)
    return found


def test_the_keyboard_reaches_everything(service: LocalService, tab: Tab) -> None:
    """Tab goes past the menu or through it, to the filters, the button and the list; what has the focus shows it.

    The first key press offers the way past the menu, the next takes it: then the content has the focus.
    """
    tab.open(service.url + "/events")
    order = focused(tab)
    names = [str(one["name"]) for one in order]
    wanted = ["#main", "/", "/events", "/people", "text", "event", "id", "since", "until", "flag", "order", "Search"]
    places = [names.index(name) for name in wanted]
    assert places == sorted(places)
    assert any(name.startswith("/events/0") for name in names)
    assert any(one["tag"] == "SUMMARY" for one in order)
    assert [one for one in order if not one["outline"]] == []
    tab.open(service.url + "/")
    tab.press("Tab")
    assert tab.run("document.activeElement.getBoundingClientRect().left >= 0")
    tab.press("Enter", "\r")
    assert tab.run("document.activeElement.id") == "main"


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts on", "scripts off"])
def test_searching_by_keyboard(service: LocalService, tab: Tab, scripts: bool) -> None:
    """A search string and Enter list the matching events; properties open in place, links work; with scripts or
    without."""
    tab.ask("Emulation.setScriptExecutionDisabled", value=not scripts)
    tab.open(service.url + "/events")
    assert tab.run("document.querySelectorAll('.events tbody tr').length") == 50
    tab.tab_to("focus.name === 'text'")
    tab.type("SONG")
    tab.press("Enter", "\r")
    tab.wait_for_load()
    assert tab.run("document.querySelector('[role=status]').innerText").startswith("41 events found")
    assert set(tab.run("[...document.querySelectorAll('.events tbody tr')].map(row => row.cells[1].innerText)")) == {
        "Song played"
    }
    assert tab.run("document.querySelector('[name=text]').value") == "SONG"
    tab.tab_to("focus.tagName === 'SUMMARY' && focus.closest('.events')")
    assert not tab.run("document.activeElement.parentElement.open")
    tab.press("Enter", "\r")
    assert tab.run("document.activeElement.parentElement.open")
    assert "pro" in tab.run("document.activeElement.parentElement.querySelector('dl').innerText")
    tab.tab_to("focus.pathname === '/people/of'")
    tab.press("Enter", "\r")
    tab.wait_for_load()
    assert tab.run("location.pathname").startswith("/people/")
    assert tab.complaints == []
