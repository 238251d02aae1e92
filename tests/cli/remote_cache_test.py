"""Kernels on a server: --cache-remote, its files, and cache push, pull, check-remote."""

import json
import time
import unittest

from fault_server import OTHER_PUBLIC_KEY, PRIVATE_KEY, PUBLIC_KEY, TOKEN, FaultServer
from spjit_tool import FAILED, OK, SOME_FAILED, USAGE, ToolTest


class RemoteTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.server = FaultServer(self)
        for name, text in [("private.pem", PRIVATE_KEY), ("public.pem", PUBLIC_KEY),
                           ("other.pem", OTHER_PUBLIC_KEY), ("token", TOKEN + "\n")]:
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o600)
        self.generate(sparsity=0.5)

    def environment(self, **extra):
        return {**super().environment(), "no_proxy": "127.0.0.1,localhost", **extra}

    def options(self, name="remote.json", fault="ok", leave_out=(), **changes):
        """A file of options: reads and writes signed kernels, all that are compiled."""
        members = {"url": self.server.url(fault), "mode": "read-write",
                   "public_keys": ["public.pem"], "private_key": "private.pem",
                   "dear_only": False, "timeout_ms": 5000, **changes}
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({k: v for k, v in members.items() if k not in leave_out}))
        path.chmod(0o600)
        return path

    def compile(self, *arguments, cache="cache", n=8, **extra):
        """The only layer of the report."""
        return self.run_json("compile", "layer.npz", "--n", n, "--no-measure", "--verify", "full",
                             "--cache", self.folder / cache, *arguments, **extra)["layers"][0]

    def notes(self, layer):
        return "; ".join(layer["notes"])


