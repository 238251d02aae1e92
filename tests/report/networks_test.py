"""scripts/data/bench_report.py on files of lab_bench model: whole networks in sequence."""

import unittest

import fixture
from fixture import ReportTest, parse_page, table_rows

LIBRARIES = [*fixture.LIBRARIES,
             {"name": "compact", "version": "0.1.0", "kind": "jit", "missing": None}]


a_pass, failed = fixture.lab_timing, fixture.lab_failed


def network(name: str, n: int, timings: list[dict], **more: object) -> dict:
    return fixture.lab_case(name, timings, **{"n": n, "layers": 36, "rows": 0, "cols": 0, **more})


def model_bench(cases: list[dict]) -> dict:
    return fixture.lab("model", cases, libraries=LIBRARIES)


def two_networks() -> dict:
    """4 and 9 times OpenBLAS at n = 8, 6 in the geometric mean; 2 at n = 64."""
    return model_bench([
        network("minilm-80", 8, [a_pass("spjit", 10), a_pass("openblas", 40),
                                 a_pass("compact", 11)]),
        network("rn50", 8, [a_pass("spjit", 20), a_pass("openblas", 180)]),
        network("rn50", 64, [a_pass("spjit", 30), a_pass("openblas", 60)])])


def family_of_two() -> dict:
    """minilm at two sparsities and two n; OpenBLAS has no time at 90 % and n = 64."""
    return model_bench([
        network("minilm-80", 8, [a_pass("spjit", 100), a_pass("openblas", 400),
                                 a_pass("compact", 110)]),
        network("minilm-80", 64, [a_pass("spjit", 1000), a_pass("openblas", 2000)]),
        network("minilm-90", 8, [a_pass("spjit", 50), a_pass("openblas", 400)]),
        network("minilm-90", 64, [a_pass("spjit", 500), failed("openblas", "wrong: layer 3")]),
        network("rn50", 8, [a_pass("spjit", 20), a_pass("openblas", 180)])])


def places(figure: object, kind: str) -> list[list[tuple[float, float]]]:
    """The points of each line of that class."""
    return [[tuple(map(float, point.split(","))) for point in line.get("points").split()]
            for line in figure.iter("polyline") if kind in line.get("class").split()]


class NetworksTest(ReportTest):
    def figures(self, document: dict) -> dict[str, object]:
        """By their titles."""
        page = parse_page(self.make_page(document))
        return {figure.find("svg/title").text: figure.find("svg")
                for figure in page.iter("figure")}

    def test_every_family_has_a_picture_of_passes_by_n(self):
        figures = self.figures(family_of_two())

        self.assertEqual([title for title in figures if "ms a pass" in title],
                         ["minilm: ms a pass, 1 thread, in sequence",
                          "rn50: ms a pass, 1 thread, in sequence"])
        names = [text.text for text in figures["minilm: ms a pass, 1 thread, in sequence"]
                 .iter("text")]
        for name in ["minilm-80", "minilm-90", "spjit", "openblas", "8", "64", "0.1", "1"]:
            self.assertIn(name, names)
        self.assertNotIn("compact", names)

    def test_a_panel_has_a_line_a_library_at_its_times(self):
        figure = self.figures(family_of_two())["minilm: ms a pass, 1 thread, in sequence"]

        (at_80, at_90), (blas_80, blas_90) = places(figure, "own"), places(figure, "s0")
        self.assertEqual([len(line) for line in (at_80, at_90, blas_80, blas_90)], [2, 2, 2, 1])
        self.assertEqual([x for x, _ in at_80], [x for x, _ in blas_80])
        self.assertLess(at_80[1][0], at_90[0][0])  # beside each other
        decade = at_80[0][1] - at_80[1][1]  # from 0.1 to 1 ms, upwards
        self.assertGreater(decade, 0)
        self.assertAlmostEqual(at_90[0][1] - at_90[1][1], decade, delta=0.2)
        self.assertAlmostEqual(at_80[0][1] - blas_80[0][1], 0.602 * decade, delta=0.2)
        self.assertAlmostEqual(blas_80[0][1], blas_90[0][1], delta=0.2)

    def test_pictures_say_their_ends(self):
        figure = self.figures(family_of_two())["minilm: ms a pass, 1 thread, in sequence"]

        self.assertIn("minilm-90: 0.0500 at n = 8, 0.500 at n = 64", figure.find("desc").text)

    def test_means_are_over_the_networks_of_an_n(self):
        page = parse_page(self.make_page(two_networks()))

        self.assertEqual(table_rows(page, "Times as long as spjit"),
                         [["8", "6.00x", "1.10x", "6.00x", "6.00x", "1.10x"],
                          ["64", "2.00x", "-", "2.00x", "2.00x", "-"]])

    def test_the_fastest_is_that_of_each_network_and_no_family(self):
        page = parse_page(self.make_page(model_bench([
            network("minilm-80", 8, [a_pass("spjit", 10), a_pass("openblas", 40),
                                     a_pass("mkl", 20), a_pass("compact", 5)]),
            network("rn50", 8, [a_pass("spjit", 10), a_pass("openblas", 40),
                                a_pass("mkl", 320)])])))

        (row,) = table_rows(page, "Times as long as spjit")
        self.assertEqual(row[-3:], ["4.00x", "2.83x", "0.500x"])

    def test_every_pass_is_listed_in_milliseconds(self):
        page = parse_page(self.make_page(two_networks()))

        cells = " ".join(" ".join(row) for row in table_rows(page, "Every network"))
        for text in ["minilm-80", "0.0100", "4.00x", "0.0300"]:
            self.assertIn(text, cells)

    def test_the_headline_is_of_networks_where_there_are_any_and_without_own_families(self):
        networks = self.write(two_networks(), "networks.json")
        layers = self.write(fixture.two_cases(), "layers.json")

        result = self.run_script("bench_report.py", layers, networks, "--headline", "h.svg")

        self.assertEqual((result.returncode, result.stderr), (0, ""))
        picture = (self.folder / "h.svg").read_text(encoding="utf-8")
        self.assertIn("whole networks in sequence", picture)
        self.assertIn("openblas", picture)
        self.assertNotIn("compact", picture)

    def test_hot_passes_are_in_no_table(self):
        document = two_networks()
        document["cases"].append(network("rn50", 8, [a_pass("spjit", 1)], caches="hot"))

        page = self.make_page(document)

        self.assertEqual(page, self.make_page(two_networks()))

    def test_a_library_that_failed_is_told_and_in_no_mean(self):
        document = model_bench([network("rn50", 8, [
            a_pass("spjit", 10), a_pass("openblas", 40), failed("compact", "wrong: layer 3")])])

        page = parse_page(self.make_page(document))

        self.assertEqual(table_rows(page, "Times as long as spjit"),
                         [["8", "4.00x", "4.00x", "4.00x", "-"]])
        self.assertIn("wrong: layer 3", " ".join(page.itertext()))

    def test_a_pass_without_a_time_or_a_reason_is_one_line(self):
        broken = a_pass("spjit", 10)
        broken["median_us"] = 0

        result = self.run_script("bench_report.py",
                                 self.write(model_bench([network("rn50", 8, [broken])])),
                                 "--markdown", "r.md")

        self.assertEqual(result.returncode, 1)
        self.assertIn("median_us", result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
