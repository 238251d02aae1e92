#!/usr/bin/env python3
"""One token after the other through a decoder's layers: examples/decode/decode.py [OPTIONS]

Layers have the shapes of TinyLlama-1.1B and random weights, which are pruned by magnitude and
quantised to 4 and 8 bits in blocks. Prints milliseconds a token of spjit's kernels and of ONNX
Runtime's MatMulNBits, memory, and the error of a layer against float64. Attention, norms and the
vocabulary are left out.

    pip install spjit onnx onnxruntime
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import tempfile
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import spjit

HIDDEN, HEADS, INNER = 2048, 256, 5632  # HEADS: keys and values of 4 heads
Run = Callable[[], object]


class Weight(NamedTuple):
    """[out, in] of integers, and a scale for each row and block of columns."""

    integers: np.ndarray  # int8
    scales: np.ndarray

    def values(self, block: int) -> np.ndarray:
        return self.integers * np.repeat(self.scales, block, axis=1)


class Form(NamedTuple):
    """How a product is computed."""

    name: str
    bits: int
    options: dict[str, object]  # of spjit.compile; of ONNX Runtime attributes


SPJIT = (Form("int4 x fp32", 4, {}),
         Form("int4 x int8", 4, {"accumulate": "integer", "quantize": "token"}),
         Form("int8 x fp32", 8, {}),
         Form("int8 x int8", 8, {"accumulate": "integer", "quantize": "token"}))
PEER = (Form("4 bits x fp32", 4, {"accuracy_level": 1}),
        Form("4 bits x int8", 4, {"accuracy_level": 4}),
        Form("8 bits x int8", 8, {"accuracy_level": 4}))


def shapes_of(scale: int) -> list[tuple[int, int]]:
    """[out, in] of the layers of a block: query, key, value, output, gate, up and down."""
    hidden, heads, inner = HIDDEN // scale, HEADS // scale, INNER // scale
    return [(hidden, hidden), (heads, hidden), (heads, hidden), (hidden, hidden),
            (inner, hidden), (inner, hidden), (hidden, inner)]


def quantised(weight: np.ndarray, bits: int, block: int) -> Weight:
    """Symmetric: the largest of a block becomes 7 or 127. Scales are those of fp16, which files of
    quantised models have.
    """
    most = (1 << (bits - 1)) - 1
    blocks = weight.reshape(len(weight), -1, block)
    scales = (np.abs(blocks).max(axis=2) / most).astype(np.float16).astype(np.float32)
    scales[scales == 0] = 1
    integers = np.rint(blocks / scales[:, :, None]).clip(-most, most)
    return Weight(integers.astype(np.int8).reshape(weight.shape), scales)


def pruned(draw: np.random.Generator, shape: tuple[int, int], zeros: float) -> np.ndarray:
    weight = draw.standard_normal(shape, np.float32) / np.float32(np.sqrt(shape[1]))
    weight[np.abs(weight) < np.quantile(np.abs(weight), zeros)] = 0
    return weight


def kernels_of(layers: list[Weight], form: Form, options: argparse.Namespace) -> list[Run]:
    """A call for each layer, of a kernel from a cache, as in use: that has A in a file."""
    network_nnz = sum(np.count_nonzero(layer.integers) for layer in layers)
    runs = []
    for layer in layers:
        with tempfile.TemporaryDirectory() as cache:
            for _ in range(2):
                kernel = spjit.Compiler(threads=options.threads, cache=cache,
                                        network_nnz=network_nnz).compile(
                    layer.integers.astype(np.float32), 1, types=(f"i{form.bits}", "f32", "f32"),
                    group_scales=spjit.GroupScales(layer.scales, options.block), **form.options)
        x, out = token_of(layer), np.empty((1, len(layer.integers)), np.float32)
        runs.append(lambda kernel=kernel, x=x, out=out: kernel(x, out=out))
    return runs


def token_of(layer: Weight) -> np.ndarray:
    count = layer.integers.shape[1]
    return np.random.default_rng(count).standard_normal((1, count), np.float32)


def packed(layer: Weight, bits: int, block: int) -> np.ndarray:
    numbers = (layer.integers.astype(np.int16) + (1 << (bits - 1))).astype(np.uint8)
    if bits == 4:
        numbers = numbers[:, ::2] | numbers[:, 1::2] << 4
    return numbers.reshape(len(numbers), -1, block * bits // 8)


def session_of(layers: list[Weight], form: Form,
               options: argparse.Namespace) -> onnxruntime.InferenceSession:
    """All layers as nodes, each with an output of its own."""
    nodes, constants, names = [], [], {}
    for i, layer in enumerate(layers):
        rows, columns = layer.integers.shape
        names[f"x{columns}"] = columns
        constants += [numpy_helper.from_array(packed(layer, form.bits, options.block), f"w{i}"),
                      numpy_helper.from_array(layer.scales.reshape(-1), f"s{i}")]
        nodes.append(helper.make_node(
            "MatMulNBits", [f"x{columns}", f"w{i}", f"s{i}"], [f"y{i}"], domain="com.microsoft",
            N=rows, K=columns, bits=form.bits, block_size=options.block, **form.options))
    graph = helper.make_graph(
        nodes, "layers",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, columns])
         for name, columns in names.items()],
        [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, [1, len(layer.integers)])
         for i, layer in enumerate(layers)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20),
                                                    helper.make_opsetid("com.microsoft", 1)],
                              ir_version=9)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    return onnxruntime.InferenceSession(model.SerializeToString(), settings,
                                        providers=["CPUExecutionProvider"])


def peer_of(layers: list[Weight], form: Form, options: argparse.Namespace) -> Run:
    session = session_of(layers, form, options)
    feeds = {f"x{layer.integers.shape[1]}": token_of(layer) for layer in layers}
    return lambda: session.run(None, feeds)


def resident_mb() -> float:
    """Of this process, without what is mapped from files."""
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith("RssAnon"))
    return int(line.split()[1]) / 1024


def milliseconds(runs: list[Run], seconds: float) -> list[float]:
    """Of a pass of each, which take turns: the median of the faster half."""
    times: list[list[float]] = [[] for _ in runs]
    end = time.perf_counter() + seconds
    while len(times[0]) < 3 or time.perf_counter() < end:
        for run, own in zip(runs, times):
            start = time.perf_counter()
            run()
            own.append(time.perf_counter() - start)
    return [float(np.median(sorted(own)[:(len(own) + 1) // 2])) * 1e3 for own in times]


def error_of(layer: Weight, y: np.ndarray, block: int) -> float:
    """Against float64, as a part of the largest element."""
    exact = token_of(layer).astype(np.float64) @ layer.values(block).T.astype(np.float64)
    return float(np.abs(y - exact).max() / np.abs(exact).max())


def lines_of(zeros: int, options: argparse.Namespace) -> list[str]:
    """Of the table."""
    draw = np.random.default_rng(zeros)
    weights = [pruned(draw, shape, zeros / 100)
               for _ in range(options.blocks) for shape in shapes_of(options.scale)]
    layers = {bits: [quantised(one, bits, options.block) for one in weights] for bits in (4, 8)}
    del weights
    names, passes, memory, errors = [], [], [], []
    for form in SPJIT:
        before = resident_mb()
        kernels = kernels_of(layers[form.bits], form, options)
        passes.append(lambda kernels=kernels: [kernel() for kernel in kernels])
        memory.append(resident_mb() - before)
        errors.append(error_of(layers[form.bits][0], kernels[0](), options.block))
        names.append(f"spjit, {form.name}")
    for form in PEER:
        before = resident_mb()
        passes.append(peer_of(layers[form.bits], form, options))
        memory.append(resident_mb() - before)
        errors.append(error_of(layers[form.bits][0], passes[-1]()[0], options.block))
        names.append(f"ONNX Runtime, {form.name}")
    if max(error for error, form in zip(errors, SPJIT) if "quantize" not in form.options) > 1e-5:
        raise SystemExit("spjit's kernels are off by more than 1e-5")
    times = milliseconds(passes, options.seconds)
    best = min(times[len(SPJIT):])
    return [f"| {zeros} % | {name} | {one:.2f} | {best / one:.2f} | {mb:.0f} | {error:.0e} |"
            for name, one, mb, error in zip(names, times, memory, errors)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--zeros", type=int, nargs="+", default=[50, 60, 70, 80], help="percent")
    parser.add_argument("--blocks", type=int, default=6, help="of the decoder; TinyLlama has 22")
    parser.add_argument("--scale", type=int, default=1, choices=(1, 2, 4),
                        help="divides sizes of layers")
    parser.add_argument("--block", type=int, default=32, choices=(32, 64, 128),
                        help="columns that share a scale")
    parser.add_argument("--threads", type=int, default=1, help="of a run")
    parser.add_argument("--seconds", type=float, default=10, help="of each comparison")
    options = parser.parse_args()
    print("| zeros | form | ms a token | times the fastest of ONNX Runtime | MB | error |")
    print("|---|---|---|---|---|---|")
    for zeros in options.zeros:
        print("\n".join(lines_of(zeros, options)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
