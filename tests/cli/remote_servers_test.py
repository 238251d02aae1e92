"""The remote cache with real servers: nginx with DAV, and S3 by moto. What is not installed is
skipped by name: nginx (Debian's package), moto_server (PyPI: moto[server]).
scripts/check/server_tests.sh fetches both and runs these.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest
import urllib.request
from pathlib import Path

from remote_cache_test import RemoteTest
from spjit_tool import FAILED, OK, TOOL, long_tests

_NGINX = """
daemon off; worker_processes 1; pid {folder}/pid; error_log stderr crit;
events {{}}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      root {folder}/objects; dav_methods PUT; create_full_put_path on; client_max_body_size 1g;
    }}
    location /small/ {{ root {folder}/objects; dav_methods PUT; create_full_put_path on; }}
    location /only-read/ {{ root {folder}/objects; client_max_body_size 1g; }}
  }}
}}
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class ServerTest(RemoteTest):
    def start(self, command, port, **environment):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env={**os.environ, **environment}, cwd=self.folder,
                                   start_new_session=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        for _ in range(600):
            with socket.socket() as client:
                # Where nobody listens, a socket may come to be connected with itself.
                if (client.connect_ex(("127.0.0.1", port)) == 0
                        and client.getsockname()[1] != port):
                    return process
            self.assertIsNone(process.poll(), "the server ended")
            time.sleep(0.1)
        self.fail("the server does not listen")

    def round_trip(self, remote, **environment):
        by_rules = "--choice", "rules"  # a model's choice is a note
        made = self.compile("--cache-remote", remote, *by_rules, cache="one", **environment)
        taken = self.compile("--cache-remote", remote, *by_rules, cache="two", **environment)
        self.assertEqual(self.notes(made), "")
        self.assertTrue(taken["kernel"]["from_cache"])
        return made["kernel"]["key"]


class KillingRelay:
    """Passes bytes on to a port, and kills `victim` once so many have come from it."""

    def __init__(self, to, offset):
        self.to, self.offset, self.victim = to, offset, None
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def __enter__(self):
        self.threads = [threading.Thread(target=self.accept, daemon=True)]
        self.threads[0].start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.to))
                threading.Thread(target=self.pass_on, args=(client, server, True),
                                 daemon=True).start()
                threading.Thread(target=self.pass_on, args=(server, client, False),
                                 daemon=True).start()

    def pass_on(self, source, sink, counts):
        with contextlib.suppress(OSError), source, sink:
            while data := source.recv(4096):
                if counts:
                    self.offset -= len(data)
                    if self.offset <= 0:
                        self.victim.kill()
                        return
                sink.sendall(data)


