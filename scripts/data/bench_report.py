#!/usr/bin/env python3
"""Makes a report of benchmark results: Markdown and its figures.

    scripts/data/bench_report.py FILE... [--markdown report.md] [--headline head.svg]

FILE is what side_by_side_bench, lab_bench or search_cost_bench.py writes with --json (bench/README.md
lists the formats). --markdown also writes the figures, to a folder named after the file. They are
light or dark as the reader's system is. --headline draws speed-ups by sparsity, of the FILE with the most
cases, for the README.

Exit status: 0; 1 if a file cannot be read or used, or the report not written; 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
from report.load import load  # noqa: E402
from report.make import headline, report  # noqa: E402
from report.markdown import write_markdown  # noqa: E402
from report.schema import ResultError  # noqa: E402


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", metavar="FILE", type=Path, nargs="+")
    parser.add_argument("--markdown", metavar="FILE", type=Path)
    parser.add_argument("--headline", metavar="FILE", type=Path, help="an SVG for the README")
    arguments = parser.parse_args(argv)
    if not (arguments.markdown or arguments.headline):
        parser.error("nothing to write; expected --markdown or --headline")
    return arguments


def main(argv: list[str]) -> int:
    arguments = parse(argv)
    try:
        results = [load(path) for path in arguments.files]
        picture = headline(results) if arguments.headline else ""
        if arguments.markdown:
            write_markdown(report(results), arguments.markdown)
        if arguments.headline:
            arguments.headline.write_text(picture, encoding="utf-8")
    except ResultError as error:
        print(f"bench_report: error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"bench_report: error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
