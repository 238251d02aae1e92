#!/usr/bin/env python3
"""Tests of avx512_tests.py and emulated_pc.py that need no emulator."""

from __future__ import annotations

import stat
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
from avx512_tests import (Report, Result, Test, line_of, part_of, read_left_out, summary,  # noqa: E402
                          tests_in, variables_of)
from emulated_pc import MODELS, EmulatedPc, PcError, archive  # noqa: E402

LISTING = """\
Activation.
  HasTheSameBitsInAvx512AndAvx2WithoutATable
  IsItself
Avx512Runs.
  DISABLED_Never
  AllocatesNothing
All/Kernel.  # TypeParam = X
  Adds/avx512_at_end  # GetParam() = (avx512, at end)
  Adds/avx2_at_end  # GetParam() = (avx2, at end)
"""
A, B, C = Test("unit_kernels", "All/Kernel.Adds/avx512"), Test("unit_kernels", "Avx512.B"), Test(
    "unit_kernels", "Avx512.C")
SKIPPED = "kernel_test.cpp:3: Skipped\n{}\n\n"


def report_of(output: str, tests: tuple[Test, ...] = (A, B)) -> Report:
    report = Report({test: Result() for test in tests})
    for line in output.splitlines():
        report.read(line)
    return report


def passes(test: Test, ms: int = 20) -> str:
    return f"[ RUN      ] {test.name}\n[       OK ] {test.name} ({ms} ms)\n"


def ends(program: str = "unit_kernels", status: int = 0) -> str:
    return f"\n@@ EXIT {program} {status}\n@@ END\n"


RUN = "@@ RUN unit_kernels\n"


class Listing(unittest.TestCase):
    def test_tests_of_avx512_have_it_in_their_names(self) -> None:
        self.assertEqual([test.name for test in tests_in(LISTING, "unit_kernels")],
                         ["Activation.HasTheSameBitsInAvx512AndAvx2WithoutATable",
                          "Avx512Runs.AllocatesNothing", "All/Kernel.Adds/avx512_at_end"])

    def test_parts_have_every_test_once(self) -> None:
        tests = [Test("p", str(number)) for number in range(10)]

        parts = [part_of(tests, f"{part}/3") for part in (1, 2, 3)]

        self.assertEqual(sorted(test.name for part in parts for test in part),
                         [test.name for test in tests])
        self.assertEqual([len(part) for part in parts], [4, 3, 3])

    def test_a_part_that_is_none_is_refused(self) -> None:
        for part in ("0/3", "4/3", "1", "a/b", "1/3x", "-1/3"):
            with self.subTest(part), self.assertRaisesRegex(ValueError, "K/N with K in 1 .. N"):
                part_of([A], part)

    def test_what_is_left_out_is_a_test_and_has_a_reason(self) -> None:
        self.assertEqual(read_left_out(f"# text\n\n{A} 20 minutes\n", [A, B]), {str(A): "20 minutes"})
        for text, message in ((f"{A}\n", "has no reason"), ("unit_kernels.Gone slow\n", "no test")):
            with self.subTest(text), self.assertRaisesRegex(ValueError, message):
                read_left_out(text, [A, B])

    def test_variables_say_which_cases_tests_take(self) -> None:
        self.assertEqual(variables_of({"HOME": "/root", "SPJIT_TURN": "12"}), {"SPJIT_TURN": "12"})
        with self.assertRaisesRegex(ValueError, "SPJIT_LONG is 'yes'"):
            variables_of({"SPJIT_LONG": "yes"})


