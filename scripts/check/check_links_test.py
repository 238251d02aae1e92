#!/usr/bin/env python3
"""Plants one wrong link of each kind in a small tree and expects check_links to name it."""

from __future__ import annotations

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import check_links  # noqa: E402

CLEAN_TREE = {
    "README.md": "[use](docs/use/cli.md#exit-status), [top](#the-top), <https://a.org>\n# The top\n"
                 "[away](https://example.org/docs/none.md)\n",
    "docs/use/cli.md": "## Exit `status`\n[back](../../README.md)\n"
                       "```\n[code](nowhere.md)\n```\nlike `[x](nowhere.md)`\n",
    "base/hash.hpp": "/// docs/use/cli.md has it; other docs/use/NAME.md do not.\n",
    "bench/README.md": "[results](results/), `bench/results/host-CPU.json`, "
                       "`base/hash.hpp`, gpu/probes/a.py, /usr/share/docs/a.md\n",
    "bench/results/a.json": "docs/none.md\n",
}


class CheckLinks(unittest.TestCase):
    def violations(self, planted: dict[str, str]) -> list[str]:
        files = {**CLEAN_TREE, **planted}
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in files.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return check_links.check(root, sorted(files))

    def expect_one(self, planted: dict[str, str], start: str, part: str) -> None:
        found = self.violations(planted)
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(start), found[0])
        self.assertIn(part, found[0])

    def test_accepts_a_clean_tree(self):
        self.assertEqual(self.violations({}), [])

    def test_a_link_to_a_file_that_is_not_there(self):
        self.expect_one({"docs/a.md": "One.\n[two](use/none.md)\n"}, "docs/a.md:2: ",
                        "docs/use/none.md, which is not there")

    def test_a_link_that_is_of_another_folder(self):
        self.expect_one({"docs/use/a.md": "[r](README.md)\n"}, "docs/use/a.md:1: ",
                        "docs/use/README.md, which is not there")

    def test_an_anchor_without_its_heading(self):
        self.expect_one({"docs/a.md": "[s](use/cli.md#exit)\n"}, "docs/a.md:1: ",
                        "docs/use/cli.md has no heading of that name")

    def test_an_anchor_of_the_page_itself(self):
        self.expect_one({"docs/a.md": "# One\n[s](#two)\n"}, "docs/a.md:2: ", "no heading")

    def test_a_heading_in_code_is_none(self):
        self.expect_one({"docs/a.md": "```\n# two\n```\n[s](#two)\n"}, "docs/a.md:4: ", "no heading")

    def test_a_page_that_a_source_names(self):
        self.expect_one({"base/a.cpp": "int a;\n// docs/cli.md says why.\n"}, "base/a.cpp:2: ",
                        "docs/cli.md, which is not there")

    def test_a_script_that_a_page_names(self):
        self.expect_one({"docs/a.md": "Run\n\n    scripts/none.sh --fast\n"}, "docs/a.md:3: ",
                        "scripts/none.sh, which is not there")

    def test_a_source_that_a_page_names(self):
        self.expect_one({"docs/a.md": "See `base/none.hpp`.\n"}, "docs/a.md:1: ",
                        "base/none.hpp, which is not there")

    def test_a_file_that_is_no_text_is_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "a.png").write_bytes(b"\xff\xfe docs/none.md")
            self.assertEqual(check_links.check(Path(folder), ["a.png"]), [])


if __name__ == "__main__":
    unittest.main()
