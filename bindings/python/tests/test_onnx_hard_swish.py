"""Hard swishes of several nodes, in kernels and behind what stays dense."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from onnx import TensorProto, helper
from onnx_testing import (  # noqa: F401
    IMAGE,
    check,
    floats,
    kernels_are_faster,
    node,
    sparse,
    write,
)


def hard_swish(*, three="three", six="six", gated="c"):
    return [node("Add", f"c {three}", "a"), node("Clip", f"a zero {six}", "l"),
            node("Mul", f"{gated} l", "m"), node("Div", "m six", "y")]


SWISH = {"w": sparse(8, 8, 3, 3), "b": floats(8), "zero": np.float32(0), "three": np.float32(3),
         "six": np.float32(6), "two": np.float32(2),
         "three_of_5_dimensions": np.full((1, 1, 1, 1, 1), 3, np.float32)}


def test_a_hard_swish_behind_a_convolution(tmp_path):
    path = write(tmp_path / "m.onnx", [node("Conv", "x w b", "c"), *hard_swish()], SWISH,
                 list(IMAGE))
    fast = check(path, floats(*IMAGE), 1)
    assert [one.op_type for one in fast.model.graph.node] == ["SparseLayer"]


def test_a_hard_swish_behind_what_is_no_layer(tmp_path):
    path = write(tmp_path / "m.onnx", [node("Conv", "x w b", "o"), node("Abs", "o", "c"),
                                       *hard_swish()], SWISH, list(IMAGE))
    fast = check(path, floats(*IMAGE), 1)
    assert [one.op_type for one in fast.model.graph.node][1:] == ["Abs", "HardSigmoid", "Mul"]


@pytest.mark.parametrize("wrong", [{"three": "two"}, {"three": "three_of_5_dimensions"},
                                   {"six": "two"}, {"gated": "a"}])
def test_what_is_no_hard_swish_stays(tmp_path, wrong):
    path = write(tmp_path / "m.onnx", [node("Conv", "x w b", "c"), *hard_swish(**wrong)], SWISH,
                 list(IMAGE))
    fast = check(path, floats(*IMAGE), 1)
    assert "HardSigmoid" not in [one.op_type for one in fast.model.graph.node]


def test_a_hard_swish_that_a_graph_within_a_node_sees_stays(tmp_path):
    inner = helper.make_graph([node("Neg", "l", "n")], "inner", [],
                              [helper.make_tensor_value_info("n", TensorProto.FLOAT, None)])
    nodes = [node("Conv", "x w b", "o"), node("Abs", "o", "c"), *hard_swish()[:-1],
             node("Div", "m six", "h"), node("ReduceMax", "o", "r", keepdims=0),
             node("Greater", "r zero", "when"),
             node("If", "when", "i", then_branch=inner, else_branch=inner),
             node("Add", "h i", "y")]
    fast = check(write(tmp_path / "m.onnx", nodes, SWISH, list(IMAGE)), floats(*IMAGE), 1)
    assert "HardSigmoid" not in [one.op_type for one in fast.model.graph.node]


def test_a_hard_swish_of_float64_stays(tmp_path):
    constants = {name: np.float64(value) if np.ndim(value) == 0 else value
                 for name, value in SWISH.items()}
    nodes = [node("Conv", "x w b", "o"), node("Cast", "o", "c", to=TensorProto.DOUBLE),
             *hard_swish()[:-1], node("Div", "m six", "h"),
             node("Cast", "h", "y", to=TensorProto.FLOAT)]
    fast = check(write(tmp_path / "m.onnx", nodes, constants, list(IMAGE)), floats(*IMAGE), 1)
    assert "HardSigmoid" not in [one.op_type for one in fast.model.graph.node]
