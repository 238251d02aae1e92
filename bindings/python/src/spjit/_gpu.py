"""GPUs, and arrays of other libraries in their memory."""

from __future__ import annotations

from ctypes import byref, c_int32
from typing import Any

import numpy as np

from ._arrays import (Dense, Elements, contiguous_strides, dlpack_tensor, of_tensor, wrong_type)
from ._checks import whole
from ._errors import InvalidArgument
from ._library import Handle, check, library

LEGACY_STREAM = 1  # the default stream, as DLPack and the CUDA Array Interface number it
_DL_HOST = {1: "the CPU", 3: "the host (pinned)"}
_DL_CUDA = (2, 13)  # memory of a GPU, and managed memory
_EXPECTED = "an array with DLPack or the CUDA Array Interface, in memory of GPU"


def stream_of(stream: Any) -> int:
    """The handle of a stream of any library; None: of the default one."""
    if stream is None:
        return LEGACY_STREAM
    own = getattr(stream, "__cuda_stream__", None)  # of CUDA Python: version and handle
    if own is not None:
        stream = own()[1]
    for name in ("cuda_stream", "ptr"):  # of torch and of CuPy
        stream = getattr(stream, name, stream)
    handle = whole(stream, "stream", "a CUDA stream: its handle as a number, or an object of "
                   "torch, CuPy or CUDA Python")
    if handle < 0:
        raise InvalidArgument(f"stream is {handle}; expected the handle of a CUDA stream")
    return handle or LEGACY_STREAM


class Gpu:
    """A GPU of this machine. Raises InvalidArgument if it is not there, NotSupported without a
    driver, DeviceError."""

    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal
        self._handle = Handle(library.spjit_python_gpu_create, library.spjit_python_gpu_destroy,
                              ordinal)

    def dense(self, array: Any, name: str, elements: Elements, *, stream: int,
              writable: bool = False) -> Dense:
        """The memory of an array of such elements on this GPU, in which `stream` finds what other
        streams were given to write there. Raises TypeError for another type, memory of the host and
        what is no array; InvalidArgument for another GPU and memory that cannot be used."""
        interface = getattr(array, "__cuda_array_interface__", None)
        if writable and interface is not None and interface["data"][1]:
            raise InvalidArgument(f"{name} is read-only; expected an array to write to")
        if hasattr(array, "__dlpack_device__"):
            memory = self._of_dlpack(array, name, elements, stream)
        elif interface is not None:
            memory = self._of_interface(array, interface, name, elements, stream)
        else:
            raise wrong_type(name, type(array).__name__, f"{_EXPECTED} {self.ordinal}")
        if memory[0] % elements.size:
            raise InvalidArgument(f"{name} begins at an address that is no multiple of "
                                  f"{elements.size}; expected an aligned array")
        return memory

    def _of_dlpack(self, array: Any, name: str, elements: Elements, stream: int) -> Dense:
        kind, ordinal = array.__dlpack_device__()
        if int(kind) not in _DL_CUDA:
            where = _DL_HOST.get(int(kind), f"another device (DLPack type {int(kind)})")
            raise wrong_type(name, f"in memory of {where}", f"{_EXPECTED} {self.ordinal}")
        self._check_ordinal(name, ordinal)
        capsule, tensor = dlpack_tensor(array, name, stream=stream)
        return of_tensor(tensor, name, elements, capsule)

    def _of_interface(self, array: Any, interface: dict[str, Any], name: str, elements: Elements,
                      stream: int) -> Dense:
        given = np.dtype(interface["typestr"])
        if elements.dtype is None or given != elements.dtype:
            raise wrong_type(name, str(given), elements.name)
        if interface.get("mask") is not None:
            raise InvalidArgument(f"{name} has a mask; expected a plain array")
        shape = tuple(interface["shape"])
        strides = interface.get("strides") or tuple(
            stride * elements.size for stride in contiguous_strides(shape))
        address = int(interface["data"][0] or 0)
        if 0 not in shape:
            ordinal = c_int32()
            check(library.spjit_python_gpu_of_memory(self._handle.pointer, address, byref(ordinal)))
            if ordinal.value < 0:
                raise wrong_type(name, "in memory of the host", f"{_EXPECTED} {self.ordinal}")
            self._check_ordinal(name, ordinal.value)
        earlier = interface.get("stream")
        if earlier == 0:  # ambiguous, the interface says
            raise InvalidArgument(f"{name} names the stream 0; expected 1 for the default stream, "
                                  "2 for that of the thread, or a handle")
        if earlier is not None and earlier != stream:
            check(library.spjit_python_gpu_order(self._handle.pointer, earlier, stream))
        return address, shape, tuple(strides), array

    def _check_ordinal(self, name: str, ordinal: int) -> None:
        if ordinal != self.ordinal:
            raise InvalidArgument(f"{name} is in memory of GPU {ordinal}; expected GPU "
                                  f"{self.ordinal}, which the kernel is loaded into")
