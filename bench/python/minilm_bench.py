"""MiniLM-L6, pruned by magnitude, beside ONNX Runtime and PyTorch: whole passes in one process, in
turn.

    python bench/python/minilm_bench.py [--sparsity 80 90] [--threads 1 2] [--shapes 1x8 ...]
        [--seconds 3] [--no-compile] [--json FILE]

Ways: `ort` is ONNX Runtime's own session of the same pruned weights, dense; `eager` and `compiled`
are PyTorch, dense; `spjit` and `spjit-compiled` the same model after spjit.torch.optimize_. A turn
is a pass that is not timed, so that caches are as the way itself leaves them, and one that is. Times
are medians of the faster halves. --json adds to what is in the file; rows of the same case are
replaced. Needs spjit, onnx, onnxruntime and what examples/minilm needs.
"""

from __future__ import annotations

import argparse
import functools
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, Callable

import onnxruntime
import torch
from bench_support import add_rows

import minilm
import spjit.torch
from spjit._timing import in_turn, usual_time
from spjit.onnx._passes import alone
from spjit.onnx._sessions import PROVIDERS, plain_options

# How many times as long as spjit ONNX Runtime has to take, by sparsity and tokens
# (docs/results/models.md).
GOALS = {90: {"1x8": 1.5, "1x32": 1.7, "1x128": 3.0, "8x128": 3.0},
         80: {"1x8": 1.0, "1x32": 1.0, "1x128": 2.2, "8x128": 1.0}}

SCHEMA = "spjit-minilm-bench-2"
CASE = ("sparsity", "shape", "threads")
LEAST_ROUNDS = 8

Way = Callable[[torch.Tensor], torch.Tensor]


def ort_way(model: torch.nn.Module, threads: int, folder: Path) -> Way:
    file = folder / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (torch.zeros(1, 8, dtype=torch.int64),), str(file), dynamo=False,
                          input_names=["ids"], output_names=["y"],
                          dynamic_axes={"ids": {0: "sentences", 1: "tokens"}})
    session = onnxruntime.InferenceSession(str(file), alone(plain_options(threads)),
                                           providers=PROVIDERS)
    return lambda ids: torch.from_numpy(session.run(None, {"ids": ids.numpy()})[0])


def ways_of(sparsity: int, threads: int, with_compile: bool, folder: Path,
            example: torch.Tensor) -> tuple[dict[str, Way], str]:
    with torch.inference_mode(False):
        dense, sparse = minilm.load(sparsity), minilm.load(sparsity)
    begin = time.perf_counter()
    report = spjit.torch.optimize_(sparse, (example,))
    seconds = time.perf_counter() - begin
    ways: dict[str, Way] = {"ort": ort_way(dense, threads, folder), "eager": dense, "spjit": sparse}
    if with_compile:
        ways["compiled"] = torch.compile(dense, dynamic=True, fullgraph=True)
        ways["spjit-compiled"] = torch.compile(sparse, dynamic=True, fullgraph=True)
    return ways, f"{len(report.sparse)} of {len(report.rows)} layers sparse in {seconds:.2f} s"


def passes(ways: dict[str, Way], ids: torch.Tensor, seconds: float) -> dict[str, float]:
    """ms of a pass of each."""
    calls = [functools.partial(way, ids) for way in ways.values()]
    for call in calls:  # torch.compile works in the first
        call()
    times = in_turn(calls, seconds, LEAST_ROUNDS)
    return {name: round(usual_time(each) * 1e-3, 3) for name, each in zip(ways, times)}


def worst_difference(ways: dict[str, Way], ids: torch.Tensor) -> float:
    """Of any way from eager, relative to its largest element."""
    reference = ways["eager"](ids)
    return max(float((way(ids) - reference).abs().max() / reference.abs().max())
               for way in ways.values())


def measure(arguments: argparse.Namespace) -> None:
    rows = []
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        for sparsity in arguments.sparsity:
            with tempfile.TemporaryDirectory() as folder:
                for shape in arguments.shapes:
                    ids = torch.randint(1000, 20000, tuple(map(int, shape.split("x"))))
                    ways, converted = ways_of(sparsity, threads, not arguments.no_compile,
                                              Path(folder), ids)
                    times = passes(ways, ids, arguments.seconds)
                    rows.append(row_of(sparsity, shape, threads, times))
                    rows[-1]["worst_difference"] = worst_difference(ways, ids)
                    rows[-1]["converted"] = converted
                    print(line_of(rows[-1]), flush=True)
                    if arguments.json is not None:
                        add_rows(arguments.json, SCHEMA, CASE, rows[-1:], ["torch", "onnxruntime"])
                    torch._dynamo.reset()


def row_of(sparsity: int, shape: str, threads: int, times: dict[str, float]) -> dict[str, Any]:
    return {"sparsity": sparsity, "shape": shape, "threads": threads, "ms": times,
            "ort_over_spjit": round(times["ort"] / times["spjit"], 3),
            "goal": GOALS.get(sparsity, {}).get(shape)}


def line_of(row: dict[str, Any]) -> str:
    times = "  ".join(f"{name} {value:.2f}" for name, value in row["ms"].items())
    goal = "" if row["goal"] is None else f" (goal {row['goal']})"
    return (f"{row['sparsity']} % {row['shape']} threads={row['threads']}: {times} ms; ort "
            f"takes {row['ort_over_spjit']:.2f} times as long{goal}; difference "
            f"{row['worst_difference']:.1e}; {row['converted']}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sparsity", type=int, nargs="+", default=[80, 90])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--shapes", nargs="+", default=["1x8", "1x32", "1x128", "8x128"])
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with torch.inference_mode():
        measure(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
