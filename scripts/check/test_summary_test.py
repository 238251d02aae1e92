#!/usr/bin/env python3
"""Results of made-up runs, and what test_summary.py has to say about them."""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path
from xml.sax.saxutils import escape

sys.path.insert(0, str(Path(__file__).resolve().parent))
import test_summary  # noqa: E402

MATCHED = "SKIP_REGULAR_EXPRESSION_MATCHED"


def case(name: str, status: str = "run", output: str = "", skipped: str = "") -> str:
    """As ctest writes a test case."""
    inner = f'<skipped message="{skipped}"/>' if skipped else ""
    if status == "fail":
        inner = '<failure message=""/>'
    return (f'<testcase name="{name}" classname="{name}" time="0" status="{status}">{inner}'
            f"<system-out>{escape(output)}</system-out></testcase>")


def gtest_skip(name: str, reason: str) -> str:
    output = f"[ RUN      ] {name}\n/a/b_test.cpp:30: Skipped\n{reason}\n\n[  SKIPPED ] {name}\n"
    return case(name, "notrun", output, MATCHED)


def results(*cases: str) -> str:
    return f"<testsuite name='x'>{''.join(cases)}</testsuite>"


class Lines(unittest.TestCase):
    def lines(self, *cases: str) -> list[str]:
        return test_summary.lines_of(test_summary.read(results(*cases)))

    def failed(self, *cases: str) -> list[str]:
        return test_summary.read(results(*cases)).failed

    def test_a_run_without_skips_is_one_line(self) -> None:
        self.assertEqual(self.lines(case("unit_matrix.A.b"), case("unit_matrix.A.c")),
                         ["2 passed, 0 failed, 0 skipped"])

    def test_skips_are_counted_by_program_and_reason(self) -> None:
        found = self.lines(gtest_skip("gpu_kernels.A.b", "no GPU: no libcuda.so.1"),
                           gtest_skip("gpu_kernels.A.c/avx2", "no GPU: no libcuda.so.1"),
                           gtest_skip("gpu_kernels.A.d", "no data"),
                           gtest_skip("rehearsal.gpu_kernels.A.b", "nothing to compile with"))

        self.assertEqual(found, ["Skipped:",
                                 "  gpu_kernels: 2 skipped: no GPU: no libcuda.so.1",
                                 "  gpu_kernels: 1 skipped: no data",
                                 "  rehearsal.gpu_kernels: 1 skipped: nothing to compile with",
                                 "0 passed, 0 failed, 4 skipped"])

    def test_of_a_part_of_a_program_each_test_counts(self) -> None:
        output = ("[ RUN      ] A.b\n[       OK ] A.b (0 ms)\n"
                  "[ RUN      ] A.c/avx2\n/a/b_test.cpp:30: Skipped\nno avx2 here\n\n"
                  "[  SKIPPED ] A.c/avx2 (0 ms)\n"
                  "[ RUN      ] A.d\nto stdout[       OK ] A.d (1 ms)\n"
                  "[==========] 3 tests from 1 test suite ran. (1 ms total)\n"
                  "[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] A.c/avx2\n")

        self.assertEqual(self.lines(case("unit_base.part_1_of_2", output=output)),
                         ["Skipped:", "  unit_base: 1 skipped: no avx2 here",
                          "2 passed, 0 failed, 1 skipped"])

    def test_of_a_part_that_failed_the_tests_that_did_are_named(self) -> None:
        output = ("[ RUN      ] A.b\n[       OK ] A.b (0 ms)\n[ RUN      ] A.c\nx.cpp:3: Failure\n"
                  "[  FAILED  ] A.c, where GetParam() = 3 (0 ms)\n"
                  "[ RUN      ] A.d\n[  FAILED  ] A.d (0 ms)\n[  FAILED  ] A.c\n")
        crashed = "[ RUN      ] A.b\n[       OK ] A.b (0 ms)\n[ RUN      ] A.c\n"

        self.assertEqual(self.failed(case("u.part_1_of_2", "fail", output)), ["u.A.c", "u.A.d"])
        self.assertEqual(self.failed(case("u.part_1_of_2", "fail", crashed)), ["u.A.c"])
        self.assertEqual(self.failed(case("u.part_1_of_2", "fail", "cannot start\n")), ["u"])
        self.assertEqual(self.failed(case("u.part_1_of_2", "fail", "")), ["u"])

    def test_of_a_reason_the_first_line_is_told(self) -> None:
        found = self.lines(gtest_skip("unit_runtime.A.b", "no NVRTC\nlooked in /usr\n"))

        self.assertIn("  unit_runtime: 1 skipped: no NVRTC", found)

    def test_a_skip_that_says_nothing_is_told_as_such(self) -> None:
        found = self.lines(gtest_skip("unit_runtime.A.b", ""),
                           case("tool", "notrun", "", "SKIP_RETURN_CODE=77"))

        self.assertIn("  unit_runtime: 1 skipped: no reason given", found)
        self.assertIn("  tool: 1 skipped: no reason given", found)

    def test_a_python_file_that_skips_says_why(self) -> None:
        output = "test_a (x.Y.test_a) ... skipped \"there is no 'chromium'\"\nOK (skipped=1)\n"

        found = self.lines(case("report.page_test", "notrun", output, MATCHED))

        self.assertEqual(found, ["Skipped:",
                                 "  report.page_test: 1 skipped: there is no 'chromium'",
                                 "0 passed, 0 failed, 1 skipped"])

    def test_what_a_python_file_that_passed_left_out_is_told(self) -> None:
        output = ("test_a (x.Y.test_a) ... ok\ntest_b (x.Y.test_b) ... skipped 'no LLVM'\n"
                  "test_c (x.Y.test_c) ... skipped 'no LLVM'\nOK (skipped=2)\n")

        found = self.lines(case("cli.compile_test", "run", output))

        self.assertEqual(found, ["Skipped:", "  cli.compile_test: 2 skipped: no LLVM "
                                             "(the others of this file ran)",
                                 "1 passed, 0 failed, 0 skipped"])

    def test_what_was_not_started_or_timed_out_has_failed(self) -> None:
        found = self.lines(case("unit_matrix.A.b", "fail", "broken"),
                           case("unit_gone.A.b", "notrun", "", "Unable to find executable"))

        self.assertEqual(found, ["0 passed, 2 failed, 0 skipped"])

    def test_a_disabled_test_is_a_skipped_one(self) -> None:
        self.assertEqual(self.lines(case("unit_matrix.A.b", "disabled", "Disabled")),
                         ["Skipped:", "  unit_matrix: 1 skipped: disabled",
                          "0 passed, 0 failed, 1 skipped"])


