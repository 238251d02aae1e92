"""spjit gen, bench, explain, cache, devices."""

import json
import re
import unittest
import xml.etree.ElementTree
from pathlib import Path

from spjit_tool import FAILED, OK, SOME_FAILED, USAGE, ToolTest, long_tests


class GenTest(ToolTest):
    def test_the_same_options_give_the_same_bytes(self):
        for extension in ["mtx", "npz"]:
            first = self.generate(f"a.{extension}").read_bytes()
            second = self.generate(f"b.{extension}").read_bytes()
            other = self.generate(f"c.{extension}", 40, 30, 0.8, "--seed", 2).read_bytes()

            self.assertEqual(first, second)
            self.assertNotEqual(first, other)

    def test_every_pattern_has_the_shape_and_sparsity_asked_for(self):
        for pattern in ["uniform", "uneven_rows", "blocks", "power_law", "banded", "magnitude"]:
            report = self.run_json("gen", "--rows", 64, "--cols", 32, "--sparsity", 0.75,
                                   "--pattern", pattern, "--block-rows", 2, "--out", "m.mtx")

            size_line = (self.folder / "m.mtx").read_text().splitlines()[1].split()
            self.assertEqual(size_line, ["64", "32", str(report["nnz"])])
            self.assertAlmostEqual(report["sparsity"], 0.75, delta=8 / (64 * 32))

    def test_wrong_options_are_usage_errors_and_leave_no_file(self):
        shape = ["gen", "--rows", 4, "--cols", 4]
        for arguments in [["--out", "m.csv"], ["--out", "m.npz", "--sparsity", 2],
                          ["--out", "m.npz", "--pattern", "spiral"],
                          ["--out", "m.npz", "--block-rows", 0]]:
            self.assert_error(self.run_tool(*shape, *arguments), USAGE, str(arguments[-1]))
        self.assertEqual(list(self.folder.glob("m.*")), [])

    def test_a_file_that_cannot_be_written(self):
        result = self.run_tool("gen", "--rows", 4, "--cols", 4, "--out", "no/such/folder/m.npz")

        self.assert_error(result, FAILED, "no/such/folder/m.npz")


class BenchTest(ToolTest):
    def test_every_thread_count_has_the_kernel_and_its_peers(self):
        self.generate("layer.npz", 64, 64)

        document = self.run_json("bench", "layer.npz", "--n", 32, "--threads", 2, "--budget", 50)

        runs = document["matrices"][0]["runs"]
        self.assertEqual([run["threads"] for run in runs], [1, 2])
        for run in runs:
            for what in ["kernel", "csr"]:
                self.assertGreater(run[what]["median_us"], 0)
                self.assertLessEqual(run[what]["min_us"], run[what]["median_us"])
                self.assertGreaterEqual(run[what]["samples"], 7)
                self.assertGreaterEqual(run[what]["noise"], 0)
        self.assertGreater(document["peak_gflops_per_core"], 0)

    def test_the_table_goes_on_after_a_bad_file(self):
        self.generate("layer.npz", 16, 16)

        result = self.run_tool("bench", "missing.npz", "layer.npz", "--n", 8, "--threads", 1,
                               "--budget", 20)

        self.assert_error(result, SOME_FAILED, "missing.npz")
        rows = [line.split()[2] for line in result.stdout.splitlines()
                if line.startswith("layer.npz")]
        self.assertIn("spjit", rows)
        self.assertIn("CSR", rows)


