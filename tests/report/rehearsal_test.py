"""What the benchmarks write in a rehearsal on the emulated GPU: the report takes what has no times,
and refuses what has some. Skips without the programs (SPJIT_BENCH_DIR names their folder), the
emulated driver or NVIDIA's compiler libraries."""

import json
import os
import subprocess
import sys
import unittest

import fixture
from fixture import BENCH_DIR, ReportTest

sys.path.insert(0, str(fixture.ROOT / "tests/support"))
from long_tests import long_tests  # noqa: E402

DRIVER = BENCH_DIR.parent / "tests/emulated_driver/libspjit_emulated_cuda.so"
NEEDED = (BENCH_DIR / "side_by_side_bench", BENCH_DIR / "search_way", DRIVER)
MISSING = [str(path) for path in NEEDED if not path.is_file()]


@unittest.skipIf(MISSING, f"there is no {', '.join(MISSING)}")
class RehearsalTest(ReportTest):
    def rehearse(self, *command: object) -> dict:
        path = self.folder / "rehearsal.json"
        command = [*command, "--rehearse", "--json", path]
        result = subprocess.run(command, text=True, capture_output=True, timeout=600, check=False,
                                env={**os.environ, "SPJIT_CUDA_DRIVER": str(DRIVER)})
        if "MISSING" in result.stdout or "left out" in result.stdout:
            self.skipTest(result.stdout)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        return json.loads(path.read_text(encoding="utf-8"))

    def test_a_page_of_checked_cases(self):
        document = self.rehearse(BENCH_DIR / "side_by_side_bench", "--gpu", "0", "--set", "paper", "--only",
                                 "36-64x192/0.98", "--peers", "spjit", "row-split",
                                 "sputnik-style")

        page = self.make_page(document)

        self.assertIn("results were checked, nothing was timed", page)
        self.assertNotIn("found wrong", page)

    def test_seconds_of_a_search_are_refused(self):
        # Every survivor three times over is compiled by bench_test_search_cost.CudaWays too.
        ways = [] if long_tests() else ["--ways", "proxies", "instant", "--repeats", "1"]
        document = self.rehearse(*fixture.SEARCH_COST, "--targets", "sm_90", *ways)
        self.assertEqual(len(document["rows"]), 6 if long_tests() else 2)
        self.assertEqual([target["timed_on"] for target in document["cuda_targets"]], [None])
        for row in document["rows"]:
            self.assertIn("rehearsed on emulated", row["note"])

        result = self.run_script("bench_report.py", self.write(document), "--markdown", "r.md")

        self.assertEqual(result.returncode, 1)
        self.assertIn('device.kind: "emulated"; expected one of host, cuda', result.stderr)


if __name__ == "__main__":
    unittest.main()
