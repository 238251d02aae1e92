"""spjit.h through ctypes, which lets go of the interpreter's lock during each call."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t
from ctypes import c_uint64, c_void_p
from pathlib import Path
from typing import Any, Union

from ._errors import BY_STATUS, CompileFailed, InternalError, InvalidArgument

PathLike = Union[str, "os.PathLike[str]"]

LIBRARY = str(Path(__file__).parent / "libspjit_python.so")
library = ctypes.CDLL(LIBRARY)


class _Sized(ctypes.Structure):
    """A struct that begins with its size; members that are not named are 0."""

    def __init__(self, **members: Any) -> None:
        super().__init__(ctypes.sizeof(type(self)), **members)


class Csr(_Sized):
    _fields_ = [("struct_size", c_size_t), ("rows", c_int64), ("cols", c_int64), ("nnz", c_int64),
                ("row_ptrs", c_void_p), ("col_idxs", c_void_p), ("values", c_void_p),
                ("row_ptr_type", c_int32), ("col_idx_type", c_int32)]


class _WithLoop(_Sized):
    """A struct with parallel_for and parallel_for_user."""

    parallel_for: int | None
    parallel_for_user: int | None

    def use_loop(self, parallel_for: tuple[int, int] | None) -> None:
        """Addresses of an spjit_parallel_for and of its first argument; None: spjit's own threads.
        """
        self.parallel_for, self.parallel_for_user = parallel_for or (None, None)


class CompilerOptions(_WithLoop):
    _fields_ = [("struct_size", c_size_t), ("target", c_char_p), ("search", c_char_p),
                ("search_budget_ms", c_double), ("family", c_char_p), ("network_nnz", c_int64),
                ("verify", c_char_p), ("cache_directory", c_char_p),
                ("cache_size_limit_bytes", c_int64), ("parallel_for", c_void_p),
                ("parallel_for_user", c_void_p), ("threads", c_int32),
                ("parallel_compiles", c_int32), ("hot", c_int32), ("no_cache", c_int32),
                ("cache_layers", POINTER(c_char_p)), ("cache_layer_count", c_int64),
                ("keep_source", c_int32), ("cache_remote", c_char_p), ("compile", c_char_p)]


class Convolution(_Sized):
    _fields_ = [("struct_size", c_size_t), *((name, c_int64) for name in (
        "channels", "height", "width", "kernel_height", "kernel_width", "stride_height",
        "stride_width", "pad_top", "pad_left", "pad_bottom", "pad_right", "dilation_height",
        "dilation_width", "groups"))]


class Problem(_Sized):
    _fields_ = [("struct_size", c_size_t), ("n", c_int64), ("ldb", c_int64), ("ldc", c_int64),
                ("panel_columns", c_int64), ("runtime_n", c_int32), ("b_layout", c_int32),
                ("c_layout", c_int32), ("has_scale", c_int32), ("has_bias", c_int32),
                ("has_residual", c_int32), ("activation", c_int32), ("clamp_low", c_float),
                ("clamp_high", c_float), ("runtime_values", c_int32),
                ("convolution", POINTER(Convolution)), ("alpha", c_float), ("beta", c_float),
                ("a_type", c_int32), ("b_type", c_int32), ("c_type", c_int32),
                ("accumulate", c_int32), ("eps", c_double), ("quantization", c_int32),
                ("group_columns", c_int64), ("group_scales", POINTER(c_float)),
                ("group_scale_count", c_int64), ("bias_first", c_int32)]


class CompileControl(_Sized):
    _fields_ = [("struct_size", c_size_t), ("cancel", c_void_p), ("timeout_ms", c_double)]


class LoadOptions(_WithLoop):
    _fields_ = [("struct_size", c_size_t), ("parallel_for", c_void_p),
                ("parallel_for_user", c_void_p), ("threads", c_int32), ("any_owner", c_int32)]


class BundleOptions(_Sized):
    _fields_ = [("struct_size", c_size_t), ("public_key", c_char_p), ("any_owner", c_int32)]


class RecurrentLayer(_Sized):
    _fields_ = [("struct_size", c_size_t), ("cell", c_int32), ("direction", c_int32),
                *((name, c_void_p * 2) for name in (
                    "input", "recurrent", "candidate", "projection"))]


# spjit_arguments, packed in one call: a ctypes struct takes microseconds to fill. Its members:
# struct_size, b, ldb, c, ldc, n, b_layout, c_layout, scale, bias, residual, ldr, values, batch,
# b_distance, c_distance, residual_distance, workspace, workspace_bytes, stream, height, width,
# b_scale, b_zero_point, c_scale, c_zero_point.
ARGUMENTS = struct.Struct("@NPqPqqiiPPPqPqqqqPNPqqPi0PPi0P")

# The same of spjit_recurrent_arguments: struct_size, steps, batch, x, x_step, x_batch, y, y_step,
# y_batch, y_direction, lengths, h0, c0, h_n, c_n; of two directions each: input_bias,
# recurrent_bias, candidate_bias.
RECURRENT_ARGUMENTS = struct.Struct("@NqqPqqPqqqPPPPPPPPPPP")

# Of bindings/python/command_line.cpp.
CONVERT_MODEL = ctypes.CFUNCTYPE(c_int, c_char_p, c_char_p, c_void_p, c_size_t)

_OUT = POINTER(c_void_p)
_INTEGER = POINTER(c_int64)
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "spjit_last_error": (c_char_p, []),
    "spjit_last_error_log": (c_char_p, []),
    "spjit_version": (c_char_p, []),
    "spjit_matrix_from_csr": (c_int, [POINTER(Csr), _OUT]),
    "spjit_matrix_from_dense": (c_int, [c_void_p, c_int64, c_int64, _OUT]),
    "spjit_matrix_load": (c_int, [c_char_p, _OUT]),
    "spjit_matrix_destroy": (None, [c_void_p]),
    "spjit_matrix_rows": (c_int64, [c_void_p]),
    "spjit_matrix_cols": (c_int64, [c_void_p]),
    "spjit_matrix_nnz": (c_int64, [c_void_p]),
    "spjit_matrix_quantize": (c_int, [c_void_p, _OUT, c_void_p, POINTER(c_double),
                                      POINTER(c_double)]),
    "spjit_matrix_copy": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "spjit_compiler_create": (c_int, [POINTER(CompilerOptions), _OUT]),
    "spjit_compiler_destroy": (None, [c_void_p]),
    "spjit_compiler_metrics": (c_int, [c_void_p, c_char_p, c_size_t, POINTER(c_size_t)]),
    "spjit_compiler_flush_remote": (c_int, [c_void_p, POINTER(CompileControl), POINTER(c_int32)]),
    "spjit_cancel_create": (c_int, [_OUT]),
    "spjit_cancel_request": (c_int, [c_void_p]),
    "spjit_cancel_destroy": (None, [c_void_p]),
    "spjit_compile": (c_int, [c_void_p, c_void_p, POINTER(Problem), POINTER(CompileControl), _OUT]),
    "spjit_kernel_save": (c_int, [c_void_p, c_char_p]),
    "spjit_kernel_load": (c_int, [c_char_p, POINTER(LoadOptions), _OUT]),
    "spjit_kernel_destroy": (None, [c_void_p]),
    "spjit_bundle_open": (c_int, [c_char_p, POINTER(BundleOptions), _OUT]),
    "spjit_bundle_destroy": (None, [c_void_p]),
    "spjit_bundle_count": (c_int64, [c_void_p]),
    "spjit_bundle_entry_info": (c_int, [c_void_p, c_int64, POINTER(c_char_p)]),
    "spjit_bundle_find": (c_int, [c_void_p, c_void_p, POINTER(Problem), c_char_p, _INTEGER]),
    "spjit_bundle_find_layer": (c_int, [c_void_p, c_char_p, c_char_p, _INTEGER]),
    "spjit_bundle_load": (c_int, [c_void_p, c_int64, POINTER(LoadOptions), _OUT]),
    "spjit_bundle_verify": (c_int, [c_void_p]),
    "spjit_bundle_writer_create": (c_int, [c_char_p, c_char_p, _OUT]),
    "spjit_bundle_writer_add": (c_int, [c_void_p, c_char_p, c_void_p]),
    "spjit_bundle_writer_add_bundle": (c_int, [c_void_p, c_void_p]),
    "spjit_bundle_writer_finish": (c_int, [c_void_p]),
    "spjit_bundle_writer_destroy": (None, [c_void_p]),
    "spjit_kernel_info": (c_int, [c_void_p, POINTER(c_char_p)]),
    "spjit_kernel_prepare_values": (c_int, [c_void_p, c_void_p, c_int64, _OUT]),
    "spjit_kernel_prepare_values_of": (c_int, [c_void_p, c_void_p, _OUT]),
    "spjit_values_destroy": (None, [c_void_p]),
    "spjit_kernel_run": (c_int, [c_void_p, c_char_p]),
    "spjit_kernel_to_device": (c_int, [c_void_p, c_int32, _OUT]),
    "spjit_kernel_launch": (c_int, [c_void_p, c_char_p]),
    "spjit_recurrent_create": (c_int, [POINTER(RecurrentLayer), _OUT]),
    "spjit_recurrent_destroy": (None, [c_void_p]),
    "spjit_recurrent_run": (c_int, [c_void_p, c_char_p]),
    "spjit_python_checksum": (None, [c_void_p, c_size_t, c_char_p]),
    "spjit_python_gpu_create": (c_int, [c_int32, _OUT]),
    "spjit_python_gpu_destroy": (None, [c_void_p]),
    "spjit_python_gpu_of_memory": (c_int, [c_void_p, c_uint64, POINTER(c_int32)]),
    "spjit_python_gpu_order": (c_int, [c_void_p, c_void_p, c_void_p]),
    "spjit_python_interleave": (None, [c_void_p, POINTER(c_int64), POINTER(c_int64), c_void_p,
                                       c_int32, c_void_p]),
    "spjit_python_main": (c_int, [c_int, POINTER(c_char_p), CONVERT_MODEL]),
}
for _name, (_result, _parameters) in _SIGNATURES.items():
    _function = getattr(library, _name)
    _function.restype = _result
    _function.argtypes = _parameters


def check(status: int) -> None:
    """Raises what the last call of this thread, which returned `status`, says."""
    if status == 0:
        return
    message = library.spjit_last_error().decode("utf-8", "replace")
    error = BY_STATUS.get(status, InternalError)
    if error is CompileFailed:
        raise CompileFailed(message, library.spjit_last_error_log().decode("utf-8", "replace"))
    raise error(message)


class Handle:
    """Owns what a function gives through its last parameter."""

    __slots__ = ("_destroy", "pointer")

    pointer: int

    def __init__(self, make: Callable[..., int], destroy: Callable[[int], None],
                 *arguments: Any) -> None:
        self._destroy: Callable[[int], None] | None = None
        result = c_void_p()
        check(make(*arguments, byref(result)))
        self.pointer = result.value or 0
        self._destroy = destroy

    def __reduce__(self) -> Any:
        raise TypeError("what spjit's library holds cannot be copied or pickled: of its objects "
                        "only a Kernel can; make the others anew in each process")

    def __del__(self) -> None:
        destroy = getattr(self, "_destroy", None)  # not there before __init__
        if destroy is not None:
            destroy(self.pointer)
            self._destroy = None


def version() -> str:
    """Of the library, "0.1.0"."""
    text: bytes = library.spjit_version()
    return text.decode()


def path_bytes(path: PathLike) -> bytes:
    encoded = os.fsencode(path)
    if b"\0" in encoded:  # where it would end in C
        raise InvalidArgument(f"the path is {os.fspath(path)!r}; expected one without NUL")
    return encoded
