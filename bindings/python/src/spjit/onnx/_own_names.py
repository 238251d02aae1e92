"""Names of values within nodes, which ONNX Runtime's optimizer does not keep apart."""

from __future__ import annotations

from collections.abc import Mapping, Set

import onnx

from .._onnx_forms import names_in
from .._onnx_protos import graphs_in
from .._onnx_weights import Names


def give_own_names(graph: onnx.GraphProto) -> None:
    """Gives other names to values within nodes that have that of a value around: where ONNX Runtime
    puts functions in place of their calls, it takes the same names again, which it then refuses."""
    _rename(graph, names_in(graph), {}, frozenset())


def _rename(graph: onnx.GraphProto, names: Names, around: Mapping[str, str],
            taken: Set[str]) -> None:
    """`around`: new names of values of the graphs around; `taken`: all names there."""
    own = {one.name for one in (*graph.input, *graph.initializer)}
    own.update(one.values.name for one in graph.sparse_initializer)
    own.update(name for node in graph.node for name in node.output if name)
    renamed = {name: new for name, new in around.items() if name not in own}
    renamed.update((name, names.unique(name)) for name in sorted(own & taken))
    if renamed:
        tensors = [one.values for one in graph.sparse_initializer]
        for one in (*graph.input, *graph.output, *graph.value_info, *graph.initializer, *tensors):
            one.name = renamed.get(one.name, one.name)
        for node in graph.node:
            node.input[:] = [renamed.get(name, name) for name in node.input]
            node.output[:] = [renamed.get(name, name) for name in node.output]
    visible = taken | {renamed.get(name, name) for name in own}
    for node in graph.node:
        for inner in graphs_in(node):
            _rename(inner, names, renamed, visible)
