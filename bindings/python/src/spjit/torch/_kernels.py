"""Kernels of this process by what they compute, and which weights they were made of."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import os
import threading
import time
import warnings
import weakref
from dataclasses import dataclass
from typing import Any, NamedTuple, Union

import torch
from torch import Tensor

from .._activation import Activation
from .._compiler import Compiler
from .._convolution import Conv2d
from .._errors import SpjitError
from .._kernel import Kernel
from .._library import library
from .._problem import Problem
from .._recurrent import Recurrent
from .._report import why_too_dense
from .._transposed import filters_first
from ._convolutions import Geometry, is_product
from ._places import TYPES, Place, check_not_capturing, target_of
from ._released import BitmaskWeight, ReleasedParameter, dense_of
from ._sizes import kernel_size
from ._threads import parallel_for
from ._transposed import TransposedGeometry
from ._views import drop_views, views_of


@dataclass(frozen=True)
class LayerKey:
    """What a kernel is made for besides the weights. Its text is an argument of the operator."""

    weights: str  # content_hash()
    tokens: int = 0  # of a Linear: typical
    height: int = 0  # of images of a convolution: typical
    width: int = 0
    channels_last: bool = False  # NHWC
    network_nnz: int = 0  # nonzeros of the network's layers
    batch: int = 0  # sequences of a recurrent layer: typical

    def __str__(self) -> str:
        return (f"{self.weights}/{self.tokens}/{self.height}x{self.width}/"
                f"{'nhwc' if self.channels_last else 'nchw'}/{self.network_nnz}"
                f"{f'/{self.batch}' if self.batch else ''}")

    def with_weights(self, content: str) -> LayerKey:
        return dataclasses.replace(self, weights=content)

    @classmethod
    @functools.lru_cache(maxsize=4096)
    def parse(cls, text: str) -> LayerKey:
        """Raises ValueError."""
        weights, tokens, image, order, network_nnz, *batch = text.split("/")
        height, width = image.split("x")
        return cls(weights, int(tokens), int(height), int(width), order == "nhwc",
                   int(network_nnz), *map(int, batch))


class Step(NamedTuple):
    """A product of a recurrent layer that is for so many sequences alone."""

    batch: int


class Variant(NamedTuple):
    """Kernels of one weight: they differ by these."""

    place: Place
    has_bias: bool
    # The activation of a Linear, or "", also of products of a recurrent layer; or what else.
    computed: Union[str, Geometry, TransposedGeometry, Step]
    any_size: bool = False  # of a convolution on a GPU: for other images than the LayerKey's, too


def content_hash(weight: Tensor) -> str:
    """Of shape, type and values: equal for equal weights in any process. No defence against weights
    that somebody made to collide."""
    if type(weight) is ReleasedParameter:
        return weight.spjit_values.content  # type: ignore[no-any-return]
    values = weight.detach().contiguous().cpu()
    digits = ctypes.create_string_buffer(32)
    library.spjit_python_checksum(values.data_ptr(), values.element_size() * values.numel(), digits)
    text = f"{'x'.join(map(str, weight.shape))}-{digits.raw.decode()}"
    return text if weight.dtype is torch.float32 else f"{text}-{TYPES[weight.dtype]}"


def zeros_of(weight: Tensor) -> float:
    """The part of elements that are 0; 0 of a tensor that cannot count them, as torchao's."""
    try:
        return 1 - int(torch.count_nonzero(weight)) / max(weight.numel(), 1)
    except NotImplementedError:
        return 0.0


@functools.lru_cache(maxsize=64)
def _compiler(place: Place, network_nnz: int) -> Compiler:
    if isinstance(place, int):
        return Compiler(threads=place, network_nnz=network_nnz, _parallel_for=parallel_for())
    return Compiler(target=target_of(place), network_nnz=network_nnz)


def compile_problem(values: Any, problem: Problem, place: Place, network_nnz: int) -> Kernel:
    """Through the cache on disk. Raises SpjitError."""
    return at_place(_compiler(place, network_nnz).compile(values, problem), place)


def at_place(kernel: Kernel, place: Place) -> Kernel:
    """The kernel, loaded where it is used. Raises SpjitError."""
    return kernel if isinstance(place, int) else kernel.to_device(place.index)


