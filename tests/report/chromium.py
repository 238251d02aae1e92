"""Drives headless Chromium through a pipe, with the DevTools protocol: no port, no package."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")

# Chromium reads commands from one of these descriptors and answers on the other.
COMMANDS, ANSWERS = 3, 4

# CI machines are starved at times.
TIMEOUT_S = 120


def find_chromium() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def raised(descriptor: int) -> int:
    """The same file, out of the way of COMMANDS and ANSWERS."""
    copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return copy


class Browser:
    """One tab."""

    def __init__(self, program: str, profile: Path) -> None:
        child_in, self._out = map(raised, os.pipe())
        self._in, child_out = map(raised, os.pipe())

        def connect() -> None:
            os.dup2(child_in, COMMANDS)
            os.dup2(child_out, ANSWERS)

        command = [program, "--headless", "--remote-debugging-pipe", "--disable-gpu",
                   "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
                   f"--user-data-dir={profile}", "about:blank"]
        if os.geteuid() == 0:
            command.insert(1, "--no-sandbox")
        self._process = subprocess.Popen(command, preexec_fn=connect, close_fds=False,
                                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL)
        os.close(child_in)
        os.close(child_out)
        self._buffer = b""
        self._id = 0
        self._session: str | None = None
        self.events: list[dict] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target,
                                  flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def _message(self, deadline: float) -> dict:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(deadline - time.monotonic(), 0))
            if not ready:
                raise TimeoutError(f"Chromium did not answer within {TIMEOUT_S} s")
            read = os.read(self._in, 1 << 16)
            if not read:
                raise ConnectionError(f"Chromium ended: status {self._process.poll()}")
            self._buffer += read
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method: str, **parameters: Any) -> dict:
        self._id += 1
        message = {"id": self._id, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + TIMEOUT_S
        while (answer := self._message(deadline)).get("id") != self._id:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def show(self, page: Path, size: tuple[int, int], scheme: str) -> None:
        """Loads a file in a viewport of (width, height) with a light or dark scheme."""
        self.call("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1],
                  deviceScaleFactor=2, mobile=size[0] < 600)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        self.call("Page.navigate", url=page.resolve().as_uri())
        deadline = time.monotonic() + TIMEOUT_S
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._message(deadline))

    def evaluate(self, script: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"script failed: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def screenshot(self, path: Path, whole: bool = False) -> None:
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(data["data"]))
