"""Factors, sums and shapes that follow one another: what is left of them, and what it gives."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from onnx import TensorProto, helper, numpy_helper
from onnx_idle_fuzz import run
from spjit.onnx import _chains
from spjit.onnx._fold import folded

RNG = np.random.default_rng(7)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


LARGE = np.float32(2.0**70)
CONSTANTS = {"f": np.abs(floats(8)) + np.float32(1), "g": np.abs(floats(3, 1)) + np.float32(1),
             "h": np.float32(-2.5), "c": floats(8), "d": floats(1, 3, 8), "e": np.float32(0.25),
             "large": LARGE, "tiny": np.float32(2.0**-120), "huge": np.float32(2.0**120),
             "none": np.zeros(8, np.float32), "row": floats(1, 8), "column": floats(3, 1),
             "mixed": np.array([-1, 4]), "same": np.array([0, 3, 8]), "half": np.array([0, 2, -1]),
             "pair": np.array([0, 0, 2, 4]), "zero": np.array([0]),
             "one": np.array([1]), "flat": np.array([-1]), "back": np.array([-1, 3, 8]),
             "w": floats(8, 8)}


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs.split(), [output], output, **attributes)


def model_of(nodes, outputs=("y",), x=("n", 3, 8), dtype=TensorProto.FLOAT):
    used = {name for one in nodes for name in one.input}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", dtype, x)],
        [helper.make_tensor_value_info(name, dtype, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in CONSTANTS.items()
         if name in used])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def operators(model):
    return [one.op_type for one in model.graph.node]


@pytest.mark.parametrize(("nodes", "left"), [
    ([node("Mul", "x f", "t"), node("Mul", "g t", "y")], ["Mul", "Mul"]),  # would become larger
    ([node("Mul", "x f", "t"), node("Mul", "h t", "y")], ["Mul"]),
    ([node("Mul", "x f", "t"), node("Neg", "t", "u"), node("Mul", "u f", "y")], ["Mul"]),
    ([node("Div", "x f", "t"), node("Mul", "t e", "y")], ["Mul"]),
    ([node("Mul", "e x", "t"), node("Div", "t h", "y")], ["Mul"]),
    ([node("Add", "x c", "t"), node("Sub", "t h", "u"), node("Add", "d u", "y")], ["Add"]),
    ([node("Add", "x row", "t"), node("Add", "t column", "y")], ["Add", "Add"]),
    ([node("Mul", "x f", "t"), node("Add", "t c", "u"), node("Add", "u h", "v"),
      node("Mul", "v h", "y")], ["Mul", "Add", "Mul"]),
], ids=["outer", "factors", "signs", "quotient", "divisor", "sums", "outer sum", "both"])
def test_constants(nodes, left):
    model = model_of(nodes)
    short = folded(model)
    assert operators(short) == left
    x = floats(2, 3, 8)
    np.testing.assert_allclose(run(short, x)[0], run(model, x)[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("nodes", "x"), [
    ([node("Mul", "x large", "t"), node("Mul", "t large", "y")], 2.0**-130),
    ([node("Mul", "x huge", "t"), node("Mul", "t tiny", "y")], 4.0),
    ([node("Mul", "x tiny", "t"), node("Mul", "t huge", "y")], 2.0**-10),
    ([node("Mul", "x none", "t"), node("Mul", "t f", "y")], np.inf),
    ([node("Div", "x none", "t"), node("Mul", "t f", "y")], 1.0),
    ([node("Add", "x huge", "t"), node("Sub", "t huge", "y")], 1.0),
    ([node("Sub", "c x", "t"), node("Add", "t c", "y")], 1.0),
    ([node("Div", "c x", "t"), node("Mul", "t f", "y")], 1.0),
    ([node("Mul", "x x", "t"), node("Mul", "t f", "y")], 1.0),
], ids=["infinite", "overflow", "underflow", "zero", "by zero", "large sum", "difference",
        "reciprocal", "square"])
def test_constants_that_stay(nodes, x):
    model = model_of(nodes)
    short = folded(model)
    assert operators(short) == operators(model)
    x = np.full((2, 3, 8), x, np.float32)
    np.testing.assert_array_equal(run(short, x)[0], run(model, x)[0])


@pytest.mark.parametrize(("nodes", "outputs"), [
    ([node("Mul", "x f", "t"), node("Mul", "t f", "y"), node("Neg", "t", "z")], ("y", "z")),
    ([node("Mul", "x f", "t"), node("Mul", "t f", "y")], ("y", "t")),
    ([node("Reshape", "x mixed", "t"), node("Reshape", "t flat", "y"), node("Neg", "t", "z")],
     ("y", "z")),
    ([node("Reshape", "x mixed", "t"), node("Reshape", "t flat", "y")], ("y", "t")),
    ([node("Reshape", "x same", "y")], ("y",)),
], ids=["used", "given", "used shape", "given shape", "output"])
def test_what_others_see_stays(nodes, outputs):
    model = model_of(nodes, outputs)
    assert operators(folded(model)) == operators(model)


def test_factors_of_integers_stay():
    model = model_of([node("Neg", "x", "t"), node("Neg", "t", "y")], dtype=TensorProto.INT64)
    short = folded(model)
    assert operators(short) == ["Neg", "Neg"]
    np.testing.assert_array_equal(run(short, np.ones((2, 3, 8), np.int64))[0],
                                  np.ones((2, 3, 8), np.int64))


def test_factors_of_a_layer_are_its_own():
    model = model_of([node("MatMul", "x w", "o"), node("Mul", "o f", "t"), node("Mul", "t f", "u"),
                      node("Relu", "u", "y")])
    assert operators(folded(model)) == ["MatMul", "Mul", "Mul", "Relu"]


@pytest.mark.parametrize(("nodes", "left"), [
    ([node("Flatten", "x", "t"), node("Reshape", "t back", "y")], ["Reshape"]),
    ([node("Reshape", "x mixed", "t"), node("Reshape", "t flat", "u"), node("Neg", "u", "y")],
     ["Reshape", "Neg"]),
    ([node("Unsqueeze", "x zero", "t"), node("Squeeze", "t zero", "u"), node("Neg", "u", "y")],
     ["Neg"]),
    ([node("Reshape", "x same", "t"), node("Neg", "t", "u"), node("Reshape", "u same", "v"),
      node("Abs", "v", "y")], ["Neg", "Abs"]),
    ([node("Flatten", "x", "t"), node("Unsqueeze", "t one", "u"), node("Neg", "u", "y")],
     ["Reshape", "Neg"]),
    ([node("Reshape", "x mixed", "t"), node("Reshape", "t half", "u"), node("Neg", "u", "y")],
     ["Reshape", "Neg"]),
], ids=["flattened", "twice", "nothing", "the same", "dimension", "of the one before"])
def test_shapes(nodes, left):
    model = model_of(nodes)
    short = folded(model)
    assert operators(short) == left
    for batch in (1, 2):
        x = floats(batch, 3, 8)
        y, wanted = run(short, x)[0], run(model, x)[0]
        assert y.shape == wanted.shape
        np.testing.assert_array_equal(y, wanted)


def test_a_shape_of_two_sizes_that_are_not_known_stays():
    nodes = [node("Reshape", "x pair", "t"), node("Reshape", "t half", "y")]
    model = model_of(nodes, x=("n", "m", 8))
    short = folded(model)
    assert operators(short) == ["Reshape", "Reshape"]
    x = floats(2, 6, 8)
    np.testing.assert_array_equal(run(short, x)[0], run(model, x)[0])


# ---- By chance ------------------------------------------------------------------------------

EXACT = {"Mul": ("h2", "e", "q"), "Add": ("i", "j"), "Sub": ("i", "j"), "Div": ("h2", "e")}
SHAPES = ("same", "mixed", "flat", "back")


def chain_of(seed):
    """Of powers of two and of whole numbers, with which all orders give the same."""
    rng = np.random.default_rng(seed)
    nodes, values = [], ["x"]
    for i in range(rng.integers(2, 9)):
        value = values[-1] if rng.random() < 0.9 else values[rng.integers(len(values))]
        if rng.random() < 0.3:
            # "same" needs three dimensions, which the one before may not have: others do not.
            shape = str(rng.choice(SHAPES[1:]))
            nodes.append(node("Reshape", f"{value} {shape}", f"v{i}"))
        elif rng.random() < 0.2:
            nodes.append(node(str(rng.choice(["Neg", "Flatten", "Relu"])), value, f"v{i}"))
        else:
            op = str(rng.choice(list(EXACT)))
            nodes.append(node(op, f"{value} {rng.choice(EXACT[op])}", f"v{i}"))
        values.append(f"v{i}")
    return nodes, {values[-1], values[rng.integers(1, len(values))]}


def wrong(seed):
    nodes, outputs = chain_of(seed)
    model = model_of(nodes, sorted(outputs))
    x = np.random.default_rng(seed).integers(-4, 5, (2, 3, 8)).astype(np.float32)
    short = folded(model)
    return any(y.shape != other.shape or not np.array_equal(y, other)
               for y, other in zip(run(short, x), run(model, x))), len(nodes) - len(
                   short.graph.node)


@pytest.fixture
def exact_constants(monkeypatch):
    for name, value in (("h2", -2), ("e", 0.5), ("q", 4), ("i", 3), ("j", -8)):
        monkeypatch.setitem(CONSTANTS, name, np.float32(value))


@pytest.mark.usefixtures("exact_constants")
def test_chains_by_chance():
    found = [wrong(seed) for seed in range(400)]
    assert not any(is_wrong for is_wrong, _ in found)
    assert sum(shorter for _, shorter in found) > 100


def reversed_signs(monkeypatch):
    """A difference is a sum."""
    step_of = _chains._step_of
    monkeypatch.setattr(_chains, "_step_of", lambda graph, one: step_of(graph, one)._replace(
        value=-step_of(graph, one).value) if one.op_type == "Sub" else step_of(graph, one))


def of_any_kind(monkeypatch):
    """A factor and a sum are one."""
    joined = _chains._joined
    monkeypatch.setattr(_chains, "_joined", lambda graph, steps, step, names: joined(
        graph, {name: one._replace(kind=step.kind) for name, one in steps.items()}, step, names))


@pytest.mark.usefixtures("exact_constants")
@pytest.mark.parametrize("plant", [reversed_signs, of_any_kind])
def test_chains_by_chance_find_a_planted_fault(monkeypatch, plant):
    plant(monkeypatch)

    def is_found(seed):
        try:
            return wrong(seed)[0]
        except Exception:  # a model that ONNX Runtime refuses
            return True

    assert any(is_found(seed) for seed in range(400)), plant.__doc__
