"""The options and variables of the cache that commands share."""

import unittest

from spjit_tool import FAILED, OK, USAGE, ToolTest


class CacheOptionsTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.generate(sparsity=0.5)  # more entries than take a note

    def compile(self, *arguments, n=8, **extra):
        document = self.run_json("compile", "layer.npz", "--n", n, "--no-measure", "--no-verify",
                                 *arguments, **extra)
        return document["layers"][0]

    def make_unsafe(self):
        self.cache.mkdir()
        self.cache.chmod(0o777)

    def test_an_unsafe_directory_is_refused_in_one_line_unless_allowed(self):
        self.make_unsafe()

        for command in [["compile", "layer.npz", "--n", 8, "--cache", self.cache],
                        ["cache", "ls"], ["cache", "clear", "--yes"]]:
            result = self.run_tool(*command)
            self.assert_error(result, FAILED, str(self.cache), "mode 0777", "--cache-unsafe")
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        layer = self.compile("--cache", self.cache, "--cache-unsafe")
        again = self.compile(SPJIT_CACHE_UNSAFE="1")
        listed = self.run_json("cache", "ls", "--cache-unsafe")

        self.assertEqual([note for note in layer["notes"] if str(self.cache) in note], [])
        self.assertTrue(again["kernel"]["from_cache"])
        self.assertEqual(len(listed["entries"]), 1)

    def test_an_unsafe_default_directory_is_a_note(self):
        self.make_unsafe()

        layer = self.compile()

        self.assertFalse(layer["kernel"]["from_cache"])
        self.assertTrue(any("mode 0777" in note for note in layer["notes"]), layer["notes"])

    def test_layers_are_read_in_order_and_never_written(self):
        self.compile("--cache", "one", n=8)
        self.compile("--cache", "two", n=9)
        layers = ["--cache-layer", "one", "--cache-layer", "two"]

        first = self.compile(*layers, n=8)["kernel"]
        second = self.compile(*layers, n=9)["kernel"]
        fresh = self.compile(*layers, n=10)["kernel"]
        by_variable = self.compile(n=9, SPJIT_CACHE_LAYERS="one:two")["kernel"]

        self.assertEqual([first["cache_directory"], second["cache_directory"],
                          by_variable["cache_directory"]], ["one", "two", "two"])
        self.assertFalse(fresh["from_cache"])
        self.assertIsNone(fresh["cache_directory"])
        self.assertEqual(len(self.run_json("cache", "ls", "--cache", "one")["entries"]), 1)
        self.assertEqual(len(self.run_json("cache", "ls")["entries"]), 1)

    def test_a_bundle_is_a_layer(self):
        self.compile("--cache", "elsewhere", "-o", "model.spjit", n=8)

        layer = self.compile("--cache-layer", "model.spjit", n=8)["kernel"]
        by_variable = self.compile(n=8, SPJIT_CACHE_LAYERS="model.spjit")["kernel"]

        self.assertEqual([layer["cache_directory"], by_variable["cache_directory"]],
                         ["model.spjit", "model.spjit"])
        self.assertEqual(self.run_json("cache", "ls")["entries"], [])

    def test_a_damaged_bundle_is_an_error_if_named_and_a_note_of_the_variable(self):
        self.compile("-o", "model.spjit", n=8)
        content = (self.folder / "model.spjit").read_bytes()
        (self.folder / "bad.spjit").write_bytes(content[:-1])

        result = self.run_tool("compile", "layer.npz", "--n", 9, "--cache-layer", "bad.spjit")
        layer = self.compile(n=9, SPJIT_CACHE_LAYERS="bad.spjit")

        self.assert_error(result, FAILED, "bad.spjit")
        self.assertTrue(any("bad.spjit" in note for note in layer["notes"]), layer["notes"])

    def test_a_missing_layer_is_an_error_if_named_and_a_note_of_the_variable(self):
        result = self.run_tool("compile", "layer.npz", "--n", 8, "--cache-layer", "nowhere")
        layer = self.compile(SPJIT_CACHE_LAYERS="nowhere")

        self.assert_error(result, FAILED, "nowhere")
        self.assertTrue(any("nowhere" in note for note in layer["notes"]), layer["notes"])

    def test_a_layer_option_takes_one_directory(self):
        self.compile("--cache", "one")

        result = self.run_tool("compile", "--n", 8, "--no-measure", "--no-verify", "--cache-layer",
                               "one", "layer.npz")

        self.assertEqual(result.returncode, OK, result.stderr)

    def test_a_size_that_is_none_is_a_usage_error(self):
        for size in ["lots", "-1", "1.5G", "2GB"]:
            result = self.run_tool("compile", "layer.npz", "--n", 8, f"--cache-size={size}")
            self.assert_error(result, USAGE, "--cache-size", size, "such as 2G")
            result = self.run_tool("compile", "layer.npz", "--n", 8, SPJIT_CACHE_SIZE=size)
            self.assert_error(result, USAGE, "SPJIT_CACHE_SIZE", size, "such as 2G")
        result = self.run_tool("compile", "layer.npz", "--n", 8, SPJIT_CACHE_UNSAFE="maybe")
        self.assert_error(result, USAGE, "SPJIT_CACHE_UNSAFE", "maybe")

    def test_the_least_recently_used_kernel_makes_room(self):
        import os

        for size, left in [("1K", 1), ("0", 2)]:
            with self.subTest(size=size):
                self.run_json("cache", "clear", "--yes")
                self.compile(n=8)
                for record in self.cache.rglob("record.json"):
                    os.utime(record, (1_600_000_000, 1_600_000_000))

                self.compile("--cache-size", size, n=9)

                self.assertEqual(len(self.run_json("cache", "ls")["entries"]), left)

    def test_no_cache_excludes_what_a_cache_is_for(self):
        for option in [["--cache-size", "1G"], ["--cache-layer", "x"], ["--cache-unsafe"]]:
            result = self.run_tool("compile", "layer.npz", "--n", 8, "--no-cache", *option)
            self.assert_error(result, USAGE, "--no-cache", option[0])


if __name__ == "__main__":
    unittest.main()
