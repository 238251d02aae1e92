"""Graphs of torch.fx, which torch.export makes too: products by functions become calls of layers."""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule, Node
from torch.nn import functional

from ._fusion import has_hooks

_FUNCTIONS: dict[Any, type[nn.Module]] = {
    functional.linear: nn.Linear, torch.ops.aten.linear.default: nn.Linear,
    functional.conv1d: nn.Conv1d, torch.ops.aten.conv1d.default: nn.Conv1d,
    torch.ops.aten.conv1d.padding: nn.Conv1d,
    functional.conv2d: nn.Conv2d, torch.ops.aten.conv2d.default: nn.Conv2d,
    torch.ops.aten.conv2d.padding: nn.Conv2d}
_NAMES = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
_OF_CONVOLUTIONS = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}


@contextlib.contextmanager
def layers_in_graphs(model: nn.Module) -> Iterator[None]:
    """In the graphs within the model, products with weights of a module become calls of a layer
    with these weights, where that module has nothing else. Names and parameters stay. An exception
    puts all back."""
    graphs = [_Graph(model, each) for each in model.modules() if isinstance(each, GraphModule)]
    try:
        for graph in graphs:
            graph.make()
        yield
    except BaseException:
        for graph in graphs:
            graph.put_back()
        raise


class _Graph:
    """A graph, and the modules around it that become layers."""

    def __init__(self, model: nn.Module, module: GraphModule) -> None:
        self._model = model
        self._module = module
        self._before = module.graph
        self._layers: dict[nn.Module, nn.Module] = {}  # that take the place of modules

    def make(self) -> None:
        if not any(node.target in _FUNCTIONS for node in self._before.nodes
                   if node.op == "call_function"):
            return
        graph = copy.deepcopy(self._before)
        calls = [node for node in graph.nodes if node.op == "call_function"
                 and node.target in _FUNCTIONS and self._call(node)]
        if not calls:
            return
        # What a call of a layer reads by itself. Other nodes without users may do something.
        for read in [node for node in graph.nodes if node.op == "get_attr" and not node.users]:
            graph.erase_node(read)
        graph.lint()
        for old, new in self._layers.items():
            self._replace(old, new)
        self._module.graph = graph

    def put_back(self) -> None:
        if self._module.graph is self._before:
            return
        for old, new in self._layers.items():
            self._replace(new, old)
        self._module.graph = self._before

    def _replace(self, old: nn.Module, new: nn.Module) -> None:
        for parent in list(self._model.modules()):
            for name, child in parent._modules.items():
                if child is old:
                    parent._modules[name] = new

    def _call(self, node: Node) -> bool:
        """Whether the node calls a layer now."""
        given = dict(itertools.chain(zip(_NAMES, node.args), node.kwargs.items()))
        weight, bias = given.pop("weight", None), given.pop("bias", None)
        x = given.pop("input", None)
        path = _attribute(weight, "weight")
        if path is None or not isinstance(x, Node) or given.keys() - _OF_CONVOLUTIONS.keys():
            return False
        if bias is not None and _attribute(bias, "bias") != path:
            return False
        owner = self._module.get_submodule(path)
        layer = self._layers.get(owner) or _layer(_FUNCTIONS[node.target], owner, given)
        if layer is None or not _computes(layer, _FUNCTIONS[node.target], bias is not None, given):
            return False
        if layer is not owner:
            self._layers[owner] = layer
        node.op, node.target, node.args, node.kwargs = "call_module", path, (x,), {}
        return True


def _attribute(node: Any, name: str) -> str | None:
    """The path of the module, of which the node reads this attribute."""
    if not isinstance(node, Node) or node.op != "get_attr":
        return None
    path, _, last = str(node.target).rpartition(".")
    return path if path and last == name else None


def _layer(kind: type[nn.Module], owner: nn.Module, given: dict[str, Any]) -> nn.Module | None:
    """`owner`, if it is a layer, or one with its parameters. None if it has more than these."""
    if type(owner) is kind:
        return None if has_hooks(owner) else owner
    weight, bias = (owner._parameters.get(name) for name in ("weight", "bias"))
    dimensions = {nn.Linear: 2, nn.Conv1d: 3, nn.Conv2d: 4}[kind]
    if (type(owner) is not nn.Module or owner._modules or owner._buffers or has_hooks(owner)
            or owner._parameters.keys() - {"weight", "bias"} or weight is None
            or weight.dim() != dimensions):
        return None
    options: dict[str, Any] = {"bias": bias is not None, "device": "meta"}
    try:
        if kind is nn.Linear:
            layer: nn.Module = nn.Linear(weight.shape[1], len(weight), **options)
        else:
            groups = given.get("groups", 1)
            layer = kind(weight.shape[1] * groups, len(weight), tuple(weight.shape[2:]),
                         **given, **options)
    except (TypeError, ValueError):  # sizes that are nodes themselves
        return None
    layer._parameters.clear()  # the order of `state_dict()` stays
    layer._parameters.update({**owner._parameters, "bias": bias})
    return layer.train(owner.training)


def _computes(layer: nn.Module, kind: type[nn.Module], has_bias: bool,
              given: dict[str, Any]) -> bool:
    """Whether the layer does what a function of this kind does with its parameters."""
    if type(layer) is not kind or (layer._parameters.get("bias") is not None) != has_bias:
        return False
    if kind is nn.Linear:
        return not given
    if layer.padding_mode != "zeros":
        return False
    axes = len(layer.kernel_size)  # type: ignore[arg-type]
    return all(_for_each(given.get(name, default), axes) == _for_each(getattr(layer, name), axes)
               for name, default in _OF_CONVOLUTIONS.items() if name != "groups") \
        and given.get("groups", 1) == layer.groups


def _for_each(size: Any, axes: int) -> Any:
    if isinstance(size, str):
        return size
    sizes = tuple(size) if isinstance(size, (list, tuple)) else (size,)
    return sizes * axes if len(sizes) == 1 else sizes
