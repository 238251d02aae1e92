"""scripts/data/bench_report.py: what the page says."""

import re
import unittest

import fixture
from fixture import ReportTest, parse_page, table_rows
from report.text import tick


class SideBySidePageTest(ReportTest):
    def test_means_are_geometric(self):
        page = parse_page(self.make_page(fixture.two_cases()))

        summary = {row[0]: row for row in table_rows(page, "Speed-up of spjit over each peer")}

        # 2 and 8: cases, mean, median, least, greatest, spjit faster, even, slower.
        self.assertEqual(summary["openblas"][3:],
                         ["2", "4.00x", "5.00x", "2.00x", "8.00x", "2", "0", "0"])
        self.assertEqual(summary["csr"][3:],
                         ["2", "2.00x", "2.00x", "2.00x", "2.00x", "2", "0", "0"])
        by_sparsity = table_rows(page, "By sparsity and n")
        self.assertEqual([row[0] for row in by_sparsity], ["50 %", "90 %"])
        self.assertEqual([row[-1] for row in by_sparsity], ["2.00x", "8.00x"])

    def test_what_is_within_noise_is_even(self):
        # 3 * sqrt(0.01^2 + 0.01^2) = 4.2 %.
        document = fixture.side_by_side([
            fixture.case("a", {"spjit": 100, "openblas": 104}),
            fixture.case("b", {"spjit": 100, "openblas": 105}),
            fixture.case("c", {"spjit": 105, "openblas": 100})])

        page = parse_page(self.make_page(document))

        summary = table_rows(page, "Speed-up of spjit over each peer")
        self.assertEqual(summary[0][-3:], ["1", "1", "1"])
        # 100 / 105 = 0.952
        self.assertEqual(table_rows(page, "Where a peer is faster"),
                         [["c", "openblas", "512x512", "90.00 %", "128", "1", "0.952x"]])

    def test_device_versions_and_what_is_missing_are_stated(self):
        document = fixture.two_cases()
        document["cases"][0]["timings"].append(fixture.failed_timing("mkl", "status 7"))

        page = parse_page(self.make_page(document))

        text = " ".join(page.itertext())
        for fact in ["Test CPU 9000", "avx512", "L2 1.00 MiB", "2026-01-02T03:04:05Z",
                     "side_by_side_bench --n 128", "OpenBLAS 0.3.21",
                     "mkl was not run: libmkl_rt.so.2 was not found",
                     "mkl", "status 7", "dlmc a.smtx n=128 t=1",
                     "median 1.0 %, 95th percentile 1.0 %"]:
            self.assertIn(fact, text)
        self.assertNotIn("busy", text)

    def test_reasons_that_differ_in_their_numbers_are_one(self):
        document = fixture.two_cases()
        document["libraries"].append(dict(document["libraries"][0], name="libxsmm"))
        for case, reason in zip(document["cases"], ["513 values", "102078 values"], strict=True):
            case["timings"].append(fixture.failed_timing("libxsmm", reason))
        document["cases"][1]["timings"].append(fixture.failed_timing("mkl", "status 7"))

        page = parse_page(self.make_page(document))

        self.assertEqual(table_rows(page, "Not timed"),
                         [["libxsmm", "513 values", "2", "dlmc a.smtx n=128 t=1"],
                          ["mkl", "status 7", "1", "dlmc b.smtx n=128 t=1"]])

    def test_a_busy_machine_is_called_out(self):
        document = fixture.two_cases()
        document["device"]["load_average"] = 1.75

        self.assertIn("busy before the run (load 1.8)", self.make_page(document))

    def test_wrong_results_are_left_out_of_means(self):
        document = fixture.two_cases()
        document["cases"][1]["checked"] = False

        page = parse_page(self.make_page(document))

        self.assertEqual([row[4] for row in table_rows(page, "Speed-up of spjit over each peer")],
                         ["2.00x", "2.00x"])
        self.assertIn("1 case whose results were not found right", " ".join(page.itertext()))

    def test_a_wrong_library_is_named_and_the_others_of_its_case_count(self):
        document = fixture.two_cases()
        document["cases"][1]["checked"] = False
        document["cases"][1]["timings"][1] = fixture.failed_timing("csr", "wrong: C[0, 0] is NaN")

        page = parse_page(self.make_page(document))

        summary = {row[0]: row for row in table_rows(page, "Speed-up of spjit over each peer")}
        self.assertEqual((summary["openblas"][4], summary["csr"][3]), ("4.00x", "1"))
        self.assertIn("1 result found wrong and not timed: csr on dlmc b.smtx n=128 t=1.",
                      " ".join(page.itertext()))

    def test_a_gpu_is_named_as_one(self):
        document = fixture.two_cases()
        document["device"].update(kind="cuda", name="NVIDIA H200", isa="sm_90")

        page = parse_page(self.make_page(document))

        facts = {dt.text: dd.text for dl in page.iter("dl")
                 for dt, dd in zip(dl.findall("dt"), dl.findall("dd"), strict=True)}
        self.assertEqual(facts["GPU"], "NVIDIA H200")
        self.assertNotIn("CPU", facts)

    def test_ceilings_of_the_roofline_are_in_a_table(self):
        document = fixture.two_cases()
        document["roofline"]["l3_gbytes_per_s"] = None

        page = parse_page(self.make_page(document))

        self.assertEqual(table_rows(page, "Ceilings of one core"),
                         [["FMA peak", "140.5", "GFLOP/s"], ["L1 bandwidth", "501.0", "GB/s"],
                          ["L2 bandwidth", "252.0", "GB/s"], ["DRAM bandwidth", "21.00", "GB/s"]])
        self.assertIn("Not measured: L3.", " ".join(page.itertext()))

    def test_preparing_is_paid_back_after_some_runs(self):
        document = fixture.side_by_side([fixture.case("a", {"spjit": 10, "openblas": 30})])
        document["cases"][0]["timings"][0].update(prepare_ms=4, prepare_kind="cold compile",
                                                  cold_us=25)
        document["cases"][0]["timings"][1].update(prepare_ms=1, prepare_kind="packing")

        page = parse_page(self.make_page(document))

        # (4 - 1) ms / 20 us = 150 runs.
        self.assertEqual(table_rows(page, "Before the first run"),
                         [["spjit", "cold compile", "4.00", "4.00", "2.50x", "-"],
                          ["openblas", "packing", "1.00", "1.00", "-", "150"]])


