"""Members of a JSON document, each with the way to it, so that an error names file and member."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class ResultError(Exception):
    """A result file that cannot be used; the message is one line."""


class Node:
    """A value of a document and where it is."""

    def __init__(self, file: str, path: str, value: Any) -> None:
        self.file, self.path, self.value = file, path, value

    def error(self, message: str) -> ResultError:
        return ResultError(f"{self.file}: {self.path or 'document'}: {message}")

    def expected(self, what: str) -> ResultError:
        given = json.dumps(self.value)
        return self.error(f"{given if len(given) <= 60 else given[:57] + '...'}; expected {what}")

    def __contains__(self, name: str) -> bool:
        return isinstance(self.value, dict) and name in self.value

    def __getitem__(self, name: str) -> Node:
        path = f"{self.path}.{name}" if self.path else name
        if name not in self.members():
            raise ResultError(f"{self.file}: {path}: is missing")
        return Node(self.file, path, self.value[name])

    def members(self) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            raise self.expected("an object")
        return self.value

    def get(self, name: str) -> Node:
        """The member, or null if there is none."""
        if name in self:
            return self[name]
        return Node(self.file, f"{self.path}.{name}" if self.path else name, None)

    def items(self, name: str) -> Iterator[Node]:
        array = self[name]
        if not isinstance(array.value, list):
            raise array.expected("an array")
        for index, value in enumerate(array.value):
            yield Node(self.file, f"{array.path}[{index}]", value)

    def is_null(self) -> bool:
        return self.value is None

    def number(self, low: float = 0, above: bool = False) -> float:
        """At least `low`, or above it."""
        value = self.value
        real = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not real or not math.isfinite(value) or value < low or (above and value == low):
            raise self.expected(f"a number {'above' if above else 'from'} {low}"
                                f"{'' if above else ' on'}")
        return float(value)

    def number_or_none(self, low: float = 0) -> float | None:
        return None if self.is_null() else self.number(low)

    def integer(self, low: int = 0) -> int:
        if not isinstance(self.value, int) or isinstance(self.value, bool) or self.value < low:
            raise self.expected(f"a whole number from {low} on")
        return self.value

    def integer_or_none(self, low: int = 0) -> int | None:
        return None if self.is_null() else self.integer(low)

    def text(self, choices: tuple[str, ...] = ()) -> str:
        if not isinstance(self.value, str):
            raise self.expected("a string")
        if choices and self.value not in choices:
            raise self.expected(f"one of {', '.join(choices)}")
        return self.value

    def text_or(self, default: str) -> str:
        return default if self.is_null() else self.text()

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.expected("true or false")
        return self.value


def damaged_record(text: str) -> tuple[int, str] | None:
    """The line of the first record that is no JSON by itself, and why. One whose end is lost would
    else be noticed only where the file ends, because it takes the records below for its own."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith('  {"'):
            try:
                json.loads(line.removesuffix(","))
            except json.JSONDecodeError as error:
                return number, error.msg
    return None


def read_json(path: Path) -> Node:
    try:
        text = path.read_text(encoding="utf-8")
        value = json.loads(text)
    except OSError as error:
        raise ResultError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ResultError(f"{path}: byte {error.start} is not UTF-8; expected JSON") from error
    except json.JSONDecodeError as error:
        line, reason = damaged_record(text) or (error.lineno, error.msg)
        raise ResultError(f"{path}: line {line}: {reason}; expected JSON") from error
    node = Node(str(path), "", value)
    if not isinstance(value, dict):
        raise node.expected("an object")
    return node
