"""What a browser's User-Agent says, in the service's own terms."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pipeline.mapper.verbs.devices import CACHED, LONGEST, PARTS, agents
from tests.support.small_mappings import properties

MAC = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)"
CHROME = "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/112.0.0.0 Safari/537.36"
WINDOWS = f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {CHROME}"
IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 16_4_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)"
IPAD = "Mozilla/5.0 (iPad; CPU OS 16_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)"
M, SAFARI = "Mozilla/5.0 ", "Mobile/15E148 Safari/604.1"
WINDOWS_7, LINUX = ("Windows", "7", "Desktop"), ("Linux", None, "Desktop")
SAMSUNG = (
    f"{M}(Linux; Android 12; SAMSUNG SM-G991B) AppleWebKit/537.36 (KHTML, like Gecko) "
    "SamsungBrowser/20.0 Chrome/106.0.5249.126 Mobile Safari/537.36"
)
ANDROID_9 = "Linux; U; Android 9; Android SDK built for x86"
ANDROID = "Mozilla/5.0 (Linux; Android 13; SM-S901B) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/112.0.0.0"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{MAC} Version/16.4 Safari/605.1.15", ("Safari", "16.4", "Mac OS X", "10.15.7", "Desktop")),
        (WINDOWS, ("Chrome", "112", "Windows", "10", "Desktop")),
        (f"{WINDOWS} Edg/112.0.1722.34", ("Microsoft Edge", "112", "Windows", "10", "Desktop")),
        (f"{WINDOWS} OPR/98.0.0.0", ("Opera", "98", "Windows", "10", "Desktop")),
        (f"{M}(Windows NT 6.1; WOW64; Trident/7.0; rv:11.0) like Gecko", ("Internet Explorer", "11", *WINDOWS_7)),
        (f"{M}(X11; Ubuntu; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/112.0", ("Firefox", "112", *LINUX)),
        (f"{M}(X11; CrOS x86_64 14541.0.0) {CHROME}", ("Chrome", "112", "Chrome OS", "14541.0.0", "Desktop")),
        (f"{IPHONE} Version/16.4 {SAFARI}", ("Mobile Safari", "16.4", "iOS", "16.4.1", "Mobile")),
        (f"{IPHONE} CriOS/112.0.5615.46 {SAFARI}", ("Chrome iOS", "112", "iOS", "16.4.1", "Mobile")),
        (f"{IPHONE} FxiOS/112.0 {SAFARI}", ("Firefox iOS", "112", "iOS", "16.4.1", "Mobile")),
        (f"{IPAD} Version/16.4 {SAFARI}", ("Mobile Safari", "16.4", "iOS", "16.4", "Tablet")),
        (f"{ANDROID} Mobile Safari/537.36", ("Chrome", "112", "Android", "13", "Mobile")),
        (f"{ANDROID} Safari/537.36", ("Chrome", "112", "Android", "13", "Tablet")),
        (SAMSUNG, ("Samsung Internet", "20", "Android", "12", "Mobile")),
        (f"Dalvik/2.1.0 ({ANDROID_9})", ("Android Mobile", "9", "Android", "9", "Mobile")),
        (f"{M}(compatible; Googlebot/2.1; +http://www.google.com/bot.html)", ("Googlebot", "2.1", *[None] * 3)),
        *((text, (None,) * 5) for text in ("analytics-ruby/2.4.0", "", "\ud800 \x00")),
    ],
)
def test_a_user_agent_is_named_in_the_words_of_the_service(text: str, said: tuple[str | None, ...]) -> None:
    """Browser, its version as a number, system, its version and the kind of device; None if it does not say."""
    found = agents(text)
    version = None if found.browser_version is None else bytes(found.browser_version).decode()
    assert (found.browser, version, *found[2:]) == said


def test_the_verb_gives_each_part_of_one_string() -> None:
    """A version is sent as a number, an unknown part is missing."""
    sets = "".join(f"    {part}: {{user_agent: ua, part: {part}}}\n" for part in PARTS)
    sections = f"properties:\n  drop: [name, user, at, ua]\n  set:\n{sets}"
    said = {"browser": '"Chrome"', "browser_version": "112", "os": '"Windows"', "os_version": '"10"'}
    assert properties(sections, f'"ua":"{WINDOWS}"') == {**said, "device_type": '"Desktop"'}
    assert properties(sections, '"ua":"analytics-ruby/2.4.0"') == {}
    assert properties(sections, "") == {}


def test_a_user_agent_is_read_once_and_not_all_are_remembered() -> None:
    """The same string is not read again; many strings do not fill the memory; a long one is read only up to a limit."""
    assert agents(WINDOWS) is agents(WINDOWS)
    assert agents(f"{WINDOWS.ljust(LONGEST)} Edg/112.0.1722.34").browser == "Chrome"
    assert agents.cache_info().maxsize == CACHED


def test_the_library_is_loaded_by_rows_with_a_user_agent_alone() -> None:
    """Compiling a mapping leaves ua-parser out of the process."""
    code = (
        "import sys; from pipeline.mapper import compile, load; from pipeline.models import SealedOptions; "
        "compile(load('segment'), SealedOptions(as_of=0)); print('ua_parser' in sys.modules); "
        "from pipeline.mapper.verbs.devices import agents; agents('x'); print('ua_parser' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\nTrue\n"
