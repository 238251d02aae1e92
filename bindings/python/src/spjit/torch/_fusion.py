"""Activations behind layers, which a kernel does, too."""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch import Tensor, nn
from torch.compiler import is_compiling
from torch.nn.modules import module as global_hooks

from .._activation import LARGEST, Activation
from ._hosts import open_hosts
from ._layers import is_layer, is_sparse, takes_activation

_ACTIVATIONS: dict[type[nn.Module], str] = {
    nn.ReLU: "relu", nn.SiLU: "silu", nn.Hardswish: "hard-swish", nn.Sigmoid: "sigmoid",
    nn.Tanh: "tanh", nn.Hardsigmoid: Activation("hard-sigmoid", (1 / 6, 0.5)).text}


def activation_of(module: nn.Module) -> str:
    """As Activation.parse() takes it; "" for what is none. torch.compile has to understand it."""
    if type(module) is nn.GELU:
        return "gelu" if module.approximate == "none" else "gelu-tanh"
    if type(module) is nn.LeakyReLU:
        # Times a negative slope 0 is -0 in torch, and 0 in kernels.
        slope = float(module.negative_slope)
        return f"leaky-relu:{slope!r}" if 0 < slope <= LARGEST else ""
    return _ACTIVATIONS.get(type(module), "")


def has_hooks(module: nn.Module) -> bool:
    """Whether a call does more than the module's class says."""
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks
                or module._backward_pre_hooks or "forward" in vars(module)
                or global_hooks._global_forward_hooks or global_hooks._global_forward_pre_hooks)


def fused_pairs(model: nn.Module) -> dict[nn.Module, tuple[nn.Module, str]]:
    """From a layer to the activation behind it in an nn.Sequential and its text, where both are
    nowhere else and nobody looks at what is between them."""
    uses = Counter(module for _, module in model.named_modules(remove_duplicate=False))
    pairs: dict[nn.Module, tuple[nn.Module, str]] = {}
    for parent in model.modules():
        if type(parent) in (nn.Sequential, SparseSequential):
            inside = list(parent)
            pairs.update((first, (then, name)) for first, then in zip(inside, inside[1:])
                         if is_layer(first) and takes_activation(first)
                         and (name := activation_of(then)) and uses[first] == uses[then] == 1
                         and not has_hooks(first) and not has_hooks(then))
    return pairs


class SparseSequential(nn.Sequential):
    """Of a sparse layer and an activation behind it makes one kernel, if the layer was chosen so.
    Between layers it leaves out channels that need not be computed."""

    def forward(self, input: Tensor) -> Tensor:
        modules = list(self._modules.values())
        group: Any = None  # of layers that leave channels out in this call
        at = 0
        while at < len(modules):
            module = modules[at]
            short: Any = (module.spjit_short if is_sparse(module) and not is_compiling()
                          else None)
            if short is not None and short.group is not group:
                starts = short.group.host is self and short.group.is_at(modules, at) \
                    and short.starts(input)
                group = short.group if starts else None
            left: Any = None if group is None else short
            at += 1
            name = module.spjit_activation if is_sparse(module) else ""
            if (name and at < len(modules) and activation_of(modules[at]) == name
                    and not has_hooks(module) and not has_hooks(modules[at])):
                input = (module.run(input, name) if left is None
                         else left.run(module, input, name))
                at += 1
            else:
                input = module(input) if left is None else left.run(module, input, "")
        return input


def swap_parents(model: nn.Module) -> None:
    """Each nn.Sequential is sparse exactly if it has something to fuse or to leave out, and what
    computes all within by itself exactly if a layer there is."""
    open_hosts(model, is_sparse)
    for parent in model.modules():
        if type(parent) in (nn.Sequential, SparseSequential):
            fuses = any(is_sparse(module) and (
                module.spjit_activation or module.spjit_short is not None) for module in parent)
            parent.__class__ = SparseSequential if fuses else nn.Sequential
