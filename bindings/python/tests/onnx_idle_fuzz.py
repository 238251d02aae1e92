"""Random ONNX graphs of layers with empty rows and columns, without their idle channels, beside ONNX
Runtime on the graphs themselves.

    python onnx_idle_fuzz.py --count 3000 --seed 0      # prints each graph that is wrong

Half of the graphs have whole numbers, and operators that are exact with them: outputs have the same
bits. Others are compared within a bound.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from fuzz_main import fuzz
from onnx import TensorProto, helper, numpy_helper
from spjit.onnx import _graph, _idle
from spjit.onnx._sessions import Own

OPSET = 20
MOST = 1e-6  # difference, relative to the largest value of a graph
EXACT = (("Relu", {}), ("Neg", {}), ("Abs", {}), ("LeakyRelu", {"alpha": 0.5}), ("Identity", {}),
         ("Floor", {}), ("Sign", {}), ("ThresholdedRelu", {"alpha": 1.0}))
OTHER = (("Sigmoid", {}), ("Tanh", {}), ("Erf", {}), ("Gelu", {}), ("HardSwish", {}), ("Elu", {}),
         ("Softplus", {}), ("Softsign", {}), ("HardSigmoid", {}), ("Mish", {}))


class Graph:
    """A graph in the making. Values have a shape and the axis of their channels."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.exact = bool(self.rng.random() < 0.5)
        self.nodes, self.constants, self.shapes, self.axes = [], {}, {}, {}
        self.defaults = []  # constants that a run may replace
        is_image = self.rng.random() < 0.6
        shape = (2, self.few(), 4, 4) if is_image else (2, 3, self.few())
        self.x = self.numbers(*shape)
        self.pool = []
        self.add("x", shape, 1 if is_image else 2)

    def few(self):
        return int(self.rng.integers(2, 7))

    def pick(self, options):
        return options[self.rng.integers(len(options))]

    def numbers(self, *shape):
        return (self.rng.integers(-2, 3, shape) if self.exact else
                self.rng.standard_normal(shape)).astype(np.float32)

    def constant(self, value):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def weight(self, rows, columns, *taps):
        """Often with empty rows and columns; sometimes that of another layer."""
        shape = (rows, columns, *taps)
        known = [name for name, value in self.constants.items() if value.shape == shape]
        if known and self.rng.random() < 0.3:
            return self.pick(known)
        value = self.numbers(*shape)
        value[self.rng.random(shape) < 0.3] = 0
        value[self.rng.random(rows) < self.pick([0, 0.3, 0.7])] = 0
        value[:, self.rng.random(columns) < self.pick([0, 0.3, 0.7])] = 0
        return self.constant(value)

    def add(self, name, shape, axis):
        self.pool.append(name)
        self.shapes[name], self.axes[name] = tuple(shape), axis

    def node(self, op, inputs, domain="", **attributes):
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], f"n{len(self.nodes)}",
                                           domain=domain, **attributes))
        return output

    def value(self):
        """Mostly one of the last."""
        return self.pick(self.pool[-2:] if self.rng.random() < 0.8 else self.pool)

    def per_channel(self, x, zeros=0.0):
        count, trailing = self.channels(x), len(self.shapes[x]) - 1 - self.axes[x]
        value = self.numbers(count, *(1,) * trailing)
        value[self.rng.random(count) < zeros] = 0
        return self.constant(value if self.rng.random() < 0.8 else value[None])

    def channels(self, x):
        return self.shapes[x][self.axes[x]]


# ---- Steps ------------------------------------------------------------------------------------


def layer(made, x):
    shape, axis, rng = made.shapes[x], made.axes[x], made.rng
    rows, columns = made.few(), made.channels(x)
    if axis == len(shape) - 1:
        weight = made.weight(rows, columns)
        if len(shape) == 2 and rng.random() < 0.5:
            inputs = [x, weight]
            if rng.random() < 0.7:
                inputs.append(made.constant(made.numbers(rows)))
            output = made.node("Gemm", inputs, transB=1)
        else:
            turned = made.constant(made.constants[weight].T.copy())
            if rng.random() < 0.05:
                made.defaults.append(turned)
            output = made.node("MatMul", [x, turned])
        made.add(output, (*shape[:-1], rows), axis)
    elif axis == 1 and len(shape) == 4 and min(shape[2:]) > 1:
        convolution(made, x, rows, columns)


