"""Frees the dense memory of weights of sparse layers, and brings it back."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from .._errors import NotSupported
from ._kernels import find_bound, forget
from ._places import TYPES
from ._released import BitmaskWeight, ReleasedParameter, exchange

if TYPE_CHECKING:
    from ._candidates import Layer

_HELD = ("a weight whose dense memory was freed cannot be made dense while something refers to it: "
         "delete results of calls with gradients, and weak references, and try again. "
         "torch.utils.swap_tensors says")


def _fills_memory(weight: Tensor) -> bool:
    return weight.untyped_storage().nbytes() == weight.nbytes and (
        weight.is_contiguous() or (
            weight.dim() == 4 and weight.is_contiguous(memory_format=torch.channels_last)))


def _why_kept(weight: Tensor | None) -> str:
    """Why this weight of a sparse layer cannot be freed; "" if it can."""
    if type(weight) is not nn.Parameter:
        return "a mask or a parametrization makes the weight"
    if weight.dtype not in TYPES or not weight.is_cpu or weight.layout is not torch.strided:
        return "the weight is no dense tensor of fp32, bf16 or fp16 in memory of the CPU"
    if weight.is_inference() or weight.is_neg():
        return "the weight is an inference tensor or a negated view"
    if weight._backward_hooks or weight._post_accumulate_grad_hooks:
        return "the weight has hooks of gradients"
    if not _fills_memory(weight):
        return "the weight is a view of other memory"
    memory = weight.untyped_storage()
    if weight.is_shared():
        return "the weight is in memory that processes share"
    if torch._C._storage_Use_Count(memory._cdata) > 2:  # beside the weight and `memory`
        return "another tensor is in the weight's memory"
    return ""


def is_released(module: nn.Module) -> bool:
    return type(module._parameters.get("weight")) is ReleasedParameter


def release(module: nn.Module) -> str:
    """Frees the dense weight of a sparse layer; else says why it stays."""
    if not module.spjit_can_release:
        return "layers of this kind keep it"
    weight = module._parameters.get("weight")
    if why := _why_kept(weight):
        return why
    assert weight is not None
    known = find_bound(weight)
    values = BitmaskWeight(weight, known.content, known.kernels)
    del known  # which has a weak reference to it
    if values.nbytes >= weight.nbytes:
        return "it is not smaller without its zeros"
    forget(weight)
    try:
        exchange(weight, ReleasedParameter(values, weight.requires_grad))
    except RuntimeError as error:
        find_bound(weight, values.content).kernels.update(values.kernels)
        return f"torch.utils.swap_tensors refuses it: {error}"
    vars(module)["spjit_is_released"] = True
    return ""


def release_layers(model: nn.Module, layers: list[Layer]) -> None:
    """Those of them whose weight nothing else uses; the rows say which, and why others are not."""
    holders = Counter(id(weight) for module in model.modules()
                      for weight in module._parameters.values() if weight is not None)
    for layer in layers:
        if holders[id(layer.module._parameters.get("weight"))] > 1:
            layer.row.dense_stays = "another module has the same weight"
        elif layer.used_too:
            layer.row.dense_stays = "functions use the weight, too"
        else:
            layer.row.dense_stays = release(layer.module)
        layer.row.released = not layer.row.dense_stays


def _rebuild(module: nn.Module) -> None:
    """Raises NotSupported, with each weight as it was or dense."""
    for weight in list(module._parameters.values()):
        if type(weight) is ReleasedParameter:
            forget(weight)
            try:
                with torch.inference_mode(False):
                    exchange(weight, nn.Parameter(weight.dense(), weight.requires_grad))
            except RuntimeError as error:
                raise NotSupported(f"{_HELD}: {error}") from error
    vars(module).pop("spjit_is_released", None)


def rebuild(model: nn.Module) -> None:
    """All released weights within are dense parameters again, the same objects. Also those that
    another module got from a sparse layer, as under a parametrization."""
    for module in model.modules():
        _rebuild(module)


@contextlib.contextmanager
def rebuilt(module: nn.Module) -> Iterator[None]:
    """The weight of a sparse layer is dense within, and then released again if it can be."""
    was_released = is_released(module)
    _rebuild(module)
    try:
        yield
    finally:
        if was_released:
            release(module)