class Reports(unittest.TestCase):
    def assert_ends(self, report: Report, last: str, well: bool, *within: str) -> None:
        lines, all_well = summary(report, {})
        self.assertEqual(lines[-1], last)
        self.assertEqual(all_well, well, lines)
        for text in within:
            self.assertIn(text, "\n".join(lines))

    def test_all_passed(self) -> None:
        report = report_of(RUN + passes(A, 1250) + passes(B) + ends())

        self.assert_ends(report, "2 passed, 0 failed, 0 skipped", True)
        self.assertEqual(line_of(1, 2, A, report.results[A]),
                         "1/2 Test: unit_kernels.All/Kernel.Adds/avx512 .. Passed 1.25 s")

    def test_an_ending_may_follow_what_the_test_printed(self) -> None:
        report = report_of(f"{RUN}[ RUN      ] {A.name}\nno new line[       OK ] {A.name} (3 ms)\n"
                           + passes(B) + ends())

        self.assert_ends(report, "2 passed, 0 failed, 0 skipped", True)

    def test_a_failed_test_has_its_output(self) -> None:
        report = report_of(f"{RUN}[ RUN      ] {A.name}\nx.cpp:3: Failure\n"
                           f"[  FAILED  ] {A.name}, where GetParam() = (avx512) (3 ms)\n" + passes(B)
                           + ends(status=256))

        self.assert_ends(report, "1 passed, 1 failed, 0 skipped", False, f"Failed: {A}")
        self.assertIn("x.cpp:3: Failure", report.results[A].output)

    def test_a_crash_ends_its_test_and_no_other(self) -> None:
        report = report_of(f"{RUN}[ RUN      ] {A.name}\n\n@@ EXIT unit_kernels 11\n{RUN}" + passes(B)
                           + ends())

        self.assert_ends(report, "1 passed, 1 failed, 0 skipped", False, f"Crashed: {A}")
        self.assertIn("wait status 11", report.results[A].output)

    def test_a_test_that_takes_too_long_has_failed(self) -> None:
        report = report_of(f"{RUN}[ RUN      ] {A.name}\n\n@@ TIMEOUT\n\n@@ EXIT unit_kernels 9\n{RUN}"
                           + passes(B) + ends())

        self.assert_ends(report, "1 passed, 1 failed, 0 skipped", False, f"Timeout: {A}")

    def test_a_test_that_did_not_run_has_failed(self) -> None:
        self.assert_ends(report_of(RUN + passes(A) + ends()), "1 passed, 1 failed, 0 skipped", False,
                         f"Not run: {B}")

    def test_an_end_that_does_not_come_is_a_failure(self) -> None:
        self.assert_ends(report_of(RUN + passes(A) + passes(B)), "2 passed, 0 failed, 0 skipped", False,
                         "did not get to its end")

    def test_a_program_that_ends_badly_after_its_tests_is_a_failure(self) -> None:
        for status in (11, 256, 32512):
            self.assert_ends(report_of(RUN + passes(A) + passes(B) + ends(status=status)),
                             "2 passed, 0 failed, 0 skipped", False, f"wait status {status}")

    def test_a_program_that_does_not_go_on_after_its_tests_is_a_failure(self) -> None:
        self.assert_ends(report_of(f"{RUN}{passes(A)}{passes(B)}\n@@ TIMEOUT\n{ends(status=9)}"),
                         "2 passed, 0 failed, 0 skipped", False, "did not go on")

    def test_a_skip_says_why_and_is_one_of_avx512_only_if_the_cpu_hides_it(self) -> None:
        def skips(reason: str) -> Report:
            return report_of(f"{RUN}[ RUN      ] {A.name}\n{SKIPPED.format(reason)}"
                             f"[  SKIPPED ] {A.name} (0 ms)\n" + passes(B) + ends())

        self.assert_ends(skips("it is of one n"), "1 passed, 0 failed, 1 skipped", True,
                         f"skipped: {A}: it is of one n")
        for reason in ("no avx512 here", "this CPU has no AVX-512"):
            self.assert_ends(skips(reason), "1 passed, 0 failed, 1 skipped", False, "1 tests found no")

    def test_a_run_in_which_nothing_passed_is_a_failure(self) -> None:
        report = report_of(f"{RUN}[ RUN      ] {A.name}\n{SKIPPED.format('slow')}"
                           f"[  SKIPPED ] {A.name} (0 ms)\n" + ends(), (A,))

        self.assert_ends(report, "0 passed, 0 failed, 1 skipped", False, "no test passed")

    def test_a_test_that_nobody_asked_for_is_a_failure(self) -> None:
        self.assert_ends(report_of(RUN + passes(A) + passes(B) + passes(C) + ends()),
                         "2 passed, 0 failed, 0 skipped", False, f"{C} ran")


