"""Weights that nodes make of constants, as exporters leave them, are those of the layer behind."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from onnx import TensorProto, helper, numpy_helper

from spjit._onnx_forms import split
from spjit._onnx_graph import survey

RNG = np.random.default_rng(11)
W = RNG.standard_normal((12, 8)).astype(np.float32)
MASK = RNG.random((12, 8)) < 0.3
SHAPE = np.array([4, 8])


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs.split(" "), output.split(), **attributes)


def _model(nodes, constants, *, opset, k=8):
    """Tokens [5, k] times `v`, which the nodes make."""
    def value(name, shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    graph = helper.make_graph(
        [*nodes, node("MatMul", "x v", "y")], "g", [value("x", [5, k])],
        [value("y", None), value("v", None)],
        [numpy_helper.from_array(np.asarray(one), name) for name, one in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def _value(model):
    """Of `v`, as ONNX Runtime computes it."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    k, = {one.shape[1] for one in session.get_inputs()}
    return session.run(["v"], {"x": np.zeros((5, k), np.float32)})[0]


_T = node("Transpose", "u", "v", perm=[1, 0])  # u [n, 8]
_T_OF_P = node("Transpose", "p", "v", perm=[1, 0])


@pytest.mark.parametrize(("nodes", "constants", "opset"), [
    ([node("Split", "w s", "t u p", axis=0), _T], {"w": W, "s": np.array([5, 3, 4])}, 17),
    ([node("Split", "w", "t u p", axis=0), _T], {"w": W}, 17),
    ([node("Split", "w", "t u", axis=0, split=[5, 7]), _T], {"w": W}, 11),
    ([node("Split", "w", "t u p", axis=0, num_outputs=3), _T], {"w": W[:11]}, 18),
    ([node("Slice", "w b e a s", "u"), _T],
     {"w": W, "b": np.array([9]), "e": np.array([-13]), "a": np.array([0]), "s": np.array([-2])},
     17),
    ([node("Slice", "w b e", "u"), _T], {"w": W, "b": np.array([2]), "e": np.array([2**62])}, 17),
    ([node("Slice", "w", "u", starts=[1], ends=[-1], axes=[0]), _T], {"w": W}, 9),
    ([node("Concat", "w w", "u", axis=0), _T], {"w": W}, 17),
    ([node("Flatten", "w", "u", axis=-1), _T], {"w": W.reshape(4, 3, 8)}, 17),
    ([node("Where", "m w z", "u"), _T], {"w": W, "m": MASK, "z": np.float32(0)}, 17),
    ([node("Gather", "w i", "u", axis=0), _T], {"w": W, "i": np.array([3, -1, 0])}, 17),
    ([node("Cast", "m", "f", to=TensorProto.FLOAT), node("Mul", "w f", "u"), _T],
     {"w": W, "m": MASK}, 17),
    ([node("Cast", "w", "h", to=TensorProto.FLOAT16),
      node("Cast", "h", "u", to=TensorProto.FLOAT), _T], {"w": W}, 17),
    # weight normalization
    ([node("ReduceL2", "w", "n", axes=[1], keepdims=1), node("Div", "w n", "d"),
      node("Mul", "d g", "u"), _T], {"w": W, "g": W[:, :1]}, 13),
    ([node("Mul", "w w", "q"), node("ReduceSum", "q a", "t", keepdims=1), node("Sqrt", "t", "n"),
      node("Div", "w n", "u"), _T], {"w": W, "a": np.array([1])}, 17),
    # weight standardization
    ([node("ReduceMean", "w", "a", axes=[1]), node("Sub", "w a", "c"), node("Pow", "c 2", "q"),
      node("ReduceMean", "q", "s", axes=[1]), node("Add", "s e", "t"), node("Sqrt", "t", "n"),
      node("Div", "c n", "u"), _T], {"w": W, "2": np.float32(2), "e": np.float32(1e-5)}, 17),
    # sizes computed from the weight's own, in integers
    ([node("Shape", "w", "s"), node("Gather", "s 0", "r", axis=0), node("Div", "r -5", "h"),
      node("Neg", "h", "b"), node("Slice", "w b r", "u"), _T],
     {"w": W, "0": np.array([0]), "-5": np.array([-5])}, 17),
    # `end` before the first dimension; the last `v` is the first dimension of w and one more
    ([node("Shape", "w", "none", end=-3), node("Concat", "none 4 k", "s", axis=0),
      node("Reshape", "w s", "u"), node("Slice", "u 0 k", "p"), _T_OF_P],
     {"w": W, "4": np.array([12]), "k": np.array([8]), "0": np.array([0])}, 17),
    # the other name of ONNX's operators
    ([node("Slice", "w b e", "u", domain="ai.onnx"), _T],
     {"w": W, "b": np.array([2]), "e": np.array([7])}, 17),
    # a product of constants, as adapters have it
    ([node("MatMul", "b a", "p"), node("Add", "w p", "u"), _T],
     {"w": W, "b": W[:, :2], "a": W[:2]}, 17),
], ids=lambda one: "-".join(each.op_type for each in one[:-1]) if isinstance(one, list) else None)
def test_weights_that_nodes_make(nodes, constants, opset):
    model = _model(nodes, constants, opset=opset)
    found = survey(model)

    layer, = found.layers
    np.testing.assert_allclose(layer.weight.T, _value(model), rtol=1e-6, atol=1e-6)
    assert found.others == []


