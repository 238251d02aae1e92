"""scripts/data/bench_report.py on files about the cost of searching and of compiling."""

import unittest

import fixture
from fixture import ReportTest, parse_page, search_row, table_rows


class SearchCostTest(ReportTest):
    def test_seconds_are_put_over_those_of_ranked(self):
        document = fixture.search_cost([
            search_row("a", "full undivided", 20), search_row("b", "full undivided", 60),
            search_row("a", "ranked", 1), search_row("b", "ranked", 4, peak_mib=250)])

        page = parse_page(self.make_page(document))

        # Means 40 and 2.5 seconds: 16; geometric mean of 20 and 15: 17.3.
        self.assertEqual(table_rows(page, "Cost of a search: host-avx512"), [
            ["full undivided", "2", "24.0", "40.00", "16.0x", "17.3x", "123", "0"],
            ["ranked", "2", "24.0", "2.500", "1.00x", "1.00x", "250", "0"]])
        self.assertEqual(len(table_rows(page, "Every search")), 4)

    def test_what_was_stopped_is_a_lower_bound(self):
        document = fixture.search_cost([
            search_row("a", "full undivided", 120, killed=True, note="over 120 s"),
            search_row("a", "ranked", 2)])

        page = parse_page(self.make_page(document))

        row = table_rows(page, "Cost of a search")[0]
        self.assertEqual(row[3:6], ["≥ 120.0", "≥ 60.0x", "≥ 60.0x"])
        self.assertEqual(row[-1], "1")
        self.assertEqual(table_rows(page, "Every search")[0][7], "≥ 120.0")
        self.assertIn("over 120 s", " ".join(page.itertext()))

    def test_nothing_is_put_over_a_search_that_was_stopped(self):
        document = fixture.search_cost([
            search_row("a", "full undivided", 120, killed=True),
            search_row("a", "ranked", 120, killed=True)])

        page = parse_page(self.make_page(document))

        self.assertEqual([row[3:6] for row in table_rows(page, "Cost of a search")],
                         2 * [["≥ 120.0", "-", "-"]])

    def test_only_kernels_that_all_ways_searched_are_averaged(self):
        document = fixture.search_cost([
            search_row("a", "proxies", 6), search_row("a", "ranked", 2),
            search_row("b", "ranked", 100)])

        page = parse_page(self.make_page(document))

        self.assertEqual([row[3] for row in table_rows(page, "Cost of a search")],
                         ["6.000", "2.000"])
        self.assertIn("1 kernel not searched in every way left out", " ".join(page.itertext()))

    def compile_only_document(self) -> dict:
        """As search_cost_bench writes it without a GPU."""
        def row(way: str, seconds: float, **more) -> dict:
            return search_row("a", way, seconds, target="sm_90:h100", candidates=30, compiled=None,
                              estimated_seconds=None, cpu_seconds=seconds, compile_only=True,
                              runs=1, **more)
        document = fixture.search_cost([
            row("full undivided", 60, killed=True, note="killed: over 60 s")
            | {"compiled": 12, "estimated_seconds": 150.0},
            row("full units", 30) | {"compiled": 30}, row("ranked", 2)])
        return document | {"limit_s": 60.0, "compile_threads": 1, "seed": 1, "spjit": "0.1.0",
                           "cuda_targets": [{"target": "sm_90:h100", "timed_on": None,
                                             "toolchain": "NVRTC 13.0", "problem": "no driver"}],
                           "left_out": ["b, n = 512, sm_90:h100, proxies: no candidate compiled"]}

    def test_estimates_are_apart_from_what_was_measured(self):
        page = parse_page(self.make_page(self.compile_only_document()))

        self.assertEqual(table_rows(page, "Estimated, not measured"), [
            ["a", "full undivided", "128", "sm_90:h100", "30", "12", "≥ 60.00", "150", "75.0x"]])
        measured = table_rows(page, "Cost of a search") + table_rows(page, "Every search")
        self.assertFalse([cell for row in measured for cell in row if cell.startswith("150")])
        self.assertEqual([row[7] for row in table_rows(page, "Every search")], ["12", "30", "-"])

    def test_without_estimates_there_is_no_table_of_them(self):
        page = parse_page(self.make_page(fixture.search_cost([search_row("a", "ranked", 2)])))

        self.assertEqual(table_rows(page, "Estimated"), [])

    def test_what_was_only_compiled_says_so(self):
        page = parse_page(self.make_page(self.compile_only_document()))

        self.assertEqual(len(table_rows(page, "Cost of a search: sm_90:h100, compile part alone")),
                         3)
        text = " ".join(page.itertext())
        self.assertIn("there was no GPU, so nothing was timed", text)
        self.assertIn("Left out: b, n = 512, sm_90:h100, proxies: no candidate compiled", text)
        self.assertIn("killed after [s]", text)
        self.assertIn("NVRTC 13.0; compiled only", text)

    def test_each_target_has_a_figure(self):
        document = self.compile_only_document()
        document["rows"].append(search_row("a", "ranked", 1))

        page = parse_page(self.make_page(document))

        self.assertEqual([figure.find("title").text for figure in page.iter("svg")],
                         ["Seconds to search, by kernel: sm_90:h100, compile part alone",
                          "Seconds to search, by kernel: host-avx512"])

    def test_the_papers_figures_are_not_taken_for_measured_ones(self):
        page = parse_page(self.make_page(fixture.search_cost([search_row("a", "ranked", 2)])))

        self.assertEqual(table_rows(page, "For comparison, as published")[1],
                         ["V100", "140x", "281x", "18.2x", "3.37x", "1.00x"])
        self.assertIn("Nothing in this table was measured here", " ".join(page.itertext()))


if __name__ == "__main__":
    unittest.main()
