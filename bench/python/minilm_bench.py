"""MiniLM-L6, pruned by magnitude, beside ONNX Runtime and PyTorch: whole passes in one process,
interleaved.

    python bench/python/minilm_bench.py [--sparsity 80 90] [--threads 1 2] [--shapes 1x8 ...]
        [--seconds 3] [--no-compile] [--json FILE]

Ways: `ort` is ONNX Runtime's own session of the same pruned weights, dense; `eager` and `compiled`
are PyTorch, dense; `spjit` and `spjit-compiled` the same model after spjit.torch.optimize_. A round
gives each way a turn, in an order that moves on by one: a pass that is not timed, so that caches are
as the way itself leaves them, and two that are. Times are medians. --json adds to
what is in the file. Needs spjit, onnx, onnxruntime and what examples/minilm needs.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, Callable

import onnxruntime
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "minilm"))
import minilm  # noqa: E402

import spjit  # noqa: E402
import spjit.torch  # noqa: E402

# docs/torch.md: how many times as long as spjit's best way ONNX Runtime has to take, by sparsity
# and tokens.
GOALS = {90: {"1x8": 1.5, "1x32": 1.7, "1x128": 3.0, "8x128": 3.0},
         80: {"1x8": 1.0, "1x32": 1.0, "1x128": 2.2, "8x128": 1.0}}

TIMED_PASSES = 2  # of a turn, after one that is not timed

Way = Callable[[torch.Tensor], torch.Tensor]


def cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            flags = "AVX-512" if "avx512f" in Path("/proc/cpuinfo").read_text() else "AVX2"
            return f"{line.split(':', 1)[1].strip()} ({flags})"
    return platform.processor()


def ort_way(model: torch.nn.Module, threads: int, folder: Path) -> Way:
    file = folder / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (torch.zeros(1, 8, dtype=torch.int64),), str(file), dynamo=False,
                          input_names=["ids"], output_names=["y"],
                          dynamic_axes={"ids": {0: "sentences", 1: "tokens"}})
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
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
    """Median ms of a pass of each."""
    names = list(ways)
    for name in names:
        ways[name](ids)
    times: dict[str, list[float]] = {name: [] for name in names}
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < 4 or time.perf_counter() < end:
        for i in range(len(names)):
            name = names[(i + rounds) % len(names)]
            ways[name](ids)
            for _ in range(TIMED_PASSES):
                begin = time.perf_counter()
                ways[name](ids)
                times[name].append((time.perf_counter() - begin) * 1e3)
        rounds += 1
    return {name: statistics.median(each) for name, each in times.items()}


def worst_difference(ways: dict[str, Way], ids: torch.Tensor) -> float:
    """Of any way from eager, relative to its largest element."""
    reference = ways["eager"](ids)
    return max(float((way(ids) - reference).abs().max() / reference.abs().max())
               for way in ways.values())


def measure(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    cases = []
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        for sparsity in arguments.sparsity:
            with tempfile.TemporaryDirectory() as folder:
                for shape in arguments.shapes:
                    ids = torch.randint(1000, 20000, tuple(map(int, shape.split("x"))))
                    ways, converted = ways_of(sparsity, threads, not arguments.no_compile,
                                              Path(folder), ids)
                    times = passes(ways, ids, arguments.seconds)
                    cases.append(case_of(sparsity, shape, threads, times))
                    cases[-1]["worst_difference"] = worst_difference(ways, ids)
                    cases[-1]["converted"] = converted
                    print(line_of(cases[-1]), flush=True)
                    torch._dynamo.reset()
    return cases


def case_of(sparsity: int, shape: str, threads: int, times: dict[str, float]) -> dict[str, Any]:
    best = min(value for name, value in times.items() if name.startswith("spjit"))
    return {"sparsity": sparsity, "shape": shape, "threads": threads, "median_ms": times,
            "ort_over_spjit": times["ort"] / best,
            "goal": GOALS.get(sparsity, {}).get(shape)}


def line_of(case: dict[str, Any]) -> str:
    times = "  ".join(f"{name} {value:.2f}" for name, value in case["median_ms"].items())
    goal = "" if case["goal"] is None else f" (goal {case['goal']})"
    return (f"{case['sparsity']} % {case['shape']} threads={case['threads']}: {times} ms; ort "
            f"takes {case['ort_over_spjit']:.2f} times as long{goal}; difference "
            f"{case['worst_difference']:.1e}; {case['converted']}")


def write(file: Path, cases: list[dict[str, Any]]) -> None:
    """As bench/json_file.hpp: a line a record. Cases of an earlier run of the file stay."""
    if file.exists():
        cases = json.loads(file.read_text())["cases"] + cases
    versions = {"torch": torch.__version__, "onnxruntime": onnxruntime.__version__,
                "spjit": spjit.__version__}
    records = ",\n  ".join(json.dumps(case) for case in cases)
    file.write_text(f'{{\n "cases": [\n  {records}\n ],\n "cpu": {json.dumps(cpu_name())},\n'
                    f' "schema": "spjit-minilm-bench-1",\n "versions": {json.dumps(versions)}\n'
                    "}\n")


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
        cases = measure(arguments)
    if arguments.json is not None:
        write(arguments.json, cases)
    return 0


if __name__ == "__main__":
    sys.exit(main())
