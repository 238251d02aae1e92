"""Types of A, B and C and the promise on sums, on the command line."""

import unittest

from spjit_tool import FAILED, USAGE, ToolTest


class TypesTest(ToolTest):
    def setUp(self):
        super().setUp()
        # Whole numbers up to 7, which every type has.
        entries = [(row, column, 1 + (row * column) % 7)
                   for row in range(1, 13) for column in range(1, 11) if (row + column) % 3]
        lines = ["%%MatrixMarket matrix coordinate real general", f"12 10 {len(entries)}"]
        lines += [f"{row} {column} {value}" for row, column, value in entries]
        (self.folder / "whole.mtx").write_text("\n".join(lines) + "\n")

    def layer(self, *arguments):
        return self.run_json("compile", "whole.mtx", "--n", 9, *arguments)["layers"][0]

    def test_layers_of_other_types_are_checked_and_measured(self):
        for types, promise, families in (("bf16,bf16,i8", "ordered", {"compact", "csr"}),
                                         ("i8,u8,i32", "integer", {"byte_windows"}),
                                         ("i4,i8,i8", "integer", {"byte_windows"}),
                                         ("u8,u8,i32", "integer", {"reference"}),
                                         ("f16,f32,u8", "bounded:1e-6", {"reference"})):
            with self.subTest(types):
                layer = self.layer("--types", types, "--accumulate", promise, "--residual")

                # A CPU without AVX2 has the slow family alone.
                self.assertIn(layer["kernel"]["family"], families | {"csr", "reference"})
                if self.run_json("devices", "--no-measure")["host"]["avx2_fma"]:
                    self.assertIn(layer["kernel"]["family"], families)
                self.assertTrue(layer["verification"]["complete"])
                self.assertLessEqual(layer["verification"]["max_error_over_bound"], 1)
                self.assertGreater(layer["speed"]["median_us"], 0)
                self.assertIn("no peer has other types", layer["speed"]["csr"]["skipped"])

    def test_sums_in_order_have_the_family_of_floats(self):
        family = self.layer("--no-measure")["kernel"]["family"]
        for types in ("bf16,bf16,bf16", "f16,f32,f16", "i8,f32,f32"):
            with self.subTest(types):
                layer = self.layer("--types", types, "--bias", "--residual")

                self.assertEqual(layer["kernel"]["family"], family)
                self.assertLessEqual(layer["verification"]["max_error_over_bound"], 1)

    def test_sums_of_integers_are_exact(self):
        layer = self.layer("--types", "i8,u8,i32", "--accumulate", "integer")

        self.assertEqual(layer["verification"]["max_abs_error"], 0)

    def test_layers_that_quantize_b_are_checked_exactly(self):
        for how, types in (("tensor", "i8,f32,f32"), ("token", "i8,f32,bf16"),
                           ("given", "i8,u8,f32"), ("given", "i4,i8,i8")):
            with self.subTest(how):
                layer = self.layer("--types", types, "--accumulate", "integer", "--quantize", how,
                                   "--bias")

                self.assertTrue(layer["verification"]["complete"])
                self.assertEqual(layer["verification"]["max_abs_error"], 0)
                self.assertEqual(layer["kernel"]["numerics"]["quantize"], how)

    def test_bench_checks_a_batch_that_is_one_tensor(self):
        self.succeed("bench", "whole.mtx", "--n", 9, "--types", "i8,f32,f32", "--accumulate",
                     "integer", "--quantize", "tensor", "--batch", 3, "--budget", 20)

    def test_default_types_are_the_same_layer(self):
        first = self.layer("--no-measure")
        same = self.layer("--no-measure", "--types", "f32,f32,f32", "--accumulate", "ordered")

        self.assertEqual(same["kernel"]["key"], first["kernel"]["key"])
        self.assertTrue(same["kernel"]["from_cache"])

    def test_explain_names_them(self):
        text = self.succeed("explain", "whole.mtx", "--n", 9, "--types", "bf16,bf16,i32").stdout

        self.assertIn("types       bf16,bf16,i32 ordered", text)
        self.assertIn("it does not take C of i32", text)

    def test_bench_times_them_without_peers(self):
        result = self.succeed("bench", "whole.mtx", "--n", 9, "--types", "bf16,f32,f32",
                              "--budget", 20)

        self.assertIn("no peer has other types than f32 here", result.stdout + result.stderr)

    def test_what_is_no_type_or_promise_is_refused(self):
        for arguments, message in (
                (("--types", "bf16"), "expected three, of A, B and C"),
                (("--types", "bf16,fp8,f32"), 'data type "fp8" is unknown'),
                (("--types", "f32,i4,f32"), "the type of B is i4"),
                (("--accumulate", "exact"), "expected ordered, tensor, integer or bounded:EPS"),
                (("--accumulate", "integer"), "expected A and B of integers"),
                (("--quantize", "row"), "expected none, given, tensor or token"),
                (("--quantize", "token"), "expected integer, and B of f32")):
            with self.subTest(arguments):
                result = self.run_tool("compile", "whole.mtx", "--n", 9, *arguments)

                self.assertEqual(result.returncode, USAGE)
                self.assertIn(message, result.stderr)

    def test_a_value_that_the_type_does_not_have_is_named(self):
        self.generate("random.npz")

        result = self.run_tool("compile", "random.npz", "--n", 9, "--types", "bf16,f32,f32")

        self.assertEqual(result.returncode, FAILED)
        self.assertRegex(result.stderr, r"A\[\d+\]\[\d+\] is .*, which bf16 does not have")


if __name__ == "__main__":
    unittest.main()
