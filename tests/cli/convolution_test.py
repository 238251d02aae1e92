"""Convolutions: --conv and what goes with it, in every command; a program that links one."""

import os
import subprocess
import unittest

from spjit_tool import FAILED, USAGE, ToolTest

# 12 filters of 6 channels, 3 x 3; 8 x 7 pixels to 8 x 7.
GEOMETRY = ["--conv", "6x8x7", "--kernel", "3x3", "--pad", "1"]


class ConvolutionTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.generate("conv.npz", 12, 54)

    def compile(self, *arguments):
        return self.run_json("compile", "conv.npz", "--no-measure", *arguments)["layers"][0]

    def convolution(self, *arguments):
        return self.compile(*arguments)["record"]["problem"]["convolution"]

    def refuse(self, arguments, status, *fragments, command="compile", file="conv.npz"):
        result = self.run_tool(command, file, *arguments)

        self.assert_error(result, status, *fragments)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertEqual(result.stdout, "")


class OptionsTest(ConvolutionTest):
    def test_every_size_reaches_the_kernel(self):
        self.generate("wide.npz", 12, 3 * 3 * 2)
        problem = self.run_json(
            "compile", "wide.npz", "--no-measure", "--conv", "6x11x12", "--kernel", "3x2",
            "--stride", "2x3", "--pad", "1x2x3x9", "--dilation", "4x5", "--groups", 2,
        )["layers"][0]["record"]["problem"]

        self.assertEqual(problem["operation"], "conv2d")
        self.assertEqual(problem["n"], {"value": 24, "runtime": False})
        # Groups are one: A has the channels of both.
        self.assertEqual(problem["a"]["cols"], 36)
        self.assertEqual(problem["convolution"],
                         {"channels": 6, "height": 11, "width": 12, "kernel": [3, 2],
                          "stride": [2, 3], "pad": [1, 2, 3, 9], "dilation": [4, 5], "groups": 1})

    def test_one_number_is_of_both_dimensions(self):
        sizes = self.convolution("--conv", "6x8x7", "--kernel", "3", "--stride", "2", "--pad", "2",
                                 "--dilation", "2")

        self.assertEqual((sizes["kernel"], sizes["stride"], sizes["pad"], sizes["dilation"]),
                         ([3, 3], [2, 2], [2, 2, 2, 2], [2, 2]))
        self.assertEqual(self.convolution("--conv", "6x8x7", "--kernel", 3, "--pad", "1x0")["pad"],
                         [1, 0, 1, 0])

    def test_without_a_kernel_it_is_a_product(self):
        problem = self.compile("--conv", "54x8x7")["record"]["problem"]

        self.assertEqual(problem["operation"], "spmm")
        self.assertIsNone(problem["convolution"])
        self.assertEqual(problem["n"]["value"], 56)

    def test_any_n_is_images_of_any_size(self):
        layer = self.compile(*GEOMETRY, "--n", "any", "--layout", "tokens")

        self.assertEqual(layer["record"]["problem"]["n"], {"value": 56, "runtime": True})
        self.assertEqual(layer["record"]["problem"]["b"]["layout"], "tokens")
        self.assertTrue(layer["verification"]["complete"])

    def test_what_is_no_size_is_refused(self):
        for option, text, expected in [("--conv", "6", "64x100"), ("--conv", "6x8x", "64x56x56"),
                                       ("--conv", "6x8x7x1", "64x56x56"),
                                       ("--conv", "6,8,7", "64x56x56"), ("--conv", "", "64x56x56"),
                                       ("--kernel", "3x3x3", "3 or 3x3"),
                                       ("--kernel", "-3", "3 or 3x3"),
                                       ("--stride", "2.5", "2 or 2x1"),
                                       ("--stride", "4294967296", "2 or 2x1"),
                                       ("--pad", "1x1x1", "1, 1x0 or 1x1x1x1"),
                                       ("--pad", "x1", "1, 1x0 or 1x1x1x1"),
                                       ("--dilation", "two", "2 or 2x1"),
                                       ("--groups", "2x2", "one number")]:
            self.refuse(["--conv", "6x8x7", option, text] if option != "--conv" else [option, text],
                        USAGE, f"{option}: ", expected)

    def test_a_convolution_of_one_dimension_is_one_of_height_1(self):
        sizes = self.convolution("--conv", "6x40", "--kernel", 9, "--stride", 2, "--pad", 4)
        self.assertEqual(sizes, {
            "channels": 6, "height": 1, "width": 40, "kernel": [1, 9], "stride": [1, 2],
            "pad": [0, 4, 0, 4], "dilation": [1, 1], "groups": 1})
        self.assertEqual(self.compile("--conv", "6x40", "--kernel", "9")["n"], 32)
        for option, text, message in [("--kernel", "3x9", "--kernel has 3 for the height and 9"),
                                      ("--dilation", "2x1", "--dilation has 2 for the height"),
                                      ("--pad", "4x0", "--pad has 4 for the height and 0"),
                                      ("--stride", 0, "stride_width of the convolution is 0")]:
            self.refuse(["--conv", "6x40", option, text], USAGE, message)

    def test_sizes_need_an_image(self):
        for option in ["--kernel", "--stride", "--pad", "--dilation", "--groups"]:
            self.refuse(["--n", 8, option, 1], USAGE,
                        "--kernel, --stride, --pad, --dilation and --groups need --conv")

    def test_without_an_image_n_is_required(self):
        self.refuse([], USAGE, "--n is required")

    def test_what_no_matrix_could_have_is_refused_before_any_work(self):
        for arguments, *fragments in [
                (["--conv", "6x8x7", "--kernel", 9], "a kernel of height 9", "does not fit into 8"),
                (["--conv", "6x8x7", "--groups", 4], "groups of the convolution is 4", "6 channels"),
                (["--conv", "0x8x7"], "channels of the convolution is 0"),
                (["--conv", "6x8x7", "--stride", 0], "stride_height of the convolution is 0"),
                (["--conv", "6x65536x65536"], "65536 x 65536", "2147483647"),
                ([*GEOMETRY, "--n", 55], "n is 55", "8 x 7 pixels"),
                ([*GEOMETRY, "--layout", "panels", "--panel-columns", 16], "no panels"),
        ]:
            for command in ["compile", "bench", "explain"]:
                self.refuse(arguments, USAGE, *fragments, command=command)
        self.assertFalse(self.cache.exists())

    def test_a_matrix_that_is_not_the_weights_is_refused(self):
        self.refuse(["--conv", "6x8x7", "--kernel", "2x2"], FAILED, "conv.npz: A has 54 columns",
                    "expected 24: 6 channels a group x kernel 2 x 2")
        self.refuse(["--conv", "30x8x7", "--kernel", "3x3", "--groups", "5"], FAILED,
                    "conv.npz: A has 12 rows; expected a multiple of 5 groups")

    def test_unrolled_code_of_a_gpu_takes_images_of_one_size(self):
        self.refuse([*GEOMETRY, "--n", "any", "--target", "sm_90", "--family", "unrolled"], FAILED,
                    "conv.npz: ", "whose size a run says")


