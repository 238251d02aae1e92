"""What is computed: --n any, layouts, epilogues and their files, values at run time."""

import os
import subprocess
import unittest

from spjit_tool import FAILED, SOME_FAILED, USAGE, ToolTest


class LayerTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.generate("layer.npz", 96, 64)

    def compile(self, *arguments):
        return self.run_json("compile", "layer.npz", "--no-measure", *arguments)["layers"][0]

    def refuse(self, arguments, status, *fragments, command="compile"):
        result = self.run_tool(command, "layer.npz", *arguments)

        self.assert_error(result, status, *fragments)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertEqual(result.stdout, "")


class ColumnsTest(LayerTest):
    def test_n_is_a_number_or_any_with_one_that_is_typical(self):
        for text, value, runtime in [("40", 40, False), ("any", 128, True), ("any:7", 7, True)]:
            layer = self.compile("--n", text)

            self.assertEqual(layer["record"]["problem"]["n"], {"value": value, "runtime": runtime})
            self.assertEqual(layer["n"], value)
            self.assertTrue(layer["verification"]["complete"])

    def test_what_is_neither_is_refused(self):
        for text in ["some", "any:", "any:0", "any:x", "any:2147483648", "any7", "Any", "7:any"]:
            self.refuse(["--n", text], USAGE, "--n: expected a whole number", "any:N", text)

    def test_an_earlier_option_for_it_is_gone(self):
        self.refuse(["--n", 8, "--runtime-sizes"], USAGE, "--runtime-sizes")


class LayoutTest(LayerTest):
    def layouts(self, *arguments):
        problem = self.compile("--n", 40, *arguments)["record"]["problem"]
        return problem["b"]["layout"], problem["c"]["layout"]

    def test_both_operands_or_each_its_own(self):
        self.assertEqual(self.layouts(), ("features", "features"))
        self.assertEqual(self.layouts("--layout", "tokens"), ("tokens", "tokens"))
        self.assertEqual(self.layouts("--b-layout", "tokens"), ("tokens", "features"))
        self.assertEqual(self.layouts("--c-layout", "features", "--layout", "tokens"),
                         ("tokens", "features"))
        self.assertEqual(self.layouts("--layout", "panels", "--panel-columns", 16,
                                      "--c-layout", "tokens", "--family", "csr"),
                         ("panels", "tokens"))

    def test_panels_need_a_width(self):
        for option in ["--layout", "--b-layout", "--c-layout"]:
            for command in ["compile", "bench", "explain"]:
                self.refuse(["--n", 8, option, "panels"], USAGE, "--panel-columns", command=command)

    def test_an_unknown_layout_is_refused(self):
        for option in ["--layout", "--b-layout", "--c-layout"]:
            self.refuse(["--n", 8, option, "rows"], USAGE, "rows", "features, panels or tokens")


