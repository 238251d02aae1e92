#!/usr/bin/env python3
"""scripts/check/check_names.py BUILD: names that clash where sources are compiled together.

A unity build puts sources of one library or program into one translation unit, and each preset
puts others together. So a name in an anonymous namespace, or a static one, must be the only one of
its library. BUILD is a configured folder with compile_commands.json, as 'cmake --preset lint' makes.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

STRING = r'R"(?P<delimiter>[^()\\\s]*)\(.*?\)(?P=delimiter)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
COMMENT = r"//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n\\]|\\.)*"
NO_CODE = re.compile(f"{STRING}|{COMMENT}", re.DOTALL | re.MULTILINE)
TOKEN = re.compile(r"[A-Za-z_]\w*|\d(?:'?[\w.])*|::|->|&&|\S")
TYPES = {"struct", "class", "union", "enum"}
OPEN = {"(": ")", "{": "}", "[": "]"}
QUALIFIERS = {"constexpr", "inline", "static", "const", "extern", "consteval", "constinit",
              "thread_local", "explicit", "virtual", "friend", "volatile"}
TEST = {"TEST", "TEST_F", "TEST_P", "TYPED_TEST", "INSTANTIATE_TEST_SUITE_P"}


@dataclass(frozen=True)
class Name:
    scope: str  # of named namespaces
    text: str   # with the types of parameters, if it is a function
    meaning: str  # equal ones of an alias do not clash
    line: int


def without_comments(text: str) -> str:
    """Without strings, too. Lines stay."""
    return NO_CODE.sub(lambda match: " " + "\n" * match.group().count("\n"), text)


def tokens_of(text: str) -> list[tuple[str, int]]:
    tokens = []
    line, at = 1, 0
    for match in TOKEN.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        tokens.append((match.group(), line))
    return tokens


def closing(tokens: list[tuple[str, int]], at: int) -> int:
    """Index behind the bracket that closes the one at `at`."""
    stack = []
    for i in range(at, len(tokens)):
        text = tokens[i][0]
        if text in OPEN:
            stack.append(OPEN[text])
        elif stack and text == stack[-1]:
            stack.pop()
            if not stack:
                return i + 1
    return len(tokens)


def split(words: list[str]) -> Iterator[list[str]]:
    """At commas outside of brackets."""
    part: list[str] = []
    depth = 0
    for word in words:
        depth += (word in "([{<") - (word in ")]}>")
        if word == "," and depth == 0:
            yield part
            part = []
        else:
            part.append(word)
    if part:
        yield part


def parameter_type(words: list[str]) -> str:
    if "=" in words:
        words = words[:words.index("=")]
    is_name = len(words) > 1 and re.fullmatch(r"[A-Za-z_]\w*", words[-1]) and words[-2] != "::"
    kept = words[:-1] if is_name and [w for w in words[:-1] if w not in QUALIFIERS] else words
    if kept and kept[0] == "const" and not {"&", "*", "&&"} & set(kept):
        kept = kept[1:]
    return " ".join(kept)


def name_of(words: list[str], scope: str, line: int) -> Name | None:
    """Of a declaration's words, up to its body, value or semicolon."""
    while words[:1] == ["template"]:
        depth = 0
        for i, word in enumerate(words[1:], 1):
            depth += (word == "<") - (word == ">")
            if depth == 0:
                words = words[i + 1:]
                break
        else:
            return None
    while words[:2] == ["[", "["]:
        words = words[words.index("]") + 2:]
    if not words or words[0] in {"using", "static_assert", "friend", "typedef", "extern"}:
        if words[:1] == ["using"] and len(words) > 3 and words[2] == "=":
            return Name(scope, words[1], " ".join(words[3:]), line)
        return None
    if words[0] in TEST and "(" in words:
        arguments = list(split(words[words.index("(") + 1:-1]))
        return Name(scope, ".".join(" ".join(a) for a in arguments[:2]), "", line)
    rest = [word for word in words if word not in QUALIFIERS]
    if rest[:1] and rest[0] in TYPES:
        named = [w for w in rest[1:] if re.fullmatch(r"[A-Za-z_]\w*", w) and w not in TYPES]
        return Name(scope, named[0], "", line) if named else None
    value = next((i for i, w in enumerate(words) if w == "="), len(words))
    head = words[:value]
    if "(" in head:
        at = head.index("(")
        if at == 0 or not re.fullmatch(r"[A-Za-z_]\w*", head[at - 1]):
            return None
        if head[at - 2:at - 1] == ["::"] or "operator" in head[:at]:
            return None  # a member's definition
        if at == 1:
            return None  # a macro
        depth = 0
        for end in range(at, len(head)):
            depth += (head[end] == "(") - (head[end] == ")")
            if depth == 0:
                break
        parameters = [parameter_type(part) for part in split(head[at + 1:end])]
        return Name(scope, f"{head[at - 1]}({', '.join(parameters)})", "", line)
    while head and head[-1] == "]":
        head = head[:len(head) - 1 - head[::-1].index("[")]
    if len(head) < 2 or not re.fullmatch(r"[A-Za-z_]\w*", head[-1]) or head[-2] == "::":
        return None
    return Name(scope, head[-1], "", line)


