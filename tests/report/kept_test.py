"""The files in bench/results: the report reads each, and each has a line a record."""

import json
import unittest

import fixture
from fixture import ReportTest

# The report has no part for what gpu_bench and gpu_constants_bench write.
NOT_REPORTED = ("constants-nvidia-", "n1-nvidia-", "searches-nvidia-")
FILES = sorted(path for path in (fixture.ROOT / "bench/results").glob("*.json")
               if not path.name.startswith(NOT_REPORTED))


class KeptTest(ReportTest):
    def test_there_are_files(self):
        self.assertTrue(FILES)

    def test_the_report_reads_them(self):
        from report.load import load
        for path in FILES:
            with self.subTest(path.name):
                load(path)

    def test_a_line_a_record(self):
        for path in FILES:
            text = path.read_text(encoding="utf-8")
            document = json.loads(text)
            members = [member for member in document.values() if isinstance(member, list)]
            records = [record for member in members for record in member]
            lines = [line for line in text.splitlines() if line.startswith("  ")]
            with self.subTest(path.name):
                self.assertEqual([json.loads(line.removesuffix(",")) for line in lines], records)
                self.assertEqual(len(text.splitlines()) - len(lines),
                                 2 + len(document) + sum(1 for member in members if member))


if __name__ == "__main__":
    unittest.main()
