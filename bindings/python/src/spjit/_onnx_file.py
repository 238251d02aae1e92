"""An ONNX model as the command line reads it: a safetensors file in memory, with options of its
layers. Needs the package onnx."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx

from ._onnx_graph import OnnxLayer, Survey, survey


def parse_shapes(lines: str) -> dict[str, tuple[int, ...]]:
    """"x=1x3x640x640", a line each. Raises ValueError for others."""
    shapes = {}
    for line in lines.splitlines():
        name, _, sizes = line.rpartition("=")
        try:
            shapes[name] = tuple(int(size) for size in sizes.split("x"))
        except ValueError:
            shapes[name] = ()
        if not name or not shapes[name] or min(shapes[name]) < 1:
            raise ValueError(f"--input-shape {line!r}; expected NAME=SIZES, as x=1x3x640x640")
    return shapes


def convert(path: str, shapes: str) -> str:
    """The path of a file that is there as long as the process. Raises OSError, ValueError."""
    try:
        model = onnx.load(path)
    except Exception as error:  # protobuf has errors of its own
        raise ValueError(f"cannot be read as ONNX: {error}") from error
    found = survey(model, parse_shapes(shapes))
    descriptor = os.memfd_create("spjit-onnx")
    with open(descriptor, "wb", closefd=False) as file:
        for piece in _safetensors(found):
            file.write(piece)
    return f"/proc/self/fd/{descriptor}"


def _dotted(name: str) -> str:
    """FILE/NAME and globs go by dots: "/encoder/fc/MatMul" becomes "encoder.fc.MatMul"."""
    return name.strip("/").replace("/", ".")


def _options_of(name: str, layer: OnnxLayer) -> dict[str, Any]:
    options: dict[str, Any] = {"name": name, "bias": layer.bias is not None,
                               "residual": layer.residual is not None,
                               "activation": layer.activation or "none"}
    if layer.clamp is not None:
        options["activation"] = "clamp:{!r},{!r}".format(*layer.clamp)
    shape = layer.input_shape
    if layer.convolution is None or shape is None or len(shape) != 4 or None in shape[2:]:
        return options
    geometry = layer.convolution
    channels = layer.weight.shape[1] * geometry.groups
    return {**options, "conv": f"{channels}x{shape[2]}x{shape[3]}",
            "stride": "x".join(map(str, geometry.stride)),
            "pad": "x".join(map(str, geometry.pad)),
            "dilation": "x".join(map(str, geometry.dilation)), "groups": geometry.groups}


def _safetensors(found: Survey) -> Iterator[bytes]:
    tensors: dict[str, np.ndarray] = {}
    options = []
    for layer in found.layers:
        name = _dotted(layer.name) + ".weight"
        tensors[name] = layer.weight
        if layer.bias is not None:
            tensors[name.removesuffix("weight") + "bias"] = layer.bias
        options.append(_options_of(name, layer))
    document = {"layers": options, "left_dense": [
        {"name": _dotted(other.name), "reason": f"{other.op}: {other.reason}"}
        for other in found.others]}
    header: dict[str, Any] = {"__metadata__": {"spjit": json.dumps(document)}}
    end = 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": tensor.shape,
                        "data_offsets": [end, end + tensor.nbytes]}
        end += tensor.nbytes
    text = json.dumps(header).encode()
    yield struct.pack("<Q", len(text)) + text
    for tensor in tensors.values():
        yield np.ascontiguousarray(tensor, "<f4").tobytes()