class Emulator(unittest.TestCase):
    """With a shell script in the place of Bochs."""

    def pc(self, script: str) -> EmulatedPc:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        programs = {"bochs-bin": script, "grub-mkrescue": "", "xorriso": ""}
        (folder / "usr/bin").mkdir(parents=True)
        for name, text in programs.items():
            (folder / "usr/bin" / name).write_text(f"#!/bin/sh\n{text}\n")
            (folder / "usr/bin" / name).chmod(0o755)
        (folder / "vmlinuz").touch()
        pc = self.enterContext(EmulatedPc(folder, next(iter(MODELS)), folder / "work"))
        try:
            pc.start(Path("/bin/true"), [], "1\n", {"SPJIT_TURN": "3"})
        except OSError as error:  # a container or chroot without /dev/pts
            if "pty" not in str(error):
                raise
            self.skipTest(f"no pseudo-terminal here: {error}")
        return pc

    def test_says_what_comes_from_the_serial_port_line_by_line(self) -> None:
        pc = self.pc("printf 'a\\r\\nb' >serial.txt; sleep 1; printf 'c\\n@@ END\\n' >>serial.txt; sleep 60")

        lines = pc.lines()

        self.assertEqual([next(lines) for _ in range(3)], ["a", "bc", "@@ END"])

    def test_that_ends_is_an_error_with_its_last_words(self) -> None:
        pc = self.pc("echo one >serial.txt; echo 'p[CPU0] >>PANIC<< shutdown' >bochs.log; exit 1")

        with self.assertRaisesRegex(PcError, "(?s)the emulator ended.*>>PANIC<< shutdown.*one"):
            list(pc.lines())

    def test_whose_kernel_panics_is_an_error(self) -> None:
        pc = self.pc("echo 'Kernel panic - not syncing: no init' >serial.txt; sleep 60")

        with self.assertRaisesRegex(PcError, "(?s)kernel stopped.*no init"):
            list(pc.lines())

    def test_that_runs_and_says_nothing_is_an_error(self) -> None:
        pc = self.pc("echo one >serial.txt; while :; do :; done")

        with mock.patch("emulated_pc._SILENT_CPU_S", 0.2), \
                self.assertRaisesRegex(PcError, "(?s)said nothing.*one"):
            list(pc.lines())

    def test_is_gone_when_its_context_ends(self) -> None:
        pc = self.pc("sleep 60")
        process = pc.process

        pc.stop()

        self.assertIsNotNone(process.returncode)


class Archive(unittest.TestCase):
    def test_entries_are_headers_names_and_contents_in_words_of_four_bytes(self) -> None:
        data = archive({"b/c": (stat.S_IFREG | 0o755, b"12345"), "b": (stat.S_IFDIR | 0o755, b"")})

        entries, at = [], 0
        while at < len(data):
            self.assertEqual(data[at:at + 6], b"070701")
            words = [int(data[at + 6 + 8 * i:at + 14 + 8 * i], 16) for i in range(13)]
            name = data[at + 110:at + 110 + words[11]]
            at += -(-(110 + words[11]) // 4) * 4
            entries.append((name, words[1], data[at:at + words[6]]))
            at += -(-words[6] // 4) * 4
        self.assertEqual(entries, [(b"b\0", stat.S_IFDIR | 0o755, b""),
                                   (b"b/c\0", stat.S_IFREG | 0o755, b"12345"),
                                   (b"TRAILER!!!\0", 0, b"")])


if __name__ == "__main__":
    unittest.main()
