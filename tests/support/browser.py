"""A real headless Chromium, driven over a pipe by its DevTools protocol: without a driver or a port."""

from __future__ import annotations

import base64
import json
import os
import queue
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PATIENCE = 60.0
"""Seconds that anything may take."""
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--remote-debugging-pipe",
)


def chromium() -> str | None:
    """The program, or None if it is missing."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One running browser. Answers are found by the number of the request; events are kept per tab."""

    def __init__(self, program: str, profile: Path) -> None:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        # The protocol wants the file descriptors 3 and 4.
        script = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        with (profile / "stderr").open("wb") as stderr:
            self._process = subprocess.Popen(
                ["bash", "-c", script, "chromium", program, *ARGUMENTS, f"--user-data-dir={profile}", "about:blank"],
                pass_fds=(theirs_in, theirs_out),
                stdout=stderr,
                stderr=stderr,
                env=os.environ | {"LANG": "C.UTF-8"},
            )
        os.close(theirs_in)
        os.close(theirs_out)
        self._out = os.fdopen(ours_out, "wb", buffering=0)
        self._in = os.fdopen(ours_in, "rb")
        self._asked = 0
        self._answers: dict[int, queue.Queue[dict[str, Any]]] = {}
        self._tabs: dict[str, Tab] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def close(self) -> None:
        """End the browser, by force if it does not end."""
        with suppress(OSError, TimeoutError):
            self.ask("Browser.close")
        self._out.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(10)
        self._in.close()

    def ask(self, method: str, session: str | None = None, /, **params: Any) -> dict[str, Any]:
        """The answer to one call of the protocol."""
        self._asked += 1
        number = self._asked
        answer = self._answers[number] = queue.Queue()
        message = {"id": number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        self._out.write(json.dumps(message).encode() + b"\0")
        try:
            found = answer.get(timeout=PATIENCE)
        except queue.Empty:
            raise TimeoutError(f"no answer to {method}") from None
        if "error" in found:
            raise OSError(f"{method}: {found['error']}")
        result: dict[str, Any] = found["result"]
        return result

    def tab(self) -> Tab:
        """A new tab, watched from before its first page."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = self._tabs[session] = Tab(self, session, target)
        for domain in ("Page", "Network", "Runtime", "Log"):
            tab.ask(f"{domain}.enable")
        return tab

    def _read(self) -> None:
        waiting = b""
        while piece := self._in.read1(65536):
            *whole, waiting = (waiting + piece).split(b"\0")
            for message in map(json.loads, whole):
                if "id" in message:
                    self._answers.pop(message["id"]).put(message)
                elif message.get("sessionId") in self._tabs:
                    self._tabs[message["sessionId"]].record(message["method"], message["params"])
        for answer in self._answers.values():
            answer.put({"error": "the browser is gone"})


class Tab:
    """One tab: its network requests, and its complaints."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser, self._session, self._target = browser, session, target
        self._loaded: queue.Queue[str] = queue.Queue()
        self.requests: list[str] = []
        self.failures: list[str] = []
        self.complaints: list[str] = []

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.ask(method, self._session, **params)

    def record(self, method: str, params: dict[str, Any]) -> None:
        """Record an event of the protocol."""
        if method == "Page.loadEventFired":
            self._loaded.put("")
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Network.responseReceived" and params["response"]["status"] >= 400:
            self.failures.append(f"{params['response']['status']} {params['response']['url']}")
        elif method == "Network.loadingFailed":
            self.failures.append(params["errorText"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(json.dumps(params["args"]))
        elif method == "Log.entryAdded":
            self.complaints.append(json.dumps(params["entry"]))

    def open(self, url: str) -> None:
        """Go to a page; returns once it is loaded."""
        answer = self.ask("Page.navigate", url=url)
        assert "errorText" not in answer, answer
        self.wait_for_load()

    def wait_for_load(self) -> None:
        """Wait for one page to be loaded; it may be already."""
        self._loaded.get(timeout=PATIENCE)

    def run(self, expression: str) -> Any:
        """The JSON value of a JavaScript expression, which may be a promise."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str, text: str = "") -> None:
        """One key, down and up."""
        codes = {"Tab": 9, "Enter": 13, "ArrowRight": 39}
        named = {"key": key, "code": key, "windowsVirtualKeyCode": codes.get(key, 0)}
        self.ask("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **named)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **named)

    def tab_to(self, condition: str, most: int = 80) -> None:
        """Press Tab until an expression about `focus`, the element with the focus, is true."""
        for _ in range(most):
            self.press("Tab")
            if self.run(f"(focus => Boolean({condition}))(document.activeElement)"):
                return
        raise AssertionError(f"{most} times Tab, and never {condition}")

    def type(self, text: str) -> None:
        """Text, as a person types it."""
        self.ask("Input.insertText", text=text)

    def colours(self, scheme: str) -> None:
        """Prefer light or dark."""
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def width(self, pixels: int) -> None:
        self.ask("Emulation.setDeviceMetricsOverride", width=pixels, height=900, deviceScaleFactor=1, mobile=False)

    def picture(self, file: Path) -> None:
        """The whole page as a PNG."""
        shot = self.ask("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def browsing(program: str, profile: Path) -> Iterator[Browser]:
    """A browser with a profile of its own."""
    browser = Browser(program, profile)
    try:
        yield browser
    finally:
        browser.close()
