"""Hard swish, x * min(max(x + 3, 0), 6) / 6, in two passes over memory in place of four."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import onnx
from onnx import helper

from .._onnx_activations import activation_behind
from .._onnx_values import Graph


def shorter_hard_swishes(graph: Graph, taken: Collection[int]) -> dict[int, list[onnx.NodeProto]]:
    """Chains of more than two nodes, none of which is `taken`: by the index of each of their nodes
    what takes its place, HardSigmoid and Mul for the last."""
    made: dict[int, list[onnx.NodeProto]] = {}
    for value in _values_of_several(graph):
        shape = graph.shapes.get(value)
        found = activation_behind(graph, value, 0 if shape is None else len(shape), seen=True,
                                  names=("hard-swish", ))
        if found is None or len(found.nodes) <= 2 or found.nodes & {*taken, *made} or \
                not _is_float32(graph, found.nodes):
            continue
        last = max(found.nodes)
        name, gate = graph.nodes[last].name, graph.unused(f"{found.output} gate")
        made.update(dict.fromkeys(found.nodes, []))
        made[last] = [helper.make_node("HardSigmoid", [value], [gate], f"{name} gate",
                                       alpha=1 / 6, beta=0.5),
                      helper.make_node("Mul", [value, gate], [found.output], name)]
    return made


def _is_float32(graph: Graph, nodes: Collection[int]) -> bool:
    """By the constants: HardSigmoid is not there for other types on a CPU."""
    constants = [graph.constant(name) for i in nodes for name in graph.nodes[i].input if name]
    return all(one is None or one.dtype == np.float32 for one in constants)


def _values_of_several(graph: Graph) -> list[str]:
    """Values that several nodes read, in the order of the first of those."""
    names = dict.fromkeys(name for node in graph.nodes for name in node.input)
    return [name for name in names if name and len(graph.users(name)) > 1]
