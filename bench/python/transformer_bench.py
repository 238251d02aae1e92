"""Encoder blocks of DLMC's Transformer in ONNX Runtime: dense, with kernels of spjit, and with these
after exact passes (docs/use/onnx.md).

    python bench/python/transformer_bench.py DLMC [--method variational_dropout] [--level 0.95]
        [--blocks 0 1 2 3 4 5] [--tokens 8 32 128] [--threads 1] [--seconds 3] [--json FILE]

DLMC: the folder of its files, dlmc/transformer. Entries are where they are there; values are drawn
at random, as DLMC has none, and so are biases. Ways have turns of two passes, of which the second
is timed. Times are medians of the faster halves, of one thread those of its CPU: what else the
machine does counts less.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from bench_support import add_rows, cpu_name
from graph_builder import GraphBuilder
from onnx import TensorProto, helper

import spjit.onnx
from spjit._timing import turns, usual_time
from spjit.onnx._passes import alone
from spjit.onnx._sessions import PROVIDERS, plain_options, sparse_options

SCHEMA = "spjit-transformer-bench-1"
CASE = ("method", "level", "blocks", "part", "tokens", "threads")
HIDDEN, HEADS = 512, 8
LEAST_ROUNDS = 8
NAMES = {"q": "self_attention_multihead_attention_q", "k": "self_attention_multihead_attention_k",
         "v": "self_attention_multihead_attention_v",
         "o": "self_attention_multihead_attention_output_transform", "up": "ffn_conv1",
         "down": "ffn_conv2"}


def read(path: Path, rng: np.random.Generator) -> np.ndarray:
    """[out, in], of the size that keeps the variance of its inputs."""
    sizes, offsets, columns = path.read_text(encoding="utf-8").splitlines()[:3]
    rows, count, _ = map(int, sizes.split(","))
    lengths = np.diff(np.array(offsets.split(), np.int64))
    weight = np.zeros((rows, count), np.float32)
    places = np.repeat(np.arange(rows), lengths), np.array(columns.split(), np.int64)
    weight[places] = rng.standard_normal(len(places[0])) / np.sqrt(max(lengths.mean(), 1))
    return weight


class _Builder(GraphBuilder):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._rng = np.random.default_rng(0)

    def linear(self, x: str, block: int, name: str) -> str:
        weight = read(self._folder / f"body_encoder_layer_{block}_{NAMES[name]}.smtx", self._rng)
        product = self.node("MatMul", x, self.constant(f"{block}.{name}", weight.T.copy()))
        bias = self._rng.standard_normal(len(weight)).astype(np.float32)
        return self.node("Add", product, self.constant(f"{block}.{name}.bias", bias))

    def normalized(self, x: str, name: str) -> str:
        one, zero = np.ones(HIDDEN, np.float32), np.zeros(HIDDEN, np.float32)
        return self.node("LayerNormalization", x, self.constant(f"{name}.scale", one),
                         self.constant(f"{name}.shift", zero), axis=-1)

    def heads(self, x: str, perm: list[int]) -> str:
        shape = self.constant("heads", np.array([0, 0, HEADS, HIDDEN // HEADS]))
        return self.node("Transpose", self.node("Reshape", x, shape), perm=perm)

    def attention(self, x: str, block: int) -> str:
        query, key, value = (self.linear(x, block, name) for name in "qkv")
        scores = self.node("MatMul", self.heads(query, [0, 2, 1, 3]), self.heads(key, [0, 2, 3, 1]))
        scores = self.node("Mul", scores, self.constant(
            "scale", np.float32((HIDDEN // HEADS)**-0.5)))
        mixed = self.node("MatMul", self.node("Softmax", scores, axis=-1),
                          self.heads(value, [0, 2, 1, 3]))
        joined = self.node("Reshape", self.node("Transpose", mixed, perm=[0, 2, 1, 3]),
                           self.constant("joined", np.array([0, 0, HIDDEN])))
        output = self.linear(joined, block, "o")
        return self.normalized(self.node("Add", output, x), f"{block}.attention")

    def feed_forward(self, x: str, block: int) -> str:
        inner = self.node("Relu", self.linear(x, block, "up"))
        output = self.linear(inner, block, "down")
        return self.normalized(self.node("Add", output, x), f"{block}.ffn")


def model_of(folder: Path, blocks: list[int], part: str) -> onnx.ModelProto:
    """Input x and output y [sentences, tokens, 512]."""
    builder, x = _Builder(folder), "x"
    for block in blocks:
        if part == "block":
            x = builder.attention(x, block)
        x = builder.feed_forward(x, block)
    builder.nodes[-1].output[0] = "y"
    shape = ["sentences", "tokens", HIDDEN]
    graph = helper.make_graph(
        builder.nodes, "transformer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        list(builder.initializers.values()))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def timed(calls: list[Callable[[], Any]], of: argparse.Namespace) -> list[list[float]]:
    """us of each call."""
    clock = time.thread_time_ns if of.threads == 1 else time.perf_counter_ns
    times: list[list[float]] = [[] for _ in calls]
    for i in turns(len(calls), of.seconds, LEAST_ROUNDS):
        calls[i]()
        begin = clock()
        calls[i]()
        times[i].append((clock() - begin) * 1e-3)
    return times


def measured(of: argparse.Namespace, part: str, tokens: int) -> dict[str, Any]:
    x = np.random.default_rng(1).standard_normal((1, tokens, HIDDEN)).astype(np.float32)
    folder = of.dlmc / of.method / of.level
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "model.onnx"
        onnx.save(model_of(folder, of.blocks, part), str(path))
        made = {name: spjit.onnx.optimize(path, x, threads=of.threads, exact_passes=passes)
                for name, passes in (("kernels", False), ("passes", True))}
        dense = onnxruntime.InferenceSession(str(path), alone(plain_options(of.threads)),
                                             providers=PROVIDERS)
        ways = {"ort": dense}
        for name, one in made.items():
            saved = Path(place) / f"{name}.onnx"
            one.save(saved)
            ways[name] = onnxruntime.InferenceSession(
                str(saved), alone(sparse_options(saved.with_suffix(".spjit"), of.threads)),
                providers=PROVIDERS)
        calls = [lambda way=way: way.run(None, {"x": x})[0] for way in ways.values()]
        reference = calls[0]()
        worst = [float(np.abs(call() - reference).max() / np.abs(reference).max())
                 for call in calls]
        times = timed(calls, of)
    ms = {name: round(usual_time(each) * 1e-3, 3) for name, each in zip(ways, times)}
    removed = made["passes"].report.removed
    return {"method": of.method, "level": of.level, "blocks": " ".join(map(str, of.blocks)),
            "part": part, "tokens": tokens, "threads": of.threads, "ms": ms,
            "kernels_over_passes": round(ms["kernels"] / ms["passes"], 3),
            "ort_over_passes": round(ms["ort"] / ms["passes"], 3),
            "worst_difference": max(worst), "rows_removed": sum(one.rows for one in removed),
            "columns_removed": sum(one.columns for one in removed),
            "sparse_layers": {name: f"{len(one.report.sparse)} of {len(one.report.rows)}"
                              for name, one in made.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("dlmc", type=Path)
    parser.add_argument("--method", default="variational_dropout")
    parser.add_argument("--level", default="0.95")
    parser.add_argument("--blocks", type=int, nargs="+", default=[0, 1, 2, 3, 4, 5])
    parser.add_argument("--parts", nargs="+", default=["block", "ffn"])
    parser.add_argument("--tokens", type=int, nargs="+", default=[8, 32, 128])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3, help="of each case")
    parser.add_argument("--json", type=Path)
    of = parser.parse_args()
    print(cpu_name())
    for part in of.parts:
        for tokens in of.tokens:
            row = measured(of, part, tokens)
            print(row, flush=True)
            if of.json:
                add_rows(of.json, SCHEMA, CASE, [row], ["onnxruntime"])


if __name__ == "__main__":
    main()
