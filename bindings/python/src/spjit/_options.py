"""Options of a caller, each of the type that the library takes. All raise InvalidArgument, which
names the option."""

from __future__ import annotations

import numbers
import operator
import os
from typing import Any

import numpy as np

from ._errors import InvalidArgument

_MOST_THREADS = 4096  # of a run, as the library has it


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.ndim:
        return f"an array {list(value.shape)}"
    return repr(value)


def _wrong(name: str, value: Any, expected: str) -> InvalidArgument:
    return InvalidArgument(f"{name} is {_shown(value)}; expected {expected}")


def whole(value: Any, name: str, expected: str = "a whole number") -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise _wrong(name, value, expected) from None


def number(value: Any, name: str, expected: str = "a number") -> float:
    if not isinstance(value, numbers.Real):
        raise _wrong(name, value, expected)
    return float(value)


def seconds(value: Any, name: str) -> float:
    given = number(value, name, "seconds")
    if not given >= 0:
        raise _wrong(name, value, "seconds, 0 or more")
    return given


def flag(value: Any, name: str, hint: str = "") -> int:
    """1 or 0, as spjit.h has it. `hint`: what to do instead."""
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, int) and value in (0, 1)):
        return int(value)
    raise _wrong(name, value, f"True or False{hint}")


def text(value: Any, name: str) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise _wrong(name, value, "a text or None")
    return value.encode("utf-8")


def _checked_threads(threads: Any) -> int:
    count = whole(threads, "threads", "a whole number, 0 for all CPUs")
    if not 0 <= count <= _MOST_THREADS:
        raise _wrong("threads", count, f"0 (all CPUs) to {_MOST_THREADS}")
    return count


def thread_count(threads: int) -> int:
    """As spjit.h has it, for 0 (all CPUs) to 4096."""
    return _checked_threads(threads) or -1


def cpu_count(threads: int) -> int:
    """Of `threads`, 0 for all CPUs that this process may use."""
    return _checked_threads(threads) or len(os.sched_getaffinity(0))
