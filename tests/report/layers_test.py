"""scripts/data/bench_report.py on files of lab_bench layer: ways to call the layers of networks."""

import unittest

import fixture
from fixture import ReportTest, parse_page, table_rows


def layer_case(comparison: str, n: int, ways: dict[str, float], **more: object) -> dict:
    return fixture.lab_case("minilm-80", [fixture.lab_timing(way, us) for way, us in ways.items()],
                            **{"comparison": comparison, "rows": 384, "cols": 1536, "layers": 6,
                               "nnz": 700000, "n": n, **more})


# What was measured, what is wanted, whether that is missed.
Figure = tuple[float, float | None, bool]


def summary(comparison: str, way: str, mean: Figure, worst: Figure, unit: str = "x") -> list[dict]:
    about = {"comparison": comparison, "way": way, "threads": 1, "caches": "cold"}
    where = ("3 cases", "minilm-80 384x1536 n=16 compact (unrolled)")
    return [fixture.lab_goal(f"{comparison}: {way}", measured, wanted,
                             "NOT MET" if missed else "MET" if wanted else "NO GOAL", unit=unit,
                             about=about, where=place)
            for (measured, wanted, missed), place in zip((mean, worst), where, strict=True)]


def layer_bench(cases: list[dict], **more: object) -> dict:
    return fixture.lab("layer", cases, libraries=fixture.LIBRARIES[:1], **more)


def layouts() -> dict:
    """1 and 4 at n = 16, 2 in the geometric mean; 1.2 at 64; nothing of tokens at 128."""
    return layer_bench(
        [layer_case("layout", 16, {"features": 10, "tokens": 10}),
         layer_case("layout", 16, {"features": 10, "tokens": 40}, rows=1536),
         layer_case("layout", 64, {"features": 20, "tokens": 24}),
         layer_case("layout", 128, {"features": 20})],
        goals=summary("layout", "tokens", (1.07, 1.08, False), (4, 1.25, True)))


class LayersTest(ReportTest):
    def test_pairs_of_passes_come_before_medians(self):
        case = layer_case("layout", 16, {"features": 10, "tokens": 40})
        case["timings"][1].update(ratio=3.0, ratio_error=0.01)

        page = self.make_page(layer_bench([case]))

        self.assertIn("3.00", page)
        self.assertNotIn("4.00", page)

    def test_goals_are_said_with_what_was_measured(self):
        page = parse_page(self.make_page(layouts()))

        self.assertEqual(table_rows(page, "Ways against"), [
            ["layout", "tokens", "1", "cold", "3", "1.07x, <= 1.08", "4.00x, not <= 1.25",
             "minilm-80 384x1536 n=16 compact (unrolled)"]])

    def test_figures_without_a_goal_and_in_milliseconds(self):
        page = parse_page(self.make_page(layer_bench(
            [layer_case("values", 16, {"own values": 1, "buffer": 1})],
            goals=summary("values", "prepare 1M values", (0.5, None, False), (6, 5, True), "ms"))))

        (row,) = table_rows(page, "Ways against")
        self.assertEqual(row[5:7], ["0.50 ms", "6.00 ms, not <= 5.00"])

    def test_ratios_are_listed_by_tokens(self):
        page = parse_page(self.make_page(layouts()))

        cells = [row[-2:] for row in table_rows(page, "layout: times as long as features")
                 if len(row) > 1]
        self.assertEqual(cells, [["16", "2.00x, 4.00x"], ["64", "1.20x, 1.20x"], ["128", "-"]])

    def test_a_curve_of_tokens_where_there_are_three_numbers(self):
        page = parse_page(self.make_page(layouts()))

        titles = [one.find("svg/title").text for one in page.iter("figure")]
        self.assertEqual(titles, ["layout: times as long as features, 1 thread, cold"])
        document = layouts()
        document["cases"] = document["cases"][:3]
        self.assertEqual(list(parse_page(self.make_page(document)).iter("figure")), [])

    def test_hot_cases_are_apart_and_in_no_curve(self):
        document = layouts()
        document["cases"].append(layer_case("layout", 16, {"features": 10, "tokens": 1000},
                                            caches="hot"))

        page = parse_page(self.make_page(document))

        cells = [cell for row in table_rows(page, "layout: times") for cell in row]
        self.assertIn("100x, 100x", cells)
        self.assertIn("2.00x, 4.00x", cells)
        (drawn,) = page.iter("figure")
        self.assertNotIn("100", [label.text for label in drawn.iter("text")])

    def test_ways_that_were_not_timed_are_told(self):
        document = layouts()
        for case in document["cases"][:2]:
            case["timings"].append(fixture.lab_failed("panels", "wrong: layer 3"))

        page = parse_page(self.make_page(document))

        text = " ".join(page.itertext())
        self.assertIn("1 way found wrong", text)
        self.assertEqual(table_rows(page, "Not timed")[0][-1], "wrong: layer 3")

    def refused(self, document: dict) -> str:
        result = self.run_script("bench_report.py", self.write(document), "--markdown", "r.md")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(len(result.stderr.splitlines()), 1)
        return result.stderr

    def test_what_contradicts_itself_is_refused(self):
        cases = [layer_case("layout", 16, {"features": 10})]
        self.assertIn("a second case", self.refused(layer_bench(cases + cases)))
        self.assertIn("cases: is empty", self.refused(layer_bench([])))
        self.assertIn("timings: is empty", self.refused(layer_bench([layer_case("a", 1, {})])))
        self.assertIn("one of cold, hot", self.refused(layer_bench(
            [layer_case("layout", 16, {"features": 10}, caches="warm")])))
        self.assertIn("expected NOT MET: 1.09 is measured", self.refused(layer_bench(
            cases, goals=summary("layout", "tokens", (1.09, 1.08, False), (1, None, False)))))
        slow = layer_case("layout", 16, {"features": 10})
        slow["timings"][0]["min_us"] = 11
        self.assertIn("at most median_us", self.refused(layer_bench([slow])))


if __name__ == "__main__":
    unittest.main()
