"""What torch does with a call besides: it records gradients, traces, and asks modes and subclasses.
"""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Optional

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.autograd import forward_ad
from torch.compiler import is_compiling
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

Bias = Optional[Tensor]

_is_grad_enabled = torch.is_grad_enabled
_has_mode = torch._C._is_torch_function_mode_enabled
_keys_of = torch._C._dispatch_keys
_included = torch._C._dispatch_tls_local_include_set
_excluded = torch._C._dispatch_tls_local_exclude_set


def needs_grad(x: Tensor, weight: Tensor, bias: Bias) -> bool:
    if _is_grad_enabled() and (x.requires_grad or weight.requires_grad
                               or (bias is not None and bias.requires_grad)):
        return True
    return forward_ad._current_level >= 0  # of tangents nothing is known here


def _usual(device: str) -> tuple[set[int], set[int], set[int]]:
    """The sets of dispatch keys that tensors on such a device have, that a thread adds and that it
    leaves out, without anything and in inference mode. Modes, transforms, autocast and tracing
    have others."""
    tensors, included, excluded = set(), set(), set()
    for mode in (False, True):
        with torch.inference_mode(mode):
            tensors.add(_keys_of(torch.empty(0, device=device)).raw_repr())
            included.add(_included().raw_repr())
            excluded.add(_excluded().raw_repr())
    return tensors, included, excluded


@functools.lru_cache(maxsize=None)
def _usual_on(device: str) -> tuple[set[int], set[int], set[int]]:
    """In a thread of its own: this one may have autocast or another mode."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(_usual, device).result()


_TENSORS, _INCLUDED, _EXCLUDED = _usual_on("cpu")


def is_plain(x: Tensor, weight: Tensor, bias: Bias) -> bool:
    """Whether an operator may be called without torch, which would do nothing else."""
    return (type(x) is Tensor and not _has_mode()
            and (_keys_of(x).raw_repr() in _TENSORS
                 or (x.is_cuda and _keys_of(x).raw_repr() in _usual_on("cuda")[0]))
            and _included().raw_repr() in _INCLUDED and _excluded().raw_repr() in _EXCLUDED
            and not needs_grad(x, weight, bias))


def takes_graph(weight: Tensor, bias: Bias) -> bool:
    """Whether a call records gradients of parameters."""
    return _is_grad_enabled() and (weight.requires_grad or (bias is not None
                                                            and bias.requires_grad))


def is_autocast(x: Tensor) -> bool:
    """Whether torch.autocast is on for the device of x. Not every kind has it, as "meta"."""
    device = x.device.type
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


_TRACED = (FakeTensor, FunctionalTensor)  # which torch traces with
PLAIN = (Tensor, nn.Parameter)
_FUNCTIONS = Tensor.__torch_function__.__func__  # type: ignore[attr-defined]


def _has_own_operators(tensor: Tensor | None) -> bool:
    """Whether it is computed with by functions or a list of operators of its own, which ours are
    not in: nested tensors, subclasses as DTensor or torchvision's Image."""
    if tensor is None or type(tensor) in PLAIN:
        return tensor is not None and tensor.is_nested
    kind = type(tensor)
    return isinstance(tensor, Tensor) and not isinstance(tensor, _TRACED) and (
        kind.__torch_dispatch__ is not Tensor.__torch_dispatch__
        or getattr(kind.__torch_function__, "__func__", _FUNCTIONS) is not _FUNCTIONS)


def _modes() -> list[Any]:
    """Modes of functions, as the user's or a default device, that see calls now."""
    return _get_current_function_mode_stack() if _has_mode() else []


def is_under_own_mode() -> bool:
    """Whether a mode of the user sees functions of torch, which our operators are not."""
    return any(type(mode).__module__.partition(".")[0] not in ("torch", "spjit")
               for mode in _modes())


def is_under_device(x: Any, weight: Tensor, bias: Bias) -> bool:
    """Whether nothing but torch.set_default_device() sees calls, which has nothing to say of what
    is computed of tensors, but makes each look at one ten times as long."""
    modes = _modes()
    return bool(modes) and all(type(mode) is DeviceContext for mode in modes) and all(
        one is None or type(one) in PLAIN for one in (x, weight, bias))


def is_usual_input(x: Tensor) -> bool:
    """Whether it is a dense tensor with strides, of any type."""
    return x.layout is torch.strided and not _has_own_operators(x)


def is_foreign(x: Any, weight: Tensor, bias: Bias) -> bool:
    if is_compiling():  # where subclasses are those that torch traces with
        return isinstance(x, Tensor) and (x.is_nested or type(x) not in (*PLAIN, *_TRACED))
    return _has_own_operators(x) or _has_own_operators(weight) or _has_own_operators(bias)