class ExitStatus(unittest.TestCase):
    def run_main(self, text: str, *arguments: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "results.xml"
            path.write_text(text, encoding="utf-8")
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                status = test_summary.main([str(path), *arguments])
        return status, out.getvalue(), err.getvalue()

    def test_skips_are_fine_where_nothing_must_run(self) -> None:
        status, out, err = self.run_main(results(gtest_skip("nvrtc_compile.A.b", "no NVRTC")))

        self.assertEqual((status, err), (0, ""))
        self.assertTrue(out.endswith("\n0 passed, 0 failed, 1 skipped\n"))

    def test_a_skip_of_what_must_run_is_an_error(self) -> None:
        text = results(gtest_skip("nvrtc_compile.A.b", "no NVRTC"), gtest_skip("gpu_kernels.A.b", "x"))

        status, _, err = self.run_main(text, "--must-run", "nvrtc_")

        self.assertEqual(status, 1)
        self.assertEqual(err, "test_summary.py: error: nvrtc_compile: 1 skipped, and must run here: "
                              "no NVRTC\n")

    def test_so_is_a_part_of_a_file_that_must_run(self) -> None:
        output = "test_b (x.Y.test_b) ... skipped 'no qemu'\nOK (skipped=1)\n"

        status, _, _ = self.run_main(results(case("cpu.haswell_test", "run", output)),
                                     "--must-run", "cpu.")

        self.assertEqual(status, 1)

    def test_a_reason_can_be_accepted(self) -> None:
        text = results(gtest_skip("nvrtc_emit.A.b", "no ptxas in PATH"))

        self.assertEqual(self.run_main(text, "--must-run", "nvrtc_", "--accept", "^no ptxas")[0], 0)
        self.assertEqual(self.run_main(text, "--must-run", "nvrtc_", "--accept", "^no nvcc")[0], 1)

    def test_what_must_run_must_be_there(self) -> None:
        status, _, err = self.run_main(results(case("unit_matrix.A.b")), "--must-run", "nvrtc_")

        self.assertEqual(status, 1)
        self.assertIn("no test's name starts with 'nvrtc_'", err)

    def test_no_results_are_an_error(self) -> None:
        status, out, err = self.run_main("half a fi")

        self.assertEqual((status, out), (2, ""))
        self.assertIn("no results in", err)


if __name__ == "__main__":
    unittest.main()