def convolution(made, x, rows, columns):
    taps, pad = made.pick([1, 2, 3]), int(made.rng.integers(2))
    height, width = made.shapes[x][2:]
    if min(height, width) + 2 * pad < taps:
        return
    kind = made.rng.random()
    groups = 1
    if kind < 0.2:
        rows, groups = columns, columns
    elif kind < 0.25 and columns % 2 == 0:
        rows, groups = 2 * rows, 2
    is_transposed = groups == 1 and kind > 0.9
    weight = made.weight(*((columns, rows) if is_transposed else (rows, columns // groups)), taps,
                         taps)
    inputs = [x, weight]
    if made.rng.random() < 0.7:
        inputs.append(made.constant(made.numbers(rows)))
    if is_transposed:
        output = made.node("ConvTranspose", inputs)
        more = taps - 1
    else:
        output = made.node("Conv", inputs, pads=[pad] * 4, group=groups)
        more = 2 * pad - taps + 1
    made.add(output, (made.shapes[x][0], rows, height + more, width + more), 1)


def unary(made, x):
    op, attributes = made.pick(EXACT if made.exact else EXACT + OTHER)
    if made.rng.random() < 0.1:
        output = made.node("Clip", [x, made.constant(np.float32(-3)),
                                    made.constant(np.float32(5))])
    else:
        output = made.node(op, [x], **attributes)
    made.add(output, made.shapes[x], made.axes[x])


def affine(made, x):
    op = made.pick(["Add", "Add", "Mul", "Sub", "Max"])
    other = made.per_channel(x, made.pick([0, 0.5]))
    if made.rng.random() < 0.2:
        other = made.constant(made.numbers())
    pair = [x, other] if made.rng.random() < 0.6 else [other, x]
    made.add(made.node(op, pair), made.shapes[x], made.axes[x])


def position(made, x):
    """A constant of every element of an image or a sequence."""
    value = made.numbers(*made.shapes[x][1:])
    made.add(made.node("Add", [x, made.constant(value)]), made.shapes[x], made.axes[x])


def normalization(made, x):
    if made.axes[x] != 1 or made.exact:
        return affine(made, x)
    count = made.channels(x)
    factor = made.numbers(count)
    factor[made.rng.random(count) < 0.3] = 0
    given = [factor, made.numbers(count), made.numbers(count),
             np.abs(made.numbers(count)) + np.float32(0.5)]
    made.add(made.node("BatchNormalization", [x, *map(made.constant, given)]), made.shapes[x],
             made.axes[x])


def residual(made, x):
    same = [name for name in made.pool if made.shapes[name] == made.shapes[x]
            and made.axes[name] == made.axes[x]]
    op = made.pick(["Add", "Add", "Add", "Sub", "Max", "Mul"])
    made.add(made.node(op, [x, made.pick(same)]), made.shapes[x], made.axes[x])


def gate(made, x):
    """A factor of one channel for all, computed of the input."""
    if made.axes[x] != 1 or len(made.shapes[x]) != 4:
        return
    mean = made.node("ReduceMax", [x, made.constant(np.array([1]))], keepdims=1)
    made.add(made.node(made.pick(["Mul", "Add"]), [x, mean]), made.shapes[x], made.axes[x])


def concatenation(made, x):
    axis = made.axes[x] if made.rng.random() < 0.8 else int(made.rng.integers(
        len(made.shapes[x])))

    def rest(name):
        return [size for i, size in enumerate(made.shapes[name]) if i != axis]

    fits = [name for name in made.pool if len(made.shapes[name]) == len(made.shapes[x])
            and rest(name) == rest(x) and made.axes[name] == made.axes[x]]
    parts = [x, *(made.pick(fits) for _ in range(made.rng.integers(1, 3)))]
    shape = list(made.shapes[x])
    shape[axis] = sum(made.shapes[name][axis] for name in parts)
    if shape[axis] > 20:
        return
    made.add(made.node("Concat", parts, axis=axis if made.rng.random() < 0.5 else
                       axis - len(shape)), shape, made.axes[x])


def splitting(made, x):
    axis, shape = made.axes[x], list(made.shapes[x])
    if shape[axis] < 2:
        return
    first = int(made.rng.integers(1, shape[axis]))
    sizes = [first, shape[axis] - first]
    names = [f"v{len(made.nodes)}", f"v{len(made.nodes)}b"]
    inputs = [x, made.constant(np.array(sizes))]
    attributes = {"axis": axis}
    if shape[axis] % 2 == 0 and made.rng.random() < 0.4:
        sizes = [shape[axis] // 2] * 2
        del inputs[1]
        attributes["num_outputs"] = 2
    made.nodes.append(helper.make_node("Split", inputs, names, f"n{len(made.nodes)}", **attributes))
    for name, size in zip(names, sizes):
        shape[axis] = size
        made.add(name, shape, axis)


def slicing(made, x):
    shape = list(made.shapes[x])
    axis = made.axes[x] if made.rng.random() < 0.7 else int(made.rng.integers(len(shape)))
    begin = int(made.rng.integers(0, shape[axis]))
    end = int(made.rng.integers(begin + 1, shape[axis] + 1))
    last = end if made.rng.random() < 0.5 else 2**40 if end == shape[axis] else end - shape[axis]
    bounds = [made.constant(np.array([value])) for value in (begin, last or 2**40, axis)]
    if last == 0:
        end = shape[axis]
    shape[axis] = end - begin
    made.add(made.node("Slice", [x, *bounds]), shape, made.axes[x])


def gathering(made, x):
    shape = list(made.shapes[x])
    count = shape[made.axes[x]]
    places = made.rng.integers(-count, count, made.few())
    shape[made.axes[x]] = len(places)
    made.add(made.node("Gather", [x, made.constant(places)], axis=made.axes[x]), shape,
             made.axes[x])


def transposition(made, x):
    order = [int(i) for i in made.rng.permutation(len(made.shapes[x]))]
    made.add(made.node("Transpose", [x], perm=order), [made.shapes[x][i] for i in order],
             order.index(made.axes[x]))


def reshaping(made, x):
    shape, axis = made.shapes[x], made.axes[x]
    batch = int(np.prod(shape[:-1]))
    kinds = [((*shape[:axis], *([shape[axis]]), -1), (*shape[:axis + 1], int(np.prod(
        shape[axis + 1:]))), axis)]
    if axis == len(shape) - 1:
        kinds += [((-1, shape[-1]), (batch, shape[-1]), 1), ((batch, -1), (batch, shape[-1]), 1)]
    if axis == 1:
        flat = int(np.prod(shape[1:]))
        kinds += [((shape[0], -1), (shape[0], flat), 1), ((0, flat), (shape[0], flat), 1),
                  ((0, 0, -1), (*shape[:2], int(np.prod(shape[2:]))), 1)]
    total = int(np.prod(shape))
    if total % 4 == 0:  # which mixes channels, or not
        kinds.append(((4, -1), (4, total // 4), 1))
    sizes, result, place = made.pick(kinds)
    if len(result) > 4 or result[place] > 40:
        return
    if axis == 1 and len(shape) > 2 and made.rng.random() < 0.2:
        sizes, result, place = None, (shape[0], int(np.prod(shape[1:]))), 1
        if result[1] > 40:
            return
    output = made.node("Flatten", [x]) if sizes is None else made.node(
        "Reshape", [x, made.constant(np.array(sizes, np.int64))])
    made.add(output, result, place)


def dimension(made, x):
    """One of a single element more, or less."""
    shape, axis = list(made.shapes[x]), made.axes[x]
    ones = [i for i, size in enumerate(shape) if size == 1 and i != axis]
    if ones and made.rng.random() < 0.7:
        del shape[ones[0]]
        output = made.node("Squeeze", [x, made.constant(np.array([ones[0]]))])
        return made.add(output, shape, axis - (ones[0] < axis))
    if len(shape) < 4:
        place = int(made.rng.integers(len(shape) + 1))
        shape.insert(place, 1)
        output = made.node("Unsqueeze", [x, made.constant(np.array([place]))])
        made.add(output, shape, axis + (place <= axis))


def pooling(made, x):
    shape = made.shapes[x]
    if made.axes[x] != 1 or len(shape) != 4:
        return
    kind = made.rng.integers(5)
    if kind == 0 or shape[2] < 2 or shape[3] < 2:
        op = "GlobalMaxPool" if made.exact else "GlobalAveragePool"
        return made.add(made.node(op, [x]), (*shape[:2], 1, 1), 1)
    if kind == 1:
        keep = int(made.rng.integers(2))
        axes = made.constant(np.array([-2, -1]))
        output = made.node("ReduceMax" if made.exact else "ReduceMean", [x, axes], keepdims=keep)
        return made.add(output, (*shape[:2], 1, 1) if keep else shape[:2], 1)
    pad = int(made.rng.integers(2))
    more = {"count_include_pad": int(made.rng.integers(2))} if kind == 2 else {}
    if kind == 2 and made.exact and pad and not more["count_include_pad"]:
        return None  # which divides by 3
    output = made.node("AveragePool" if kind == 2 else "MaxPool", [x], kernel_shape=[2, 2],
                       pads=[pad] * 4, **more)
    size = 2 * pad - 1
    return made.add(output, (*shape[:2], shape[2] + size, shape[3] + size), 1)


def mixing(made, x):
    """Nodes that see all channels."""
    shape, axis = made.shapes[x], made.axes[x]
    if not made.exact:
        op = made.pick(["Softmax", "LayerNormalization"])
        if op == "Softmax":
            return made.add(made.node(op, [x], axis=axis), shape, axis)
        scale = made.constant(made.numbers(shape[-1]))
        return made.add(made.node(op, [x, scale], axis=-1), shape, axis)
    total = made.node("ReduceMax", [x, made.constant(np.array([axis]))], keepdims=1)
    return made.add(made.node("Add", [x, total]), shape, axis)


def branch(made, x):
    """A graph within a node that uses a value."""
    inner = helper.make_graph([helper.make_node("Neg", [x], ["inner"])], "then", [],
                              [helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)])
    other = helper.make_graph([helper.make_node("Identity", [x], ["other"])], "else", [],
                              [helper.make_tensor_value_info("other", TensorProto.FLOAT, None)])
    output = made.node("If", [made.constant(np.array(bool(made.rng.integers(2))))],
                       then_branch=inner, else_branch=other)
    made.add(output, made.shapes[x], made.axes[x])


STEPS = ((layer, 8), (unary, 5), (affine, 5), (position, 0.5), (normalization, 2), (residual, 2),
         (gate, 0.5), (concatenation, 2), (splitting, 1), (slicing, 1), (gathering, 1),
         (transposition, 0.7), (reshaping, 1.5), (dimension, 0.7), (pooling, 2), (mixing, 0.3),
         (branch, 0.2))
WEIGHTS = np.array([weight for _, weight in STEPS]) / sum(weight for _, weight in STEPS)


def graph_of(seed):
    """A model, its input and whether it is exact."""
    made = Graph(seed)
    layer(made, "x")
    for _ in range(made.rng.integers(3, 16)):
        step = STEPS[made.rng.choice(len(STEPS), p=WEIGHTS)][0]
        step(made, made.value())
    for _ in range(made.rng.integers(1, 3)):
        layer(made, made.value())
    outputs = {made.pool[-1], made.value()} - {"x"}
    shape = [f"x{i}" if made.rng.random() < 0.15 and i == 0 else size
             for i, size in enumerate(made.shapes["x"])]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    inputs += [helper.make_tensor_value_info(name, TensorProto.FLOAT, made.constants[name].shape)
               for name in made.defaults]
    proto = helper.make_graph(
        made.nodes, "g", inputs,
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in sorted(outputs)],
        [numpy_helper.from_array(value, name) for name, value in made.constants.items()])
    model = helper.make_model(proto, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    return model, made.x, made.exact


def run(model, x, **more):
    """Its outputs. `more`: what takes the place of defaults."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x, **more})


def largest_of(model, x):
    """The largest magnitude of any value."""
    wide = onnx.ModelProto.FromString(model.SerializeToString())
    del wide.graph.output[:]
    wide.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
                             for node in model.graph.node for name in node.output)
    return max(float(np.abs(value).max(initial=0)) for value in run(wide, x))


class Fuzzer:
    """`cut`: layers that became smaller so far; `folded`: columns in biases."""

    def __init__(self, folder):
        self.path = Path(folder) / "model.onnx"
        self.cut = self.folded = self.removed = self.skipped = 0
        self.worst = 0.0  # relative to the largest value of a graph

    def wrong(self, seed):
        """What is wrong with this graph, as text; "" if nothing is."""
        model, x, exact = graph_of(seed)
        try:
            largest = largest_of(model, x)
        except Exception:  # some graphs are none for ONNX Runtime, too
            largest = np.inf
        if not np.isfinite(largest) or (exact and largest > 2**17):
            self.skipped += 1
            return ""
        if seed % 3 == 0:
            onnx.save(model, str(self.path))
            model = _graph.fused(self.path, Own())
        try:
            small, layers = _idle.without_idle_channels(model)
            others = {one.name: -2 * numpy_helper.to_array(one) for one in model.graph.initializer
                      if one.name in {given.name for given in model.graph.input}}
            got, wanted = run(small, x, **others), run(model, x, **others)
        except Exception as error:  # of several kinds
            return self.described(seed, model, f"failed: {error}")
        self.cut += len(layers)
        self.folded += sum(one.cut.folded for one in layers)
        self.removed += sum(one.cut.rows for one in layers)
        bound = 0 if exact else MOST * largest
        for y, other in zip(got, wanted):
            if y.shape == other.shape:
                self.worst = max(self.worst, np.abs(y - other).max(initial=0) / (largest or 1))
            if y.shape != other.shape or not np.all(np.abs(y - other) <= bound):
                worst = np.abs(y - other).max(initial=0) if y.shape == other.shape else "shape"
                return self.described(seed, model, f"differs by {worst} ({largest=})")
        return ""

    @staticmethod
    def described(seed, model, what):
        return f"seed {seed}: {what}\n" + "\n".join(
            f"  {', '.join(node.output)} = {node.op_type}({', '.join(node.input)})"
            for node in model.graph.node)


if __name__ == "__main__":
    sys.exit(fuzz(__doc__, Fuzzer, 500, lambda fuzzer: (
        f"skipped={fuzzer.skipped} layers_cut={fuzzer.cut} rows_removed={fuzzer.removed} "
        f"columns_folded={fuzzer.folded} worst={fuzzer.worst:.1e}")))
