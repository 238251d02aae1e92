"""tests/support/files/fault_server.py for the tests here."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import unittest
import urllib.request
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "support" / "files" / "fault_server.py"
TOKEN = "a-secret-of-the-test"

# Of RFC 8032, section 7.1.
PRIVATE_KEY = """-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
-----END PRIVATE KEY-----
"""
PUBLIC_KEY = """-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=
-----END PUBLIC KEY-----
"""
OTHER_PUBLIC_KEY = """-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAPUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=
-----END PUBLIC KEY-----
"""


class FaultServer:
    """Serves a folder of its own until the test ends."""

    def __init__(self, test: unittest.TestCase) -> None:
        folder = tempfile.TemporaryDirectory(prefix="spjit-server-")
        test.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        process = subprocess.Popen([sys.executable, SCRIPT, self.folder], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        assert process.stdin is not None and process.stdout is not None
        test.addCleanup(process.wait)
        test.addCleanup(process.stdout.close)
        test.addCleanup(process.stdin.close)
        self.port = int(process.stdout.readline())

    def url(self, fault: str = "ok") -> str:
        return f"http://127.0.0.1:{self.port}/{fault}"

    def log(self) -> list[dict]:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self.url("log")) as answer:
            return json.load(answer)

    def requests(self) -> list[str]:
        return [f"{entry['method']} {entry['path']}" for entry in self.log()]

    def objects(self) -> list[Path]:
        return sorted(path for path in self.folder.rglob("*.spjit") if path.is_file())
