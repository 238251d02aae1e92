"""Random graphs of integers, rewritten with kernels, beside ONNX Runtime.
SPJIT_ONNX_INTEGER_GRAPHS: how many."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from onnx_integer_fuzz import IntegerFuzzer
from spjit import _onnx_graph, _onnx_integer_operands, _onnx_integers
from spjit._onnx_values import Graph
from spjit.onnx import _fold, _graph

GRAPHS = int(os.environ.get("SPJIT_ONNX_INTEGER_GRAPHS", "100"))
_MOST_TO_FIND = 300


def test_random_graphs(tmp_path):
    fuzzer = IntegerFuzzer(tmp_path)

    wrong = [message for seed in range(GRAPHS) if (message := fuzzer.wrong(seed))]

    assert not wrong, "\n".join(wrong[:5])
    assert min(fuzzer.modes[mode] for mode in ("tensor", "given", "none")) >= GRAPHS // 10
    assert min(fuzzer.images[mode] for mode in ("tensor", "given")) >= GRAPHS // 25
    assert fuzzer.folded >= GRAPHS


def without_zero_points_of_x(monkeypatch):
    """0 stands for 0."""
    monkeypatch.setattr(_onnx_integers, "zero_point_of", lambda *_: "")


def other_zero_points_of_weights(monkeypatch):
    """One more is subtracted."""
    weights = _onnx_integers.weights_less_zeros

    def wrong(*given):
        found = weights(*given)
        return np.where(found > -100, found - (found != 0), found)

    monkeypatch.setattr(_onnx_integers, "weights_less_zeros", wrong)


def any_range(monkeypatch):
    """Weights beyond the kernel's type become others."""
    monkeypatch.setattr(_onnx_integer_operands, "_LEAST", -255)
    monkeypatch.setattr(_onnx_integer_operands, "_MOST", 255)
    weights = _onnx_integers.weights_less_zeros
    monkeypatch.setattr(_onnx_integers, "weights_less_zeros", lambda *given: weights(*given).astype(
        np.int16).astype(np.int8).astype(np.float32))


def one_scale(monkeypatch):
    """The scale of the first column is that of all."""
    scale_of_rows = _onnx_integers.scale_of_rows
    monkeypatch.setattr(_onnx_integers, "scale_of_rows", lambda *given: np.full_like(
        scale_of_rows(*given), scale_of_rows(*given)[0]))


def scale_of_x_alone(monkeypatch):
    """Weights have no scale."""
    monkeypatch.setattr(_onnx_integers, "scale_of_rows", lambda _, __, rows: np.ones(
        rows, np.float32))


def without_bias(monkeypatch):
    """Sums are lost."""
    layer_of = _onnx_graph._layer_of_integers
    monkeypatch.setattr(_onnx_graph, "_layer_of_integers", lambda *given: replace(
        layer_of(*given), bias=None))


def two_sums(monkeypatch):
    """Factors behind a product become part of its scale, though both are rounded."""
    monkeypatch.setattr(_onnx_graph, "_trailing", lambda _: 0)
    with_followers = _onnx_graph._with_followers

    def wrong(graph, layer):
        of = layer.quantisation
        if of is None or of.scale is None or layer.behind is not None:
            return with_followers(graph, layer)
        made = _onnx_graph._with_affine(graph, replace(layer, weight=np.ones(
            (len(layer.weight), 1), np.float32)))
        scale = (of.scale * made.weight[:, 0]).astype(np.float32)
        return replace(made, weight=layer.weight, quantisation=replace(of, scale=scale))

    monkeypatch.setattr(_onnx_graph, "_with_followers", wrong)


def unseen(monkeypatch):
    """Nobody sees what is between nodes."""
    monkeypatch.setattr(Graph, "only_within", lambda *_: True)


def without_scale_of_x(monkeypatch):
    """A unit of x is worth 1."""
    integer_nodes = _graph.integer_nodes

    def wrong(*given, **named):
        kernel, *behind = integer_nodes(*given, **named)
        if kernel.op_type == "SparseIntegerLayer":
            kernel.input[4] = ""
        return [kernel, *behind]

    monkeypatch.setattr(_graph, "integer_nodes", wrong)


def without_zero_point_of_y(monkeypatch):
    """0 stands for 0 in Y."""
    integer_nodes = _graph.integer_nodes

    def wrong(*given, **named):
        kernel, *behind = integer_nodes(*given, **named)
        del kernel.input[7:]
        return [kernel, *behind]

    monkeypatch.setattr(_graph, "integer_nodes", wrong)


def other_activations(monkeypatch):
    """Any activation is part of a kernel."""
    monkeypatch.setattr(_onnx_graph, "EXACT_ACTIVATIONS", tuple(_onnx_graph.FUNCTIONS))


def without_a_node(monkeypatch):
    """Integers are made of floats by nobody, or not shifted."""
    integer_nodes = _graph.integer_nodes

    def wrong(*given, **named):
        kernel, *behind = integer_nodes(*given, **named)
        for one in behind:
            one.op_type, one.input[:] = "Cast", [one.input[0]]
        return [kernel, *behind]

    monkeypatch.setattr(_graph, "integer_nodes", wrong)


def merged_sums(monkeypatch):
    """Sums behind a product become one."""
    merge_chains = _fold.merge_chains
    monkeypatch.setattr(_fold, "merge_chains", lambda model, kept, **_: merge_chains(model, kept))


PLANTS = [without_zero_points_of_x, other_zero_points_of_weights, any_range, one_scale,
          scale_of_x_alone, without_bias, two_sums, unseen, without_scale_of_x, without_zero_point_of_y,
          other_activations, without_a_node, merged_sums]


@pytest.mark.parametrize("plant", PLANTS)
def test_the_fuzzer_finds_a_planted_fault(tmp_path, monkeypatch, plant):
    plant(monkeypatch)
    fuzzer = IntegerFuzzer(tmp_path)

    assert any(fuzzer.wrong(seed) for seed in range(_MOST_TO_FIND)), plant.__doc__
