"""File names that a terminal would obey."""

import json
import shutil
import unittest

from spjit_tool import FAILED, OK, ToolTest

# A command to the terminal, a line that looks like an error, DEL, a CSI of one character, and the
# sign that turns the direction of writing.
NAME = "a\x1b]0;title\x07\nspjit: error: b\x7f\u009b31m\u202ec.npz"
SHOWN = "a?]0;title??spjit: error: b??31m?c.npz"


class HostileNamesTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.generate("plain.npz", 96, 64)
        shutil.copy(self.folder / "plain.npz", self.folder / NAME)

    def run_shown(self, *arguments, status=OK, **extra):
        """Runs the tool; nothing that it prints may be obeyed."""
        result = self.run_tool(*arguments, **extra)

        self.assertEqual(result.returncode, status, result.stderr)
        for text in [result.stdout, result.stderr]:
            bad = [c for c in text if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160]
            self.assertEqual(bad, [], text)
        return result

    def test_in_tables_lines_and_notes(self):
        quick = ["--n", 40, "--no-measure"]

        compiled = self.run_shown("compile", NAME, *quick, "--hot", "--code-budget", 0,
                                  "--choice", "rules")
        explained = self.run_shown("explain", NAME, "--n", 8)
        made = self.run_shown("gen", "--rows", 4, "--cols", 4, "--out", NAME)

        self.assertEqual(len(compiled.stderr.splitlines()), 1, compiled.stderr)
        self.assertIn(SHOWN, compiled.stderr)
        self.assertEqual(compiled.stdout.count(SHOWN), 2, compiled.stdout)  # the row and its note
        self.assertEqual(explained.stdout.splitlines()[0], SHOWN)
        self.assertIn(SHOWN, made.stdout)

    def test_in_errors(self):
        (self.folder / NAME).write_text("no matrix")

        for arguments in [["compile", NAME, "--n", 8], ["explain", NAME, "--n", 8],
                          ["compile", "none/" + NAME, "--n", 8],
                          ["cache", "import", NAME], ["cache", "ls", "--cache", NAME],
                          ["train", NAME, "--out", "m.json"],
                          ["gen", "--rows", 4, "--cols", 4, "--out", "none/" + NAME]]:
            with self.subTest(arguments=arguments):
                result = self.run_shown(*arguments, status=FAILED)

                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
                self.assertIn("spjit: error: ", result.stderr)

    def test_in_the_paths_of_a_cache(self):
        compile = ["compile", "plain.npz", "--n", 8, "--no-measure", "--no-verify"]
        self.run_shown(*compile, "--cache", "c" + NAME)
        named = ["--cache", "c" + NAME]

        for arguments in [["ls"], ["verify"], ["prune", "--size", "1G"],
                          ["export", "--out", "k" + NAME], ["import", "k" + NAME],
                          ["clear", "--yes"]]:
            with self.subTest(arguments=arguments):
                result = self.run_shown("cache", *arguments, *named)

                self.assertEqual(result.stderr, "")
                self.assertIn(SHOWN, result.stdout)

    def test_in_json_they_are_escaped_and_whole(self):
        result = self.run_shown("compile", NAME, "--n", 8, "--no-measure", "--json")

        self.assertEqual(json.loads(result.stdout)["layers"][0]["file"], NAME)

    def test_in_a_record_that_somebody_else_wrote(self):
        self.run_shown("compile", "plain.npz", "--n", 8, "--no-measure")
        record = next(self.cache.glob("??/*/record.json"))
        document = json.loads(record.read_text(encoding="utf-8"))
        document["kernel"]["family"] = "x\u009b2J\x7f"
        record.chmod(0o600)
        record.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")

        self.run_shown("cache", "ls")
        self.run_shown("cache", "ls", "--json")
        self.run_shown("cache", "show", record.parent.name[:8])
        self.run_shown("cache", "show", record.parent.name[:8], "--json")


if __name__ == "__main__":
    unittest.main()