class ExplainTest(ToolTest):
    def test_statistics_groupings_candidates_and_the_choice(self):
        self.generate("layer.npz", 200, 64)

        matrix = self.run_json("explain", "layer.npz", "--n", 48, "--target",
                               "host-avx512", "--hot")["matrices"][0]

        self.assertEqual(matrix["matrix"]["rows"], 200)
        self.assertEqual(set(matrix["groupings"]), {"none", "balanced", "similarity"})
        self.assertLess(matrix["groupings"]["similarity"]["nnc_sum"],
                        matrix["groupings"]["none"]["nnc_sum"])
        self.assertEqual(matrix["choice"]["family"], "unrolled")
        self.assertEqual(matrix["choice"]["tile"]["m1"], matrix["m1"])
        names = [candidate["tile"]["name"] for candidate in matrix["candidates"]]
        self.assertEqual(len(names), len(set(names)))
        dropped = [c["dropped"] for c in matrix["candidates"] if c["dropped"]]
        # 48 columns in panels of 32: padded by a third, over the rule's quarter.
        self.assertIn("balance", {entry["rule"] for entry in dropped})
        self.assertTrue(all(entry["numbers"] for entry in dropped))

    def test_the_text_names_the_rule_and_marks_the_choice(self):
        self.generate("layer.npz", 200, 64)

        text = self.succeed("explain", "layer.npz", "--n", 48, "--target", "host-avx512",
                            "--hot").stdout

        self.assertIn("Choice: ", text)
        self.assertRegex(text, r"(?m)^\*  similarity ")
        self.assertRegex(text, r"(?m) balance: .*\d")

    def test_a_rule_that_leaves_nothing_is_relaxed_and_the_output_says_so(self):
        self.generate("layer.npz", 200, 64)
        arguments = ["explain", "layer.npz", "--n", 24, "--target", "host-avx512", "--hot"]

        matrix = self.run_json(*arguments)["matrices"][0]
        text = self.succeed(*arguments).stdout

        self.assertEqual(matrix["relaxed_rules"], ["balance"])
        self.assertIn("The rule 'balance' was relaxed", text)

    def test_instant_mode_searches_nothing(self):
        self.generate()

        choice = self.run_json("explain", "layer.npz", "--n", 8)["matrices"][0]["choice"]

        self.assertIsNone(choice["search"])

    def test_an_exhaustive_search_has_both_times_of_every_tile_and_a_picture(self):
        rows, cols, n, least = (60, 40, 32, 5) if long_tests() else (16, 12, 16, 1)
        self.generate("layer.npz", rows, cols, 0.7)
        arguments = ["explain", "layer.npz", "--n", n, "--search", "exhaustive",
                     "--search-budget", 30000, "--family", "unrolled", "--reorder", "none"]

        choice = self.run_json(*arguments, "--plot", "s.svg")["matrices"][0]["choice"]
        text = self.succeed(*arguments).stdout

        search = choice["search"]
        self.assertEqual(search["mode"], "exhaustive")
        self.assertTrue(search["timed"] and search["proxies"])
        self.assertEqual(search["chosen"], choice["tile"]["name"])
        self.assertGreater(len(search["entries"]), least)
        for entry in search["entries"]:
            self.assertIn("outcome", entry["proxy"])
            self.assertIn("outcome", entry["full"])
        self.assertIn("Search: exhaustive", text)
        self.assertIn("M1 \\ N1", text)
        times = [[key for key in ["proxy", "full"] if "median_us" in entry[key]]
                 for entry in search["entries"]]
        cells = {(entry["m1"], entry["n1"]) for entry, known in zip(search["entries"], times)
                 if known}
        marks, groups = self.marks_and_cells("s.svg")
        self.assertEqual(marks, times.count(["proxy", "full"]))
        self.assertEqual(groups, len(cells))

    def marks_and_cells(self, name):
        root = xml.etree.ElementTree.parse(self.folder / name).getroot()
        space = "{http://www.w3.org/2000/svg}"
        self.assertEqual(root.tag, space + "svg")
        return len(root.findall(space + "circle")), len(root.findall(space + "g"))

    def test_a_search_without_proxies_has_a_picture_too(self):
        self.generate("layer.npz", 60, 40)

        choice = self.run_json("explain", "layer.npz", "--n", 32, "--search", "ranked",
                               "--family", "unrolled", "--top-k", 3,
                               "--plot", "s.svg")["matrices"][0]["choice"]

        self.assertFalse(choice["search"]["proxies"])
        cells = {(entry["m1"], entry["n1"]) for entry in choice["search"]["entries"]
                 if "full" in entry}
        self.assertEqual(self.marks_and_cells("s.svg"), (0, len(cells)))

    def test_a_search_without_time_says_ranked_not_timed(self):
        self.generate()

        matrix = self.run_json("explain", "layer.npz", "--n", 8, "--search", "ranked",
                               "--family", "unrolled", "--search-budget", 0)["matrices"][0]

        self.assertIn("ranked, not timed", matrix["choice"]["reason"])
        self.assertFalse(matrix["choice"]["search"]["timed"])

    def test_nothing_is_cached(self):
        self.generate()

        self.succeed("explain", "layer.npz", "--n", 8)

        self.assertFalse(self.cache.exists())

    def test_a_takeover_is_explained(self):
        self.generate("layer.npz", 96, 64)

        choice = self.run_json("explain", "layer.npz", "--n", 40, "--hot", "--code-budget",
                               1, "--choice", "rules")["matrices"][0]["choice"]

        self.assertIn(choice["family"], ["compact", "csr"])
        self.assertIn("unrolled", [verdict["family"] for verdict in choice["verdicts"]])
        self.assertIsNone(choice["tile"])
        self.assertIn("budget", choice["reason"])

    def test_a_bad_file_is_an_error_line_and_the_others_go_on(self):
        self.generate()

        result = self.run_tool("explain", "missing.npz", "layer.npz", "--n", 8)

        self.assert_error(result, SOME_FAILED, "missing.npz")
        self.assertIn("layer.npz", result.stdout)


