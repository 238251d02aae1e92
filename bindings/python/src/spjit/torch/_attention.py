"""nn.MultiheadAttention that calls spjit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling
from torch.fx import Proxy
from torch.nn import functional

from .._errors import NotSupported
from ._dispatch import is_foreign, is_plain, is_under_device, is_under_own_mode, takes_graph
from ._kernels import LayerKey
from ._masks import counted, why_uncounted
from ._op import call, runs_dense
from ._part_op import LINEAR_PART, run_part
from ._swapped import Swapped
from ._views import Part, view_of

Mask = Optional[Tensor]
_QKV = "qkv"
# Rows of the packed weight that a call may need as one product: of inputs that are the same tensor.
PACKED = ("qkv", "q", "kv", "qk", "k", "v")


@dataclass(frozen=True)
class Projections:
    """What kernels of the projections in front are made for: by names of `PACKED`."""

    keys: tuple[tuple[str, LayerKey], ...]

    def __str__(self) -> str:
        return ",".join(f"{name}={key}" for name, key in self.keys)

    @classmethod
    def parse(cls, text: str) -> Projections:
        """Raises ValueError."""
        each = (part.partition("=") for part in text.split(","))
        return cls(tuple((name, LayerKey.parse(key)) for name, _, key in each))


def is_attention(module: nn.Module) -> bool:
    return isinstance(module, nn.MultiheadAttention)


def projection_names(module: nn.Module) -> list[str]:
    """Names of the weights of the projections in front: one, or three of inputs of other sizes."""
    if module._qkv_same_embed_dim:
        return ["in_proj_weight"]
    return [f"{each}_proj_weight" for each in _QKV]


def weights_of_attention(module: nn.Module) -> list[Tensor]:
    """Those that have kernels."""
    return [getattr(module, name) for name in projection_names(module)]


def projections_in(module: nn.Module) -> tuple[str, ...]:
    """All that there may be."""
    return PACKED if module._qkv_same_embed_dim else tuple(_QKV)


def _rows(module: nn.Module, name: str) -> tuple[int, int]:
    """Of the packed weight and bias."""
    first = _QKV.index(name[0])
    size: int = module.embed_dim  # type: ignore[assignment]
    return first * size, (first + len(name)) * size


def _weight_and_part(module: nn.Module, name: str) -> tuple[Tensor, Part]:
    if module._qkv_same_embed_dim:
        return module.in_proj_weight, Part(*_rows(module, name))  # type: ignore[return-value]
    return getattr(module, f"{name}_proj_weight"), Part(0, module.embed_dim)  # type: ignore


def projection_of(module: nn.Module, name: str) -> Tensor:
    """The weight of one projection, as kernels have it."""
    return view_of(*_weight_and_part(module, name))


def why_other_attention(module: nn.Module) -> str:
    """Why changes of weights are not counted, or they are not of torch's sizes; "" if they are."""
    if why := why_uncounted(module, projection_names(module)):
        return why
    rows = 3 if module._qkv_same_embed_dim else 1
    if any(weight.dim() != 2 or len(weight) != rows * module.embed_dim  # type: ignore[operator]
           for weight in weights_of_attention(module)):
        return "its weights are not those of its sizes"
    return ""


def inputs_by_name(is_packed: bool, query: Tensor, key: Tensor,
                   value: Tensor) -> list[tuple[str, Tensor]]:
    """Projections of a call, each with its input. Of a packed weight, what is of the same tensor is
    one."""
    if not is_packed or (query is not key and key is not value):
        return [("q", query), ("k", key), ("v", value)]
    if query is not key:
        return [("q", query), ("kv", key)]
    return [("qkv", query)] if key is value else [("qk", query), ("v", value)]


