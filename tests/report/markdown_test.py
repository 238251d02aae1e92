"""scripts/data/bench_report.py --markdown and --headline."""

import re
import unittest
import xml.etree.ElementTree as ElementTree

import fixture
from fixture import ReportTest

SVG = "{http://www.w3.org/2000/svg}"


class MarkdownTest(ReportTest):
    def make(self, document: dict) -> str:
        result = self.run_script("bench_report.py", self.write(document), "--markdown", "report.md")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return (self.folder / "report.md").read_text(encoding="utf-8")

    def test_tables_have_the_figures(self):
        text = self.make(fixture.two_cases())

        self.assertIn("| openblas | dlmc | 1 | 2 | 4.00x | 5.00x | 2.00x | 8.00x | 2 | 0 | 0 |",
                      text)
        self.assertIn("- CPU: Test CPU 9000", text)

    def test_every_picture_it_shows_is_beside_it(self):
        text = self.make(fixture.two_cases())

        pictures = re.findall(r"!\[[^]]*\]\(([^)]*)\)", text)
        self.assertEqual(len(pictures), 5)
        for picture in pictures:
            root = ElementTree.parse(self.folder / picture).getroot()
            self.assertEqual(root.tag, f"{SVG}svg")
            self.assertTrue(root.find(f"{SVG}title").text)

    def test_pictures_of_an_earlier_run_are_gone(self):
        self.make(fixture.two_cases())
        stale = self.folder / "report-figures/f9-stale.svg"
        stale.write_text("<svg/>")
        kept = self.folder / "report-figures/notes.txt"
        kept.write_text("mine")

        self.make(fixture.two_cases())

        self.assertFalse(stale.exists())
        self.assertTrue(kept.exists())

    def test_names_cannot_break_tables(self):
        text = self.make(fixture.side_by_side([fixture.case("a|b*<c>", {"spjit": 2, "csr": 1})]))

        self.assertIn(r"| a\|b\*\<c\> |", text)

    def test_timings_are_left_to_the_result_file(self):
        cases = [fixture.case(f"matrix{i}", {"spjit": 1, "openblas": 2}) for i in range(50)]

        text = self.make(fixture.side_by_side(cases))

        self.assertIn("All timings: 100 rows, in the result file", text)
        self.assertNotIn("matrix7", text)


class HeadlineTest(ReportTest):
    def test_it_says_of_what_and_how_much(self):
        path = self.write(fixture.two_cases())

        result = self.run_script("bench_report.py", path, "--headline", "picture.svg")

        self.assertEqual((result.returncode, result.stderr), (0, ""))
        root = ElementTree.parse(self.folder / "picture.svg").getroot()
        texts = [text.text for text in root.iter(f"{SVG}text")]
        self.assertIn("1 core of Test CPU 9000", texts)
        self.assertIn("2 cases, n = 128, avx512", texts)
        self.assertIn("4.00x openblas", root.find(f"{SVG}desc").text)
        style = root.find(f"{SVG}style").text
        self.assertIn("prefers-color-scheme:dark", style)
        self.assertNotIn("var(", style)

    def test_it_needs_a_case_with_spjit_and_a_peer(self):
        path = self.write(fixture.side_by_side([fixture.case("a", {"spjit": 1})]))

        result = self.run_script("bench_report.py", path, "--headline", "picture.svg")

        self.assertEqual(result.returncode, 1)
        self.assertIn("no case has a time of spjit and of a peer", result.stderr)


if __name__ == "__main__":
    unittest.main()
