#!/usr/bin/env python3
"""Runs the mutation run on a toy project: each way a change can end, once."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import mutate  # noqa: E402

TOY = {
    "CMakeLists.txt": """
cmake_minimum_required(VERSION 3.25)
project(toy LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(GTest REQUIRED)
add_library(toy STATIC toy/sum.cpp)
target_include_directories(toy PUBLIC .)
add_subdirectory(tests)
""",
    "tests/CMakeLists.txt": """
add_executable(unit_toy toy_test.cpp)
target_link_libraries(unit_toy PRIVATE toy GTest::gtest GTest::gtest_main)
""",
    "toy/sum.hpp": "int sum_below(int end);\nint twice(int value);\n",
    "toy/first.inc": "constexpr int k_first = 0;\n",
    "toy/sum.cpp": """
#include "sum.hpp"
#include "toy/first.inc"
int sum_below(int end) {
  int sum = 0;
  for (int i = k_first; i < end; ++i) sum += i;
  return sum;
}
int twice(int value) { return value + value; }
""",
    "tests/toy_test.cpp": """
#include <gtest/gtest.h>
#include "toy/sum.hpp"
TEST(SumBelow, AddsAllNumbers) { EXPECT_EQ(sum_below(4), 6); }
TEST(Twice, KeepsZero) { EXPECT_EQ(twice(0), 0); }
TEST(Broken, Fails) { EXPECT_EQ(twice(1), 3); }
TEST(Absent, Skips) { GTEST_SKIP() << "not here"; }
""",
}


def entry(name: str, text: str, to: str, tests: str, more: str = "") -> str:
    return (f"[[mutation]]\nname = '{name}'\nfile = 'toy/sum.cpp'\ntext = '{text}'\n"
            f"to = '{to}'\ntests = ['{tests}']\n{more}\n")


class Mutate(unittest.TestCase):
    project: tempfile.TemporaryDirectory[str]
    root: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.project = tempfile.TemporaryDirectory()
        cls.root = Path(cls.project.name)
        for name, text in TOY.items():
            path = cls.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        subprocess.run(["cmake", "-S", cls.root, "-B", cls.root / "build" / "release", "-G", "Ninja",
                        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"],
                       check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.project.cleanup()

    def mutate(self, entries: str, *options: str) -> tuple[int, str]:
        changes = self.root / "list.toml"
        changes.write_text(entries, encoding="utf-8")
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            status = mutate.main(["--root", str(self.root), "--file", str(changes), "--jobs", "1",
                                  *options])
        return status, output.getvalue()

    def test_change_that_a_test_notices_is_killed(self) -> None:
        status, output = self.mutate(entry("off-by-one", "i < end", "i <= end", "unit_toy Sum*"))

        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"killed .* s  off-by-one: unit_toy SumBelow\.AddsAllNumbers")
        self.assertIn("1 killed, 0 survived (0 with a reason), 0 skipped, 0 errors", output)

    def test_change_of_an_included_file_is_compiled_with_the_source_that_names_it(self) -> None:
        included = entry("first", "k_first = 0", "k_first = 2", "unit_toy Sum*",
                         "compile = 'toy/sum.cpp'").replace("toy/sum.cpp", "toy/first.inc", 1)

        status, output = self.mutate(included)

        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"killed .* s  first: unit_toy SumBelow\.AddsAllNumbers")

    def test_change_of_an_included_file_without_a_source_is_an_error(self) -> None:
        alone = entry("first", "k_first = 0", "k_first = 2", "unit_toy Sum*")

        status, output = self.mutate(alone.replace("toy/sum.cpp", "toy/first.inc"), "--check")

        self.assertEqual(status, 2, output)
        self.assertIn("first: toy/first.inc is no source file (.cpp) here", output)

    def test_change_that_no_test_notices_survives(self) -> None:
        survivor = entry("squares", "value + value", "value * value", "unit_toy Twice.*")

        status, output = self.mutate(survivor)

        self.assertEqual(status, 1, output)
        self.assertIn("0 killed, 1 survived (0 with a reason), 0 skipped, 0 errors", output)

    def test_reason_excuses_a_survivor(self) -> None:
        survivor = entry("squares", "value + value", "value * value", "unit_toy Twice.*",
                         "reason = 'nobody doubles'")

        status, output = self.mutate(survivor)

        self.assertEqual(status, 0, output)
        self.assertIn("nobody doubles", output)
        self.assertIn("0 killed, 1 survived (1 with a reason), 0 skipped, 0 errors", output)

    def test_change_that_needs_another_cpu_is_skipped(self) -> None:
        flags, mutate.flags_of_cpu = mutate.flags_of_cpu, lambda: {"avx2"}
        try:
            needs = [entry(f"on-{flag}", "i < end", "i <= end", "unit_toy Sum*", f"needs = '{flag}'")
                     for flag in ("avx512f", "avx2")]
            status, output = self.mutate("".join(needs))
        finally:
            mutate.flags_of_cpu = flags

        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"skipped .* s  on-avx512f: this CPU has no avx512f")
        self.assertIn("1 killed, 0 survived (0 with a reason), 1 skipped, 0 errors", output)

    def test_unknown_need_is_an_error(self) -> None:
        self.expect_error(entry("any", "i < end", "i <= end", "unit_toy *", "needs = 'avx51'"),
                          "needs 'avx51', expected one of avx2, avx512f")

    def test_run_stops_at_a_survivor_unless_told_to_go_on(self) -> None:
        entries = (entry("squares", "value + value", "value * value", "unit_toy Twice.*") +
                   entry("off-by-one", "i < end", "i <= end", "unit_toy Sum*"))

        stopped, gone_on = self.mutate(entries), self.mutate(entries, "--keep-going")

        self.assertEqual((stopped[0], gone_on[0]), (1, 1))
        self.assertIn("0 killed, 1 survived", stopped[1])
        self.assertIn("1 killed, 1 survived", gone_on[1])

    def test_crash_is_noticed(self) -> None:
        status, output = self.mutate(
            entry("crash", "int sum = 0;", "int sum = 0; __builtin_trap();", "unit_toy Sum*"))

        self.assertEqual(status, 0, output)
        self.assertIn("unit_toy SumBelow.AddsAllNumbers", output)

    def test_hang_is_noticed(self) -> None:
        limit, mutate.LEAST_LIMIT_S = mutate.LEAST_LIMIT_S, 1
        try:
            status, output = self.mutate(entry("hang", "++i", "i += 0 * end", "unit_toy Sum*"))
        finally:
            mutate.LEAST_LIMIT_S = limit

        self.assertEqual(status, 0, output)
        # The limit grows with the time of the unchanged tests, which a busy machine makes long.
        self.assertRegex(output, r"killed .*no end within [0-9]+ s")

    def test_memory_without_end_is_noticed(self) -> None:
        most, mutate.MOST_MEMORY_BYTES = mutate.MOST_MEMORY_BYTES, 64 << 20
        greedy = "int sum = 0; for (char* p;;) { p = new char[4096]; p[end] = 1; "\
                 "__asm__ volatile(\"\" : : \"r\"(p) : \"memory\"); }"
        try:
            status, output = self.mutate(entry("greedy", "int sum = 0;", greedy, "unit_toy Sum*"))
        finally:
            mutate.MOST_MEMORY_BYTES = most

        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"killed .*of memory")

    def expect_error(self, entries: str, message: str) -> None:
        status, output = self.mutate(entries)
        self.assertEqual(status, 2, output)
        self.assertRegex(output, message)

    def test_text_that_is_gone_is_an_error(self) -> None:
        self.expect_error(entry("stale", "i < last", "i <= last", "unit_toy Sum*"), "stale.* 0 times")

    def test_text_that_occurs_twice_is_an_error(self) -> None:
        self.expect_error(entry("vague", "sum", "end", "unit_toy Sum*"), "stale.* [2-9] times")

    def test_place_after_another_text_is_found(self) -> None:
        status, output = self.mutate(entry("later", "value", "0", "unit_toy SumBelow.*",
                                           "after = 'return value'\nreason = 'not called'"))

        self.assertEqual(status, 0, output)
        self.assertIn("1 survived (1 with a reason)", output)

    def test_change_that_does_not_compile_is_an_error(self) -> None:
        self.expect_error(entry("broken", "i < end", "i < nothing", "unit_toy Sum*"),
                          "error .*does not compile.*nothing")

    def test_test_that_fails_without_the_change_is_an_error(self) -> None:
        self.expect_error(entry("any", "i < end", "i <= end", "unit_toy Broken.*"),
                          "fails without a change: Broken.Fails")

    def test_filter_that_matches_nothing_is_an_error(self) -> None:
        self.expect_error(entry("any", "i < end", "i <= end", "unit_toy Sum*:Nothing.*"),
                          "no test is named Nothing")

    def test_tests_that_all_skip_are_an_error(self) -> None:
        self.expect_error(entry("any", "i < end", "i <= end", "unit_toy Absent.*"), "skip here")

    def test_unknown_key_is_an_error(self) -> None:
        self.expect_error(entry("any", "i < end", "i <= end", "unit_toy *", "shrot = true"), "shrot")

    def test_name_given_twice_is_an_error(self) -> None:
        one = entry("any", "i < end", "i <= end", "unit_toy Sum*")
        self.expect_error(one + one, "more than one")

    def test_check_needs_no_build(self) -> None:
        entries = (entry("good", "i < end", "i <= end", "unit_toy Sum*") +
                   entry("stale", "i < last", "i <= last", "unit_toy Sum*"))

        status, output = self.mutate(entries, "--check", "--build", "nowhere")

        self.assertEqual(status, 2, output)
        self.assertIn("2 changes, 1 of them do not fit", output)

    def test_check_finds_tests_that_a_build_has_not(self) -> None:
        entries = (entry("good", "i < end", "i <= end", "unit_toy Sum*:-SumBelow.Nothing") +
                   entry("moved", "i < end", "i <= end", "unit_toy Sum*:Nothing.*") +
                   entry("unbuilt", "i < end", "i <= end", "unit_other Sum*"))
        subprocess.run(["cmake", "--build", self.root / "build" / "release", "--target", "unit_toy"],
                       check=True, stdout=subprocess.DEVNULL)

        status, output = self.mutate(entries, "--check", "--build",
                                     str(self.root / "build" / "release"))

        self.assertEqual(status, 2, output)
        self.assertIn("moved: unit_toy has no test that is named Nothing.*\n", output)
        self.assertIn("3 changes, 1 of them do not fit", output)

    def reanchored(self, entries: str) -> tuple[int, str]:
        status, output = self.mutate(entries, "--reanchor")
        return status, output + (self.root / "list.toml").read_text(encoding="utf-8")

    def test_file_that_was_moved_is_found(self) -> None:
        moved = entry("moved", "i < end", "i <= end", "unit_toy Sum*").replace("toy/", "toy/old/")

        status, output = self.reanchored(moved)

        self.assertEqual(status, 0, output)
        self.assertIn("file = 'toy/sum.cpp'\n", output)

    def test_quote_that_was_renamed_is_found_and_renamed_in_its_replacement(self) -> None:
        renamed = (entry("renamed", "int number = k_first; number < end", "int number = k_first; "
                         "number <= end", "unit_toy Sum*") +
                   entry("after", "return sum", "return 1", "unit_toy Sum*",
                         "after = \"\"\"number < end; ++number) sum += number;\"\"\""))
        renamed = renamed.replace('"""', "'")

        status, output = self.reanchored(renamed)

        self.assertEqual(status, 0, output)
        self.assertIn("text = 'int i = k_first; i < end'\n", output)
        self.assertIn("to = 'int i = k_first; i <= end'\n", output)
        self.assertIn("after = 'i < end; ++i) sum += i;'\n", output)

    def test_quote_of_another_text_is_left(self) -> None:
        other = entry("other", "while (queue.empty()) wait()", "wait()", "unit_toy Sum*")

        status, output = self.reanchored(other)

        self.assertEqual(status, 2, output)
        self.assertIn("text = 'while (queue.empty()) wait()'\n", output)

    def test_programs_of_benchmarks_lie_in_bench(self) -> None:
        self.assertEqual([mutate.Tests(Path("."), f"{name} A.*").program
                          for name in ("unit_toy", "bench_test_toy")],
                         ["tests/unit_toy", "bench/bench_test_toy"])

    def test_short_and_only_choose(self) -> None:
        entries = (entry("first", "i < end", "i <= end", "unit_toy Sum*", "short = true") +
                   entry("second", "i < end", "i <= end", "unit_toy Sum*"))

        short = self.mutate(entries, "--list", "--short")[1]
        only = self.mutate(entries, "--list", "--only", "sec*")[1]

        self.assertEqual(re.findall(r"^\w+", short, re.MULTILINE), ["first"])
        self.assertEqual(re.findall(r"^\w+", only, re.MULTILINE), ["second"])

    def commit(self) -> None:
        git = ["git", "-C", str(self.root), "-c", "user.name=toy", "-c", "user.email=toy@toy"]
        for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "toy"]):
            subprocess.run([*git, *command], check=True)

    def test_resume_leaves_out_what_was_killed_at_this_commit(self) -> None:
        self.commit()
        killed = self.root / "killed"
        entries = (entry("first", "i < end", "i <= end", "unit_toy Sum*") +
                   entry("second", "value + value", "2 * value", "unit_toy Twice.*"))

        self.mutate(entries, "--keep-going", "--resume", str(killed))
        status, again = self.mutate(entries, "--keep-going", "--resume", str(killed))
        self.commit()
        later = self.mutate(entries, "--keep-going", "--resume", str(killed))[1]

        self.assertEqual(status, 1, again)
        self.assertIn("1 were killed before", again)
        self.assertIn("0 killed, 1 survived", again)
        self.assertIn("1 killed, 1 survived", later)

    def test_resume_without_a_commit_is_an_error(self) -> None:
        shutil.rmtree(self.root / ".git", ignore_errors=True)

        status, output = self.mutate(entry("first", "i < end", "i <= end", "unit_toy Sum*"),
                                     "--resume", str(self.root / "killed"))

        self.assertEqual(status, 2)
        self.assertIn("has no commit", output)

    def test_sources_stay_as_they_are(self) -> None:
        self.mutate(entry("off-by-one", "i < end", "i <= end", "unit_toy Sum*"))

        self.assertEqual((self.root / "toy/sum.cpp").read_text(), TOY["toy/sum.cpp"])
        self.assertFalse(any((self.root / "build" / "mutation").glob("*")))


if __name__ == "__main__":
    unittest.main()
