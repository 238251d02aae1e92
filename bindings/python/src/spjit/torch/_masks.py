"""Masks of torch.nn.utils.prune and torch.ao.pruning: products of a weight and its mask, which
torch computes in each call and a swapped layer only where one of the two has changed."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.ao.pruning._experimental.pruner.parametrization import FakeStructuredSparsity
from torch.ao.pruning.sparsifier.utils import FakeSparsity
from torch.nn.utils import parametrize, prune

_PARAMETRIZED = "parametrizations"


class _Seen:
    """Tensors as they were. It keeps them and their memory: no other gets their identity, or that
    address. A copy has seen nothing."""

    def __init__(self, *tensors: Tensor) -> None:
        self._tensors = [(each, each._version, each.data_ptr(), each.shape, each.stride(),
                          each.is_neg(), each.untyped_storage()) for each in tensors]
        _all_seen.add(self)

    @property
    def versions(self) -> dict[int, int]:
        """Of the tensors by id(), which no other gets meanwhile."""
        return {id(tensor): version for tensor, version, *_ in self._tensors}

    def has(self, *tensors: Tensor) -> bool:
        """Whether these are they, unchanged."""
        return len(tensors) == len(self._tensors) and all(
            each is tensor and each._version == version and each.data_ptr() == pointer
            and each.shape == shape and each.stride() == stride and each.is_neg() == is_neg
            for each, (tensor, version, pointer, shape, stride, is_neg, _) in zip(
                tensors, self._tensors))

    def __reduce__(self) -> Any:
        return _Seen, ()


_all_seen: weakref.WeakSet[_Seen] = weakref.WeakSet()


def seen_by_masks() -> dict[int, int]:
    """Versions of tensors that a mask and its weight are, by id()."""
    return {identity: version for seen in list(_all_seen)
            for identity, version in seen.versions.items()}


@contextlib.contextmanager
def _counting() -> Iterator[None]:
    """Tensors made within have no gradients, and their changes are counted."""
    with torch.inference_mode(False), torch.no_grad():
        yield


class PausedMask(prune.BasePruningMethod):  # type: ignore[misc]
    """In place of a hook of nn.utils.prune, which computes weight_orig * weight_mask in each call:
    does so only where one of them has changed, or has to have a gradient. `weight` is the tensor's
    name."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, mask: prune.BasePruningMethod, module: nn.Module) -> None:
        self.mask = mask
        self._tensor_name = mask._tensor_name
        self.refresh(module)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return self.mask.compute_mask(t, default_mask)

    def _parts(self, module: nn.Module) -> tuple[Tensor, Tensor]:
        name = self._tensor_name
        return getattr(module, f"{name}_orig"), getattr(module, f"{name}_mask")

    def refresh(self, module: nn.Module) -> None:
        with _counting():
            setattr(module, self._tensor_name, self.mask.apply_mask(module))
        self._seen = _Seen(*self._parts(module))

    def __call__(self, module: nn.Module, inputs: Any) -> None:
        if torch.is_grad_enabled() and self._parts(module)[0].requires_grad:
            setattr(module, self._tensor_name, self.mask.apply_mask(module))
            self._seen = _Seen()
        elif not torch.compiler.is_compiling() and not self._seen.has(*self._parts(module)):
            self.refresh(module)


class MaskedWeight:
    """The weight of a layer under torch.ao.pruning."""

    def __init__(self, module: nn.Module) -> None:
        self.refresh(module)

    @staticmethod
    def _parts(module: nn.Module) -> tuple[Tensor, Tensor]:
        weights = module._modules[_PARAMETRIZED].weight  # type: ignore[union-attr]
        return weights.original, weights[0].mask  # type: ignore[index, union-attr]

    def refresh(self, module: nn.Module) -> None:
        with _counting():
            self.weight = module.parametrizations.weight()  # type: ignore[operator, union-attr]
        self._seen = _Seen(*self._parts(module))

    def current(self, module: nn.Module) -> Tensor:
        if not torch.compiler.is_compiling() and not self._seen.has(*self._parts(module)):
            self.refresh(module)
        return self.weight

    def for_call(self, module: nn.Module) -> Tensor:
        """With a graph of its own if it has to have a gradient."""
        if torch.is_grad_enabled() and self._parts(module)[0].requires_grad:
            return module.weight  # type: ignore[return-value]
        return self.current(module)


class RefreshAfterLoad:
    """A hook of load_state_dict(): compiled graphs read the weight and run no other hook."""

    def __call__(self, module: nn.Module, incompatible_keys: Any) -> None:
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, PausedMask):
                hook.refresh(module)
        masked = vars(module).get("spjit_masked")
        if masked is not None and is_masked(module):
            masked.refresh(module)


