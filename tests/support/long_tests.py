"""What a test takes by default and what only with SPJIT_LONG=1 (docs/design/testing.md, "Daily and
long"). tests/support/long_tests.hpp says the same for C++."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

Case = TypeVar("Case")


def long_tests() -> bool:
    """Whether every test takes all of its cases."""
    return os.environ.get("SPJIT_LONG") == "1"


def turn_of(parts: int, test: str) -> int:
    """Which of so many parts has its turn: the run's number, SPJIT_TURN (scripts/test.sh counts
    commits), plus a hash of the test's name (FNV-1a)."""
    text = os.environ.get("SPJIT_TURN", "0")
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"SPJIT_TURN is '{text}'; expected a whole number from 0 on")
    hashed = 2166136261
    for byte in test.encode():
        hashed = (hashed ^ byte) * 16777619 % 2**32
    return (int(text) % 2**64 + hashed) % parts


def in_turn(test: str, cases: Sequence[Case], parts: int = 0) -> list[Case]:
    """Every `parts`-th case from the one on whose turn it is, or one case; all of them with
    SPJIT_LONG=1. `test` is the test's name, unittest's id()."""
    if long_tests():
        return list(cases)
    parts = parts or len(cases)
    return list(cases[turn_of(parts, test)::parts])
