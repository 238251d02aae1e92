"""Random ONNX graphs of convolutions of integers, as quantisers write them and ONNX Runtime fuses
them."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from onnx_integer_graphs import Case, Made, _model, activations, floats

CHANNELS = (1, 3, 8, 17)
FILTERS = (1, 4, 9, 20)


def geometry(made, dimensions):
    """Attributes of a convolution, its kernel and an image that it fits in."""
    rng = made.rng
    kernel = [int(rng.choice([1, 2, 3, 5])) for _ in range(dimensions)]
    dilations = [int(rng.choice([1, 1, 2])) for _ in range(dimensions)]
    strides = [int(rng.choice([1, 1, 2, 3])) for _ in range(dimensions)]
    image = [(k - 1) * d + int(rng.choice([1, 2, 5, 12])) for k, d in zip(kernel, dilations)]
    attributes = {"kernel_shape": kernel, "dilations": dilations, "strides": strides}
    kind = rng.integers(6)
    if kind == 0:
        attributes["auto_pad"] = str(rng.choice(["VALID", "SAME_UPPER", "SAME_LOWER"]))
        attributes["dilations"] = [1] * dimensions  # SAME with them fails in ONNX Runtime
    elif kind > 1:
        attributes["pads"] = [int(rng.integers(0, 4)) for _ in range(2 * dimensions)]
    return attributes, kernel, image


def filters(made, rows, channels, kernel, reach=127):
    """int8, most of them 0; also extremes alone."""
    values = made.rng.integers(-reach - 1, reach + 1, (rows, channels, *kernel))
    if made.chance(0.2):
        values = made.rng.choice([-128, 127], values.shape)
    kept = made.rng.random(values.shape) < made.rng.choice([0, 0.1, 0.3, 0.5])
    return np.where(kept, values, 0).astype(np.int8)


def quantised(made, x):
    """Names of its bytes, scale and zero point, and the type."""
    dtype = made.rng.choice([np.uint8, np.uint8, np.int8])
    info = np.iinfo(dtype)
    zero = np.array(made.rng.choice([info.min, info.max, 0, made.rng.integers(info.min, info.max)]),
                    dtype)
    names = made.constant(np.float32(10**made.rng.uniform(-2, 0))), made.constant(zero)
    return (made.node("QuantizeLinear", x, *names), *names), dtype


def static_images(made, x, rows, w, attributes):
    """QLinearConv; or, where ONNX Runtime fuses, the nodes that it makes one of."""
    (value, x_scale, x_zero), dtype = quantised(made, x)
    info = np.iinfo(dtype)
    of_rows = made.chance(0.5)
    w_scale = np.asarray(10**made.rng.uniform(-4, -1, (rows,) if of_rows else ()), np.float32)
    w_zero = np.zeros(w_scale.shape, np.int8)
    y_scale = made.constant(np.float32(10**made.rng.uniform(-3, 1)))
    y_zero = made.constant(np.array(made.rng.integers(info.min, info.max + 1), dtype))
    w, scale, zero = made.constant(w), made.constant(w_scale), made.constant(w_zero)
    bias = []
    if made.chance(0.6):
        size = made.rng.choice([10, 1000, 2**20])
        bias = [made.constant(made.rng.integers(-size, size, rows).astype(np.int32))]
    given = [value, x_scale, x_zero, w, scale, zero, y_scale, y_zero, *bias]
    if not (made.fuse and made.chance(0.7)):
        y = made.node("QLinearConv", *given, **attributes)
    else:
        y = made.node("QLinearConv", *given, into=made.reference, **attributes)
        operands = [made.node("DequantizeLinear", value, x_scale, x_zero, into=made.nodes),
                    made.node("DequantizeLinear", w, scale, zero, into=made.nodes, axis=0)]
        if bias:
            both = made.constant((made.constants[x_scale] * w_scale).astype(np.float32))
            none = made.constant(np.zeros(w_scale.shape, np.int32))
            operands.append(made.node("DequantizeLinear", *bias, both, none, into=made.nodes,
                                      axis=0))
        product = made.node("Conv", *operands, into=made.nodes, **attributes)
        made.nodes.append(helper.make_node("QuantizeLinear", [product, y_scale, y_zero], [y]))
    return made.node("DequantizeLinear", y, y_scale, y_zero)


def dynamic_images(made, x, rows, w, attributes, dimensions):
    """As quantize_dynamic writes it."""
    value, x_scale, zero = made.node("DynamicQuantizeLinear", x, outputs=3)
    if made.chance(0.2):
        made.outputs.append(value)
    sums = made.node("ConvInteger", value, made.constant(w), zero, **attributes)
    shape = [(), (1,), (rows, *[1] * dimensions)][made.rng.integers(3)]
    w_scale = made.constant(np.asarray(10**made.rng.uniform(-4, 0, shape), np.float32))
    total = made.node("Cast", sums, to=TensorProto.FLOAT)
    y = made.either("Mul", total, made.either("Mul", x_scale, w_scale))
    if made.chance(0.6):
        y = made.either("Add", y, made.constant(floats(made, 1, rows, *[1] * dimensions)))
    return made.node("Relu", y) if made.chance(0.4) and not made.has_nan else y


def image_case_of(seed):
    rng = np.random.default_rng(seed)
    made = Made(rng, fuse=bool(rng.random() < 0.6))
    dimensions = int(rng.choice([1, 2, 2]))
    attributes, kernel, image = geometry(made, dimensions)
    groups = int(rng.choice([1, 1, 1, 2]))
    channels, rows = groups * int(rng.choice(CHANNELS)), groups * int(rng.choice(FILTERS))
    attributes["group"] = groups
    w = filters(made, rows, channels // groups, kernel)
    shape = (int(rng.choice([0, 1, 1, 3])), channels, *image)
    if made.chance(0.2):
        x = made.input(rng.integers(0, 256, shape).astype(np.uint8))
        zero = [made.constant(np.uint8(rng.choice([0, 0, 7])))] if made.chance(0.5) else []
        made.outputs.append(made.node("ConvInteger", x, made.constant(w), *zero, **attributes))
    else:
        x = made.input(activations(made, shape))
        is_dynamic = made.chance(0.5) or made.has_nan
        made.outputs.append(
            dynamic_images(made, x, rows, w, attributes, dimensions) if is_dynamic
            else static_images(made, x, rows, w, attributes))
    outputs = list(dict.fromkeys(made.outputs))
    return Case(_model(made, made.nodes, outputs), _model(made, made.reference, outputs),
                made.inputs, made.fuse, made.has_nan)
