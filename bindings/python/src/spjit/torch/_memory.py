"""Bytes of a model's weights and of this process."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .._kernel import Kernel
from .._report import Memory
from ._kernels import kernels_of
from ._released import ReleasedParameter


def _of_process(name: str) -> int | None:
    """VmRSS or VmHWM."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    found = re.search(rf"^{name}:\s*(\d+) kB", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _trim() -> None:
    """glibc gives free memory back, which it would keep for later."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))


def _weights(model: nn.Module) -> Iterable[Tensor]:
    for module in model.modules():
        for held in (*module._parameters.values(), *module._buffers.values()):
            if held is not None:
                yield from _parts(held)


def _parts(tensor: Tensor) -> Iterable[Tensor]:
    """Those that have memory: of a tensor of others, as torchao's, these."""
    if not is_traceable_wrapper_subclass(tensor):
        yield tensor
        return
    names, _ = tensor.__tensor_flatten__()
    for name in names:
        yield from _parts(getattr(tensor, name))


def _dense_bytes(model: nn.Module) -> int:
    """Of each memory once."""
    sizes: dict[int, int] = {}
    for weight in _weights(model):
        if (type(weight) is not ReleasedParameter and weight.layout is torch.strided
                and weight.device.type == "cpu"
                and weight.untyped_storage().nbytes()):
            sizes[weight.untyped_storage().data_ptr()] = weight.untyped_storage().nbytes()
    return sum(sizes.values())


def _bitmask_bytes(model: nn.Module) -> int:
    kept = {id(weight.spjit_values): weight.spjit_values.nbytes for weight in _weights(model)
            if type(weight) is ReleasedParameter}
    return sum(kept.values())


def _kernel_bytes(kernels: Iterable[Kernel]) -> int:
    sizes = {id(kernel): kernel.info["weight_bytes"] + kernel.info["code_bytes"]
             for kernel in kernels}
    return sum(sizes.values())


class MemoryBefore:
    """As it was before a model's weights were released."""

    def __init__(self, model: nn.Module) -> None:
        self._weights = _dense_bytes(model)
        self._process = _of_process("VmRSS")

    def with_now(self, model: nn.Module, sparse: list[Tensor]) -> Memory:
        """`sparse`: weights that have kernels."""
        _trim()
        kernels = [kernel for weight in sparse for kernel in kernels_of(weight)]
        for module in model.modules():
            if "spjit_quantised" in vars(module):
                kernels += module.spjit_quantised.made
        return Memory(self._weights, _dense_bytes(model), _bitmask_bytes(model),
                      _kernel_bytes(kernels),
                      self._process, _of_process("VmRSS"), _of_process("VmHWM"))
