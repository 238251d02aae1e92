"""spjit compile: inputs, output, emitted files, failures."""

import json
import os
import re
import resource
import shutil
import subprocess
import unittest
from pathlib import Path

from spjit_tool import FAILED, OK, ROOT, SOME_FAILED, USAGE, ToolTest, long_tests


def become_nobody():
    """Nothing is locked to root."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)


class CompileTest(ToolTest):
    def compile(self, *arguments, status=OK):
        return self.run_json("compile", *arguments, "--no-measure", status=status)

    def test_a_layer_is_compiled_checked_and_measured(self):
        self.generate("layer.npz", 96, 64)

        layer = self.run_json("compile", "layer.npz", "--n", 40, "--hot")["layers"][0]

        self.assertEqual((layer["rows"], layer["cols"], layer["n"]), (96, 64, 40))
        self.assertEqual(layer["nnz"], round(0.2 * 96 * 64))
        self.assertEqual(layer["kernel"]["family"], "unrolled")
        self.assertTrue(layer["verification"]["passed"])
        self.assertTrue(layer["verification"]["complete"])
        self.assertGreater(layer["verification"]["max_abs_error"], 0)
        self.assertLess(layer["verification"]["max_error_over_bound"], 1)
        speed = layer["speed"]
        self.assertAlmostEqual(speed["gflops"],
                               2 * layer["nnz"] * 40 / speed["median_us"] / 1e3, places=6)
        self.assertAlmostEqual(speed["share_of_peak"],
                               speed["gflops"] / speed["peak_gflops_per_core"], places=6)
        self.assertIn("median_us", speed["csr"])
        if "median_us" in speed["dense"]:
            self.assertAlmostEqual(speed["speedup_over_dense"],
                                   speed["dense"]["median_us"] / speed["median_us"], places=6)
        else:
            self.assertIn("libopenblas", speed["dense"]["skipped"])

    def test_the_table_is_on_standard_output_and_the_lines_on_standard_error(self):
        self.generate("one.npz", 96, 64)
        self.generate("two.mtx")

        result = self.succeed("compile", "one.npz", "two.mtx", "--n", 40, "--no-measure", "--hot")

        lines = result.stdout.splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["file", "one.npz", "two.mtx"])
        self.assertRegex(result.stderr, r"\[1/2\] one\.npz: 96x64 80\.0 %, unrolled, compiled in")
        self.assertRegex(result.stderr, r"\[2/2\] two\.mtx: ")

    def test_a_wide_matrix_is_compiled_for_its_nonzeros(self):
        (self.folder / "far.mtx").write_text("%%MatrixMarket matrix coordinate real general\n"
                                             "1 2147483647 1\n1 2147483647 1.5\n")

        for n in [1, 16]:
            layer = self.compile("far.mtx", "--n", n, "--no-verify")["layers"][0]

            if "in-place" not in layer["kernel"]["tile"]:
                self.assertEqual(layer["kernel"]["family"], "csr")
                self.assertRegex(layer["kernel"]["reason"],
                                 "B has 2147483647 rows|0.0 entries of A read a row of B")

    def test_a_fifo_is_refused_without_waiting(self):
        os.mkfifo(self.folder / "fifo.mtx")

        result = self.run_tool("compile", "fifo.mtx", "--n", 8)

        self.assert_error(result, FAILED, "fifo.mtx: is a FIFO: expected a regular file")

    def test_a_file_that_does_not_fit_the_memory_allowed_is_one_line(self):
        path = self.folder / "large.npy"
        path.touch()
        os.truncate(path, 3 << 30)

        def allow_two_gigabytes():
            resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

        result = self.run_tool("compile", "large.npy", "--n", 8, before=allow_two_gigabytes)

        self.assert_error(result, FAILED, "large.npy: out of memory: the file has 3221225472 bytes")

    def test_folders_and_quoted_globs_are_expanded_and_repeats_are_dropped(self):
        self.generate("weights/b.npz")
        self.generate("weights/deep/a.mtx")
        (self.folder / "weights" / "notes.txt").write_text("not a matrix")

        layers = self.compile("weights", "weights/*.npz", "./weights/b.npz", "--n", 8)["layers"]

        self.assertEqual([Path(layer["file"]).name for layer in layers], ["b.npz", "a.mtx"])

    def test_a_file_is_worked_on_once_by_whatever_path(self):
        path = self.generate("weights/b.npz")
        (self.folder / "link").symlink_to("weights")
        (self.folder / "other.npz").symlink_to(path)

        layers = self.compile("weights/b.npz", path, "link/b.npz", "link/../weights/b.npz",
                              "other.npz", "--n", 8)["layers"]

        self.assertEqual([layer["file"] for layer in layers], ["weights/b.npz", "other.npz"])

    def test_a_folder_that_cannot_be_read_is_an_error_that_names_it(self):
        self.generate("weights/a.npz")
        self.generate("weights/locked/b.npz")
        self.generate("weights/z.npz")
        self.folder.chmod(0o755)
        locked = self.folder / "weights" / "locked"
        locked.chmod(0)
        self.addCleanup(locked.chmod, 0o700)
        command = ["compile", "weights", "--n", 8, "--no-measure", "--no-cache"]

        try:
            result = self.run_tool(*command, before=become_nobody)
            alone = self.run_tool("compile", "weights/locked", "--n", 8, before=become_nobody)
        except (PermissionError, subprocess.SubprocessError) as error:
            self.skipTest(f"another user cannot run the tool here: {error}")

        self.assert_error(result, SOME_FAILED, "weights/locked: cannot be read", "denied")
        self.assertIn("a.npz", result.stdout)
        self.assertIn("z.npz", result.stdout)
        self.assert_error(alone, FAILED, "weights/locked: cannot be read")

    def test_one_bad_file_does_not_stop_the_others(self):
        self.generate("good.npz")
        self.generate("also_good.npz", 10, 10)
        (self.folder / "bad.mtx").write_text("%%MatrixMarket matrix coordinate real general\n1 1\n")

        result = self.run_tool("compile", "good.npz", "bad.mtx", "missing.npz", "also_good.npz",
                               "--n", 8, "--no-measure")

        self.assert_error(result, SOME_FAILED, "bad.mtx")
        self.assert_error(result, SOME_FAILED, "missing.npz")
        self.assertIn("spjit: note: 2 of 4 inputs failed", result.stderr)
        self.assertEqual(result.stderr.count("spjit: error: "), 2, result.stderr)
        self.assertIn("also_good.npz", result.stdout)

    def test_each_failure_is_one_line(self):
        for command in [["compile", "--no-measure"], ["bench"], ["explain"]]:
            with self.subTest(command=command[0]):
                result = self.run_tool(command[0], "missing.npz", "--n", 8, *command[1:])

                self.assert_error(result, FAILED, "missing.npz")
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)

    def test_a_layer_over_its_time_has_failed_and_leaves_nothing_in_the_cache(self):
        self.generate("layer.npz")

        result = self.run_tool("compile", "layer.npz", "--n", 8, "--timeout", 1e-9)

        self.assert_error(result, FAILED, "layer.npz", "deadline")
        self.assertEqual([path for path in self.cache.rglob("*") if path.is_file()], [])
        self.compile("layer.npz", "--n", 8, "--timeout", 1e6)
        result = self.run_tool("compile", "layer.npz", "--n", 8, "--timeout", -1)
        self.assert_error(result, USAGE, "--timeout")

    def test_failures_are_in_the_json_document_too(self):
        self.generate("good.npz")

        document = self.compile("missing.npz", "good.npz", "--n", 8, status=SOME_FAILED)

        self.assertEqual(document["failed"], 1)
        self.assertIn("missing.npz", document["layers"][0]["error"])
        self.assertIsNone(document["layers"][1]["error"])

    def test_nothing_but_failures(self):
        for argument in ["missing.npz", "nothing*.npz", "."]:
            result = self.run_tool("compile", argument, "--n", 8)
            self.assert_error(result, FAILED, argument)
            self.assertEqual(result.stdout, "")

    def test_the_second_time_comes_from_the_cache(self):
        self.generate()

        first = self.compile("layer.npz", "--n", 8)["layers"][0]["kernel"]
        second = self.compile("layer.npz", "--n", 8)["layers"][0]["kernel"]
        without = self.compile("layer.npz", "--n", 8, "--no-cache")["layers"][0]["kernel"]

        self.assertEqual([k["from_cache"] for k in (first, second, without)], [False, True, False])
        self.assertEqual(first["key"], second["key"])

    def test_over_the_code_budget_another_kernel_takes_over_and_the_table_says_so(self):
        self.generate("layer.npz", 96, 64)

        result = self.succeed("compile", "layer.npz", "--n", 40, "--code-budget", 10,
                              "--hot", "--no-measure", "--choice", "rules")

        self.assertRegex(result.stdout, "layer.npz: a (compact|csr) kernel took over: ")
        self.assertIn("budget is 10", result.stdout)

    def test_options_reach_the_compiler(self):
        self.generate("layer.smtx.npz", 64, 64)

        document = self.compile("layer.smtx.npz", "--n", 100, "--reorder", "none", "--threads", 2,
                                "--panel-columns", 32)

        self.assertEqual(document["options"]["reorder"], "none")
        self.assertEqual(document["layers"][0]["kernel"]["threads"], 2)
        self.assertEqual(document["layers"][0]["kernel"]["panel_columns"], 32)

    def test_every_search_times_candidates_and_reports_json_lines_without_a_terminal(self):
        rows, cols, n = (60, 40, 32) if long_tests() else (16, 12, 16)
        self.generate("layer.npz", rows, cols, 0.7)

        for mode in ["ranked", "proxy", "exhaustive"]:
            result = self.succeed("compile", "layer.npz", "--no-measure", "--n", n, "--search", mode,
                                  "--search-budget", 30000, "--family", "unrolled", "--reorder",
                                  "none", "--json")

            layer = json.loads(result.stdout)["layers"][0]
            search = layer["record"]["search"]
            timed = [entry for entry in search["entries"] if "median_us" in entry.get("full", {})]
            self.assertEqual(search["mode"], mode)
            self.assertTrue(search["timed"])
            self.assertGreater(len(timed), 1)
            self.assertIn(search["chosen"], [entry["tile"] for entry in timed])
            self.assertTrue(layer["verification"]["passed"])
            events = self.search_events(result)
            self.assertGreaterEqual(len(events), 1)
            for event in events:
                self.assertEqual(list(event), ["event", "stage", "done", "total", "best", "best_us",
                                               "seconds_left"])
                self.assertEqual(event["event"], "search")
                self.assertEqual(event["stage"], "kernels")
                self.assertLessEqual(event["done"], event["total"])
                self.assertLessEqual(event["seconds_left"], 3)

    def test_top_k_bounds_what_a_ranked_search_times(self):
        self.generate("layer.npz", 30, 20)

        for option in ["--top-k", "--contenders"]:
            layer = self.compile("layer.npz", "--n", 32, "--search", "ranked", option, 3,
                                 "--family", "unrolled", "--reorder", "none",
                                 "--no-cache")["layers"][0]

            entries = layer["record"]["search"]["entries"]
            self.assertEqual(sum("full" in entry for entry in entries), 3)
            self.assertGreater(len(entries), 3)

    @staticmethod
    def search_events(result):
        """What a search reports: every line but the one of the finished layer."""
        lines = [line for line in result.stderr.splitlines() if not line.startswith("[1/1] ")]
        return [json.loads(line) for line in lines]

    def test_a_search_counts_tiles_first_their_proxies_then_the_finalists(self):
        # 52,429 nonzeros x 256 columns: proxies pay.
        self.generate("layer.npz", 512, 512, 0.8)

        events = self.search_events(self.succeed("compile", "layer.npz", "--no-measure", "--n", 256,
                                                 "--search", "ranked", "--top-k", 6))

        totals = {event["stage"]: event["total"] for event in events}
        self.assertEqual(list(totals), ["proxies", "kernels"])
        self.assertEqual(totals["proxies"], 6)
        self.assertIn(totals["kernels"], [3, 4])

    def test_pattern_files_get_values_by_seed_and_zeros_can_be_dropped(self):
        (self.folder / "p.smtx").write_text("2, 3, 3\n0 2 3\n0 2 1\n")
        (self.folder / "z.mtx").write_text("%%MatrixMarket matrix coordinate real general\n"
                                           "2 2 2\n1 1 0\n2 2 3\n")

        one = self.compile("p.smtx", "--n", 8, "--seed", 1)["layers"][0]
        two = self.compile("p.smtx", "--n", 8, "--seed", 2)["layers"][0]
        kept = self.compile("z.mtx", "--n", 8)["layers"][0]
        dropped = self.compile("z.mtx", "--n", 8, "--drop-zeros")["layers"][0]

        self.assertNotEqual(one["kernel"]["key"], two["kernel"]["key"])
        self.assertEqual((kept["nnz"], dropped["nnz"]), (2, 1))

    def test_large_layers_are_checked_on_a_sample_and_the_output_says_so(self):
        self.generate("large.mtx", 2000, 1000, 0.5)

        result = self.succeed("compile", "large.mtx", "--n", 64, "--no-measure")
        layer = self.compile("large.mtx", "--n", 64)["layers"][0]

        self.assertRegex(result.stdout, r"large\.mtx: checked against float64: \d+ of 2000 rows x")
        self.assertFalse(layer["verification"]["complete"])

    def test_odd_shapes(self):
        for rows, cols, sparsity in [(1, 1, 0), (1, 50, 0.5), (50, 1, 0.5), (7, 5, 1), (0, 5, 1)]:
            name = f"m{rows}_{cols}.npz"
            self.generate(name, rows, cols, sparsity)

            layer = self.run_json("compile", name, "--n", 3)["layers"][0]

            self.assertTrue(layer["verification"]["passed"], name)


class EmitTest(ToolTest):
    def test_all_kinds_of_files_named_after_the_input(self):
        self.generate("2nd-layer.npz")

        document = self.run_json("compile", "2nd-layer.npz", "--n", 8, "--no-measure", "--out",
                                 "new/out", "--emit", "obj,header,json")

        files = sorted(path.name for path in (self.folder / "new" / "out").iterdir())
        self.assertEqual(files, ["layer_2nd_layer.hpp", "layer_2nd_layer.json",
                                 "layer_2nd_layer.o"])
        layer = json.loads((self.folder / "new/out/layer_2nd_layer.json").read_text())
        self.assertEqual(layer["kernel"]["key"], document["layers"][0]["kernel"]["key"])
        self.assertEqual(sorted(layer["files"]), sorted(document["layers"][0]["files"]))

    def test_inputs_of_the_same_name_get_files_of_their_own(self):
        self.generate("a/fc.npz")
        self.generate("b/fc.npz", 20, 20)
        self.generate("b/default.npz", 20, 20)

        self.succeed("compile", "a", "b", "--n", 8, "--no-measure", "--out", "out", "--emit",
                     "header")

        files = sorted(path.name for path in (self.folder / "out").iterdir())
        self.assertEqual(files, ["default_layer.hpp", "fc.hpp", "fc_2.hpp"])

    def test_names_that_cpp_has_taken_are_not_given_to_files(self):
        names = ["spjit", "std", "size_t", "exit", "NULL", "a__b", "a--b", "_Big", "__"]
        for name in names:
            self.generate(f"in/{name}.mtx", 8, 8)

        self.succeed("compile", "in", "--n", 8, "--no-measure", "--out", "out", "--emit", "header")

        headers = sorted(path.name for path in (self.folder / "out").iterdir())
        self.assertEqual(headers, ["NULL_layer.hpp", "a_b.hpp", "a_b_2.hpp", "exit_layer.hpp",
                                   "layer_.hpp", "layer_Big.hpp", "size_t_layer.hpp",
                                   "spjit_layer.hpp", "std_layer.hpp"])
        compiler = shutil.which(os.environ.get("SPJIT_CXX", "c++"))
        if compiler is None:
            return
        source = self.folder / "all.cpp"
        source.write_text("".join(f'#include "out/{header}"\n' for header in headers))
        subprocess.run([compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                        "-I", ROOT / "include", source], check=True, timeout=300)

    def test_assembly_lists_every_row_tile(self):
        self.generate("layer.npz", 100, 30)
        result = self.run_tool("compile", "layer.npz", "--n", 16, "--hot", "--no-measure",
                               "--out", "out", "--emit", "asm")
        if "LLVM" in result.stderr:
            self.skipTest("this build has no LLVM")

        text = (self.folder / "out" / "layer.asm").read_text()

        self.assertEqual(result.returncode, OK)
        self.assertIn("# row tiles 0 to ", text)
        self.assertNotIn("(bad)", text)
        self.assertIn("ret", text)

    def test_a_directory_that_cannot_be_used_is_an_error_before_any_work(self):
        self.generate()
        (self.folder / "file").write_text("in the way")

        for out in ["file", "file/below", "/proc/spjit"]:
            result = self.run_tool("compile", "layer.npz", "--n", 8, "--out", out)
            self.assert_error(result, FAILED, out, "--out")
            self.assertFalse(self.cache.exists())

    def test_object_and_header_make_a_program(self):
        # One row [2 0 3] times B.
        (self.folder / "w.mtx").write_text("%%MatrixMarket matrix coordinate real general\n"
                                           "2 3 2\n1 1 2\n1 3 3\n")
        self.succeed("compile", "w.mtx", "--n", 2, "--no-measure", "--out", ".", "--emit",
                     "obj,header")

        output = self.run_program(
            '#include "w.hpp"\n#include <cstdio>\n'
            "int main() {\n"
            "  const float b[6] = {1, 2, 10, 20, 100, 200};\n"
            "  float c[4] = {-1, -1, -1, -1};\n"
            "  w().run(b, c);\n"
            '  std::printf("%g %g %g %g\\n", c[0], c[1], c[2], c[3]);\n'
            "  c[0] = -1;\n"
            "  w(w(), b, c);\n"
            '  std::printf("%g\\n", c[0]);\n'
            "}\n", "w.o")

        self.assertEqual(output, "302 604 0 0\n302\n")

    def code_of(self, begin: str) -> str:
        """The C++ in docs/use/api.md that begins so."""
        page = (ROOT / "docs" / "use" / "api.md").read_text(encoding="utf-8")
        blocks = [block for block in re.findall(r"```cpp\n(.*?)```", page, re.DOTALL)
                  if block.startswith(begin)]
        self.assertEqual(len(blocks), 1, begin)
        return blocks[0]

    def test_the_layers_in_the_documentation_compile_and_compute_what_it_says(self):
        self.generate("fc1.npz", 20, 30)
        page = (ROOT / "docs" / "use" / "api.md").read_text(encoding="utf-8")
        command = re.search(r"`spjit (compile fc1\.npz [^`]*)`", page)[1].split()
        self.succeed(*command, "--no-measure")
        include, linked = self.code_of('#include "fc1.hpp"\n').split("\n", 1)

        output = self.run_program(f"""
{include}
#include <cmath>
#include <cstdio>
#include <spjit/spjit.hpp>
#include <vector>

