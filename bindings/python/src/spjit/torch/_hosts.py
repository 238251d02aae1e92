"""Modules of torch that compute all within by themselves, and never call their layers: those with
sparse layers call them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling
from torch.nn import functional

from ._attention import (Mask, SparseMultiheadAttention, count_inside, is_torchs,
                         records_gradients)
from ._dispatch import is_autocast
from ._swapped import NotScriptable


class SparseTransformerEncoderLayer(NotScriptable, nn.TransformerEncoderLayer):
    """With a sparse layer within."""

    def forward(self, src: Tensor, src_mask: Mask = None, src_key_padding_mask: Mask = None,
                is_causal: bool = False) -> Tensor:
        if is_torchs(src) or is_autocast(src):
            count_inside(self)
            return nn.TransformerEncoderLayer.forward(
                self, src, src_mask, src_key_padding_mask, is_causal)
        padding = functional._canonical_mask(
            src_key_padding_mask, "src_key_padding_mask", functional._none_or_dtype(src_mask),
            "src_mask", src.dtype)
        mask = functional._canonical_mask(src_mask, "src_mask", None, "", src.dtype, False)
        if self.norm_first:
            if not src.is_contiguous() and self._is_torchs_in_one(src):
                src = src.contiguous()  # whose order sums with it have
            x = src + self._sa_block(self.norm1(src), mask, padding, is_causal=is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(src + self._sa_block(src, mask, padding, is_causal=is_causal))
        return self.norm2(x + self._ff_block(x))  # type: ignore[no-any-return]

    def _is_torchs_in_one(self, src: Tensor) -> bool:
        """Whether torch would compute a call by one operator, whose result is contiguous."""
        attention = self.self_attn
        return (torch.backends.mha.get_fastpath_enabled() and src.dim() == 3 and not self.training
                and attention.batch_first and attention.in_proj_bias is not None
                and attention._qkv_same_embed_dim and bool(self.activation_relu_or_gelu)
                and self.norm1.eps == self.norm2.eps and attention.num_heads % 2 == 0
                and not torch.is_autocast_enabled()
                and not any(module._forward_hooks or module._forward_pre_hooks
                            for module in self.modules())
                and not records_gradients(src, *self.parameters()))


class SparseTransformerEncoder(NotScriptable, nn.TransformerEncoder):
    """With a sparse layer within: it makes no nested tensors of padded inputs."""

    @property
    def use_nested_tensor(self) -> bool:
        return False

    @use_nested_tensor.setter
    def use_nested_tensor(self, value: bool) -> None:
        vars(self)["use_nested_tensor"] = value

    def forward(self, src: Tensor, mask: Mask = None, src_key_padding_mask: Mask = None,
                is_causal: bool | None = None) -> Tensor:
        y = nn.TransformerEncoder.forward(self, src, mask, src_key_padding_mask, is_causal)
        if src_key_padding_mask is None or mask is not None or not self._makes_nested(
                src, src_key_padding_mask):
            return y
        # What comes out of nested tensors, in front of the last norm.
        zero = y.new_zeros(y.shape[-1])
        zero = zero if self.norm is None else self.norm(zero)
        return torch.where(src_key_padding_mask.bool()[..., None], zero, y)

    def _makes_nested(self, src: Tensor, padding: Tensor) -> bool:
        """Whether torch would make a nested tensor of a call with this mask."""
        first = self.layers[0]
        checks = getattr(self, "mask_check", True)
        if (not vars(self).get("use_nested_tensor") or first.training or src.dim() != 3
                or not torch.backends.mha.get_fastpath_enabled() or torch.is_autocast_enabled()
                or (checks and is_compiling()) or is_torchs(src)):
            return False
        if torch.is_grad_enabled() and (src.requires_grad or any(
                parameter.requires_grad for parameter in first.parameters())):
            return False
        return not checks or bool(torch._nested_tensor_from_mask_left_aligned(
            src, padding.logical_not()))


_OPEN: dict[type[nn.Module], type[nn.Module]] = {
    nn.MultiheadAttention: SparseMultiheadAttention,
    nn.TransformerEncoderLayer: SparseTransformerEncoderLayer,
    nn.TransformerEncoder: SparseTransformerEncoder}
_CLOSED = {sparse: dense for dense, sparse in _OPEN.items()}


def open_hosts(model: nn.Module, has_to: Callable[[nn.Module], bool]) -> list[nn.Module]:
    """Those within the model call their layers exactly if one of these, or the host, `has_to` be
    called. Returns them. A host whose forward() was replaced stays as it is."""
    opened = []
    for host in model.modules():
        kind = _CLOSED.get(type(host), type(host))
        if kind not in _OPEN or "forward" in vars(host):
            continue
        is_open = any(map(has_to, host.modules()))
        host.__class__ = _OPEN[kind] if is_open else kind
        if is_open:
            opened.append(host)
    return opened


@contextlib.contextmanager
def closed(hosts: list[nn.Module]) -> Iterator[None]:
    """As torch runs them."""
    kinds = [(host, type(host)) for host in hosts]
    try:
        for host, kind in kinds:
            host.__class__ = _CLOSED[kind]
        yield
    finally:
        for host, kind in kinds:
            host.__class__ = kind


def _why_torchs(inputs: tuple[Any, ...]) -> str:
    """Why a call of a host with these inputs is all torch's, or ""."""
    for x in inputs:
        if isinstance(x, Tensor) and is_torchs(x):
            return (f"the module around it is called with a {type(x).__name__} "
                    f"({'' if x.is_nested else 'not '}nested); expected a plain dense tensor")
    return ""


def see_host(host: nn.Module, layers: list[Any]) -> Callable[..., Any]:
    """forward() of a module of `open_hosts`: where torch computes all by itself, its layers learn
    why nobody calls them, as their `unseen`."""
    forward = type(host).forward

    def run(*given: Any, **named: Any) -> Any:
        if why := _why_torchs((*given, *named.values())):
            for layer in layers:
                layer.unseen = why
        return forward(host, *given, **named)

    return run
