"""Random ONNX graphs: layers, and behind them chains of elementwise nodes, most of them much like
activations."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 20
FLAG = "flag"  # of branches
ROWS, FEATURES, CHANNELS = 12, 10, 4
# Of constants: those of activations and clamps, and what is near.
USUAL = (0, 1, -1, 0.5, 2, 3, 6, 1 / 6, 7, 10, 20, -0.5, 2**0.5, 0.5**0.5, (2 / math.pi)**0.5,
         0.044715, 1.702, 0.2, 100, 1e4, 3e-5)


@dataclass
class Made:
    """A graph in the making. Values are those behind one layer, all of one shape but the last."""

    rng: np.random.Generator
    nodes: list = field(default_factory=list)
    constants: dict = field(default_factory=dict)
    inputs: dict = field(default_factory=dict)
    shape: tuple = ()  # of what is behind the layer
    trailing: int = 0  # of its dimensions, those behind that of rows
    more: int = 0
    fuse: bool = False  # by ONNX Runtime, which itself lets weights of convolutions leave fp32

    def constant(self, value):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value, np.float32)
        return name

    def scalar(self, value):
        """With as many dimensions as do not change a shape, but for `more` of them."""
        ones = (1, ) * (int(self.rng.choice([0, 0, 0, 1, len(self.shape)])) if not self.more else
                        len(self.shape) + self.more)
        return self.constant(np.full(ones, value, np.float32))

    def input(self, values):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = values
        return name

    def node(self, op, *inputs, domain="", **attributes):
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [output], f"n{len(self.nodes)}",
                                           domain=domain, **attributes))
        return output

    def either(self, op, one, other):
        return self.node(op, *((one, other) if self.rng.random() < 0.5 else (other, one)))

    def number(self):
        kind = self.rng.random()
        if kind < 0.6:
            return float(self.rng.choice(USUAL))
        largest = self.rng.uniform(*((-6, 8) if kind < 0.95 else (-30, 30)))
        return float(self.rng.choice([-1, 1]) * 10**(largest / 4 if self.is_fused else largest))

    @property
    def is_fused(self):
        return self.fuse and len(self.shape) == 4

    def near(self, value):
        """The number, or in one of twelve cases another."""
        kind = self.rng.random()
        if kind > 1 / 12:
            return self.scalar(value)
        return self.scalar(self.number() if kind < 1 / 36 else value * (1 + 10**self.rng.uniform(
            -5, 0)))


# ---- What is behind a layer -------------------------------------------------------------------


def gate_half(made, x, t):
    """x * (t + 1) / 2 in some order."""
    more = made.either("Add", t, made.near(1))
    kind = made.rng.integers(4)
    if kind == 0:
        return made.either("Mul", made.either("Mul", x, more), made.near(0.5))
    if kind == 1:
        return made.either("Mul", made.either("Mul", x, made.near(0.5)), more)
    if kind == 2:
        return made.node("Div", made.either("Mul", x, more), made.near(2))
    return made.either("Mul", x, made.either("Mul", more, made.near(0.5)))


def gelu(made, x):
    if made.rng.random() < 0.3:
        return made.node("Gelu", x, approximate=str(made.rng.choice(["none", "tanh"])))
    inner = (made.node("Div", x, made.near(2**0.5)) if made.rng.random() < 0.5 else
             made.either("Mul", x, made.near(0.5**0.5)))
    return gate_half(made, x, made.node("Erf", inner))


def gelu_tanh(made, x):
    cube = (made.node("Pow", x, made.near(3)) if made.rng.random() < 0.5 else
            made.either("Mul", x, made.node("Mul", x, x)))
    total = made.either("Add", x, made.either("Mul", cube, made.near(0.044715)))
    return gate_half(made, x, made.node("Tanh", made.either("Mul", total,
                                                            made.near((2 / math.pi)**0.5))))


def silu(made, x):
    if made.rng.random() < 0.2:
        return made.node("Div", x, made.either("Add", made.near(1), made.node(
            "Exp", made.node("Neg", x))))
    if made.rng.random() < 0.2:  # QuickGelu
        return made.either("Mul", x, made.node("Sigmoid", made.either("Mul", x, made.near(1.702))))
    return made.either("Mul", x, made.node("Sigmoid", x))


def clip(made, x):
    low, high = sorted([made.number(), made.number()], reverse=made.rng.random() < 0.05)
    names = [made.constant(low), made.constant(high)]  # of no dimensions, as ONNX Runtime wants it
    kind = made.rng.random()
    return made.node("Clip", x, *(names if kind < 0.5 else [names[0]] if kind < 0.7 else
                                  ["", names[1]]))


def hard_swish(made, x):
    kind = made.rng.integers(4)
    if kind == 0:
        return made.node("HardSwish", x)
    if kind == 1:
        alpha = 1 / 6 if made.rng.random() < 0.8 else 0.2
        return made.either("Mul", x, made.node("HardSigmoid", x, alpha=alpha, beta=0.5))
    more = made.either("Add", x, made.near(3))
    gate = made.node("Clip", more, made.constant(0),
                     made.constant(6 if made.rng.random() < 0.9 else 5.9))
    if kind == 2:
        return made.node("Div", made.either("Mul", x, gate), made.near(6))
    return made.either("Mul", x, made.either("Mul", gate, made.near(1 / 6)))


def of_rows(made):
    """The shape of a constant that has a number for each row."""
    return (ROWS, *(1, ) * made.trailing)


def leaky_relu(made, x):
    kind = made.rng.integers(3)
    slope = made.number() if made.rng.random() < 0.5 else float(made.rng.choice([0.01, 0.1, 0.2]))
    if kind == 0 or made.more:
        return made.node("LeakyRelu", x, **({} if made.rng.random() < 0.2 else {"alpha": slope}))
    if kind == 1:
        return made.node("PRelu", x, made.scalar(slope) if made.rng.random() < 0.9 else
                         made.constant(slope * made.rng.standard_normal(of_rows(made))))
    return made.either("Max", x, made.either("Mul", x, made.scalar(slope)))


def hard_sigmoid(made, x):
    kind = made.rng.random()
    return made.node("HardSigmoid", x, **(
        {} if kind < 0.3 else {"alpha": 1 / 6} if kind < 0.5 else {"beta": made.number()}
        if kind < 0.6 else {"alpha": made.number(), "beta": made.number()}))


def sigmoid(made, x):
    if made.rng.random() < 0.8:
        return made.node("Sigmoid", x)
    more = made.either("Add", made.near(1), made.node("Exp", made.node("Neg", x)))
    return made.node("Div", made.near(1), more)


UNARY = (("Relu", {}), ("Tanh", {}), ("Tanh", {}), ("Softplus", {}), ("Softsign", {}), ("Neg", {}),
         ("Abs", {}), ("Exp", {}), ("Erf", {}), ("Identity", {}), ("Elu", {"alpha": 0.7}),
         ("Selu", {}), ("ThresholdedRelu", {"alpha": 2.0}), ("Mish", {}))


def unary(made, x):
    op, attributes = UNARY[made.rng.integers(len(UNARY))]
    return made.node(op, x, **attributes)


def binary(made, x):
    op = str(made.rng.choice(["Add", "Sub", "Mul", "Div", "Min", "Max", "Pow"]))
    if op == "Pow":
        return made.node(op, x, made.scalar(float(made.rng.choice([1, 2, 3]))))
    operands = [x, made.scalar(made.number())]
    if op != "Div" and made.rng.random() < 0.3:
        operands.reverse()
    return made.node(op, *operands)


def vector(made, x):
    """A constant of each row: a bias or a factor."""
    values = made.rng.standard_normal(of_rows(made)) * 10**made.rng.uniform(-3, 4)
    if made.rng.random() < 0.2:  # some leave fp32 with weights of 1
        exponent = made.rng.choice([-42, -20, 35, 38])
        values *= 10.0**(exponent / 5 if made.is_fused else exponent)
    return affine(made, x, np.clip(values, -3e38, 3e38))


def affine(made, x, values):
    op = str(made.rng.choice(["Add", "Add", "Mul", "Mul", "Sub", "Div"]))
    constant = made.constant(values)
    if op == "Div" or (op == "Sub" and made.rng.random() < 0.5):
        return made.node(op, x, constant)
    return made.node(op, constant, x) if op == "Sub" else made.either(op, x, constant)


def normalization(made, x):
    if len(made.shape) != 4:
        return vector(made, x)
    mean, shift, scale = (made.rng.standard_normal(ROWS) * 10**made.rng.uniform(-2, 3)
                          for _ in range(3))
    variance = made.rng.random(ROWS) * 10**made.rng.uniform(-6, 6)
    return made.node("BatchNormalization", x, *map(made.constant, (scale, shift, mean, variance)),
                     epsilon=float(made.rng.choice([1e-5, 1e-3])))


STEPS = ((gelu, 3), (gelu_tanh, 2), (silu, 3), (hard_swish, 3), (clip, 4), (leaky_relu, 2),
         (hard_sigmoid, 1), (sigmoid, 1), (unary, 3), (binary, 4), (vector, 3), (normalization, 2))
WEIGHTS = np.array([weight for _, weight in STEPS]) / sum(weight for _, weight in STEPS)


ACTIVATIONS = (gelu, gelu_tanh, silu, silu, hard_swish, leaky_relu, hard_sigmoid, sigmoid, unary)


def typical(made, x):
    """What networks have: a bias, a factor or a normalization, an activation, and a clamp."""
    for _ in range(made.rng.choice([0, 0, 0, 1, 1, 2])):
        x = (vector if made.rng.random() < 0.6 else normalization)(made, x)
    if made.rng.random() < 0.2:
        x = made.either("Add", x, made.input(inputs_of(made.rng, made.shape)))
    made.more = int(made.rng.random() < 0.1)
    x = ACTIVATIONS[made.rng.integers(len(ACTIVATIONS))](made, x)
    made.more = 0
    limit = made.constant(made.rng.choice([7, 10, 20, 1e3, made.number()]))
    kind = made.rng.integers(4)
    if kind == 0:
        return made.node("Clip", x, "", limit)
    if kind == 1:
        return made.either("Min", x, limit)
    return x if kind == 2 else clip(made, x)


def behind(made, x):
    """A chain behind x; the values of which the graph gives some."""
    if made.rng.random() < 0.5:
        return [x, typical(made, x)]
    values = [x]
    for _ in range(made.rng.integers(1, 5)):
        x = values[-1] if made.rng.random() < 0.85 else str(made.rng.choice(values))
        step = STEPS[made.rng.choice(len(STEPS), p=WEIGHTS)][0]
        values.append(step(made, x))
        if made.rng.random() < 0.15:
            values.append(made.either(str(made.rng.choice(["Add", "Mul", "Max"])), values[-1],
                                      str(made.rng.choice(values))))
    if made.rng.random() < 0.05:
        made.more = 1
        values.append(binary(made, values[-1]))
        made.more = 0
    return values


# ---- Graphs -----------------------------------------------------------------------------------


@dataclass
class Layer:
    node: onnx.NodeProto  # MatMul, Gemm, Einsum, FusedMatMul or Conv
    before: list  # nodes that give what it takes, of an input
    behind: list  # nodes
    seen: list  # values of `behind`, or its own, that the graph gives
    rows_first: bool  # of the dimensions of what it gives


@dataclass
class Case:
    model: onnx.ModelProto
    fuse: bool  # layers are looked for in what ONNX Runtime's optimizer makes of the model
    x: dict
    layers: list


def weights(rng, *shape):
    """One of a few of each shape, so that kernels are compiled once."""
    own = np.random.default_rng(int(rng.integers(3)))
    values = own.standard_normal(shape).astype(np.float32)
    values[own.random(shape) < 0.8] = 0
    values.flat[::7] = own.standard_normal(values.flat[::7].shape)
    return values


def inputs_of(rng, shape):
    """Magnitudes up to 1e9, many of them about 1."""
    values = rng.standard_normal(shape) * 10**rng.choice([0, 0, 0.5, 1, 2, -3], shape)
    values *= 10**np.where(rng.random((*shape[:-1], 1)) < 0.1, rng.uniform(-9, 7), 0)
    large = 10**rng.uniform(-9, 9, shape)
    return np.where(rng.random(shape) < 0.02, large, values).astype(np.float32)


def convolution(made):
    """The size of images, the weight and attributes, and the size of what it gives."""
    rng = made.rng
    taps, stride, group = (int(rng.choice(of)) for of in ([1, 3], [1, 1, 2], [1, 1, 2]))
    images, sizes = int(rng.integers(1, 3)), (5, 4)
    pad = int(rng.integers(0, 2)) if taps == 3 else 0
    padding = {"pads": [pad] * 4}
    if stride == 1 and rng.random() < 0.2:
        pad, padding = taps // 2, {"auto_pad": "SAME_UPPER"}
    outputs = [(size + 2 * pad - taps) // stride + 1 for size in sizes]
    return ((images, CHANNELS, *sizes), weights(rng, ROWS, CHANNELS // group, taps, taps),
            {"strides": [stride] * 2, "group": group, **padding}, (images, ROWS, *outputs))


def product(made, kind):
    """The same of MatMul and Gemm."""
    rng = made.rng
    lead = [(int(rng.integers(1, 6)), )]
    lead += [] if kind == "Gemm" else [(2, *lead[0])] * 2 + [()]
    size = (*lead[rng.integers(len(lead))], FEATURES)
    if kind == "MatMul":
        return size, weights(rng, FEATURES, ROWS), {}, (*size[:-1], ROWS)
    attributes = {"transB": int(rng.integers(2)), "alpha": float(rng.choice([1, 1, -0.5, 1e-6])),
                  "beta": float(rng.choice([1, 1, 3, 0]))}
    weight = weights(rng, FEATURES, ROWS)
    return (size, weight.T.copy() if attributes["transB"] else weight, attributes,
            (*size[:-1], ROWS))


# Of products whose weights are not the second operand [in, out]: the operator, its attributes, the
# weights' place, letters of their dimensions and X's, and those of Y. i: of FEATURES, o: of ROWS.
FORMS = [("MatMul", {}, 0, "oi", "it", "ot"), ("MatMul", {}, 0, "oi", "bit", "bot"),
         ("MatMul", {}, 0, "boi", "bit", "bot"), ("MatMul", {}, 1, "bio", "bti", "bto"),
         ("MatMul", {}, 1, "bio", "ti", "bto"), ("Gemm", {"transA": 1}, 1, "io", "it", "to"),
         ("Gemm", {"transA": 1, "transB": 1}, 1, "oi", "it", "to"),
         ("Gemm", {}, 0, "oi", "it", "ot"),
         ("Gemm", {"transB": 1, "alpha": -0.5}, 0, "oi", "ti", "ot"),
         ("Gemm", {"transA": 1}, 0, "io", "it", "ot"),
         ("FusedMatMul", {"transA": 1, "alpha": 3.0}, 1, "io", "bit", "bto"),
         ("FusedMatMul", {"transB": 1}, 0, "oi", "bti", "bot"),
         *(("Einsum", {"equation": f"{x},{w}->{y}"}, 1, w, x, y) for x, w, y in (
             ("bti", "oi", "bto"), ("bit", "oi", "tbo"), ("bti", "bio", "tbo"), ("it", "io", "ot"),
             ("bit", "io", "bot")))]


def in_another_form(made):
    """The operator, the shape of X, the weights and their place, attributes, the shape of Y, and
    the dimensions behind those of inputs and rows."""
    rng = made.rng
    op, attributes, place, w, x, y = FORMS[rng.integers(len(FORMS))]
    sizes = {"i": FEATURES, "o": ROWS, "b": int(rng.integers(1, 3)), "t": int(rng.integers(1, 6))}
    if "b" in w and "b" not in x:
        sizes["b"] = 2
    of = [tuple(sizes[one] for one in term) for term in (x, w, y)]
    return (op, of[0], weights(rng, *of[1]), place, attributes, of[2],
            len(x) - 1 - x.index("i"), len(y) - 1 - y.index("o"))


def usual_form(made, kind):
    size, weight, attributes, shape = convolution(made) if kind == "Conv" else product(made, kind)
    trailing = 2 if kind == "Conv" else 0
    return kind, size, weight, 1, attributes, shape, trailing, trailing


def layer(made):
    """Its output."""
    rng = made.rng
    kind = str(rng.choice(["MatMul", "Gemm", "Conv", "another"]))
    op, size, weight, place, attributes, made.shape, behind_inputs, made.trailing = (
        in_another_form(made) if kind == "another" else usual_form(made, kind))
    x = made.input(inputs_of(rng, size))
    channels = (CHANNELS if kind == "Conv" else FEATURES, *(1, ) * behind_inputs)
    for _ in range(rng.choice([0, 0, 0, 1, 2, 3])):
        x = affine(made, x, rng.standard_normal(channels) * 10**rng.uniform(-3, 3))
    names = [x]
    names.insert(place, made.constant(weight))
    if op in ("Gemm", "Conv") and rng.random() < 0.6:
        summand = rng.standard_normal(ROWS) * 10**rng.uniform(-2, 3)
        names.append(made.constant(summand.reshape(of_rows(made)) if op == "Gemm" else summand))
    return made.node(op, *names, domain="com.microsoft" if op == "FusedMatMul" else "",
                     **attributes)


def in_a_branch(one, number):
    """A node If with the layer and what is behind it, in both branches, of which a run takes one."""
    outputs = list(dict.fromkeys([*one.node.output, *one.seen]))
    nodes = [one.node, *one.behind]
    own = {name for node in nodes for name in node.output}

    def branch(suffix):
        renamed = []
        for node in nodes:
            inner = onnx.NodeProto.FromString(node.SerializeToString())
            inner.name += suffix
            for names in (inner.input, inner.output):
                names[:] = [name + suffix if name in own else name for name in names]
            renamed.append(inner)
        return helper.make_graph(renamed, f"branch{suffix}", [], [
            helper.make_tensor_value_info(name + suffix, TensorProto.FLOAT, None)
            for name in outputs])

    return helper.make_node("If", [FLAG], outputs, f"if{number}", then_branch=branch(" then"),
                            else_branch=branch(" else"))


def case_of(seed):
    made = Made(np.random.default_rng(seed), fuse=seed % 2 == 0)
    layers, nodes, branches = [], [], np.random.default_rng([seed, 1])
    for _ in range(made.rng.integers(1, 6)):
        begin = len(made.nodes)
        p = layer(made)
        *before, node = made.nodes[begin:]
        chain = behind(made, p)
        seen = [one for one in chain[:-1] if made.rng.random() < 0.06]
        layers.append(Layer(node, before, made.nodes[begin + len(before) + 1:],
                            list(dict.fromkeys([chain[-1], *seen])),
                            made.trailing == len(made.shape) - 1))
        if branches.random() < 0.2:
            nodes += [*before, in_a_branch(layers[-1], len(layers))]
            made.inputs[FLAG] = np.array(seed % 3 > 0)
        else:
            nodes += made.nodes[begin:]
    model = model_of(nodes, made.constants, made.inputs,
                     [one for each in layers for one in each.seen])
    return Case(model, made.fuse, made.inputs, layers)


def model_of(nodes, constants, inputs, outputs):
    """`inputs`: anything with shapes, by name."""
    used = {name for node in nodes for name in node.input}
    used |= {name for node in nodes for attribute in node.attribute if attribute.HasField("g")
             for inner in attribute.g.node for name in inner.input}
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(one.dtype), one.shape)
         for name, one in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items() if name in used])
    for value in graph.output:
        value.type.Clear()
    return helper.make_model(graph, ir_version=9, opset_imports=[
        helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)])
