"""Layers of an ONNX model as weights with options of the command line. Needs the package onnx."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

import numpy as np

from ._onnx_graph import OnnxLayer
from ._onnx_integers import Quantisation
from ._onnx_recurrent import OnnxRecurrent


class Weights(NamedTuple):
    """Of one kernel."""

    name: str
    weight: np.ndarray
    bias: Optional[np.ndarray]
    options: dict[str, Any]  # as `--layers` takes them, without the name
    scale: Optional[np.ndarray] = None  # of each row, where the kernel has it


def of_layer(name: str, layer: OnnxLayer) -> Weights:
    """A transposed convolution is the convolution of its phases, which a program puts together."""
    weight, bias = layer.weight, layer.bias
    phases = layer.convolution.phases if layer.convolution is not None else None
    if phases is not None:
        weight = phases.weights(weight)
        bias = None if bias is None else phases.bias(bias)
    options: dict[str, Any] = {"bias": bias is not None, "residual": layer.residual is not None,
                               "activation": layer.activation or "none"}
    if layer.quantisation is not None:
        options.update(_numerics_of(layer.quantisation))
        if layer.convolution is None:
            options["layout"] = "tokens"
        return Weights(name, weight, bias, {**options, **_convolution_of(layer, weight)},
                       layer.quantisation.scale)
    if layer.half:  # others stay fp32, for GPUs, too
        options["types"] = ",".join(layer.types)
    return Weights(name, weight, bias, {**options, **_convolution_of(layer, weight)})


def _numerics_of(of: Quantisation) -> dict[str, Any]:
    made = {"types": ",".join(of.types), "accumulate": "integer"}
    if of.scale is None:
        return made
    return {**made, "scale": True, "quantize": of.mode, "bias-first": of.bias_first}


def _convolution_of(layer: OnnxLayer, weight: np.ndarray) -> dict[str, Any]:
    """Nothing of a product, and of a convolution whose image the model leaves open. `weight`: of
    the kernel."""
    if layer.convolution is None or None in layer.image:
        return {}
    geometry = layer.convolution
    stride, pad, dilation = geometry.stride, geometry.pad, geometry.dilation
    if geometry.phases is not None:
        rows, columns = geometry.phases.rows, geometry.phases.columns
        stride, dilation = (1, 1), (rows.dilation, columns.dilation)
        pad = (rows.padding[0], columns.padding[0], rows.padding[1], columns.padding[1])
    image = (weight.shape[1] * geometry.groups, *layer.image)
    return {"conv": _sizes(image), "stride": _sizes(stride), "pad": _sizes(pad),
            "dilation": _sizes(dilation), "groups": geometry.groups}


def _sizes(sizes: tuple[Any, ...]) -> str:
    return "x".join(map(str, sizes))


def of_recurrent(name: str, layer: OnnxRecurrent) -> Iterator[Weights]:
    """A kernel for each of the matrices of each direction: NAME.input.0, NAME.recurrent.0 and, of a
    GRU that resets first, NAME.candidate.0. Steps and sequences are tokens."""
    for number, matrices in enumerate(layer.matrices):
        biases: dict[str, np.ndarray] = {}
        if layer.bias is not None:
            of_input, of_state = np.split(layer.bias[number], 2)
            split = len(matrices.recurrent)
            biases = {"input": of_input, "recurrent": of_state[:split],
                      "candidate": of_state[split:]}
        for part, weight in matrices._asdict().items():
            if weight is not None:
                yield Weights(f"{name}.{part}.{number}", weight, biases.get(part),
                              {"bias": bool(biases), "layout": "tokens"})