class NginxTest(ServerTest):
    def setUp(self):
        super().setUp()
        program = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
        if program is None:
            self.skipTest("there is no nginx; Debian's package is nginx")
        folder = self.folder / "nginx"
        for name in ["objects/small", "objects/only-read"]:
            (folder / name).mkdir(parents=True)
        folder.chmod(0o755)
        self.folder.chmod(0o755)
        (folder / "objects").chmod(0o777)
        for path in (folder / "objects").iterdir():
            path.chmod(0o777)
        self.port = free_port()
        (folder / "conf").write_text(_NGINX.format(folder=folder, port=self.port))
        self.command = [program, "-p", folder, "-c", folder / "conf"]
        self.start_nginx()
        self.addCleanup(lambda: self.kill_nginx())

    def start_nginx(self):
        self.process = self.start(self.command, self.port)

    def kill_nginx(self):
        """With its workers. Afterwards nobody listens, so that a new one is not taken for it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for _ in range(600):
            with socket.socket() as client:
                if (client.connect_ex(("127.0.0.1", self.port)) != 0
                        or client.getsockname()[1] == self.port):
                    return
            time.sleep(0.1)
        self.fail("the killed server still listens")

    def large_object(self):
        """An entry of 2 MB in the cache `one`: its key, and its object."""
        self.generate("large.npz", 700, 600, 0.4)
        self.compile_large("--cache", "one")
        self.succeed("cache", "push", "--cache", "one", "--cache-remote", self.nginx("whole"))
        [path] = (self.folder / "nginx" / "objects" / "whole").rglob("*.spjit")
        return path.stem, path.read_bytes()

    def compile_large(self, *arguments):
        self.succeed("compile", "large.npz", "--n", 8, "--no-measure", "--no-verify", *arguments)

    def assert_absent_or(self, key, whole):
        """What a reader gets: nothing, or the whole object, which spjit takes."""
        path = self.folder / "nginx" / "objects" / "spjit" / key[:2] / f"{key}.spjit"
        if path.exists():
            self.assertEqual(path.read_bytes(), whole)
            path.unlink()
            return
        result = self.run_tool("cache", "pull", key, "--cache", "two", "--cache-remote",
                               self.nginx("spjit"))
        self.assert_error(result, FAILED, key, "does not have it")

    def nginx(self, path):
        return self.options(url=f"http://127.0.0.1:{self.port}/{path}")

    def test_round_trip(self):
        self.round_trip(self.nginx("spjit"))
        self.succeed("cache", "check-remote", "--write", "--cache-remote", self.nginx("spjit"))

    def test_a_client_killed_while_it_writes_leaves_nothing(self):
        key, whole = self.large_object()
        draw = random.Random(42)
        for _ in range(50 if long_tests() else 12):
            offset = draw.randrange(1, len(whole))
            with self.subTest(offset=offset):
                with KillingRelay(self.port, offset) as relay:
                    url = f"http://127.0.0.1:{relay.port}/spjit"
                    pushing = subprocess.Popen(
                        [TOOL, "cache", "push", "--cache", "one", "--cache-remote",
                         self.options("relay.json", url=url, total_ms=60_000)],
                        cwd=self.folder, env=self.environment(), stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL)
                    relay.victim = pushing
                    self.assertEqual(pushing.wait(), -signal.SIGKILL)
                self.assert_absent_or(key, whole)

    def test_a_server_killed_while_it_takes_leaves_nothing(self):
        key, whole = self.large_object()
        draw = random.Random(43)
        for _ in range(50 if long_tests() else 6):
            offset = draw.randrange(1, len(whole))
            with self.subTest(offset=offset):
                with socket.create_connection(("127.0.0.1", self.port)) as client:
                    client.sendall(f"PUT /spjit/{key[:2]}/{key}.spjit HTTP/1.1\r\nHost: x\r\n"
                                   f"Content-Length: {len(whole)}\r\n\r\n".encode())
                    client.sendall(whole[:offset])
                    self.kill_nginx()
                self.start_nginx()
                self.assert_absent_or(key, whole)

    def test_many_clients_at_once(self):
        """Each with a cache of its own takes all keys; 100 clients of 1000 keys in the long form."""
        clients, count = (100, 1000) if long_tests() else (10, 30)
        for n in range(1, count + 1):
            self.succeed("compile", "layer.npz", "--n", n, "--no-measure", "--no-verify",
                         "--cache", "one")
        self.succeed("cache", "push", "--cache", "one", "--cache-remote", self.nginx("spjit"))
        keys = [path.stem for path in (self.folder / "nginx" / "objects").rglob("*.spjit")]
        self.assertEqual(len(keys), count)
        remote = self.options(url=f"http://127.0.0.1:{self.port}/spjit", timeout_ms=60_000,
                              total_ms=120_000)

        pulls = [subprocess.Popen([TOOL, "cache", "pull", *random.Random(i).sample(keys, count),
                                   "--cache", f"client{i}", "--cache-remote", remote, "--json"],
                                  cwd=self.folder, env=self.environment(), text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                 for i in range(clients)]

        for pull in pulls:
            output, errors = pull.communicate(timeout=600)
            self.assertEqual((pull.returncode, errors), (OK, ""))
            self.assertEqual(json.loads(output)["pulled"], count)
        self.succeed("cache", "verify", "--cache", "client0")

    def test_its_limit_of_sizes_and_missing_rights_are_named(self):
        for path, fragment in [("small", "client_max_body_size"), ("only-read", "dav_methods")]:
            result = self.run_tool("cache", "check-remote", "--write", "--cache-remote",
                                   self.nginx(path))
            self.assert_error(result, FAILED, fragment)


class S3Test(ServerTest):
    def test_round_trip(self):
        program = shutil.which("moto_server")
        if program is None:
            self.skipTest("there is no moto_server; PyPI's package is moto[server]")
        port = free_port()
        self.start([program, "-H", "127.0.0.1", "-p", str(port)], port)
        bucket = f"http://127.0.0.1:{port}/bucket"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        opener.open(urllib.request.Request(bucket, method="PUT")).close()
        remote = self.options(url=f"s3+{bucket}/prefix")

        key = self.round_trip(remote, AWS_ACCESS_KEY_ID="AKID", AWS_REGION="us-east-1",
                              AWS_SECRET_ACCESS_KEY="very-secret")

        with opener.open(f"{bucket}?list-type=2&prefix=prefix/") as answer:
            self.assertIn(f"prefix/{key[:2]}/{key}.spjit", answer.read().decode())


del RemoteTest, ServerTest  # or they would be collected again

if __name__ == "__main__":
    unittest.main()
