"""A real headless browser, driven over a pipe in the words of the Chrome DevTools protocol."""

from __future__ import annotations

import fcntl
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 120.0
"""Seconds to wait for anything: machines are shared, and nothing here should be near it."""

_AT_3_AND_4 = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-extensions", "--no-first-run"),
    *("--hide-scrollbars", "--remote-debugging-pipe"),
)


def find_browser() -> str | None:
    """Return the browser of this machine, if it has one."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One page of a browser; everything that happens to it is kept in `events`."""

    def __init__(self, profile: Path) -> None:
        program = find_browser()
        assert program is not None
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        command = [program, *_FLAGS, f"--user-data-dir={profile}", "about:blank"]
        # It reads commands from descriptor 3 and writes to 4: no port, so no race for one.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_browser, from_browser)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _AT_3_AND_4, *map(str, ends), *command],
            pass_fds=ends,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for end in (to_browser, from_browser, *ends):
            os.close(end)
        self._ready = selectors.DefaultSelector()
        self._ready.register(self._in, selectors.EVENT_READ)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def close(self) -> None:
        """End the browser and what it started."""
        os.close(self._out)
        os.close(self._in)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Give a command and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        deadline = time.monotonic() + PATIENCE
        while True:
            found = self._receive(deadline - time.monotonic())
            if found.get("id") == self._number:
                assert "error" not in found, found
                result: dict[str, Any] = found["result"]
                return result
            self.events.append(found)

    def _receive(self, seconds: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not self._ready.select(max(0.0, seconds)):
                raise TimeoutError(f"the browser says nothing for {PATIENCE:g} s")
            part = os.read(self._in, 1 << 20)
            if not part:
                raise EOFError("the browser has gone")
            self._buffer += part
        first, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(first)
        return found

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        found = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """Return the value of an expression as soon as it is true."""
        deadline = time.monotonic() + PATIENCE
        while not (value := self.evaluate(expression)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {PATIENCE:g} s: {expression}")
            time.sleep(0.05)
        return value

    def open(self, path: Path, ready: str, *, width: int = 1280, height: int = 900) -> None:
        """Open a file in a window of a size, and wait until an expression is true."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.events.clear()
        self.send("Page.navigate", url=path.as_uri())
        self.wait_for(f"document.readyState === 'complete' && !!({ready})")

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """Let the mouse do something: `mouseMoved`, `mouseWheel`, `mousePressed` ..."""
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def named(self, method: str) -> list[dict[str, Any]]:
        """Return the parameters of all events of a name since the page was opened."""
        return [event["params"] for event in self.events if event.get("method") == method]
