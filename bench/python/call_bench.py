#!/usr/bin/env python3
"""What a call from Python takes: a kernel of a tiny matrix, whose own time call_bench tells.

    call_bench.py [--json OUT]

Needs an installed spjit; has tensors where torch is. The ways take turns in one process, a thousand
calls at a time. A row has the least and the median time of a call. "by Python" are calls whose
arrays Python code looks at, as it does with unusual ones. --json adds rows to a file; those of the
same way are replaced.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import spjit
from bench_support import add_rows

SCHEMA = "spjit-call-bench-1"
SIZE = 16
CALLS = 1000
ROUNDS = 41

Ways = dict[str, Callable[[], Any]]


def numpy_ways(a: Any) -> Ways:
    kernel, one = spjit.compile(a), spjit.compile(a, n=1)
    with_bias = spjit.compile(a, bias=True)
    x, y = np.ones((1, SIZE), np.float32), np.empty((1, SIZE), np.float32)
    bias, dense = np.ones(SIZE, np.float32), a.toarray()
    row = x[0]
    return {"out": lambda: kernel(x, out=y),
            "out, n = 1": lambda: one(x, out=y),
            "out, bias": lambda: with_bias(x, bias=bias, out=y),
            "new y": lambda: kernel(x),
            "new y, x [in]": lambda: kernel(row),
            "by Python, out": lambda: kernel._checked_call(x, None, None, None, None, y),
            "by Python, new y": lambda: kernel._checked_call(x, None, None, None, None, None),
            "numpy.matmul, out": lambda: np.matmul(x, dense, out=y)}


def torch_ways(a: Any) -> Ways:
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(1)
    kernel = spjit.compile(a)
    x, y = torch.ones((1, SIZE)), torch.empty((1, SIZE))
    weight, bias = torch.ones((SIZE, SIZE)), torch.ones(SIZE)
    return {"tensors, out": lambda: kernel(x, out=y),
            "tensors, new y of numpy": lambda: kernel(x),
            "tensors, by Python, out": lambda: kernel._checked_call(x, None, None, None, None, y),
            "torch linear": lambda: torch.nn.functional.linear(x, weight, bias)}


def measured(ways: Ways) -> list[dict[str, Any]]:
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, call in ways.items():
            begin = time.perf_counter_ns()
            for _ in range(CALLS):
                call()
            times[way].append((time.perf_counter_ns() - begin) / CALLS * 1e-3)
    return [{"way": way, "least_us": round(min(of_way), 3),
             "median_us": round(statistics.median(of_way), 3)} for way, of_way in times.items()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    a = scipy.sparse.random(SIZE, SIZE, 0.2, "csr", np.float32, np.random.default_rng(1))
    rows = measured(numpy_ways(a) | torch_ways(a))
    for row in rows:
        print(f"{row['way']:<24} {row['least_us']:7.2f} us (median {row['median_us']:.2f})")
    if given.json:
        add_rows(given.json, SCHEMA, ("way",), rows, ["numpy"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