def is_masked(module: nn.Module) -> bool:
    """Whether a mask of torch.ao.pruning, and nothing else, makes its weight."""
    if not parametrize.is_parametrized(module):
        return False
    made = module.parametrizations
    return (list(made) == ["weight"] and len(made["weight"]) == 1  # type: ignore
            and type(made["weight"][0]) in (FakeSparsity, FakeStructuredSparsity))  # type: ignore


def weight_of(module: nn.Module) -> Tensor:
    """As a kernel has it: the same tensor until it changes, if masks are paused."""
    masked = vars(module).get("spjit_masked")
    if masked is not None and is_masked(module):
        return masked.current(module)  # type: ignore[no-any-return]
    return module.weight  # type: ignore[return-value]


def maker_of_weight(module: nn.Module, also_masks: bool = True) -> str:
    """The class of a hook that makes the weight in each call, as nn.utils.weight_norm's, or "".
    `also_masks`: also a mask that is not paused, as one that came after the layer was swapped."""
    for hook in module._forward_pre_hooks.values():
        if _is_mask(hook):
            makes = also_masks and not isinstance(hook, PausedMask)
        else:
            makes = getattr(hook, "name", None) == "weight"
        if makes:
            return type(hook).__name__
    return ""


def _mask_of(module: nn.Module, name: str) -> prune.BasePruningMethod | None:
    """The hook of nn.utils.prune that makes this tensor."""
    for hook in module._forward_pre_hooks.values():
        if _is_mask(hook) and hook._tensor_name == name:  # type: ignore[attr-defined]
            return hook  # type: ignore[return-value]
    return None


def has_mask(module: nn.Module, name: str) -> bool:
    """Whether nn.utils.prune makes this weight."""
    return _mask_of(module, name) is not None


def counted(module: nn.Module, name: str) -> Tensor | None:
    """A weight or a bias, if it is a parameter, whose changes torch counts, or what a mask that is
    paused makes of one."""
    found = module._parameters.get(name)
    if found is None and isinstance(_mask_of(module, name), PausedMask):
        return vars(module)[name]  # type: ignore[no-any-return]
    return found


def why_uncounted(module: nn.Module, names: Iterable[str]) -> str:
    """Why weights of these names are neither `counted` nor will be; "" if all are."""
    for name in names:
        if not isinstance(module._parameters.get(name), Tensor) and not has_mask(module, name):
            return (f"its {name} is made anew in each call: remove hooks and parametrizations "
                    "before")
    return ""


def _is_mask(hook: Any) -> bool:
    """Of a weight, in_proj_weight of attention and weight_hh_l0 of an LSTM among them."""
    return isinstance(hook, prune.BasePruningMethod) and "weight" in hook._tensor_name


def has_running_mask(module: nn.Module) -> bool:
    """Whether a mask makes a weight in each call, as one that came after the layer was swapped."""
    return any(_is_mask(hook) and not isinstance(hook, PausedMask)
               for hook in module._forward_pre_hooks.values())


def refresh_masks(model: nn.Module) -> None:
    """What masks make in each call, as the next one would: load_state_dict() changes their parts
    alone."""
    with _counting():
        for module in model.modules():
            for hook in module._forward_pre_hooks.values():
                if isinstance(hook, prune.BasePruningMethod) and not isinstance(hook, PausedMask):
                    setattr(module, hook._tensor_name, hook.apply_mask(module))


def pause_masks(module: nn.Module) -> None:
    hooks = module._forward_pre_hooks
    for key, hook in list(hooks.items()):
        if _is_mask(hook) and not isinstance(hook, PausedMask):
            hooks[key] = PausedMask(hook, module)
            module.register_load_state_dict_post_hook(RefreshAfterLoad())
    if is_masked(module) and "spjit_masked" not in vars(module):
        vars(module)["spjit_masked"] = MaskedWeight(module)
        module.register_load_state_dict_post_hook(RefreshAfterLoad())


def resume_masks(module: nn.Module) -> None:
    hooks = module._forward_pre_hooks
    for key, hook in list(hooks.items()):
        if isinstance(hook, PausedMask):
            hooks[key] = hook.mask
            setattr(module, hook._tensor_name, hook.mask.apply_mask(module))
    vars(module).pop("spjit_masked", None)
    after_load = module._load_state_dict_post_hooks
    for key, hook in list(after_load.items()):
        if isinstance(hook, RefreshAfterLoad):
            del after_load[key]


def masked_class(module: nn.Module, sparse: type[nn.Module]) -> type[nn.Module]:
    """Its class, which torch made for it alone, but of the class `sparse`: then torch's
    remove_parametrizations(), which squash_mask() calls, leaves a module of `sparse`."""
    members = {name: value for name, value in vars(type(module)).items()
               if name not in ("__dict__", "__weakref__")}
    return type(f"Parametrized{sparse.__name__}", (sparse,), {**members, "spjit_masks": True})