class CacheTest(ToolTest):
    def test_round_trip(self):
        self.generate()
        layer = self.run_json("compile", "layer.npz", "--n", 8, "--no-measure")["layers"][0]
        key = layer["kernel"]["key"]

        listed = self.run_json("cache", "ls")
        shown = self.run_json("cache", "show", key[:10])
        cleared = self.run_json("cache", "clear", "--yes")
        after = self.run_json("cache", "ls")

        self.assertEqual([entry["key"] for entry in listed["entries"]], [key])
        self.assertEqual(shown, listed["entries"][0])
        self.assertEqual(shown["kernel"]["problem"]["n"]["value"], 8)
        self.assertEqual(shown["kernel"]["matrix"]["rows"], 40)
        self.assertEqual(cleared["entries_removed"], 1)
        self.assertEqual(cleared["bytes_removed"], listed["bytes"])
        self.assertEqual(after["entries"], [])

    def test_text_output(self):
        self.generate()
        self.succeed("compile", "layer.npz", "--n", 8, "--no-measure", "--cache", "other")

        listed = self.succeed("cache", "ls", "--cache", "other").stdout
        key = listed.splitlines()[1].split()[0]
        shown = self.succeed("cache", "show", key, "--cache", "other").stdout
        cleared = self.succeed("cache", "clear", "--yes", "--cache", "other").stdout

        self.assertIn("40x30", listed)
        self.assertTrue(shown.startswith(f"key        {key}"), shown)
        self.assertIn("1 kernels", cleared)
        self.assertFalse(self.cache.exists())

    def test_an_unknown_and_an_ambiguous_key(self):
        self.generate()
        for n in range(1, 18):  # two of 17 keys begin with the same of 16 digits
            self.succeed("compile", "layer.npz", "--n", n, "--no-measure", "--no-verify")
        keys = [entry["key"] for entry in self.run_json("cache", "ls")["entries"]]
        first_digits = [key[0] for key in keys]
        ambiguous = next(d for d in first_digits if first_digits.count(d) > 1)

        self.assert_error(self.run_tool("cache", "show", "xyz"), FAILED, "xyz", "cache ls")
        self.assert_error(self.run_tool("cache", "show", ambiguous), FAILED, "more digits")

    def test_clear_asks_first(self):
        self.generate()
        self.succeed("compile", "layer.npz", "--n", 8, "--no-measure")

        result = self.run_tool("cache", "clear")

        self.assert_error(result, USAGE, "--yes")
        self.assertEqual(len(self.run_json("cache", "ls")["entries"]), 1)

    def test_a_directory_that_is_no_cache_is_left_alone(self):
        other = self.folder / "precious"
        other.mkdir()
        (other / "thesis.txt").write_text("years of work")

        for action in [["ls"], ["clear", "--yes"]]:
            self.assert_error(self.run_tool("cache", *action, "--cache", other), FAILED, "precious")
        self.assertEqual((other / "thesis.txt").read_text(), "years of work")

    def test_a_cache_that_does_not_exist_is_empty(self):
        self.assertEqual(self.run_json("cache", "ls")["entries"], [])


class DevicesTest(ToolTest):
    def test_the_host_and_every_target(self):
        document = self.run_json("devices")

        host = document["host"]
        self.assertGreaterEqual(host["cpus"], 1)
        self.assertGreater(host["fma_peak_gflops_per_core"], 0)
        targets = {entry["target"]: entry for entry in document["targets"]}
        self.assertTrue(targets["host-" + host["isa"]]["available"])
        flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(),
                          re.MULTILINE)
        text = self.succeed("devices", "--no-measure").stdout
        for member, flag, name in [("avx512_vbmi", "avx512vbmi", "AVX-512 VBMI"),
                                   ("avx512_vbmi2", "avx512_vbmi2", "AVX-512 VBMI2"),
                                   ("avx512_vnni", "avx512_vnni", "AVX-512 VNNI"),
                                   ("avx_vnni", "avx_vnni", "AVX-VNNI")]:
            self.assertEqual(host[member], bool(flags) and flag in flags[1].split())
            line = re.search(f"for integers .*{name}(,|$)", text, re.MULTILINE)
            self.assertEqual(host[member], line is not None)
        gpus = {entry["target"]: entry for entry in document["cuda"]["targets"]}
        self.assertEqual(gpus["sm_90"]["cards"][0], "h100")
        self.assertEqual(gpus["sm_90"]["compiles"], "NVRTC" in gpus["sm_90"]["reason"]
                         and "nvJitLink" in gpus["sm_90"]["reason"]
                         and "setup_cuda" not in gpus["sm_90"]["reason"])
        if not document["cuda"]["gpus"]:
            self.assertIn("libcuda.so.1", document["cuda"]["problem"])

    def test_without_compiler_libraries_what_to_run_is_said(self):
        text = self.run_tool("devices", "--no-measure", SPJIT_CUDA_PATH=str(self.folder)).stdout

        self.assertIn("scripts/build/setup_cuda.sh", text)
        self.assertIn("sm_90", text)

    def test_without_measuring(self):
        document = self.run_json("devices", "--no-measure")
        text = self.succeed("devices", "--no-measure").stdout

        self.assertIsNone(document["host"]["fma_peak_gflops_per_core"])
        self.assertNotIn("FMA peak", text)
        self.assertIn("host-avx2", text)

    def test_json_is_one_document(self):
        result = self.succeed("devices", "--no-measure", "--json")

        json.loads(result.stdout)
        self.assertEqual(result.returncode, OK)
        self.assertEqual(result.stderr, "")


if __name__ == "__main__":
    unittest.main()
