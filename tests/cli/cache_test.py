"""spjit cache verify, prune, export, import."""

import os
import unittest

from spjit_tool import FAILED, SOME_FAILED, USAGE, ToolTest


class CacheActionTest(ToolTest):
    def compile_kernels(self, count: int = 2) -> list[str]:
        """Kernels in the cache; their keys, ascending."""
        self.generate()
        for n in range(1, count + 1):
            self.succeed("compile", "layer.npz", "--n", n, "--no-measure", "--no-verify")
        return self.keys()

    def keys(self, *arguments: object) -> list[str]:
        return [entry["key"] for entry in self.run_json("cache", "ls", *arguments)["entries"]]

    def entry(self, key: str):
        return self.cache / key[:2] / key

    def damage(self, key: str) -> None:
        path = self.entry(key) / "kernel.o"
        path.chmod(0o600)
        with open(path, "r+b") as file:
            file.seek(100)
            byte = file.read(1)
            file.seek(100)
            file.write(bytes([byte[0] ^ 1]))

    def grow_old(self, key: str, seconds: int = 100_000) -> None:
        record = self.entry(key) / "record.json"
        time = record.stat().st_mtime - seconds
        os.utime(record, (time, time))


class VerifyTest(CacheActionTest):
    def test_a_whole_cache(self):
        keys = self.compile_kernels()

        report = self.run_json("cache", "verify")
        text = self.succeed("cache", "verify").stdout

        self.assertEqual(report["entries"], len(keys))
        self.assertEqual(report["bytes"], self.run_json("cache", "ls")["bytes"])
        self.assertEqual(report["damaged"], [])
        self.assertIn("2 kernels", text)
        self.assertIn("0 damaged", text)

    def test_damaged_kernels_are_named_and_put_aside(self):
        first, second = self.compile_kernels()
        self.damage(second)

        result = self.run_tool("cache", "verify")

        self.assert_error(result, SOME_FAILED, second, "kernel.o")
        self.assertIn("1 damaged", result.stdout)
        self.assertEqual(self.keys(), [first])
        self.assertEqual(self.run_json("cache", "verify")["damaged"], [])

    def test_json_names_what_is_damaged(self):
        for key in self.compile_kernels():
            self.damage(key)
            size = sum(file.stat().st_size for file in self.entry(key).iterdir())

        report = self.run_json("cache", "verify", status=SOME_FAILED)

        self.assertEqual(len(report["damaged"]), 2)
        self.assertEqual(report["damaged"][1]["key"], key)
        self.assertEqual(report["damaged"][1]["bytes"], size)
        self.assertIn("kernel.o", report["damaged"][1]["problem"])

    def test_a_cache_that_does_not_exist_is_whole(self):
        self.assertEqual(self.run_json("cache", "verify")["entries"], 0)

    def test_a_cache_that_is_named_and_not_there_is_an_error(self):
        for action in [["ls"], ["show", "3f"], ["verify"], ["prune", "--size", 1],
                       ["clear", "--yes"], ["export", "--out", "k.spjit"]]:
            with self.subTest(action=action):
                result = self.run_tool("cache", *action, "--cache", "nowhere")

                self.assert_error(result, FAILED, "no cache directory 'nowhere'")
                self.assertEqual(list(self.folder.iterdir()), [])


