"""What search_cost_bench and host_compile_bench write is what the report reads. Skips where they
are not built: SPJIT_BENCH_DIR names the folder that has them."""

import os
import subprocess
import unittest
from pathlib import Path

import fixture  # noqa: F401  (makes the package report importable)
from fixture import ReportTest

BENCH_DIR = Path(os.environ.get("SPJIT_BENCH_DIR", fixture.ROOT / "build/release/bench"))
PROGRAMS = ("search_cost_bench", "host_compile_bench")
MISSING = [name for name in PROGRAMS if not (BENCH_DIR / name).is_file()]


@unittest.skipIf(MISSING, f"{' and '.join(MISSING)} not in {BENCH_DIR}")
class WrittenTest(ReportTest):
    def run_bench(self, name: str, *arguments: str) -> object:
        from report.load import load
        path = self.folder / f"{name}.json"
        result = subprocess.run([BENCH_DIR / name, *arguments, "--json", path], text=True,
                                capture_output=True, timeout=600, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        return load(path)

    def test_search_cost_bench(self):
        result = self.run_bench("search_cost_bench", "--data", str(self.folder / "none"),
                                "--matrices", "rn50/magnitude_pruning/0.95/"
                                "bottleneck_2_block_group2_1_1", "--targets", "host", "--n", "32",
                                "--repeats", "1", "--limit", "300")

        self.assertEqual(result.ways, ["full undivided", "proxies", "ranked", "instant"])
        self.assertEqual({(row.matrix, row.nnz, row.n, row.killed) for row in result.rows},
                         {("uniform/128x1152/0.95", 7373, 32, False)})
        self.assertEqual(result.rows[2].candidates, 10)
        self.assertTrue(all(row.seconds > 0 and row.peak_mib > 0 for row in result.rows))

    def test_search_cost_bench_says_what_it_had_to_stop(self):
        result = self.run_bench("search_cost_bench", "--data", str(self.folder / "none"),
                                "--targets", "host", "--ways", "full undivided",
                                "--limit", "0.01")

        self.assertEqual([row.killed for row in result.rows], 3 * [True])
        self.assertEqual({row.seconds for row in result.rows}, {0.01})
        self.assertEqual({row.estimated_seconds for row in result.rows}, {None})

    def test_host_compile_bench(self):
        result = self.run_bench("host_compile_bench", "--sizes", "1,3", "--repeats", "2")

        self.assertEqual([(p.method, p.nnz, p.runs) for p in result.points],
                         [("host avx512", 1024, 2), ("host avx2", 1024, 2),
                          ("host avx512", 3277, 2), ("host avx2", 3277, 2)])
        self.assertTrue(all(p.seconds > 0 and p.code_bytes > 0 for p in result.points))


if __name__ == "__main__":
    unittest.main()
