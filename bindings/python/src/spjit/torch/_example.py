"""Passes of a model at an example, each as if it were the first: what the model keeps from one to
the next is put back, and `optimize_` leaves it as it was."""

from __future__ import annotations

import copy
import random
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import is_lazy
from torch.nn.utils import prune
from torch.utils import _pytree

from .._errors import InvalidArgument
from ._clock import clock_of_model
from ._layers import check_model

_Undo = Callable[[], None]


def _copied_tensor(tensor: Tensor) -> Tensor:
    """With the same strides, which a layer's time depends on."""
    is_expanded = any(stride == 0 and size > 1 for stride, size in
                      zip(tensor.stride(), tensor.shape)) if _is_strided(tensor) else False
    if is_expanded:  # torch writes to none
        return tensor
    if not _is_strided(tensor) or tensor.is_conj() or tensor.is_neg():
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)
    copied = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype,
                                 device=tensor.device)
    return copied.copy_(tensor.detach()).requires_grad_(tensor.requires_grad)


def _is_strided(tensor: Tensor) -> bool:
    return (type(tensor) in (Tensor, nn.Parameter) and tensor.layout is torch.strided
            and not tensor.is_quantized and not tensor.is_nested)


def _own_copy(given: Any) -> Any:
    """Of arguments, which forward() may change. What cannot be copied is the caller's own."""
    memo: dict[int, Any] = {}
    for leaf in _pytree.tree_leaves(given):
        if isinstance(leaf, Tensor):
            memo[id(leaf)] = _copied_tensor(leaf)
        elif isinstance(leaf, torch.Generator):
            memo[id(leaf)] = leaf.clone_state()
        elif isinstance(leaf, nn.Module):
            memo[id(leaf)] = leaf

    def copied(value: Any) -> Any:
        try:
            return copy.deepcopy(value, memo)
        except Exception:  # whatever an object of the caller says
            return value

    args, kwargs = given
    return [copied(value) for value in args], {name: copied(kwargs[name]) for name in kwargs}


class _Values:
    """Values of a tensor, which may change in place."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor
        self._values = tensor.detach().clone()
        self._version = self._count()

    def _count(self) -> int:
        return -1 if self._tensor.is_inference() else self._tensor._version

    def _is_changed(self, compare: bool) -> bool:
        if self._version != self._count():
            return True
        # Changes through .data are not counted, nor those in inference mode.
        if not (compare or self._version < 0) or not _is_strided(self._tensor):
            return False
        return self._tensor.device.type != "meta" and not torch.equal(self._tensor, self._values)

    def put_back(self, compare: bool) -> None:
        if self._is_changed(compare):
            with torch.inference_mode(self._version < 0), torch.no_grad():
                self._tensor.copy_(self._values)
            self._version = self._count()


class _Numbers:
    """What an array of numpy holds. Nothing counts its changes."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        self._numbers = array.copy()

    def put_back(self) -> None:
        if self._array.flags.writeable:
            self._array[...] = self._numbers


class _Members:
    """What a dict, list, set or deque holds, by identity."""

    def __init__(self, holder: Any) -> None:
        self._holder = holder
        self._is_dict = isinstance(holder, dict)
        self._held = list(holder.items() if self._is_dict else holder)

    def put_back(self) -> None:
        now = list(self._holder.items() if self._is_dict else self._holder)
        if len(now) == len(self._held) and all(
                (a is b) or (self._is_dict and a[0] is b[0] and a[1] is b[1])
                for a, b in zip(now, self._held)):
            return
        self._holder.clear()
        if self._is_dict:  # not by update(): a Counter's own would count
            for name, value in self._held:
                self._holder[name] = value
        elif isinstance(self._holder, set):
            self._holder.update(self._held)
        else:
            self._holder.extend(self._held)


_CONTAINERS = (dict, OrderedDict, defaultdict, Counter, list, set, deque)


def _within(values: Iterable[Any]) -> list[Any]:
    """These, and what containers among them hold, each once."""
    found: dict[int, Any] = {}
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if id(value) not in found:
            found[id(value)] = value
            if type(value) in _CONTAINERS or isinstance(value, tuple):
                waiting.extend(value.values() if isinstance(value, dict) else value)
    return list(found.values())


# nn.Module's own attributes but what forward() may fill; `optimize_` changes the others itself.
_HOLDERS = {"_parameters", "_buffers", "_modules"}
_INTERNAL = (set(vars(nn.Module())) | {"forward"}) - _HOLDERS


def _attributes(module: nn.Module) -> dict[str, Any]:
    made = {hook._tensor_name for hook in module._forward_pre_hooks.values()
            if isinstance(hook, prune.BasePruningMethod)}
    return {name: value for name, value in vars(module).items()
            if name not in _INTERNAL and name not in made and not name.startswith("spjit_")}


