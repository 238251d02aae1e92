"""Reads Markdown for check_links.py and check_prose.py: lines outside of code, paragraphs, sentences."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Made by programs, which have tests of their own.
GENERATED = ("docs/results/bench-report/",)

FENCE = re.compile(r"\s*(```|~~~)")
ITEM = re.compile(r"\s*(?:[-*+]|\d+\.)\s+")
HEADING = re.compile(r"#{1,6}\s+(.*?)\s*#*$")
CODE = re.compile(r"(`+)(.+?)\1")
IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|vs|et al|approx)\.")
# A sentence ends before what can begin one; "spjit" does.
SENTENCE_END = re.compile(r"""(?<=[.?!])["')*]*\s+(?=["'(\[*]*(?:[A-Z0-9`]|spjit\b))""")


@dataclass(frozen=True)
class Paragraph:
    line: int  # of the file, from 1
    text: str  # one line


def repository_files(root: Path, *patterns: str) -> list[str]:
    """Files that are committed or about to be, from the root."""
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z", "--cached", "--others",
                             "--exclude-standard", "--", *patterns],
                            check=True, capture_output=True, text=True).stdout
    return sorted(name for name in listed.split("\0") if name and (root / name).is_file())


def lines_outside_code(text: str) -> Iterator[tuple[int, str]]:
    """Numbered lines but those between fences and those of indented code."""
    fence = ""
    item = False  # lines that are indented below an item go on with it
    blank = True
    for number, line in enumerate(text.splitlines(), 1):
        if match := FENCE.match(line):
            fence = "" if fence == match[1] else fence or match[1]
            continue
        if fence:
            continue
        if line.startswith("    ") and blank and not item:
            continue
        if line.strip():
            item = bool(ITEM.match(line)) or (item and line.startswith(" "))
        blank = not line.strip() or (blank and line.startswith("    "))
        yield number, line


def paragraphs(text: str) -> list[Paragraph]:
    """Paragraphs and items; neither headings, tables, nor code."""
    found: list[Paragraph] = []
    start, words = 0, []

    def end() -> None:
        if words:
            found.append(Paragraph(start, " ".join(words)))
            words.clear()

    last = 0
    for number, line in lines_outside_code(text):
        stripped = line.strip()
        if not stripped or number != last + 1 or stripped.startswith(("|", "<")) or (
                HEADING.match(line)) or ITEM.match(line):
            end()
        last = number
        if not stripped or stripped.startswith(("|", "<")) or HEADING.match(line):
            continue
        if not words:
            start = number
        item = ITEM.match(line)
        words.append((line[item.end():] if item else line).strip())
    end()
    return found


def spoken(text: str) -> str:
    """What a reader says: code is one word, a link is its text."""
    text = CODE.sub("Code", IMAGE.sub("", text))
    return ABBREVIATION.sub(lambda match: match[1].replace(".", ""), LINK.sub(r"\1", text))


def sentences(text: str) -> list[str]:
    return [sentence for sentence in SENTENCE_END.split(spoken(text)) if sentence.strip()]


def words_of(sentence: str) -> list[str]:
    return [word for word in sentence.split() if re.search(r"\w", word)]


def anchors(text: str) -> set[str]:
    """What `#...` may name: headings, as GitHub makes anchors of them."""
    found: set[str] = set()
    for _, line in lines_outside_code(text):
        if match := HEADING.match(line):
            title = LINK.sub(r"\1", match[1]).lower()
            anchor = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
            number = 0
            while (name := f"{anchor}-{number}" if number else anchor) in found:
                number += 1
            found.add(name)
    return found
