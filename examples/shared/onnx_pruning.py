"""Pruning of an ONNX model by magnitude."""

from __future__ import annotations

import onnx
import onnx.numpy_helper
from pruning import pruned

# The places of weights among the inputs of a node.
WEIGHTS = {"Conv": (1,), "MatMul": (1,), "Gemm": (1,), "LSTM": (1, 2), "GRU": (1, 2), "RNN": (1, 2)}


def prune(graph: onnx.GraphProto, zeros: float) -> int:
    """Each constant weight by itself; returns how many nodes have such. Filters of one channel, as
    those of depthwise convolutions and of Fourier transforms, stay as they are. `zeros`: the share
    of zeros, 0 to 1."""
    constants = {one.name: one for one in graph.initializer}
    constants.update((node.output[0], node.attribute[0].t) for node in graph.node
                     if node.op_type == "Constant" and node.attribute[0].name == "value")
    count = 0
    for node in graph.node:
        tensors = [constants[node.input[place]] for place in WEIGHTS.get(node.op_type, ())
                   if node.input[place] in constants]
        if node.op_type == "Conv" and any(tensor.dims[1] == 1 for tensor in tensors):
            continue
        for tensor in tensors:
            weights = onnx.numpy_helper.to_array(tensor)
            tensor.CopyFrom(onnx.numpy_helper.from_array(pruned(weights, zeros), tensor.name))
        count += bool(tensors)
    return count
