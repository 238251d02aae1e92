"""Weights and layers that no kernel can be for, each with its reason."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from operator import index
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize

from .._report import DEPTHWISE, LEAST_ZEROS, Row
from ._attention import is_attention, projection_names, why_other_attention
from ._convolutions import CONVOLUTIONS, sizes_of, why_other_convolution
from ._dispatch import PLAIN
from ._kernels import zeros_of
from ._layers import has_sparse_form, is_layer, kind_of
from ._masks import has_mask, has_running_mask, is_masked, maker_of_weight, weight_of
from ._places import FLOAT32_ALONE, TYPES_BY_DEVICE, has_kernels
from ._quantised import is_quantised, kernels_type
from ._recurrent import is_recurrent, matrix_names, why_other_recurrent
from ._released import ReleasedParameter
from ._transposed import TRANSPOSED, why_other_transposed
from ._uses import Uses, why_looked_up

_NORMS = (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
_WHOLE = (nn.RNNBase, nn.RNNCellBase, nn.Bilinear)
# Integers of fewer bits than weights have are packed ones: of GPTQ and AWQ `qweight`.
_PACKED_TYPES = (torch.uint8, torch.int8, torch.int16, torch.int32)
# Attributes of scripted modules of torch.ao.nn.quantized, with objects that hold weights.
_PACKED = ("_packed_params", "_packed_weight_ih", "_packed_weight_hh", "_all_weight_values")
_PARTS = ("LinearPackedParams", "PackedParameter")  # of such, which has their lines
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))
_SIZES = (("out_features", "in_features"), ("outfeatures", "infeatures"))


def _kind(module: nn.Module) -> str:
    kind = kind_of(module) if is_layer(module) else type(module)  # swapped or not
    return str(getattr(module, "original_name", kind.__name__))  # of scripted modules


def _reason(module: nn.Module, weight: Tensor, uses: Uses | None) -> str:
    kind = _kind(module)
    if isinstance(module, torch.jit.ScriptModule):
        return "torch.jit runs it: optimize the model that was scripted or traced"
    if is_lazy(weight):
        return "it has no weight yet: call the model once before"
    if weight.is_quantized:
        dtype = str(weight.dtype).removeprefix("torch.")
        return f"its weight is quantised ({dtype}); expected float32"
    if weight.dtype in _PACKED_TYPES:
        dtype = str(weight.dtype).removeprefix("torch.")
        return f"its weight is integers that {kind} unpacks ({dtype}); expected float32"
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        return why_looked_up(weight, uses)
    if is_attention(module) and (weight is module.bias_k or weight is module.bias_v):
        return "it is one more key or value beside those that are computed, and not multiplied"
    if isinstance(module, _NORMS):
        return "it is used element by element"
    if isinstance(module, _ConvNd) and weight.dim() == 5:
        return f"there is no kernel for {kind}, of three dimensions; expected one or two"
    if isinstance(module, (_ConvNd, *_WHOLE)):
        return f"there is no kernel for {kind}"
    what = "parameter" if isinstance(weight, nn.Parameter) else "tensor"
    return (f"a {what} that functions of {kind} use; expected it in an nn.Linear, nn.Conv1d or "
            "nn.Conv2d")


def _buffers(module: nn.Module) -> dict[str, Tensor]:
    """Weights that are no parameters, by their names: others are masks, tables and statistics."""
    return {name: buffer for name, buffer in module.named_buffers(recurse=False)
            if name.endswith(("weight", "weight_packed"))}


def _others(module: nn.Module) -> dict[str, Tensor]:
    """Tensors within buffers and attributes that would be tried in a layer: as many are zeros as
    there have to be, but not all. Others are tables, states and statistics. Masks are known by
    their names, and what hooks make of parameters by the names of those."""
    held = {**vars(module), **dict(module.named_buffers(recurse=False))}
    for name, value in list(held.items()):
        if isinstance(value, (list, tuple)):
            held.update({f"{name}.{number}": one for number, one in enumerate(value)})
        elif isinstance(value, dict) and name not in _OF_EVERY_MODULE:
            held.update({f"{name}.{key}": one for key, one in value.items()})

    # Also within lists: nn.LSTM has all of its weights in one.
    parameters = [name for name, _ in module.named_parameters(recurse=False)]
    made = {id(value) for name, value in held.items() if isinstance(value, Tensor)
            and any(other.startswith(f"{name}_") for other in parameters)}
    found = {id(value): (name, value) for name, value in reversed(held.items())
             if type(value) is Tensor and not name.endswith("mask") and id(value) not in made
             and _may_be_weight(value)}
    return dict(reversed(found.values()))


def _may_be_weight(tensor: Tensor) -> bool:
    return (tensor.is_floating_point() and tensor.dim() == 2 and min(tensor.shape) > 1
            and tensor.layout is torch.strided and has_kernels(tensor)
            and tensor.is_leaf and LEAST_ZEROS <= zeros_of(tensor) < 1)


def _quantised(module: nn.Module) -> dict[str, Tensor]:
    """Weights that modules of torch.ao.nn.quantized keep packed."""
    if "quantized" not in type(module).__module__ or is_quantised(module):  # which has its line
        return {}
    if callable(getattr(module, "get_weight", None)):
        found = module.get_weight()  # type: ignore[operator]
    else:
        found = {"weight": module.weight()} if callable(getattr(module, "weight", None)) else {}
    return {name: weight for name, weight in found.items() if isinstance(weight, Tensor)}


def _unpacked(value: Any) -> Iterator[Tensor]:
    """Weights within an attribute of a scripted module."""
    if isinstance(value, Tensor):
        if value.dim() >= 2:
            yield value
    elif isinstance(value, torch.ScriptObject):
        if value._has_method("__getstate__"):  # type: ignore[attr-defined]
            yield from _unpacked(value._get_method("__getstate__")())  # type: ignore[attr-defined]
    elif isinstance(value, torch.jit.ScriptModule):
        for name in ("_packed_params", "param"):
            yield from _unpacked(getattr(value, name, None))
        for child in value.children():
            yield from _unpacked(child)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _unpacked(one)


def _scripted(module: nn.Module) -> dict[str, Tensor]:
    """What a scripted or traced module keeps packed, or, frozen, as constants of its code."""
    if not isinstance(module, torch.jit.ScriptModule) or _kind(module) in _PARTS:
        return {}
    held = {name: getattr(module, name, None) for name in _PACKED}
    try:
        code = module.graph.findAllNodes("prim::Constant")
    except (AttributeError, RuntimeError):  # it has no forward()
        code = []
    for node in code:
        value = node.output().toIValue()
        if isinstance(value, torch.ScriptObject) or (
                isinstance(value, Tensor) and (value.is_floating_point() or value.is_quantized)):
            held[node.output().debugName().removeprefix("self.")] = value
    found: dict[str, Tensor] = {}
    for name, value in held.items():
        weights = list(_unpacked(value))
        for number, weight in enumerate(weights):
            found[f"{name}.{number}" if len(weights) > 1 else name] = weight
    return found


def _zeros(module: nn.Module, name: str, weight: Tensor) -> float:
    """Behind its mask, if nn.utils.prune has one. 0 where numbers are packed into others."""
    if is_lazy(weight) or not has_kernels(weight):
        return 0.0
    if weight.dtype in _PACKED_TYPES and weight.dtype is not torch.int8:
        return 0.0
    if name.endswith("_orig") and isinstance(getattr(module, name[:-5], None), Tensor):
        weight = getattr(module, name[:-5])
    if weight.is_quantized:
        weight = weight.dequantize()
    return zeros_of(weight) if weight.layout is torch.strided else 0.0


def _shape(module: nn.Module, weight: Tensor) -> tuple[int, ...]:
    """Of the weight that packed integers are, where the module says it."""
    if is_lazy(weight):
        return ()
    if weight.dtype in _PACKED_TYPES:
        for names in _SIZES:
            sizes = tuple(getattr(module, name, None) for name in names)
            if all(isinstance(size, int) for size in sizes):
                return sizes  # type: ignore[return-value]
    return tuple(weight.shape)


def rows_of(path: str, module: nn.Module, seen: set[int],
            uses: Uses | None = None) -> Iterator[Row]:
    """Of a module's own weights of two dimensions and more. Parameters and buffers in `seen` have
    theirs, and are added there; what packed weights unpack to is made anew, where another may have
    been. `uses`: of a pass of the model."""
    own = {name: weight for name, weight in (*module.named_parameters(recurse=False),
                                             *_buffers(module).items(), *_others(module).items())
           if id(weight) not in seen}
    seen.update(id(weight) for weight in own.values())
    for name, weight in {**own, **_quantised(module), **_scripted(module)}.items():
        if not is_lazy(weight) and weight.dim() < 2:
            continue
        layer = ".".join(filter(None, (path, name.removesuffix("_orig"))))
        for ending in (".weight", "._packed_params"):
            layer = layer.removesuffix(ending)
        yield Row(layer, _kind(module), _shape(module, weight), _zeros(module, name, weight),
                  reason=_reason(module, weight, uses))


def _types_of(module: nn.Module) -> Mapping[str, Collection[torch.dtype]]:
    """That kernels of such a layer have, by the kind of device."""
    is_on_cpu_alone = is_recurrent(module) or isinstance(module, TRANSPOSED)
    return {"cpu": FLOAT32_ALONE} if is_on_cpu_alone else TYPES_BY_DEVICE


def _why_not_tensor(module: nn.Module, weight: Tensor, name: str) -> str:
    """Why no kernel can be of a weight; "" if one can."""
    if type(weight) not in (*PLAIN, ReleasedParameter):
        return f"its {name} is a {type(weight).__name__}; expected a plain tensor"
    if weight.layout is not torch.strided:
        return f"its {name} is {str(weight.layout).removeprefix('torch.')}; expected a dense tensor"
    types, device = _types_of(module), weight.device.type
    if device not in types:
        return (f"its {name} is in memory of {device}; expected the CPU"
                + (" or CUDA" if "cuda" in types else ""))
    if weight.dtype not in types[device]:
        expected = ", ".join(str(dtype).removeprefix("torch.") for dtype in types[device])
        return (f"its {name} is {str(weight.dtype).removeprefix('torch.')}; expected {expected}"
                + (f" on {device}" if device != "cpu" else ""))
    if weight.is_inference() and not has_mask(module, name):
        return f"its {name} was made in inference mode, where changes are not counted"
    if weight.numel() == 0:
        return f"its {name} is empty"
    if weight.is_neg():
        return f"its {name} is a negated view: module.{name}.data = module.{name}.data.resolve_neg()"
    return ""


def _why_parametrized(module: nn.Module) -> str:
    if not parametrize.is_parametrized(module) or is_masked(module):
        return ""
    names = ", ".join(module.parametrizations)  # type: ignore[arg-type]
    return (f"its {names} is parametrized: "
            "torch.nn.utils.parametrize.remove_parametrizations()")


def _why_other_class(module: nn.Module) -> str:
    kind = type(module).__bases__[0] if is_masked(module) else type(module)
    if not has_sparse_form(kind):
        return f"it is a {type(module).__name__}, whose forward() may differ"
    return "its forward() was replaced" if "forward" in vars(module) else ""


def _refusal_of_several(module: nn.Module) -> str:
    """Why a layer of several weights cannot be swapped, of its first weight that says so."""
    is_recurring = is_recurrent(module)
    why_other = why_other_recurrent if is_recurring else why_other_attention
    why = _why_parametrized(module) or _why_other_class(module) or why_other(module)
    for name in matrix_names(module) if is_recurring else projection_names(module):
        why = why or _why_not_tensor(module, getattr(module, name), name)
    return why


def refusal_of(module: nn.Module) -> str:
    """Why a layer cannot be swapped; "" if it can."""
    if is_quantised(module):
        return _why_other_class(module) or kernels_type(module).why_other(module)
    if is_recurrent(module) or is_attention(module):
        return _refusal_of_several(module)
    if why := _why_parametrized(module):
        return why
    if is_lazy(module.weight):
        return "it has no weight yet: call the model once before"
    maker = maker_of_weight(module, also_masks=False)
    if maker:
        return f"a hook makes its weight anew in each call: {maker}"
    if why := _why_other_class(module) or _why_not_tensor(module, weight_of(module), "weight"):
        return why
    weight = weight_of(module)
    if isinstance(module, (*CONVOLUTIONS, *TRANSPOSED)):
        return _refusal_of_convolution(module, weight)
    return "" if weight.dim() == 2 else f"its weight has {weight.dim()} dimensions; expected 2"


def why_dense(module: nn.Module) -> str:
    """Why calls of a sparse layer are dense as it is now, whatever they are given; "" if they are
    not."""
    return refusal_of(module) or ("a mask came after it became sparse: call optimize_ again"
                                  if has_running_mask(module) else "")


def _refusal_of_convolution(module: nn.Module, weight: Tensor) -> str:
    is_transposed = isinstance(module, TRANSPOSED)
    groups = index(module.groups)  # type: ignore[arg-type]
    channels = weight.shape[0] // groups if is_transposed else weight.shape[1]
    if groups > 1 and channels == 1:
        return DEPTHWISE
    if is_transposed:
        return why_other_transposed(module)
    if why := why_other_convolution(module):
        return why
    return "padding='same' is uneven for this kernel size" if sizes_of(module, weight) is None \
        else ""