class EpilogueTest(LayerTest):
    def epilogue(self, *arguments):
        layer = self.compile("--n", 40, *arguments)
        self.assertTrue(layer["verification"]["complete"])
        return layer["record"]["problem"]["epilogue"]

    def test_every_part_reaches_the_kernel(self):
        none = {"scale": False, "bias": False, "residual": False, "activation": "none", "low": 0,
                "high": 0, "alpha": 0, "beta": 0}

        self.assertEqual(self.epilogue(), none)
        for part in ["scale", "bias", "residual"]:
            self.assertEqual(self.epilogue(f"--{part}"), {**none, part: True})
        for name in ["none", "relu", "gelu", "gelu-tanh", "silu", "hard-swish", "sigmoid", "tanh"]:
            self.assertEqual(self.epilogue("--activation", name), {**none, "activation": name})
        self.assertEqual(self.epilogue("--activation", "clamp:-0.5,6"),
                         {**none, "activation": "clamp", "low": -0.5, "high": 6})

    def test_a_bias_may_come_before_the_scale(self):
        layer = self.run_json("compile", "layer.npz", "--n", 8, "--scale", "--bias", "--bias-first",
                              "--verify", "full")["layers"][0]
        self.assertIs(layer["kernel"]["epilogue"]["bias_first"], True)
        self.assertTrue(layer["verification"]["passed"])
        last = self.run_json("compile", "layer.npz", "--n", 8, "--scale", "--bias")["layers"][0]
        self.assertNotIn("bias_first", last["kernel"]["epilogue"])
        self.assertNotEqual(layer["kernel"]["key"], last["kernel"]["key"])

        result = self.run_tool("compile", "layer.npz", "--n", 8, "--scale", "--bias",
                               "--bias-first")
        self.assertIn("C = scale * (A * B + bias)", result.stdout)

    def test_a_bias_before_no_scale_is_refused(self):
        for options in [["--bias"], ["--scale"], []]:
            result = self.run_tool("compile", "layer.npz", "--n", 8, *options, "--bias-first")
            self.assert_error(result, USAGE, "bias_first is set without scale and bias")

    def test_parameters_of_activations_have_defaults_as_in_pytorch(self):
        def of(text):
            epilogue = self.epilogue("--activation", text)
            return epilogue["activation"], epilogue["alpha"], epilogue["beta"]

        self.assertEqual(of("leaky-relu:-0.5"), ("leaky-relu", -0.5, 0))
        self.assertEqual(of("hard-sigmoid:0.25,-1"), ("hard-sigmoid", 0.25, -1))
        name, alpha, beta = of("leaky-relu")
        self.assertEqual((name, beta), ("leaky-relu", 0))
        self.assertAlmostEqual(alpha, 0.01, places=8)
        name, alpha, beta = of("hard-sigmoid")
        self.assertEqual((name, beta), ("hard-sigmoid", 0.5))
        self.assertAlmostEqual(alpha, 1 / 6, places=7)

    def test_activations_that_are_none_are_refused(self):
        self.refuse(["--n", 8, "--activation", "swish"], USAGE, "swish", "hard-sigmoid, sigmoid or tanh")
        for text in ["clamp", "clamp:", "clamp:1", "clamp:1,", "clamp:2,1", "clamp:nan,1",
                     "clamp:0,6,7", "clamp:0x1,2", "clamp:inf,inf"]:
            self.refuse(["--n", 8, "--activation", text], USAGE, "clamp")
        for text in ["leaky-relu:", "leaky-relu:x", "leaky-relu:inf", "leaky-relu:nan",
                     "leaky-relu:1,2"]:
            self.refuse(["--n", 8, "--activation", text], USAGE, "leaky-relu:ALPHA")
        for text in ["hard-sigmoid:", "hard-sigmoid:1", "hard-sigmoid:1,", "hard-sigmoid:1,inf",
                     "hard-sigmoid:1,2,3"]:
            self.refuse(["--n", 8, "--activation", text], USAGE, "hard-sigmoid:ALPHA,BETA")
        self.refuse(["--n", 8, "--activation", "tanh:1"], USAGE, 'activation "tanh:1" is unknown')

    def test_a_file_has_the_numbers_of_every_layer(self):
        self.generate("other.npz", 96, 20)
        self.generate("short.npz", 20, 64)
        bias = self.save("bias.npy", (96,), [float("nan"), *range(95)])

        result = self.run_tool("compile", "layer.npz", "other.npz", "short.npz", "--n", 8, "--bias",
                               bias, "--no-measure")

        self.assert_error(result, SOME_FAILED, "short.npz: --bias: ", "bias.npy has 96 numbers",
                          "expected 20, one for each row of A")
        self.assertEqual(result.stderr.count("spjit: error: "), 1, result.stderr)
        self.assertIn("other.npz", result.stdout)

    def test_the_file_is_in_the_options_of_the_document_and_no_part_of_the_key(self):
        self.save("bias.npy", (96,), list(range(96)))
        command = ["compile", "layer.npz", "--n", 8, "--no-measure"]

        made_up = self.run_json(*command, "--bias", "--scale")
        from_file = self.run_json(*command, "--scale", "--bias=bias.npy")

        self.assertEqual(made_up["options"]["operands"],
                         {"scale": None, "bias": None, "group_scales": None})
        self.assertEqual(from_file["options"]["operands"],
                         {"scale": None, "bias": "bias.npy", "group_scales": None})
        self.assertTrue(from_file["layers"][0]["kernel"]["from_cache"])

    def test_bad_files_are_one_error_before_any_work(self):
        self.save("table.npy", (48, 2), [0] * 96)
        (self.folder / "text.npy").write_text("1 2 3")

        for command in ["compile", "bench", "explain"]:
            for option in ["--bias", "--scale"]:
                for name, *fragments in [
                        ("table.npy", "[48 x 2] numbers", "expected one dimension"),
                        ("text.npy", "text.npy: "),
                        ("missing.npy", "missing.npy: cannot open"),
                        ("layer.npz", "layer.npz: ", "expected a .npy file", f"{option}=FILE")]:
                    self.refuse(["--n", 8, option, name], FAILED, *fragments, command=command)
        self.assertFalse(self.cache.exists())

    def test_a_matrix_that_is_taken_for_the_file_is_missed(self):
        result = self.run_tool("compile", "--bias", "layer.npz", "--n", 8)

        self.assert_error(result, USAGE, "FILE is required")

    def test_an_empty_path_is_not_made_up_numbers(self):
        for option in ["--bias", "--scale"]:
            self.refuse(["--n", 8, f"{option}="], USAGE, option, "empty")
            self.refuse(["--n", 8, option, ""], USAGE, option, "empty")


