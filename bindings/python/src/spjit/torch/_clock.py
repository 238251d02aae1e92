"""Times of parts of a pass: of the CPU by its clock, of a GPU by events in torch's streams."""

from __future__ import annotations

import functools
import time
from typing import Any, Protocol

import torch
from torch import Tensor, nn


class Clock(Protocol):
    """Marks have a meaning after `finish()`."""

    def now(self) -> Any:
        """A mark."""

    def finish(self) -> None:
        """Waits until all that was begun is done."""

    def us(self, begin: Any, end: Any) -> float:
        """From one mark to a later one."""


class _CpuClock:
    now = staticmethod(time.perf_counter_ns)

    def finish(self) -> None:
        pass

    def us(self, begin: int, end: int) -> float:
        return (end - begin) * 1e-3


class _GpuClock:
    """Its marks are where the work of the current stream is then."""

    def __init__(self, gpu: torch.device) -> None:
        self._gpu = gpu

    def now(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._gpu))
        return event

    def finish(self) -> None:
        torch.cuda.synchronize(self._gpu)

    def us(self, begin: torch.cuda.Event, end: torch.cuda.Event) -> float:
        return float(begin.elapsed_time(end)) * 1e3


class _ClockOfSeveral(_CpuClock):
    """Of a model in several places: the CPU's, from which all is done to which all is done."""

    def __init__(self, gpus: tuple[torch.device, ...]) -> None:
        self._gpus = gpus

    def finish(self) -> None:
        for gpu in self._gpus:
            torch.cuda.synchronize(gpu)


@functools.lru_cache(maxsize=None)
def _clock(devices: frozenset[torch.device]) -> Clock:
    gpus = tuple(device for device in devices if device.type == "cuda")
    if not gpus:
        return _CpuClock()
    return _GpuClock(gpus[0]) if len(devices) == 1 else _ClockOfSeveral(gpus)


def _tensors_of(model: nn.Module) -> list[Tensor]:
    return [*model.parameters(), *model.buffers()]


def clock_of(*tensors: Tensor) -> Clock:
    """For work with tensors that are there."""
    return _clock(frozenset(tensor.device for tensor in tensors))


def clock_of_model(model: nn.Module) -> Clock:
    return clock_of(*_tensors_of(model))


def gpus_of(model: nn.Module) -> str:
    """Names of the GPUs that a model is on, for people; "" for none."""
    gpus = {tensor.device for tensor in _tensors_of(model) if tensor.is_cuda}
    return ", ".join(f"{gpu} ({torch.cuda.get_device_name(gpu)})"
                     for gpu in sorted(gpus, key=lambda gpu: gpu.index))
