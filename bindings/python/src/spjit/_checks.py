"""Values of a caller, each of the type that the library takes. All raise InvalidArgument, which
names the parameter."""

from __future__ import annotations

import math
import numbers
import operator
import os
from typing import Any

import numpy as np

from ._errors import InvalidArgument
from ._library import PathLike, path_bytes

_MOST_THREADS = 4096  # of a run, as the library has it
_LIMIT = 2**63  # of whole numbers there


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.ndim:
        return f"an array {list(value.shape)}"
    return repr(value)


def _wrong(name: str, value: Any, expected: str) -> InvalidArgument:
    return InvalidArgument(f"{name} is {_shown(value)}; expected {expected}")


def whole(value: Any, name: str, expected: str = "a whole number") -> int:
    try:
        given = operator.index(value)
    except TypeError:
        raise _wrong(name, value, expected) from None
    if isinstance(value, bool):  # which Python counts among them: n=True is a slip, not 1
        raise _wrong(name, value, expected)
    if not -_LIMIT <= given < _LIMIT:  # of which ctypes would take the last 64 bits
        raise _wrong(name, value, f"{expected} below 2^63")
    return given


def number(value: Any, name: str, expected: str = "a number") -> float:
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise _wrong(name, value, expected)
    return float(value)


def scalar(value: Any, name: str) -> float:
    """A number, or that of an array of one."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):  # of torch's tensors with gradients
        raise _wrong(name, value, "a number") from None
    if array.size != 1:
        raise InvalidArgument(f"{name} has {array.size} elements; expected a number")
    if array.dtype.kind not in "fiuV":  # V: floats of ml_dtypes
        raise _wrong(name, value, "a number")
    try:
        return float(array.item())
    except (TypeError, ValueError):
        raise _wrong(name, value, "a number") from None


def seconds(value: Any, name: str) -> float:
    given = number(value, name, "seconds")
    if not given >= 0:
        raise _wrong(name, value, "seconds, 0 or more")
    if given == math.inf:  # of passes that are timed
        raise _wrong(name, value, "a finite number of seconds")
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
    if "\0" in value:  # where it would end in C
        raise _wrong(name, value, "a text without NUL")
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError:  # half of a pair of UTF-16
        raise _wrong(name, value, "a text that UTF-8 has") from None


def key_bytes(key: PathLike | None, name: str) -> bytes | None:
    """PEM text or a path. An empty one, as of a variable that is not set, is no key; the library
    would take it for none, and check or sign nothing."""
    if key is None:
        return None
    encoded = path_bytes(key) if isinstance(key, (str, bytes, os.PathLike)) else b""
    if not encoded:
        raise _wrong(name, key, "PEM text of a key, the path of a file that has it, or None")
    return encoded


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
