"""Finds again what a list of mutations quotes, after files were moved or things were renamed.

scripts/check/mutate.py --reanchor uses it. A file that is gone is found by its name, or by the quote that
it alone has. A quote that is gone is the run of words in its file that is most like it; what was
renamed in the quote is renamed in the replacement, too. What is not plain is left as it is.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

WORD = re.compile(r"\w+|[^\w\s]")
LEAST_ALIKE = 0.6  # of a quote's words, those that have to be in the same place
LEAST_LEAD = 0.1  # of the likest place over the next
SUFFIXES = {".cpp", ".hpp", ".h", ".inc", ".py"}


def sources_of(root: Path, folders: set[str]) -> dict[str, str]:
    """Path and text of each source below the folders."""
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
            for folder in sorted(folders) if (root / folder).is_dir()
            for path in sorted((root / folder).rglob("*")) if path.suffix in SUFFIXES}


def moved_file(sources: dict[str, str], file: str, text: str) -> str | None:
    """Where `file`, which has `text`, is now; None if several or no source may be it."""
    same_name = [path for path in sources if Path(path).name == Path(file).name]
    with_text = [path for path in same_name or sources if sources[path].count(text) == 1]
    for found in (same_name, with_text):
        if len(found) == 1:
            return found[0]
    return None


def alike(quote: list[str], words: list[str], start: int) -> float:
    same = sum(a == b for a, b in zip(quote, words[start:start + len(quote)]))
    return same / len(quote)


def renamed_quote(source: str, text: str) -> str | None:
    """The place of a source that is most like a quote of as many words; None if none is."""
    quote = WORD.findall(text)
    found = list(WORD.finditer(source))
    words = [match[0] for match in found]
    starts = range(len(words) - len(quote) + 1)
    if not quote or not starts:
        return None
    scores = sorted(((alike(quote, words, start), start) for start in starts), reverse=True)
    if scores[0][0] < LEAST_ALIKE or (
            len(scores) > 1 and scores[0][0] - scores[1][0] < LEAST_LEAD):
        return None
    first, last = found[scores[0][1]], found[scores[0][1] + len(quote) - 1]
    return source[first.start():last.end()]


def renamed_like(text: str, old: str, new: str) -> str:
    """`text` with the words that differ between `old` and `new`, which have as many, renamed."""
    names = {a: b for a, b in zip(WORD.findall(old), WORD.findall(new))
             if a != b and re.fullmatch(r"\w+", a)}
    return WORD.sub(lambda match: names.get(match[0], match[0]), text)


def literal(value: str) -> str:
    """A value of TOML without escapes."""
    return f"'''\n{value}'''" if "\n" in value or "'" in value else f"'{value}'"


def with_value(listed: str, name: str, key: str, old: str, new: str) -> str:
    """The text of a list in which the entry `name` has `new` for its `key`."""
    start = listed.index(f"name = '{name}'")
    end = listed.find("[[mutation]]", start)
    entry = listed[start:end if end >= 0 else len(listed)]
    for written in (f"'{old}'", f"'''\n{old}'''", f"'''{old}'''", f'"{old}"'):
        if f"{key} = {written}" in entry:
            changed = entry.replace(f"{key} = {written}", f"{key} = {literal(new)}", 1)
            return listed[:start] + changed + listed[start + len(entry):]
    return listed


def reanchor(root: Path, path: Path, mutations: list[Any]) -> None:
    """Writes where files and quotes of `mutations`, those of the list `path`, are now into it."""
    modules = {folder.name for folder in root.iterdir() if (folder / "CMakeLists.txt").is_file()}
    sources = sources_of(root, modules | {mutation.file.split("/")[0] for mutation in mutations})
    for mutation in mutations:
        changes = {}
        for key in ("file", "compile"):
            old = getattr(mutation, key)
            if old and old not in sources and (new := moved_file(sources, old, mutation.text)):
                changes[key] = new
        source = sources.get(changes.get("file", mutation.file), "")
        for key in ("after", "text"):
            old = getattr(mutation, key)
            if old and old not in source and (new := renamed_quote(source, old)):
                changes[key] = new
                if key == "text":
                    changes["to"] = renamed_like(mutation.to, old, new)
        listed = path.read_text(encoding="utf-8")
        for key, new in changes.items():
            listed = with_value(listed, mutation.name, key, getattr(mutation, key), new)
        if changes:
            path.write_text(listed, encoding="utf-8")
            print(f"{mutation.name}: {', '.join(f'{key} = {new}' for key, new in changes.items())}")
