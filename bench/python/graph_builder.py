"""An ONNX graph that is being made, node by node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = Sequence[str | int]


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

    def model(self, inputs: dict[str, Shape], output: tuple[str, Shape],
              element: int = TensorProto.FLOAT) -> onnx.ModelProto:
        """Inputs are of `element`. The output is what the last node makes, in fp32, renamed."""
        name, shape = output
        self.nodes[-1].output[0] = name
        graph = helper.make_graph(
            self.nodes, "graph",
            [helper.make_tensor_value_info(one, element, size) for one, size in inputs.items()],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)],
            list(self.initializers.values()))
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