def compile_layer(weight: Tensor, key: LayerKey, variant: Variant) -> Kernel:
    """Through the cache on disk. Raises SpjitError."""
    values = weight.detach().contiguous().cpu().float().numpy()
    types = (TYPES[weight.dtype],) * 3
    computed = variant.computed
    if isinstance(computed, str):
        problem = Problem(typical_n=max(key.tokens, 1), bias=variant.has_bias, types=types,
                          **Activation.parse(computed).arguments)
    elif isinstance(computed, Step):
        problem = Problem(computed.batch, bias=variant.has_bias)
    else:
        if isinstance(computed, TransposedGeometry):
            phases = computed.phases(weight)
            values = phases.weights(filters_first(values, computed.groups))
            convolution = phases.convolution(len(weight), key.height, key.width, any_size=True)
        else:
            channels, size = weight.shape[1] * computed.groups, kernel_size(weight)
            values = values.reshape(len(values), -1, *size)
            # Code of a GPU is faster where the image's size is a constant.
            any_size = weight.is_cpu or variant.any_size or is_product(computed, size)
            convolution = Conv2d(channels, key.height, key.width, size, computed.stride,
                                 computed.padding, computed.dilation, computed.groups,
                                 any_size=any_size)
        problem = Problem(convolution=convolution, bias=variant.has_bias, types=types,
                          layout="tokens" if key.channels_last else "features",
                          **Activation.parse(computed.activation).arguments)
    return compile_problem(values, problem, variant.place, key.network_nnz)


class Bound:
    """A weight whose content is known, and its kernels. None: dense is used."""

    __slots__ = ("__weakref__", "content", "dtype", "is_part", "kernels", "memory", "pointer",
                 "recurrent", "shape", "stride", "version", "weight")

    def __init__(self, weight: Tensor, content: str) -> None:
        identity = id(weight)
        self.weight = weakref.ref(weight, lambda _: _bound.pop(identity, None))
        self.version = weight._version
        self.pointer = weight.data_ptr()
        self.shape, self.stride = weight.shape, weight.stride()
        self.dtype = weight.dtype
        self.memory = weight.untyped_storage()  # kept: no later memory of it gets this address
        self.content = content
        self.is_part = False  # what is left of a sparse weight: of as many zeros as there are
        self.kernels: dict[Any, Kernel | None] = {}
        self.recurrent: dict[Any, Recurrent] = {}  # layers whose first weight it is


_bound: dict[int, Bound] = {}  # by id() of the weight
# (hash, key, variant): what weights of equal content share.
_shared: weakref.WeakValueDictionary[Any, Kernel] = weakref.WeakValueDictionary()
_lock = threading.RLock()


def _new_lock() -> None:
    # Another thread of the parent may have held it.
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_new_lock)


def is_current(bound: Bound, weight: Tensor) -> bool:
    """Whether the weight is the one that was bound, unchanged. Changes within `weight.data` are not
    seen: nothing counts them; another `weight.data` is, also a view of the same memory."""
    return (bound.weight() is weight and bound.version == weight._version
            and bound.pointer == weight.data_ptr() and bound.shape == weight.shape
            and bound.stride == weight.stride() and bound.dtype is weight.dtype
            and not weight.is_neg())


def knows(weight: Tensor) -> bool:
    """Whether it, or a part of it, was bound and no change of it was counted since."""
    for tensor in (weight, *views_of(weight)):
        bound = _bound.get(id(tensor))
        if bound is not None and bound.weight() is tensor and bound.version == tensor._version:
            return True
    return False


def forget(weight: Tensor) -> None:
    """Lets go of its kernels, those of its parts, and its memory. They are found again if it is
    used."""
    with _lock:
        for tensor in (weight, *drop_views(weight)):
            bound = _bound.get(id(tensor))
            if bound is not None and bound.weight() is tensor:
                del _bound[id(tensor)]
            for pace in _paces.values():  # torch swaps no tensor that something refers to
                pace.forget(tensor)


def find_bound(weight: Tensor, content: str | None = None) -> Bound | BitmaskWeight:
    """Of the weight as it is now; `content` is its `content_hash`, if that is known. The weight is
    of TYPES_BY_DEVICE, and no inference tensor, which counts no changes. A released weight has its
    kernels itself."""
    if type(weight) is ReleasedParameter:
        return weight.spjit_values  # type: ignore[no-any-return]
    bound = _bound.get(id(weight))
    if bound is None or not is_current(bound, weight):
        with _lock:
            bound = Bound(weight, content or content_hash(weight))
            _bound[id(weight)] = bound
    return bound


def bind_part(weight: Tensor) -> str:
    """Of what is left of a sparse weight, which has kernels whatever its zeros: its content."""
    bound = find_bound(weight)
    assert isinstance(bound, Bound)
    bound.is_part = True
    return bound.content