class _Attributes:
    """Which objects a module's attributes are."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self.held = _attributes(module)

    def put_back(self) -> None:
        now = vars(self._module)
        for name, value in self.held.items():
            if name not in now or now[name] is not value:
                now[name] = value
        if len(now) > len(self.held):
            for name in _attributes(self._module).keys() - self.held.keys():
                del now[name]


# Of those that a call runs. `optimize_` puts others in their place, under the same keys.
_HOOKS = ("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_forward_hooks",
          "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_backward_pre_hooks",
          "_backward_hooks")


class _Hooks:
    """Which hooks a module has: one may remove itself in its first call."""

    def __init__(self, module: nn.Module) -> None:
        self._of = [(hooks, dict(hooks)) for hooks in (vars(module)[name] for name in _HOOKS)]

    def put_back(self) -> None:
        for hooks, held in self._of:
            if list(hooks) != list(held):
                now = {key: hooks.get(key, hook) for key, hook in held.items()}
                hooks.clear()
                hooks.update(now)


def _generators(held: list[Any]) -> list[_Undo]:
    """Puts back the states of those of torch, Python and numpy, and of those that modules hold."""
    cpu, python, legacy = torch.get_rng_state(), random.getstate(), np.random.get_state()
    undo = [lambda: torch.set_rng_state(cpu), lambda: random.setstate(python),
            lambda: np.random.set_state(legacy)]
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        of_gpus = torch.cuda.get_rng_state_all()
        undo.append(lambda: torch.cuda.set_rng_state_all(of_gpus))

    def put_back(generator: Any) -> _Undo:
        if isinstance(generator, torch.Generator):
            of_torch = generator.get_state()
            return lambda: generator.set_state(of_torch) and None
        if isinstance(generator, random.Random):
            of_python = generator.getstate()
            return lambda: generator.setstate(of_python)
        if isinstance(generator, np.random.RandomState):
            of_legacy = generator.get_state()
            return lambda: generator.set_state(of_legacy)
        bits = generator.bit_generator
        of_numpy = copy.deepcopy(bits.state)
        return lambda: setattr(bits, "state", of_numpy)

    known = (torch.Generator, random.Random, np.random.RandomState, np.random.Generator)
    return undo + [put_back(each) for each in held if isinstance(each, known)]


class _State:
    """What forward() may change of a model. Lazy modules are left out: the first pass makes them.
    """

    def __init__(self, model: nn.Module) -> None:
        modules = [module for module in model.modules()
                   if not isinstance(module, (LazyModuleMixin, torch.jit.ScriptModule))]
        self._attributes = [_Attributes(module) for module in modules]
        self._hooks = [_Hooks(module) for module in modules]
        held = [item for each in self._attributes for item in each.held.items()]
        values = _within(value for name, value in held if name not in _HOLDERS)
        self._members = [_Members(value) for value in
                         [*values, *(value for name, value in held if name in _HOLDERS)]
                         if type(value) in _CONTAINERS]
        own = [value for value in values if not isinstance(value, nn.Parameter)]
        tensors = {id(each): each for each in [*own, *model.buffers()]
                   if isinstance(each, Tensor) and not is_lazy(each)}
        self._values = [_Values(each) for each in tensors.values()]
        self._numbers = [_Numbers(each) for each in values if type(each) is np.ndarray]
        self._generators = _generators(values)

    def put_back(self, compare: bool = False) -> None:
        """`compare`: also what nothing counts, in the time of a look at all of it."""
        for attributes in self._attributes:
            attributes.put_back()
        for hooks in self._hooks:
            hooks.put_back()
        for members in self._members:
            members.put_back()
        for values in self._values:
            values.put_back(compare)
        for numbers in self._numbers:
            numbers.put_back()
        for undo in self._generators:
            undo()


def _arguments(example: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if not isinstance(kwargs, (Mapping, type(None))):
        raise InvalidArgument(f"kwargs is {type(kwargs).__name__}; expected a dict")
    named = dict(kwargs or {})
    if isinstance(example, Mapping):
        both = sorted(named.keys() & example.keys())
        if both:
            raise InvalidArgument(f"example and kwargs both have {both[0]!r}; expected it once")
        named, example = {**example, **named}, ()
        if not all(isinstance(name, str) for name in named):
            raise InvalidArgument("example is a dict whose keys are no names of arguments; "
                                  "expected ({...},) for a model that takes a dict")
    if isinstance(example, Tensor):
        example = (example,)
    if not isinstance(example, (tuple, list)):
        raise InvalidArgument(f"example is {type(example).__name__}; expected a tensor, the tuple "
                              "of the model's arguments or the dict of its named ones")
    return tuple(example), named


class Example:
    """Passes of a model; by the end of a `with` the model is as it was. Raises InvalidArgument."""

    def __init__(self, model: nn.Module, example: Any, kwargs: Any) -> None:
        check_model(model)
        self._model = model
        self._given = _arguments(example, kwargs)
        self._state = _State(model)

    def run(self) -> float:
        """One pass; the us that the model took."""
        args, kwargs = _own_copy(self._given)
        clock = clock_of_model(self._model)
        clock.finish()
        try:
            begin = clock.now()
            self._model(*args, **kwargs)
            end = clock.now()
            clock.finish()
            return clock.us(begin, end)
        finally:
            self._state.put_back()

    def __enter__(self) -> Example:
        return self

    def __exit__(self, *_: object) -> None:
        self._state.put_back(compare=True)