class RuntimeValuesTest(LayerTest):
    def test_matrices_of_one_pattern_share_a_kernel(self):
        (self.folder / "p.smtx").write_text("2, 3, 3\n0 2 3\n0 2 1\n")
        command = ["compile", "p.smtx", "--n", 8, "--no-measure", "--runtime-values"]

        first = self.run_json(*command, "--seed", 1)["layers"][0]
        second = self.run_json(*command, "--seed", 2)["layers"][0]

        self.assertTrue(first["record"]["problem"]["runtime_values"])
        self.assertTrue(second["kernel"]["from_cache"])
        self.assertTrue(second["verification"]["passed"])


class BenchTest(LayerTest):
    def bench(self, *arguments):
        return self.run_json("bench", "layer.npz", "--threads", 1, "--budget", 20, *arguments)

    def test_a_layer_is_timed_and_compared_with_float64(self):
        self.save("bias.npy", (96,), [float("nan"), *range(95)])

        document = self.bench("--n", "any:40", "--layout", "tokens", "--bias", "bias.npy",
                              "--residual", "--activation", "gelu", "--runtime-values")

        run = document["matrices"][0]["runs"][0]
        self.assertGreater(run["kernel"]["median_us"], 0)
        self.assertGreater(run["csr"]["median_us"], 0)
        self.assertEqual((run["check"]["rows_checked"], run["check"]["columns_checked"]), (96, 40))
        self.assertGreater(run["check"]["max_abs_error"], 0)
        self.assertLessEqual(run["check"]["max_error_over_bound"], 1)
        self.assertEqual(document["options"]["batch"], 1)

    def test_a_batch_counts_as_often(self):
        document = self.bench("--n", 40, "--layout", "tokens", "--batch", 3)

        run = document["matrices"][0]["runs"][0]
        nnz = document["matrices"][0]["nnz"]
        self.assertEqual(document["options"]["batch"], 3)
        self.assertAlmostEqual(run["kernel"]["gflops"],
                               3 * 2 * nnz * 40 / run["kernel"]["median_us"] / 1e3, places=6)

    def test_the_table_says_what_was_timed(self):
        text = self.succeed("bench", "layer.npz", "--n", 8, "--threads", 1, "--budget", 20,
                            "--activation", "relu", "--batch", 2).stdout

        self.assertIn("C = relu(A * B); n: 8; layout: features\nbatch: 2 products a run\n", text)
        self.assertIn("max error", text)

    def test_a_kernel_that_is_wrong_is_an_error(self):
        result = subprocess.run([os.environ.get("SPJIT_WRONG_TOOL", "spjit_wrong_tool"), "bench",
                                 "layer.npz", "--n", "40", "--hot", "--threads", "1", "--budget",
                                 "20"], cwd=self.folder, env=self.environment(), text=True,
                                stdin=subprocess.DEVNULL, capture_output=True, timeout=300,
                                check=False)

        self.assert_error(result, FAILED, "layer.npz: wrong result: C[", "the run that was timed")

    def test_a_batch_is_of_one_product_at_least_and_for_the_host(self):
        self.refuse(["--n", 8, "--batch", 0], USAGE, "--batch", "0", command="bench")
        self.refuse(["--n", 8, "--batch", 2, "--target", "sm_90"], USAGE, "--batch", "host targets",
                    command="bench")

    def test_compile_times_a_layer_too(self):
        layer = self.run_json("compile", "layer.npz", "--n", "any", "--layout", "tokens", "--bias",
                              "--scale", "--activation", "silu", "--runtime-values")["layers"][0]

        self.assertGreater(layer["speed"]["median_us"], 0)
        self.assertTrue(layer["verification"]["passed"])

    def test_families_race_for_a_layer(self):
        layer = self.run_json("compile", "layer.npz", "--n", 40, "--layout", "tokens", "--bias",
                              "--residual", "--search", "ranked", "--search-budget", 2000,
                              "--no-measure", "--no-cache")["layers"][0]

        self.assertTrue(layer["verification"]["passed"])


