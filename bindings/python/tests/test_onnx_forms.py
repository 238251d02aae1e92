"""Operators that are split into a layer and the rest."""

from __future__ import annotations

import time

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from onnx import TensorProto, helper, numpy_helper

from spjit._onnx_forms import split
from spjit._onnx_graph import survey
from spjit._onnx_weights import Names

RNG = np.random.default_rng(6)
W = (RNG.standard_normal((4, 6)) * (RNG.random((4, 6)) < 0.3)).astype(np.float32)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def model_of(one, constants, inputs, opset=17):
    graph = helper.make_graph(
        [one], "g", [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                     for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def node(op, inputs, **attributes):
    return helper.make_node(op, inputs.split(), ["y"], name="n", **attributes)


def run(model, feeds):
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)[0]


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("beta", [1.0, 0.5])
@pytest.mark.parametrize("shape", [(3, 1), (1, 1), (3, 6), (1, 6)])
def test_a_sum_that_is_no_bias(shape, beta, constant):
    x, c = floats(3, 4), floats(*shape)
    model = model_of(node("Gemm", "x w c", alpha=2.0, beta=beta), {"w": W, **({"c": c} if constant
                                                                              else {})},
                     {"x": ["n", 4], **({} if constant else {"c": [None, shape[1]]})})
    expected = run(model, {"x": x, **({} if constant else {"c": c})})

    split(model, 0.5)

    assert [one.op_type for one in model.graph.node if one.op_type == "Add"] == (
        [] if constant and shape in ((1, 1), (1, 6)) else ["Add"])
    np.testing.assert_allclose(run(model, {"x": x, **({} if constant else {"c": c})}), expected,
                               rtol=1e-6, atol=1e-6)
    layer, = survey(model).layers
    np.testing.assert_array_equal(layer.weight, 2 * W.T)


@pytest.mark.parametrize("opset", [7, 9, 10, 11])
def test_a_sum_is_split_off_in_the_form_of_the_models_version(opset):
    """Before version 11 a Gemm had to have C, and before 12 a constant was a tensor."""
    x, c = floats(3, 4), floats(3, 1)
    model = model_of(node("Gemm", "x w c", beta=0.5), {"w": W}, {"x": ["n", 4], "c": [None, 1]},
                     opset)
    expected = run(model, {"x": x, "c": c})

    split(model, 0.5)

    assert "Add" in [one.op_type for one in model.graph.node]
    np.testing.assert_allclose(run(model, {"x": x, "c": c}), expected, rtol=1e-6, atol=1e-6)
    assert len(survey(model).layers) == 1


@pytest.mark.parametrize("c", [None, "", "b"])
def test_a_gemm_without_a_sum_stays(c):
    model = model_of(node("Gemm", "x w" if c is None else f"x w {c}"),
                     {"w": W, **({"b": floats(6)} if c else {})}, {"x": ["n", 4]})
    if c == "":
        model.graph.node[0].input.append("")
    assert [one.op_type for one in split(model, 0).graph.node] == ["Gemm"]
    assert len(survey(model).layers) == 1


def test_a_sum_of_the_outputs_shape_stays():
    square = W[:, :4].copy()
    model = model_of(node("Gemm", "x w x"), {"w": square}, {"x": ["n", 4]})
    assert [one.op_type for one in split(model, 0).graph.node] == ["Gemm"]
    assert survey(model).layers[0].residual == "x"


def test_weights_without_zeros_stay():
    model = model_of(node("Gemm", "x w c"), {"w": floats(4, 6)}, {"x": ["n", 4], "c": ["n", 1]})
    assert [one.op_type for one in split(model, 0.5).graph.node] == ["Gemm"]


def flattened(shape, result, *, c="b", gemms=1, **attributes):
    """Reshape, Gemm and Reshape as ONNX Runtime makes them of MatMul and Add, and Relu behind."""
    nodes, outputs = [helper.make_node("Reshape", ["x", "flat"], ["f"])], []
    for i in range(gemms):
        nodes += [helper.make_node("Gemm", ["f", "w", *c.split()], [f"g{i}"],
                                   f"fc{i}/MatMulAddFusion", **attributes),
                  helper.make_node("Reshape", [f"g{i}", "back"], [f"r{i}"]),
                  helper.make_node("Relu", [f"r{i}"], [f"y{i}"])]
        outputs.append(helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, None))
    constants = {"w": W.T.copy() if attributes.get("transB") else W, "b": floats(6),
                 "flat": np.array([-1, 4]), "back": np.array(result)}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)], outputs,
        [numpy_helper.from_array(value, name) for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def operators(model):
    return [one.op_type for one in model.graph.node]


@pytest.mark.parametrize(("shape", "result"), [((2, 3, 4), (2, 3, 6)), ((1, 1, 4), (1, 1, 6)),
                                               ((2, 5, 3, 4), (2, 5, 3, 6)),
                                               ((2, 3, 4), (2, -1, 6))])
@pytest.mark.parametrize("attributes", [{}, {"transB": 1}, {"c": ""}])
def test_a_gemm_between_reshapes_is_a_product_again(shape, result, attributes):
    model, x = flattened(shape, result, **attributes), floats(*shape)
    expected = run(model, {"x": x})

    split(model, 0.5)

    product = ["MatMul"] if attributes.get("c") == "" else ["MatMul", "Add"]
    assert operators(model) == [*(["Transpose"] if "transB" in attributes else []), *product,
                                "Relu"]
    np.testing.assert_allclose(run(model, {"x": x}), expected, rtol=1e-6, atol=1e-6)
    layer, = survey(model).layers
    assert (layer.name, layer.input, layer.output, layer.activation) == ("fc0", "x", "y0", "relu")


def test_a_product_of_one_that_had_no_name_has_one():
    """By which its time is found."""
    model = flattened((2, 3, 4), (2, 3, 6))
    model.graph.node[1].name = "/MatMulAddFusion"

    split(model, 0.5)

    assert [one.name for one in model.graph.node if one.op_type == "MatMul"] == ["MatMul"]


def test_gemms_behind_one_reshape_are_products_again():
    model, x = flattened((2, 3, 4), (2, 3, 6), gemms=2), floats(2, 3, 4)
    expected = run(model, {"x": x})

    split(model, 0.5)

    assert operators(model) == ["MatMul", "Add", "Relu"] * 2
    np.testing.assert_allclose(run(model, {"x": x}), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("shape", "result", "attributes"), [
    ((2, 3, 4), (3, 2, 6), {}), ((2, 3, 4), (2, 3, 2, 3), {}), ((2, 3, 4), (6, 6), {}),
    ((2, "n", 4), (2, -1, 6), {}), (("n", 3, 4), (-1, 3, 6), {}), ((2, 2, 6), (2, 3, 6), {}),
    ((2, 3, 4), (2, 3, 6), {"alpha": 0.5}), ((2, 3, 4), (2, 3, 6), {"beta": 0.5}),
    ((6, 4), (6, 6), {}), ((2, 3, 4), (2, 3, 6), {"c": "f6"}), ((2, 3, 4), (2, 3, 6), {"c": "c"})],
    ids=str)
def test_reshapes_that_move_elements_stay(shape, result, attributes):
    model = flattened(shape, result, **attributes)
    if attributes.get("c"):
        model.graph.initializer.append(numpy_helper.from_array(floats(6, 6), attributes["c"]))
    split(model, 0.5)
    assert operators(model)[:2] == ["Reshape", "Gemm"]
    assert operators(model)[-2:] == ["Reshape", "Relu"]


@pytest.mark.parametrize("seen", ["f", "g0"])
def test_what_others_see_of_a_gemm_between_reshapes_stays(seen):
    model, x = flattened((2, 3, 4), (2, 3, 6)), floats(2, 3, 4)
    model.graph.node.append(helper.make_node("Neg", [seen], ["seen"]))
    model.graph.output.append(helper.make_tensor_value_info("seen", TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    expected = session.run(None, {"x": x})

    split(model, 0.5)

    assert operators(model).count("Reshape") == (1 if seen == "f" else 2)
    found = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("operator", ["Gemm", "FusedMatMul"])
def test_operators_of_others_with_these_names_stay(operator):
    model = model_of(helper.make_node(operator, ["x", "w", "c"], ["y"], domain="mine", transA=1),
                     {"w": W}, {"x": [4, 3], "c": [3, 1]})
    model.opset_import.append(helper.make_opsetid("mine", 1))
    before = model.SerializeToString()
    assert split(model, 0).SerializeToString() == before


def test_many_nodes_without_names_take_no_longer_each():
    names = Names()
    began = time.process_time()
    made = [names.unique("") for _ in range(20_000)]
    assert time.process_time() - began < 2  # 0.02 s; by trying all before, 60 s
    assert len(set(made)) == len(made)
    assert [names.unique("b_2"), names.unique("b"), names.unique("b")] == ["b_2", "b", "b_3"]


@pytest.mark.parametrize(("name", "other"), [("back", (3, 2, 6)), ("flat", (6, 4))])
def test_a_shape_that_a_run_may_replace_is_not_known(name, other):
    """Its default says nothing of the runs that bring another."""
    model = flattened((2, 3, 4), (2, 3, 6))
    if name == "flat":  # weights [1, k, n] make three dimensions of two
        nodes = [helper.make_node("Reshape", ["x", "flat"], ["f"]),
                 helper.make_node("MatMul", ["f", "w"], ["y0"])]
        del model.graph.node[:]
        model.graph.node.extend(nodes)
        for tensor, value in (("w", W[None]), ("flat", np.array([2, 3, 4]))):
            old, = (one for one in model.graph.initializer if one.name == tensor)
            old.CopyFrom(numpy_helper.from_array(value, tensor))
    default, = (one for one in model.graph.initializer if one.name == name)
    model.graph.input.append(helper.make_tensor_value_info(
        name, TensorProto.INT64, None if name == "flat" else default.dims))
    feeds = {"x": floats(2, 3, 4), name: np.array(other)}
    expected = run(model, feeds)

    split(model, 0.5)

    assert run(model, feeds).shape == expected.shape
    assert operators(model)[0] == "Reshape"
    assert [one.op for one in survey(model).layers] == ([] if name == "flat" else ["Gemm"])


def test_a_shape_that_a_run_may_replace_leaves_the_image_open():
    nodes = [helper.make_node("Reshape", ["x", "sizes"], ["image"]),
             helper.make_node("Conv", ["image", "w"], ["y"], auto_pad="SAME_UPPER", strides=[2, 2])]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 36]),
                     helper.make_tensor_value_info("sizes", TensorProto.INT64, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(floats(6, 4, 3, 3), "w"),
         numpy_helper.from_array(np.array([1, 4, 6, 6]), "sizes")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    found = survey(model)
    assert found.layers == []
    assert "leaves open" in found.others[0].reason
    model.ir_version = 3  # where it is no input of a run
    layer, = survey(model).layers
    assert layer.image == (6, 6)