def names_of(text: str) -> list[Name]:
    """What a source defines that no other source sees."""
    tokens = tokens_of(without_comments(text))
    names: list[Name] = []
    read_scope(tokens, 0, len(tokens), "", False, names)
    return names


def read_scope(tokens: list[tuple[str, int]], at: int, end: int, scope: str, is_hidden: bool,
               names: list[Name]) -> None:
    while at < end:
        words: list[str] = []
        line = tokens[at][1]
        body = None
        while at < end:
            text = tokens[at][0]
            if text == ";":
                at += 1
                break
            if text == "{":
                close = closing(tokens, at)
                body = (at + 1, close - 1)
                at = close
                break
            if text in {"(", "["}:
                close = closing(tokens, at)
                words += [t for t, _ in tokens[at:close]]
                at = close
                # A test's or function's body may follow; else the declaration goes on.
                continue
            words.append(text)
            at += 1
        if not words:
            continue
        if words[0] == "namespace" or words[:2] == ["inline", "namespace"]:
            if body is None:
                continue
            inner = "".join(words[words.index("namespace") + 1:])
            read_scope(tokens, *body, f"{scope}::{inner}" if inner else scope,
                       is_hidden or not inner, names)
            continue
        if words[0] == "extern" and body is not None and len(words) == 2:
            read_scope(tokens, *body, scope, is_hidden, names)
            continue
        is_definition = body is not None or "=" in words or "(" not in words
        if body is None and words[0] in TYPES:
            is_definition = False  # declared ahead
        if is_definition and (is_hidden or "static" in words):
            name = name_of(words, scope, line)
            if name is not None:
                names.append(name)
        if body is not None and at < end and tokens[at][0] == ";":
            at += 1


def sources_of(build: Path) -> dict[str, list[Path]]:
    """Of each library and program, without those that are always compiled alone."""
    sources: dict[str, list[Path]] = defaultdict(list)
    alone = set((build / "compiled_alone.txt").read_text().splitlines())
    for entry in json.loads((build / "compile_commands.json").read_text()):
        target = re.search(r"CMakeFiles/([^/]+)\.dir/", entry.get("output") or entry["command"])
        if target and entry["file"] not in alone:
            sources[target.group(1)].append(Path(entry["file"]))
    return sources


def clashes_of(sources: dict[str, list[Path]]) -> list[str]:
    found: dict[Path, list[Name]] = {}
    clashes = set()
    for files in sources.values():
        if len(files) < 2:
            continue
        seen: dict[tuple[str, str], tuple[Path, Name]] = {}
        for file in sorted(set(files)):
            if file not in found:  # some are made by the build
                found[file] = names_of(file.read_text(encoding="utf-8")) if file.is_file() else []
            for name in found[file]:
                key = (name.scope, name.text)
                other = seen.setdefault(key, (file, name))
                if other[0] != file and not (name.meaning and name.meaning == other[1].meaning):
                    clashes.add(f"{file}:{name.line}: '{name.text}' is also in "
                                f"{other[0]}:{other[1].line}; their library may compile them "
                                "together, so one of them needs another name")
    return sorted(clashes)


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__.strip())
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    build = Path(sys.argv[1])
    for needed in ("compile_commands.json", "compiled_alone.txt"):
        if not (build / needed).is_file():
            print(f"check_names: error: {build} has no {needed}; expected a folder that 'cmake "
                  "--preset lint' has made", file=sys.stderr)
            return 2
    sources = sources_of(build)
    clashes = clashes_of(sources)
    for clash in clashes:
        print(clash)
    print(f"check_names: {len(sources)} libraries and programs, {len(clashes)} clashes")
    return 1 if clashes else 0


if __name__ == "__main__":
    sys.exit(main())
