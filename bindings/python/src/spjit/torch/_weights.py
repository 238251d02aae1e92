"""Weights that no kernel can be for, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.parameter import is_lazy

from .._report import Row
from ._kernels import zeros_of

_NORMS = (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
_WHOLE = (nn.RNNBase, nn.RNNCellBase, nn.MultiheadAttention, nn.Bilinear)


def _kind(module: nn.Module) -> str:
    return str(getattr(module, "original_name", type(module).__name__))  # of scripted modules


def _reason(module: nn.Module, weight: Tensor) -> str:
    kind = _kind(module)
    if isinstance(module, torch.jit.ScriptModule):
        return "torch.jit runs it: optimize the model that was scripted or traced"
    if is_lazy(weight):
        return "it has no weight yet: call the model once before"
    if weight.is_quantized:
        dtype = str(weight.dtype).removeprefix("torch.")
        return f"its weight is quantised ({dtype}); expected float32"
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        return "its rows are looked up, not multiplied"
    if isinstance(module, _NORMS):
        return "it is used element by element"
    if isinstance(module, (_ConvNd, *_WHOLE)):
        return f"there is no kernel for {kind}"
    if kind == "Conv1D" and type(module).__module__.startswith("transformers."):
        return ("it is the Conv1D of transformers, x W; expected an nn.Linear in its place, with "
                "the weight transposed")
    return (f"a parameter that functions of {kind} use; expected it in an nn.Linear, nn.Conv1d or "
            "nn.Conv2d")


def _quantised(module: nn.Module) -> dict[str, Tensor]:
    """Weights that modules of torch.ao.nn.quantized keep packed."""
    if "quantized" not in type(module).__module__:
        return {}
    if callable(getattr(module, "get_weight", None)):
        found = module.get_weight()  # type: ignore[operator]
    else:
        found = {"weight": module.weight()} if callable(getattr(module, "weight", None)) else {}
    return {name: weight for name, weight in found.items() if isinstance(weight, Tensor)}


def _zeros(module: nn.Module, name: str, weight: Tensor) -> float:
    """Behind its mask, if nn.utils.prune has one."""
    if is_lazy(weight) or weight.device.type != "cpu":
        return 0.0
    if name.endswith("_orig") and isinstance(getattr(module, name[:-5], None), Tensor):
        weight = getattr(module, name[:-5])
    if weight.is_quantized:
        weight = weight.dequantize()
    return zeros_of(weight) if weight.layout is torch.strided else 0.0


def rows_of(path: str, module: nn.Module, seen: set[int]) -> Iterator[Row]:
    """Of a module's own weights of two dimensions and more. Parameters in `seen` have theirs, and
    are added there; what packed weights unpack to is made anew, where another may have been."""
    own = {name: weight for name, weight in module.named_parameters(recurse=False)
           if id(weight) not in seen}
    seen.update(id(weight) for weight in own.values())
    for name, weight in {**own, **_quantised(module)}.items():
        if not is_lazy(weight) and weight.dim() < 2:
            continue
        shown = name.removesuffix("_orig")
        layer = path if shown == "weight" and path else ".".join(filter(None, (path, shown)))
        shape = () if is_lazy(weight) else tuple(weight.shape)
        yield Row(layer, _kind(module), shape, _zeros(module, name, weight),
                  reason=_reason(module, weight))
