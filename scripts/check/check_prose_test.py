#!/usr/bin/env python3
"""Plants text of each kind that check_prose refuses, and of kinds that it must not take for such."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
import check_prose  # noqa: E402

WORDS = " ".join(f"w{'x' * number}" for number in range(1, 26))  # 25 of them


def kinds(file: str, text: str) -> list[tuple[int, str]]:
    check = check_prose.check_markdown if file.endswith(".md") else check_prose.check_header
    return [(violation.line, violation.kind) for violation in check(file, text)]


class Sentences(unittest.TestCase):
    def expect(self, text: str, *lines: int) -> None:
        self.assertEqual(kinds("docs/use/a.md", text), [(line, "long sentence") for line in lines])

    def test_has_at_most_25_words(self):
        self.expect("Short.\n")
        self.expect(WORDS.replace(" ", "\n") + ".\n")
        self.expect(WORDS.replace(" ", "\n") + " more.\n", 1)

    def test_each_by_itself(self):
        half = "A " + "\n".join(["b"] * 12)
        self.expect(f"{half}. {half}. {half}.\n")
        self.expect(f"{half}. `code` {half}?\n{half}; {half.lower()}.\n", 1)

    def test_ends_within_bold_and_quotes(self):
        half = "A " + "\n".join(["b"] * 12)
        self.expect(f"**{half}.** {half}.\n")
        self.expect(f'He said "{half}." {half}.\n')
        self.expect(f'He said "{half}," {half.lower()}.\n', 1)
        self.expect(f'"{half}." {half} - c.\n')

    def test_an_abbreviation_and_a_decimal_end_none(self):
        half = "A " + "\n".join(["b"] * 12)
        self.expect(f"{half}, e.g. C, of 0.7 {half}.\n", 1)

    def test_code_is_one_word_and_an_address_none(self):
        code = f"`{' '.join(['x'] * 12)}`"
        self.expect(f"{code}\n{code}\n[a b](https://example.org)\n" + "w\n" * 21)
        self.expect(f"{code}\n{code}\n[a b](https://example.org)\n" + "w\n" * 22, 1)

    def test_an_item_is_a_paragraph(self):
        half = "b\n  " * 13
        self.expect(f"- {half}\n- {half}\n1. {half}\n")
        self.expect(f"Text:\n\n- {half} {half}\n", 3)

    def test_code_tables_and_headings_are_no_prose(self):
        many = "w " * 30
        self.expect(f"# {many}\n\n| {many} |\n\n    {many}\n    {many}\n\n```\n{many}\n```\n")

    def test_indented_text_of_an_item_is_prose(self):
        self.expect("- One.\n\n    " + "w\n    " * 26 + "\n", 3)


class Lines(unittest.TestCase):
    def test_have_at_most_100_columns(self):
        self.assertEqual(kinds("README.md", "x" * 100 + "\n"), [])
        self.assertEqual(kinds("README.md", "a\n" + "x" * 101 + "\n"), [(2, "long line")])
        self.assertEqual(kinds("README.md", "```\n" + "x" * 101 + "\n```\n"), [(2, "long line")])

    def test_but_for_tables_and_images(self):
        self.assertEqual(kinds("README.md", "| " + "x" * 101 + " |\n"), [])
        self.assertEqual(kinds("README.md", "![" + "x" * 101 + "](a.svg)\n"), [])


class Numbers(unittest.TestCase):
    def test_a_paragraph_names_at_most_six(self):
        self.assertEqual(kinds("docs/design/a.md", "1, 2.5, 3 %, -4, 5 and 6.\n"), [])
        self.assertEqual(kinds("docs/design/a.md", "1, 2.5, 3 %, -4,\n5, 6 and 7.\n"),
                         [(1, "many numbers")])

    def test_those_in_code_names_and_tables_do_not_count(self):
        self.assertEqual(kinds("docs/design/a.md", "`1 2 3 4 5 6 7` fp32 sm_90 x86-64 L2 v1 A0\n"
                               "\n| 1 | 2 | 3 | 4 | 5 | 6 | 7 |\n"), [])

    def test_results_are_made_of_them(self):
        self.assertEqual(kinds("docs/results/a.md", "1, 2, 3, 4, 5, 6 and 7.\n"), [])


class Comments(unittest.TestCase):
    def test_name_the_noun(self):
        for comment in ("/// The same, of a file.", "  /// Of rows.", "/** What it is. */",
                        "int a;  ///< What it is", "/*\n * Of rows."):
            with self.subTest(comment):
                self.assertEqual([kind for _, kind in kinds("include/spjit/a.hpp", comment + "\n")],
                                 ["vague comment"])

    def test_of_internal_headers_name_the_noun_too(self):
        text = "/// What it is.\nint a;\n/// The same, of columns.\nint b;\n"
        self.assertEqual(kinds("base/a.hpp", text), [(1, "vague comment"), (3, "vague comment")])

    def test_only_the_beginning_counts(self):
        self.assertEqual(kinds("include/spjit/a.hpp", "/// Rows of A.\n/// What is there.\n\n"
                               "/// Offset of a row.\nint a;  ///< Often the same\n"), [])


class Allowance(unittest.TestCase):
    def run_check(self, text: str, allowed: dict, *arguments: str) -> tuple[int, str, dict]:
        """Exit status, output, and the allowance afterwards."""
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            subprocess.run(["git", "init", "-q", folder], check=True)
            (root / "README.md").write_text(text, encoding="utf-8")
            file = root / check_prose.ALLOWANCE
            file.parent.mkdir(parents=True)
            file.write_text(json.dumps(allowed), encoding="utf-8")
            output = io.StringIO()
            with (contextlib.redirect_stdout(output),
                  mock.patch.object(sys, "argv", ["check_prose.py", "--root", folder, *arguments])):
                status = check_prose.main()
            return status, output.getvalue(), json.loads(file.read_text(encoding="utf-8"))

    def test_passes_what_it_counts(self):
        status, output, _ = self.run_check(WORDS + " w.\n", {"README.md": {"long line": 1,
                                                                          "long sentence": 1}})

        self.assertEqual(status, 0, output)

    def test_refuses_one_more(self):
        status, output, _ = self.run_check("x" * 101 + "\n", {})

        self.assertEqual(status, 1)
        self.assertIn("README.md:1: long line: 101 columns", output)

    def test_refuses_one_that_is_larger_than_the_count(self):
        status, output, _ = self.run_check("Short.\n", {"README.md": {"long line": 1}})

        self.assertEqual(status, 1)
        self.assertIn("--shrink", output)

    def test_refuses_to_allow_more_than_the_base(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            file = root / check_prose.ALLOWANCE
            file.parent.mkdir(parents=True)
            file.write_text('{"README.md": {"long line": 1}}', encoding="utf-8")
            git = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@example.org"]
            for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "base"]):
                subprocess.run([*git, *command], check=True)
            (root / ".ci").mkdir()
            (root / ".ci/base").write_text("HEAD\n", encoding="utf-8")

            self.assertEqual(check_prose.growth(root, {"docs/a.md": {"long line": 1}}), [])
            self.assertEqual(len(check_prose.growth(root, {"README.md": {"long line": 2}})), 1)
            (root / ".ci/base").write_text("0123456789\n", encoding="utf-8")
            self.assertEqual(check_prose.growth(root, {"README.md": {"long line": 2}}), [])

    def test_shrinks_and_never_grows(self):
        line = "x" * 101 + "\n"

        shrunk = self.run_check(line, {"README.md": {"long line": 3}, "gone.md": {"long line": 1}},
                                "--shrink")
        grown = self.run_check(line * 2, {"README.md": {"long line": 1}}, "--shrink")

        self.assertEqual((shrunk[0], shrunk[2]), (0, {"README.md": {"long line": 1}}))
        self.assertEqual((grown[0], grown[2]), (1, {"README.md": {"long line": 1}}))


if __name__ == "__main__":
    unittest.main()
