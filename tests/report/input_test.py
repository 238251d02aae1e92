"""What scripts/data/bench_report.py says to files it cannot use: one line that names file and member."""

import json
import unittest

import fixture
from fixture import ReportTest


class InputTest(ReportTest):
    def load(self, document) -> object:
        from report.load import load
        return load(self.write(document))

    def assert_refused(self, document, *fragments: str) -> None:
        from report.schema import ResultError
        with self.assertRaises(ResultError) as caught:
            self.load(document)
        message = str(caught.exception)
        self.assertNotIn("\n", message)
        self.assertTrue(message.startswith(str(self.folder / "result.json")), message)
        for fragment in fragments:
            self.assertIn(fragment, message)

    def changed(self, way: str, value) -> dict:
        """The fixture with one member changed; `way` is like cases.0.n."""
        document = fixture.two_cases()
        *folders, name = way.split(".")
        node = document
        for folder in folders:
            node = node[int(folder) if folder.isdigit() else folder]
        node[name] = value
        return document

    def test_a_good_file_is_read(self):
        result = self.load(fixture.two_cases())

        self.assertEqual([case.matrix for case in result.cases], ["a.smtx", "b.smtx"])
        self.assertEqual(result.cases[0].speedup("openblas"), 2)

    def test_what_is_no_json(self):
        self.assert_refused("{", "line 1", "expected JSON")
        self.assert_refused("[]", "document: []; expected an object")

    def test_a_damaged_record_is_named_by_its_line(self):
        lines = fixture.to_record_lines(fixture.two_cases()).splitlines()
        first = next(i for i, line in enumerate(lines) if '"matrix": "a.smtx"' in line)
        record = lines[first]

        for damage, damaged in [
                ("its end is lost", record[:record.index('"timings"')]),
                ("it ends where a record may follow", record[:record.index("{", 4)]),
                ("its last brace is lost", record.removesuffix("},") + ","),
                ("a colon is lost", record.replace('"rows": ', '"rows" ')),
                ("two records run into each other", record.removesuffix(",") + record.strip())]:
            with self.subTest(damage):
                self.assertNotEqual(damaged, record)
                text = "\n".join([*lines[:first], damaged, *lines[first + 1:]])
                self.assert_refused(text, f"result.json: line {first + 1}: ", "expected JSON")

    def test_damage_between_records_is_named_by_a_line_too(self):
        text = fixture.to_record_lines(fixture.two_cases())
        lines = text.splitlines()

        self.assert_refused("\n".join(lines[:-1]), f"line {len(lines) - 1}: ", "expected JSON")
        self.assert_refused(text.replace("},\n  {", "}\n  {", 1), "line ", "expected JSON")

    def test_a_file_of_the_layout_before_is_read(self):
        result = self.load(json.dumps(fixture.two_cases(), indent=1))

        self.assertEqual([case.matrix for case in result.cases], ["a.smtx", "b.smtx"])

    def test_the_schema_has_to_be_known(self):
        self.assert_refused({}, "schema: is missing", "spjit-side-by-side-1")
        self.assert_refused(self.changed("schema", "spjit-side-by-side-9"),
                            'schema: "spjit-side-by-side-9"; expected one of')

    def test_members_of_the_wrong_kind(self):
        for way, value, member, expected in [
                ("cases.0.n", 0, "cases[0].n: 0", "a whole number from 1 on"),
                ("cases.1.rows", 3.5, "cases[1].rows: 3.5", "a whole number from 0 on"),
                ("cases.0.nnz", 262145, "cases[0].nnz: 262145", "at most rows * cols = 262144"),
                ("cases.0.checked", 1, "cases[0].checked: 1", "true or false"),
                ("cases.0.matrix", None, "cases[0].matrix: null", "a string"),
                ("cases.0.timings", {}, "cases[0].timings: {}", "an array"),
                ("cases.0.timings.1.median_us", "fast", 'timings[1].median_us: "fast"',
                 "a number above 0"),
                ("cases.0.timings.1.median_us", float("nan"), "timings[1].median_us: NaN",
                 "a number above 0"),
                ("cases.0.timings.1.noise", -0.1, "timings[1].noise: -0.1", "a number from 0 on"),
                ("cases.0.timings.1.min_us", 99, "timings[1].min_us: 99", "at most median_us"),
                ("device", 7, "device: 7", "an object")]:
            with self.subTest(way=way):
                self.assert_refused(self.changed(way, value), member, f"expected {expected}")

    def test_members_that_are_missing(self):
        for way in ["created", "device.isa", "cases.1.threads", "cases.1.timings.0.noise"]:
            *folders, name = way.split(".")
            document = fixture.two_cases()
            node = document
            for folder in folders:
                node = node[int(folder) if folder.isdigit() else folder]
            del node[name]
            with self.subTest(way=way):
                self.assert_refused(document, f"{name}: is missing")

    def test_rates_that_contradict_their_times(self):
        self.assert_refused(self.changed("cases.1.timings.0.gflops", 0.604),
                            "cases[1].timings[0].gflops: 0.604", "2 nnz n / median_us = 604")

    def test_what_was_emulated_is_no_measurement(self):
        self.assert_refused(self.changed("device.kind", "emulated"),
                            'device.kind: "emulated"; expected one of host, cuda')

    def test_a_case_or_a_timing_twice(self):
        document = fixture.two_cases()
        document["cases"].append(document["cases"][0])
        self.assert_refused(document, "cases[2]: a second case of dlmc a.smtx n=128 t=1")

        document = fixture.two_cases()
        document["cases"][0]["timings"].append(document["cases"][0]["timings"][0])
        self.assert_refused(document, "cases[0].timings[3]: a second timing of spjit")

    def test_a_library_that_the_file_does_not_list(self):
        document = fixture.two_cases()
        document["cases"][1]["timings"][1]["library"] = "eigen"

        self.assert_refused(document, "cases[1]: a timing of eigen, which libraries does not list")

    def test_files_without_content(self):
        self.assert_refused(fixture.side_by_side([]), "cases: is empty")
        self.assert_refused(fixture.search_cost([]), "has no rows")

    def test_search_costs_that_contradict_themselves(self):
        row = fixture.search_row("a", "full units", 60)
        for more, message in [
                ({"estimated_seconds": 90}, "rows[0].estimated_seconds: 90; expected null"),
                ({"estimated_seconds": 50, "killed": True},
                 "rows[0].estimated_seconds: 50; expected a number from 60"),
                ({"compiled": 25}, "rows[0].compiled: 25; expected at most candidates, 24"),
                ({"compile_only": 1}, "rows[0].compile_only: 1; expected true or false")]:
            self.assert_refused(fixture.search_cost([{**row, **more}]), message)

    def test_the_script_prints_the_line_and_exits_with_1(self):
        path = self.write(self.changed("cases.0.n", 0))

        result = self.run_script("bench_report.py", path, "--markdown", "report.md")

        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr, f"bench_report: error: {path}: cases[0].n: 0; expected a "
                                        "whole number from 1 on\n")
        self.assertFalse((self.folder / "report.md").exists())

    def test_files_that_are_not_there_and_wrong_usage(self):
        absent = self.run_script("bench_report.py", "absent.json", "--markdown", "r.md")
        nothing = self.run_script("bench_report.py", self.write(fixture.two_cases()))

        self.assertEqual((absent.returncode, absent.stderr),
                         (1, "bench_report: error: absent.json: No such file or directory\n"))
        self.assertEqual(nothing.returncode, 2)
        self.assertIn("nothing to write", nothing.stderr)


