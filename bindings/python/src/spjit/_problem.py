"""What a kernel computes."""

from __future__ import annotations

import math
from ctypes import POINTER, c_float, pointer
from dataclasses import dataclass
from typing import Any, Optional

from . import _library
from ._activation import LARGEST, PARAMETERS
from ._checks import flag, number, whole
from ._convolution import Conv2d
from ._errors import InvalidArgument
from ._fields import whole_or_made
from ._group_scales import GroupScales

_CLAMP = 5
_ACTIVATIONS = {None: 0, "none": 0, "relu": 1, "gelu": 2, "gelu-tanh": 3, "silu": 4,
                "hard-swish": 6, "leaky-relu": 7, "hard-sigmoid": 8, "sigmoid": 9, "tanh": 10}
_LAYOUTS = {"features": 1, "tokens": 2}
_TYPES = {"f32": 0, "bf16": 1, "f16": 2, "i32": 3, "i8": 4, "u8": 5, "i4": 6}
_PROMISES = {"ordered": 0, "tensor": 1, "integer": 3}
_BOUNDED = 2
_QUANTIZATIONS = {None: 0, "none": 0, "given": 1, "tensor": 2, "token": 3}
_WITH_CALLS = ": each call brings its numbers"
_WITH_VALUES = ": each call brings what prepare_values() gave"


def _named(value: Any, name: str, known: dict[Any, int]) -> int:
    if (value is None or isinstance(value, str)) and value in known:
        return known[value]
    raise InvalidArgument(f"{name} is {value!r}; expected one of "
                          + ", ".join(repr(key) for key in known))


