"""What a random graph may give: as ONNX Runtime computes it without its optimizer, give or take
rounding."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_random_graphs import model_of

PROVIDERS = ["CPUExecutionProvider"]


def plain_session(model):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=PROVIDERS)


# What the product of a layer may be off by, in parts of `rounding`, and the functions behind it, in
# parts of NOISE; all at once.
PARTS = np.array([(0, 0), (-1, -1), (1, 1), (-1, 1), (1, -1), (-0.5, 0), (0.5, 0)])
# ONNX Runtime has such an absolute error in Erf, Tanh and Sigmoid; of sums it is four units in the
# last place of the largest term.
NOISE = 5e-7
_NOISY = ("Erf", "Tanh", "Sigmoid", "Softplus", "Exp", "Elu", "Selu")
_NOISY_PRODUCTS = ("Gelu", "Mish", "HardSwish")  # of x and a function
_SUMS = ("Add", "Sub", "BatchNormalization")


def with_noise(node):
    """The node and an error of it, as parts of an input `noise`."""
    output = node.output[0]
    if node.op_type not in (*_NOISY, *_NOISY_PRODUCTS, *_SUMS):
        return [node]
    exact = onnx.NodeProto.FromString(node.SerializeToString())
    exact.output[0] = f"{output} exact"
    nodes, noise = [exact], "noise"
    if node.op_type not in _NOISY:
        nodes += _size_of(node, f"{output} size")
        noise = f"{output} noise"
        nodes.append(helper.make_node("Mul", [f"{output} size", "noise"], [noise]))
    return [*nodes, helper.make_node("Add", [exact.output[0], noise], [output])]


def _size_of(node, size):
    """What its error is a part of: x of a product with a function; of a sum that of the magnitudes,
    as one of several constants is rounded otherwise."""
    names = [f"{size} {i}" for i in range(len(node.input))]
    if node.op_type in _NOISY_PRODUCTS:
        return [helper.make_node("Abs", [node.input[0]], [size])]
    nodes = [helper.make_node("Abs", [value], [name]) for value, name in zip(node.input, names)]
    if node.op_type in ("Add", "Sub"):
        return [*nodes, helper.make_node("Add", names, [size])]
    mean, negative = names[3], f"{size} mean"  # (|x| + |mean|) * |factor| + |shift|
    nodes.append(helper.make_node("Neg", [mean], [negative]))
    sizes = helper.make_node("BatchNormalization", [*names[:3], negative, names[4]], [size])
    sizes.attribute.extend(node.attribute)
    return [*nodes, sizes]


def constants_of(case):
    return {one.name: numpy_helper.to_array(one) for one in case.model.graph.initializer}


def rounding(case, layer):
    """What another order of a layer's sums may change, generously: a part of the sum of magnitudes.
    """
    nodes = [helper.make_node("Add" if one.op_type == "Sub" else one.op_type, one.input, one.output)
             for one in layer.before] + [layer.node]
    x = {name: np.abs(case.x[name]) for one in nodes for name in one.input if name in case.x}
    constants = {name: np.abs(value) for name, value in constants_of(case).items()}
    return 2e-6 * plain_session(model_of(nodes, constants, x, layer.node.output)).run(None, x)[0]


def variants_of(case, layer, p, error, dtype):
    """What is behind a layer in this type, of its output p, give or take the error: of each value
    that is seen, a variant after another."""
    (output, ), nodes = layer.node.output, layer.behind
    seen = [name for name in layer.seen if name != output]
    if not seen:
        return {}
    lead = (1, ) if layer.rows_first else ()  # a dimension for the variants
    p, error = (one.astype(dtype).reshape(*lead, *one.shape) for one in (p, error))
    others = {name: case.x[name].astype(dtype) for one in nodes for name in one.input
              if name in case.x}
    x = {output: np.concatenate([p + dtype(part) * error for part, _ in PARTS]),
         **{name: np.concatenate([one.reshape(*lead, *one.shape)] * len(PARTS))
            for name, one in others.items()}}
    constants = {name: value.astype(dtype) for name, value in constants_of(case).items()}
    if dtype is np.float32:
        run = plain_session(model_of(nodes, constants, x, seen)).run
    else:
        ones = (1, ) * (p.ndim - 1)
        x["noise"] = np.concatenate([np.full((len(p), *ones), part * NOISE) for _, part in PARTS])
        nodes = [new for one in nodes for new in with_noise(one)]
        run = ReferenceEvaluator(model_of(nodes, constants, x, seen)).run
    return {name: np.stack(np.split(y, len(PARTS), axis=y.ndim - p.ndim)).astype(np.float64)
            for name, y in zip(seen, run(None, x))}


def with_outputs(model, names):
    more = onnx.ModelProto.FromString(model.SerializeToString())
    have = {value.name for value in more.graph.output}
    more.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in have)
    return more


def bounds_of(case):
    """Of each output, by name: the least and the largest of what is right, whether all that is
    right is NaN, and whether some is. Right is what ONNX Runtime gives without its optimizer, where
    sums and functions are a little different, with and without rounding to fp32 behind layers."""
    whole = plain_session(with_outputs(case.model, [one.node.output[0] for one in case.layers]))
    exact = dict(zip([one.name for one in whole.get_outputs()], whole.run(None, case.x)))
    found = {}
    for layer in case.layers:
        p, error = exact[layer.node.output[0]], rounding(case, layer)
        variants = {name: [exact[name][None].astype(np.float64)] for name in layer.seen}
        variants.setdefault(layer.node.output[0], []).extend([p[None] - error, p[None] + error])
        for dtype in (np.float32, np.float64):
            for name, values in variants_of(case, layer, p, error, dtype).items():
                variants[name].append(values.reshape(-1, *exact[name].shape))
        found.update((name, _bounds(np.concatenate(variants[name]))) for name in layer.seen)
    return found


def _bounds(seen):
    seen = np.where(np.abs(seen) > np.finfo(np.float32).max, np.sign(seen) * np.inf, seen)
    is_nan = np.isnan(seen)
    return seen.min(axis=0), seen.max(axis=0), is_nan.all(axis=0), is_nan.any(axis=0)


def is_right(y, bounds):
    low, high, all_nan, any_nan = bounds
    if y.shape != low.shape:
        return np.zeros(y.shape, bool)
    slack = 2e-5 * np.maximum(np.abs(low), np.abs(high)) + 1e-7
    inside = (y >= np.where(np.isinf(low), low, low - slack)) & (
        y <= np.where(np.isinf(high), high, high + slack))
    return np.where(any_nan, np.where(all_nan, np.isnan(y), True), inside)


def difference(y, bounds, right):
    low, high, _, _ = bounds
    if y.shape != low.shape:
        return f"of the shape {y.shape}, expected {low.shape}"
    place = np.unravel_index(np.argmin(right), right.shape)
    return (f"{y[place]} at {tuple(map(int, place))}, expected {low[place]} to {high[place]}; "
            f"{int((~right).sum())} of {right.size} elements")
