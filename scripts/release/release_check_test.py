"""release_check.py must refuse every tree that disagrees with itself, in one line each."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import release_check

HEADER = ("#define SPJIT_VERSION_MAJOR 1\n#define SPJIT_VERSION_MINOR 2\n"
          "#define SPJIT_VERSION_PATCH 3\n#define SPJIT_VERSION \"1.2.3\"\n")
CHANGELOG = "# Changelog\n\n## Unreleased\n\n## 1.2.3 - 2026-01-31\n\n### Added\n- A thing.\n"
README = ("pip install spjit-1.2.3-py3-none-manylinux_2_28_x86_64.whl\napt install "
          "./libspjit1.2_1.2.3-1_amd64.deb ./libspjit-dev_1.2.3-1_amd64.deb "
          "./spjit_1.2.3-1_amd64.deb\n")


class Tree(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "include/spjit").mkdir(parents=True)
        self.write("include/spjit/version.hpp", HEADER)
        self.write("CHANGELOG.md", CHANGELOG)
        self.write("README.md", README)
        self.git("init", "-q")
        self.commit()

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text, encoding="utf-8")

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", "-C", self.root, "-c", "user.name=n", "-c", "user.email=n@n.org",
                        "-c", "commit.gpgsign=false", *arguments], check=True, capture_output=True)

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "all")

    def check(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, release_check.__file__, "--root", self.root,
                               *arguments], check=False, capture_output=True, text=True)

    def assert_refused(self, *expected: str, arguments: tuple[str, ...] = ()) -> None:
        result = self.check(*arguments)

        lines = result.stderr.splitlines()
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertEqual(len(lines), len(expected), lines)
        for line, part in zip(lines, expected):
            self.assertIn(part, line)

    def test_says_version_and_packages_of_a_tree_that_agrees(self) -> None:
        for arguments in ((), ("--version", "1.2.3")):
            result = self.check(*arguments)

            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertEqual(result.stdout.split(), ["1.2.3", *release_check.packages("1.2.3")])

    def test_refuses_another_version_than_was_asked_for(self) -> None:
        self.assert_refused("--version 1.2.4: include/spjit/version.hpp says 1.2.3",
                            arguments=("--version", "1.2.4"))

    def test_refuses_a_header_that_disagrees_with_itself(self) -> None:
        self.write("include/spjit/version.hpp", HEADER.replace('"1.2.3"', '"1.2.4"'))
        self.commit()

        self.assert_refused('SPJIT_VERSION is "1.2.4", its numbers say 1.2.3')

    def test_refuses_a_header_without_a_version(self) -> None:
        self.write("include/spjit/version.hpp", "#define SPJIT_VERSION_MAJOR 1\n")
        self.commit()

        self.assert_refused("expected SPJIT_VERSION_MAJOR, _MINOR, _PATCH and SPJIT_VERSION")

    def test_refuses_a_file_that_was_changed_or_is_new(self) -> None:
        self.write("README.md", README + "more\n")
        self.assert_refused("the tree is not clean: README.md; commit")

        self.git("checkout", "README.md")
        self.write("new.cpp", "")
        self.assert_refused("the tree is not clean: new.cpp; commit")

    def test_refuses_a_changelog_without_the_version(self) -> None:
        for text in (CHANGELOG.replace("1.2.3", "1.2.2"), CHANGELOG.replace("1.2.3", "1.2.33"),
                     "# Changelog\n"):
            self.write("CHANGELOG.md", text)
            self.commit()

            self.assert_refused("expected '1.2.3 - YYYY-MM-DD'")

    def test_refuses_a_version_without_a_date(self) -> None:
        for date in ("", " - unreleased", " - 2026-02-30"):
            self.write("CHANGELOG.md", CHANGELOG.replace(" - 2026-01-31", date))
            self.commit()

            self.assert_refused("CHANGELOG.md: 1.2.3 has the date")

    def test_refuses_a_version_without_entries_and_entries_without_a_version(self) -> None:
        self.write("CHANGELOG.md", CHANGELOG.replace("- A thing.\n", ""))
        self.commit()
        self.assert_refused("CHANGELOG.md: 1.2.3 has no entry")

        self.write("CHANGELOG.md", CHANGELOG.replace("## Unreleased\n", "## Unreleased\n- One.\n"))
        self.commit()
        self.assert_refused("CHANGELOG.md: entries are 'Unreleased'")

    def test_refuses_a_readme_of_other_packages(self) -> None:
        self.write("README.md", README.replace("spjit-1.2.3", "spjit-1.2.2"))
        self.commit()

        self.assert_refused("does not name spjit-1.2.3-py3", "names spjit-1.2.2-py3")

    def test_refuses_a_version_that_was_released_before(self) -> None:
        self.git("tag", "v1.2.3")
        self.assertEqual(self.check().returncode, 0)

        self.commit()
        self.assert_refused("the tag v1.2.3 is")

    def test_says_all_that_is_wrong_at_once(self) -> None:
        self.write("CHANGELOG.md", "# Changelog\n")

        self.assert_refused("--version 2.0.0", "CHANGELOG.md: the first release is ''",
                            "the tree is not clean", arguments=("--version", "2.0.0"))

    def test_a_rehearsal_says_what_is_wrong_and_goes_on(self) -> None:
        self.write("CHANGELOG.md", "# Changelog\n")

        result = self.check("--rehearse")

        self.assertEqual((result.returncode, result.stdout[:6]), (0, "1.2.3\n"))
        self.assertIn("the tree is not clean: CHANGELOG.md", result.stderr)

        self.write("include/spjit/version.hpp", "")
        self.assert_refused("expected SPJIT_VERSION_MAJOR", arguments=("--rehearse",))

    def test_refuses_what_is_no_repository(self) -> None:
        with tempfile.TemporaryDirectory() as empty:
            self.root = Path(empty)
            self.assert_refused("include/spjit/version.hpp: ")


if __name__ == "__main__":
    unittest.main()