class PruneTest(CacheActionTest):
    def test_by_time_of_last_use(self):
        first, second = self.compile_kernels()
        self.grow_old(first)

        report = self.run_json("cache", "prune", "--unused-for", "1d")

        self.assertEqual(report["entries_removed"], 1)
        self.assertGreater(report["bytes_removed"], 0)
        self.assertFalse(report["dry_run"])
        self.assertEqual(self.keys(), [second])

    def test_by_size_the_least_recently_used_go_first(self):
        first, second, third = self.compile_kernels(3)
        self.grow_old(first, 1000)
        self.grow_old(second, 3000)
        self.grow_old(third, 2000)
        sizes = {entry["key"]: entry["bytes"]
                 for entry in self.run_json("cache", "ls")["entries"]}

        self.succeed("cache", "prune", "--size", sizes[first] + sizes[third])

        self.assertEqual(self.keys(), [first, third])

    def test_kernels_in_use_stay(self):
        keys = self.compile_kernels()
        for key in keys:
            os.utime(self.entry(key) / "record.json")  # used just now

        self.succeed("cache", "prune", "--size", 0, "--unused-for", "0s", "--other-versions")

        self.assertEqual(self.keys(), keys)

    def test_a_dry_run_says_the_same_and_removes_nothing(self):
        keys = self.compile_kernels()
        for key in keys:
            self.grow_old(key)
        arguments = ["cache", "prune", "--size", 0, "--unused-for", "1h", "--other-versions"]

        promised = self.run_json(*arguments, "--dry-run")
        text = self.succeed(*arguments, "--dry-run").stdout
        kept = self.keys()
        done = self.run_json(*arguments)

        self.assertTrue(promised.pop("dry_run"))
        self.assertFalse(done.pop("dry_run"))
        self.assertEqual(promised, done)
        self.assertEqual(done["entries_removed"], 2)
        self.assertIn("would remove 2 kernels", text)
        self.assertEqual(kept, keys)
        self.assertEqual(self.keys(), [])

    def test_damaged_kernels_that_were_put_aside(self):
        first, second = self.compile_kernels()
        self.damage(second)
        self.run_tool("cache", "verify")

        promised = self.run_json("cache", "prune", "--other-versions", "--dry-run")
        done = self.run_json("cache", "prune", "--other-versions")

        self.assertEqual(promised["entries_removed"], 1)
        self.assertEqual(done["entries_removed"], 1)
        self.assertEqual(list((self.cache / "damaged").iterdir()), [])
        self.assertEqual(self.keys(), [first])

    def test_something_must_be_asked_for_in_known_units(self):
        for arguments in [[], ["--dry-run"], ["--size", "2X"], ["--size", "-1"],
                          ["--size", "1.5G"], ["--unused-for", "30"], ["--unused-for", "1y"],
                          ["--unused-for", ""]]:
            with self.subTest(arguments=arguments):
                self.assert_error(self.run_tool("cache", "prune", *arguments), USAGE, "expected")


class ExportTest(CacheActionTest):
    def layers(self, bundle: str) -> list[str]:
        return [kernel["key"] for kernel in self.run_json("bundle", "ls", bundle)["kernels"]]

    def test_kernels_are_bundled(self):
        keys = self.compile_kernels()

        report = self.run_json("cache", "export", "--out", "kernels.spjit")

        self.assertEqual(report["entries"], 2)
        self.assertEqual(report["left_out"], [])
        self.assertEqual(report["bytes"], (self.folder / "kernels.spjit").stat().st_size)
        self.assertEqual(self.layers("kernels.spjit"), keys)
        self.assertIn("2 kernels", self.succeed("bundle", "verify", "kernels.spjit").stdout)

    def test_the_same_kernels_give_the_same_bytes(self):
        self.compile_kernels()

        for name in ["one.spjit", "two.spjit"]:
            self.succeed("cache", "export", "--out", name)

        self.assertEqual((self.folder / "one.spjit").read_bytes(),
                         (self.folder / "two.spjit").read_bytes())

    def test_prefixes_choose_kernels(self):
        first, second = self.compile_kernels()

        self.succeed("cache", "export", second[:12], "--out", "one.spjit")
        self.succeed("cache", "export", first, second[:12], second, "--out", "both.spjit")
        unknown = self.run_tool("cache", "export", first, "xyz", "--out", "none.spjit")

        self.assertEqual(self.layers("one.spjit"), [second])
        self.assertEqual(self.layers("both.spjit"), [first, second])
        self.assert_error(unknown, FAILED, "xyz", "cache ls")
        self.assertFalse((self.folder / "none.spjit").exists())

    def test_a_damaged_kernel_is_left_out_and_named(self):
        first, second = self.compile_kernels()
        self.damage(second)

        result = self.run_tool("cache", "export", "--out", "kernels.spjit")

        self.assert_error(result, SOME_FAILED, second, "left out", "kernel.o")
        self.assertEqual(self.layers("kernels.spjit"), [first])
        self.assertEqual(self.keys(), [first, second])

    def test_of_nothing_but_damage_no_bundle_is_written(self):
        for key in self.compile_kernels():
            self.damage(key)
        (self.folder / "kernels.spjit").write_text("the one of yesterday")

        report = self.run_json("cache", "export", "--out", "kernels.spjit", status=FAILED)

        self.assertEqual(len(report["left_out"]), 2)
        self.assertEqual((self.folder / "kernels.spjit").read_text(), "the one of yesterday")

    def test_there_is_no_bundle_of_a_cache_that_is_not_there(self):
        result = self.run_tool("cache", "export", "--out", "kernels.spjit")

        self.assert_error(result, FAILED, "no cache directory", str(self.cache))
        self.assertFalse((self.folder / "kernels.spjit").exists())

    def test_a_file_that_is_there_is_replaced_whole(self):
        self.compile_kernels(1)
        (self.folder / "kernels.spjit").write_text("old")

        self.succeed("cache", "export", "--out", "kernels.spjit")

        self.assertEqual(len(self.layers("kernels.spjit")), 1)
        self.assertEqual(sorted(path.name for path in self.folder.glob("kernels*")),
                         ["kernels.spjit"])

    def test_a_bundle_that_cannot_be_written(self):
        self.compile_kernels(1)

        self.assert_error(self.run_tool("cache", "export", "--out", "no/such/k.spjit"), FAILED,
                          "no/such/k.spjit")
        self.assert_error(self.run_tool("cache", "export", "--out", "/dev/null"), FAILED,
                          "/dev/null", "no regular file")
        self.assert_error(self.run_tool("cache", "export"), USAGE, "--out")