def test_sums_of_old_versions_are_not_taken_for_new_ones():
    """Where `axis` says which dimension broadcasts, and numpy would take the last."""
    square = W[:8]
    add = node("Add", "w b", "v", broadcast=1, axis=0)
    found = survey(_model([add], {"w": square, "b": square[0]}, opset=6))
    assert found.layers == []


def test_squares_of_fp16_weights_are_summed_in_fp32():
    """They are beyond fp16; ONNX Runtime has all between two nodes in fp32."""
    nodes = [node("ReduceL2", "w", "n", axes=[1], keepdims=1), node("Div", "w n", "q"),
             node("Cast", "q", "u", to=TensorProto.FLOAT), _T]
    model = _model(nodes, {"w": (300 * W).astype(np.float16)}, opset=13)

    layer, = survey(model).layers
    np.testing.assert_allclose(layer.weight.T, _value(model), rtol=2e-3)


@pytest.mark.parametrize("nodes", [
    # ONNX Runtime begins at the first element, the reference before it.
    [node("Slice", "w b e a s", "p"), node("Concat", "w p", "u", axis=0), _T],
    # The mean of nothing is 0 there, and NaN in the reference.
    [node("ReduceMean", "none", "m", axes=[1]), node("Add", "w m", "u"), _T],
], ids=["Slice", "ReduceMean"])
def test_what_the_reference_computes_in_another_way_is_left(nodes):
    constants = {"w": W, "b": np.array([-20]), "e": np.array([-30]), "a": np.array([0]),
                 "s": np.array([-1]), "none": np.zeros((12, 0), np.float32)}
    model = _model(nodes, constants, opset=17)

    assert np.all(np.isfinite(_value(model)))
    assert survey(model).layers == []


@pytest.mark.parametrize("wrong", [
    node("Add", "w", "v"), helper.make_node("Constant", [], ["v"]), node("Clip", "w", "v", min="a"),
    node("Transpose", "w", "v", perm=["a"]), helper.make_node("Neg", [], ["v"])],
    ids=lambda one: one.op_type)
def test_nodes_that_are_wrong_give_nothing(wrong):
    assert survey(_model([wrong], {"w": W}, opset=17)).layers == []


def test_what_is_random_is_no_constant():
    nodes = [node("RandomNormalLike", "w", "u"), _T]
    assert survey(_model(nodes, {"w": W}, opset=17)).layers == []


def test_a_weight_made_of_what_a_run_may_replace_is_none():
    model = _model([node("Split", "w", "t u p", axis=0), _T], {"w": W}, opset=17)
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, W.shape))
    found = survey(model)
    assert found.layers == []
    assert "a run may replace" in found.others[0].reason


