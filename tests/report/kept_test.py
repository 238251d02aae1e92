"""The files in bench/results: the report reads each, and each has a line a record."""

import json
import re
import subprocess
import unittest

import fixture
from fixture import ReportTest

# The report has no part for constants of a GPU and what gpu_ranks_bench.py writes.
NOT_REPORTED = ("constants-nvidia-", "n1-nvidia-", "searches-nvidia-")
FILES = sorted(path for path in (fixture.ROOT / "bench/results").glob("*.json")
               if not path.name.startswith(NOT_REPORTED))


SHOWN = "docs/results/bench-report"


class KeptTest(ReportTest):
    def test_there_are_files(self):
        self.assertTrue(FILES)

    def test_the_report_reads_them(self):
        from report.load import load
        for path in FILES:
            with self.subTest(path.name):
                load(path)

    def test_the_command_of_the_readme_makes_the_report_of_the_documentation(self):
        readme = (fixture.ROOT / "bench/README.md").read_text(encoding="utf-8")
        command = re.search(r"^    (scripts/data/bench_report\.py (?:.*\\\n)+.*)$", readme,
                            re.MULTILINE)[1]
        command = command.replace(SHOWN, str(self.folder))

        subprocess.run(["bash", "-c", command], cwd=fixture.ROOT, check=True, timeout=300)

        shown = fixture.ROOT / SHOWN
        names = sorted(path.relative_to(shown) for path in shown.rglob("*") if path.is_file())
        self.assertGreater(len(names), 2)
        self.assertEqual(sorted(path.relative_to(self.folder) for path in
                                self.folder.rglob("*") if path.is_file()), names)
        for name in names:
            self.assertEqual((self.folder / name).read_bytes(), (shown / name).read_bytes(), name)

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
