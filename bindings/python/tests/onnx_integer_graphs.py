"""Random ONNX graphs of products of integers: as quantisers write them, as ONNX Runtime fuses them,
and much like these."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSETS = [("", 20), ("com.microsoft", 1)]
SIZES = (1, 2, 5, 16, 33, 64, 130)
TOKENS = (0, 1, 1, 2, 3, 7, 8, 17)
TYPES = {np.float32: TensorProto.FLOAT, np.uint8: TensorProto.UINT8, np.int8: TensorProto.INT8}


@dataclass
class Case:
    model: onnx.ModelProto
    reference: onnx.ModelProto  # what it has to compute, by ONNX Runtime without its optimizer
    x: dict
    fuse: bool  # by ONNX Runtime, before layers are looked for
    has_nan: bool  # in x


@dataclass
class Made:
    """A graph in the making."""

    rng: np.random.Generator
    nodes: list = field(default_factory=list)
    reference: list = field(default_factory=list)  # in place of `nodes`
    constants: dict = field(default_factory=dict)
    inputs: dict = field(default_factory=dict)
    outputs: list = field(default_factory=list)
    fuse: bool = False
    has_nan: bool = False
    # Between two that follow one another, ONNX Runtime leaves out nodes that quantise, and computes
    # something else.
    is_single: bool = False

    def constant(self, value):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def input(self, value):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = value
        return name

    def node(self, op, *inputs, outputs=1, domain="", into=None, **attributes):
        """into: the list that it is for; None: both."""
        name = f"n{len(self.nodes)}_{len(self.reference)}"
        names = [f"{name}_{i}" for i in range(outputs)]
        made = helper.make_node(op, list(inputs), names, name, domain=domain, **attributes)
        for nodes in [self.nodes, self.reference] if into is None else [into]:
            nodes.append(made)
        return names[0] if outputs == 1 else names

    def either(self, op, one, other):
        return self.node(op, *((one, other) if self.rng.random() < 0.5 else (other, one)))

    def chance(self, probability):
        return bool(self.rng.random() < probability)


# ---- Operands -------------------------------------------------------------------------------


def floats(made, *shape):
    return made.rng.standard_normal(shape).astype(np.float32)


def activations(made, shape):
    """Of floats: also all 0, of one sign, tiny, large, and with NaN or infinity."""
    x = floats(made, *shape)
    kind = made.rng.integers(16)
    if kind == 0:
        return x * 0
    if kind == 1:
        return np.abs(x) + 3
    if kind == 2:
        return (x * 1e-42).astype(np.float32)
    if kind == 3:
        made.is_single = True  # what overflows would be no number for the next
        return (x * 1e37).astype(np.float32)
    if kind == 4:
        return np.round(x)  # halves, and differences that are 0
    if kind == 5 and x.size:
        x.reshape(-1)[made.rng.integers(x.size)] = made.rng.choice([np.nan, np.inf, -np.inf])
        made.has_nan = True
    return x


def type_of_weights(made, of_x):
    """ONNX Runtime has no product of i8 and u8."""
    return np.int8 if of_x is np.int8 or made.chance(0.6) else np.uint8


def zero_point(made, dtype, columns):
    """Of weights. None: there is none."""
    info = np.iinfo(dtype)
    usual = [info.min, info.max, 0, 128 if dtype is np.uint8 else 3]
    kind = made.rng.integers(4)
    if kind == 0:
        return None
    if kind == 1:
        return np.array(made.rng.choice(usual), dtype)
    if kind == 2:
        return np.full((1,), 128 if dtype is np.uint8 else 0, dtype)
    return made.rng.choice(usual if made.chance(0.3) else [usual[3], usual[3] - 2],
                           columns).astype(dtype)


def weights(made, k, columns, zero):
    """[k, columns], most of them what stands for 0. Zero points are [], [1] or [columns]."""
    dtype = np.int8 if zero is None else zero.dtype.type
    info = np.iinfo(dtype)
    middle = np.broadcast_to(0 if zero is None else zero.astype(int), (k, columns))
    reach = 255 if made.chance(0.1) else 127  # beyond what a kernel's weights may be
    low = np.maximum(middle - reach - 1, info.min)
    high = np.minimum(middle + reach, info.max)
    values = made.rng.integers(low, high + 1)
    kept = made.rng.random((k, columns)) < made.rng.choice([0, 0.1, 0.3, 0.5])
    if made.chance(0.3):
        kept &= made.rng.random(columns) < 0.7  # some without entries
    if made.chance(0.05):
        kept[:] = True
    return np.where(kept, values, middle).astype(dtype)


def scale(made, columns):
    """Of weights: one number, or one a column."""
    shape = [(), (1,), (columns,)][made.rng.integers(3)]
    return np.asarray(10**made.rng.uniform(-4, 0, shape), np.float32)


def bias_of(made, columns):
    return floats(made, *[(columns,), (1,), (columns,)][made.rng.integers(3)])


# ---- Products -------------------------------------------------------------------------------


@dataclass
class Bytes:
    """A value of integers, and what they stand for: names."""

    value: str
    scale: str
    zero_point: str
    k: int
    dtype: type = np.uint8


def dynamic(made, x, k):
    value, scale_, zero = made.node("DynamicQuantizeLinear", x, outputs=3)
    return Bytes(value, scale_, zero, k)


def static(made, x, k):
    dtype = made.rng.choice([np.uint8, np.uint8, np.int8])
    info = np.iinfo(dtype)
    zero = np.array(made.rng.choice([info.min, info.max, 0, made.rng.integers(info.min, info.max)]),
                    dtype)
    names = made.constant(np.float32(10**made.rng.uniform(-3, 0))), made.constant(zero)
    return Bytes(made.node("QuantizeLinear", x, *names), *names, k, dtype)


def operands(made, of, columns):
    """Names of weights, of their scale and of their zero point or "", as ONNX Runtime takes them
    with bytes of this type."""
    zero = zero_point(made, type_of_weights(made, of.dtype), columns)
    w = weights(made, of.k, columns, zero)
    return (made.constant(w), made.constant(scale(made, columns)),
            "" if zero is None else made.constant(zero))


def sums(made, of, w, zero):
    return made.node("MatMulInteger", of.value, w, *([of.zero_point, zero] if zero else
                                                     [of.zero_point]))


def product(made, of):
    """Floats of MatMulInteger, as quantize_dynamic has it; in some cases not quite."""
    columns = int(made.rng.choice(SIZES))
    w, w_scale, zero = operands(made, of, columns)
    total = made.node("Cast", sums(made, of, w, zero), to=TensorProto.FLOAT)
    kind = made.rng.integers(12)
    if kind == 0:
        y = made.either("Mul", made.either("Mul", total, of.scale), w_scale)
    elif kind == 1:
        y = made.either("Mul", total, w_scale)
    elif kind == 2:
        y = made.either("Mul", total, of.scale)
    else:
        both = made.either("Mul", of.scale, w_scale)
        y = made.either("Mul", total, both)
        if kind == 3:
            made.outputs.append(both)
    return y, columns


def fused_product(made, of):
    columns = int(made.rng.choice(SIZES))
    w, w_scale, zero = operands(made, of, columns)
    bias = [made.constant(floats(made, columns))] if made.chance(0.6) else []
    if bias and not zero:
        zero = made.constant(np.zeros((), made.constants[w].dtype))
    y = made.node("MatMulIntegerToFloat", of.value, w, of.scale, w_scale, of.zero_point,
                  *([zero] if zero else []), *bias, domain="com.microsoft")
    return y, columns


def quantising_product(made, x, k):
    columns = int(made.rng.choice(SIZES))
    w, w_scale, zero = operands(made, Bytes(x, "", "", k), columns)
    bias = [made.constant(floats(made, columns))] if made.chance(0.6) else []
    y = made.node("DynamicQuantizeMatMul", x, w, w_scale, zero, *bias, domain="com.microsoft")
    return y, columns


def followers(made, y, columns):
    """A bias and an activation, or not."""
    if made.chance(0.6):
        y = made.either("Add", y, made.constant(bias_of(made, columns)))
        if made.chance(0.1):
            y = made.either("Add", y, made.constant(bias_of(made, columns)))
    if made.chance(0.1):
        made.outputs.append(y)
    kind = made.rng.integers(9) if not made.has_nan else 8
    if kind == 0:
        return made.node("Relu", y)
    if kind == 1:
        return made.node("Clip", y, made.constant(np.float32(-0.5)), made.constant(np.float32(1)))
    if kind == 2:
        return made.node("LeakyRelu", y, alpha=float(np.float32(0.07)))
    if kind == 3:
        return made.node("PRelu", y, made.constant(np.full(1, 0.25, np.float32)))
    if kind == 4:
        return made.node(str(made.rng.choice(["Sigmoid", "Tanh", "Softplus", "Erf"])), y)
    if kind == 5:
        return made.either("Mul", y, made.constant(np.float32(made.rng.uniform(0.1, 3))))
    return y


def static_product(made, of):
    """QLinearMatMul; or, where ONNX Runtime fuses, the nodes that it makes one of."""
    columns = int(made.rng.choice(SIZES))
    zero = zero_point(made, type_of_weights(made, of.dtype), columns)
    dtype = np.int8 if zero is None else zero.dtype.type
    zero = np.zeros((), dtype) if zero is None or zero.shape == (1,) and dtype is np.int8 else zero
    w = weights(made, of.k, columns, zero)
    w_scale = np.asarray(10**made.rng.uniform(-4, -1, zero.shape), np.float32)
    info = np.iinfo(of.dtype)
    y_scale = made.constant(np.float32(10**made.rng.uniform(-3, 1)))
    y_zero = made.constant(np.array(made.rng.integers(info.min, info.max + 1), of.dtype))
    names = made.constant(w), made.constant(w_scale), made.constant(zero)
    given = [of.value, of.scale, of.zero_point, *names, y_scale, y_zero]
    if not (made.fuse and made.is_single and made.chance(0.7)):
        y = made.node("QLinearMatMul", *given)
    else:
        y = made.node("QLinearMatMul", *given, into=made.reference)
        x = made.node("DequantizeLinear", *given[:3], into=made.nodes)
        w = made.node("DequantizeLinear", *given[3:6], into=made.nodes, axis=1)
        product = made.node("MatMul", x, w, into=made.nodes)
        made.nodes.append(helper.make_node("QuantizeLinear", [product, y_scale, y_zero], [y]))
    return Bytes(y, y_scale, y_zero, columns, of.dtype), made.node(
        "DequantizeLinear", y, y_scale, y_zero)


# ---- Graphs ---------------------------------------------------------------------------------


def dynamic_block(made, x, k):
    """What one DynamicQuantizeLinear gives goes to one product, or to several."""
    if made.chance(0.25):
        y, columns = quantising_product(made, x, k)
        return followers(made, y, columns), columns
    of = dynamic(made, x, k)
    ends = [(product if made.chance(0.7) else fused_product)(made, of)
            for _ in range(int(made.rng.choice([1, 1, 1, 2, 3])))]
    if made.chance(0.1):
        made.outputs.append(made.node("DequantizeLinear", of.value, of.scale, of.zero_point))
    ends = [(followers(made, y, columns), columns) for y, columns in ends]
    made.outputs += [y for y, _ in ends[1:]]
    return ends[0]


def static_block(made, x, k):
    of = static(made, x, k)
    if made.chance(0.5):
        of, y = static_product(made, of)
        return y, of.k
    y, columns = (product if made.chance(0.5) else fused_product)(made, of)
    return followers(made, y, columns), columns


def bytes_alone(made, shape):
    """MatMulInteger of an input of bytes, whose sums are seen."""
    dtype = made.rng.choice([np.uint8, np.int8])
    info = np.iinfo(dtype)
    x = made.input(made.rng.integers(info.min, info.max + 1, shape).astype(dtype))
    columns = int(made.rng.choice(SIZES))
    zero = zero_point(made, np.int8 if dtype is np.int8 else np.uint8, columns)
    w = made.constant(weights(made, shape[-1], columns, zero))
    of = made.constant(np.array(made.rng.integers(info.min, info.max + 1), dtype))
    if zero is not None:
        made.outputs.append(made.node("MatMulInteger", x, w, of, made.constant(zero)))
    else:
        made.outputs.append(made.node("MatMulInteger", x, w, *([of] if made.chance(0.5) else [])))


def case_of(seed):
    rng = np.random.default_rng(seed)
    made = Made(rng, fuse=bool(rng.random() < 0.6))
    k = int(rng.choice(SIZES))
    lead = [(int(rng.choice(TOKENS)),), (), (int(rng.choice(TOKENS)), 2)][rng.choice(3, p=[0.6, 0.1,
                                                                                          0.3])]
    if made.chance(0.2):
        bytes_alone(made, (*lead, k))
    else:
        x = made.input(activations(made, (*lead, k)))
        blocks = 1 if made.has_nan or made.is_single else int(rng.choice([1, 1, 2, 3]))
        made.is_single = blocks == 1
        for _ in range(blocks):
            x, k = (dynamic_block if made.chance(0.7) or made.has_nan else static_block)(made, x, k)
        made.outputs.append(x)
    outputs = list(dict.fromkeys(made.outputs))
    return Case(_model(made, made.nodes, outputs), _model(made, made.reference, outputs),
                made.inputs, made.fuse, made.has_nan)


def _model(made, nodes, outputs):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(name, TYPES[value.dtype.type], value.shape)
                     for name, value in made.inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in made.constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(*one) for one in OPSETS],
                             ir_version=9)
