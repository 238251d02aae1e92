"""Finds the reader of a result file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .costs import read_search_cost
from .lab import read_lab
from .model import Result, SideBySide
from .schema import Node, ResultError, read_json
from .side_by_side import read_side_by_side

READERS: dict[str, Callable[[Node], Result]] = {
    "spjit-side-by-side-1": read_side_by_side,
    "spjit-lab-1": read_lab,
    "spjit-search-cost-1": read_search_cost,
}


def load(path: Path) -> Result:
    """Throws ResultError, whose one line names the file and the member."""
    node = read_json(path)
    if "schema" not in node:
        raise ResultError(f"{path}: schema: is missing; expected one of {', '.join(READERS)}")
    return READERS[node["schema"].text(tuple(READERS))](node)


def load_side_by_side(path: Path) -> SideBySide:
    result = load(path)
    if not isinstance(result, SideBySide):
        raise ResultError(f"{path}: schema: has no timings of cases; expected "
                          "spjit-side-by-side-1, or spjit-lab-1 of kind host")
    return result