@pytest.mark.parametrize(("nodes", "k"), [
    ([node("Identity", "w", "v")], 8), ([node("Transpose", "w", "v")], 0)])
def test_a_weight_without_elements(nodes, k):
    model = _model(nodes, {"w": np.zeros((8, 0), np.float32)}, opset=17, k=k)
    layer, = survey(model).layers
    assert layer.weight.size == 0


def _as_runtime_or_unknown(made, constants, opset):
    """Of `v`: as ONNX Runtime computes it, or left to it."""
    model = _model([*made, node("Cast", "u", "v", to=TensorProto.FLOAT)], constants, opset=opset)
    given = survey(model).layers
    if given:
        np.testing.assert_array_equal(given[0].weight, _value(model).T)
    return bool(given)


_INTEGERS = np.array([[7, -7, 6], [-2**31, 2**31 - 1, 2]] * 4, np.int32)


@pytest.mark.parametrize(("made", "constants", "opset", "is_known"), [
    ([node("Div", "w d", "u")], {"w": _INTEGERS, "d": np.array([-2, 2, 4], np.int32)}, 14, True),
    ([node("Div", "w d", "u")], {"w": _INTEGERS, "d": np.array([-7], np.int32)}, 14, True),
    ([node("Pow", "w d", "u")], {"w": _INTEGERS, "d": np.float32(2)}, 15, False),
    ([node("Pow", "w d", "u")], {"w": _INTEGERS % 5, "d": np.float32(2)}, 15, True),
    *(([node(op, "w", "u", axes=[1])], {"w": _INTEGERS}, 11, False) for op in (
        "ReduceL1", "ReduceL2", "ReduceMean", "ReduceProd", "ReduceSumSquare")),
    ([node("ReduceSum", "w", "u", axes=[1])], {"w": _INTEGERS % 9}, 11, True),
    ([node("ReduceMean", "w", "u", axes=[1])], {"w": np.zeros((8, 0), np.float32)}, 11, False),
    ([node("Clip", "w d", "u")], {"w": np.full((8, 3), np.inf, np.float32), "d": np.float32(0)},
     13, False),
    ([node("Clip", "w d", "u")], {"w": _INTEGERS.astype(np.float32), "d": np.float32(0)}, 13,
     False),
    ([node("Clip", "w d e", "u")], {"w": _INTEGERS.astype(np.float32), "d": np.float32(0),
                                    "e": np.float32(9)}, 13, True),
])
def test_what_onnx_runtime_computes_in_another_way_is_left(made, constants, opset, is_known):
    assert _as_runtime_or_unknown(made, constants, opset) == is_known


def test_weights_dequantized_to_another_type_are_left():
    made = node("DequantizeLinear", "w s", "v", output_dtype=TensorProto.FLOAT16)
    model = _model([made], {"w": np.ones((8, 4), np.int8), "s": np.float32(2)}, opset=23)
    assert not survey(model).layers


@pytest.mark.parametrize("made", [
    helper.make_node("Constant", [], ["v"]), helper.make_node("ReduceSum", [], ["v"]),
    node("Neg", "", "v"), node("DequantizeLinear", "q s", "v", axis="a"),
    node("Transpose", "w", "v", perm="a"), node("Transpose", "w", "v", perm=[0, 0])])
def test_nodes_that_are_none_make_no_weights(made):
    constants = {"w": W, "q": np.ones((8, 4), np.int8), "s": np.ones(4, np.float32)}
    assert not survey(_model([made], constants, opset=13)).layers


def test_long_chains_of_nodes_of_constants():
    count = 1500
    names = ["w", *(f"t{i}" for i in range(count - 1)), "v"]
    chain = [node("Neg", one, then) for one, then in zip(names, names[1:])]
    model = _model(chain, {"w": W[:8]}, opset=17)
    model.graph.node[-1].op_type = "Gemm"
    layer, = survey(split(model, 0)).layers
    np.testing.assert_array_equal(layer.weight, W[:8].T)
