"""spjit compile --verify: a kernel that is wrong fails its layer and reaches nobody.

SPJIT_WRONG_TOOL is the tool with a compiler that makes wrong kernels.
"""

import json
import os
import subprocess
import unittest

from spjit_tool import FAILED, OK, USAGE, ToolTest

WRONG_TOOL = os.environ.get("SPJIT_WRONG_TOOL", "spjit_wrong_tool")


class VerifyTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.generate("layer.npz", 96, 64)

    def run_wrong(self, *arguments):
        """The layer compiled by a compiler that is wrong."""
        return subprocess.run([WRONG_TOOL, "compile", "layer.npz", "--n", "40", "--hot",
                               "--no-measure", *arguments], cwd=self.folder,
                              env=self.environment(), text=True, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=300, check=False)

    def compile(self, *arguments):
        return self.run_json("compile", "layer.npz", "--n", 40, "--hot", "--no-measure",
                             *arguments)["layers"][0]

    def entries(self):
        return self.run_json("cache", "ls")["entries"]

    def test_a_wrong_kernel_fails_the_layer_and_is_not_in_the_cache(self):
        for mode in ["sampled", "full"]:
            result = self.run_wrong("--verify", mode)

            self.assert_error(result, FAILED, "layer.npz", "wrong result: C[", "float64 reference",
                              "please report this matrix")
            self.assertEqual(result.stdout, "")
            self.assertEqual(self.entries(), [])
        after = self.compile("--no-verify")["kernel"]
        self.assertFalse(after["from_cache"])
        self.assertTrue(self.compile()["verification"]["passed"])
        self.assertTrue(self.compile("--no-verify")["kernel"]["from_cache"])

    def test_a_wrong_kernel_is_told_in_the_json_document(self):
        result = self.run_wrong("--json")

        self.assertEqual(result.returncode, FAILED)
        document = json.loads(result.stdout)
        self.assertEqual(document["failed"], 1)
        self.assertIn("wrong result: C[", document["layers"][0]["error"])

    def test_a_wrong_kernel_writes_no_files(self):
        self.run_wrong("--out", "out")

        self.assertEqual(list((self.folder / "out").iterdir()), [])

    def test_a_wrong_kernel_in_the_cache_is_taken_out_and_compiled_anew(self):
        self.assertEqual(self.run_wrong("--no-verify").returncode, OK)
        wrong = self.entries()
        self.assertEqual(wrong[0]["kernel"]["verification"], {"mode": "none"})

        layer = self.compile()
        again = self.compile()

        self.assertFalse(layer["kernel"]["from_cache"])
        self.assertEqual(layer["kernel"]["key"], wrong[0]["key"])
        self.assertTrue(any("failed the check: wrong result: C[" in note
                            for note in layer["notes"]), layer["notes"])
        self.assertTrue(layer["verification"]["passed"])
        self.assertEqual(self.entries()[0]["kernel"]["verification"]["mode"], "sampled")
        self.assertTrue(again["kernel"]["from_cache"])
        self.assertEqual(again["notes"], [])

    def test_a_wrong_kernel_in_the_cache_that_is_wrong_anew_leaves_none(self):
        self.assertEqual(self.run_wrong("--no-verify").returncode, OK)

        result = self.run_wrong()

        self.assert_error(result, FAILED, "wrong result: C[", "failed the check")
        self.assertEqual(self.entries(), [])

    def test_the_modes(self):
        by_default = self.compile("--no-cache")
        full = self.compile("--no-cache", "--verify", "full")
        none = self.compile("--no-cache", "--verify", "none")
        short = self.run_json("compile", "layer.npz", "--n", 40, "--no-measure", "--no-verify")

        self.assertEqual(by_default["verification"]["mode"], "sampled")
        self.assertEqual(by_default["record"]["verification"]["seed"], 20240229)
        self.assertEqual(full["verification"]["mode"], "full")
        self.assertIsNone(none["verification"])
        self.assertEqual(none["record"]["verification"], {"mode": "none"})
        self.assertEqual(short["options"]["verify"], "none")
        self.assertIsNone(short["layers"][0]["verification"])

    def test_a_mode_that_is_none_and_two_of_them_are_refused(self):
        wrong = self.run_tool("compile", "layer.npz", "--n", 8, "--verify", "some")
        both = self.run_tool("compile", "layer.npz", "--n", 8, "--verify", "full", "--no-verify")

        self.assert_error(wrong, USAGE, "some", "none, sampled or full")
        self.assert_error(both, USAGE, "--no-verify")

    def test_full_checks_all_of_a_large_layer(self):
        self.generate("layer.npz", 2000, 1000, 0.5)

        layer = self.compile("--verify", "full")

        self.assertTrue(layer["verification"]["complete"])
        self.assertEqual(layer["verification"]["rows_checked"], 2000)
        self.assertEqual(layer["notes"], [])


class FamilyTest(ToolTest):
    def test_a_kernel_that_reads_the_matrix_has_a_family_and_no_tile(self):
        self.generate("layer.npz", 96, 64)
        for arguments in [["--n", 1], ["--n", 9, "--code-budget", 10]]:
            layer = self.run_json("compile", "layer.npz", *arguments,
                                  "--no-measure")["layers"][0]
            family = layer["kernel"]["family"]
            if family == "unrolled":
                continue  # n = 1 without AVX-512

            record = self.run_json("cache", "show", layer["kernel"]["key"])["kernel"]
            row = next(line for line in self.succeed("cache", "ls").stdout.splitlines()
                       if line.startswith(layer["kernel"]["key"][:12]))
            self.assertEqual(record["family"], family)
            self.assertIsNone(record["tile"])
            self.assertIsNone(record["grouping"])
            self.assertEqual(layer["kernel"]["tile"], "")
            self.assertEqual(row.split()[-2:], [family, "-"])


if __name__ == "__main__":
    unittest.main()
