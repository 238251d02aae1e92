"""Layers that leave out channels which need not be computed: what is left of their weights, and
when that is used."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from ._dispatch import PLAIN, is_plain
from ._fusion import has_hooks
from ._kernels import _bound, find_bound, is_current
from ._op import dense_of_operator
from ._swapped import Swapped

_OF_EVERY_MODULE = frozenset(vars(nn.Module())) | {"forward"}
_SETTINGS = (bool, int, float, str, tuple, type(None))


def settings_of(module: nn.Module) -> dict[str, Any]:
    """What a call depends on beside parameters."""
    made = {name: value for name, value in vars(module).items()
            if name not in _OF_EVERY_MODULE and not name.startswith("spjit_")}
    if isinstance(module, nn.Dropout):
        made["training"] = module.training
    return made


def has_plain_settings(module: nn.Module) -> bool:
    """Which can be compared, and do not change by themselves."""
    return all(type(each) in _SETTINGS for each in settings_of(module).values())


class _Module:
    """One as it is, without its parameters."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._kind = type(module)
        self._settings = settings_of(module)
        self._size = len(vars(module))

    def is_same(self) -> bool:
        """And nobody looks at its calls."""
        if type(self._module) is not self._kind or has_hooks(self._module):
            return False
        now = vars(self._module)
        if len(now) == self._size and all(
                now.get(name, self) is value for name, value in self._settings.items()):
            return True
        settings = settings_of(self._module)
        return settings.keys() == self._settings.keys() and all(
            type(value) is type(self._settings[name]) and value == self._settings[name]
            for name, value in settings.items())


class _Watched:
    """A parameter, or that there is none. What is known of it by its identity is its content."""

    def __init__(self, module: nn.Module, name: str) -> None:
        self._parameters = module._parameters
        self._name = name
        self.tensor = module._parameters.get(name)
        self._content = None if self.tensor is None else find_bound(self.tensor).content

    def is_same(self) -> bool:
        """Its numbers. What happens within `.data` is not seen."""
        of = self.tensor
        if self._parameters.get(self._name) is not of:
            return False
        if of is None:
            return True
        bound = _bound.get(id(of))
        if bound is None or not is_current(bound, of):
            if type(of) not in PLAIN or of.dtype is not torch.float32 or not of.is_cpu \
                    or of.is_neg():
                return False
            return find_bound(of).content == self._content
        return bound.content == self._content


class Group:
    """Layers of a host between which channels are left out, and the modules between them. The
    first layer decides about a call, and the others follow."""

    def __init__(self, host: nn.Module, modules: list[nn.Module], layers: list[nn.Module]) -> None:
        self.host = host
        self.is_on = True
        is_graph = isinstance(host, GraphModule)
        self._code = getattr(type(host).forward, "__code__", None) if is_graph else None
        self._first = layers[0]
        self._modules = modules  # from the first layer to the last
        self._as_they_are = [_Module(module) for module in modules]
        self._watched = [_Watched(module, name) for module in layers
                         for name in ("weight", "bias")]
        names = {module: name for name, module in host.named_modules() if module in set(modules)}
        self._places = [(host.get_submodule(names[module].rpartition(".")[0])._modules,
                         names[module].rpartition(".")[2], module) for module in modules]

    def is_at(self, modules: list[nn.Module], place: int) -> bool:
        """Whether an nn.Sequential of these calls all of it from there on."""
        end = place + len(self._modules)
        return all(one is other for one, other in zip(modules[place:end], self._modules)) \
            and end <= len(modules)

    def is_called_by(self, frame: FrameType) -> bool:
        """Whether that is the code of the graph, as it was."""
        return frame.f_code is self._code

    def takes(self, x: Tensor) -> bool:
        """Whether all layers can leave them out in a call of the first one."""
        if not self.is_on:
            return False
        parameters = self._first._parameters
        weight = parameters.get("weight")
        if weight is None or not is_plain(x, weight, parameters.get("bias")) or \
                x.dtype is not torch.float32:
            return False
        if torch.is_grad_enabled() and any(
                one.tensor is not None and one.tensor.requires_grad for one in self._watched):
            return False
        return self._is_unchanged()

    def _is_unchanged(self) -> bool:
        if not all(one.is_same() for one in self._as_they_are):
            return False
        if any(owner.get(name) is not module for owner, name, module in self._places):
            return False
        if not all(one.is_same() for one in self._watched):
            self.is_on = False  # other channels are idle now
            return False
        return True


class ShortLayer:
    """What is left of a layer. Copies and pickles of a model have none."""

    def __init__(self, group: Group, is_first: bool, inputs: tuple[int, int, int],
                 operands: tuple[Tensor, Tensor | None, tuple[Any, ...], str],
                 run: tuple[Any, Callable[..., Tensor | None]]) -> None:
        """inputs: dimensions behind those of the channels, how many there are, and how many are
        left. operands: weight, bias, sizes of a convolution, and the kernel's key. run: the
        operator, and the same without torch."""
        self.group = group
        self.is_first = is_first
        self._trailing, self._channels, self._left = inputs
        self._weight, self._bias, self._sizes, self._key = operands
        self._operator, self._run = run

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()

    def starts(self, x: Any) -> bool:
        """Whether a call of the group's first layer leaves channels out."""
        return self.is_first and self.group.takes(x) and self._has(x, self._channels)

    def is_called(self, x: Any, depth: int) -> bool:
        """Whether a graph, whose code is that many calls above the caller, calls it for the
        channels that are left."""
        try:
            frame = sys._getframe(depth + 1)
        except ValueError:
            return False
        if not self.group.is_called_by(frame):
            return False
        if self.is_first:
            return self.starts(x)
        return is_plain(x, self._weight, self._bias) and self._has(x, self._left)

    def _has(self, x: Tensor, channels: int) -> bool:
        return (x.dim() > self._trailing and x.shape[-1 - self._trailing] == channels
                and (not self._trailing or x.dim() <= self._trailing + 2) and x.numel() > 0)

    def run(self, layer: Swapped, x: Tensor, activation: str) -> Tensor:
        """What is left of this layer: sparse, or dense and counted where no kernel takes x."""
        given = (x, self._weight, self._bias, *self._sizes, activation, self._key)
        y = self._run(*given)
        if y is None:
            layer.count_dense()
            y = dense_of_operator(self._operator)(*given)
        return y
