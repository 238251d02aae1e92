"""torch's threads, which kernels run in: one pool for both."""

from __future__ import annotations

import ctypes
import functools
from ctypes import c_void_p
from pathlib import Path

import torch

from .._library import library


@functools.lru_cache(maxsize=None)
def parallel_for() -> tuple[int, int] | None:
    """spjit_parallel_for and its first argument, as addresses; None if torch has no OpenMP."""
    libtorch = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        team = ctypes.CDLL(str(libtorch)).GOMP_parallel
    except (OSError, AttributeError):
        return None
    loop = library.spjit_python_openmp_for
    return (ctypes.cast(loop, c_void_p).value or 0, ctypes.cast(team, c_void_p).value or 0)