int main() {{
  const spjit::CsrMatrix a = spjit::load_matrix("fc1.npz");
  constexpr std::int64_t tokens = 7;
  std::vector<float> xs(8 * tokens * 30), ys(8 * tokens * 20), vector(20);
  for (std::size_t i = 0; i < xs.size(); ++i) xs[i] = std::cos(static_cast<float>(i));
  for (std::size_t i = 0; i < 20; ++i) vector[i] = static_cast<float>(i) / 10 - 1;
  const float* const x = xs.data();
  float* const y = ys.data();
  const float* const bias = vector.data();
  const auto worst = [&](std::int64_t count, bool has_gelu = true, double least = 1e-5) {{
    double most = 0;
    for (std::int64_t token = 0; token < count; ++token) {{
      for (std::int64_t row = 0; row < 20; ++row) {{
        double sum = bias[row];
        for (auto i = a.row_ptrs[row]; i < a.row_ptrs[row + 1]; ++i) {{
          sum += double(a.values[i]) * double(x[token * 30 + a.col_idxs[i]]);
        }}
        const double gelu = sum / 2 * (1 + std::erf(sum / std::sqrt(2.0)));
        const double expected = has_gelu ? gelu : sum;
        most = std::fmax(most, std::fabs(expected - double(y[token * 20 + row])));
      }}
    }}
    for (float& value : ys) value = -1000;
    return most < least;
  }};
{linked}
  const bool linked_is_right = worst(tokens);
{self.code_of("spjit::Kernel layer")}
  const bool layer_is_right = worst(8 * tokens);
  const spjit::QuantizedMatrix whole = spjit::quantize_rows(a);
  const float* const weight_scales = whole.scale.data();
  {{
    const spjit::CsrMatrix& a = whole.integers;
{self.code_of("spjit::Kernel quantised")}
  }}
  std::printf("%d %d %d\\n", linked_is_right, layer_is_right, worst(tokens, false, 0.05));
}}
""", "fc1.o")

        self.assertEqual(output, "1 1 1\n")

    def test_a_header_names_every_operand_that_a_run_needs(self):
        self.generate("layer.npz")
        command = ["compile", "layer.npz", "--no-measure", "--out", ".", "--emit", "header"]

        self.succeed(*command, "--n", "any:9", "--b-layout", "tokens", "--scale", "--residual",
                     "--activation", "clamp:0,6", "--runtime-values")
        layer = (self.folder / "layer.hpp").read_text()
        self.succeed(*command, "--n", 9)
        product = (self.folder / "layer.hpp").read_text()

        formula = "C = clamp(scale * (A * B) + residual, 0, 6)"
        for part in [f"// {formula} with A [40 x 30], 240 nonzeros; any n, chosen for 9; host-",
                     "/// b: tokens [n x 30]\n/// c: features [40 x n]\n",
                     "/// scale: [40], a number for each row of A\n/// residual: as c\n",
                     "layer(const spjit::Kernel& kernel, const float* b, float* c, std::int64_t n, "
                     "const float* scale, const float* residual, "
                     "const spjit::PreparedValues& values) {",
                     ".n = n, .scale = scale, .residual = residual, .values = &values}"]:
            self.assertIn(part, layer)
        for part in ["// C = A * B with A [40 x 30], 240 nonzeros; n = 9; host-",
                     "/// b: features [30 x 9]\n/// c: features [40 x 9]\n",
                     "layer(const spjit::Kernel& kernel, const float* b, float* c) {"]:
            self.assertIn(part, product)


if __name__ == "__main__":
    unittest.main()
