#!/usr/bin/env python3
"""A server of files over HTTP that does wrong what it is asked to, for tests of what reads from it.

    fault_server.py FOLDER [--certificate PEM]

Prints its port, then serves until its standard input ends. The first part of a path names what goes
wrong with the rest, which is a path in FOLDER: GET /stall/ab/KEY begins with the file ab/KEY and
never ends. /ok/ serves and takes files as it should. GET /log is a JSON list of the requests so
far. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

LONG_S = 20.0  # longer than any deadline of a test
TOKEN = "Bearer a-secret-of-the-test"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # header and body of an answer are one segment
    disable_nagle_algorithm = True
    folder: Path
    log: list[dict] = []
    failures: dict[str, int] = {}

    def log_message(self, *_: object) -> None:
        pass

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (OSError, ValueError):  # the client had enough
            self.close_connection = True

    def handle_expect_100(self) -> bool:
        self.send_response_only(100)
        self.end_headers()
        self.wfile.flush()
        return True

    def record(self, body: bytes = b"") -> None:
        self.log.append({"method": self.command, "path": self.path, "bytes": len(body),
                         **{name: self.headers.get(name)
                            for name in ("Host", "Authorization", "Content-Type", "Content-Length",
                                         "User-Agent", "x-amz-content-sha256")}})

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def begin(self, length: int | None) -> None:
        """The head of a 200; without a length the body ends with the connection."""
        self.send_response(200)
        if length is not None:
            self.send_header("Content-Length", str(length))
        else:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.flush()

    def write(self, data: bytes) -> None:
        self.wfile.write(data)
        self.wfile.flush()

    def stored(self, rest: str) -> bytes | None:
        path = self.folder / rest
        return path.read_bytes() if path.is_file() else None

    # What a path can begin with. `rest` is the path in FOLDER.

    def ok(self, rest: str) -> None:
        body = self.stored(rest)
        self.answer(404) if body is None else self.answer(200, body)

    def status(self, rest: str) -> None:
        """/status/503/..."""
        self.answer(int(rest.split("/")[0]), b"no such luck", Retry_After="1")

    def noisy(self, rest: str) -> None:
        """An error with a long body."""
        self.answer(500, b"x" * (1 << 20))

    def loop(self, rest: str) -> None:
        self.answer(302, Location=self.path)

    def moved(self, rest: str) -> None:
        """/moved/2/...: so many redirects, then the file."""
        count, _, file = rest.partition("/")
        left = int(count) - 1
        self.answer(301, Location=f"/moved/{left}/{file}" if left else f"/ok/{file}")

    def elsewhere(self, rest: str) -> None:
        """To the same server by another name."""
        self.answer(307, Location=f"http://localhost:{self.server.server_port}/ok/{rest}")

    def scheme(self, rest: str) -> None:
        self.answer(302, Location=f"ftp://127.0.0.1:{self.server.server_port}/{rest}")

    def guarded(self, rest: str) -> None:
        """Only with the token."""
        self.ok(rest) if self.headers.get("Authorization") == TOKEN else self.answer(401)

    def slow_first_byte(self, rest: str) -> None:
        time.sleep(LONG_S)

    def slow_body(self, rest: str) -> None:
        body = self.stored(rest) or b""
        self.begin(len(body))
        for byte in body:
            self.write(bytes([byte]))
            time.sleep(0.05)

    def stall(self, rest: str) -> None:
        body = self.stored(rest) or b""
        self.begin(len(body))
        self.write(body[: len(body) // 2])
        time.sleep(LONG_S)

    def truncated(self, rest: str) -> None:
        body = self.stored(rest) or b""
        self.begin(len(body))
        self.write(body[: len(body) // 2])
        self.close_connection = True

    def cut(self, rest: str) -> None:
        """Half of the file, whole as HTTP goes."""
        body = self.stored(rest) or b""
        self.answer(200, body[: len(body) // 2])

    def too_long(self, rest: str) -> None:
        """Said to be a terabyte."""
        self.begin(1 << 40)
        self.endless()

    def endless(self, rest: str = "") -> None:
        """Without a length."""
        if rest:
            self.begin(None)
        while True:
            self.write(b"x" * (1 << 16))

    def flipped(self, rest: str) -> None:
        """One bit in the middle of the first page's successor, which is the first file."""
        body = bytearray(self.stored(rest) or b"")
        body[min(4100, len(body) - 1)] ^= 1
        self.answer(200, bytes(body))

    def other(self, rest: str) -> None:
        """Another file of the folder than was asked for."""
        names = sorted(p for p in self.folder.rglob("*") if p.is_file() and p.name != Path(rest).name)
        self.answer(200, names[0].read_bytes()) if names else self.answer(404)

    def reset(self, rest: str) -> None:
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.connection.close()
        self.close_connection = True

    def garbage(self, rest: str) -> None:
        self.write(b"\x00\x01\x02 not HTTP\r\n\r\n")
        self.close_connection = True

    def flaky(self, rest: str) -> None:
        """/flaky/3/...: so many 503 in all, then as it should."""
        count, _, file = rest.partition("/")
        done = self.failures.get(count, 0)
        self.failures[count] = done + 1
        self.answer(503) if done < int(count) else self.ok(file)

    def do_GET(self) -> None:  # noqa: N802 (the name is the standard library's)
        if self.path == "/log":
            self.answer(200, json.dumps(self.log).encode())
            return
        self.record()
        fault, _, rest = self.path.lstrip("/").partition("/")
        action: Callable[[str], None] | None = getattr(self, fault.replace("-", "_"), None)
        self.answer(404) if action is None else action(rest)

    do_HEAD = do_GET  # noqa: N815

    def do_PUT(self) -> None:  # noqa: N802
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.record(body)
        fault, _, rest = self.path.lstrip("/").partition("/")
        if fault == "guarded" and self.headers.get("Authorization") != TOKEN:
            self.answer(401)
        elif fault in ("ok", "guarded"):
            self.store(rest, body)
        elif fault == "takes-nothing":
            self.answer(int(rest.split("/")[0]))
        else:
            getattr(self, fault.replace("-", "_"))(rest)

    def takes_nothing(self, rest: str) -> None:
        """/takes-nothing/413/...: has nothing, and PUT has that status."""
        self.answer(404)

    def store(self, rest: str, body: bytes) -> None:
        path = self.folder / rest
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.{threading.get_ident()}")
        unfinished.write_bytes(body)
        os.replace(unfinished, path)
        self.answer(201)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        pass  # a client that went away, or a certificate that it did not like


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--certificate", type=Path, help="of localhost, with its key: HTTPS")
    arguments = parser.parse_args()
    Handler.folder = arguments.folder
    server = Server(("127.0.0.1", 0), Handler)
    if arguments.certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(arguments.certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
