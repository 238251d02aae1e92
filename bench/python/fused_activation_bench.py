"""Activations within kernels beside the same activations behind them, in ONNX Runtime and PyTorch.

    python bench/python/fused_activation_bench.py [--activation tanh ...] [--case conv56 ...]
        [--package onnx torch] [--sparsity 90] [--threads 1] [--seconds 1]

Cases: `conv56` and `conv28` are four 3x3 convolutions of 64 channels on images of that size,
`ffn128` and `ffn8` the two products of a feed-forward block, 384 to 1536 and back, of that many
tokens; with the activation behind each convolution and the first product. Ways: dense; a kernel,
and the activation as a node or module; a kernel with it. A turn is a pass that is not timed, so
that caches are as the way itself leaves them, and one that is. Times are medians of the faster
halves. Needs spjit, onnx, onnxruntime and torch.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import onnxruntime
import torch
from torch import nn

import spjit.onnx
import spjit.torch
from spjit import _onnx_graph
from spjit._timing import usual_time
from spjit.onnx import _graph, _optimize
from spjit.onnx._passes import alone
from spjit.onnx._sessions import PROVIDERS, plain_options
from spjit.torch import _layers
from spjit.torch import _optimize as _torch_optimize

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU, "leaky-relu": lambda: nn.LeakyReLU(0.1), "hard-sigmoid": nn.Hardsigmoid,
    "sigmoid": nn.Sigmoid, "tanh": nn.Tanh}
CASES = {"conv56": (1, 64, 56, 56), "conv28": (1, 64, 28, 28), "ffn128": (1, 128, 384),
         "ffn8": (1, 8, 384)}

Way = Callable[[], Any]


def network(case: str, activation: str, sparsity: float) -> nn.Sequential:
    torch.manual_seed(1)
    act = ACTIVATIONS[activation]
    if case.startswith("conv"):
        model = nn.Sequential(*(part for _ in range(4)
                                for part in (nn.Conv2d(64, 64, 3, padding=1), act())))
    else:
        model = nn.Sequential(nn.Linear(384, 1536), act(), nn.Linear(1536, 384))
    with torch.no_grad():
        for layer in model:
            if hasattr(layer, "weight"):
                layer.weight.mul_(torch.rand_like(layer.weight) >= sparsity / 100)
    return model.eval()


def onnx_ways(model: nn.Module, x: torch.Tensor, threads: int, folder: Path) -> list[Way]:
    """All layers are kernels: which is faster is what this asks."""
    path, given = folder / "model.onnx", {"x": x.numpy()}
    axes = {0: "n", 1: "tokens"} if x.dim() == 3 else {}  # else ONNX Runtime puts Reshapes between
    torch.onnx.export(model, (x, ), str(path), dynamo=False, input_names=["x"],
                      output_names=["y"], dynamic_axes={"x": axes})
    dense = onnxruntime.InferenceSession(str(path), alone(plain_options(threads)),
                                         providers=PROVIDERS)
    ways = [lambda: dense.run(None, given)]
    for names in ((), tuple(_onnx_graph.FUNCTIONS)):
        with mock.patch.object(_onnx_graph, "_activations_for", lambda _, n=names: n or ("none", )), \
                mock.patch.object(_optimize, "_choose", lambda measured, found, _: _graph.rewritten(
                    measured.base, [one.swap for one in found if one.is_in])):
            fast = spjit.onnx.optimize(path, given, threads=threads)
        assert all(row.sparse for row in fast.report.rows), fast.report
        assert bool(fast.report.rows[0].activation) == bool(names), fast.report
        ways.append(lambda fast=fast: fast(given))
    return ways


def torch_ways(model: nn.Module, x: torch.Tensor, threads: int, again: Way) -> list[Way]:
    ways = [lambda: model(x)]
    for fused in (False, True):
        copy = again()
        of = _layers.activation_of if fused else (lambda _: "")
        with mock.patch.object(_layers, "activation_of", of), \
                mock.patch.object(_torch_optimize, "activation_of", of), \
                mock.patch.object(_torch_optimize, "_is_slower", lambda *_: False):
            report = spjit.torch.optimize_(copy, (x, ), threads=threads, budget=0.01)
        assert all(row.sparse for row in report.rows), report
        assert bool(report.rows[0].activation) == fused, report
        ways.append(lambda copy=copy: copy(x))
    return ways


def times_of(ways: list[Way], seconds: float) -> list[float]:
    """us of each, in turn."""
    times: list[list[float]] = [[] for _ in ways]
    end = time.perf_counter() + seconds
    while len(times[0]) < 8 or time.perf_counter() < end:
        for way, its in zip(ways, times):
            way()
            begin = time.perf_counter_ns()
            way()
            its.append((time.perf_counter_ns() - begin) * 1e-3)
    return [usual_time(its) for its in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--activation", nargs="+", choices=ACTIVATIONS, default=list(ACTIVATIONS))
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--package", nargs="+", choices=("onnx", "torch"),
                        default=["onnx", "torch"])
    parser.add_argument("--sparsity", type=float, default=90, help="percent")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1, help="of each line")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{'package':8}{'case':8}{'activation':13}{'dense us':>9}{'behind us':>10}"
          f"{'within us':>10}  behind / within")
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        for package in options.package:
            for case in options.case:
                for activation in options.activation:
                    def made(case: str = case, activation: str = activation) -> nn.Module:
                        with torch.inference_mode(False):
                            return network(case, activation, options.sparsity)

                    x = torch.randn(CASES[case])
                    ways = (onnx_ways(made(), x, options.threads, Path(folder))
                            if package == "onnx" else
                            torch_ways(made(), x, options.threads, made))
                    dense, behind, within = times_of(ways, options.seconds)
                    print(f"{package:8}{case:8}{activation:13}{dense:9.1f}{behind:10.1f}"
                          f"{within:10.1f}  {behind / within:.3f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
