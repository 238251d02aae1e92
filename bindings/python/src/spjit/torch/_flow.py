"""Which values go from layer to layer: in an nn.Sequential, and in graphs of torch.fx, which
torch.export makes too. What a forward() of its own does nobody sees."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional

import torch
from torch import nn
from torch.fx import GraphModule, Node
from torch.nn import functional

from ._fusion import SparseSequential, has_hooks
from ._shortened import has_plain_settings

# Of numbers one by one, in evaluation.
_MODULES = frozenset((
    nn.CELU, nn.Dropout, nn.ELU, nn.GELU, nn.Hardsigmoid, nn.Hardswish, nn.Hardtanh, nn.Identity,
    nn.LeakyReLU, nn.LogSigmoid, nn.Mish, nn.ReLU, nn.ReLU6, nn.SELU, nn.SiLU, nn.Sigmoid,
    nn.Softplus, nn.Softsign, nn.Tanh))
_NAMES = ("abs", "celu", "elu", "gelu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu",
          "mish", "neg", "relu", "relu6", "selu", "sigmoid", "silu", "softplus", "softsign", "tanh")


def _named(names: Iterable[str]) -> frozenset[Any]:
    """Functions and operators of these names."""
    found = [each for name in names for each in (
        getattr(torch, name, None), getattr(functional, name, None),
        getattr(getattr(torch.ops.aten, name, None), "default", None))]
    return frozenset(each for each in found if each is not None)


_IN_PLACE = _named(f"{name}_" for name in _NAMES)
_FUNCTIONS = _named(_NAMES) | _IN_PLACE
_DROPOUTS = frozenset((functional.dropout, torch.ops.aten.dropout.default))
_METHODS = frozenset(("abs", "neg", "relu", "sigmoid", "tanh"))


# After them calls are in another mode, in which layers between run as a whole or not.
_MODES = frozenset(("_set_grad_enabled", "_enter_autocast", "_exit_autocast",
                    "_enter_inference_mode", "_exit_inference_mode"))


class Step(NamedTuple):
    """A layer, or what acts on each number by itself."""

    source: str  # names of values
    output: str
    module: Optional[nn.Module]  # that is called
    apply: Optional[Callable[[Any], Any]]  # None: it is a layer


@dataclass
class Flow:
    """Of the values of a host."""

    host: nn.Module
    steps: list[Step] = field(default_factory=list)  # in the order of calls
    kept: set[str] = field(default_factory=set)  # values that others than steps read


def flows_in(model: nn.Module, layers: Collection[nn.Module]) -> Iterator[Flow]:
    """Of each host of these layers. A step calls a module that is nowhere else, and that nobody
    looks at."""
    uses = Counter(module for _, module in model.named_modules(remove_duplicate=False))
    callers = Counter(module for host in uses for module in _called_by(host))

    def takes(module: nn.Module) -> bool:
        return (uses[module] == 1 and callers[module] == 1 and not has_hooks(module)
                and (module in layers or (type(module) in _MODULES and has_plain_settings(module))))

    def apply_of(module: nn.Module) -> Callable[[Any], Any] | None:
        return None if module in layers else functools.partial(type(module).forward, module)

    for host in model.modules():
        if type(host) in (nn.Sequential, SparseSequential):
            yield _in_sequence(host, takes, apply_of)
        elif isinstance(host, GraphModule):
            yield _in_graph(host, takes, apply_of)


def _called_by(host: nn.Module) -> set[nn.Module]:
    if isinstance(host, GraphModule):
        return {host.get_submodule(str(node.target)) for node in host.graph.nodes
                if node.op == "call_module"}
    return set(host.children()) if type(host) in (nn.Sequential, SparseSequential) else set()


_Takes = Callable[[nn.Module], bool]
_ApplyOf = Callable[[nn.Module], Any]


def _in_sequence(host: nn.Module, takes: _Takes, apply_of: _ApplyOf) -> Flow:
    modules = list(host.children()) if len(set(host.children())) == len(host._modules) else []
    flow = Flow(host, kept={str(len(modules))})
    for place, module in enumerate(modules):
        if takes(module):
            flow.steps.append(Step(str(place), str(place + 1), module, apply_of(module)))
        else:
            flow.kept.add(str(place))
    return flow


def _in_graph(host: GraphModule, takes: _Takes, apply_of: _ApplyOf) -> Flow:
    flow = Flow(host)
    if any(getattr(node.target, "__name__", "") in _MODES for node in host.graph.nodes):
        return flow
    calls = Counter(node.target for node in host.graph.nodes if node.op == "call_module")
    for node in host.graph.nodes:
        step = None
        if node.op == "call_module" and calls[node.target] == 1:
            module = host.get_submodule(str(node.target))
            if len(node.args) == 1 and not node.kwargs and takes(module):
                step = Step("", node.name, module, apply_of(module))
        elif node.op in ("call_function", "call_method") and _is_elementwise(node):
            step = Step("", node.name, None, _applied(node))
        source = node.args[0] if node.args else None
        if step is None or not isinstance(source, Node) or (
                _is_in_place(node, step) and not _is_read_once(source)):
            flow.kept.update(each.name for each in node.all_input_nodes)
        else:
            flow.steps.append(step._replace(source=source.name))
    return flow


def _is_elementwise(node: Node) -> bool:
    if len(node.all_input_nodes) != 1 or node.args[:1] != tuple(node.all_input_nodes):
        return False
    if node.target in _DROPOUTS:
        training = node.args[2] if len(node.args) > 2 else node.kwargs.get("training", True)
        return training is False
    return node.target in (_METHODS if node.op == "call_method" else _FUNCTIONS)


def _applied(node: Node) -> Callable[[Any], Any]:
    def apply(x: Any) -> Any:
        function: Any = node.target if callable(node.target) else getattr(
            type(x), str(node.target))
        return function(x, *node.args[1:], **node.kwargs)

    return apply


def _is_in_place(node: Node, step: Step) -> bool:
    """Whether it writes to what it reads."""
    return bool(node.target in _IN_PLACE or node.kwargs.get("inplace")
                or getattr(step.module, "inplace", False)
                or any(each is True for each in node.args[1:]))


def _is_read_once(value: Node) -> bool:
    """It, and what it may be the same tensor as: a dropout in evaluation gives what it gets."""
    while len(value.users) == 1 and value.args and isinstance(value.args[0], Node):
        value = value.args[0]
        if value.op == "placeholder":
            return True
    return len(value.users) == 1
