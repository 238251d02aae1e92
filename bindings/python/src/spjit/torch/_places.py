"""Where kernels run: on the CPU in torch's threads, or on one of torch's GPUs."""

from __future__ import annotations

import functools
from typing import Any, Union

import torch
from torch import Tensor

from .._errors import InvalidArgument

# Threads of a run on the CPU, or the GPU.
Place = Union[int, torch.device]

# Types of weights that kernels take, of x and y the same, by the kind of device. Biases are fp32.
TYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
FLOAT32_ALONE = (torch.float32,)
TYPES_BY_DEVICE: dict[str, Any] = {"cpu": TYPES, "cuda": FLOAT32_ALONE}


def place_of(tensor: Tensor) -> Place:
    return torch.get_num_threads() if tensor.is_cpu else tensor.device


def has_kernels(tensor: Tensor) -> bool:
    """Whether there are kernels for where it is."""
    return tensor.device.type in TYPES_BY_DEVICE


@functools.lru_cache(maxsize=None)
def target_of(gpu: torch.device) -> str:
    """Of kernels for one of torch's GPUs."""
    major, minor = torch.cuda.get_device_capability(gpu)
    return f"sm_{major}{minor}"


# What a call asks for the stream of torch that it is in; none where torch knows no CUDA.
_raw_stream: Any = getattr(torch._C, "_cuda_getCurrentRawStream", None)


def stream_of(tensor: Tensor) -> int:
    """The handle of torch's current stream of the GPU that a tensor is on."""
    return _raw_stream(tensor.device.index)  # type: ignore[no-any-return]


def check_not_capturing(gpu: torch.device, what: str) -> None:
    """Raises InvalidArgument while a graph captures the stream of this GPU, which takes no
    compiling and no copies to the CPU."""
    if torch.cuda.is_current_stream_capturing():
        raise InvalidArgument(f"{what} has no kernel for this call on {gpu} yet, and a graph is "
                              "being captured; expected one such call before")
