#!/usr/bin/env python3
"""Says what a run of ctest passed, failed and skipped, and why it skipped, by group of tests.

    scripts/check/test_summary.py RESULTS.xml [--must-run PREFIX... [--accept REASON]]

RESULTS.xml is what `ctest --output-junit` writes. The last line is "N passed, N failed, N skipped".
A test file of Python that ran some of its tests and skipped others counts as passed; those it skipped
are listed. Of a part of a gtest program each test counts. Exit status: 1 if a test whose name starts with a PREFIX was skipped for a reason in which
the regular expression REASON is not found, or if there is no such test; 2 if there are no results to read.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

# A gtest program prints where a test was skipped, and the reason on the line after it.
GTEST_SKIP = re.compile(r"^.*: Skipped\n(?P<reason>.*)$", re.MULTILINE)
# A part of a gtest program has many tests, and says of each how it ended.
PART = re.compile(r"^(?P<program>.+)\.part_\d+_of_\d+$")
GTEST_BEGIN = re.compile(r"\[ RUN      \] (?P<name>\S+)$")
GTEST_END = re.compile(r"\[ +(?P<end>OK|SKIPPED|FAILED) +\] (?P<name>\S+?)(?:,| \()")
# unittest -v prints a line for each test, with the reason as Python's repr().
UNITTEST_SKIP = re.compile(r"\.\.\. skipped (?P<reason>(?P<quote>['\"]).*(?P=quote))$", re.MULTILINE)
NO_REASON = "no reason given"


@dataclass(frozen=True)
class Skip:
    group: str
    reason: str
    whole: bool  # false: part of a test file whose other tests ran


@dataclass
class Summary:
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: int = 0
    skips: Counter[Skip] = field(default_factory=Counter)
    groups: set[str] = field(default_factory=set)


def group_of(name: str) -> str:
    """The program of a gtest test, the file of a Python test; "rehearsal.PROGRAM" of a rehearsal."""
    parts = name.split(".")
    if parts[0] == "rehearsal" or len(parts) == 2:
        return ".".join(parts[:2])
    return parts[0]


def reasons_in(output: str) -> list[str]:
    python = [str(ast.literal_eval(match["reason"])) for match in UNITTEST_SKIP.finditer(output)]
    gtest = [match["reason"] for match in GTEST_SKIP.finditer(output)]
    # One line each, however long a message is.
    return [reason.strip().split("\n")[0] or NO_REASON for reason in python or gtest[:1]]


def reason_without_output(message: str) -> str:
    return NO_REASON if message.startswith("SKIP_") else message


def add_part(summary: Summary, program: str, output: str, passed: bool) -> None:
    """Adds the tests of a part of a program; one that did not end, and those after it, failed."""
    begun, lines = "", []
    failed_before = len(summary.failed)
    for line in output.splitlines():
        begin, end = GTEST_BEGIN.search(line), GTEST_END.search(line)
        if begin:
            begun, lines = begin["name"], []
        elif begun and end and end["name"] == begun:
            if end["end"] == "OK":
                summary.passed += 1
            elif end["end"] == "FAILED":
                summary.failed.append(f"{program}.{begun}")
            else:
                summary.skipped += 1
                reason = (reasons_in("\n".join(lines)) or [NO_REASON])[0]
                summary.skips[Skip(program, reason, True)] += 1
            begun = ""
        else:
            lines.append(line)
    if begun:
        summary.failed.append(f"{program}.{begun}")
    elif not passed and len(summary.failed) == failed_before:
        summary.failed.append(program)


def read(text: str) -> Summary:
    summary = Summary()
    for case in ElementTree.fromstring(text).iter("testcase"):
        name = case.get("name", "")
        status = case.get("status")
        skipped = case.find("skipped")
        reasons = reasons_in(case.findtext("system-out", ""))
        part = PART.match(name)
        summary.groups.add(part["program"] if part else group_of(name))
        if part:
            add_part(summary, part["program"], case.findtext("system-out", ""), status == "run")
        elif status == "disabled":
            summary.skipped += 1
            summary.skips[Skip(group_of(name), "disabled", True)] += 1
        elif skipped is not None and skipped.get("message", "").startswith("SKIP_"):
            summary.skipped += 1
            # A file's tests skip for one reason or for many; the file counts once for each.
            for reason in dict.fromkeys(reasons) or [NO_REASON]:
                summary.skips[Skip(group_of(name), reason, True)] += 1
        elif status == "run":
            summary.passed += 1
            for reason in reasons:
                summary.skips[Skip(group_of(name), reason, False)] += 1
        else:  # failed, timed out, or not started at all
            summary.failed.append(name)
    return summary


def lines_of(summary: Summary) -> list[str]:
    lines = []
    if summary.skips:
        lines.append("Skipped:")
    for skip, count in sorted(summary.skips.items(), key=lambda item: (item[0].group, -item[1])):
        part = "" if skip.whole else " (the others of this file ran)"
        lines.append(f"  {skip.group}: {count} skipped: {skip.reason}{part}")
    lines.append(f"{summary.passed} passed, {len(summary.failed)} failed, "
                 f"{summary.skipped} skipped")
    return lines


def forbidden(summary: Summary, prefixes: list[str], accepted: str | None) -> list[str]:
    """A line for each group that had to run and skipped for a reason that is not accepted."""
    absent = [f"no test's name starts with '{prefix}', and such tests must run here"
              for prefix in prefixes
              if not any(group.startswith(prefix) for group in summary.groups)]
    return absent + [
        f"{skip.group}: {count} skipped, and must run here: {skip.reason}"
        for skip, count in sorted(summary.skips.items(), key=lambda item: item[0].group)
        if any(skip.group.startswith(prefix) for prefix in prefixes)
        and not (accepted and re.search(accepted, skip.reason))]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--must-run", nargs="*", default=[], metavar="PREFIX")
    parser.add_argument("--accept", metavar="REASON")
    options = parser.parse_args(arguments)
    try:
        summary = read(options.results.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ElementTree.ParseError) as error:
        print(f"test_summary.py: no results in {options.results}: {error}", file=sys.stderr)
        return 2
    problems = forbidden(summary, options.must_run, options.accept)
    for problem in problems:
        print(f"test_summary.py: error: {problem}", file=sys.stderr)
    sys.stderr.flush()
    print("\n".join(lines_of(summary)))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
