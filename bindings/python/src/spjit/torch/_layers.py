"""nn.Linear and nn.Conv2d that call spjit: the same module with another class, so that parameters,
hooks, names and whoever holds the module stay as they are."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling
from torch.nn.modules import module as global_hooks
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize, prune

from ._kernels import Geometry
from ._op import CONV2D, LINEAR, call_conv2d, call_linear


def _operands(module: nn.Module) -> tuple[Tensor, Tensor | None]:
    """weight and bias, without what attributes of modules cost: 1 us each."""
    parameters = module._parameters
    weight = parameters.get("weight")
    if weight is None or "bias" not in parameters:  # of nn.utils.prune, which makes attributes
        return module.weight, module.bias  # type: ignore[return-value]
    return weight, parameters["bias"]


class SparseLinear(nn.Linear):
    """Of `optimize_` and `load_`. Its weight stays dense in `state_dict()`."""

    spjit_key: str
    spjit_activation: str  # of the module behind it in a SparseSequential; or ""

    def forward(self, input: Tensor) -> Tensor:
        return self.run(input, "")

    def run(self, input: Tensor, activation: str) -> Tensor:
        if type(self) is not SparseLinear:  # parametrized since: another weight in each call
            return nn.Linear.forward(self, input)
        if is_compiling():
            return LINEAR(input, self.weight, self.bias, activation, self.spjit_key)
        weight, bias = _operands(self)
        return call_linear(input, weight, bias, activation, self.spjit_key)


class SparseConv2d(nn.Conv2d):
    """Of `optimize_` and `load_`. Its weight stays dense in `state_dict()`."""

    spjit_key: str
    spjit_activation: str  # as of a SparseLinear
    spjit_padding: tuple[int, int]

    def forward(self, input: Tensor) -> Tensor:
        return self.run(input, "")

    def run(self, input: Tensor, activation: str) -> Tensor:
        if type(self) is not SparseConv2d:  # as in SparseLinear
            return nn.Conv2d.forward(self, input)
        if is_compiling():
            return CONV2D(input, self.weight, self.bias, self.stride, self.spjit_padding,
                          self.dilation, self.groups, activation, self.spjit_key)
        weight, bias = _operands(self)
        return call_conv2d(input, weight, bias, self.stride, self.spjit_padding, self.dilation,
                           self.groups, activation, self.spjit_key)


def activation_of(module: nn.Module) -> str:
    """As kernels have it; "" for what is none."""
    if type(module) is nn.GELU:
        return "gelu" if module.approximate == "none" else "gelu-tanh"
    return {nn.ReLU: "relu", nn.SiLU: "silu", nn.Hardswish: "hard-swish"}.get(type(module), "")


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
            name = module.spjit_activation if type(module) in _DENSE else ""
            if (name and at < len(modules) and activation_of(modules[at]) == name
                    and not _has_hooks(module) and not _has_hooks(modules[at])):
                input = module.run(input, name)
                at += 1
            else:
                input = module(input)
        return input


_SPARSE: dict[type[nn.Module], type[nn.Module]] = {nn.Linear: SparseLinear, nn.Conv2d: SparseConv2d}
_DENSE = {sparse: dense for dense, sparse in _SPARSE.items()}


def is_layer(module: nn.Module) -> bool:
    """Whether it is a Linear or Conv2d, in whatever form."""
    return isinstance(module, (nn.Linear, nn.Conv2d))


def is_sparse(module: nn.Module) -> bool:
    return type(module) in _DENSE


def padding_of(module: nn.Conv2d) -> tuple[int, int] | None:
    """None if it is not the same on both sides."""
    if module.padding == "valid":
        return 0, 0
    if module.padding == "same":
        whole = [dilation * (size - 1) for dilation, size in
                 zip(module.dilation, module.kernel_size)]
        return None if any(size % 2 for size in whole) else (whole[0] // 2, whole[1] // 2)
    return module.padding[0], module.padding[1]  # type: ignore[return-value]


def computed_by(module: nn.Module, activation: str) -> Geometry | str:
    """Variant.computed, with this activation behind the layer. Precondition: `refusal` has none."""
    if not isinstance(module, nn.Conv2d):
        return activation
    padding = padding_of(module)
    assert padding is not None
    return Geometry(tuple(module.stride), padding, tuple(module.dilation),  # type: ignore
                    module.groups, activation)


def refusal(module: nn.Module) -> str:
    """Why a layer cannot be swapped; "" if it can."""
    if parametrize.is_parametrized(module):
        return "its weight is parametrized: torch.nn.utils.parametrize.remove_parametrizations()"
    if is_lazy(module.weight):
        return "it has no weight yet: call the model once before"
    if type(module) not in _SPARSE and type(module) not in _DENSE:
        return f"it is a {type(module).__name__}, whose forward() may differ"
    if "forward" in vars(module):
        return "its forward() was replaced"
    weight = module.weight
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
    if isinstance(module, nn.Conv2d):
        if module.padding_mode != "zeros":
            return f"padding_mode is {module.padding_mode!r}; expected 'zeros'"
        if padding_of(module) is None:
            return "padding='same' is uneven for this kernel size"
    return ""


class PausedMask(prune.BasePruningMethod):  # type: ignore[misc]
    """In place of a hook of nn.utils.prune, which computes weight_orig * weight_mask in each call:
    does so only where one of them has changed, or has to have a gradient."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, mask: prune.BasePruningMethod, module: nn.Module) -> None:
        self.mask = mask
        self._tensor_name = mask._tensor_name
        self.refresh(module)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return self.mask.compute_mask(t, default_mask)

    def _versions(self, module: nn.Module) -> tuple[int, int]:
        return module.weight_orig._version, module.weight_mask._version

    def refresh(self, module: nn.Module) -> None:
        with torch.no_grad():
            module.weight = self.mask.apply_mask(module)
        self._seen = self._versions(module)

    def __call__(self, module: nn.Module, inputs: Any) -> None:
        if torch.is_grad_enabled() and module.weight_orig.requires_grad:
            module.weight = self.mask.apply_mask(module)
            self._seen = (-1, -1)
        elif not torch.compiler.is_compiling() and self._seen != self._versions(module):
            self.refresh(module)


