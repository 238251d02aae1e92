"""Kernels on a GPU, which is emulated, with arrays of other libraries."""

from __future__ import annotations

import copy
import ctypes
import pickle

import numpy as np
import pytest
from conftest import expected, floats, gelu
from gpu_testing import TARGET, Dlpack, Interface, driver, emulated, needs_gpu  # noqa: F401

import spjit

pytestmark = needs_gpu


def loaded(a, device=0, **fields):
    return spjit.compile(a, target=TARGET, **fields).to_device(device)


def assert_close(y, reference):
    np.testing.assert_allclose(y.numpy(), reference, rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def kernel(emulated):  # noqa: F811
    """Of a [24, 40], on GPU 0."""
    a = matrix()
    return loaded(a, bias=True)


def matrix(rows=24, cols=40):
    rng = np.random.default_rng(3)
    return (floats(rng, rows, cols) * (rng.random((rows, cols)) < 0.2)).astype(np.float32)


@pytest.mark.parametrize("kind", [Interface, Dlpack])
@pytest.mark.parametrize("family", ["unrolled", "csr", "dense"])
def test_bits_are_those_of_the_cpu(rng, kind, family):
    a = matrix()
    x, bias, residual = floats(rng, 3, 5, 40), floats(rng, 24), floats(rng, 3, 5, 24)
    fields = {"bias": True, "residual": True, "activation": "relu"}
    on_gpu = loaded(a, family=family, **fields)
    y = kind(np.full((3, 5, 24), np.nan, np.float32))

    assert on_gpu.launch(kind(x), out=y, bias=kind(bias), residual=kind(residual)) is y

    on_cpu = spjit.compile(a, **fields)(x, bias=bias, residual=residual)
    np.testing.assert_array_equal(y.numpy(), on_cpu)


def test_types_layouts_and_factors(rng):
    a = matrix()
    on_gpu = loaded(a, layout="features", scale=True, activation="gelu", typical_n=7)
    x, scale = floats(rng, 2, 40, 7), floats(rng, 24)
    y = Interface(np.zeros((2, 24, 7), np.float32))

    on_gpu.launch(Interface(x), out=y, scale=Interface(scale))

    product = np.einsum("oi,bin->bon", a.astype(np.float64), x)
    assert_close(y, gelu(product * scale[:, None]))


@pytest.mark.parametrize("layout", ["tokens", "features"])
@pytest.mark.parametrize(("rows", "cols", "n"), [(1, 5, 3), (5, 1, 3), (4, 6, 1), (1, 1, 1)])
def test_sizes_of_one(rng, layout, rows, cols, n):
    a = floats(rng, rows, cols)
    on_gpu = loaded(a, layout=layout, typical_n=20)
    x, y = floats(rng, n, cols), np.zeros((n, rows), np.float32)
    given, result = (x, y) if layout == "tokens" else (x.T.copy(), y.T.copy())
    result = Interface(result)

    on_gpu.launch(Interface(given), out=result)

    reference = x.astype(np.float64) @ a.T.astype(np.float64)
    assert_close(result, reference if layout == "tokens" else reference.T)


def test_no_tokens_are_nothing_to_do(kernel, rng):
    y = Interface(np.zeros((0, 24), np.float32))

    assert kernel.launch(Interface(floats(rng, 0, 40)), out=y, bias=Interface(floats(rng, 24))) is y


def test_slices_are_taken_where_they_are(kernel, rng):
    x, y, bias = floats(rng, 6, 50), np.zeros((6, 30), np.float32), floats(rng, 24)
    part = Interface(y[::2, 3:27])

    kernel.launch(Interface(x[::2, 5:45]), out=part, bias=Interface(bias))

    assert_close(part, x[::2, 5:45] @ matrix().T + bias)


def test_other_strides_are_refused(kernel, rng):
    x = floats(rng, 40, 4).T
    with pytest.raises(spjit.InvalidArgument, match=r"x has the strides \[4, 16\] \(bytes\) for "
                       r"the shape \[4, 40\].*expected 4 in the last dimension.*contiguous copy"):
        kernel.launch(Interface(x), out=Interface(np.zeros((4, 24), np.float32)),
                      bias=Interface(floats(rng, 24)))


def test_convolution(rng):
    of = spjit.Conv2d(4, 6, 5, kernel=3, padding=1)
    w = floats(rng, 8, 36) * (rng.random((8, 36)) < 0.3)
    on_gpu = loaded(w, convolution=of)
    x = floats(rng, 2, 6, 5, 4)
    y = Interface(np.zeros((2, 6, 5, 8), np.float32))

    on_gpu.launch(Interface(x), out=y)

    np.testing.assert_array_equal(y.numpy(), spjit.compile(w, convolution=of)(x))
    assert repr(on_gpu).endswith("on GPU 0>")


def test_values_of_a_call(rng):
    a = matrix()
    on_gpu = loaded(a, runtime_values=True)
    x, y = floats(rng, 3, 40), Interface(np.zeros((3, 24), np.float32))
    nonzeros = a[a != 0]

    on_gpu.launch(Interface(x), out=y, values=on_gpu.prepare_values(2 * nonzeros))

    assert_close(y, x @ (2 * a.T))


def test_each_gpu_has_its_own_kernel(rng):
    kernel = spjit.compile(matrix(), target=TARGET)
    x = floats(rng, 3, 40)

    for device in (0, 1):
        on_gpu = kernel.to_device(device)
        y = Interface(np.zeros((3, 24), np.float32), device)
        on_gpu.launch(Interface(x, device), out=y)
        assert on_gpu.device == device
        assert_close(y, x @ matrix().T)
    assert kernel.device is None


@pytest.mark.parametrize("kind", [Interface, Dlpack])
def test_memory_of_another_gpu_is_refused(kernel, rng, kind):
    with pytest.raises(spjit.InvalidArgument, match="x is in memory of GPU 1; expected GPU 0"):
        kernel.launch(kind(floats(rng, 3, 40), 1), out=kind(np.zeros((3, 24), np.float32)),
                      bias=kind(floats(rng, 24)))


def test_memory_of_the_host_is_refused(kernel, rng):
    x, y, bias = floats(rng, 3, 40), np.zeros((3, 24), np.float32), floats(rng, 24)
    expected_text = "expected an array with DLPack or the CUDA Array Interface, in memory of GPU 0"

    with pytest.raises(TypeError, match=f"x is in memory of the CPU; {expected_text}"):
        kernel.launch(x, out=Interface(y), bias=Interface(bias))
    with pytest.raises(TypeError, match=f"out is in memory of the CPU; {expected_text}"):
        kernel.launch(Interface(x), out=y, bias=Interface(bias))
    with pytest.raises(TypeError, match=f"bias is list; {expected_text}"):
        kernel.launch(Interface(x), out=Interface(y), bias=[1.0])
    with pytest.raises(TypeError, match=f"x is in memory of the host; {expected_text}"):
        kernel.launch(Interface(x, data=(x.ctypes.data, False)), out=Interface(y),
                      bias=Interface(bias))
    with pytest.raises(TypeError, match=r"x is in memory of another device \(DLPack type 10\)"):
        kernel.launch(Dlpack(x, kind=10), out=Interface(y), bias=Interface(bias))


@pytest.mark.parametrize("kind", [Interface, Dlpack])
def test_memory_of_a_gpu_is_refused_by_kernels_of_the_cpu(rng, kind):
    kernel = spjit.compile(matrix())
    with pytest.raises(TypeError, match="x is in memory of a .*; expected an array in memory of "
                       "the CPU"):
        kernel(kind(floats(rng, 3, 40)))


def test_kernels_of_the_wrong_place_are_refused(kernel, rng):
    x = floats(rng, 3, 40)
    on_cpu, unloaded = spjit.compile(matrix()), spjit.compile(matrix(), target=TARGET)
    y = Interface(np.zeros((3, 24), np.float32))

    with pytest.raises(spjit.InvalidArgument, match=r"is for sm_90; expected launch\(\)"):
        kernel(x, bias=floats(rng, 24))
    with pytest.raises(spjit.InvalidArgument, match=r"is for sm_90; expected launch\(\)"):
        unloaded(x)
    with pytest.raises(spjit.InvalidArgument, match=r"is in no GPU; expected what to_device\(0\)"):
        unloaded.launch(Interface(x), out=y)
    with pytest.raises(spjit.InvalidArgument, match="not a GPU; expected a call"):
        on_cpu.launch(Interface(x), out=y)
    with pytest.raises(spjit.InvalidArgument, match='expected one for a GPU, as compile.*"sm_90"'):
        on_cpu.to_device(0)
    with pytest.raises(spjit.InvalidArgument, match="there is no CUDA device 2: the driver has 2"):
        unloaded.to_device(2)
    with pytest.raises(spjit.InvalidArgument, match="ordinal is 'cuda:0'; expected the number"):
        unloaded.to_device("cuda:0")


def test_another_architecture_is_refused():
    with pytest.raises(spjit.NotSupported, match="for sm_80; GPU 0 .* is sm_90"):
        spjit.compile(matrix(), target="sm_80", family="csr").to_device(0)


@pytest.mark.parametrize(("changed", "text"), [
    ({"typestr": "<f8"}, "x is float64; expected float32"),
    ({"typestr": ">f4"}, "x is >f4; expected float32"),
    ({"mask": object()}, "x has a mask; expected a plain array"),
    ({"stream": 0}, "x names the stream 0; expected 1 for the default stream")])
def test_interfaces_that_are_wrong_are_refused(kernel, rng, changed, text):
    with pytest.raises((TypeError, spjit.InvalidArgument), match=text):
        kernel.launch(Interface(floats(rng, 3, 40), **changed),
                      out=Interface(np.zeros((3, 24), np.float32)), bias=Interface(floats(rng, 24)))


def test_dlpack_of_another_type_is_refused(kernel, rng):
    with pytest.raises(TypeError, match="x is float64; expected float32"):
        kernel.launch(Dlpack(rng.standard_normal((3, 40))),
                      out=Dlpack(np.zeros((3, 24), np.float32)), bias=Dlpack(floats(rng, 24)))


def test_what_cannot_be_written_to_is_refused(kernel, rng):
    x, y, bias = floats(rng, 3, 40), Interface(np.zeros((3, 24), np.float32)), floats(rng, 24)
    y.__cuda_array_interface__["data"] = (y.memory.address, True)

    with pytest.raises(spjit.InvalidArgument, match="out is read-only; expected an array to write"):
        kernel.launch(Interface(x), out=y, bias=Interface(bias))
    with pytest.raises(spjit.InvalidArgument, match="out is None; expected an array in memory of "
                       "GPU 0"):
        kernel.launch(Interface(x), out=None, bias=Interface(bias))


def test_memory_that_is_not_aligned_is_refused(kernel, rng):
    x = Interface(floats(rng, 4, 40))
    x.__cuda_array_interface__.update(shape=(3, 40), data=(x.memory.address + 2, False))
    with pytest.raises(spjit.InvalidArgument, match="x begins at an address that is no multiple of "
                       "4"):
        kernel.launch(x, out=Interface(np.zeros((3, 24), np.float32)),
                      bias=Interface(floats(rng, 24)))


def test_shapes_are_checked(kernel, rng):
    x, y, bias = (Interface(each) for each in (floats(rng, 3, 39), np.zeros((3, 24), np.float32),
                                               floats(rng, 23)))
    with pytest.raises(spjit.InvalidArgument, match=r"x has the shape \[3, 39\]; expected \[..., "
                       r"tokens, 40\]"):
        kernel.launch(x, out=y, bias=bias)
    with pytest.raises(spjit.InvalidArgument, match=r"bias has the shape \[23\]; expected \[24\]"):
        kernel.launch(Interface(floats(rng, 3, 40)), out=y, bias=bias)
    with pytest.raises(spjit.InvalidArgument, match="bias is missing"):
        kernel.launch(Interface(floats(rng, 3, 40)), out=y)


class OfTorch:
    def __init__(self, handle):
        self.cuda_stream = handle


class OfCupy:
    def __init__(self, handle):
        self.ptr = handle


class OfCudaPython:
    def __init__(self, handle):
        self._handle = handle

    def __cuda_stream__(self):
        return 0, self._handle


@pytest.mark.parametrize("of", [int, OfTorch, OfCupy, OfCudaPython])
def test_arrays_are_asked_for_the_stream_of_the_launch(kernel, rng, of):
    stream = driver().new_stream()
    x, y, bias = (Dlpack(each) for each in (floats(rng, 3, 40), np.zeros((3, 24), np.float32),
                                            floats(rng, 24)))

    kernel.launch(x, out=y, bias=bias, stream=of(stream))

    assert x.streams == y.streams == bias.streams == [stream]


def test_without_a_stream_it_is_the_default_one(kernel, rng):
    x, y, bias = (Dlpack(each) for each in (floats(rng, 3, 40), np.zeros((3, 24), np.float32),
                                            floats(rng, 24)))

    kernel.launch(x, out=y, bias=bias)
    kernel.launch(x, out=y, bias=bias, stream=0)

    assert x.streams == [1, 1]


@pytest.mark.parametrize("stream", ["default", 1.5, -1, True])
def test_what_is_no_stream_is_refused(kernel, rng, stream):
    with pytest.raises(spjit.InvalidArgument, match="stream is .*; expected .* CUDA stream"):
        kernel.launch(None, out=Interface(np.zeros((3, 24), np.float32)), stream=stream)


def test_a_stream_that_is_not_there_is_a_device_error(kernel, rng):
    with pytest.raises(spjit.DeviceError, match="CUDA_ERROR_INVALID_HANDLE"):
        kernel.launch(Interface(floats(rng, 3, 40)), out=Interface(np.zeros((3, 24), np.float32)),
                      bias=Interface(floats(rng, 24)), stream=12345)


def test_the_launch_waits_for_the_streams_of_arrays(kernel, rng):
    """What is only captured nothing can wait for: an error says that it was tried."""
    written, launched = driver().new_stream(), driver().new_stream()
    x = Interface(floats(rng, 3, 40), stream=written)
    y, bias = Interface(np.zeros((3, 24), np.float32)), Interface(floats(rng, 24))

    kernel.launch(x, out=y, bias=bias, stream=launched)
    driver().begin_capture(written)
    with pytest.raises(spjit.DeviceError, match="cannot order two streams"):
        kernel.launch(x, out=y, bias=bias, stream=launched)
    driver().status("cuStreamEndCapture", ctypes.c_void_p(written), ctypes.byref(ctypes.c_void_p()))


def test_launches_are_captured(kernel, rng):
    stream = driver().new_stream()
    values, factors = floats(rng, 3, 40), floats(rng, 24)
    x, y, bias = (Interface(each, stream=stream) for each in (
        values, np.zeros((3, 24), np.float32), factors))

    driver().enter(0)
    driver().begin_capture(stream)
    kernel.launch(x, out=y, bias=bias, stream=stream)
    graph = driver().end_capture(stream)
    before = y.numpy()
    x.memory.write(2 * values)
    driver().launch_graph(graph, stream)

    assert not before.any()
    assert_close(y, expected_of(2 * values, factors))


def expected_of(x, bias):
    return x.astype(np.float64) @ matrix().T.astype(np.float64) + bias


def test_copies_files_and_pickles(kernel, rng, tmp_path):
    values, bias = floats(rng, 3, 40), floats(rng, 24)
    kernel.save(tmp_path / "kernel")
    from_file = spjit.load(tmp_path / "kernel")
    pickled = pickle.loads(pickle.dumps(kernel))

    assert from_file.device is None
    assert (pickled.device, copy.copy(kernel)) == (0, kernel)
    for on_gpu in (pickled, from_file.to_device(0)):
        y = Interface(np.zeros((3, 24), np.float32))
        on_gpu.launch(Interface(values), out=y, bias=Interface(bias))
        assert_close(y, expected_of(values, bias))


def test_bundles_have_kernels_of_gpus(rng, tmp_path):
    a, x = matrix(), floats(rng, 3, 40)
    path = tmp_path / "model.spjit"
    with spjit.BundleWriter(path) as bundle:
        bundle.add("fc", spjit.compile(a))
        bundle.add("fc", spjit.compile(a, target=TARGET))
    bundle = spjit.Bundle(path)
    y = Interface(np.zeros((3, 24), np.float32))

    bundle.load("fc", target=TARGET).to_device(1 - 1).launch(Interface(x), out=y)

    np.testing.assert_array_equal(y.numpy(), bundle["fc"](x))


def test_reference_is_that_of_other_tests(rng, weights):
    x = floats(rng, 4, 40)
    y = Interface(np.zeros((4, 48), np.float32))

    loaded(weights).launch(Interface(x), out=y)

    assert_close(y, expected(weights, x))
