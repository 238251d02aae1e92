"""GPUs for tests: the emulated driver, and arrays in its memory. SPJIT_TEST_CUDA_DRIVER names the
driver, SPJIT_CUDA_PATH NVIDIA's compilers; else they are those of a build of this checkout."""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path

import numpy as np
import pytest

import spjit

_ROOT = Path(__file__).resolve().parents[3]
DRIVER = os.environ.get("SPJIT_TEST_CUDA_DRIVER") or str(
    _ROOT / "build/release/tests/emulated_driver/libspjit_emulated_cuda.so")
TARGET = "sm_90"


@pytest.fixture(scope="module")
def emulated():
    """spjit has the emulated driver, with two GPUs, in the tests of a module; skips without."""
    if not os.path.isfile(DRIVER):
        pytest.skip(f"there is no {DRIVER}, which SPJIT_TEST_CUDA_DRIVER may name")
    with pytest.MonkeyPatch.context() as patch:
        if (_ROOT / ".cuda").is_dir() and "SPJIT_CUDA_PATH" not in os.environ:
            patch.setenv("SPJIT_CUDA_PATH", str(_ROOT / ".cuda"))
        patch.setenv("SPJIT_CUDA_DRIVER", DRIVER)
        patch.setenv("SPJIT_EMULATED_CUDA_DEVICES", "2")
        try:
            spjit.compile(np.ones((1, 1), np.float32), target=TARGET, family="csr", cache=False)
        except spjit.NotSupported as error:
            pytest.skip(str(error))
        yield


class Driver:
    """The functions of the emulated driver that tests call."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(DRIVER)
        self.call("cuInit", 0)

    def status(self, name: str, *arguments) -> int:
        return getattr(self._library, name)(*arguments)

    def call(self, name: str, *arguments) -> None:
        assert self.status(name, *arguments) == 0, name

    def enter(self, device: int) -> None:
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def new_stream(self, device: int = 0) -> int:
        self.enter(device)
        stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), 1)
        return stream.value

    def begin_capture(self, stream: int) -> None:
        self.call("cuStreamBeginCapture_v2", ctypes.c_void_p(stream), 1)

    def end_capture(self, stream: int) -> int:
        """A graph that launches what was captured."""
        graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuStreamEndCapture", ctypes.c_void_p(stream), ctypes.byref(graph))
        self.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph,
                  ctypes.c_uint64(0))
        return executable.value

    def launch_graph(self, executable: int, stream: int) -> None:
        self.call("cuGraphLaunch", ctypes.c_void_p(executable), ctypes.c_void_p(stream))


@functools.lru_cache(maxsize=1)
def driver() -> Driver:
    return Driver()


class Memory:
    """Device memory with the bytes of a numpy array."""

    def __init__(self, values: np.ndarray, device: int) -> None:
        driver().enter(device)
        self.address = 0
        address = ctypes.c_uint64()
        driver().call("cuMemAlloc_v2", ctypes.byref(address),
                      ctypes.c_size_t(max(values.nbytes, 1)))
        self.address, self.device = address.value, device
        self.write(values)

    def write(self, values: np.ndarray) -> None:
        driver().enter(self.device)
        driver().call("cuMemcpyHtoD_v2", ctypes.c_uint64(self.address),
                      values.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(values.nbytes))

    def read(self, values: np.ndarray) -> np.ndarray:
        """Into this array."""
        driver().enter(self.device)
        driver().call("cuMemcpyDtoH_v2", values.ctypes.data_as(ctypes.c_void_p),
                      ctypes.c_uint64(self.address), ctypes.c_size_t(values.nbytes))
        return values

    def __del__(self) -> None:
        if self.address:
            driver().enter(self.device)
            driver().status("cuMemFree_v2", ctypes.c_uint64(self.address))


def whole_of(values: np.ndarray) -> np.ndarray:
    """The contiguous array that a view is of."""
    return values if values.base is None else values.base


class Interface:
    """An array with the CUDA Array Interface alone, as Numba has them. `values`: a numpy array, of
    whose memory there is a copy; a view keeps its place and strides. Members of the interface may
    be `changed`."""

    def __init__(self, values: np.ndarray, device: int = 0, **changed) -> None:
        self._whole = np.array(whole_of(values), copy=True, order="C")
        self.memory = Memory(self._whole, device)
        offset = (values.__array_interface__["data"][0]
                  - whole_of(values).__array_interface__["data"][0])
        self._view = np.ndarray(values.shape, values.dtype, self._whole, offset, values.strides)
        is_plain = values.flags.c_contiguous
        self.__cuda_array_interface__ = {
            "shape": values.shape, "typestr": values.dtype.str, "version": 3,
            "strides": None if is_plain else values.strides, "stream": None,
            "data": (self.memory.address + offset, False), **changed}

    def numpy(self) -> np.ndarray:
        self.memory.read(self._whole)
        return self._view.copy()


class Dlpack(Interface):
    """An array with DLPack alone, as those of JAX. It remembers for which streams it was asked."""

    def __init__(self, values: np.ndarray, device: int = 0, kind: int = 2) -> None:
        super().__init__(values, device)
        self._interface = self.__cuda_array_interface__
        del self.__cuda_array_interface__
        self._kind, self._device = kind, device
        self.streams: list[int] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._kind, self._device

    def __dlpack__(self, *, stream=None):
        self.streams.append(stream)
        capsule = self._view.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        tensor = pointer(capsule, b"dltensor")  # begins with the address, its device and ordinal
        ctypes.c_void_p.from_address(tensor).value = self._interface["data"][0]
        ctypes.c_int32.from_address(tensor + 8).value = self._kind
        ctypes.c_int32.from_address(tensor + 12).value = self._device
        return capsule


needs_gpu = pytest.mark.usefixtures("emulated")
