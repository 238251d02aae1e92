"""Constants of an ONNX model that are in files beside it. Needs the package onnx."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

import onnx

from ._onnx_protos import all_graphs_of, graphs_in


class DataFiles:
    """The files that a model may name: those in its folder and below. Links may lead to others
    there, and to those beside the file that the model itself is a link to, as in a cache of models.
    ONNX Runtime has the same rule; the package onnx refuses every link."""

    def __init__(self, model: str) -> None:
        self._folder = os.path.dirname(model)
        self._allowed = {os.path.realpath(self._folder), os.path.dirname(os.path.realpath(model))}

    def load(self, tensor: onnx.TensorProto) -> None:
        """Puts what the tensor has in such a file into the tensor. Raises ValueError, OSError."""
        entries = {one.key: one.value for one in tensor.external_data}
        path = self._path_of(tensor.name, entries.get("location", ""))
        offset, length = (_number(tensor.name, key, entries.get(key)) for key in
                          ("offset", "length"))
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = offset or 0
            end = size if length is None else start + length
            if not start <= end <= size:
                raise ValueError(f"the data of the constant {tensor.name!r} are bytes {start} to "
                                 f"{end} of {path}, which has {size}")
            file.seek(start)
            tensor.raw_data = file.read(end - start)
        _say_inside(tensor)

    def load_all(self, model: onnx.ModelProto) -> None:
        """The same of all tensors. What a tensor still has itself stays as it is."""
        for tensor in tensors_of(model):
            if is_outside(tensor):
                if tensor.HasField("raw_data"):
                    _say_inside(tensor)
                else:
                    self.load(tensor)

    def _path_of(self, tensor: str, location: str) -> str:
        what = f"the data of the constant {tensor!r} are in {location!r}"
        if not location or os.path.isabs(location):
            raise ValueError(f"{what}; expected the path of a file from the model's folder")
        path = os.path.join(self._folder, location)
        real = os.path.realpath(path)
        if not any(os.path.commonpath((real, folder)) == folder for folder in self._allowed):
            raise ValueError(f"{what}, which leads to {real}; expected a file in the model's folder")
        if not os.path.exists(real):
            raise ValueError(f"{what}: {path} does not exist")
        if not stat.S_ISREG(os.stat(real).st_mode):
            raise ValueError(f"{what}: {path} is no regular file")
        return path


def _say_inside(tensor: onnx.TensorProto) -> None:
    tensor.data_location = onnx.TensorProto.DEFAULT
    del tensor.external_data[:]


def _number(tensor: str, key: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 19:
        raise ValueError(f"the {key} of the constant {tensor!r} is {text[:40]!r}; expected a number "
                         "of bytes")
    return int(text)


def is_outside(tensor: onnx.TensorProto) -> bool:
    return tensor.data_location == onnx.TensorProto.EXTERNAL


def tensors_of(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """All, also of functions and of graphs within nodes."""
    for graph in all_graphs_of(model.graph):
        yield from _tensors_in(graph)
    for function in model.functions:
        for node in function.node:
            yield from _literals_in(node)
            for inner in graphs_in(node):
                for graph in all_graphs_of(inner):
                    yield from _tensors_in(graph)


def _tensors_in(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from _literals_in(node)


def _literals_in(node: onnx.NodeProto) -> Iterator[onnx.TensorProto]:
    """Of attributes."""
    for one in node.attribute:
        if one.HasField("t"):
            yield one.t
        yield from one.tensors
        for sparse in (one.sparse_tensor, *one.sparse_tensors):
            if sparse.HasField("values"):
                yield from (sparse.values, sparse.indices)