@dataclass(frozen=True)
class Problem:
    """What a kernel computes of A [out, in] and x: act(scale * (x * A^T) + bias + residual).

    n: tokens of a call; None: any number.
    typical_n: tokens, where n is None: what choices are made for.
    layout: "tokens": x [..., tokens, in], y [..., tokens, out]; "features": x [..., in, n],
        y [..., out, n].
    activation: "relu", "gelu", "gelu-tanh", "silu", "hard-swish", "leaky-relu", "hard-sigmoid",
        "sigmoid" or "tanh".
    clamp: in place of an activation: y is kept within (low, high).
    alpha, beta: of "leaky-relu" (alpha * y where y < 0; None: 0.01) and of "hard-sigmoid"
        (min(max(alpha * y + beta, 0), 1); None: PyTorch's 1/6 and 0.5, ONNX's alpha is 0.2).
    bias, scale, residual: calls have a summand for each row of A [out], a factor for each row
        [out], a summand for each element of y.
    bias_first: with scale and bias: act(scale * (x * A^T + bias) + residual).
    runtime_values: calls bring A's values (Kernel.prepare_values).
    convolution: A is the weights [filters, channels / groups * kernel height * kernel width] of
        this convolution, as a numpy array also with 4 dimensions; the kernel is a Conv2dKernel.
        `n` is None and `typical_n` not used: sizes are those of the convolution.
    types: of A, x and y: "f32", "bf16", "f16", "i32", "i8", "u8", and of A also "i4". A's values
        must be exact in its type. bias and scale are float32, residual is of y's type. A y of "i8"
        or "u8" has a scale and a zero point, which calls bring (y_scale, y_zero_point).
        docs/use/api.md says which types are fast: with "ordered" x and y of "bf16" and "f16", too.
    accumulate: the promise on sums: "ordered" (fp32, the same bits everywhere), "integer" (exact) or
        "bounded:EPS" (at most EPS * sum |a x| off). docs/use/api.md says which types each takes.
    quantize: how x becomes the bytes q of "integer" sums, with y = act(sum of a * (q - z) times
        (s * scale) + bias + residual): "tensor" (x of f32: u8 as ONNX's DynamicQuantizeLinear, over
        all of x), "token" (x of f32: symmetric i8, s = max |x| / 127 of each token), "given" (x of
        i8 or u8 is q, and calls bring s and z as x_scale and x_zero_point).
    group_scales: of A of "i8" or "i4": its values are integers, and weights those times the scale of
        their row and group of columns. Sums of a group are "ordered", or "integer" with x of bytes
        or quantised.

    Raises InvalidArgument for a value that a field does not take.
    """

    n: Optional[int] = None
    typical_n: int = 64
    layout: str = "tokens"
    activation: Optional[str] = None
    clamp: Optional[tuple[float, float]] = None
    alpha: Optional[float] = None
    beta: Optional[float] = None
    bias: bool = False
    scale: bool = False
    residual: bool = False
    runtime_values: bool = False
    convolution: Optional[Conv2d] = None
    types: tuple[str, str, str] = ("f32", "f32", "f32")
    accumulate: str = "ordered"
    quantize: Optional[str] = None
    group_scales: Optional[GroupScales] = None
    bias_first: bool = False

    def __post_init__(self) -> None:
        self.as_struct()

    @classmethod
    def of(cls, given: Problem | int | None, fields: dict[str, Any]) -> Problem:
        """Of the parameters of Compiler.compile."""
        if given is None or isinstance(given, cls):
            return whole_or_made(cls, given, fields)
        return cls(given, **fields)  # type: ignore[arg-type]  # which n is checked to be

    def as_struct(self) -> _library.Problem:
        """spjit_problem."""
        if self.clamp is not None and self.activation is not None:
            raise InvalidArgument(f"clamp and activation={self.activation!r} are given; expected "
                                  "one")
        low, high = (0.0, 0.0) if self.clamp is None else self._bounds()
        function = (_CLAMP if self.clamp is not None else
                    _named(self.activation, "activation", _ACTIVATIONS))
        alpha, beta = self._parameter("alpha"), self._parameter("beta")
        place = _named(self.layout, "layout", _LAYOUTS)
        self._check_convolution()
        problem = _library.Problem(
            n=self._typical_n() if self.n is None else whole(self.n, "n"),
            runtime_n=int(self.n is None), b_layout=place, c_layout=place,
            has_scale=flag(self.scale, "scale", _WITH_CALLS),
            has_bias=flag(self.bias, "bias", _WITH_CALLS),
            has_residual=flag(self.residual, "residual", _WITH_CALLS),
            bias_first=flag(self.bias_first, "bias_first"), activation=function,
            clamp_low=low, clamp_high=high, alpha=alpha, beta=beta,
            runtime_values=flag(self.runtime_values, "runtime_values", _WITH_VALUES))
        if self.convolution is not None:
            problem.convolution = pointer(self.convolution.as_struct())
            problem.n, problem.runtime_n = 0, int(self.convolution.any_size)
        self._set_numerics(problem)
        self._set_group_scales(problem)
        return problem

    def _set_group_scales(self, problem: _library.Problem) -> None:
        if self.group_scales is None:
            return
        if not isinstance(self.group_scales, GroupScales):
            raise InvalidArgument(f"group_scales is {self.group_scales!r}; expected an "
                                  "spjit.GroupScales")
        values = self.group_scales.values
        problem.group_columns = self.group_scales.columns
        problem.group_scales = values.ctypes.data_as(POINTER(c_float))  # which keeps them
        problem.group_scale_count = values.size

    def _typical_n(self) -> int:
        given = whole(self.typical_n, "typical_n")
        if not 1 <= given < 2**31:  # of which the library would speak as n
            raise InvalidArgument(f"typical_n is {given}; expected 1 to 2147483647")
        return given

    def _set_numerics(self, problem: _library.Problem) -> None:
        if not isinstance(self.types, (tuple, list)) or len(self.types) != 3:
            raise InvalidArgument(f"types is {self.types!r}; expected three, of A, x and y, as "
                                  '("bf16", "bf16", "f32")')
        problem.a_type, problem.b_type, problem.c_type = (
            _named(each, "a type", _TYPES) for each in self.types)
        problem.quantization = _named(self.quantize, "quantize", _QUANTIZATIONS)
        promise = str(self.accumulate)
        if promise in _PROMISES:
            problem.accumulate = _PROMISES[promise]
            return
        name, _, eps = promise.partition(":")
        try:
            problem.accumulate, problem.eps = _BOUNDED, float(eps)
        except ValueError:
            name = ""
        if name != "bounded" or not 0 < problem.eps < 1:
            raise InvalidArgument(f"accumulate is {self.accumulate!r}; expected 'ordered', "
                                  "'tensor', 'integer' or 'bounded:EPS' with EPS above 0 and below "
                                  "1, as 'bounded:1e-3'")

    def _bounds(self) -> tuple[float, float]:
        try:
            low, high = self.clamp  # type: ignore[misc]
            return float(low), float(high)
        except (TypeError, ValueError):
            raise InvalidArgument(f"clamp is {self.clamp!r}; expected (low, high)") from None

    def _parameter(self, name: str) -> float:
        """alpha or beta; 0 for what the activation does not have."""
        value = getattr(self, name)
        default = PARAMETERS.get(self.activation or "", {}).get(name)
        if value is None:
            return default or 0.0
        if default is None:
            having = [repr(activation) for activation, line in PARAMETERS.items() if name in line]
            raise InvalidArgument(f"{name}={value!r} and activation={self.activation!r} are given; "
                                  f"expected {name} with {' or '.join(having)} alone")
        given = number(value, name)
        if abs(given) > LARGEST and given not in (math.inf, -math.inf):  # fp32 would make it those
            raise InvalidArgument(f"{name} is {value!r}; expected a number that fp32 has, from "
                                  f"{-LARGEST:.9g} to {LARGEST:.9g}")
        return given

    def _check_convolution(self) -> None:
        if self.convolution is None:
            return
        if not isinstance(self.convolution, Conv2d):
            raise InvalidArgument(f"convolution is {self.convolution!r}; expected an spjit.Conv2d")
        if self.n is not None:
            raise InvalidArgument(f"n={self.n} and a convolution are given; its sizes say n")
