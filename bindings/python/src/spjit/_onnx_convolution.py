"""Convolutions of ONNX models: their geometry. Needs the package onnx."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from ._onnx_affine import per_channel
from ._onnx_constants import attribute_of
from ._onnx_values import Graph
from ._onnx_weights import Refused
from ._transposed import Axis, Phases, filters_first


@dataclass(frozen=True)
class Convolution:
    """Of images NCHW, as ONNX has it: stride and dilation of height and width; padding of top,
    left, bottom and right. Of one dimension: of images of height 1."""

    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    dimensions: int = 2  # of the model's own images
    # Of a transposed one, rows and columns; then what is above is not used, but for groups.
    transposed: tuple[Axis, Axis] | None = None

    @property
    def phases(self) -> Phases | None:
        """What kernels of a transposed one compute."""
        return None if self.transposed is None else Phases(*self.transposed, self.groups)


def convolution_of(graph: Graph, node: onnx.NodeProto,
                   weight: np.ndarray) -> tuple[np.ndarray, np.ndarray | None, Convolution]:
    """Of a node Conv with this weight: weights [out, in / groups, height, width], the bias, and the
    geometry. Raises Refused."""
    dimensions = dimensions_of(weight)
    bias = _bias_of(graph, node, weight.shape[0])
    weight, geometry = geometry_of(graph, node, weight, dimensions)
    return weight, bias, geometry


def geometry_of(graph: Graph, node: onnx.NodeProto, weight: np.ndarray,
                dimensions: int) -> tuple[np.ndarray, Convolution]:
    """The same without the bias, also of a node of integers."""
    stride = _sizes(node, "strides", dimensions, 1)
    dilation = _sizes(node, "dilations", dimensions, 1)
    groups = attribute_of(node, "group", 1)
    if not isinstance(groups, int) or groups < 1 or weight.shape[0] % groups:
        raise Refused(f"its group is {groups!r}; expected a divisor of {weight.shape[0]} filters")
    taps = [(size - 1) * apart for size, apart in zip(weight.shape[2:], dilation)]
    low, high = _padding(graph, node, taps, stride)
    if dimensions == 1:
        weight = weight[:, :, None, :]
        stride, dilation, low, high = [1, *stride], [1, *dilation], [0, *low], [0, *high]
    return weight, Convolution(
        (stride[0], stride[1]), (low[0], low[1], high[0], high[1]), (dilation[0], dilation[1]),
        groups, dimensions)


def dimensions_of(weight: np.ndarray) -> int:
    """Of images. Raises Refused."""
    dimensions = weight.ndim - 2
    if dimensions == 3:
        raise Refused("it has three dimensions; expected one or two")
    if dimensions not in (1, 2):
        raise Refused(f"its weights have {weight.ndim} dimensions; expected 4, of images, or 3")
    return dimensions


def _bias_of(graph: Graph, node: onnx.NodeProto, filters: int) -> np.ndarray | None:
    if len(node.input) < 3 or not node.input[2]:
        return None
    bias = per_channel(graph.floats(node.input[2]), filters, trailing=0)
    if bias is None:
        raise Refused(f"its bias is no constant [{filters}]")
    return bias


def transposed_of(graph: Graph, node: onnx.NodeProto,
                  weight: np.ndarray) -> tuple[np.ndarray, np.ndarray | None, Convolution]:
    """The same of a node ConvTranspose, whose weight is [in, out / groups, ...]."""
    dimensions = dimensions_of(weight)
    groups = attribute_of(node, "group", 1)
    if not isinstance(groups, int) or groups < 1 or weight.shape[0] % groups:
        raise Refused(f"its group is {groups!r}; expected a divisor of {weight.shape[0]} channels")
    bias = _bias_of(graph, node, weight.shape[1] * groups)
    axes = _axes_of_transposed(graph, node, weight.shape[2:])
    if dimensions == 1:
        axes.insert(0, Axis(stride=1, padding=0, dilation=1, taps=1, growth=0))
    return filters_first(weight, groups), bias, Convolution(
        groups=groups, dimensions=dimensions, transposed=(axes[0], axes[1]))


def _axes_of_transposed(graph: Graph, node: onnx.NodeProto, taps: tuple[int, ...]) -> list[Axis]:
    dimensions = len(taps)
    stride = _sizes(node, "strides", dimensions, 1)
    dilation = _sizes(node, "dilations", dimensions, 1)
    more = _sizes(node, "output_padding", dimensions, 0)
    automatic = _automatic(node)
    pads = [0] * 2 * dimensions
    if automatic == "NOTSET":
        pads = _sizes(node, "pads", 2 * dimensions, 0)
    # Without padding.
    axes = [Axis.of(step, (0, 0), apart, size, beyond)
            for step, apart, size, beyond in zip(stride, dilation, taps, more)]
    growth = [axis.growth - pads[i] - pads[dimensions + i] for i, axis in enumerate(axes)]
    given = attribute_of(node, "output_shape", [])
    if given:
        growth = _growth_to(graph, node, _sizes(node, "output_shape", dimensions, 1), stride)
    elif automatic.startswith("SAME"):
        growth = [min(axis.growth, 0) for axis in axes]
    before = pads[:dimensions]
    if given or automatic.startswith("SAME"):
        total = [max(axis.growth - size, 0) for axis, size in zip(axes, growth)]
        before = [(pad + (automatic != "SAME_UPPER")) // 2 for pad in total]
    return [axis._replace(padding=pad, growth=size)
            for axis, pad, size in zip(axes, before, growth)]


def _growth_to(graph: Graph, node: onnx.NodeProto, output: list[int],
               stride: list[int]) -> list[int]:
    """Axis.growth, by which images become of the size that the node says."""
    image = graph.shapes.get(node.input[0], ())[2:]
    if len(image) != len(output) or None in image:
        raise Refused("it has an output_shape: its padding depends on the image, whose size the "
                      "model leaves open")
    return [size - step * given for size, step, given in zip(output, stride, image)
            if given is not None]


def _sizes(node: onnx.NodeProto, name: str, count: int, least: int) -> list[int]:
    """Where they are missing, each is the least that there is."""
    sizes = attribute_of(node, name, [least] * count)
    if not isinstance(sizes, Sequence) or isinstance(sizes, bytes) or len(sizes) != count or \
            not all(isinstance(size, int) and size >= least for size in sizes):
        raise Refused(f"its {name} are {sizes!r}; expected {count} numbers from {least} on")
    return list(sizes)


def _automatic(node: onnx.NodeProto) -> str:
    given = attribute_of(node, "auto_pad", b"NOTSET")
    automatic = given.decode(errors="replace") if isinstance(given, bytes) else repr(given)
    if automatic not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise Refused(f"its auto_pad is {automatic}; expected NOTSET, VALID, SAME_UPPER or "
                      "SAME_LOWER")
    return automatic


def _padding(graph: Graph, node: onnx.NodeProto, taps: Sequence[int],
             stride: Sequence[int]) -> tuple[list[int], list[int]]:
    """Before and behind each dimension. `taps`: what the kernel covers beside one pixel."""
    automatic = _automatic(node)
    nothing = [0] * len(taps)
    if automatic == "NOTSET":
        pads = _sizes(node, "pads", 2 * len(taps), 0)
        return pads[:len(taps)], pads[len(taps):]
    if automatic == "VALID":
        return nothing, nothing
    total = list(taps)
    if any(step != 1 for step in stride):
        image = graph.shapes.get(node.input[0], ())[2:]
        if len(image) != len(taps) or None in image:
            raise Refused(f"auto_pad {automatic} with a stride: its padding depends on the image, "
                          "whose size the model leaves open")
        # So many that there are size / stride outputs, rounded up.
        total = [max((math.ceil(size / step) - 1) * step + tap + 1 - size, 0)
                 for size, step, tap in zip(image, stride, taps) if size is not None]
    low = [(pads + (automatic == "SAME_LOWER")) // 2 for pads in total]
    return low, [pads - before for pads, before in zip(total, low)]
