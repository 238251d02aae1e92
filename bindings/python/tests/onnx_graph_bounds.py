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
# ONNX Runtime has such an absolute error in Erf, Tanh and Sigmoid.
NOISE = 5e-7
_NOISY = ("Erf", "Tanh", "Sigmoid", "Softplus", "Exp", "Elu", "Selu")
_NOISY_PRODUCTS = ("Gelu", "Mish", "HardSwish")  # of x and a function


def with_noise(node, noise):
    """The node and, of a function, an error."""
    output = node.output[0]
    if node.op_type not in (*_NOISY, *_NOISY_PRODUCTS):
        return [node]
    exact = onnx.NodeProto.FromString(node.SerializeToString())
    exact.output[0] = f"{output} exact"
    nodes = [exact]
    if node.op_type in _NOISY_PRODUCTS:
        nodes += [helper.make_node("Abs", [node.input[0]], [f"{output} size"]),
                  helper.make_node("Mul", [f"{output} size", noise], [f"{output} noise"])]
        noise = f"{output} noise"
    return [*nodes, helper.make_node("Add", [exact.output[0], noise], [output])]


def rounding(case, node):
    """What another order of a layer's sums may change, generously."""
    constants = {one.name: np.abs(numpy_helper.to_array(one)) for one in
                 case.model.graph.initializer}
    x = {node.input[0]: np.abs(case.x[node.input[0]])}
    return 2e-6 * plain_session(model_of([node], constants, x, node.output)).run(None, x)[0]


def variants_of(case, layer, p, error, dtype):
    """What is behind a layer in this type, of its output p, give or take the error: a variant after
    another."""
    node = case.layers[layer]
    lead = (1, ) if p.ndim == 1 else ()  # a dimension for the variants
    p, error = (one.astype(dtype).reshape(*lead, *one.shape) for one in (p, error))
    outputs = [name for name, of in case.layer_of.items() if of == layer and name != layer]
    if not outputs:
        return {}
    first = list(case.model.graph.node).index(node)
    others = {list(case.model.graph.node).index(one) for one in case.layers.values()}
    last = min((i for i in others if i > first), default=len(case.model.graph.node))
    ones = (1, ) * p.ndim
    x = {layer: np.concatenate([p + dtype(part) * error for part, _ in PARTS]),
         "noise": np.concatenate([np.full((len(p), *ones[1:]), dtype(part * NOISE))
                                  for _, part in PARTS])}
    nodes = list(case.model.graph.node)[first + 1:last]
    others = {name for one in nodes for name in one.input} & set(case.x)
    for name in others:
        value = case.x[name].astype(dtype)
        x[name] = np.concatenate([value.reshape(*lead, *value.shape)] * len(PARTS))
    constants = {one.name: numpy_helper.to_array(one).astype(dtype)
                 for one in case.model.graph.initializer}
    if dtype is np.float32:
        del x["noise"]
        run = plain_session(model_of(nodes, constants, x, outputs)).run
    else:
        nodes = [new for one in nodes for new in with_noise(one, "noise")]
        run = ReferenceEvaluator(model_of(nodes, constants, x, outputs)).run
    found = {}
    for name, y in zip(outputs, run(None, x)):
        found[name] = np.stack(np.split(y, len(PARTS), axis=y.ndim - p.ndim)).astype(np.float64)
    return found


def with_outputs(model, names):
    more = onnx.ModelProto.FromString(model.SerializeToString())
    have = {value.name for value in more.graph.output}
    more.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in have)
    return more


def bounds_of(case):
    """Of each output, by name: the least and the largest of what is right, whether all that is
    right is NaN, and whether some is. Right is what ONNX Runtime gives without its optimizer, where
    sums and functions are a little different, with and without rounding to fp32 behind layers."""
    whole = plain_session(with_outputs(case.model, case.layers))
    exact = dict(zip([one.name for one in whole.get_outputs()], whole.run(None, case.x)))
    variants = {name: [exact[name][None].astype(np.float64)] for name in case.layer_of}
    for layer, node in case.layers.items():
        error = rounding(case, node)
        if layer in variants:
            variants[layer] += [exact[layer][None] - error, exact[layer][None] + error]
        for dtype in (np.float32, np.float64):
            for name, values in variants_of(case, layer, exact[layer], error,
                                             dtype).items():
                variants[name].append(values.reshape(-1, *exact[name].shape))
    found = {}
    for name, values in variants.items():
        seen = np.concatenate(values)
        seen = np.where(np.abs(seen) > np.finfo(np.float32).max, np.sign(seen) * np.inf, seen)
        is_nan = np.isnan(seen)
        found[name] = seen.min(axis=0), seen.max(axis=0), is_nan.all(axis=0), is_nan.any(axis=0)
    return found


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
