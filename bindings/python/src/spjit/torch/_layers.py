"""nn.Linear, nn.Conv1d and nn.Conv2d that call spjit: the same module with another class, so that
parameters, hooks, names and whoever holds the module stay as they are."""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from dataclasses import dataclass, field
from operator import index
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling
from torch.nn.modules import module as global_hooks
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize

from .._activation import LARGEST, Activation
from .._errors import NotSupported
from ._kernels import Geometry, forget
from ._masks import (is_masked, maker_of_weight, masked_class, pause_masks, resume_masks,
                     weight_of)
from ._op import (CONV1D, CONV2D, LINEAR, activated, call, is_plain, is_under_device,
                  is_under_own_mode, run_conv1d, run_conv2d, run_linear, runs_dense, takes_graph)

_HOW_TO_RUN_SPARSE = (
    "spjit.torch: sparse layers run dense while gradients of their weights are recorded; put `with "
    "torch.inference_mode():` around the call, or call `model.requires_grad_(False)` once before")


@dataclass
class DenseCalls:
    """Calls of a model's swapped layers that had to run dense."""

    by_layer: dict[str, int] = field(default_factory=dict)
    has_warned: bool = False


def _operands(module: nn.Module) -> tuple[Tensor, Tensor | None]:
    """weight and bias, without what attributes of modules cost: 1 us each."""
    parameters = module._parameters
    weight = parameters.get("weight")
    if weight is None or "bias" not in parameters:  # of masks, which make attributes
        masked = vars(module).get("spjit_masked")
        made = module.weight if masked is None else masked.for_call(module)
        return made, module.bias  # type: ignore[return-value]
    return weight, parameters["bias"]


class _Swapped:
    """What swapped layers have beside their dense class. Weights stay dense in `state_dict()`."""

    spjit_key: str
    spjit_activation: str  # of the module behind it in a SparseSequential; or ""
    spjit_name: str  # in the report
    spjit_calls: DenseCalls
    training: bool

    def run(self, input: Tensor, activation: str) -> Tensor:
        """forward(), and the activation behind it."""
        raise NotImplementedError

    def _apply(self, *given: Any, **named: Any) -> Any:
        self._let_swap()
        return super()._apply(*given, **named)  # type: ignore[misc]

    def _load_from_state_dict(self, *given: Any, **named: Any) -> None:
        self._let_swap()
        super()._load_from_state_dict(*given, **named)  # type: ignore[misc]

    def _let_swap(self) -> None:
        """torch.utils.swap_tensors(), by which .to() and load_state_dict() replace parameters if
        they are told to, refuses those that something holds by a weak reference."""
        if torch.__future__.get_swap_module_params_on_conversion():
            forget(weight_of(self))  # type: ignore[arg-type]

    def _is_own(self) -> bool:
        """Not parametrized since, nor under a hook that makes another weight in each call."""
        own = type(self)
        if _has_own_masks(own):  # type: ignore[arg-type]
            return is_masked(self)  # type: ignore[arg-type]
        return own in _DENSE and not maker_of_weight(self)  # type: ignore[arg-type]

    def _count_dense(self) -> None:
        counts = self.spjit_calls.by_layer
        counts[self.spjit_name] = counts.get(self.spjit_name, 0) + 1

    def _densely(self, x: Tensor, activation: str) -> Tensor:
        """Of what is no longer the layer that was swapped."""
        if not is_compiling():
            self._count_dense()
        y = kind_of(self).forward(self, x)  # type: ignore[arg-type]
        return activated(y, activation)

    def _slowly(self, operator: Any, x: Any, weight: Tensor, bias: Tensor | None,
                *sizes: Any) -> Tensor:
        """By torch, which has to see it, or dense; that is counted."""
        if not is_compiling():
            if is_under_own_mode():
                return self._densely(x, sizes[-2])
            if is_under_device(x, weight, bias):
                with torch._C.DisableTorchFunction():
                    return self.run(x, sizes[-2])
        y = call(operator, x, weight, bias, *sizes)
        if not is_compiling() and runs_dense(x, weight, bias):
            self._count_dense()
            if not self.training and not self.spjit_calls.has_warned and takes_graph(weight, bias):
                self.spjit_calls.has_warned = True
                warnings.warn(_HOW_TO_RUN_SPARSE, stacklevel=2)
        return y

    def __prepare_scriptable__(self) -> NoReturn:
        raise NotSupported("torch.jit.script does not know sparse layers: call "
                           "spjit.torch.restore_(model) before")


