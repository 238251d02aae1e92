"""An ONNX graph that is being made, node by node."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper


class GraphBuilder:
    """Every method gives the name of a value."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, onnx.TensorProto] = {}

    def node(self, op: str, *inputs: str, **attributes: object) -> str:
        output = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], f"/{op}_{len(self.nodes)}",
                                           **attributes))
        return output

    def constant(self, name: str, value: object) -> str:
        self.initializers[name] = numpy_helper.from_array(np.asarray(value), name)
        return name