class AxisLabelTest(unittest.TestCase):
    def test_labels_are_as_short_as_they_can_be(self):
        for value, label in [(0, "0"), (0.0005, "5e-4"), (0.25, "0.25"), (1000, "1000"),
                             (50_000, "50k"), (2e6, "2M")]:
            self.assertEqual(tick(value), label)


class PictureTest(ReportTest):
    def test_they_have_titles_and_descriptions(self):
        figures = list(parse_page(self.make_page(*2 * [fixture.two_cases()])).iter("svg"))

        self.assertEqual(len(figures), 10)
        self.assertTrue(all(figure.find("title").text and figure.find("desc").text
                            for figure in figures))

    def test_nothing_is_loaded_from_elsewhere_and_no_script_runs(self):
        page = self.make_page(fixture.two_cases())

        self.assertIsNone(re.search(r"(?i)https?:|\bsrc=|\bhref=|@import|url\(|<script", page))

    def test_text_of_every_colour_can_be_read(self):
        from report.style import DARK, LIGHT

        def luminance(colour):
            parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
            linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
            return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

        def contrast(one, other):
            high, low = sorted((luminance(one), luminance(other)), reverse=True)
            return (high + 0.05) / (low + 0.05)

        for colours in (LIGHT, DARK):
            for name in ["ink", "soft", *(f"s{i}" for i in range(6))]:
                with self.subTest(name=name, colour=colours[name], ground=colours["bg"]):
                    self.assertGreaterEqual(contrast(colours[name], colours["bg"]), 4.5)


if __name__ == "__main__":
    unittest.main()
