"""What is left when the tool is ended, and when a file cannot grow."""

import os
import resource
import signal
import subprocess
import tempfile
import time
import unittest

from spjit_tool import FAILED, SOME_FAILED, TOOL, ToolTest


class SignalsTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "out"
        self.out.mkdir()
        try:
            fd = os.open(self.out, os.O_TMPFILE | os.O_WRONLY)
        except OSError as error:
            self.skipTest(f"no files without a name on this file system: {error}")
        os.close(fd)

    def is_writing(self, process) -> bool:
        folder = f"/proc/{process.pid}/fd"
        try:
            return any(os.readlink(f"{folder}/{fd}").startswith(str(self.out))
                       for fd in os.listdir(folder))
        except OSError:  # it has ended, or closed the file meanwhile
            return False

    def end_while_writing(self, number) -> bool:
        """Whether the signal came while the file was written."""
        command = [TOOL, "gen", "--rows", "2000", "--cols", "2000", "--sparsity", "0.5", "--out",
                   str(self.out / "a.mtx")]
        with subprocess.Popen(command, env=self.environment(), stdout=subprocess.DEVNULL) as process:
            while process.poll() is None and not self.is_writing(process):
                time.sleep(0.0001)
            process.send_signal(number)
            return process.wait(timeout=300) == -number

    def test_nothing_is_left_of_a_file_that_was_being_written(self):
        for number in [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE,
                       signal.SIGKILL]:
            with self.subTest(signal=number.name):
                ended = any(self.end_while_writing(number) for _ in range(10))
                left = sorted(path.name for path in self.out.iterdir())

                self.assertTrue(ended)
                self.assertIn(left, [[], ["a.mtx"]])  # the latter of a try that came too late
                for path in self.out.iterdir():
                    path.unlink()


class FileLimitTest(ToolTest):
    """With `ulimit -f`: a write past it fails as one on a full disk does."""

    def run_limited(self, *arguments, limit_bytes=2048, **extra):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))

        return subprocess.run([TOOL, *map(str, arguments)], cwd=self.folder,
                              env=self.environment(**extra), text=True, preexec_fn=limit,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=300,
                              check=False)

    def test_a_file_that_cannot_grow_is_an_error_and_leaves_nothing(self):
        result = self.run_limited("gen", "--rows", 100, "--cols", 100, "--out", "a.mtx")

        self.assert_error(result, FAILED, "a.mtx", "too large")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_kernel_that_a_named_cache_cannot_take_is_a_failure(self):
        self.generate("a.npz", 60, 60)
        for command in [["compile", "--no-measure"], ["bench", "--budget", 1, "--threads", 1]]:
            with self.subTest(command=command[0]):
                result = self.run_limited(command[0], "a.npz", "--n", 32, *command[1:], "--cache",
                                          "named")

                self.assert_error(result, FAILED, "a.npz: not cached", "--cache", "too large")
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)

    def test_a_bundle_that_a_second_kernel_does_not_fit_into(self):
        """No mistake in the command line; the first kernel fits."""
        for name in ("a.npz", "b.npz"):
            self.generate(name, 40, 30 if name == "a.npz" else 50)
        result = self.run_limited("compile", "a.npz", "b.npz", "--n", "any", "--no-measure",
                                  "--no-cache", "-o", "m.spjit", limit_bytes=8192)

        self.assert_error(result, FAILED, "b.npz: m.spjit: cannot write")
        self.assert_error(result, FAILED, "m.spjit: not written")
        self.assertFalse((self.folder / "m.spjit").exists())

    def test_the_files_of_such_a_kernel_are_written_all_the_same(self):
        self.generate("a.npz", 60, 60)

        result = self.run_limited("compile", "a.npz", "--n", 32, "--no-measure", "--out", "out",
                                  "--emit", "header", "--cache", "named")

        self.assert_error(result, FAILED, "a.npz: not cached")
        self.assertTrue((self.folder / "out" / "a.hpp").exists())

    def test_in_the_default_cache_it_is_a_note(self):
        self.generate("a.npz", 60, 60)

        result = self.run_limited("compile", "a.npz", "--n", 32, "--no-measure")

        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("not cached", result.stdout)

    def test_other_inputs_go_on(self):
        self.generate("a.npz", 60, 60)
        self.generate("b.npz", 60, 50)
        self.succeed("compile", "b.npz", "--n", 32, "--no-measure", "--cache", "named")

        result = self.run_limited("compile", "a.npz", "b.npz", "--n", 32, "--no-measure",
                                  "--no-verify", "--cache", "named")

        self.assert_error(result, SOME_FAILED, "a.npz: not cached")
        self.assertIn("b.npz", result.stdout)


class ForeignHomeTest(ToolTest):
    def test_root_keeps_no_kernels_in_the_home_of_another_user(self):
        if os.geteuid() != 0:
            self.skipTest("only root can be root in another user's home")
        self.generate("a.npz")
        with tempfile.TemporaryDirectory() as home:
            os.chown(home, 65534, 65534)
            for variables in [{"HOME": home, "XDG_CACHE_HOME": ""}, {"XDG_CACHE_HOME": home}]:
                with self.subTest(variables=variables):
                    result = self.succeed("compile", "a.npz", "--n", 8, "--no-measure",
                                          SPJIT_CACHE_DIR="", **variables)
                    listed = self.run_tool("cache", "ls", SPJIT_CACHE_DIR="", **variables)

                    self.assertIn("belongs to user 65534", result.stdout)
                    self.assertEqual(os.listdir(home), [])
                    self.assert_error(listed, FAILED, "belongs to user 65534", "SPJIT_CACHE_DIR")
            self.succeed("compile", "a.npz", "--n", 8, "--no-measure", SPJIT_CACHE_DIR="mine",
                         HOME=home)
            self.assertTrue((self.folder / "mine").exists())

    def test_nor_in_a_folder_of_another_user_below_its_own_home(self):
        if os.geteuid() != 0:
            self.skipTest("only root can be root in another user's folder")
        self.generate("a.npz")
        home = self.folder / "home"
        theirs = self.folder / "theirs"
        for folder in [home, theirs]:
            folder.mkdir()
        os.chown(theirs, 65534, 65534)
        (home / ".cache").symlink_to(theirs)

        result = self.succeed("compile", "a.npz", "--n", 8, "--no-measure", SPJIT_CACHE_DIR="",
                              XDG_CACHE_HOME="", HOME=str(home))

        self.assertIn("belongs to user 65534", result.stdout)
        self.assertEqual(os.listdir(theirs), [])


if __name__ == "__main__":
    unittest.main()
