#!/usr/bin/env python3
"""Runs the tests of AVX-512 of the programs in a folder in an emulated PC: scripts/check/avx512_tests.sh.

The tests are those with avx512 in their names; the test programs see to it that no other test
skips for want of AVX-512 (tests/support/emulated_tests.cpp). tests/avx512/init.cpp runs them in the
PC and says how what comes out of its serial port is to be read.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from emulated_pc import MODELS, EmulatedPc, PcError  # noqa: E402

LEFT_OUT = Path(__file__).resolve().with_name("avx512_left_out.txt")
VARIABLES = ("SPJIT_LONG", "SPJIT_TURN")  # which cases tests take (tests/support/long_tests.hpp)
LIMIT_S = 900  # of a test, in seconds of the PC
ENDINGS = {"OK": "Passed", "FAILED": "Failed", "SKIPPED": "Skipped"}
ENDING = re.compile(r"\[ +(?P<word>OK|FAILED|SKIPPED) +\] (?P<name>\S+?)(, where .*)? \((?P<ms>\d+) ms\)$")
SKIP = re.compile(r"^.*: Skipped\n(?P<reason>.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Test:
    program: str
    name: str  # "SUITE.TEST"

    def __str__(self) -> str:
        return f"{self.program}.{self.name}"


@dataclass
class Result:
    status: str = "Not run"  # or Passed, Failed, Skipped, Timeout, Crashed
    seconds: float = 0
    output: str = ""


def tests_in(listing: str, program: str) -> list[Test]:
    """Those of AVX-512 in what --gtest_list_tests prints."""
    tests, suite = [], ""
    for line in listing.splitlines():
        word = line.split("#")[0].rstrip()
        if not line.startswith(" "):
            suite = word
        elif "avx512" in (suite + word).lower() and "DISABLED_" not in suite + word:
            tests.append(Test(program, suite + word.strip()))
    return tests


def read_left_out(text: str, tests: list[Test]) -> dict[str, str]:
    """Names and why they are left out. Raises ValueError for a line that is of no test or gives no reason."""
    names = {str(test) for test in tests}
    left_out = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, _, reason = line.partition(" ")
        if name not in names:
            raise ValueError(f"{LEFT_OUT.name}: there is no test '{name}'")
        if not reason.strip():
            raise ValueError(f"{LEFT_OUT.name}: '{name}' has no reason; write it after the name")
        left_out[name] = reason.strip()
    return left_out


def part_of(tests: list[Test], part: str) -> list[Test]:
    match = re.fullmatch(r"(\d+)/(\d+)", part)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f"--part is '{part}'; expected K/N with K in 1 .. N, as 2/5")
    # Neighbours take about the same time.
    return tests[int(match[1]) - 1::int(match[2])]


@dataclass
class Report:
    """Reads what the PC says, a line at a time."""

    results: dict[Test, Result]
    problems: list[str] = field(default_factory=list)  # that belong to no test
    ended: bool = False
    program: str = ""
    test: Test | None = None
    lines: list[str] = field(default_factory=list)

    def read(self, line: str) -> list[Test]:
        """The tests that end with it."""
        if line.startswith("@@ "):
            return self.read_mark(line.split()[1:])
        if line.startswith("[ RUN      ] "):
            ended = self.end("Crashed") if self.test else []
            self.test = Test(self.program, line.removeprefix("[ RUN      ] "))
            self.lines = []
            return ended
        match = ENDING.search(line)
        if match and self.test and match["name"] == self.test.name:
            self.lines.append(line[:match.start()])
            return self.end(ENDINGS[match["word"]], int(match["ms"]) / 1000)
        self.lines.append(line)
        return []

    def read_mark(self, words: list[str]) -> list[Test]:
        if words[0] == "RUN":
            self.program = words[1]
            self.lines = []
        elif words[0] == "TIMEOUT":
            return self.end("Timeout") if self.test else self.problem("did not go on between tests")
        elif words[0] == "EXIT":
            if self.test:
                self.lines.append(f"{words[1]} ended with wait status {words[2]}")
                return self.end("Crashed")
            # 0: all passed; 256: exit status 1, which failed tests explain; 9: killed after a time-out
            failed = any(result.status == "Failed" for test, result in self.results.items()
                         if test.program == words[1])
            if words[2] not in ("0", "9") and not (words[2] == "256" and failed):
                self.problem(f"ended with wait status {words[2]} outside its tests")
        elif words[0] == "END":
            self.ended = True
        return []

    def problem(self, text: str) -> list[Test]:
        self.problems.append("\n".join([f"{self.program} {text}", *self.lines]))
        return []

    def end(self, status: str, seconds: float = 0) -> list[Test]:
        test, self.test = self.test, None
        if test not in self.results:
            self.problems.append(f"{test} ran and was not asked for")
            return []
        self.results[test] = Result(status, seconds, "\n".join(self.lines))
        self.lines = []
        return [test]


def line_of(number: int, total: int, test: Test, result: Result) -> str:
    width = len(str(total))
    state = result.status if result.status == "Passed" else f"***{result.status}"
    return f"{number:{width}}/{total} Test: {test} .. {state} {result.seconds:.2f} s"


def follow(lines: Iterator[str], report: Report) -> None:
    """Prints a line for each test that ends, with what it printed if it did not pass."""
    number = 0
    for line in lines:
        for test in report.read(line):
            number += 1
            result = report.results[test]
            print(line_of(number, len(report.results), test, result), flush=True)
            if result.status not in ("Passed", "Skipped"):
                print(result.output, flush=True)
        if report.ended:
            return


def reason_of(output: str) -> str:
    match = SKIP.search(output)
    return match["reason"] if match else "no reason given"


def summary(report: Report, left_out: dict[str, str]) -> tuple[list[str], bool]:
    """Lines, the last one "N passed, N failed, N skipped", and whether all is well."""
    counts = Counter(result.status for result in report.results.values())
    bad = {test: result for test, result in report.results.items()
           if result.status not in ("Passed", "Skipped")}
    skipped = {test: reason_of(result.output) for test, result in report.results.items()
               if result.status == "Skipped"}
    lines = [f"left out: {name}: {reason}" for name, reason in left_out.items()]
    lines += [f"skipped: {test}: {reason}" for test, reason in skipped.items()]
    lines += [f"{result.status}: {test}" for test, result in bad.items()]
    lines += report.problems
    # A CPU that hides AVX-512 would make all of them skip.
    hidden = [test for test, reason in skipped.items() if re.search("avx-?512", reason, re.I)]
    lines += [f"{len(hidden)} tests found no AVX-512 in the emulated CPU"] if hidden else []
    lines += [] if report.ended else ["the emulated PC did not get to its end"]
    if counts["Passed"] == 0:
        lines.append("no test passed")
    lines.append(f"{counts['Passed']} passed, {len(bad)} failed, {counts['Skipped']} skipped")
    return lines, not (bad or report.problems or hidden or not report.ended or counts["Passed"] == 0)


def arguments_of(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=Path, help="folder with the test programs and avx512_init")
    parser.add_argument("--bochs", type=Path, required=True, help="what scripts/build/setup_bochs.sh made")
    parser.add_argument("--work", type=Path, required=True, help="for the PC's disk and logs")
    parser.add_argument("--part", default="1/1", metavar="K/N")
    parser.add_argument("--model", choices=MODELS, default=next(iter(MODELS)))
    parser.add_argument("--only", metavar="REGEX")
    parser.add_argument("--list", action="store_true")
    return parser.parse_args(words)


def all_tests(folder: Path) -> list[Test]:
    tests = []
    for program in sorted(folder.glob("unit_*")):
        listing = subprocess.run([program, "--gtest_list_tests"], text=True, check=True,
                                 stdout=subprocess.PIPE).stdout
        tests += tests_in(listing, program.name)
    return tests


def chosen(options: argparse.Namespace) -> tuple[list[Test], dict[str, str]]:
    tests = all_tests(options.programs)
    left_out = read_left_out(LEFT_OUT.read_text(encoding="utf-8"), tests)
    if options.only:
        tests = [test for test in tests if re.search(options.only, str(test))]
        left_out = {}
    tests = part_of([test for test in tests if str(test) not in left_out], options.part)
    if not tests:
        raise ValueError("there is no such test")
    return tests, left_out


def variables_of(environment: Mapping[str, str]) -> dict[str, str]:
    found = {name: environment[name] for name in VARIABLES if name in environment}
    for name, value in found.items():
        if not re.fullmatch(r"\d+", value):
            raise ValueError(f"{name} is '{value}'; expected a whole number from 0 on")
    return found


def main(words: list[str]) -> int:
    options = arguments_of(words)
    try:
        tests, left_out = chosen(options)
        if options.list:
            print("\n".join(map(str, tests)))
            return 0
        report = Report({test: Result() for test in tests})
        work = options.work / f"{options.model}_{options.part.replace('/', '_of_')}"
        plan = "".join(f"{test.program} {test.name}\n" for test in tests)
        programs = [options.programs / name for name in sorted({test.program for test in tests})]
        with EmulatedPc(options.bochs, options.model, work) as pc:
            pc.start(options.programs / "avx512_init", programs, f"{LIMIT_S}\n{plan}",
                     variables_of(os.environ))
            try:
                follow(pc.lines(), report)
            except PcError as error:
                report.problems.append(str(error))
            print(f"emulated: {pc.cost()}")
    except (PcError, ValueError) as error:
        print(f"avx512_tests.py: {error}", file=sys.stderr)
        return 1
    lines, well = summary(report, left_out)
    print("\n".join(lines))
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