class CompileTest(RemoteTest):
    def test_what_one_machine_compiles_another_one_takes(self):
        remote = self.options()

        made = self.compile("--cache-remote", remote, cache="one")
        taken = self.compile("--cache-remote", remote, cache="two")
        again = self.compile("--cache-remote", remote, cache="two")

        self.assertFalse(made["kernel"]["from_cache"])
        self.assertTrue(taken["kernel"]["from_cache"])
        self.assertTrue(again["kernel"]["from_cache"])
        self.assertEqual(taken["kernel"]["key"], made["kernel"]["key"])
        self.assertTrue(taken["kernel"]["cache_directory"].endswith("two"))
        key = made["kernel"]["key"]
        path = f"/ok/{key[:2]}/{key}.spjit"
        self.assertEqual(self.server.requests(),
                         [f"GET {path}", f"HEAD {path}", f"PUT {path}", f"GET {path}"])
        self.assertEqual(self.server.log()[2]["Content-Type"], "application/vnd.spjit.bundle.v1")
        self.succeed("bundle", "verify", self.server.objects()[0], "--public-key", "public.pem")

    def test_only_what_is_dear_is_asked_for(self):
        remote = self.options(leave_out=["dear_only"])

        self.compile("--cache-remote", remote)
        self.assertEqual(self.server.requests(), [])
        self.compile("--cache-remote", remote, "--search", "ranked", "--top-k", 1)

        self.assertEqual([line.split()[0] for line in self.server.requests()],
                         ["GET", "HEAD", "PUT"])

    def test_a_server_that_fails_is_a_note_and_the_kernel_is_right(self):
        self.compile("--cache-remote", self.options(), cache="one")
        faults = {"status/500": "500", "loop": "redirects", "truncated": "outstanding|bytes",
                  "cut": "not taken", "flipped": "not taken", "reset": "GET", "garbage": "GET",
                  "slow-first-byte": "no answer after 300 ms", "stall": "not done after 600 ms"}
        for fault, reason in faults.items():
            with self.subTest(fault=fault):
                remote = self.options(fault=fault, mode="read", timeout_ms=300, total_ms=600)
                start = time.monotonic()

                layer = self.compile("--cache-remote", remote, cache=f"of-{fault.split('/')[0]}")

                self.assertLess(time.monotonic() - start, 15)
                self.assertFalse(layer["kernel"]["from_cache"])
                self.assertTrue(layer["verification"]["complete"])
                self.assertIn("remote cache: ", self.notes(layer))
                self.assertRegex(self.notes(layer), reason)

    def test_a_kernel_that_nobody_signed(self):
        writer = self.options("writer.json", leave_out=["private_key"])
        self.compile("--cache-remote", writer, cache="one")

        refused = self.compile("--cache-remote", self.options(mode="read"), cache="two")
        other = self.compile("--cache-remote", self.options(
            mode="read", public_keys=["other.pem"]), cache="three")
        trusting = self.options(mode="read", trust="server")
        taken = self.compile("--cache-remote", trusting, cache="four")
        again = self.compile("--cache-remote", trusting, cache="four")

        for layer in [refused, other]:
            self.assertFalse(layer["kernel"]["from_cache"])
            self.assertIn("is not signed", self.notes(layer))
        for layer in [taken, again]:
            self.assertTrue(layer["kernel"]["from_cache"])
            self.assertIn(f"taken unsigned from {self.server.url()} (trust = server)",
                          self.notes(layer))

    def test_the_token_is_sent_and_never_shown(self):
        remote = self.options(fault="guarded", token_file="token")
        made = self.run_tool("compile", "layer.npz", "--n", 8, "--cache-remote", remote)
        wrong = self.options(fault="status/401", token_file="token")
        refused = self.run_tool("compile", "layer.npz", "--n", 9, "--cache-remote", wrong, "--json")

        self.assertEqual(made.returncode, OK, made.stderr)
        self.assertEqual({entry["Authorization"] for entry in self.server.log()},
                         {f"Bearer {TOKEN}"})
        self.assertEqual(len(self.server.objects()), 1)
        self.assertIn("401", refused.stdout)
        for text in [made.stdout, made.stderr, refused.stdout, refused.stderr]:
            self.assertNotIn(TOKEN, text)

    def test_a_server_that_takes_nothing_is_a_note(self):
        for status, advice in [(413, "client_max_body_size"), (403, "credentials"),
                               (507, "full")]:
            with self.subTest(status=status):
                remote = self.options(fault=f"takes-nothing/{status}")

                result = self.run_tool("compile", "layer.npz", "--n", status, "--cache-remote",
                                       remote)

                self.assertEqual(result.returncode, OK, result.stderr)
                self.assertRegex(result.stderr, f"note: .*status {status}: .*{advice}")

    def test_without_libcurl_it_compiles_and_says_so(self):
        libraries = self.folder / "libraries"
        libraries.mkdir()
        for name in ["libcurl.so.4", "libcurl-gnutls.so.4"]:
            (libraries / name).write_text("no library")
        second = self.folder / "second.npz"
        second.write_bytes((self.folder / "layer.npz").read_bytes())

        layers = self.run_json("compile", "layer.npz", "second.npz", "--n", 8, "--no-measure",
                               "--cache-remote", self.options(),
                               LD_LIBRARY_PATH=str(libraries))["layers"]

        self.assertIn("remote cache not used: HTTP needs libcurl.so.4", self.notes(layers[0]))
        self.assertNotIn("libcurl", self.notes(layers[1]))
        plain = self.compile(LD_LIBRARY_PATH=str(libraries))
        self.assertNotIn("libcurl", self.notes(plain))


