"""Compiled kernels."""

from __future__ import annotations

import functools
import json
from ctypes import addressof, byref, c_char_p, c_float
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _arrays
from ._arrays import FEATURES, TOKENS, Dense, Read
from ._checks import scalar, whole
from ._errors import InvalidArgument
from ._fast_call import FastCall, fast_call, nothing_done
from ._gpu import Gpu, stream_of
from ._library import ARGUMENTS, Handle, PathLike, check, library, path_bytes
from ._matrix import matrix_of

FloatArray = npt.NDArray[np.float32]

_run = library.spjit_kernel_run
_launch = library.spjit_kernel_launch
_pack = ARGUMENTS.pack
_SIZE = ARGUMENTS.size


# Numbers of the types that have a scale and a zero point.
_BYTES = {"int8": range(-128, 128), "uint8": range(256)}


def _zero_point(given: int | None, name: str, elements: _arrays.Elements) -> int:
    zero = 0 if given is None else whole(given, name)
    if zero not in _BYTES[elements.name]:
        raise InvalidArgument(f"{name} is {zero}; expected one that {elements.name} has")
    return zero


class PreparedValues:
    """Values of A in the order in which one kernel reads them; `Kernel.prepare_values` makes them.
    Any number of runs may use them at once."""

    __slots__ = ("_handle",)

    def __init__(self, handle: Handle) -> None:
        self._handle = handle


