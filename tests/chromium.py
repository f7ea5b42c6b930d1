"""A headless chromium, driven through its DevTools protocol over two pipes: no package is needed.

``--remote-debugging-pipe`` reads commands from file descriptor 3 and writes answers and events to 4: JSON, each ended
by a zero byte (https://chromedevtools.github.io/devtools-protocol/).
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

__all__ = ["Chromium", "find_chromium"]

PATIENCE = 60.0  # seconds for one answer; machines may be busy
KEYS = {"Tab": 9, "Escape": 27, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39, "n": 78}


def find_chromium() -> str | None:
    """Return the program, if it is installed."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((found for name in names if (found := shutil.which(name))), None)


class Chromium:
    """One page in a browser; use it in ``with``."""

    def __init__(self, program: str) -> None:
        self.events: list[dict[str, Any]] = []
        self._number, self._buffer = 0, b""
        self._folder = tempfile.TemporaryDirectory(prefix="chromium", ignore_cleanup_errors=True)
        to_read, self._commands = os.pipe()
        self._answers, to_write = os.pipe()

        command = [
            program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-background-networking", "--hide-scrollbars", "--remote-debugging-pipe",
            f"--user-data-dir={self._folder.name}", "about:blank",
        ]  # fmt: skip
        # A shell puts the pipes where chromium expects them, with no code of ours between fork and exec.
        shell = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "bash", *command], pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._session: str | None = None
        target = self.call("Target.getTargets")["targetInfos"]
        page = next(info["targetId"] for info in target if info["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the browser and all it started."""
        for end in (self._commands, self._answers):
            os.close(end)
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)  # a session of its own, which nothing else is in
            self._process.wait()
        self._folder.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; events that come before it are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], max(end - time.monotonic(), 0))
            if not ready:
                raise TimeoutError(f"chromium gave no answer within {PATIENCE:.0f} s")
            block = os.read(self._answers, 1 << 16)
            if not block:
                raise EOFError("chromium has ended")
            self._buffer += block
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def open(
        self, path: Path, *, width: int = 1200, height: int = 900, dark: bool = False, touch: bool = False
    ) -> None:
        """Open a file in a window of that size."""
        self.events.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch)
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=path.resolve().as_uri())
        end = time.monotonic() + PATIENCE
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            assert time.monotonic() < end, "the page did not load"
            self.events.append(self._next())

    def run(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key."""
        code = KEYS[key]
        text = {"text": key} if len(key) == 1 else {}
        common = {"key": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def middle(self, selector: str, place: int = 0) -> tuple[float, float]:
        """Scroll an element into view and return its middle."""
        box = self.run(
            f"(async () => {{ const e = document.querySelectorAll({json.dumps(selector)})[{place}];"
            "document.documentElement.style.scrollBehavior = 'auto'; e.scrollIntoView({block: 'center'});"
            # the page is told of the scrolling a frame later
            "for (let k = 0; k < 2; k++) await new Promise(requestAnimationFrame);"
            "const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        return box[0], box[1]

    def hover(self, selector: str, place: int = 0) -> None:
        """Move the mouse over an element."""
        x, y = self.middle(selector, place)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector: str, place: int = 0) -> None:
        """Press the mouse on an element."""
        x, y = self.middle(selector, place)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def tap(self, selector: str, place: int = 0) -> None:
        """Touch an element."""
        x, y = self.middle(selector, place)
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Write a picture of the window, or of the whole page."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def requests(self) -> list[str]:
        """Return the addresses that the page asked for."""
        found = (
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        )
        return [address for address in found if not address.startswith("data:")]

    def complaints(self) -> list[Any]:
        """Return errors of scripts, of the console and of the log, and dialogs."""
        wanted = ("Runtime.exceptionThrown", "Log.entryAdded", "Page.javascriptDialogOpening")
        found = [event for event in self.events if event.get("method") in wanted]
        said = [
            e for e in self.events if e.get("method") == "Runtime.consoleAPICalled" and e["params"]["type"] == "error"
        ]
        return found + said
