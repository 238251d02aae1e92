"""scripts/bench_report.py on files of model_bench: whole networks in sequence."""

import unittest

import fixture
from fixture import DEVICE, ReportTest, parse_page, table_rows

LIBRARIES = [*fixture.LIBRARIES,
             {"name": "compact", "version": "0.1.0", "kind": "jit", "missing": None}]


def a_pass(library: str, median_us: float) -> dict:
    return {"library": library, "pass": {"median_us": median_us, "min_us": 0.9 * median_us,
                                         "noise": 0.01, "samples": 9},
            "hot": None, "prepare_ms": 12.5, "layers": ["compact"], "layers_us": [median_us],
            "failed": ""}


def failed(library: str, reason: str) -> dict:
    return {"library": library, "pass": None, "hot": None, "prepare_ms": 0, "layers": [],
            "layers_us": [], "failed": reason}


def network(name: str, n: int, timings: list[dict], **more: object) -> dict:
    return {"network": name, "layers": 36, "nnz": 26214, "sparsity": 0.9, "n": n, "threads": 1,
            "timings": timings, **more}


def model_bench(cases: list[dict]) -> dict:
    return {"schema": "spjit-model-bench-1", "created": "2026-01-02T03:04:05Z",
            "command": "model_bench", "device": DEVICE, "libraries": LIBRARIES, "networks": [],
            "cases": cases}


def two_networks() -> dict:
    """4 and 9 times OpenBLAS at n = 8, 6 in the geometric mean; 2 at n = 64."""
    return model_bench([
        network("minilm-80", 8, [a_pass("spjit", 10), a_pass("openblas", 40),
                                 a_pass("compact", 11)]),
        network("rn50", 8, [a_pass("spjit", 20), a_pass("openblas", 180)]),
        network("rn50", 64, [a_pass("spjit", 30), a_pass("openblas", 60)])])


class NetworksTest(ReportTest):
    def test_means_are_over_the_networks_of_an_n(self):
        page = parse_page(self.make_page(two_networks()))

        self.assertEqual(table_rows(page, "Times as long as spjit"),
                         [["8", "6.00x", "1.10x"], ["64", "2.00x", "-"]])

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

    def test_a_library_that_failed_is_told_and_in_no_mean(self):
        document = model_bench([network("rn50", 8, [
            a_pass("spjit", 10), a_pass("openblas", 40), failed("compact", "wrong: layer 3")])])

        page = parse_page(self.make_page(document))

        self.assertEqual(table_rows(page, "Times as long as spjit"), [["8", "4.00x"]])
        self.assertIn("wrong: layer 3", " ".join(page.itertext()))

    def test_a_pass_without_a_time_or_a_reason_is_one_line(self):
        broken = a_pass("spjit", 10)
        broken["pass"]["median_us"] = 0

        result = self.run_script("bench_report.py",
                                 self.write(model_bench([network("rn50", 8, [broken])])),
                                 "--out", "r.html")

        self.assertEqual(result.returncode, 1)
        self.assertIn("median_us", result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
