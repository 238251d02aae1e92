"""bench/python/search_cost_bench.py with a program that only tells what it is told to: what becomes
of processes that end, fail or are killed."""

import json
import subprocess
import sys
import unittest

import fixture
from fixture import ReportTest

LAYER = "rn50/magnitude_pruning/0.95/bottleneck_2_block_group2_1_1"
# A way of a GPU target that is not here: 10 of 30 candidates, begun at 2 s, the tenth done at 42 s.
PROGRAM = """#!{python}
import json, sys, time
def tell(**line): print(json.dumps(line), flush=True)
if "--describe" in sys.argv:
    device = dict(kind="host", name="CPU", isa="avx512", load_average=0.1)
    more = dict(toolchain="NVRTC 13.0", gpu=None, product="", problem="no driver")
    cuda = "sm_90" in sys.argv
    tell(spjit="0.1.0", device=device, target="sm_90:h100" if cuda else "host-avx512",
         **(more if cuda else {{}}))
    sys.exit()
tell(rows=128, cols=1152, nnz=7373)
tell(candidates=30)
tell(begun_s=2)
for i in range(10):
    tell(done_s=6 + 4 * i, failed=i == 3)
tell(note="a note")
{end}
"""
ENDED = "tell(seconds=0.25, code_bytes=100)"
FAILED = 'sys.exit("no candidate compiled\\nwith a log")'
KILLED = "time.sleep(60)"


class SearchCostTest(ReportTest):
    def measure(self, end: str, *arguments: str, status: int = 0) -> dict:
        program = self.folder / "program"
        program.write_text(PROGRAM.format(python=sys.executable, end=end), encoding="utf-8")
        program.chmod(0o700)
        path = self.folder / "cost.json"
        result = subprocess.run(
            [sys.executable, fixture.ROOT / "bench/python/search_cost_bench.py", "--program", program,
             "--data", self.folder / "none", "--matrices", LAYER, "--json", path, *arguments],
            text=True, capture_output=True, timeout=60, check=False)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return json.loads(path.read_text(encoding="utf-8"))

    def test_a_way_that_ends_is_repeated_while_it_is_short(self):
        document = self.measure(ENDED, "--targets", "host", "--ways", "ranked", "--limit", "3")

        row, = document["rows"]
        self.assertEqual((row["matrix"], row["nnz"], row["target"], row["way"]),
                         ("uniform/128x1152/0.95", 7373, "host-avx512", "ranked"))
        self.assertEqual((row["seconds"], row["candidates"], row["compiled"]), (0.25, 30, None))
        self.assertEqual(row["runs"], 2)  # of 3: a sixth of the limit is over
        self.assertGreater(row["peak_mib"], 1)
        self.assertEqual(row["note"], "a note; 1 of 10 did not compile")
        self.assertFalse(row["killed"] or row["compile_only"])

    def test_a_killed_full_way_has_the_limit_and_an_estimate_beside_it(self):
        document = self.measure(KILLED, "--targets", "sm_90", "--ways", "full units", "ranked",
                                "--limit", "1")

        full, ranked = document["rows"]
        self.assertEqual((full["killed"], full["seconds"], full["runs"]), (True, 1, 1))
        self.assertEqual(full["compiled"], 10)
        self.assertEqual(full["estimated_seconds"], 2 + 30 * 4.0)
        self.assertEqual(full["note"], "compile part alone, no GPU; CUDA C++ in units through "
                         "NVRTC; a note; 1 of 10 did not compile; killed: over 1 s")
        self.assertTrue(full["compile_only"])
        self.assertEqual((ranked["estimated_seconds"], ranked["compiled"]), (None, None))
        self.assertEqual([one["timed_on"] for one in document["cuda_targets"]], [None])

    def test_no_estimate_is_below_what_was_measured(self):
        document = self.measure(KILLED.replace("time", "tell(candidates=11); time"), "--targets",
                                "sm_90", "--ways", "full units", "--limit", "1")
        self.assertEqual(document["rows"][0]["estimated_seconds"], 2 + 11 * 4.0)
        sys.path.insert(0, str(fixture.ROOT / "bench/python"))
        from search_cost_bench import Run, estimate_seconds, row_of
        run = Run(candidates=30, compiled=29, begun_s=2, latest_s=50, killed=True, failure="over")
        self.assertEqual(row_of({"way": "full units"}, [run], 60, "")["estimated_seconds"], 60)
        for of in ({"compiled": 0}, {"compiled": 30}, {"candidates": 0}):
            given = {"candidates": 30, "compiled": 1, "begun_s": 2.0, "latest_s": 5.0, **of}
            self.assertIsNone(estimate_seconds(Run(**given)))

    def test_a_way_that_fails_is_left_out_with_its_first_line(self):
        document = self.measure(FAILED, "--targets", "host", "--ways", "proxies", "instant", status=2)

        self.assertEqual(document["rows"], [])
        self.assertEqual(document["left_out"][0], "uniform/128x1152/0.95, n = 512, host-avx512, "
                         "proxies: no candidate compiled")

    def test_the_report_reads_it(self):
        from report.load import load
        self.measure(ENDED, "--targets", "host", "sm_90", "--limit", "0.5")

        result = load(self.folder / "cost.json")

        self.assertEqual(len(result.rows), 4 + 6)
        self.assertEqual(result.ways[:3], ["full undivided", "proxies", "ranked"])


if __name__ == "__main__":
    unittest.main()