class OutputTest(LayerTest):
    LAYER = ["--n", "any:40", "--layout", "tokens", "--c-layout", "features", "--scale", "--bias",
             "--residual", "--activation", "gelu"]
    FORMULA = "C = gelu(scale * (A * B) + bias + residual)"

    def test_compile_says_what_is_computed_below_its_table(self):
        plain = self.succeed("compile", "layer.npz", "--n", 8, "--no-measure").stdout
        text = self.succeed("compile", "layer.npz", *self.LAYER, "--no-measure").stdout

        self.assertNotIn("C = ", plain)
        self.assertEqual(text.splitlines()[-1],
                         f"{self.FORMULA}; n: any (40 is typical); layout: tokens, features")

    def test_options_of_the_document_have_the_problem(self):
        options = self.run_json("compile", "layer.npz", *self.LAYER, "--no-measure")["options"]

        self.assertEqual(options["problem"]["n"], {"value": 40, "runtime": True})
        self.assertEqual(options["problem"]["b"]["layout"], "tokens")
        self.assertEqual(options["problem"]["c"]["layout"], "features")
        self.assertEqual(options["problem"]["epilogue"]["activation"], "gelu")

    def test_explain_has_the_problem(self):
        text = self.succeed("explain", "layer.npz", *self.LAYER).stdout
        plain = self.succeed("explain", "layer.npz", "--n", 8).stdout
        matrix = self.run_json("explain", "layer.npz", *self.LAYER)["matrices"][0]

        self.assertIn(f"  computes    {self.FORMULA}\n", text)
        self.assertIn("  n           any (40 is typical)\n", text)
        self.assertIn("  layout      tokens, features\n", text)
        self.assertIn("  computes    C = A * B\n  n           8\n  layout      features\n", plain)
        self.assertEqual(matrix["problem"]["epilogue"]["activation"], "gelu")
        self.assertEqual(matrix["problem"]["n"], {"value": 40, "runtime": True})

    def test_the_cache_lists_layers(self):
        self.compile(*self.LAYER)
        self.compile("--n", 8)

        lines = self.succeed("cache", "ls").stdout

        self.assertRegex(lines, r" any:40 +tokens,features scale bias residual gelu  ")
        self.assertRegex(lines, r" 8 +-  ")


if __name__ == "__main__":
    unittest.main()
