"""Lines of the report for layers that may have kernels."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from .._report import Row, why_too_dense
from ._attention import is_attention, projection_names, weights_of_attention
from ._kernels import zeros_of
from ._layers import kind_of
from ._places import has_kernels
from ._quantised import is_quantised, kernels_type
from ._recurrent import is_recurrent, matrix_names, weight_names
from ._weights import refusal_of


def _is_countable(weight: Tensor) -> bool:
    return not is_lazy(weight) and has_kernels(weight) and weight.layout is torch.strided


def _recurrent_row(module: nn.Module, name: str) -> Row:
    """Its weights side by side, as far as they have the rows of the first."""
    row = Row(name, kind_of(module).__name__, (), 0.0, reason=refusal_of(module))
    weights = {each: weight for each in matrix_names(module)
               if isinstance(weight := getattr(module, each, None), Tensor)}
    elements = sum(weight.numel() for weight in weights.values())
    rows = next((len(weight) for weight in weights.values() if weight.dim() == 2), 0)
    row.shape = (rows, elements // rows) if rows and elements % rows == 0 else (elements,)
    if all(map(_is_countable, weights.values())):
        zeros = {each: zeros_of(weight) for each, weight in weights.items()}
        row.zeros = sum(part * weights[each].numel() for each, part in zeros.items()) / max(
            elements, 1)
        for each, part in zeros.items():
            if why := why_too_dense(part):
                row.reason = row.reason or f"{why} in {each}"
    return row


def _attention_row(module: nn.Module, name: str) -> Row:
    """Its projections in front: below each other if they have inputs of the same size, else side by
    side."""
    row = Row(name, "MultiheadAttention", (), 0.0, reason=refusal_of(module))
    weights = [weight for weight in weights_of_attention(module) if isinstance(weight, Tensor)]
    elements = sum(weight.numel() for weight in weights)
    if weights and all(weight.dim() == 2 for weight in weights):
        row.shape = (len(weights[0]), sum(weight.shape[1] for weight in weights))
    if all(map(_is_countable, weights)):
        row.zeros = sum(zeros_of(each) * each.numel() for each in weights) / max(elements, 1)
        row.reason = row.reason or why_too_dense(row.zeros)
    return row


def _quantised_row(module: nn.Module, name: str) -> Row:
    shape = (module.out_features, module.in_features)
    row = Row(name, "Linear", shape, 0.0, reason=refusal_of(module))  # type: ignore[arg-type]
    if not row.reason:
        kind = kernels_type(module)
        row.types, row.zeros = ",".join(kind.types(module)), kind.read(module).zeros
        row.reason = why_too_dense(row.zeros)
    return row


def row_of(module: nn.Module, name: str) -> Row:
    """Of a layer, before anything is known of its calls, with the reason if it cannot be swapped.
    """
    if is_quantised(module):
        return _quantised_row(module, name)
    if is_recurrent(module):
        return _recurrent_row(module, name)
    if is_attention(module):
        return _attention_row(module, name)
    weight: Tensor = module.weight  # type: ignore[assignment]
    shape = () if is_lazy(weight) else tuple(weight.shape)
    row = Row(name, kind_of(module).__name__, shape, 0.0, reason=refusal_of(module))
    if _is_countable(weight):
        row.zeros = zeros_of(weight)
        row.reason = row.reason or why_too_dense(row.zeros)
    return row


def parameters_of(module: nn.Module) -> list[Tensor]:
    """Those that the layer's line stands for, also what masks and other hooks make its weights of.
    Others have lines of their own."""
    if is_recurrent(module):
        names = weight_names(module)
    elif is_attention(module):
        names = [*projection_names(module), "in_proj_bias"]
    else:
        names = ["weight", "bias"]
    return [parameter for name, parameter in module.named_parameters()
            if name.startswith(("parametrizations.", *(f"{own}_" for own in names)))
            or name in names]


def row_of_uses(row: Row) -> Row:
    """Of functions that use a layer's weight beside the layer, which has this line."""
    return Row(f"{row.layer}.weight", "function", (), row.zeros,
               reason="functions use this weight, too, and stay dense: call the module instead")
