"""Hard swish, x * min(max(x + 3, 0), 6) / 6, in two passes over memory in place of four."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import onnx
import onnx.numpy_helper
from onnx import helper


class _Chain(NamedTuple):
    input: str
    nodes: list[int]  # Add, Clip, Mul, Div


class _Values:
    """Constants and users of a graph's values."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.nodes = graph.node
        self._constants = {one.name: one for one in graph.initializer}
        for value in graph.input:
            self._constants.pop(value.name, None)
        self._seen = {value.name for value in graph.output}
        self._users: dict[str, list[int]] = {}
        for i, node in enumerate(graph.node):
            for name in node.input:
                self._users.setdefault(name, []).append(i)

    def is_scalar(self, name: str, expected: float) -> bool:
        if name not in self._constants:
            return False
        value = onnx.numpy_helper.to_array(self._constants[name])
        # One of more dimensions would add some to an image.
        return value.size == 1 and value.ndim <= 1 and float(value.reshape(())) == expected

    def are_scalars(self, names: Sequence[str], expected: list[float]) -> bool:
        return len(names) == len(expected) and all(map(self.is_scalar, names, expected))

    def only_user(self, index: int, op: str) -> int | None:
        """The node that alone reads what this one gives, if it is such a one."""
        name = self.nodes[index].output[0]
        users = self._users.get(name, [])
        if name in self._seen or len(users) != 1:
            return None
        node = self.nodes[users[0]]
        return users[0] if node.op_type == op and node.domain in ("", "ai.onnx") else None


def _other(node: onnx.NodeProto, name: str) -> str:
    return node.input[1] if node.input[0] == name else node.input[0]


def _chain_at(values: _Values, index: int) -> _Chain | None:
    add = values.nodes[index]
    if add.op_type != "Add" or not any(values.is_scalar(name, 3) for name in add.input):
        return None
    x = add.input[0] if values.is_scalar(add.input[1], 3) else add.input[1]
    clip = values.only_user(index, "Clip")
    if clip is None or not values.are_scalars(values.nodes[clip].input[1:], [0, 6]):
        return None
    product = values.only_user(clip, "Mul")
    if product is None or _other(values.nodes[product], values.nodes[clip].output[0]) != x:
        return None
    sixth = values.only_user(product, "Div")
    if sixth is None or values.nodes[sixth].input[0] != values.nodes[product].output[0] or \
            not values.is_scalar(values.nodes[sixth].input[1], 6):
        return None
    return _Chain(x, [index, clip, product, sixth])


def shorten_hard_swishes(graph: onnx.GraphProto) -> int:
    """Replaces such chains of Add, Clip, Mul and Div by HardSigmoid and Mul; their number."""
    values = _Values(graph)
    chains = [chain for i in range(len(graph.node)) if (chain := _chain_at(values, i)) is not None]
    removed = {i for chain in chains for i in chain.nodes}
    made = {chain.nodes[-1]: chain for chain in chains}
    nodes: list[onnx.NodeProto] = []
    for i, node in enumerate(graph.node):
        if i in made:
            gate = f"{node.output[0]} gate"
            x = made[i].input
            nodes.append(helper.make_node("HardSigmoid", [x], [gate], f"{node.name} gate",
                                          alpha=1 / 6, beta=0.5))
            nodes.append(helper.make_node("Mul", [x, gate], list(node.output), node.name))
        elif i not in removed:
            nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    return len(chains)
