#!/usr/bin/env python3
"""Checks that what the repository's texts point to is there.

A link in a Markdown file has to lead to a file, and its `#anchor` to a heading of that file. A path
of a page or a script that any text names (docs/use/cli.md, scripts/test.sh) has to exist, and in
Markdown that of a source, too. A violation is one line `file:line: what is wrong`; any makes the
exit status 1.

    scripts/check/check_links.py [--root DIR]
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from check_dependencies import MODULES  # noqa: E402
from markdown import CODE, anchors, lines_outside_code, repository_files  # noqa: E402

LINK_TARGET = re.compile(r"\]\(\s*<?([^)\s>]+)")
ELSEWHERE = re.compile(r"[a-z][a-z+.-]*:")
NAMED = re.compile(r"(?<![\w./*$}>-])(?:docs|scripts|examples)/[\w./-]*\w\.(?:md|sh|py)\b")
FOLDERS = "|".join((*MODULES, "bench", "cmake", "include", "tests"))
SOURCE = re.compile(rf"(?<![\w./*$}}>-])(?:{FOLDERS})/"
                    r"[\w./-]*\w\.(?:[ch]pp|h|md|py|toml|txt|json|gz|cu)\b")
# "scalar": the family that docs/design/first-family.md lets the reader make.
PLACEHOLDER = re.compile(r"(^|[-/_])(CPU|NAME|MODULE|TARGET|scalar)(?=[-/._])")
# Data, and tests that make trees of their own.
NOT_READ = re.compile(r"(^|/)(bench/results|rankmodel/data/.*\.gz|tests/golden|tests/fuzz/seeds)/"
                      r"|_test\.py$|^tests/report/")


def wrong_link(root: Path, file: str, target: str) -> str:
    """Why a link of this file leads nowhere; empty if it does not."""
    path, _, anchor = target.partition("#")
    place = os.path.normpath(os.path.join(os.path.dirname(file), path)) if path else file
    if not (root / place).exists():
        return f"the link {target} leads to {place}, which is not there"
    if anchor and place.endswith(".md"):
        if anchor not in anchors((root / place).read_text(encoding="utf-8")):
            return f"the link {target}: {place} has no heading of that name"
    return ""


def check_markdown(root: Path, file: str, text: str) -> Iterator[tuple[int, str]]:
    for number, line in lines_outside_code(text):
        for target in LINK_TARGET.findall(CODE.sub("", line)):
            if not ELSEWHERE.match(target) and (reason := wrong_link(root, file, target)):
                yield number, reason


def check_names(root: Path, file: str, text: str) -> Iterator[tuple[int, str]]:
    patterns = (NAMED, SOURCE) if file.endswith(".md") else (NAMED,)
    for number, line in enumerate(text.splitlines(), 1):
        if file.endswith(".md"):
            line = LINK_TARGET.sub("](", line)
        for pattern in patterns:
            for name in pattern.findall(line):
                beside = root / os.path.dirname(file) / name
                if not (PLACEHOLDER.search(name) or (root / name).exists() or beside.exists()):
                    yield number, f"names {name}, which is not there"


def check(root: Path, files: list[str]) -> list[str]:
    found = []
    for file in files:
        if NOT_READ.search(file):
            continue
        try:
            text = (root / file).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        wrong = list(check_names(root, file, text))
        if file.endswith(".md"):
            wrong += check_markdown(root, file, text)
        found += [f"{file}:{number}: {reason}" for number, reason in sorted(wrong)]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2],
                        help="the repository (default: the one this script is in)")
    root = parser.parse_args().root
    files = repository_files(root)
    found = check(root, files)
    for violation in found:
        print(violation)
    print(f"check_links: {len(files)} files, {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
