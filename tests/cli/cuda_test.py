"""spjit compile, explain and cache for a GPU that is not there."""

import json
import unittest
import xml.etree.ElementTree

from spjit_tool import FAILED, OK, USAGE, ToolTest, long_tests

# Every option a GPU target has a meaning for.
TARGET = ["--n", 40, "--target", "sm_90"]
NO_GPU = {"SPJIT_CUDA_DRIVER": "/nowhere/libcuda.so.1"}


class CudaTest(ToolTest):
    def setUp(self):
        super().setUp()
        document = json.loads(self.run_tool("devices", "--no-measure", "--json").stdout)
        gpus = {entry["target"]: entry for entry in document["cuda"]["targets"]}
        self.reason = "" if gpus["sm_90"]["compiles"] else gpus["sm_90"]["reason"]
        self.generate("layer.npz", 96, 64)

    def need_compiler(self):
        if self.reason:
            self.skipTest(self.reason)

    def compile(self, *arguments, status=OK, **extra):
        return self.run_json("compile", "layer.npz", *TARGET, *arguments, status=status, **extra)

    def test_a_gpu_and_the_host_are_in_one_table_and_bundle(self):
        self.need_compiler()

        result = self.succeed("compile", "layer.npz", "--n", 40, "--no-measure", "--target",
                              "host,sm_90", "-o", "model.spjit", **NO_GPU)

        kernels = self.run_json("bundle", "ls", "model.spjit")["kernels"]
        self.assertEqual(len(kernels), 2)
        self.assertEqual(kernels[1]["kernel"]["target"], "sm_90")
        lines = [line.split() for line in result.stdout.splitlines()]
        self.assertEqual(lines[0][:2], ["file", "target"])
        self.assertIn("registers", lines[0])

    def test_a_layer_is_compiled_and_then_found_in_the_cache(self):
        self.need_compiler()

        first = self.compile()["layers"][0]
        second = self.compile()["layers"][0]

        self.assertEqual(first["kernel"]["family"], "unrolled")
        self.assertFalse(first["kernel"]["from_cache"])
        self.assertTrue(second["kernel"]["from_cache"])
        self.assertEqual(first["kernel"]["key"], second["kernel"]["key"])
        self.assertEqual(first["record"], second["record"])
        self.assertIn("ranked, not timed", first["kernel"]["reason"])
        self.assertEqual(first["kernel"]["cuda"]["spilled_bytes"], 0)
        self.assertEqual(first["record"]["search"]["timed"], False)
        self.assertEqual(first["notes"], [])

    def test_files_are_written(self):
        self.need_compiler()

        plain = self.compile("--out", "plain")
        layer = self.compile("--out", "o", "--keep-source")["layers"][0]

        self.assertFalse(plain["options"]["cuda"]["keep_source"])
        self.assertEqual(sorted(path.name for path in (self.folder / "plain").iterdir()),
                         ["layer.cubin", "layer.json"])
        self.assertEqual(sorted(path.name for path in (self.folder / "o").iterdir()),
                         ["layer.cu", "layer.cubin", "layer.json", "layer.ptx"])
        self.assertTrue((self.folder / "o/layer.cubin").read_bytes().startswith(b"\x7fELF"))
        self.assertIn("__fmaf_rn", (self.folder / "o/layer.cu").read_text())
        self.assertIn("fma.rn.f32", (self.folder / "o/layer.ptx").read_text())
        self.assertEqual(len(layer["files"]), 4)

    def test_sources_are_kept_where_they_are_asked_for(self):
        self.need_compiler()

        plain = self.compile()["layers"][0]
        kept = self.compile("--out", "o", "--emit", "ptx")["layers"][0]
        again = self.compile("--keep-source")["layers"][0]
        sizes = {entry["key"]: entry["bytes"] for entry in self.run_json("cache", "ls")["entries"]}

        self.assertEqual([file["name"] for file in plain["record"]["files"]], ["kernel.cubin"])
        self.assertEqual([file["name"] for file in kept["record"]["files"]],
                         ["kernel.cu.gz", "kernel.cubin", "kernel.ptx.gz"])
        self.assertFalse(kept["kernel"]["from_cache"])
        self.assertTrue(again["kernel"]["from_cache"])
        self.assertIn("fma.rn.f32", (self.folder / "o/layer.ptx").read_text())
        self.assertLess(sizes[plain["kernel"]["key"]], sizes[kept["kernel"]["key"]])

    def test_records_have_8_kilobytes_and_the_space_is_of_explain(self):
        self.need_compiler()
        size = 512 if long_tests() else 192
        self.generate("large.npz", size, size, 0.9)

        for mode in ("instant", "ranked"):
            layer = self.run_json("compile", "large.npz", "--n", 512, "--target", "sm_90",
                                  "--search", mode, "--top-k", 3)["layers"][0]
            record = layer["record"]
            del record["files"]
            self.assertLessEqual(len(json.dumps(record, separators=(",", ":"))), 8192)
            self.assertNotIn("space", record["search"])

    def test_files_of_a_kernel_that_reads_a_have_the_matrix(self):
        self.need_compiler()

        self.compile("--family", "csr", "--runtime-values", "--out", "o")

        self.assertEqual(sorted(path.name for path in (self.folder / "o").iterdir()),
                         ["layer.cubin", "layer.json", "layer.matrix"])

    def test_a_cache_shows_code_that_kernels_share_and_no_bundle_takes_it(self):
        self.need_compiler()
        self.compile("--family", "csr")

        entries = self.run_json("cache", "ls")["entries"]
        self.succeed("cache", "verify")
        self.succeed("cache", "export", "--out", "kernels.spjit")

        self.assertEqual(sorted(entry["kernel"]["family"] for entry in entries), ["code", "csr"])
        self.assertEqual(len(self.run_json("bundle", "ls", "kernels.spjit")["kernels"]), 1)

    def test_values_at_run_time_have_their_positions(self):
        self.need_compiler()

        layer = self.compile("--runtime-values", "--out", "o", "--emit", "cubin,positions,json")[
            "layers"][0]
        self.compile("--out", "own", "--emit", "cubin,positions,json")

        self.assertEqual(sorted(path.name for path in (self.folder / "o").iterdir()),
                         ["layer.cubin", "layer.json", "layer.positions"])
        positions = (self.folder / "o/layer.positions").read_bytes()
        self.assertIn({"name": "kernel.positions", "bytes": len(positions)},
                      [{"name": file["name"], "bytes": file["bytes"]}
                       for file in layer["record"]["files"]])
        self.assertEqual(len(positions) % 16, 0)
        self.assertFalse((self.folder / "own/layer.positions").exists())

    def test_unrolled_code_of_a_convolution_is_of_images_of_one_size(self):
        self.need_compiler()
        self.generate("conv.npz", 24, 8 * 9)
        conv = ["compile", "conv.npz", "--conv", "8x10x9", "--kernel", 3, "--pad", 1, "--target",
                "sm_80"]

        layer = self.run_json(*conv, "--out", "o", "--keep-source")["layers"][0]
        refused = self.run_tool(*conv, "--n", "any", "--family", "unrolled")
        taken = self.run_json(*conv, "--n", "any")["layers"][0]

        self.assertEqual(layer["record"]["program"]["n"], 90)
        self.assertEqual(layer["record"]["program"]["convolution"]["kernel"], [3, 3])
        self.assertIn("@valid0 ld.global.nc.f32", (self.folder / "o/conv.ptx").read_text())
        self.assertEqual(refused.returncode, FAILED)
        self.assertIn("images whose size a run says", refused.stdout + refused.stderr)
        self.assertEqual(taken["kernel"]["family"], "csr")

    def test_both_sources_and_any_n(self):
        self.need_compiler()

        for source in ["ptx", "cuda"]:
            layer = self.run_json("compile", "layer.npz", "--n", "any:40", "--target", "sm_90",
                                  "--from", source, "--m1", 4, "--n1", 64)["layers"][0]
            self.assertEqual(layer["kernel"]["cuda"]["compiled_from"], source)
            self.assertTrue(layer["kernel"]["tile"].startswith("rows=4 columns=64"))
            self.assertEqual(layer["record"]["problem"]["n"], {"value": 40, "runtime": True})

    def test_the_table_says_that_nothing_was_timed(self):
        self.need_compiler()

        self.assertIn("Ranked, not timed.", self.succeed("compile", "layer.npz", *TARGET).stdout)

    def test_unrolled_code_over_the_budget_is_one_error_and_nothing_is_cached(self):
        result = self.run_tool("compile", "layer.npz", *TARGET, "--code-budget", 1000, "--family",
                               "unrolled")

        self.assert_error(result, FAILED, "the budget is 1000")
        self.assertEqual(self.run_json("cache", "ls")["entries"], [])

    def test_over_the_code_budget_a_kernel_that_reads_a_takes_over(self):
        self.need_compiler()
        self.generate("sparse.npz", 96, 64, 0.9)

        layer = self.run_json("compile", "sparse.npz", *TARGET, "--code-budget", 1000)["layers"][0]

        self.assertEqual(layer["kernel"]["family"], "csr")
        self.assertIn("the budget is 1000", layer["kernel"]["reason"])

    def test_a_family_can_be_named(self):
        self.need_compiler()

        for family in ["csr", "dense", "unrolled"]:
            layer = self.run_json("compile", "layer.npz", *TARGET, "--family", family)["layers"][0]
            self.assertEqual(layer["kernel"]["family"], family)
        for family in ["narrow", "packed"]:
            self.assert_error(self.run_tool("compile", "layer.npz", *TARGET, "--family", family),
                              FAILED, f"{family}: it is for n of 1 to 16")
        self.assert_error(self.run_tool("compile", "layer.npz", *TARGET, "--family", "compact"),
                          FAILED, "the policy names compact")

    def test_without_libraries_one_line_says_what_to_run(self):
        result = self.run_tool("compile", "layer.npz", *TARGET, "--cuda", self.folder)

        self.assert_error(result, FAILED, "setup_cuda.sh")
        self.assertEqual(self.run_json("cache", "ls")["entries"], [])

    def test_a_compile_limit_is_kept_and_leaves_nothing(self):
        self.need_compiler()

        result = self.run_tool("compile", "layer.npz", *TARGET, "--compile-limit", 0.001)

        self.assert_error(result, FAILED, "given up")
        self.assertEqual(self.run_json("cache", "ls")["entries"], [])

    def test_a_search_without_a_gpu_ranks_and_says_so(self):
        self.need_compiler()
        instant = self.compile()["layers"][0]

        for mode in ["proxy", "exhaustive"]:
            with self.subTest(mode=mode):
                layer = self.compile("--search", mode, "--no-cache", **NO_GPU)["layers"][0]
                text = self.succeed("compile", "layer.npz", *TARGET, "--search", mode,
                                    "--no-cache", **NO_GPU).stdout

                search = layer["record"]["search"]
                self.assertIn("ranked, not timed: ", layer["kernel"]["reason"])
                self.assertIn(NO_GPU["SPJIT_CUDA_DRIVER"], layer["kernel"]["reason"])
                self.assertEqual(layer["kernel"]["tile"], instant["kernel"]["tile"])
                self.assertEqual(search["mode"], mode)
                self.assertEqual(search["reason"], layer["kernel"]["reason"])
                self.assertFalse(search["timed"])
                self.assertNotIn("entries", search)
                self.assertIn("Ranked, not timed.", text)
                self.assertIn(NO_GPU["SPJIT_CUDA_DRIVER"], text)
                self.assertIn(layer["kernel"]["reason"], layer["notes"])

    def test_ranked_without_a_gpu_is_modelled_and_every_output_says_so(self):
        self.need_compiler()

        layer = self.compile("--search", "ranked", "--top-k", 2, "--no-cache", **NO_GPU)["layers"][0]
        text = self.succeed("compile", "layer.npz", *TARGET, "--search", "ranked", "--top-k", 2,
                            "--no-cache", **NO_GPU).stdout
        explained = self.succeed("explain", "layer.npz", *TARGET, "--search", "ranked", "--top-k",
                                 2, **NO_GPU).stdout

        search = layer["record"]["search"]
        self.assertIn("modelled, not timed", layer["kernel"]["reason"])
        self.assertIn(NO_GPU["SPJIT_CUDA_DRIVER"], layer["kernel"]["reason"])
        self.assertIn("compared with measured times of tiles on an NVIDIA H100", layer["kernel"]["reason"])
        self.assertIn(layer["kernel"]["reason"], layer["notes"])
        self.assertFalse(search["timed"])
        self.assertTrue(search["modelled"])
        asked = [entry for entry in search["entries"] if "modelled" in entry]
        self.assertEqual(len(asked), 2)
        self.assertTrue(all(entry["modelled"]["us"] > 0 for entry in asked))
        best = min(asked, key=lambda entry: entry["modelled"]["us"])
        self.assertEqual(layer["kernel"]["tile"], best["tile"])
        self.assertIn("Modelled, not timed.", text)
        self.assertNotIn("Ranked, not timed", text)
        self.assertIn("2 of", explained)
        self.assertIn("tiles modelled, not timed", explained)

    def test_bench_without_a_gpu_is_one_line_before_any_work(self):
        result = self.run_tool("bench", "layer.npz", *TARGET, **NO_GPU)

        self.assert_error(result, FAILED, "sm_90", NO_GPU["SPJIT_CUDA_DRIVER"])
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertFalse(self.cache.exists())

    def test_the_table_has_the_numbers_of_a_gpu(self):
        self.need_compiler()

        header, row = self.succeed("compile", "layer.npz", *TARGET, **NO_GPU).stdout.splitlines()[:2]

        for title in ["family", "tile", "registers", "spilled", "blocks/SM", "kernel us"]:
            self.assertIn(title, header)
        self.assertNotIn("vs CSR", header)
        self.assertIn(" unrolled ", row)

    def test_explain_has_verdicts_and_the_groupings_of_the_tile(self):
        matrix = self.run_json("explain", "layer.npz", *TARGET, **NO_GPU)["matrices"][0]
        text = self.succeed("explain", "layer.npz", *TARGET, **NO_GPU).stdout

        self.assertEqual(matrix["choice"]["verdicts"][-1]["family"], "unrolled")
        self.assertEqual(matrix["ranked"][0]["tile"], matrix["choice"]["tile"]["name"])
        self.assertEqual(set(matrix["groupings"]), {"none", "balanced", "similarity"})
        self.assertIn("predicted_registers=", text)
        self.assertIn(f"Rows in tiles of {matrix['m1']}", text)

    def test_explain_says_that_a_search_was_not_timed(self):
        for mode in ["proxy", "exhaustive"]:
            arguments = ["explain", "layer.npz", *TARGET, "--search", mode]
            document = self.run_json(*arguments, **NO_GPU)["matrices"][0]
            text = self.succeed(*arguments, **NO_GPU).stdout

            self.assertIn("ranked, not timed: ", document["choice"]["reason"])
            self.assertIsNone(document["choice"]["search"])
            self.assertIn("ranked, not timed: ", text)

    def test_proxies_are_made_from_ptx_or_cuda(self):
        for source in ["ptx", "cuda"]:
            document = self.run_json("explain", "layer.npz", *TARGET, "--search", "ranked",
                                     "--proxy-from", source, **NO_GPU)
            self.assertEqual(document["options"]["cuda"]["proxy_from"], source)

        refused = self.run_tool("explain", "layer.npz", *TARGET, "--proxy-from", "cubin")

        self.assert_error(refused, USAGE, "cubin", "ptx", "cuda")
        self.assertEqual(len(refused.stderr.splitlines()), 1)

    def test_explain_needs_no_library_and_draws_the_space(self):
        document = self.run_json("explain", "layer.npz", *TARGET, "--plot", "s.svg", "--cuda",
                                 self.folder)["matrices"][0]
        text = self.succeed("explain", "layer.npz", *TARGET).stdout

        self.assertEqual(document["device"], "sm_90:h100")
        self.assertGreater(len(document["candidates"]), 50)
        rules = {entry["dropped"]["rule"] for entry in document["candidates"]
                 if entry.get("dropped")}
        self.assertIn("occupancy", rules)
        self.assertIn("M1 \\ N1", text)
        root = xml.etree.ElementTree.parse(self.folder / "s.svg").getroot()
        self.assertTrue(root.tag.endswith("svg"))


if __name__ == "__main__":
    unittest.main()
