"""Values of a graph of an ONNX model: which are constant, who makes and who uses them, and their
shapes. Needs the package onnx."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx

from ._onnx_constants import array_of, densified, may_give_values, values_of
from ._onnx_protos import graphs_in, opset_of
from ._onnx_shapes import Extents, NamedExtents, Shapes, inferred, named_shapes_of, types_of


_HALVES = {"float16": "f16", "bfloat16": "bf16"}


class Graph:
    """Who makes and who uses each value of the main graph, and which values are constant."""

    def __init__(self, model: onnx.ModelProto, shapes: Shapes | None = None, *,
                 takes_halves: bool = False, takes_blocks: bool = False) -> None:
        """takes_halves: whether `floats` are fp16 and bf16, too. takes_blocks: whether a layer may
        have scales of blocks. Raises ValueError for shapes that are of no input."""
        self.takes_halves, self.takes_blocks = takes_halves, takes_blocks
        self.opset = opset_of(model)
        self._take(model.graph, model.ir_version, None)
        self._say(inferred(model, shapes), {}, {})

    def within(self, index: int) -> Iterator[Graph]:
        """The same of the graphs within a node, which see values of this one."""
        known = list(graphs_in(self._inferred.node[index]))
        for number, graph in enumerate(graphs_in(self.nodes[index])):
            made = Graph.__new__(Graph)
            made.opset = self.opset
            made.takes_halves, made.takes_blocks = self.takes_halves, self.takes_blocks
            made._take(graph, self.ir_version, self)
            outer = [name for name in {**self.extents, **self.types} if not made._is_own(name)
                     and name not in made._initializers and name not in made._sparse]
            made._say(known[number] if number < len(known) else onnx.GraphProto(),
                      {name: self.extents[name] for name in outer if name in self.extents},
                      {name: self.types[name] for name in outer if name in self.types})
            yield made

    def _say(self, graph: onnx.GraphProto, outer: dict[str, NamedExtents],
             outer_types: dict[str, np.dtype]) -> None:
        """Takes shapes and types from `graph`, of inferred(), and those of the graph around."""
        self._inferred = graph
        self.types = {**outer_types, **types_of(graph)}
        self.extents = {**outer, **named_shapes_of(graph)}
        self.shapes: dict[str, Extents] = {
            name: tuple(size if isinstance(size, int) else None for size in sizes)
            for name, sizes in self.extents.items()}

    def _take(self, graph: onnx.GraphProto, ir_version: int, outer: Graph | None) -> None:
        self.nodes = graph.node
        self.outer = outer
        self.ir_version = ir_version
        self._initializers = {one.name: one for one in graph.initializer}
        self._sparse = {one.values.name: one for one in graph.sparse_initializer}
        self._inputs = {value.name for value in graph.input}
        self._makers = {name: i for i, node in enumerate(self.nodes) for name in node.output}
        self._users: dict[str, list[int]] = {}
        self._kept = {value.name for value in graph.output}
        self._computed: dict[str, np.ndarray | None] = {}
        for i, node in enumerate(self.nodes):
            for name in node.input:
                self._users.setdefault(name, []).append(i)
            self._kept.update(names_used_in(node))
        self._known = {*self._initializers, *self._sparse, *self._makers, *self._users,
                       *self._kept, *self._inputs}

    def users(self, name: str) -> list[int]:
        return self._users.get(name, [])

    def maker(self, name: str) -> int | None:
        return self._makers.get(name)

    def unused(self, name: str) -> str:
        """A name that no value has."""
        while self._has(name):
            name += "'"
        return name

    def _has(self, name: str) -> bool:
        return name in self._known or (self.outer is not None and self.outer._has(name))

    def only_within(self, name: str, nodes: set[int]) -> bool:
        """Nothing but these nodes sees the value."""
        return name not in self._kept and nodes.issuperset(self.users(name))

    def is_kept(self, name: str) -> bool:
        """Whether the graph gives it, or a graph within a node may use it."""
        return name in self._kept

    def is_replaceable(self, name: str) -> bool:
        """What is an input, too, is a default that a run may replace. Before version 4 every
        initializer had to be one."""
        if name in self._initializers or name in self._sparse:
            return self.ir_version >= 4 and self.outer is None and name in self._inputs
        return self.outer is not None and not self._is_own(name) and self.outer.is_replaceable(name)

    def _is_own(self, name: str) -> bool:
        return name in self._makers or name in self._inputs

    def default(self, name: str) -> np.ndarray | None:
        """What `name` is if no run replaces it; None for a value that is computed of inputs."""
        if name in self._initializers:
            return array_of(self._initializers[name])
        if name in self._sparse:
            return densified(self._sparse[name])
        if name in self._makers:
            return self._of_node(name)
        return self.outer.default(name) if self.outer and name not in self._inputs else None

    def constant(self, name: str) -> np.ndarray | None:
        """None for a value that is computed of inputs."""
        return None if self.is_replaceable(name) else self.default(name)

    def floats(self, name: str) -> np.ndarray | None:
        """A constant, as fp32 if it is fp16 or bf16 and these are taken."""
        value = self.constant(name)
        return value.astype(np.float32) if self.takes_halves and half_of(value) else value

    def _of_node(self, name: str) -> np.ndarray | None:
        """What it is made of comes first, without recursion: chains may be long."""
        opened: set[str] = set()
        pending = [name]
        while pending:
            current = pending[-1]
            node = self.nodes[self._makers[current]]
            if current in self._computed:
                pending.pop()
                if current in opened:
                    opened.remove(current)
                    self._computed.update(values_of(node, self.constant, self.opset))
                continue
            # None: of a cycle, or unknown. The node may give it no longer: it is being rewritten.
            self._computed.update(dict.fromkeys((current, *node.output)))
            if _is_known(node):
                opened.add(current)
                pending += [operand for operand in node.input if operand not in self._computed
                            and operand in self._makers and operand not in self._initializers
                            and operand not in self._sparse]
        return self._computed[name]

    def scalar(self, name: str, rank: int = 1) -> float | None:
        """A constant of one element, of at most `rank` dimensions: one of more would add some to
        what it is computed with."""
        value = self.constant(name) if name else None
        fits = value is not None and value.size == 1 and value.ndim <= rank
        return float(value.reshape(())) if value is not None and fits else None


def half_of(value: np.ndarray | None) -> str:
    """"f16" or "bf16" of values of these types, else ""."""
    return "" if value is None else _HALVES.get(value.dtype.name, "")


def is_standard(node: onnx.NodeProto) -> bool:
    return node.domain in ("", "ai.onnx")


def _is_known(node: onnx.NodeProto) -> bool:
    """Whether what it gives of constants is known. ONNX Runtime's own DequantizeLinear computes what
    that of ONNX does, and had 16 bits before it."""
    is_same = is_standard(node) or (is_fused(node) and node.op_type == "DequantizeLinear")
    return is_same and may_give_values(node)


def is_fused(node: onnx.NodeProto) -> bool:
    """By ONNX Runtime."""
    return node.domain == "com.microsoft"


def names_used_in(node: onnx.NodeProto) -> Iterator[str]:
    """What the graphs within a node may use of the main graph."""
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            yield from (value.name for value in graph.output)
            for inner in graph.node:
                yield from inner.input
                yield from names_used_in(inner)