class RefreshAfterLoad:
    """A hook of load_state_dict(): compiled graphs read `weight` and run no other hook."""

    def __call__(self, module: nn.Module, incompatible_keys: Any) -> None:
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, PausedMask):
                hook.refresh(module)


def _is_mask(hook: Any) -> bool:
    return isinstance(hook, prune.BasePruningMethod) and hook._tensor_name == "weight"


def pause_masks(module: nn.Module) -> None:
    hooks = module._forward_pre_hooks
    for key, hook in list(hooks.items()):
        if _is_mask(hook) and not isinstance(hook, PausedMask):
            hooks[key] = PausedMask(hook, module)
            module.register_load_state_dict_post_hook(RefreshAfterLoad())


def resume_masks(module: nn.Module) -> None:
    hooks = module._forward_pre_hooks
    for key, hook in list(hooks.items()):
        if isinstance(hook, PausedMask):
            hooks[key] = hook.mask
            module.weight = hook.mask.apply_mask(module)
    after_load = module._load_state_dict_post_hooks
    for key, hook in list(after_load.items()):
        if isinstance(hook, RefreshAfterLoad):
            del after_load[key]


def swap(module: nn.Module, key: str, activation: str) -> None:
    """`activation`: of the module behind it, if it is of `fused_pairs`. Precondition: `refusal` has
    none."""
    pause_masks(module)
    module.spjit_activation = activation
    if isinstance(module, nn.Conv2d):
        module.spjit_padding = padding_of(module)
    module.spjit_key = key
    module.__class__ = _SPARSE.get(type(module), type(module))


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
        module.__class__ = _DENSE[type(module)]
        for name in ("spjit_key", "spjit_activation", "spjit_padding"):
            vars(module).pop(name, None)
    resume_masks(module)