class OptionsTest(RemoteTest):
    def test_variable_and_default_file(self):
        keys = {"public_keys": [str(self.folder / "public.pem")],
                "private_key": str(self.folder / "private.pem")}
        self.options("config/spjit/remote.json", **keys)

        self.compile(cache="one")
        found = self.compile(cache="two")
        off = self.compile(cache="three", SPJIT_CACHE_REMOTE="off")
        also_off = self.compile("--cache-remote", "off", cache="four")
        url = self.compile(cache="five", SPJIT_CACHE_REMOTE=self.server.url("ok/"))
        file = self.compile(cache="six", SPJIT_CACHE_REMOTE=str(self.options("six.json")))

        self.assertEqual([layer["kernel"]["from_cache"]
                          for layer in [found, off, also_off, url, file]],
                         [True, False, False, True, True])

    def test_what_is_wrong_is_an_error_if_it_was_named_and_else_a_note(self):
        readable = self.folder / "readable"
        readable.write_text(TOKEN)
        readable.chmod(0o644)
        cases = [({"mode": "write"}, "read-write"), ({"layout": "flatt"}, "subdirs, flat, bazel"),
                 ({"trust": "all"}, "signed, server"), ({"tokn_file": "token"}, "tokn_file"),
                 ({"public_keys": []}, "no public_keys"), ({"public_keys": "k"}, "no list"),
                 ({"public_keys": ["token"]}, "public key"), ({"timeout_ms": 0}, "timeout_ms"),
                 ({"url": "ftp://host/x"}, "https://HOST/PATH"),
                 ({"url": "https://user:word@host/x"}, "holds a user or a password"),
                 ({"token_file": "readable"}, "others can read this secret"),
                 ({"token_file": "token", "netrc": "token"}, "expected one"),
                 ({"private_key": "token"}, "private key"),
                 ({"url": "s3+https://b.s3.eu-west-1.amazonaws.com/p"}, "AWS_ACCESS_KEY_ID"),
                 ({"url": 3}, "url")]
        for changes, fragment in cases:
            with self.subTest(changes=changes):
                remote = self.options(**changes)

                named = self.run_tool("compile", "layer.npz", "--n", 8, "--cache-remote", remote)
                layer = self.compile(SPJIT_CACHE_REMOTE=str(remote))

                self.assert_error(named, USAGE, fragment)
                self.assertIn("remote cache not used: ", self.notes(layer))
                self.assertIn(fragment, self.notes(layer))
                for text in [named.stderr, self.notes(layer)]:
                    self.assertNotIn("word@", text)

    def test_a_file_that_others_can_write(self):
        remote = self.options()
        remote.chmod(0o666)

        self.assert_error(self.run_tool("compile", "layer.npz", "--n", 8, "--cache-remote", remote),
                          USAGE, "remote.json", "chmod go-w")

    def test_a_file_that_is_not_there_or_not_json(self):
        (self.folder / "bad.json").write_text("url = 'https://host'")

        for name in ["bad.json", "absent.json"]:
            result = self.run_tool("compile", "layer.npz", "--n", 8, "--cache-remote", name)
            self.assertIn(result.returncode, [USAGE, FAILED])
            self.assertIn(name, result.stderr)

    def test_s3(self):
        keys = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "very-secret",
                "AWS_REGION": "eu-west-1"}
        file = self.folder / "credentials"
        file.write_text("[other]\naws_access_key_id = NO\n[default]\naws_access_key_id=FILE\n"
                        "aws_secret_access_key = very-secret\nregion = us-east-2")
        file.chmod(0o600)

        self.compile("--cache-remote", self.options(url=f"s3+{self.server.url('ok')}"),
                     cache="one", **keys)
        self.compile("--cache-remote", self.options(url=f"s3+{self.server.url('ok')}",
                                                    aws="credentials"), cache="two")

        for entry, (who, where) in zip([*self.server.log()[:3], self.server.log()[3]],
                                       [("AKID", "eu-west-1")] * 3 + [("FILE", "us-east-2")]):
            self.assertIn(f"Credential={who}/", entry["Authorization"])
            self.assertIn(f"/{where}/s3/aws4_request", entry["Authorization"])
            self.assertEqual(len(entry["x-amz-content-sha256"]), 64)
            self.assertNotIn("very-secret", json.dumps(entry))


