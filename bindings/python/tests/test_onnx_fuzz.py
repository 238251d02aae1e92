"""Random graphs, rewritten with kernels, beside ONNX Runtime. SPJIT_ONNX_GRAPHS: how many."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnx_graph_fuzz as fuzz
from onnx import helper
from onnx_random_graphs import ROWS
from spjit import _onnx_activations as activations
from spjit import _onnx_expressions as expressions
from spjit import _onnx_affine, _onnx_graph
from spjit._activation import Activation
from spjit._onnx_activations import Form
from spjit._onnx_expressions import formula
from spjit._onnx_values import Graph
from spjit.onnx import _arranged, _graph

GRAPHS = int(os.environ.get("SPJIT_ONNX_GRAPHS", "300"))
_MOST_TO_FIND = 60


def test_random_graphs(tmp_path):
    fuzzer = fuzz.Fuzzer(tmp_path)

    wrong = [message for seed in range(GRAPHS) if (message := fuzzer.wrong(seed))]

    assert not wrong, "\n".join(wrong[:5])
    assert fuzzer.swapped >= GRAPHS
    assert fuzzer.folded >= GRAPHS


def without_a_second_look(monkeypatch, *names):
    """At what was found to be one of these activations."""
    agrees = activations._agrees
    monkeypatch.setattr(activations, "_agrees", lambda expression, found: (
        found.name in names or agrees(expression, found)))


def unlimited(monkeypatch):
    """A clamp behind SiLU is forgotten."""
    without_a_second_look(monkeypatch, "silu")
    monkeypatch.setattr(activations, "FORMS", (
        *activations.FORMS, *(Form("silu", formula(f"Clip({silu}, low, high)")) for silu in (
            "x * Sigmoid(x)", "microsoft.QuickGelu(x, 1)"))))


def far_apart(monkeypatch):
    """Constants are not looked at closely."""
    without_a_second_look(monkeypatch, "gelu", "gelu-tanh", "silu", "hard-swish", "sigmoid")
    monkeypatch.setattr(expressions, "_is_same",
                        lambda wanted, given: abs(given - wanted) <= 0.1 * abs(wanted))


def unseen(monkeypatch):
    """Nobody sees what is between nodes."""
    monkeypatch.setattr(Graph, "only_within", lambda *_: True)


def another_slope(monkeypatch):
    """Any HardSigmoid is that of hard swish."""
    without_a_second_look(monkeypatch, "hard-swish")
    monkeypatch.setattr(activations, "FORMS", (
        *activations.FORMS, Form("hard-swish", formula("x * HardSigmoid(x, slope, middle)"))))


def another_alpha(monkeypatch):
    """Parameters do not reach the kernel."""
    monkeypatch.setattr(Activation, "arguments", property(
        lambda one: {"clamp": one.parameters} if one.name == "clamp" else
        {"activation": one.name or None}))


def any_slope(monkeypatch):
    """max(x, c x) is a leaky ReLU, whatever c is."""
    without_a_second_look(monkeypatch, "leaky-relu")


def one_slope(monkeypatch):
    """The first slope of a PRelu is that of each row."""
    scalar = Graph.scalar

    def first(self, name, rank=1):
        value = self.constant(name) if name else None
        return scalar(self, name, rank) if value is None or value.size != ROWS else float(value.flat[0])

    monkeypatch.setattr(Graph, "scalar", first)


def reversed_difference(monkeypatch):
    """c - x is taken for x - c."""
    affine_of = _onnx_affine.affine_of

    def wrong(graph, one, value, place):
        if one.op_type == "Sub":
            one = helper.make_node("Sub", sorted(one.input, key=lambda name: name != value), ["y"])
        return affine_of(graph, one, value, place)

    monkeypatch.setattr(_onnx_affine, "affine_of", wrong)


def of_any_rank(monkeypatch):
    """A constant may add dimensions."""
    scalar = Graph.scalar
    monkeypatch.setattr(Graph, "scalar",
                        lambda self, name, rank=1: scalar(self, name, 9))
    monkeypatch.setattr(_onnx_graph, "_rank", lambda _: 9)


def without_overflow(monkeypatch):
    """Factors may leave fp32."""
    monkeypatch.setattr(_onnx_affine.Limits, "admit", lambda *_, **__: True)


def without_a_node(monkeypatch):
    """The activation behind a kernel is another."""
    nodes_of = _graph._nodes_of

    def wrong(*given):
        kernel, *behind = nodes_of(*given)
        return [kernel, *(helper.make_node("Softsign", one.input, one.output, one.name)
                          for one in behind)]

    monkeypatch.setattr(_graph, "_nodes_of", wrong)


def another_part(monkeypatch):
    """Kernels of a batch get each other's parts."""
    in_parts = _arranged._in_parts
    monkeypatch.setattr(_arranged, "_in_parts", lambda kernels, *more: in_parts(
        kernels[::-1], *more))


def without_alpha(monkeypatch):
    """Products have no factor."""
    monkeypatch.setattr(_onnx_graph, "_times_alpha", lambda weight, _: weight)


# Faults, and where graphs begin: at one of the first that show the fault.
PLANTS = [(unlimited, 0), (far_apart, 0), (unseen, 0), (another_slope, 100), (another_alpha, 0),
          (any_slope, 50), (one_slope, 200), (reversed_difference, 0), (of_any_rank, 70),
          (without_overflow, 50), (without_a_node, 0), (another_part, 0), (without_alpha, 0)]


@pytest.mark.parametrize(("plant", "first"), PLANTS)
def test_the_fuzzer_finds_a_planted_fault(tmp_path, monkeypatch, plant, first):
    plant(monkeypatch)
    fuzzer = fuzz.Fuzzer(tmp_path)

    assert any(fuzzer.wrong(first + i) for i in range(_MOST_TO_FIND)), plant.__doc__
