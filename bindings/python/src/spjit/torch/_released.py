"""Weights whose dense memory was freed: tensors that keep their values without the zeros."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from .._errors import NotSupported

_INTEGERS = {2: torch.int16, 4: torch.int32}  # by bytes of an element
_FREED = "this weight's dense memory was freed by optimize_(release_dense=True)"
_CHANGED = (f"{_FREED}, so it cannot be changed in place: call spjit.torch.restore_(model) before, "
            "and optimize_ again after")
_NO_MEMORY = (f"{_FREED}, so it has no address: weight.clone() has its values; "
              "spjit.torch.restore_(model) brings it back")


class BitmaskWeight:
    """Values of a dense weight of fp32, bf16 or fp16: a bit for each element and the nonzeros, bit
    for bit, and signs of zeros where there are negative ones. Immutable, but for its kernels:
    copies of a weight share it."""

    def __init__(self, weight: Tensor, content: str, kernels: dict[Any, Any]) -> None:
        """`weight` fills its memory, in any order of dimensions. `content`: its hash."""
        self.content = content
        self.kernels = kernels  # by Variant, as those of a Bound
        self.dtype, self.shape, self.stride = weight.dtype, weight.shape, weight.stride()
        raw = _in_memory_order(weight.detach()).view(_INTEGERS[weight.element_size()]).numpy()
        is_nonzero = (raw & np.iinfo(raw.dtype).max) != 0
        self._nonzeros = raw[is_nonzero]
        self._mask = np.packbits(is_nonzero)
        signs = (raw < 0) & ~is_nonzero
        self._signs = np.packbits(signs) if signs.any() else None

    @property
    def nbytes(self) -> int:
        signs = 0 if self._signs is None else self._signs.nbytes
        return int(self._nonzeros.nbytes + self._mask.nbytes + signs)

    def dense(self) -> Tensor:
        """A new tensor, with the bits and the order of dimensions that the weight had."""
        count = self.shape.numel()
        with torch.inference_mode(False), torch.no_grad():
            dense = torch.zeros(count, dtype=_INTEGERS[self.dtype.itemsize], device="cpu")
            raw = dense.numpy()
            raw[_bits(self._mask, count)] = self._nonzeros
            if self._signs is not None:
                raw[_bits(self._signs, count)] = np.iinfo(raw.dtype).min
            return dense.view(self.dtype).as_strided(self.shape, self.stride).detach()

    def __getstate__(self) -> dict[str, Any]:
        """Without kernels: they are found again by the hash."""
        return {**vars(self), "kernels": {}}


def _in_memory_order(weight: Tensor) -> Tensor:
    return weight.as_strided((weight.numel(),), (1,))


def _bits(packed: npt.NDArray[np.uint8], count: int) -> npt.NDArray[np.bool_]:
    return np.unpackbits(packed, count=count).view(np.bool_)


class _Whole:
    """Values of what is a view of a weight."""

    def __init__(self, values: Tensor) -> None:
        self._values = values
        self.dtype, self.shape, self.stride = values.dtype, values.shape, values.stride()

    def dense(self) -> Tensor:
        return self._values


class ReleasedTensor(Tensor):
    """What torch computes of it has the right values. It cannot be written to, nor what is a view
    of it, and has no address."""

    spjit_values: Any  # BitmaskWeight or _Whole

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, values: Any, requires_grad: bool = False) -> Any:
        with torch.inference_mode(False):
            made = Tensor._make_wrapper_subclass(
                cls, values.shape, strides=values.stride, dtype=values.dtype,
                device=torch.device("cpu"), requires_grad=requires_grad)
        if hasattr(torch._C, "_set_throw_on_mutable_data_ptr"):  # what asks torch for an address
            torch._C._set_throw_on_mutable_data_ptr(made)
        made.spjit_values = values
        return made

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        named = kwargs or {}
        if func is torch.ops.aten.detach.default:
            return ReleasedTensor(args[0].spjit_values)
        schema = func._schema
        given = {**dict(zip((argument.name for argument in schema.arguments), args)), **named}
        for argument in schema.arguments:
            if (argument.alias_info is not None and argument.alias_info.is_write
                    and _has_released(given.get(argument.name))):
                raise NotSupported(_CHANGED)
        result = func(*map(_as_dense, args),
                      **{name: _as_dense(one) for name, one in named.items()})
        if any(each.alias_info is not None for each in schema.returns):
            return _as_views(result)
        return result

    def dense(self) -> Tensor:
        """The values, in new memory if it is a weight."""
        return self.spjit_values.dense()  # type: ignore[no-any-return]

    @property
    def data(self) -> Tensor:  # type: ignore[override]
        return self.detach()

    @data.setter
    def data(self, value: Any) -> NoReturn:
        raise NotSupported(_CHANGED)

    def numpy(self, *, force: bool = False) -> npt.NDArray[Any]:
        """A copy that cannot be written to."""
        if self.requires_grad and not force:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use "
                               "tensor.detach().numpy() instead.")
        values: npt.NDArray[Any] = self.dense().numpy()
        values.flags.writeable = False
        return values

    def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]:
        values = self.numpy()
        return values if dtype is None else values.astype(dtype)

    def tolist(self) -> Any:
        return self.dense().tolist()

    def _no_memory(self, *_: Any, **__: Any) -> NoReturn:
        raise NotSupported(_NO_MEMORY)

    data_ptr = untyped_storage = storage = _typed_storage = _no_memory  # type: ignore[assignment]
    share_memory_ = __dlpack__ = __dlpack_device__ = _no_memory  # type: ignore[assignment]

    def _unchanged(self, *_: Any, **__: Any) -> NoReturn:
        raise NotSupported(_CHANGED)

    set_ = resize_ = resize_as_ = _unchanged  # type: ignore[assignment]

    def is_shared(self) -> bool:
        return False

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"{type(self).__name__}({self.dense()!r}, requires_grad={self.requires_grad})"

    __str__ = __repr__

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if id(self) not in memo:
            memo[id(self)] = self._copy()
        return memo[id(self)]  # type: ignore[no-any-return]

    def _copy(self) -> Tensor:
        return self.dense().clone()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """As a plain tensor, which readers need no spjit for."""
        return self.dense().__reduce_ex__(protocol)


class ReleasedParameter(ReleasedTensor, nn.Parameter):
    """The same object as the weight that it was."""

    def _copy(self) -> Tensor:
        made = ReleasedParameter(self.spjit_values, self.requires_grad)
        made.grad = None if self.grad is None else self.grad.clone()
        vars(made).update(attributes_of(self))
        return made  # type: ignore[no-any-return]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _unpickled, (self.spjit_values, self.requires_grad, attributes_of(self))


def _unpickled(values: BitmaskWeight, requires_grad: bool, attributes: dict[str, Any]) -> Tensor:
    made = ReleasedParameter(values, requires_grad)
    vars(made).update(attributes)
    return made  # type: ignore[no-any-return]


def attributes_of(weight: Tensor) -> dict[str, Any]:
    """What users have added to it."""
    return {name: value for name, value in vars(weight).items() if name != "spjit_values"}


def _has_released(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_has_released, value))
    return isinstance(value, ReleasedTensor)


def _as_dense(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_as_dense, value))
    return value.dense() if isinstance(value, ReleasedTensor) else value


def _as_views(result: Any) -> Any:
    if isinstance(result, (list, tuple)):
        return type(result)(map(_as_views, result))
    return ReleasedTensor(_Whole(result)) if isinstance(result, Tensor) else result


def dense_of(weight: Tensor) -> Tensor:
    """The weight, or the values of one whose memory was freed."""
    return weight.dense() if isinstance(weight, ReleasedTensor) else weight


def exchange(weight: Tensor, made: Tensor) -> None:
    """`weight` becomes what `made` is, with its own gradient and attributes. Nothing may have a
    weak reference to it. Raises RuntimeError."""
    made.grad = weight.grad
    vars(made).update(attributes_of(weight))
    torch.utils.swap_tensors(weight, made)  # type: ignore[no-untyped-call]
