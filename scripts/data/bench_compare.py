#!/usr/bin/env python3
"""Compares two result files of the same benchmark and names what got slower beyond noise.

    scripts/data/bench_compare.py OLD NEW [--threshold SHARE] [--any-device] [--json]

OLD and NEW are files of side_by_side_bench, or of lab_bench host. Timings are paired by set, matrix, n,
threads and library. A ratio is the new median over the old one.

A change counts if it is beyond 1 + max(threshold, 3 sqrt(noise_old^2 + noise_new^2)), up or down.
Peers of the same version in both files are the control: where the geometric mean of their ratios
on a case is itself beyond that, the machine was faster or slower in that moment, so spjit's ratio
is divided by it first (and its noise added to the root). What is beyond only before that division
is listed as the machine's. spjit and the CSR kernel that is part of it are judged, peers never.

Exit status: 0 nothing got slower; 1 something did, or failed or is wrong that was right before;
2 a file cannot be used, no case is in both, the devices differ (without --any-device), wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
from report.compare import DEFAULT_THRESHOLD, check_same_device, compare  # noqa: E402
from report.compare_text import to_json, to_text  # noqa: E402
from report.load import load_side_by_side  # noqa: E402
from report.schema import ResultError  # noqa: E402


def share(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1:
        raise ValueError
    return value


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", metavar="OLD", type=Path)
    parser.add_argument("new", metavar="NEW", type=Path)
    parser.add_argument("--threshold", metavar="SHARE", type=share, default=DEFAULT_THRESHOLD,
                        help="least change that counts, in [0, 1) (default: %(default)s)")
    parser.add_argument("--any-device", action="store_true", help="even of two machines")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    arguments = parse(argv)
    try:
        old, new = load_side_by_side(arguments.old), load_side_by_side(arguments.new)
        if not arguments.any_device:
            check_same_device(old, new)
        comparison = compare(old, new, arguments.threshold)
    except ResultError as error:
        print(f"bench_compare: error: {error}", file=sys.stderr)
        return 2
    print((to_json if arguments.json else to_text)(comparison, arguments.threshold))
    return 1 if comparison.regressed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
