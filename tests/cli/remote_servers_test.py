"""The remote cache with real servers: nginx with DAV, and S3 by moto. What is not installed is
skipped by name: nginx (Debian: nginx-light), moto_server (PyPI: moto[server]).
"""

import os
import shutil
import socket
import subprocess
import time
import unittest
import urllib.request

from remote_cache_test import RemoteTest
from spjit_tool import FAILED

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
                                   env={**os.environ, **environment}, cwd=self.folder)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        for _ in range(600):
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", port)) == 0:
                    return process
            self.assertIsNone(process.poll(), "the server ended")
            time.sleep(0.1)
        self.fail("the server does not listen")

    def round_trip(self, remote, **environment):
        made = self.compile("--cache-remote", remote, cache="one", **environment)
        taken = self.compile("--cache-remote", remote, cache="two", **environment)
        self.assertEqual(self.notes(made), "")
        self.assertTrue(taken["kernel"]["from_cache"])
        return made["kernel"]["key"]


class NginxTest(ServerTest):
    def setUp(self):
        super().setUp()
        program = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
        if program is None:
            self.skipTest("there is no nginx; Debian's package is nginx-light")
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
        self.start([program, "-p", folder, "-c", folder / "conf"], self.port)

    def nginx(self, path):
        return self.options(url=f"http://127.0.0.1:{self.port}/{path}")

    def test_round_trip(self):
        self.round_trip(self.nginx("spjit"))
        self.succeed("cache", "check-remote", "--write", "--cache-remote", self.nginx("spjit"))

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
