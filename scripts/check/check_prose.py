#!/usr/bin/env python3
"""Checks that the documentation reads well.

    scripts/check/check_prose.py [--root DIR] [--shrink]

- long sentence: a sentence has at most 25 words. Code counts as one word.
- long line: a line has at most 100 columns, but for tables and images.
- many numbers: a paragraph outside of docs/results names at most 6 numbers outside of code.
- vague comment: no comment of a header begins with "The same", "Of" or "What": it names the noun.

scripts/check/prose_allowance.json says how many of each kind a file may still have. It may only
shrink: a count above it is a violation, and so is one below it, which --shrink lowers, and a sum
above that of the commit in .ci/base. A violation is one line `file:line: what is wrong`; any makes
the exit status 1.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from markdown import GENERATED, paragraphs, repository_files, sentences, spoken, words_of  # noqa: E402

ALLOWANCE = "scripts/check/prose_allowance.json"
MOST_WORDS, MOST_COLUMNS, MOST_NUMBERS = 25, 100, 6
FIGURES = ("docs/results/", "bench/")
NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d.,]*(?!\w)")
VAGUE = re.compile(r"(?:The same|Of|What)\b")
NO_LIBRARY = ("bench/", "tests/")
COMMENT = re.compile(r"\s*(?:///|//|/\*\*?|\*(?!/))<?\s?(.*?)(?:\*/)?$")

LONG_SENTENCE, LONG_LINE = "long sentence", "long line"
MANY_NUMBERS, VAGUE_COMMENT = "many numbers", "vague comment"


@dataclass(frozen=True, order=True)
class Violation:
    file: str
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.kind}: {self.text}"


def start_of(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def check_markdown(file: str, text: str) -> Iterator[Violation]:
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > MOST_COLUMNS and not line.lstrip().startswith(("|", "![", "[![")):
            yield Violation(file, number, LONG_LINE, f"{len(line)} columns, at most {MOST_COLUMNS}")
    for paragraph in paragraphs(text):
        for sentence in sentences(paragraph.text):
            if (words := len(words_of(sentence))) > MOST_WORDS:
                yield Violation(file, paragraph.line, LONG_SENTENCE,
                                f"{words} words, at most {MOST_WORDS}: {start_of(sentence)}")
        numbers = len(NUMBER.findall(spoken(paragraph.text)))
        if numbers > MOST_NUMBERS and not file.startswith(FIGURES):
            yield Violation(file, paragraph.line, MANY_NUMBERS,
                            f"{numbers} in a paragraph, at most {MOST_NUMBERS}: they belong to "
                            "docs/results or into a table")


def check_header(file: str, text: str) -> Iterator[Violation]:
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        trailing = re.search(r"///?<\s*(.*)", line)
        match = None if trailing else COMMENT.match(line)
        begins = trailing[1] if trailing else match[1] if match and not inside else ""
        if VAGUE.match(begins):
            yield Violation(file, number, VAGUE_COMMENT, start_of(begins))
        inside = match is not None and (match[1] != "" or inside)


def check(root: Path, files: list[str]) -> list[Violation]:
    found: list[Violation] = []
    for file in files:
        if file.startswith(GENERATED):
            continue
        text = (root / file).read_text(encoding="utf-8")
        found += (check_markdown if file.endswith(".md") else check_header)(file, text)
    return sorted(found)


def counts_of(found: list[Violation]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for (file, kind), count in sorted(Counter((v.file, v.kind) for v in found).items()):
        counts.setdefault(file, {})[kind] = count
    return counts


def compare(found: list[Violation], allowed: dict[str, dict[str, int]]) -> list[str]:
    """Lines about each file and kind whose count is not the allowed one."""
    counts = counts_of(found)
    lines = []
    for file in sorted(counts.keys() | allowed.keys()):
        for kind in sorted(counts.get(file, {}).keys() | allowed.get(file, {}).keys()):
            count, most = counts.get(file, {}).get(kind, 0), allowed.get(file, {}).get(kind, 0)
            if count > most:
                lines += [str(v) for v in found if (v.file, v.kind) == (file, kind)]
                if most:
                    lines.append(f"{file}: {count} of '{kind}', {most} are allowed; mend at least "
                                 f"{count - most}")
            elif count < most:
                lines.append(f"{ALLOWANCE}: {file} has {count} of '{kind}' and is allowed {most}; "
                             "run scripts/check/check_prose.py --shrink")
    return lines


def shrunk(found: list[Violation], allowed: dict[str, dict[str, int]]) -> dict:
    counts = counts_of(found)
    lower = {file: {kind: min(most, counts.get(file, {}).get(kind, 0))
                    for kind, most in kinds.items()} for file, kinds in allowed.items()}
    return {file: kept for file, kinds in sorted(lower.items())
            if (kept := {kind: count for kind, count in sorted(kinds.items()) if count})}


def sum_of(allowed: dict[str, dict[str, int]]) -> int:
    return sum(count for kinds in allowed.values() for count in kinds.values())


def growth(root: Path, allowed: dict[str, dict[str, int]]) -> list[str]:
    """A line if more is allowed than in the commit that .ci/base names, where that is known."""
    base = root / ".ci/base"
    if not base.is_file():
        return []
    commit = base.read_text(encoding="utf-8").strip()
    shown = subprocess.run(["git", "-C", str(root), "show", f"{commit}:{ALLOWANCE}"],
                           capture_output=True, text=True)
    if shown.returncode != 0 or sum_of(allowed) <= (before := sum_of(json.loads(shown.stdout))):
        return []
    return [f"{ALLOWANCE}: allows {sum_of(allowed)}, {commit[:8]} allowed {before}; it may only "
            "shrink"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2],
                        help="the repository (default: the one this script is in)")
    parser.add_argument("--shrink", action="store_true",
                        help="lower the allowance to what is left; never raises it")
    arguments = parser.parse_args()
    root = arguments.root
    files = [file for file in repository_files(root, "*.md", "*.h", "*.hpp")
             if file.endswith(".md") or not file.startswith(NO_LIBRARY)]
    allowance = root / ALLOWANCE
    allowed = json.loads(allowance.read_text(encoding="utf-8"))
    found = check(root, files)
    if arguments.shrink:
        allowed = shrunk(found, allowed)
        allowance.write_text(json.dumps(allowed, indent=2) + "\n", encoding="utf-8")
    lines = compare(found, allowed) + growth(root, allowed)
    for line in lines:
        print(line)
    print(f"check_prose: {len(files)} files, {len(lines)} violations, {sum_of(allowed)} allowed")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