class SparseLinear(_Swapped, nn.Linear):
    """Of `optimize_` and `load_`."""

    def forward(self, input: Tensor) -> Tensor:
        return self.run(input, "")

    def run(self, input: Tensor, activation: str) -> Tensor:
        if (type(self) is not SparseLinear or "weight" not in self._parameters) \
                and not self._is_own():
            return self._densely(input, activation)
        weight, bias = _operands(self)
        if not is_compiling() and is_plain(input, weight, bias):
            y = run_linear(input, weight, bias, activation, self.spjit_key)
            if y is not None:
                return y
        return self._slowly(LINEAR, input, weight, bias, activation, self.spjit_key)


class _SwappedConv(_Swapped):
    """Of a convolution, whose attributes its user may change."""

    spjit_sizes: tuple[tuple[Any, ...], tuple[int, ...], Sizes]  # of which, and they
    stride: Any
    padding: Any
    dilation: Any

    def _sizes(self, weight: Tensor) -> Sizes | None:
        """As they are now; None where forward() does what no kernel does."""
        if _why_other_convolution(self):  # type: ignore[arg-type]
            return None
        given, taps, sizes = self.spjit_sizes
        now = (self.stride, self.padding, self.dilation)
        if all(map(_is_same, given, now)) and taps == taps_of(weight):
            return sizes
        return sizes_of(self, weight)  # type: ignore[arg-type]


class SparseConv1d(_SwappedConv, nn.Conv1d):
    """Of `optimize_` and `load_`."""

    def forward(self, input: Tensor) -> Tensor:
        return self.run(input, "")

    def run(self, input: Tensor, activation: str) -> Tensor:
        if (type(self) is not SparseConv1d or "weight" not in self._parameters) \
                and not self._is_own():
            return self._densely(input, activation)
        weight, bias = _operands(self)
        sizes = self._sizes(weight)
        if sizes is None:
            return self._densely(input, activation)
        (stride,), (padding,), (dilation,) = sizes
        given = (stride, padding, dilation, self.groups, activation, self.spjit_key)
        if not is_compiling() and is_plain(input, weight, bias):
            y = run_conv1d(input, weight, bias, *given)
            if y is not None:
                return y
        return self._slowly(CONV1D, input, weight, bias, *given)


class SparseConv2d(_SwappedConv, nn.Conv2d):
    """Of `optimize_` and `load_`."""

    def forward(self, input: Tensor) -> Tensor:
        return self.run(input, "")

    def run(self, input: Tensor, activation: str) -> Tensor:
        if (type(self) is not SparseConv2d or "weight" not in self._parameters) \
                and not self._is_own():
            return self._densely(input, activation)
        weight, bias = _operands(self)
        sizes = self._sizes(weight)
        if sizes is None:
            return self._densely(input, activation)
        given = (*sizes, self.groups, activation, self.spjit_key)
        if not is_compiling() and is_plain(input, weight, bias):
            y = run_conv2d(input, weight, bias, *given)
            if y is not None:
                return y
        return self._slowly(CONV2D, input, weight, bias, *given)


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


def _has_hooks(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks
                or module._backward_pre_hooks or "forward" in vars(module)
                or global_hooks._global_forward_hooks or global_hooks._global_forward_pre_hooks)


def fused_pairs(model: nn.Module) -> dict[nn.Module, nn.Module]:
    """From a layer to the activation behind it in an nn.Sequential, where both are nowhere else and
    nobody looks at what is between them."""
    uses = Counter(module for _, module in model.named_modules(remove_duplicate=False))
    pairs: dict[nn.Module, nn.Module] = {}
    for parent in model.modules():
        if type(parent) in (nn.Sequential, SparseSequential):
            inside = list(parent)
            pairs.update((first, then) for first, then in zip(inside, inside[1:])
                         if is_layer(first) and activation_of(then)
                         and uses[first] == uses[then] == 1
                         and not _has_hooks(first) and not _has_hooks(then))
    return pairs


