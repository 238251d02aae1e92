"""What search_cost_bench.py and lab_bench write is what the report reads. Skips where they are
not built: SPJIT_BENCH_DIR names the folder that has them."""

import subprocess
import sys
import unittest
from pathlib import Path

import fixture  # makes the package report importable
from fixture import BENCH_DIR, ReportTest

PROGRAMS = ("search_way", "lab_bench")
MISSING = [name for name in PROGRAMS if not (BENCH_DIR / name).is_file()]


@unittest.skipIf(MISSING, f"{' and '.join(MISSING)} not in {BENCH_DIR}")
class WrittenTest(ReportTest):
    def run_bench(self, *command: object) -> object:
        from report.load import load
        path = self.folder / "result.json"
        result = subprocess.run([*command, "--json", path], text=True, capture_output=True,
                                timeout=600, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        if command[1] in ("host", "layer", "conv"):
            subprocess.run([sys.executable, fixture.ROOT / "bench/python/lab_goals.py", path],
                           check=True, stdout=subprocess.DEVNULL)
        return load(path)

    def test_search_cost_bench(self):
        result = self.run_bench(*fixture.SEARCH_COST, "--data", str(self.folder / "none"),
                                "--matrices", "rn50/magnitude_pruning/0.95/"
                                "bottleneck_2_block_group2_1_1", "--targets", "host", "--n", "32",
                                "--repeats", "1", "--limit", "300")

        self.assertEqual(result.ways, ["full undivided", "proxies", "ranked", "instant"])
        self.assertEqual({(row.matrix, row.nnz, row.n, row.killed) for row in result.rows},
                         {("uniform/128x1152/0.95", 7373, 32, False)})
        self.assertEqual(result.rows[2].candidates, 10)
        self.assertTrue(all(row.seconds > 0 and row.peak_mib > 0 for row in result.rows))

    def test_search_cost_bench_says_what_it_had_to_stop(self):
        result = self.run_bench(*fixture.SEARCH_COST, "--data", str(self.folder / "none"),
                                "--targets", "host", "--ways", "full undivided",
                                "--limit", "0.01")

        self.assertEqual([row.killed for row in result.rows], 3 * [True])
        self.assertEqual({row.seconds for row in result.rows}, {0.01})
        self.assertEqual({row.estimated_seconds for row in result.rows}, {None})

    def test_host(self):
        result = self.run_bench(BENCH_DIR / "lab_bench", "host", "--quick", "--threads", "1", "--n", "128",
                                "--peers", "csr")

        (case,) = result.cases
        self.assertEqual((case.set, case.matrix), ("generated", "uniform/512x512/0.5"))
        self.assertGreater(case.speedup("csr"), 0)
        self.assertGreater(case.timings["spjit"].prepare_ms, 0)

    def run_model(self, *arguments: str) -> object:
        """On a network of two layers: 3 x 4, then 4 x 3."""
        networks = self.folder / "networks/tiny"
        networks.mkdir(parents=True, exist_ok=True)
        (networks / "0.smtx").write_text("3, 4, 4\n0 2 3 4\n0 3 1 2\n", encoding="utf-8")
        (networks / "1.smtx").write_text("4, 3, 4\n0 1 1 2 4\n0 2 0 1\n", encoding="utf-8")
        return self.run_bench(BENCH_DIR / "lab_bench", "model", "--networks", str(networks.parent), "--data",
                              str(self.folder / "none"), "--threads", "1", "--budget-ms", "1",
                              "--peers", "spjit,onnxruntime", "--families", "csr",
                              "--onnxruntime", str(self.folder / "none"), *arguments)

    def test_model_lists_what_is_missing(self):
        passes = self.run_model("--n", "1,8").passes

        self.assertEqual({library.name: library.missing is None for library in passes.libraries},
                         {"spjit": True, "onnxruntime": False, "csr": True})
        self.assertEqual([(case.matrix, case.nnz, case.n) for case in passes.cases],
                         [("tiny", 8, 1), ("tiny", 8, 8)])
        self.assertEqual({timing.median_us > 0 for case in passes.cases
                          for timing in case.timings.values()}, {True})

    def test_model_goes_on(self):
        before = self.run_model("--n", "1,8").passes.cases

        result = self.run_model("--n", "2,8", "--append")

        self.assertEqual(result.passes.cases[:2], before)
        self.assertEqual([case.n for case in result.passes.cases], [1, 8, 2])

    def test_model_ends_in_time(self):
        self.run_model("--n", "1")

        result = self.run_model("--n", "2,8", "--append", "--max-minutes", "1e-9")

        self.assertEqual([case.n for case in result.passes.cases], [1])

    def test_layer(self):
        result = self.run_bench(BENCH_DIR / "lab_bench", "layer", "--quick", "--threads", "1")

        self.assertEqual(result.failures, [])
        self.assertEqual([case.n for case in result.cases if case.comparison == "batch"],
                         3 * [1024])
        for comparison in ("layout", "runtime-n", "epilogue", "batch", "values"):
            self.assertTrue(any(summary.mean.wanted for summary in result.summaries
                                if summary.comparison == comparison), comparison)
        self.assertTrue(all(len(case.timings) > 1 for case in result.cases))

    def test_layer_goes_on(self):
        compare = ("--quick", "--threads", "1", "--compare", "runtime-n")
        before = self.run_bench(BENCH_DIR / "lab_bench", "layer", *compare, "--n", "1,16").cases

        result = self.run_bench(BENCH_DIR / "lab_bench", "layer", *compare, "--n", "16,64", "--append")

        self.assertEqual(result.cases[:len(before)], before)
        self.assertEqual(sorted({case.n for case in result.cases}), [1, 16, 64])

    def test_conv(self):
        result = self.run_bench(BENCH_DIR / "lab_bench", "conv", "--quick", "--threads", "1", "--batch", "2")

        self.assertEqual(result.wrong, [])
        self.assertEqual([case.kernel for case in result.cases],
                         ["7x7", "3x3", "1x1", "depthwise 3x3", "grouped 3x3", "1x1 strided"])
        for own in ("spjit", "spjit-nhwc", "im2col+spmm"):
            self.assertTrue(all(own in case.median_us for case in result.cases))
        self.assertEqual({goal.state for goal in result.goals}, {"NO DATA"})

    def test_conv_goes_on(self):
        quick = ("--quick", "--threads", "1", "--peers", "spjit", "--families", "csr")
        before = self.run_bench(BENCH_DIR / "lab_bench", "conv", *quick, "--batch", "1").cases

        result = self.run_bench(BENCH_DIR / "lab_bench", "conv", *quick, "--batch", "1,2", "--append")

        self.assertEqual(result.cases[:len(before)], before)
        self.assertEqual(sorted({case.batch for case in result.cases}), [1, 2])

    def test_conv_ends_in_time(self):
        quick = ("--quick", "--threads", "1", "--peers", "spjit", "--families", "csr")
        self.run_bench(BENCH_DIR / "lab_bench", "conv", *quick, "--batch", "1")

        result = self.run_bench(BENCH_DIR / "lab_bench", "conv", *quick, "--batch", "2", "--append", "--max-minutes",
                                "1e-9")

        self.assertEqual({case.batch for case in result.cases}, {1})


if __name__ == "__main__":
    unittest.main()