class HostBenchTest(ReportTest):
    """Single matrices of lab_bench."""

    def document(self) -> dict:
        timings = [fixture.lab_timing("spjit", 10, chosen=["30x1"], prepare_ms=3.5),
                   fixture.lab_timing("csr", 20), fixture.lab_timing("openblas", 40)]
        return fixture.lab("host", [fixture.lab_case(
            "a.smtx", timings, threads=2, caches="hot",
            facts={"source": "dlmc", "peak_gflops": 140.0, "cold_compile_ms": 3.5})])

    def test_it_is_read_as_a_side_by_side_file(self):
        from report.load import load

        result = load(self.write(self.document()))

        case = result.cases[0]
        self.assertEqual(case.key, ("dlmc", "a.smtx", 128, 2))
        self.assertEqual(case.speedup("openblas"), 4)
        self.assertEqual(case.peak_gflops, 280)  # of both cores
        # 4 * (512 * 128 + 512 * 128) + 8 * 26214 + 4 * 513
        self.assertEqual(case.traffic_bytes, 736052)
        spjit = case.timings["spjit"]
        self.assertEqual((spjit.prepare_ms, spjit.prepare_kind), (3.5, "cold compile"))
        self.assertAlmostEqual(spjit.gflops, 671.0784)

    def test_a_library_that_was_wrong_has_a_reason(self):
        from report.load import load
        document = self.document()
        document["cases"][0]["timings"][2] = fixture.lab_failed("openblas", "wrong: C[0][0]")

        result = load(self.write(document))

        self.assertEqual(result.cases[0].failed, {"openblas": "wrong: C[0][0]"})

    def test_an_unknown_kind_is_refused(self):
        result = self.run_script("bench_report.py", self.write({**self.document(), "kind": "gpu"}),
                                 "--markdown", "r.md")

        self.assertEqual(result.returncode, 1)
        self.assertIn('kind: "gpu"; expected one of host, layer, conv, model', result.stderr)


if __name__ == "__main__":
    unittest.main()
