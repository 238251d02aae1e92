"""Copies and changes of ONNX's messages. Needs the package onnx."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import onnx
from google.protobuf.message import Message

_Message = TypeVar("_Message", bound=Message)


def copied(message: _Message) -> _Message:
    made = type(message)()
    made.CopyFrom(message)
    return made


def graphs_in(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        yield from attribute.graphs
        if attribute.HasField("g"):
            yield attribute.g


def all_graphs_in(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Those within their nodes, too."""
    for graph in graphs_in(node):
        yield graph
        for inner in graph.node:
            yield from all_graphs_in(inner)


def all_graphs_of(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """It, and those within its nodes."""
    yield graph
    for node in graph.node:
        yield from all_graphs_in(node)


Scope = tuple[tuple[int, int], ...]  # each the node, and which of its graphs; () is the main graph


def graph_at(model: onnx.ModelProto, scope: Scope) -> onnx.GraphProto:
    graph = model.graph
    for node, number in scope:
        graph = list(graphs_in(graph.node[node]))[number]
    return graph


def put_nodes(graph: onnx.GraphProto, nodes: Iterable[onnx.NodeProto]) -> None:
    """In place of those that it has, which may be among them."""
    made = [copied(node) for node in nodes]
    del graph.node[:]
    graph.node.extend(made)


def without_attributes(node: onnx.NodeProto, *names: str) -> onnx.NodeProto:
    kept = [one for one in node.attribute if one.name not in names]
    del node.attribute[:]
    node.attribute.extend(kept)
    return node


def opset_of(model: onnx.ModelProto) -> int:
    """Of the standard operators; 1 where the model does not say, as some old ones."""
    return next((one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), 1)
