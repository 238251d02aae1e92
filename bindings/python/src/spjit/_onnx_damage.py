"""Constants of an ONNX model that cannot be read: they stop what is made of them, and nothing else.
Needs the package onnx."""

from __future__ import annotations

from typing import Any, Union

import onnx

from ._onnx_constants import array_of, densified
from ._onnx_external import DataFiles, is_outside
from ._onnx_protos import graphs_in

_Constant = Union[onnx.TensorProto, onnx.SparseTensorProto]
Damaged = tuple[onnx.NodeProto, str]  # and why


def read_constants(model: onnx.ModelProto, path: str) -> list[Damaged]:
    """Reads what constants have in files beside `path`, the model's, and takes those out that cannot be read or
    are not of their type and shape. Nodes that these were operands of; of several that follow one
    another the first. Raises ValueError where no such file can be read."""
    reader = _Reader(DataFiles(path))
    reader.take(model.graph, {})
    if reader.unread and len(reader.unread) == reader.outside:
        raise ValueError(reader.unread[0])
    return reader.damaged


class _Reader:
    def __init__(self, files: DataFiles) -> None:
        self._files = files
        self.damaged: list[Damaged] = []
        self.outside = 0  # constants that are in files of their own
        self.unread: list[str] = []  # why, of those whose file could not be read

    def take(self, graph: onnx.GraphProto, around: dict[str, str]) -> None:
        """`around`: what is wrong with constants of the graphs around, by their names."""
        wrong = {**around, **self._take_from(graph.initializer),
                 **self._take_from(graph.sparse_initializer), **self._take_nodes(graph)}
        for node in graph.node:
            reason = next((wrong[name] for name in node.input if name in wrong), "")
            if not reason:
                reason = next(filter(None, map(self._why_wrong, _constants_in(node))), "")
            if reason:
                self.damaged.append((node, reason))
            for inner in graphs_in(node):
                self.take(inner, wrong)

    def _take_from(self, constants: Any) -> dict[str, str]:
        """Of a repeated field; what is wrong with those taken out, by their names."""
        wrong = {}
        for place in reversed(range(len(constants))):
            constant = constants[place]
            if reason := self._why_wrong(constant):
                wrong[_name_of(constant)] = reason
                del constants[place]
        return wrong

    def _take_nodes(self, graph: onnx.GraphProto) -> dict[str, str]:
        """The same of nodes Constant."""
        wrong = {}
        for place in reversed(range(len(graph.node))):
            node = graph.node[place]
            if node.op_type != "Constant" or not node.output:
                continue
            if reason := next(filter(None, map(self._why_wrong, _constants_in(node))), ""):
                wrong[node.output[0]] = reason
                del graph.node[place]
        return wrong

    def _why_wrong(self, constant: _Constant) -> str:
        """"" if nothing is."""
        try:
            if isinstance(constant, onnx.SparseTensorProto):
                self._load(constant.values)
                self._load(constant.indices)
                densified(constant)
            else:
                self._load(constant)
                array_of(constant)
        except Exception as error:  # onnx and numpy have several kinds
            return " ".join(str(error).split()) or type(error).__name__
        return ""

    def _load(self, tensor: onnx.TensorProto) -> None:
        if not is_outside(tensor):
            return
        self.outside += 1
        try:
            self._files.load(tensor)
        except Exception as error:
            self.unread.append(str(error))
            raise


def _constants_in(node: onnx.NodeProto) -> list[_Constant]:
    """In its attributes."""
    return [*(one.t for one in node.attribute if one.HasField("t")),
            *(one.sparse_tensor for one in node.attribute if one.HasField("sparse_tensor"))]


def _name_of(constant: _Constant) -> str:
    return constant.values.name if isinstance(constant, onnx.SparseTensorProto) else constant.name
