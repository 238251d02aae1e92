"""Images of bytes between kernels: with channels last they have the bits of the model without."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from onnx import TensorProto, helper, numpy_helper

import spjit.onnx
from onnx_graph_bounds import plain_session
from onnx_testing import kernels_are_faster  # noqa: F401
from spjit import _onnx_constants
from spjit.onnx import _optimize

ZERO, SCALE = 7, 0.05


class Network:
    """Nodes of a quantised network, each of bytes with the same scale and zero point."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.constants = [], {
            "s": np.float32(SCALE), "z": np.uint8(ZERO), "wz": np.int8(0)}

    def node(self, op, inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], f"{op} {name}", **attributes))
        return name

    def constant(self, value):
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def conv(self, x, out, channels, taps=1, zeros=0.8, **attributes):
        weight = self.rng.integers(-127, 128, (out, channels, taps, taps)).astype(np.int8)
        weight[self.rng.random(weight.shape) < zeros] = 0
        scale = self.rng.uniform(0.002, 0.02, out).astype(np.float32)
        bias = self.rng.integers(-500, 500, out).astype(np.int32)
        attributes.setdefault("pads", [taps // 2] * 4)
        return self.node("QLinearConv", [
            x, "s", "z", self.constant(weight), self.constant(scale), "wz", "s", "z",
            self.constant(bias)], **attributes)

    def sum(self, one, other):
        """What ONNX Runtime makes QLinearAdd of."""
        total = self.node("Add", [self.node("DequantizeLinear", [name, "s", "z"])
                                  for name in (one, other)])
        return self.node("QuantizeLinear", [total, "s", "z"])

    def floats(self, x):
        return self.node("DequantizeLinear", [x, "s", "z"])

    def model(self, shape, outputs):
        graph = helper.make_graph(
            self.nodes, "g", [helper.make_tensor_value_info("x", TensorProto.UINT8, shape)],
            [helper.make_tensor_value_info(name, element, None) for name, element in outputs],
            [numpy_helper.from_array(np.asarray(value), name)
             for name, value in self.constants.items()])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def ends_of(fast):
    """Of each kernel, whether its X and its Y have channels last."""
    made = []
    for one in fast.model.graph.node:
        if one.domain == "spjit":
            made.append(tuple(bool(_onnx_constants.attribute_of(one, name, 0))
                              for name in ("x_tokens", "y_tokens")))
    return made


def operators(fast):
    return [one.op_type for one in fast.model.graph.node if one.domain != "spjit"]


def checked(tmp_path, monkeypatch, network, outputs, shape, symbolic=None):
    """The optimized model, which gives the bits of ONNX Runtime and of kernels alone."""
    path = tmp_path / "model.onnx"
    onnx.save(network.model(symbolic or list(shape), outputs), str(path))
    x = network.rng.integers(0, 256, shape).astype(np.uint8)
    fast = spjit.onnx.optimize(path, x)
    with monkeypatch.context() as patch:
        patch.setattr(_optimize, "with_tokens", lambda model, _: model)
        alone = spjit.onnx.optimize(path, x)
    assert not any(map(any, ends_of(alone)))
    right = plain_session(onnx.load(str(path))).run(None, {"x": x})
    fast.save(tmp_path / "fast.onnx")
    again = spjit.onnx.load(tmp_path / "fast.onnx").run(None, {"x": x})
    for y, saved, of_alone, of_dense in zip(fast(x), again, alone(x), right):
        assert y.dtype == of_dense.dtype
        assert len(np.unique(y)) > min(y.size // 10, 20)  # not all of them saturate
        np.testing.assert_array_equal(y, of_alone)
        np.testing.assert_array_equal(y, of_dense)
        np.testing.assert_array_equal(y, saved)
    return fast


U8 = TensorProto.UINT8


@pytest.mark.parametrize("shape", [(1, 6, 9, 7), (2, 6, 5, 13), (3, 6, 1, 1)])
def test_a_chain_transposes_nothing(tmp_path, monkeypatch, shape):
    net = Network()
    y = net.conv("x", 10, 6, 3)
    y = net.conv(y, 70, 10)
    y = net.conv(y, 12, 35, 3, strides=[2, 2], group=2)
    y = net.conv(y, 5, 12, 3, pads=[0, 2, 2, 0])

    fast = checked(tmp_path, monkeypatch, net, [(y, U8)], shape)

    assert ends_of(fast) == [(False, True), (True, True), (True, True), (True, False)]
    assert "Transpose" not in operators(fast)


def test_images_of_any_size(tmp_path, monkeypatch):
    net = Network()
    y = net.conv(net.conv(net.conv("x", 8, 6, 3), 20, 8), 8, 20, 3)

    fast = checked(tmp_path, monkeypatch, net, [(y, U8)], (2, 6, 9, 7), ["n", 6, "h", "w"])

    x = net.rng.integers(0, 256, (1, 6, 17, 12)).astype(np.uint8)
    right, = plain_session(onnx.load(str(tmp_path / "model.onnx"))).run(None, {"x": x})
    np.testing.assert_array_equal(fast(x)[0], right)
    assert fast(x[:0])[0].shape == (0, 8, 17, 12)


def bottleneck(net, x, channels, inner):
    return net.sum(net.conv(net.conv(net.conv(x, inner, channels), inner, inner, 3),
                            channels, inner), x)


def test_sums_of_a_residual_have_channels_last_too(tmp_path, monkeypatch):
    net = Network()
    x = net.conv("x", 16, 6)
    y = bottleneck(net, bottleneck(net, x, 16, 8), 16, 8)
    last = net.conv(y, 5, 16)

    fast = checked(tmp_path, monkeypatch, net, [(last, U8)], (2, 6, 7, 9))

    assert ends_of(fast) == [(False, True), *[(True, True)] * 6, (True, False)]
    assert operators(fast).count("QLinearAdd") == 2
    assert "Transpose" not in operators(fast)


def test_what_others_read_is_transposed_once(tmp_path, monkeypatch):
    net = Network()
    middle = net.conv("x", 16, 6)
    y = net.conv(net.conv(middle, 16, 16, 3), 16, 16)
    foreign = net.node("Sigmoid", [net.floats(middle)])
    another = net.node("Tanh", [net.floats(middle)])
    outputs = [(middle, U8), (y, U8), (foreign, TensorProto.FLOAT), (another, TensorProto.FLOAT)]

    fast = checked(tmp_path, monkeypatch, net, outputs, (2, 6, 7, 9))

    assert ends_of(fast) == [(False, True), (True, True), (True, False)]
    assert operators(fast).count("Transpose") == 1


def test_one_end_alone_is_no_reason_to_transpose(tmp_path, monkeypatch):
    net = Network()
    y = net.conv("x", 16, 6)

    fast = checked(tmp_path, monkeypatch, net, [(y, U8)], (2, 6, 7, 9))

    assert ends_of(fast) == [(False, False)]
    assert "Transpose" not in operators(fast)


def test_pooling_between_kernels_has_channels_last(tmp_path, monkeypatch):
    net = Network()
    pooled = net.node("MaxPool", [net.conv("x", 16, 6)], kernel_shape=[3, 2], strides=[2, 1],
                      pads=[1, 0, 0, 1])
    y = net.conv(pooled, 16, 16)

    fast = checked(tmp_path, monkeypatch, net, [(y, U8)], (2, 6, 7, 9))

    assert ends_of(fast) == [(False, True), (True, False)]
    assert "NhwcMaxPool" in operators(fast) and "Transpose" not in operators(fast)


def test_pooling_of_another_image_stays(tmp_path, monkeypatch):
    net = Network()
    pooled = net.node("MaxPool", ["x"], kernel_shape=[2, 2])
    y = net.conv(net.conv(pooled, 16, 6), 16, 16)

    fast = checked(tmp_path, monkeypatch, net, [(y, U8)], (2, 6, 7, 9))

    assert ends_of(fast) == [(False, True), (True, False)]
    assert "MaxPool" in operators(fast)


def test_a_dense_convolution_between_kernels(tmp_path, monkeypatch):
    net = Network()
    dense = net.conv(net.conv("x", 16, 6), 16, 16, 3, zeros=0.1)
    y = net.conv(dense, 16, 16)

    fast = checked(tmp_path, monkeypatch, net, [(y, U8)], (2, 6, 7, 9))

    assert ends_of(fast) == [(False, True), (True, False)]
    assert operators(fast).count("Transpose") == 2  # ONNX Runtime puts the other ones there


def test_a_sum_with_a_constant_stays(tmp_path, monkeypatch):
    net = Network()
    x = net.conv("x", 16, 6)
    constant = net.constant(net.rng.integers(0, 256, (1, 16, 7, 9)).astype(np.uint8))
    y = net.conv(net.sum(x, constant), 16, 16)

    fast = checked(tmp_path, monkeypatch, net, [(y, U8)], (2, 6, 7, 9))

    assert ends_of(fast) == [(False, False), (False, False)]


def test_a_sum_that_broadcasts(tmp_path, monkeypatch):
    net = Network()
    x = net.conv("x", 16, 6)
    mean = net.conv(x, 16, 16, 7, pads=[0] * 4, kernel_shape=[7, 7])  # 1 x 1
    y = net.conv(net.sum(x, mean), 16, 16)

    fast = checked(tmp_path, monkeypatch, net, [(y, U8)], (2, 6, 7, 7))

    assert ends_of(fast) == [(False, True), (True, True), (True, False)]


def test_signed_bytes(tmp_path, monkeypatch):
    net = Network()
    net.constants["z"] = np.int8(-9)
    net.constants["z8"] = np.uint8(120)
    first = net.node("QuantizeLinear", [net.node("DequantizeLinear", ["x", "s", "z8"]), "s", "z"])
    y = net.conv(net.conv(net.conv(first, 16, 6, 3), 70, 16), 16, 70, 3)

    fast = checked(tmp_path, monkeypatch, net, [(y, TensorProto.INT8)], (2, 6, 7, 9))

    assert ends_of(fast) == [(False, True), (True, True), (True, False)]


def test_other_shapes_of_a_run_are_refused(tmp_path):
    net = Network()
    y = net.conv(net.conv("x", 16, 6), 16, 16, 3)
    path = tmp_path / "model.onnx"
    onnx.save(net.model(["n", 6, "h", "w"], [(y, U8)]), str(path))
    fast = spjit.onnx.optimize(path, np.zeros((1, 6, 5, 5), np.uint8))
    model = fast.model
    kernel = next(one for one in model.graph.node if one.domain == "spjit")
    kernel.attribute.append(helper.make_attribute("x_tokens", 1))
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "c"
    fast.save(tmp_path / "fast.onnx")
    onnx.save(model, str(tmp_path / "fast.onnx"))
    session = spjit.onnx.load(tmp_path / "fast.onnx")

    with pytest.raises(Exception, match=r"\[2, 3, 4, 5\]; expected \[batch, \.\.\., 6\]"):
        session.run(None, {"x": np.zeros((2, 3, 4, 5), np.uint8)})