class ImportTest(CacheActionTest):
    def test_an_imported_kernel_is_used(self):
        keys = self.compile_kernels()
        self.succeed("cache", "export", "--out", "kernels.spjit")

        report = self.run_json("cache", "import", "kernels.spjit", "--cache", "other")
        layer = self.run_json("compile", "layer.npz", "--n", 2, "--cache", "other")["layers"][0]

        self.assertEqual(report["imported"], 2)
        self.assertEqual(report["already_there"], 0)
        self.assertEqual(report["other_versions"], 0)
        self.assertGreater(report["bytes"], 0)
        self.assertEqual(self.keys("--cache", "other"), keys)
        self.assertTrue(layer["kernel"]["from_cache"])
        self.assertTrue(layer["verification"]["passed"])

    def test_what_is_there_stays(self):
        self.compile_kernels()
        self.succeed("cache", "export", "--out", "kernels.spjit")

        text = self.succeed("cache", "import", "kernels.spjit").stdout

        self.assertIn("imported 0 kernels", text)
        self.assertIn("2 were there already", text)

    def test_damaged_cut_short_and_other_files(self):
        self.compile_kernels(1)
        self.succeed("cache", "export", "--out", "kernels.spjit")
        bundle = (self.folder / "kernels.spjit").read_bytes()
        (self.folder / "short.spjit").write_bytes(bundle[:-1])
        (self.folder / "bad.spjit").write_bytes(bundle[:5000] + bytes([bundle[5000] ^ 1])
                                                + bundle[5001:])
        for name, fragment in [("short.spjit", "cut short"), ("bad.spjit", "damaged"),
                               ("layer.npz", "no bundle"), ("missing.spjit", "No such file"),
                               (".", "no regular file")]:
            with self.subTest(name=name):
                result = self.run_tool("cache", "import", name, "--cache", "other")
                self.assert_error(result, FAILED, name, fragment)
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertEqual(list((self.folder / "other").glob("??/*")), [])

    def test_wrong_command_lines(self):
        for arguments in [[], ["a.spjit", "b.spjit"]]:
            self.assertEqual(self.run_tool("cache", "import", *arguments).returncode, USAGE)

    def test_the_help_says_that_kernels_are_code(self):
        self.assertIn("WARNING", self.succeed("cache", "import", "--help").stdout)


if __name__ == "__main__":
    unittest.main()