class Kernel:
    """Y = act(scale * (X * A^T) + bias + residual) for one sparse A [out, in]. X and Y are fp32,
    unless the Problem has other types.

    Immutable. Any number of threads may call one kernel at once with different `out`; the
    interpreter's lock is not held meanwhile. `compile` and `load` make kernels. A pickle has the
    kernel itself, as `save` writes it, so worker processes need neither matrix nor cache.
    """

    _token_dims = 1  # of x and y
    is_product = True  # a run says n; of other convolutions height and width

    def __init__(self, handle: Handle, gpu: Gpu | None = None) -> None:
        self._handle = handle
        self._gpu = gpu  # that it is loaded into
        text = c_char_p()
        check(library.spjit_kernel_info(handle.pointer, byref(text)))
        info: dict[str, Any] = json.loads(text.value or b"")
        if "panels" in (info["b_layout"], info["c_layout"]):
            raise InvalidArgument("this kernel was compiled for panels; expected one for tokens or "
                                  "features")
        self._info = info
        self._in: int = info["cols"]
        self._out: int = info["rows"]
        self._n: int | None = None if info["runtime_n"] else info["n"]
        self._tokens_major = info["b_layout"] == "tokens"
        # Of what is no plain product: the member of the info.
        self.convolution_sizes: dict[str, Any] | None = info["convolution"]
        self._takes_values: bool = info["runtime_values"]
        numerics = info["numerics"]
        self._of_x = _arrays.ELEMENTS[numerics["b"]]
        self._of_y = _arrays.ELEMENTS[numerics["c"]]
        self._takes_quantized: bool = numerics.get("quantize") == "given"
        epilogue = info["epilogue"]
        self._has: tuple[bool, bool, bool] = (epilogue["scale"], epilogue["bias"],
                                              epilogue["residual"])
        self._is_for_gpu = info["cuda"] is not None
        layout = TOKENS if self._tokens_major else FEATURES
        self._only_layout = layout if self._is_for_gpu else None
        is_simple = self._token_dims == 1 and not self._is_for_gpu
        self._fast_call: FastCall = fast_call(self) if is_simple else nothing_done

    @property
    def info(self) -> dict[str, Any]:
        """What is known about the kernel (include/spjit.h lists the members)."""
        return json.loads(json.dumps(self._info))  # type: ignore[no-any-return]

    @property
    def in_features(self) -> int:
        """k: columns of A."""
        return self._in

    @property
    def out_features(self) -> int:
        """m: rows of A."""
        return self._out

    @property
    def n(self) -> int | None:
        """Tokens it was compiled for; None: any number."""
        return self._n

    @property
    def layout(self) -> str:
        """"tokens" or "features": the order of the last two dimensions of x and y."""
        return "tokens" if self._tokens_major else "features"

    @property
    def device(self) -> int | None:
        """The GPU that it is loaded into (`to_device`); None for none."""
        return None if self._gpu is None else self._gpu.ordinal

    def _where(self) -> str:
        return "" if self._gpu is None else f" on GPU {self._gpu.ordinal}"

    def __repr__(self) -> str:
        n = "any" if self._n is None else self._n
        return (f"<spjit.Kernel {self._info['family']} [{self._out}, {self._in}] n={n} "
                f"layout={self.layout}{self._where()}>")

    def to_device(self, ordinal: int = 0) -> Kernel:
        """The kernel, which was compiled for a GPU, loaded into one of this machine: all of it, so
        that launches load and allocate nothing. This one stays as it is.

        Raises InvalidArgument for a kernel for the CPU and a GPU that is not there, NotSupported
        without a driver and for a GPU of another architecture, DeviceError.
        """
        if not self._is_for_gpu:
            raise InvalidArgument(f"this kernel is for {self._info['target']}; expected one for a "
                                  'GPU, as compile(a, target="sm_90") makes')
        number = whole(ordinal, "ordinal", "the number of a GPU")
        gpu = Gpu(number)
        return self._on(Handle(library.spjit_kernel_to_device, library.spjit_kernel_destroy,
                               self._handle.pointer, number), gpu)

    def _on(self, handle: Handle, gpu: Gpu) -> Kernel:
        return Kernel(handle, gpu)

    def _loaded_into(self) -> Gpu:
        if self._gpu is not None:
            return self._gpu
        target = self._info["target"]
        if self._is_for_gpu:
            raise InvalidArgument(f"this kernel for {target} is in no GPU; expected what "
                                  "to_device(0) gives")
        raise InvalidArgument(f"this kernel is for {target}, not a GPU; expected a call: kernel(x)")

    def __copy__(self) -> Kernel:
        return self  # immutable

    def __deepcopy__(self, memo: Any) -> Kernel:
        return self

    def save(self, folder: PathLike) -> None:
        """Writes the kernel to a folder, which is made if need be; `load` reads it. Whoever can
        write to the folder can run code as those who load it. Raises IoError."""
        check(library.spjit_kernel_save(self._handle.pointer, path_bytes(folder)))

    def prepare_values(self, values: Any) -> PreparedValues:
        """A's values for calls of this kernel, which was compiled with `runtime_values=True`.

        values: [nnz], fp32, in the order of A's CSR with ascending columns. Or a scipy.sparse
            matrix of A's pattern, whose values are rounded. For a convolution with groups it has
            the channels of a group or of all. Copied.

        Raises InvalidArgument for another number of values and another pattern, InvalidMatrix for
        a value beyond fp32 and for what is no matrix.
        """
        if self._is_for_gpu:
            self._loaded_into()
        if hasattr(values, "tocsr"):
            matrix = matrix_of(values)
            return PreparedValues(Handle(library.spjit_kernel_prepare_values_of,
                                         library.spjit_values_destroy, self._handle.pointer,
                                         matrix.pointer))
        nnz = self._info["nnz"]
        memory = _arrays.vector(values, "values", nnz)
        return PreparedValues(Handle(library.spjit_kernel_prepare_values,
                                     library.spjit_values_destroy, self._handle.pointer,
                                     memory[0], nnz))

    def __call__(self, x: Any, *, bias: Any = None, scale: Any = None, residual: Any = None,
                 values: PreparedValues | None = None, x_scale: Any = None,
                 x_zero_point: int | None = None, y_scale: Any = None,
                 y_zero_point: int | None = None, out: Any = None) -> Any:
        """Y for X, which may be numpy arrays or arrays with DLPack in memory of the CPU.

        x: [..., tokens, in] for layout "tokens", also [in] for one token; [..., in, n] for
            "features". Of the kernel's type of x: fp32, or what Problem.types say; bfloat16 is that
            of ml_dtypes or of DLPack. x is neither copied nor changed. One of its last two
            dimensions has stride 1, the other any positive one; all others are evenly spaced.
        bias, scale: [out], fp32, contiguous. Given exactly if the kernel was compiled with them.
        residual: as y, of its type, strided as x may be; may be `out` itself. Given exactly if the
            kernel was compiled with one.
        values: of `prepare_values`, for a kernel of run-time values.
        x_scale, x_zero_point: of a kernel with quantize="given": x stands for x_scale *
            (x - x_zero_point). x_scale is a number, or an array of one, and is rounded to fp32.
            x_zero_point is a whole number that x's type has, 0 by default.
        y_scale, y_zero_point: of a kernel whose y is of i8 or u8, which stands for y_scale *
            (y - y_zero_point): y is what ONNX's QuantizeLinear makes of the result. y_scale is a
            finite number above 0, 1 by default, y_zero_point as x_zero_point.
        out: where y goes, strided as x may be; must not overlap x. Default: a new numpy array.

        Returns out, or y: [..., tokens, out] or [..., out, n].

        Raises TypeError for another type than the kernel's and what is no array. Raises
        InvalidArgument for other shapes and strides, with what to do, and for a kernel for a GPU.
        Raises OutOfMemory.
        """
        if (values is None and x_scale is None and x_zero_point is None and y_scale is None
                and y_zero_point is None):
            y = self._fast_call(x, out, bias, scale, residual)
            if y is not None:
                return y
        if self._is_for_gpu:
            raise InvalidArgument(f"this kernel is for {self._info['target']}; expected launch() "
                                  "with arrays of a GPU, of what to_device(0) gives")
        quantized = (*self._quantized(x_scale, x_zero_point),
                     *self._requantized(y_scale, y_zero_point))
        return self._checked_call((x, bias, scale, residual), values, quantized, out)

    def launch(self, x: Any, *, out: Any, bias: Any = None, scale: Any = None,
               residual: Any = None, values: PreparedValues | None = None,
               stream: Any = None) -> Any:
        """Puts Y for X into a stream of the GPU that the kernel is loaded into, and returns at
        once. Arrays are those of a call, and in memory of that GPU, by DLPack or the CUDA Array
        Interface: of torch, CuPy, JAX, Numba.

        x, bias, scale, residual, values: as a call has them. `values` are those that
            `prepare_values` of this kernel gave.
        out: where y goes.
        stream: a stream of that GPU: its handle as a number, or an object of torch, CuPy or CUDA
            Python; None: the default stream. It waits for the streams in which the arrays were
            written, as far as they say so. Other streams have to wait for it.

        Arrays have to stay until the stream has come past the launch. Nothing is loaded or
        allocated, and nothing waits: a graph may capture the stream, where arrays name no other.

        Returns out. Raises as a call does, and InvalidArgument for a kernel that is in no GPU and
        for memory of another one, TypeError for memory of the host, DeviceError.
        """
        gpu = self._loaded_into()
        if out is None:
            raise InvalidArgument(f"out is None; expected an array in memory of GPU {gpu.ordinal} "
                                  "for y: launch() allocates nothing")
        handle = stream_of(stream)
        return self._checked_call((x, bias, scale, residual), values, (None, 0, None, 0), out,
                                  functools.partial(gpu.dense, stream=handle), _launch, handle)

    def _checked_call(self, operands: tuple[Any, Any, Any, Any], values: PreparedValues | None,
                      quantized: tuple[c_float | None, int, c_float | None, int], out: Any,
                      read: Read = _arrays.dense, run: Any = _run, stream: int = 0) -> Any:
        """A call with any arrays, which says what is wrong. `operands`: x, bias, scale, residual.
        """
        x, bias, scale, residual = operands
        x_scale, x_zero_point, y_scale, y_zero_point = quantized
        of_x, of_y = self._of_x, self._of_y
        given = read(x, "x", of_x)
        shape = self._result_shape(given[1])
        if out is None:
            out = np.empty(shape, of_y.dtype or of_y.dtype_like(x))
            result = read(out, "out", of_y)
        else:
            result = self._of_shape(out, "out", of_y, shape, read, writable=True)
        factors = summands = added = None
        has_scale, has_bias, has_residual = self._has
        if has_scale or scale is not None:
            factors = self._vector(scale, "scale", has_scale, read)
        if has_bias or bias is not None:
            summands = self._vector(bias, "bias", has_bias, read)
        if has_residual or residual is not None:
            self._check_given(residual, "residual", has_residual)
            added = self._of_shape(residual, "residual", of_y, shape, read)
        if self._takes_values or values is not None:
            self._check_values(values)
        if 0 in shape:
            return out
        place = _arrays.placement((
            self._token_dims, self._tokens_major, self._n is None, given[1], given[2], shape,
            result[2], None if added is None else added[2], of_x.size, of_y.size,
            self._only_layout))
        if place is None:
            raise self._not_placed(given, result, added)
        n, batch, (x_layout, ldb, b_distance), (y_layout, ldc, c_distance), placed = place
        _, ldr, r_distance = placed
        n, height, width = self._sizes_of_run(n, given[1])
        arguments = _pack(
            _SIZE, given[0], ldb, result[0], ldc, n, x_layout, y_layout,
            0 if factors is None else factors[0], 0 if summands is None else summands[0],
            0 if added is None else added[0], ldr, 0 if values is None else values._handle.pointer,
            batch, b_distance, c_distance, r_distance, 0, 0, stream, height, width,
            0 if x_scale is None else addressof(x_scale), x_zero_point,
            0 if y_scale is None else addressof(y_scale), y_zero_point)
        status = run(self._handle.pointer, arguments)
        if status:
            check(status)
        return out

    def _result_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        tokens_major = self._tokens_major
        if tokens_major:
            fits = len(shape) >= 1 and shape[-1] == self._in
            n = shape[-2] if len(shape) >= 2 else 1
        else:
            fits = len(shape) >= 2 and shape[-2] == self._in
            n = shape[-1] if fits else 0
        if not fits or (self._n is not None and n != self._n):
            columns = "n" if self._n is None else self._n
            expected = (f"[..., {'tokens' if self._n is None else self._n}, {self._in}]"
                        if tokens_major else f"[..., {self._in}, {columns}]")
            raise InvalidArgument(f"x has the shape {list(shape)}; expected {expected}")
        if tokens_major:
            return (*shape[:-1], self._out)
        return (*shape[:-2], self._out, n)

    def _sizes_of_run(self, n: int, x_shape: tuple[int, ...]) -> tuple[int, int, int]:
        """n, height and width as spjit_arguments has them."""
        return n, 0, 0

    @staticmethod
    def _of_shape(array: Any, name: str, elements: _arrays.Elements, shape: tuple[int, ...],
                  read: Read, writable: bool = False) -> Dense:
        memory = read(array, name, elements, writable=writable)
        if memory[1] != shape:
            raise InvalidArgument(f"{name} has the shape {list(memory[1])}; expected {list(shape)}")
        return memory

    def _vector(self, array: Any, name: str, is_expected: bool, read: Read) -> Dense:
        self._check_given(array, name, is_expected)
        return _arrays.vector(array, name, self._out, read)

    @staticmethod
    def _check_given(array: Any, name: str, is_expected: bool) -> None:
        if (array is None) != is_expected:
            return
        raise InvalidArgument(f"{name} is missing; this kernel was compiled with {name}=True"
                              if is_expected else
                              f"{name} is given; this kernel was compiled without")

    def _quantized(self, scale: Any, zero_point: int | None) -> tuple[c_float | None, int]:
        """The scale and the zero point of x."""
        if not self._takes_quantized:
            self._check_given(scale, "x_scale", False)
            self._check_given(zero_point, "x_zero_point", False)
            return None, 0
        if scale is None:
            raise InvalidArgument('x_scale is missing; this kernel was compiled with '
                                  'quantize="given"')
        return c_float(scalar(scale, "x_scale")), _zero_point(zero_point, "x_zero_point",
                                                              self._of_x)

    def _requantized(self, scale: Any, zero_point: int | None) -> tuple[c_float | None, int]:
        """The scale and the zero point of y."""
        if self._of_y.name not in _BYTES:
            for name, given in (("y_scale", scale), ("y_zero_point", zero_point)):
                if given is not None:
                    raise InvalidArgument(f"{name} is given; y of this kernel is {self._of_y.name},"
                                          " and only one of int8 or uint8 has it")
            return None, 0
        factor = None if scale is None else c_float(scalar(scale, "y_scale"))
        return factor, _zero_point(zero_point, "y_zero_point", self._of_y)

    def _check_values(self, values: PreparedValues | None) -> None:
        if not self._takes_values:
            self._check_given(values, "values", False)
        elif not isinstance(values, PreparedValues):
            raise InvalidArgument("values is missing; this kernel was compiled with "
                                  "runtime_values=True: pass what prepare_values() gave")

    def _not_placed(self, x: Dense, y: Dense, residual: Dense | None) -> InvalidArgument:
        operands = [("x", x), ("out", y)] + ([] if residual is None else [("residual", residual)])
        what = "; ".join(
            f"{name} has the strides {list(strides)} (bytes) for the shape {list(shape)}"
            for name, (_, shape, strides, _) in operands)
        if self._is_for_gpu:
            return InvalidArgument(f"{what}; expected {self._sizes()} in the last dimension, a "
                                   f"positive multiple of it in the other {self._token_dims} and "
                                   "even ones in the rest: a contiguous copy has them")
        return InvalidArgument(
            f"{what}; expected {self._sizes()} in one of the last {1 + self._token_dims} dimensions "
            "(of out and residual the same), a positive multiple of it in the other and even ones in "
            "the rest: numpy.ascontiguousarray() makes a copy that has them")

    def _sizes(self) -> str:
        of_x, of_y = self._of_x.size, self._of_y.size
        return str(of_x) if of_x == of_y else f"{of_x} (of x) and {of_y}"