class ActionTest(RemoteTest):
    def keys(self, cache):
        return [entry["key"] for entry in
                self.run_json("cache", "ls", "--cache", self.folder / cache)["entries"]]

    def test_push_and_pull(self):
        for n in [8, 9]:
            self.compile(cache="one", n=n)
        remote = self.options(mode="read")
        keys = self.keys("one")

        pushed = self.run_json("cache", "push", "--cache", "one", "--cache-remote", remote)
        again = self.run_json("cache", "push", keys[0][:9], "--cache", "one", "--cache-remote",
                              remote)
        pulled = self.run_json("cache", "pull", *keys, "--cache", "two", "--cache-remote", remote)
        twice = self.run_json("cache", "pull", keys[0], "--cache", "two", "--cache-remote", remote)

        self.assertEqual((pushed["written"], pushed["there_already"], pushed["failed"]), (2, 0, []))
        self.assertEqual((again["written"], again["there_already"]), (0, 1))
        self.assertEqual(pushed["bytes"], sum(o.stat().st_size for o in self.server.objects()))
        self.assertEqual((pulled["pulled"], pulled["bytes"]), (2, pushed["bytes"]))
        self.assertEqual((twice["pulled"], twice["there_already"]), (0, 1))
        self.assertEqual(self.keys("two"), keys)
        self.succeed("cache", "verify", "--cache", "two")

    def test_the_same_kernel_gives_the_same_object(self):
        self.compile(cache="one")
        self.succeed("cache", "push", "--cache", "one", "--cache-remote", self.options())
        first = self.server.objects()[0].read_bytes()
        self.server.objects()[0].unlink()

        self.succeed("cache", "push", "--cache", "one", "--cache-remote", self.options())

        self.assertEqual(self.server.objects()[0].read_bytes(), first)

    def test_what_cannot_be_pulled_is_an_error(self):
        self.compile(cache="one")
        [key] = self.keys("one")
        remote = self.options(leave_out=["private_key"])
        pushed = self.run_tool("cache", "push", "--cache", "one", "--cache-remote", remote)
        absent = "0" * 64

        result = self.run_tool("cache", "pull", key, absent, "--cache", "two", "--cache-remote",
                               remote)
        prefix = self.run_tool("cache", "pull", key[:9], "--cache-remote", remote)

        self.assertIn("unsigned", pushed.stderr)
        self.assert_error(result, FAILED, key, "is not signed")
        self.assert_error(result, FAILED, absent, "does not have it")
        self.assert_error(prefix, USAGE, key[:9], "64 lowercase")
        self.assertFalse(list((self.folder / "two").glob("??/*")))

    def test_a_damaged_kernel_is_not_pushed(self):
        for n in [8, 9]:
            self.compile(cache="one", n=n)
        keys = self.keys("one")
        path = self.folder / "one" / keys[0][:2] / keys[0] / "kernel.o"
        path.chmod(0o600)
        path.write_bytes(path.read_bytes()[:-1] + b"x")

        result = self.run_tool("cache", "push", "--cache", "one", "--cache-remote", self.options())

        self.assert_error(result, SOME_FAILED, keys[0], "kernel.o")
        self.assertEqual([path.stem for path in self.server.objects()], [keys[1]])

    def test_a_remote_has_to_be_named(self):
        self.compile(cache="one")
        for arguments in [["push", "--cache", "one"], ["pull", "0" * 64], ["check-remote"]]:
            self.assert_error(self.run_tool("cache", *arguments), USAGE, "--cache-remote")

    def test_check_remote(self):
        check = ["cache", "check-remote", "--cache-remote"]

        good = self.succeed(*check, self.options())
        writes = self.run_json(*check, self.options(), "--write")
        again = self.run_json(*check, self.options(), "--write")

        self.assertIn("answers", good.stdout)
        self.assertEqual((writes["problem"], again["problem"]), (None, None))
        for fault, fragment in [("status/403", "s3:ListBucket"), ("status/500", "500")]:
            self.assert_error(self.run_tool(*check, self.options(fault=fault)), FAILED, fragment)
        for status, fragment in [(413, "client_max_body_size"), (405, "dav_methods")]:
            result = self.run_tool(*check, self.options(fault=f"takes-nothing/{status}"), "--write")
            self.assert_error(result, FAILED, fragment)
        forgets = self.options(fault="takes-nothing/200", layout="bazel")
        self.assert_error(self.run_tool(*check, forgets, "--write"), FAILED,
                          "--disable_http_ac_validation")


if __name__ == "__main__":
    unittest.main()