class OutputTest(ConvolutionTest):
    IMAGE = "6x8x7, kernel 3x3, pad 1"

    def test_the_line_below_the_table_has_the_image(self):
        text = self.succeed("compile", "conv.npz", *GEOMETRY, "--no-measure").stdout

        self.assertEqual(text.splitlines()[-1],
                         f"C = A * B; n: 56; layout: features; image: {self.IMAGE}")

    def test_explain_has_the_image(self):
        text = self.succeed("explain", "conv.npz", *GEOMETRY).stdout
        matrix = self.run_json("explain", "conv.npz", *GEOMETRY)["matrices"][0]

        self.assertIn(f"  image       {self.IMAGE}\n", text)
        self.assertNotIn("  image ", self.succeed("explain", "conv.npz", "--n", 8).stdout)
        self.assertEqual(matrix["problem"]["convolution"]["kernel"], [3, 3])

    def test_the_cache_lists_convolutions(self):
        self.compile(*GEOMETRY, "--layout", "tokens", "--bias")
        self.compile("--n", 8)

        lines = self.succeed("cache", "ls").stdout

        self.assertRegex(lines, r" 56 +conv3x3 tokens bias  ")
        self.assertRegex(lines, r" 8 +-  ")

    def test_options_of_the_document_have_the_convolution(self):
        options = self.run_json("compile", "conv.npz", *GEOMETRY, "--no-measure")["options"]

        self.assertEqual(options["problem"]["operation"], "conv2d")
        self.assertEqual(options["problem"]["convolution"]["height"], 8)


class CacheTest(ConvolutionTest):
    def test_the_second_time_comes_from_the_cache_and_is_checked(self):
        first = self.compile(*GEOMETRY)
        second = self.compile(*GEOMETRY)
        padded = self.compile(*GEOMETRY[:-1], "2x0")
        product = self.compile("--n", 56)

        self.assertFalse(first["kernel"]["from_cache"])
        self.assertTrue(second["kernel"]["from_cache"])
        self.assertTrue(second["verification"]["complete"])
        self.assertEqual(second["record"]["problem"], first["record"]["problem"])
        self.assertEqual(len({k["kernel"]["key"] for k in (first, second, padded, product)}), 3)
        self.succeed("cache", "verify")