def _each_once(change: Callable[[Tensor], Tensor], query: Tensor, key: Tensor,
               value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Those that were the same tensor still are."""
    q = change(query)
    k = q if key is query else change(key)
    if value is query:
        return q, k, q
    return q, k, k if value is key else change(value)


class SparseMultiheadAttention(Swapped, nn.MultiheadAttention):
    """Of `optimize_` and `load_`. Calls `out_proj`, which may be sparse. The projections in front
    are if it has a `spjit_key`."""

    def _made_of(self) -> list[Tensor]:
        weights = (counted(self, name) for name in projection_names(self))
        return [weight for weight in weights if weight is not None]

    def forward(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Mask = None,
                need_weights: bool = True, attn_mask: Mask = None,
                average_attn_weights: bool = True,
                is_causal: bool = False) -> tuple[Tensor, Tensor | None]:
        # Parametrized since: torch then reads its weights as often as in a dense one.
        if "parametrizations" in self._modules or is_torchs(query, key, value) or not self._fits(
                query, key, value, key_padding_mask, attn_mask, is_causal):
            count_inside(self)
            return nn.MultiheadAttention.forward(
                self, query, key, value, key_padding_mask, need_weights, attn_mask,
                average_attn_weights, is_causal)
        padding = functional._canonical_mask(
            key_padding_mask, "key_padding_mask", functional._none_or_dtype(attn_mask),
            "attn_mask", query.dtype)
        mask = functional._canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
        is_batched = query.dim() == 3
        tokens_first = is_batched and self.batch_first and not self._is_torchs_in_one(
            (query, key, value), (key_padding_mask, attn_mask))
        if not is_batched:
            at = 0 if self.batch_first else 1
            query, key, value = _each_once(lambda x: x.unsqueeze(at), query, key, value)
            padding = None if padding is None else padding.unsqueeze(0)
        is_causal = is_causal and padding is None and not need_weights
        y, weights = self._attend(query, key, value, (None if is_causal else mask, padding),
                                  is_causal, need_weights, tokens_first=tokens_first)
        if weights is not None and average_attn_weights:
            weights = weights.mean(dim=1)
        if is_batched:
            return y, weights
        return y.squeeze(at), None if weights is None else weights.squeeze(0)

    def _fits(self, query: Tensor, key: Tensor, value: Tensor, padding: Mask, mask: Mask,
              is_causal: bool) -> bool:
        """Whether sizes are such that torch computes anything. It says what is wrong with others.
        """
        size = self.embed_dim
        packed = self._qkv_same_embed_dim
        widths = (size, size, size) if packed else (size, self.kdim, self.vdim)
        inputs = (query, key, value)
        if (query.dim() not in (2, 3) or any(x.dim() != query.dim() for x in inputs)
                or any(x.shape[-1] != width for x, width in zip(inputs, widths))
                or key.shape[:-1] != value.shape[:-1] or (is_causal and mask is None)
                or self.embed_dim % self.num_heads or (self.bias_k is None) != (
                    self.bias_v is None)):
            return False
        is_batched = query.dim() == 3
        at = 0 if self.batch_first else 1
        batch = query.shape[at] if is_batched else 1
        if is_batched and key.shape[at] != batch:
            return False
        steps = query.shape[1 - at] if is_batched else len(query)
        keys = key.shape[1 - at] if is_batched else len(key)
        if padding is not None and padding.shape != ((batch, keys) if is_batched else (keys,)):
            return False
        return mask is None or mask.shape in ((steps, keys),
                                              (batch * self.num_heads, steps, keys))

    def _is_torchs_in_one(self, inputs: tuple[Tensor, ...], masks: tuple[Mask, Mask]) -> bool:
        """Whether torch would compute the call by one operator, whose result is contiguous. Of
        batches first it else gives a view of tokens first."""
        query, key, value = inputs
        parameters = (self.in_proj_weight, self.in_proj_bias, self.out_proj.weight,
                      self.out_proj.bias)
        return (torch.backends.mha.get_fastpath_enabled() and query is key and key is value
                and self._qkv_same_embed_dim and self.in_proj_bias is not None
                and self.bias_k is None and not self.add_zero_attn
                and self.num_heads % 2 == 0 and not self.training
                and not any(mask is not None and mask.is_floating_point() for mask in masks)
                and not torch.is_autocast_enabled()
                and not records_gradients(query, *parameters))

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, masks: tuple[Mask, Mask],
                is_causal: bool, need_weights: bool, *,
                tokens_first: bool) -> tuple[Tensor, Tensor | None]:
        """Of [batch, tokens, features] or [tokens, batch, features]. The weights are [batch, heads,
        tokens, keys]. `tokens_first`: the order in memory of what batches first give."""
        q, k, v = self.spjit_project(query, key, value)
        mask, padding = masks
        along = 1 if self.batch_first else 0
        added = 0
        if self.bias_k is not None and self.bias_v is not None:
            size = (k.shape[0], 1, k.shape[2]) if along else (1, *k.shape[1:])
            k = torch.cat([k, self.bias_k.expand(size)], along)
            v = torch.cat([v, self.bias_v.expand(size)], along)
            added += 1
        q, k, v = map(self._heads, (q, k, v))
        if self.add_zero_attn:
            zeros = k.new_zeros((*k.shape[:2], 1, k.shape[3]))
            k, v = torch.cat([k, zeros], 2), torch.cat([v, zeros], 2)
            added += 1
        y, weights = _attention(q, k, v, _joined(mask, padding, added, q), is_causal,
                                self.dropout if self.training else 0.0, need_weights)
        y = y.transpose(1, 2) if self.batch_first and not tokens_first else y.permute(2, 0, 1, 3)
        # Not a call of the module: torch runs no hooks of it either.
        y = self.out_proj.forward(y.reshape(*y.shape[:2], self.embed_dim))
        return y.transpose(0, 1) if tokens_first else y, weights

    def _heads(self, x: Tensor) -> Tensor:
        """[batch, heads, tokens, features of a head]."""
        x = x.unflatten(-1, (self.num_heads, self.head_dim))
        return x.transpose(1, 2) if self.batch_first else x.permute(1, 2, 0, 3)

    def spjit_project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        """q, k and v of the inputs, as wide as the embedding each."""
        text = vars(self).get("spjit_key")
        if text is None:
            return self.project_dense(query, key, value)
        if why_other_attention(self) or len(self._made_of()) < len(
                projection_names(self)):  # than when it was swapped
            if not is_compiling():
                self.count_dense()
            return self.project_dense(query, key, value)
        keys = dict(part.split("=") for part in text.split(","))
        made: list[Tensor] = []
        is_dense = False
        for name, x in inputs_by_name(self._qkv_same_embed_dim, query, key, value):
            y, was_dense = self._product(name, x, keys.get(name) or next(iter(keys.values())))
            made.extend(y.chunk(len(name), -1))
            is_dense = is_dense or was_dense
        if is_dense:
            self.count_dense()
            if takes_graph(self._made_of()[0], self.in_proj_bias):
                self._warn_once()
        return tuple(made)

    def _product(self, name: str, x: Tensor, key: str) -> tuple[Tensor, bool]:
        """And whether it was dense."""
        weight, part = _weight_and_part(self, name)
        bias = self.in_proj_bias
        whole = bias is None or name == _QKV
        rows = bias if whole else bias[slice(*_rows(self, name))]
        given = (*part, "", key)
        if not is_compiling() and is_plain(x, weight, bias):
            y = run_part(x, weight, rows, *given)
            if y is not None:
                return y, False
        if not is_compiling() and is_under_device(x, weight, bias):
            with torch._C.DisableTorchFunction():
                return self._product(name, x, key)
        y = call(LINEAR_PART, x, weight, rows, *given)
        return y, not is_compiling() and runs_dense(x, weight, rows)

    def project_dense(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        """By torch."""
        if self._qkv_same_embed_dim:
            return tuple(functional._in_projection_packed(  # type: ignore[attr-defined]
                query, key, value, self.in_proj_weight, self.in_proj_bias))
        biases = (None, None, None) if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return tuple(functional.linear(x, weight, bias) for x, weight, bias in zip(
            (query, key, value), weights_of_attention(self), biases))


def _joined(mask: Mask, padding: Mask, added: int, q: Tensor) -> Mask:
    """What is added to [batch, heads, tokens, keys]; `added`: keys behind the given ones."""
    if mask is not None:
        mask = functional.pad(mask, (0, added))
        if mask.dim() == 3:
            mask = mask.view(*q.shape[:2], *mask.shape[1:])
    if padding is None:
        return mask
    padding = functional.pad(padding, (0, added))[:, None, None]
    return padding if mask is None else mask + padding


def _attention(q: Tensor, k: Tensor, v: Tensor, mask: Mask, is_causal: bool, dropout: float,
               need_weights: bool) -> tuple[Tensor, Tensor | None]:
    """As multi_head_attention_forward() of torch."""
    if not need_weights:
        return functional.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal), None
    scores = (q * math.sqrt(1 / q.shape[-1])) @ k.transpose(-2, -1)
    weights = functional.softmax(scores if mask is None else scores + mask, dim=-1)
    if dropout > 0:
        weights = functional.dropout(weights, dropout)
    return weights @ v, weights


def records_gradients(*tensors: Tensor | None) -> bool:
    """Whether calls record gradients of one of them, for which torch has no operator for all."""
    return torch.is_grad_enabled() and any(
        tensor is not None and tensor.requires_grad for tensor in tensors)


def is_torchs(*inputs: Any) -> bool:
    """Whether torch alone knows what a call is: of nested tensors, subclasses, under a mode, or
    where torch.jit traces, to which sizes are tensors."""
    if any(isinstance(x, Proxy) for x in inputs):
        raise NotSupported("torch.fx does not know sparse attention: call "
                           "spjit.torch.restore_(model) before")
    if not all(isinstance(x, Tensor) for x in inputs):
        return True
    if not is_compiling() and (is_under_own_mode() or torch.jit.is_tracing()):
        return True
    return any(is_foreign(x, x, None) for x in inputs)


def count_inside(module: nn.Module) -> None:
    """A call that is all torch's, of each sparse layer within."""
    if not is_compiling():
        for each in module.modules():
            if isinstance(each, Swapped) and "spjit_key" in vars(each):
                each.count_dense()
