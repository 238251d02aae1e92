"""scripts/data/bench_report.py on files of a GPU: no roofline, no cold runs, no threads."""

import unittest

import fixture
from fixture import ReportTest, parse_page, search_row, table_rows

DEVICE = {"kind": "cuda", "name": "NVIDIA H200", "isa": "sm_90", "sms": 132,
          "l2_bytes": 62914560, "load_average": 7.5}
LIBRARIES = [
    {"name": "spjit", "version": "0.1.0", "kind": "jit", "missing": None},
    {"name": "row-split", "version": "of this repository", "kind": "sparse", "missing": None},
    {"name": "cublas", "version": "", "kind": "dense", "missing": "libcublas.so.13 is not there"},
]


def gpu_file(**more) -> dict:
    """Speed-ups of 2 and 8 over row-split."""
    cases = [fixture.case("a.smtx", {"spjit": 2.0, "row-split": 4.0}, peak_gflops=None),
             fixture.case("b.smtx", {"spjit": 1.0, "row-split": 8.0}, peak_gflops=None)]
    return fixture.side_by_side(cases, device=DEVICE, libraries=LIBRARIES, roofline=None, **more)


def rehearsal() -> dict:
    document = gpu_file()
    document["device"]["kind"] = "emulated"
    for case in document["cases"]:
        case["timings"] = [fixture.failed_timing(name, "checked and right, not timed")
                           for name in ("spjit", "row-split")]
    return document


class GpuPageTest(ReportTest):
    def facts(self, page) -> dict:
        return {dt.text: dd.text for dl in page.iter("dl")
                for dt, dd in zip(dl.findall("dt"), dl.findall("dd"), strict=True)}

    def test_there_are_no_threads_no_roofline_and_no_busy_cpus(self):
        page = parse_page(self.make_page(gpu_file()))

        self.assertEqual([row[4] for row in table_rows(page, "Speed-up of spjit over each peer")],
                         ["4.00x"])
        headings = [heading.text for heading in page.iter("h3")]
        self.assertIn("Set dlmc", headings)
        self.assertNotIn("Roofline", headings)
        text = " ".join(page.itertext())
        self.assertIn("row-split (geometric mean of 2 cases)", text)
        self.assertIn("cublas was not run: libcublas.so.13 is not there.", text)
        self.assertNotIn("busy", text)
        self.assertEqual(self.facts(page)["SMs"], "132")

    def test_a_run_that_was_cut_off_says_how_far_it_got(self):
        done = parse_page(self.make_page(gpu_file(cases_in_all=2)))
        cut = parse_page(self.make_page(gpu_file(cases_in_all=335)))

        self.assertNotIn("cases", self.facts(done))
        self.assertEqual(self.facts(cut)["cases"], "2 of 335: the run was cut off")

    def test_files_of_a_host_and_of_a_gpu_are_in_one_page(self):
        searched = fixture.search_cost([
            search_row("a", way, seconds, target="sm_90:gpu0", compile_only=False,
                       note="timed on NVIDIA H200")
            for way, seconds in (("proxies", 6), ("ranked", 2))])
        searched["cuda_targets"] = [{"target": "sm_90:gpu0", "timed_on": "NVIDIA H200",
                                     "toolchain": "NVRTC 13.0"}]

        page = parse_page(self.make_page(fixture.two_cases(), gpu_file(), searched))

        self.assertEqual([heading.text for heading in page.iter("h2")][:3],
                         ["Side by side with peers: Test CPU 9000",
                          "Side by side with peers: NVIDIA H200", "Search cost: Test CPU 9000"])
        self.assertEqual([row[3] for row in table_rows(page, "Cost of a search: sm_90:gpu0")],
                         ["6.000", "2.000"])
        text = " ".join(page.itertext())
        self.assertIn("NVRTC 13.0; timed on NVIDIA H200", text)
        self.assertNotIn("compile part alone", text)

    def test_a_rehearsal_has_no_times_and_says_so(self):
        page = parse_page(self.make_page(rehearsal()))

        self.assertEqual(table_rows(page, "Speed-up"), [])
        text = " ".join(page.itertext())
        self.assertIn("A rehearsal on an emulated GPU: results were checked, nothing was timed.",
                      text)
        self.assertIn("checked and right, not timed", text)

    def test_a_rehearsal_is_no_headline(self):
        files = [self.write(rehearsal(), "rehearsal.json"), self.write(gpu_file(), "gpu.json")]

        result = self.run_script("bench_report.py", *files, "--markdown", "r.md", "--headline", "h.svg")

        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("NVIDIA H200", (self.folder / "h.svg").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
