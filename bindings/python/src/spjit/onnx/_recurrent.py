"""Kernels of recurrent layers, and what a node SparseRecurrent says of them
(bindings/ort/sparse_recurrent.hpp)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._compiler import Compiler
from .._kernel import Kernel
from .._onnx_recurrent import OnnxRecurrent

Kernels = list[tuple[str, Kernel]]  # by their names in the bundle

_MOST_FIXED = 4  # sequences that kernels of a fixed n are faster for: those of `windows`


def _parts(layer: OnnxRecurrent) -> Iterator[tuple[int, str, np.ndarray]]:
    """Direction, name and weights of each kernel."""
    for number, matrices in enumerate(layer.matrices):
        for name, weights in matrices._asdict().items():
            if weights is not None:
                yield number, name, weights


def _is_fixed(name: str, x: tuple[int, ...]) -> bool:
    """Whether there is a kernel for the sequences of X [steps, batch, inputs] alone, too."""
    steps, batch, _ = x
    return 1 <= batch <= _MOST_FIXED and (steps == 1 or name != "input")


def _name_of(layer: OnnxRecurrent, number: int, name: str, fixed: bool = False) -> str:
    return f"{layer.prefix}/{name}/{number}{'/fixed' if fixed else ''}"


def recurrent_kernels(layer: OnnxRecurrent, x: tuple[int, ...], compiler: Compiler) -> Kernels:
    """For any steps and sequences, and where that is faster for as many sequences as X has, too."""
    steps, batch, _ = x
    has_bias = layer.bias is not None
    made: Kernels = []
    for number, name, weights in _parts(layer):
        weights = np.ascontiguousarray(weights)
        typical = batch * (steps if name == "input" else 1)
        made.append((_name_of(layer, number, name),
                     compiler.compile(weights, typical_n=max(typical, 1), bias=has_bias)))
        if _is_fixed(name, x):
            made.append((_name_of(layer, number, name, True),
                         compiler.compile(weights, batch, bias=has_bias)))
    return made


def recurrent_text(layer: OnnxRecurrent, x: tuple[int, ...],
                   problems: dict[str, Any]) -> dict[str, Any]:
    """`problems`: of the bundle's kernels, by name."""
    def kernels(fixed: bool) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = [{} for _ in layer.matrices]
        for number, name, _ in _parts(layer):
            in_bundle = _name_of(layer, number, name, fixed and _is_fixed(name, x))
            found[number][name] = {"layer": in_bundle, "problem": problems[in_bundle]}
        return found

    fixed = None
    if _is_fixed("recurrent", x):
        fixed = {"kernels": kernels(True), "batch": x[1], "one_step": _is_fixed("input", x)}
    return {"cell": layer.cell, "direction": layer.direction, "kernels": kernels(False),
            "fixed": fixed}