def _shared_key(bound: Bound | BitmaskWeight, key: LayerKey, variant: Variant) -> tuple[Any, ...]:
    return bound.content, key.tokens, key.height, key.width, key.channels_last, variant


def put_kernel(bound: Bound | BitmaskWeight, key: LayerKey, variant: Variant,
               kernel: Kernel) -> None:
    """From now on it is used for this weight, and for others of its content."""
    with _lock:
        _paces.pop(str(key), None)
        bound.kernels[variant] = kernel
        _shared[_shared_key(bound, key, variant)] = kernel


def kernels_of(weight: Tensor) -> list[Kernel]:
    """Those that it, or parts of it, have so far."""
    found: list[Kernel | None] = []
    for tensor in (weight, *views_of(weight)):
        known = (tensor.spjit_values if isinstance(tensor, ReleasedParameter)
                 else _bound.get(id(tensor)))
        if known is not None:
            found.extend(known.kernels.values())
    return [kernel for kernel in found if kernel is not None]


class _Pace:
    """How often layers of one key are compiled while they are in use: after ten times for each of
    their weights so that it takes at most a tenth of the time, however often weights change."""

    _FREE = 10
    _PART = 0.1

    def __init__(self) -> None:
        self._first = self._begin = self._spent = 0.0
        self._times = 0
        self._weights: dict[int, weakref.ref[Tensor]] = {}  # by id()
        self._has_warned = False

    def _count(self, weight: Tensor) -> int:
        """Weights that it has seen, this one too, and that are still there: one in place of another
        is none more. A recurrent layer has several; layers that were copies had one key."""
        self._weights[id(weight)] = weakref.ref(weight)
        self._weights = {key: one for key, one in self._weights.items() if one() is not None}
        return len(self._weights)

    def forget(self, weight: Tensor) -> None:
        self._weights.pop(id(weight), None)

    def is_too_fast(self, weight: Tensor) -> bool:
        is_free = self._times < self._FREE * self._count(weight)
        if is_free or self._spent <= self._PART * (_clock() - self._first):
            return False
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(_TOO_FAST, stacklevel=2)
        return True

    def __enter__(self) -> None:
        self._begin = _clock()
        if self._times == 0:
            self._first = self._begin

    def __exit__(self, *_: object) -> None:
        self._times += 1
        self._spent += _clock() - self._begin


_clock = time.monotonic
_TOO_FAST = (
    "spjit.torch: weights of sparse layers change so often that compiling takes over a tenth of "
    "the time: meanwhile they run dense; call optimize_ once the weights are trained")
_paces: dict[str, _Pace] = {}  # of layers by their LayerKey


def _has_kernel(weight: Tensor, variant: Variant) -> bool:
    bound = _bound.get(id(weight))
    return bound is not None and is_current(bound, weight) and variant in bound.kernels


def find_kernel(weight: Tensor, text: str, variant: Variant, *,
                always: bool = False) -> Kernel | None:
    """Of this process or the cache, or compiled now, if that is not too often; None: dense is to be
    used, and a warning said why if that was no choice. `text`: of the layer's LayerKey.
    `always`: compiled however often."""
    with _lock:
        if not weight.is_cpu and not _has_kernel(weight, variant):
            check_not_capturing(weight.device, f"a layer {list(weight.shape)}")
        bound = find_bound(weight)
        if variant not in bound.kernels:
            key = LayerKey.parse(text)
            shared = _shared_key(bound, key, variant)
            kernel = _shared.get(shared)
            if kernel is None and bound.kernels:
                kernel = _made(weight, bound, key, variant)  # as for another batch: no weight has changed
            elif kernel is None:
                pace = _paces.setdefault(text, _Pace())
                if not always and pace.is_too_fast(weight):
                    return None  # for now
                with pace:
                    kernel = _made(weight, bound, key, variant)
            if kernel is not None:
                _shared[shared] = kernel
            bound.kernels[variant] = kernel
        return bound.kernels[variant]


def _made(weight: Tensor, bound: Bound | BitmaskWeight, key: LayerKey,
          variant: Variant) -> Kernel | None:
    weight = dense_of(weight)
    is_part = isinstance(bound, Bound) and bound.is_part
    if weight.dim() < 2 or (not is_part and why_too_dense(zeros_of(weight))):
        return None  # a layer may get a vector for a weight
    try:
        return compile_layer(weight, key, variant)
    except SpjitError as error:
        warnings.warn(f"spjit.torch: a layer {list(weight.shape)} stays dense: {error}",
                      stacklevel=2)
        return None
