"""spjit.torch on a GPU, as far as a torch without CUDA shows it: operators, shapes, and calls with
stand-ins of tensors in memory of the emulated driver."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from gpu_testing import Memory, driver, emulated, needs_gpu  # noqa: E402, F401
from spjit import InvalidArgument  # noqa: E402
from spjit.torch import _clock, _kernels, _op, _places, _weights  # noqa: E402
from spjit.torch._kernels import LayerKey, Variant  # noqa: E402
from spjit.torch._op import run_conv1d, run_conv2d, run_linear  # noqa: E402
from spjit.torch._part_op import run_part  # noqa: E402
from torch import nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch_testing import thin_out  # noqa: E402

OPERATORS = ("linear", "conv1d", "conv2d", "linear_part")


class Storage:
    def nbytes(self):
        return 1


class StandIn:
    """What spjit.torch asks of a tensor of a GPU. `of`: with the numbers, on the CPU."""

    is_cpu, is_cuda, requires_grad, _version = False, True, False, 0
    layout = torch.strided

    def __init__(self, of, device=0):
        self.of = of.detach()
        self.device, self.dtype = torch.device("cuda", device), of.dtype
        self.shape = of.shape
        elements = of.untyped_storage().nbytes() // of.itemsize
        self._whole = of.detach().as_strided((elements,), (1,), 0).numpy()
        self._memory = Memory(self._whole, device)
        self._offset = of.storage_offset() * of.itemsize

    def data_ptr(self):
        return self._memory.address + self._offset

    def cpu(self):
        """As the GPU has it."""
        self._memory.read(self._whole)
        return self.of.clone()

    def detach(self):
        return self

    def float(self):
        assert self.dtype is torch.float32
        return self

    def contiguous(self, memory_format=torch.contiguous_format):
        if self.is_contiguous(memory_format=memory_format):
            return self
        return StandIn(self.cpu().contiguous(memory_format=memory_format), self.device.index)

    def is_contiguous(self, **how):
        return self.of.is_contiguous(**how)

    def new_empty(self, *sizes):
        return StandIn(torch.full(sizes, torch.nan), self.device.index)

    def untyped_storage(self):
        return Storage()

    def is_neg(self):
        return False

    is_inference = is_neg

    def stride(self, *of):
        return self.of.stride(*of)

    def numel(self):
        return self.of.numel()

    def dim(self):
        return self.of.dim()

    def unsqueeze(self, dim):
        return self._view(self.of.unsqueeze(dim))

    def squeeze(self, dim):
        return self._view(self.of.squeeze(dim))

    def __getitem__(self, at):
        return self._view(self.of[at])

    def t(self):
        return self._view(self.of.t())

    def __len__(self):
        return len(self.of)

    def _view(self, of):
        view = object.__new__(StandIn)
        vars(view).update(vars(self), of=of, shape=of.shape,
                          _offset=of.storage_offset() * of.itemsize)
        return view

    @classmethod
    def __torch_function__(cls, function, types, given=(), named=None):
        return function(*(one.cpu() if isinstance(one, StandIn) else one for one in given),
                        **(named or {}))


@pytest.fixture
def gpu(emulated, monkeypatch):  # noqa: F811
    """Stand-ins count as tensors, and torch has two GPUs."""
    streams = {device: driver().new_stream(device) for device in (0, 1)}
    monkeypatch.setattr(_op, "PLAIN", (*_op.PLAIN, StandIn))
    monkeypatch.setattr(_places, "_raw_stream", streams.__getitem__)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(_op, "_empty_images", lambda x, shape, order: StandIn(
        torch.full(shape, torch.nan).contiguous(memory_format=order), x.device.index))
    _places.target_of.cache_clear()
    yield streams
    _kernels._bound.clear()
    _kernels._shared.clear()
    _kernels._paces.clear()
    _places.target_of.cache_clear()


def weight_of(*sizes):
    layer = nn.Linear(*sizes[::-1]) if len(sizes) == 2 else nn.Conv2d(sizes[1], sizes[0], sizes[2:])
    return thin_out(layer).weight.detach()


def key_of(tokens=0, height=0, width=0, last=False):
    return str(LayerKey("", tokens, height, width, last))


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_have_kernels_for_cuda(name):
    assert torch._C._dispatch_has_kernel_for_dispatch_key(f"spjit::{name}", "CUDA")


@pytest.mark.parametrize("name", ["conv_transpose1d", "conv_transpose2d"])
def test_other_operators_have_none(name):
    assert torch._C._dispatch_has_kernel_for_dispatch_key(f"spjit::{name}", "CPU")
    assert not torch._C._dispatch_has_kernel_for_dispatch_key(f"spjit::{name}", "CUDA")


def test_shapes_on_cuda_are_known_without_one():
    with FakeTensorMode():
        x, weight = torch.empty(2, 3, 40, device="cuda"), torch.empty(24, 40, device="cuda")
        y = torch.ops.spjit.linear(x, weight, None, "", key_of())
        images = torch.empty(2, 8, 9, 7, device="cuda")
        taps = torch.empty(6, 8, 3, 3, device="cuda")
        z = torch.ops.spjit.conv2d(images, taps, None, [2, 1], [1, 1], [1, 1], 1, "relu", key_of())

    assert (tuple(y.shape), y.device.type) == ((2, 3, 24), "cuda")
    assert (tuple(z.shape), z.device.type) == ((2, 6, 5, 7), "cuda")


@needs_gpu
@pytest.mark.parametrize("tokens", [1, 9, 40])
@pytest.mark.parametrize("activation", ["", "relu"])
def test_linear(gpu, tokens, activation):
    weight, bias, x = weight_of(24, 40), torch.randn(24), torch.randn(1, tokens, 40)

    y = run_linear(StandIn(x), StandIn(weight), StandIn(bias), activation, key_of(tokens))

    reference = _op._dense_linear(x, weight, bias, activation, "")
    assert y.shape == reference.shape
    torch.testing.assert_close(y.cpu(), reference, rtol=1e-4, atol=1e-5)


@needs_gpu
def test_bits_are_those_of_the_cpu(gpu):
    weight, x = weight_of(24, 40), torch.randn(17, 40)

    y = run_linear(StandIn(x), StandIn(weight), None, "", key_of(17))

    assert torch.equal(y.cpu(), run_linear(x, weight, None, "", key_of(17)))


@needs_gpu
def test_kernels_are_found_again_and_are_one_for_each_gpu(gpu):
    weight, x = weight_of(24, 40), torch.randn(17, 40)
    here, there = StandIn(weight, 0), StandIn(weight, 1)

    for of in (here, there, here):
        y = run_linear(StandIn(x, of.device.index), of, None, "", key_of(17))
        torch.testing.assert_close(y.cpu(), x @ weight.t(), rtol=1e-4, atol=1e-5)
        assert y.device == of.device

    kernels = [_kernels._bound[id(of)].kernels for of in (here, there)]
    assert [[kernel.device for kernel in each.values()] for each in kernels] == [[0], [1]]
    assert list(kernels[0]) == [Variant(torch.device("cuda", 0), False, "")]


@needs_gpu
def test_launches_are_in_the_current_stream_and_captured(gpu):
    weight, x = StandIn(weight_of(24, 40)), StandIn(torch.randn(17, 40))
    run_linear(x, weight, None, "", key_of(17))
    y = x.new_empty(17, 24)
    x.new_empty = lambda *sizes: y  # of torch's allocator, which captures know

    driver().enter(0)
    driver().begin_capture(gpu[0])
    assert run_linear(x, weight, None, "", key_of(17)) is y
    graph = driver().end_capture(gpu[0])
    assert y.cpu().isnan().all()
    driver().launch_graph(graph, gpu[0])

    torch.testing.assert_close(y.cpu(), x.cpu() @ weight.cpu().t(), rtol=1e-4, atol=1e-5)


@needs_gpu
def test_nothing_is_compiled_while_a_graph_is_captured(gpu, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)

    with pytest.raises(InvalidArgument, match=r"a layer \[24, 40\] has no kernel for this call on "
                       "cuda:0 yet, and a graph is being captured; expected one such call before"):
        run_linear(StandIn(torch.randn(17, 40)), StandIn(weight_of(24, 40)), None, "", key_of(17))


@needs_gpu
def test_images_of_any_size_are_captured_after_one_call(gpu, monkeypatch):
    weight, x = StandIn(weight_of(12, 8, 3, 3)), torch.randn(2, 8, 5, 4)
    given = ((1, 1), (1, 1), (1, 1), 1, "", key_of(0, 7, 6))
    run_conv2d(StandIn(x), weight, None, *given)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)

    y = run_conv2d(StandIn(x), weight, None, *given)

    torch.testing.assert_close(y.cpu(), torch.conv2d(x, weight.of, padding=1), rtol=1e-4, atol=1e-5)


@needs_gpu
@pytest.mark.parametrize("case", ["x", "bias", "type", "cpu"])
def test_operands_elsewhere_run_dense(gpu, case):
    weight, x, bias = weight_of(24, 40), torch.randn(17, 40), torch.randn(24)
    operands = {
        "x": lambda: (StandIn(x, 1), StandIn(weight), StandIn(bias)),
        "bias": lambda: (StandIn(x), StandIn(weight), StandIn(bias, 1)),
        "type": lambda: [StandIn(each.half()) for each in (x, weight, bias)],
        "cpu": lambda: (StandIn(x), weight, StandIn(bias))}[case]()

    assert run_linear(*operands, "", key_of(17)) is None


@needs_gpu
@pytest.mark.parametrize("transposed", [False, True])
def test_part_of_a_weight(gpu, transposed):
    weight, x = weight_of(40, 24) if transposed else weight_of(24, 40), torch.randn(5, 40)

    y = run_part(StandIn(x), StandIn(weight), None, 4, 20, transposed, "", key_of(5))

    rows = (weight.t() if transposed else weight)[4:20]
    torch.testing.assert_close(y.cpu(), x @ rows.t(), rtol=1e-4, atol=1e-5)


@needs_gpu
@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("size", "padding", "stride"), [((3, 3), (1, 1), (1, 1)),
                                                         ((1, 1), (0, 0), (1, 1)),
                                                         ((3, 2), (0, 1), (2, 1))])
def test_convolution(gpu, order, last, size, padding, stride):
    """`last`: what the kernel was made for."""
    weight, bias = weight_of(12, 8, *size), torch.randn(12)
    x = torch.randn(2, 8, 7, 6).contiguous(memory_format=order)

    y = run_conv2d(StandIn(x), StandIn(weight), StandIn(bias), stride, padding, (1, 1), 1, "relu",
                   key_of(0, 7, 6, last))

    reference = torch.conv2d(x, weight, bias, stride, padding).relu()
    assert y.stride() == reference.stride()
    torch.testing.assert_close(y.cpu(), reference, rtol=1e-4, atol=1e-5)


@needs_gpu
def test_images_of_another_size_have_a_kernel_for_all_sizes(gpu):
    weight = weight_of(12, 8, 3, 3)
    of = StandIn(weight)
    given = ((1, 1), (1, 1), (1, 1), 1, "", key_of(0, 7, 6))

    for height, width in ((7, 6), (9, 5), (4, 4), (7, 6)):
        x = torch.randn(2, 8, height, width)
        y = run_conv2d(StandIn(x), of, None, *given)
        torch.testing.assert_close(y.cpu(), torch.conv2d(x, weight, padding=1), rtol=1e-4,
                                   atol=1e-5)

    kernels = _kernels._bound[id(of)].kernels
    assert [variant.any_size for variant in kernels] == [False, True]
    assert [kernel.convolution.any_size for kernel in kernels.values()] == [False, True]


@needs_gpu
def test_signals(gpu):
    weight, x = weight_of(12, 8, 1, 3)[:, :, 0], torch.randn(2, 8, 9)

    y = run_conv1d(StandIn(x), StandIn(weight), None, (1,), (1,), (1,), 1, "", key_of(0, 1, 9))

    torch.testing.assert_close(y.cpu(), torch.conv1d(x, weight, padding=1), rtol=1e-4, atol=1e-5)


@needs_gpu
@pytest.mark.parametrize(("module", "dtype", "reason"), [
    (nn.Linear(4, 4), torch.float32, ""),
    (nn.Conv2d(4, 4, 3), torch.float32, ""),
    (nn.Linear(4, 4), torch.float16, "its weight is float16; expected float32 on cuda"),
    (nn.LSTM(4, 4), torch.float32, "its weight is in memory of cuda; expected the CPU"),
    (nn.ConvTranspose2d(4, 4, 3), torch.float32,
     "its weight is in memory of cuda; expected the CPU")])
def test_what_has_kernels_on_cuda(gpu, monkeypatch, module, dtype, reason):
    monkeypatch.setattr(_weights, "PLAIN", (*_weights.PLAIN, StandIn))

    assert _weights._why_not_tensor(module, StandIn(torch.ones(4, 4, dtype=dtype)),
                                    "weight") == reason


class Event:
    """Marks of a GPU whose time goes on by a second a mark."""

    count = 0

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self, stream):
        Event.count += 1
        self.at, self.stream = Event.count, stream

    def elapsed_time(self, later):
        return 1e3 * (later.at - self.at)


def test_times_of_a_gpu_are_those_of_events_in_its_stream(monkeypatch):
    waited = []
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda gpu: f"of {gpu}")
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    gpus = [torch.device("cuda", index) for index in (0, 1)]

    clock = _clock._clock(frozenset(gpus[1:]))
    begin, end = clock.now(), clock.now()
    clock.finish()
    of_both = _clock._clock(frozenset(gpus))
    of_both.finish()

    assert (clock.us(begin, end), begin.stream) == (1e6, "of cuda:1")
    assert waited[0] == gpus[1]
    assert set(waited[1:]) == set(gpus)
    assert isinstance(of_both.now(), int)


def test_times_of_the_cpu_are_those_of_its_clock():
    clock = _clock.clock_of(torch.ones(1))

    assert clock is _clock.clock_of_model(nn.Linear(2, 2))
    assert clock.us(1000, 3000) == 2.0
