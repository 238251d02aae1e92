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


@dataclass(frozen=True)
class Convolution:
    """Of images NCHW, as ONNX has it: stride and dilation of height and width; padding of top,
    left, bottom and right. Of one dimension: of images of height 1."""

    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    dimensions: int = 2  # of the model's own images


def convolution_of(graph: Graph, node: onnx.NodeProto,
                   weight: np.ndarray) -> tuple[np.ndarray, np.ndarray | None, Convolution]:
    """Of a node Conv with this weight: weights [out, in / groups, height, width], the bias, and the
    geometry. Raises Refused."""
    dimensions = weight.ndim - 2
    if dimensions not in (1, 2):
        raise Refused(f"its weights have {weight.ndim} dimensions; expected 4, of images, or 3")
    bias = None
    if len(node.input) > 2 and node.input[2]:
        bias = per_channel(graph.constant(node.input[2]), weight.shape[0], trailing=0)
        if bias is None:
            raise Refused(f"its bias is no constant [{weight.shape[0]}]")
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
    return weight, bias, Convolution(
        (stride[0], stride[1]), (low[0], low[1], high[0], high[1]), (dilation[0], dilation[1]),
        groups, dimensions)


def _sizes(node: onnx.NodeProto, name: str, count: int, least: int) -> list[int]:
    """Where they are missing, each is the least that there is."""
    sizes = attribute_of(node, name, [least] * count)
    if not isinstance(sizes, Sequence) or isinstance(sizes, bytes) or len(sizes) != count or \
            not all(isinstance(size, int) and size >= least for size in sizes):
        raise Refused(f"its {name} are {sizes!r}; expected {count} numbers from {least} on")
    return list(sizes)


def _padding(graph: Graph, node: onnx.NodeProto, taps: Sequence[int],
             stride: Sequence[int]) -> tuple[list[int], list[int]]:
    """Before and behind each dimension. `taps`: what the kernel covers beside one pixel."""
    given = attribute_of(node, "auto_pad", b"NOTSET")
    automatic = given.decode(errors="replace") if isinstance(given, bytes) else repr(given)
    if automatic not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise Refused(f"its auto_pad is {automatic}; expected NOTSET, VALID, SAME_UPPER or "
                      "SAME_LOWER")
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