class SparseSequential(nn.Sequential):
    """Of a sparse layer and an activation behind it makes one kernel, if the layer was chosen so.
    """

    def forward(self, input: Tensor) -> Tensor:
        modules = list(self._modules.values())
        at = 0
        while at < len(modules):
            module = modules[at]
            at += 1
            name = module.spjit_activation if is_sparse(module) else ""
            if (name and at < len(modules) and activation_of(modules[at]) == name
                    and not _has_hooks(module) and not _has_hooks(modules[at])):
                input = module.run(input, name)
                at += 1
            else:
                input = module(input)
        return input


_SPARSE: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: SparseLinear, nn.Conv1d: SparseConv1d, nn.Conv2d: SparseConv2d}
_DENSE = {sparse: dense for dense, sparse in _SPARSE.items()}
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d)
LAYERS = (nn.Linear, *_CONVOLUTIONS)


def is_layer(module: nn.Module) -> bool:
    """Whether it is of a kind that has kernels, in whatever form."""
    return isinstance(module, LAYERS)


def kind_of(module: nn.Module) -> type[nn.Module]:
    """nn.Linear, nn.Conv1d or nn.Conv2d. Precondition: `is_layer`."""
    return next(kind for kind in LAYERS if isinstance(module, kind))


def _has_own_masks(kind: type[nn.Module]) -> bool:
    """Whether it is a `masked_class`."""
    return "spjit_masks" in vars(kind)


def is_sparse(module: nn.Module) -> bool:
    kind = type(module)
    return kind in _DENSE or (_has_own_masks(kind) and is_masked(module))


# Stride, padding and dilation of a convolution, each of as many dimensions as it has.
Sizes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def _each(size: Any, dimensions: int) -> tuple[int, ...]:
    """torch also takes one number for all, and any whole numbers, as those of numpy and
    tensors of none."""
    is_one = getattr(size, "ndim", 0) == 0 and not isinstance(size, (tuple, list))
    sizes = (size,) * dimensions if is_one else tuple(size)
    return tuple(each if is_compiling() else index(each) for each in sizes)


def _is_same(before: Any, now: Any) -> bool:
    """False for what a comparison gives no one answer for, as numpy's numbers beside a tuple."""
    return type(now) in (tuple, list, int, str) and type(now) is type(before) and now == before


