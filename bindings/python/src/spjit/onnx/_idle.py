"""Channels that need not be computed leave a model: those that are the same number in every run, and
those that nothing reads."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper

from .._channels import Cut, Gone, keep_all, settle
from .._onnx_protos import copied, put_nodes
from .._onnx_values import is_standard
from .._report import Removed
from ._channel_layers import LAYERS, has_sum_behind, layer_rule
from ._channel_moves import MOVES
from ._channel_nodes import NODES, elementwise, is_elementwise
from ._channels import Edits, Rule, Scope
from ._graph import drop_unread, shapes_in
from ._sessions import Own

_OTHERS = {**NODES, **MOVES}
_OLDEST = 7  # before it attributes say how operands broadcast


class Layer(NamedTuple):
    """What went of a layer."""

    node: onnx.NodeProto  # as it was
    cut: Cut


def without_idle_channels(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[Layer]]:
    """A copy without them, and layers that became smaller; the model itself if there is none. A
    channel goes from all nodes that it passes. Where it is constant, it becomes part of the biases
    of layers that read it. Outputs keep their shapes."""
    scope = Scope(model)
    rules = _rules(scope) if scope.graph.opset >= _OLDEST else {}
    gone = _gone(scope, rules)
    if not any(one.any() for one in gone.values()):
        return model, []
    result = copied(model)
    edits = Edits(result, scope.graph)
    layers: list[Layer] = []
    made: list[onnx.NodeProto] = []
    for index, node in enumerate(result.graph.node):
        touched = any(name in gone and gone[name].any() for name in (*node.input, *node.output))
        if index in rules and (touched or not edits.sums.keys().isdisjoint(node.input)):
            cut = rules[index].edit(node, gone, edits)
            layers += [] if cut is None else [Layer(scope.graph.nodes[index], cut)]
        made += _with_sum(node, gone, edits)
    put_nodes(result.graph, made)
    drop_unread(result.graph)
    left = [one for one in result.graph.value_info
            if one.name not in gone or not gone[one.name].any()]
    del result.graph.value_info[:]
    result.graph.value_info.extend(left)
    return result, layers


def _rules(scope: Scope) -> dict[int, Rule]:
    """By the index of the node; and what is known of values."""
    rules: dict[int, Rule] = {}
    for index, node in enumerate(scope.graph.nodes):
        rule = None
        if node.op_type in LAYERS:
            rule = layer_rule(scope, node)
        elif is_elementwise(node):
            rule = elementwise(scope, node)
        elif node.op_type in _OTHERS and is_standard(node):
            rule = _OTHERS[node.op_type](scope, node)
        if rule is not None:
            rules[index] = rule
            scope.channels.update(rule.outputs)
    return rules


def _gone(scope: Scope, rules: dict[int, Rule]) -> Gone:
    """As many as can: first all, and then those that no rule keeps."""
    gone = {name: np.ones(one.size, bool) for name, one in scope.channels.items()}
    keep_all(gone, [name for name in gone if scope.graph.is_kept(name)])
    for index, node in enumerate(scope.graph.nodes):
        if index not in rules:
            keep_all(gone, list(node.input))
    settle(gone, scope.channels, [rules[index].limit for index in sorted(rules)])
    return gone


def _with_sum(node: onnx.NodeProto, gone: Gone, edits: Edits) -> list[onnx.NodeProto]:
    """With what a product adds that has no bias, unless the next node does."""
    output = node.output[0] if node.output else ""
    if output not in edits.sums or has_sum_behind(edits.graph, output, len(gone[output])):
        return [node]
    shift = edits.sums.pop(output)[~gone[output]].astype(np.float32)
    node.output[0] = edits.unique(f"{output} product")
    return [node, helper.make_node("Add", [node.output[0], edits.put(f"{output} bias", shift)],
                                   [output], edits.unique(f"{node.name} sum"))]


def removed(model: onnx.ModelProto, layers: list[Layer], inputs: tuple[Any, ...],
            own: Own) -> list[Removed]:
    """What went, with what that saves in a run with these inputs. `model`: as it was before."""
    names = [name for layer in layers for name in (layer.node.input[0], layer.node.output[0])]
    shapes = shapes_in(model, list(dict.fromkeys(names)), inputs, own) if layers else {}
    found = []
    for node, cut in layers:
        outputs = math.prod(shapes[node.output[0]]) // cut.shape[0]  # of a row
        places = outputs if node.op_type != "ConvTranspose" else math.prod(
            shapes[node.input[0]]) // cut.shape[1]
        found.append(Removed(node.name, cut.shape, cut.rows, cut.columns, cut.folded,
                             2 * cut.weights * places, 4 * (cut.weights + cut.rows * outputs)))
    return found
