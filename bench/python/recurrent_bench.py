"""Pruned recurrent layers in PyTorch and in ONNX Runtime, dense and with kernels of spjit.

    python bench/python/recurrent_bench.py [--sparsity 50 80 90] [--layers LSTM:2x512 GRU:1x1024]
        [--batch 1 16] [--steps 100] [--threads 1] [--json FILE]

Weights are drawn at random and pruned by magnitude. Ways have turns. bench/README.md has the rest.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import spjit.onnx
import spjit.torch
import torch
from onnx import TensorProto, helper, numpy_helper

from bench_support import add_rows, cpu_name

# Gates of torch in the order of ONNX.
PLACES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2)}


def pruned(kind: str, layers: int, hidden: int, sparsity: float) -> torch.nn.Module:
    torch.manual_seed(0)
    module = getattr(torch.nn, kind)(hidden, hidden, layers).eval()
    with torch.no_grad():
        for name, weight in module.named_parameters():
            if name.startswith("weight"):
                least = weight.abs().flatten().kthvalue(int(weight.numel() * sparsity)).values
                weight.mul_(weight.abs() > least)
    return module


def as_onnx(module: Any, path: Path) -> Path:
    """The same as nodes of ONNX."""
    places = PLACES[module.mode]

    def gates(name: str) -> np.ndarray:
        array = getattr(module, name).detach().numpy()
        parts = array.reshape(len(places), -1, *array.shape[1:])
        return parts[list(places)].reshape(1, *array.shape)

    nodes, constants, x = [], {"axis": np.array([1])}, "x"
    for i in range(module.num_layers):
        constants[f"w{i}"], constants[f"r{i}"] = gates(f"weight_ih_l{i}"), gates(f"weight_hh_l{i}")
        constants[f"b{i}"] = np.concatenate([gates(f"bias_ih_l{i}"), gates(f"bias_hh_l{i}")], 1)
        options = {"linear_before_reset": 1} if module.mode == "GRU" else {}
        nodes.append(helper.make_node(module.mode, [x, f"w{i}", f"r{i}", f"b{i}"], [f"y{i}"],
                                      f"layer {i}", hidden_size=module.hidden_size, **options))
        nodes.append(helper.make_node("Squeeze", [f"y{i}", "axis"], [f"s{i}"]))
        x = f"s{i}"
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["s", "n", module.input_size])],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              str(path))
    return path


def timed(ways: dict[str, Callable[[], np.ndarray]], seconds: float) -> dict[str, float]:
    """Medians, ms, of calls in turn."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["torch"]) < 5:
        for name, run in ways.items():
            begin = time.perf_counter()
            run()
            times[name].append((time.perf_counter() - begin) * 1e3)
    return {name: round(statistics.median(each), 3) for name, each in times.items()}


def measured(layer: str, sparsity: int, batch: int, of: argparse.Namespace) -> dict[str, Any]:
    kind, size = layer.split(":")
    layers, hidden = map(int, size.split("x"))
    dense = pruned(kind, layers, hidden, sparsity / 100)
    sparse, x = copy.deepcopy(dense), torch.randn(of.steps, batch, hidden)
    spjit.torch.optimize_(sparse, x, threads=of.threads)
    with tempfile.TemporaryDirectory() as folder:
        path = as_onnx(dense, Path(folder) / "model.onnx")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = of.threads
        session = onnxruntime.InferenceSession(str(path), options)
        fast = spjit.onnx.optimize(path, x.numpy(), threads=of.threads)
    feeds = {"x": x.numpy()}
    ways = {"torch": lambda: dense(x)[0].numpy(), "spjit.torch": lambda: sparse(x)[0].numpy(),
            "ort": lambda: session.run(None, feeds)[0], "spjit.onnx": lambda: fast(feeds)[0]}
    with torch.inference_mode():
        expected = ways["torch"]()
        worst = max(float(np.abs(run() - expected).max()) for run in ways.values())
        ms = timed(ways, of.seconds)
    return {"layer": layer, "sparsity": sparsity, "batch": batch, "steps": of.steps,
            "threads": of.threads, "ms": ms, "worst_difference": worst,
            "torch_over_spjit": round(ms["torch"] / ms["spjit.torch"], 2),
            "ort_over_spjit": round(ms["ort"] / ms["spjit.onnx"], 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sparsity", type=int, nargs="+", default=[50, 80, 90])
    parser.add_argument("--layers", nargs="+", default=["LSTM:2x512", "GRU:1x1024"])
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each case")
    parser.add_argument("--json", type=Path)
    of = parser.parse_args()
    torch.set_num_threads(of.threads)
    print(cpu_name())
    rows = []
    for layer in of.layers:
        for sparsity in of.sparsity:
            for batch in of.batch:
                rows.append(measured(layer, sparsity, batch, of))
                print(rows[-1], flush=True)
    if of.json:
        add_rows(of.json, "spjit-recurrent-bench-1",
                 ("layer", "sparsity", "batch", "steps", "threads"), rows, ("torch", "onnxruntime"))


if __name__ == "__main__":
    main()