def _padding_of(padding: Any, dilation: tuple[int, ...],
                taps: tuple[int, ...]) -> tuple[int, ...] | None:
    if padding == "valid":
        return (0,) * len(dilation)
    if padding == "same":
        whole = [apart * (size - 1) for apart, size in
                 zip(dilation, taps)]
        return None if any(size % 2 for size in whole) else tuple(size // 2 for size in whole)
    return _each(padding, len(dilation))


def taps_of(weight: Tensor) -> tuple[int, ...]:
    """The sizes of a convolution's kernel; numbers even where torch.jit traces."""
    if is_compiling() or not torch.jit.is_tracing():
        return tuple(weight.shape[2:])
    state = torch._C._get_tracing_state()
    torch._C._set_tracing_state(None)
    try:
        return tuple(weight.shape[2:])
    finally:
        torch._C._set_tracing_state(state)


def sizes_of(module: nn.Module, weight: Tensor) -> Sizes | None:
    """Of a convolution with this weight, whatever its kernel_size says; None if its padding is not
    the same on both sides."""
    dimensions = 1 if isinstance(module, nn.Conv1d) else 2
    dilation = _each(module.dilation, dimensions)
    padding = _padding_of(module.padding, dilation, taps_of(weight))
    return None if padding is None else (_each(module.stride, dimensions), padding, dilation)


def _why_other_convolution(module: nn.Module) -> str:
    """Why forward() computes another convolution than kernels do; "" if it does not."""
    if "_conv_forward" in vars(module):
        return "its _conv_forward() was replaced"
    if module.padding_mode != "zeros":
        return f"padding_mode is {module.padding_mode!r}; expected 'zeros'"
    return ""


def computed_by(module: nn.Module, activation: str) -> Geometry | str:
    """Variant.computed, with this activation behind the layer. Precondition: `refusal` has none."""
    if not isinstance(module, _CONVOLUTIONS):
        return activation
    sizes = sizes_of(module, weight_of(module))
    assert sizes is not None
    return Geometry.of(*sizes, index(module.groups), activation)


def refusal(module: nn.Module) -> str:
    """Why a layer cannot be swapped; "" if it can."""
    if parametrize.is_parametrized(module) and not is_masked(module):
        return "its weight is parametrized: torch.nn.utils.parametrize.remove_parametrizations()"
    if is_lazy(module.weight):
        return "it has no weight yet: call the model once before"
    maker = maker_of_weight(module, also_masks=False)
    if maker:
        return f"a hook makes its weight anew in each call: {maker}"
    kind = type(module).__bases__[0] if is_masked(module) else type(module)
    if kind not in _SPARSE and kind not in _DENSE:
        return f"it is a {type(module).__name__}, whose forward() may differ"
    if "forward" in vars(module):
        return "its forward() was replaced"
    weight = weight_of(module)
    if type(weight) not in (Tensor, nn.Parameter):
        return f"its weight is a {type(weight).__name__}; expected a plain tensor"
    if weight.layout is not torch.strided:
        return f"its weight is {str(weight.layout).removeprefix('torch.')}; expected a dense tensor"
    if weight.dtype is not torch.float32:
        return f"its weight is {str(weight.dtype).removeprefix('torch.')}; expected float32"
    if weight.device.type != "cpu":
        return f"its weight is in memory of {weight.device.type}; expected the CPU"
    if weight.is_inference():
        return "its weight was made in inference mode, where changes are not counted"
    if weight.numel() == 0:
        return "its weight is empty"
    if weight.is_neg():
        return "its weight is a negated view: module.weight.data = module.weight.data.resolve_neg()"
    if isinstance(module, _CONVOLUTIONS):
        if why := _why_other_convolution(module):
            return why
        if sizes_of(module, weight) is None:
            return "padding='same' is uneven for this kernel size"
    return ""


class Swap(NamedTuple):
    """What a swapped layer is told."""

    key: str
    activation: str  # of the module behind it, if it is of `fused_pairs`
    name: str
    calls: DenseCalls


def swap(module: nn.Module, to: Swap) -> None:
    """Precondition: `refusal` has none."""
    pause_masks(module)
    told = dict(zip(_TOLD, to))
    if isinstance(module, _CONVOLUTIONS):
        # Copies: lists of a caller, who may change an element.
        given = tuple(copy.copy(each) for each in (module.stride, module.padding, module.dilation))
        weight = weight_of(module)
        told["spjit_sizes"] = given, taps_of(weight), sizes_of(module, weight)
    kind = type(module)
    if is_masked(module):
        if not _has_own_masks(kind):
            told["spjit_dense_class"] = kind
            module.__class__ = masked_class(module, _SPARSE[kind_of(module)])
    else:
        module.__class__ = _SPARSE.get(kind, kind)
    vars(module).update(told)


_TOLD = ("spjit_key", "spjit_activation", "spjit_name", "spjit_calls")


def swap_of(module: nn.Module) -> Swap:
    """Precondition: `is_sparse`."""
    return Swap(*(vars(module)[name] for name in _TOLD))


def swap_parents(model: nn.Module) -> None:
    """Each nn.Sequential is sparse exactly if it has something to fuse."""
    for parent in model.modules():
        if type(parent) in (nn.Sequential, SparseSequential):
            fuses = any(is_sparse(module) and module.spjit_activation for module in parent)
            parent.__class__ = SparseSequential if fuses else nn.Sequential


def unswap(module: nn.Module) -> None:
    """As it was before `swap`. A module that was parametrized since keeps what it will need when
    that is taken off."""
    if is_sparse(module):
        forget(weight_of(module))
        told = vars(module)
        module.__class__ = told.pop("spjit_dense_class") if _has_own_masks(type(module)) \
            else _DENSE[type(module)]
        for name in (*_TOLD, "spjit_sizes", "spjit_dense_class"):
            told.pop(name, None)
    resume_masks(module)
