"""Channels of an ONNX model's values. Of each node a rule says which are constant and which may go:
of layers in _channel_layers.py, of other nodes in _channel_nodes.py and _channel_moves.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from .._channels import Channels, Cut, Gone, tie
from .._onnx_affine import per_channel
from .._onnx_protos import copied
from .._onnx_shapes import Extents
from .._onnx_values import Graph
from ._graph import Constants
from ._sessions import PROVIDERS


class Edits(Constants):
    """New constants of a model that is being rewritten, and what becomes of its layers."""

    def __init__(self, model: onnx.ModelProto, graph: Graph) -> None:
        super().__init__(model)
        self._cut: dict[tuple[Any, ...], str] = {}
        self.graph = graph  # of the model as it was
        # By the output of a product without a bias: what its user, an Add, adds besides.
        self.sums: dict[str, np.ndarray] = {}

    def cut(self, name: str, *kept: tuple[int, np.ndarray]) -> str:
        """The constant with these channels alone, by axis; layers that share it share that."""
        if all(keep.all() for _, keep in kept):
            return name
        key = name, *((axis, keep.tobytes()) for axis, keep in kept)
        if key not in self._cut:
            value = self.graph.constant(name)
            assert value is not None
            for axis, keep in kept:
                value = np.compress(keep, value, axis)
            self._cut[key] = self.put(f"{name} kept", value)
        return self._cut[key]


def _no_edit(_node: onnx.NodeProto, _gone: Gone, _edits: Edits) -> None:
    pass


@dataclass
class Rule:
    """Of a node. `limit` takes channels out of `gone` that have to stay, as long as others do;
    `edit` takes out of the node's operands what goes, and returns what goes of a layer."""

    outputs: dict[str, Channels]
    limit: Callable[[Gone], None]
    edit: Callable[[onnx.NodeProto, Gone, Edits], Optional[Cut]] = field(default=_no_edit)


class Scope:
    """A graph, and channels of the values that are known so far."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.graph = Graph(model)
        self.channels: dict[str, Channels] = {}
        self._imports = list(model.opset_import)
        self._ir_version = max(model.ir_version, 4)

    def rank(self, name: str) -> int | None:
        shape = self.graph.shapes.get(name)
        return None if shape is None else len(shape)

    def run(self, node: onnx.NodeProto, operands: Mapping[int, np.ndarray]) -> np.ndarray | None:
        """What ONNX Runtime computes of these operands, by their places, in the first output; None
        where it refuses."""
        single = copied(node)
        for place in range(len(single.input)):
            single.input[place] = f"x{place}" if place in operands else ""
        del single.output[1:]
        values = {f"x{place}": value for place, value in operands.items()}
        graph = helper.make_graph(
            [single], "one", [helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
                for name, value in values.items()],
            [helper.make_tensor_value_info(single.output[0], onnx.TensorProto.FLOAT, None)])
        model = helper.make_model(graph, opset_imports=self._imports,
                                  ir_version=self._ir_version)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        try:
            session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                                   providers=PROVIDERS)
            return np.asarray(session.run(None, values)[0])
        except Exception:  # onnxruntime has several types
            return None


def same(scope: Scope, node: onnx.NodeProto, operand: str, made: Channels) -> Rule:
    """The node's output has the operand's channels."""
    return Rule({node.output[0]: made}, lambda gone: tie(gone, [operand, node.output[0]]))


def along(shape: Extents | None, trailing: int) -> int | None:
    """Of an operand, its size where the channels are; None where it is not known."""
    if shape is None:
        return None
    axis = len(shape) - 1 - trailing
    return shape[axis] if axis >= 0 else 1


def computed(scope: Scope, node: onnx.NodeProto, operands: Mapping[int, np.ndarray],
             like: Channels, constant: np.ndarray) -> Channels:
    """What the node gives where `constant`, of operands [1, channels, 1...]."""
    return like.computed(constant, lambda: scope.run(node, operands))


def bias_at(graph: Graph, name: str, channels: int) -> np.ndarray | None:
    """A bias [channels], constant; None for another."""
    return per_channel(graph.constant(name), channels, trailing=0)