class BenchTest(ConvolutionTest):
    def bench(self, *arguments):
        return self.run_json("bench", "conv.npz", "--threads", 1, "--budget", 20, *arguments)

    def test_a_convolution_is_timed_and_compared_with_float64(self):
        for more in [[], ["--layout", "tokens", "--bias", "--residual", "--activation", "relu"],
                     ["--n", "any"], ["--batch", 3, "--c-layout", "tokens", "--runtime-values"]]:
            matrix = self.bench(*GEOMETRY, *more)["matrices"][0]

            run = matrix["runs"][0]
            self.assertEqual(matrix["n"], 56)
            self.assertGreater(run["kernel"]["median_us"], 0)
            self.assertEqual((run["check"]["rows_checked"], run["check"]["columns_checked"]),
                             (12, 56))
            self.assertGreater(run["check"]["max_abs_error"], 0)
            self.assertLessEqual(run["check"]["max_error_over_bound"], 1)
            self.assertIn("skipped", run["csr"])
            self.assertIn("skipped", run["dense"])

    def test_compile_times_it_too(self):
        layer = self.run_json("compile", "conv.npz", *GEOMETRY)["layers"][0]

        self.assertGreater(layer["speed"]["median_us"], 0)
        self.assertIn("skipped", layer["speed"]["csr"])

    def test_tables_do_without_peers(self):
        for command in ["bench", "compile"]:
            text = self.succeed(command, "conv.npz", *GEOMETRY).stdout

            self.assertEqual(text.count("no peer has convolutions here"), 1, text)

    def test_a_kernel_that_is_wrong_is_an_error(self):
        result = subprocess.run([os.environ.get("SPJIT_WRONG_TOOL", "spjit_wrong_tool"), "bench",
                                 "conv.npz", *GEOMETRY, "--hot", "--family", "unrolled",
                                 "--threads", "1", "--budget", "20"], cwd=self.folder,
                                env=self.environment(), text=True, stdin=subprocess.DEVNULL,
                                capture_output=True, timeout=300, check=False)

        self.assert_error(result, FAILED, "conv.npz: wrong result: C[", "the run that was timed")

    def test_families_race_for_it(self):
        layer = self.run_json("compile", "conv.npz", *GEOMETRY, "--search", "ranked",
                              "--search-budget", 2000, "--no-measure", "--no-cache")["layers"][0]

        self.assertTrue(layer["verification"]["passed"])


class LinkedTest(ConvolutionTest):
    def test_object_and_header_make_a_program(self):
        # Two filters of one channel, 2 x 2: the sum of a patch, and its last element.
        (self.folder / "w.mtx").write_text("%%MatrixMarket matrix coordinate real general\n"
                                           "2 4 5\n1 1 1\n1 2 1\n1 3 1\n1 4 1\n2 4 1\n")
        command = ["compile", "w.mtx", "--conv", "1x2x3", "--kernel", 2, "--pad", "1x1x0x0",
                   "--no-measure", "--out", ".", "--emit", "obj,header"]
        source = ('#include "w.hpp"\n#include <cstdio>\n'
                  "int main() {{\n"
                  "  const float b[6] = {{1, 2, 4, 10, 20, 40}};\n"
                  "  float c[12];\n"
                  "  w(w(), b, c{});\n"
                  '  for (const float y : c) std::printf("%g ", y);\n'
                  "}}\n")

        for more, given in [([], ""), (["--n", "any"], ", 2, 3")]:
            self.succeed(*command, *more)
            output = self.run_program(source.format(given), "w.o")

            self.assertEqual(output, "1 3 6 11 33 66 1 2 4 10 20 40 ")

    def test_the_header_says_what_the_image_is(self):
        self.succeed("compile", "conv.npz", *GEOMETRY, "--no-measure", "--out", ".", "--emit",
                     "header", "--layout", "tokens", "--n", "any", "--family", "csr")

        header = (self.folder / "conv.hpp").read_text()
        for part in ["; B: patches of 6x8x7, kernel 3x3, pad 1; ",
                     "/// b: an image, tokens [height * width x 6]\n"
                     "/// c: tokens [pixels of the output x 12]\n",
                     "float* c, std::int64_t height, std::int64_t width) {",
                     ".height = height, .width = width}"]:
            self.assertIn(part, header)


if __name__ == "__main__":
    unittest.main()
