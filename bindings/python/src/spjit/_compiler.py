"""From a matrix to a kernel."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from ctypes import byref, c_char_p, pointer
from typing import Any, TypeVar

from ._convolution import Conv2d, Conv2dKernel
from ._errors import InvalidArgument
from ._kernel import Kernel
from ._library import CompileControl, CompilerOptions, Handle, PathLike, Problem, check, library
from ._library import path_bytes
from ._matrix import matrix_of
from ._options import flag, number, seconds, text, thread_count, whole

_CLAMP = 5
_ACTIVATIONS = {None: 0, "none": 0, "relu": 1, "gelu": 2, "gelu-tanh": 3, "silu": 4,
                "hard-swish": 6, "leaky-relu": 7, "hard-sigmoid": 8, "sigmoid": 9, "tanh": 10}
# alpha and beta by default; None: it has none.
_LINES: dict[str | None, tuple[float | None, float | None]] = {
    "leaky-relu": (0.01, None), "hard-sigmoid": (1 / 6, 0.5)}
_LAYOUTS = {"features": 1, "tokens": 2}
_WITH_CALLS = ": each call brings its numbers"
_WITH_VALUES = ": each call brings what prepare_values() gave"

_Result = TypeVar("_Result")


def _named(value: Any, name: str, known: dict[Any, int]) -> int:
    if (value is None or isinstance(value, str)) and value in known:
        return known[value]
    raise InvalidArgument(f"{name} is {value!r}; expected one of "
                          + ", ".join(repr(key) for key in known))


def _line(activation: str | None, alpha: float | None, beta: float | None) -> tuple[float, float]:
    """alpha and beta of an activation, 0 for what it does not have."""
    defaults = _LINES.get(activation, (None, None))
    found = []
    for index, (name, value) in enumerate((("alpha", alpha), ("beta", beta))):
        default = defaults[index]
        if value is not None and default is None:
            having = [repr(key) for key, line in _LINES.items() if line[index] is not None]
            raise InvalidArgument(f"{name}={value!r} and activation={activation!r} are given; "
                                  f"expected {name} with {' or '.join(having)} alone")
        found.append((default or 0.0) if value is None else number(value, name))
    return found[0], found[1]


def _bounds(clamp: Any) -> tuple[float, float]:
    try:
        low, high = clamp
        return float(low), float(high)
    except (TypeError, ValueError):
        raise InvalidArgument(f"clamp is {clamp!r}; expected (low, high)") from None


def _milliseconds(value: float | None, name: str) -> float:
    return 0.0 if value is None else 1e3 * seconds(value, name)


def make_problem(n: int | None, *, typical_n: int = 64, layout: str = "tokens",
                 activation: str | None = None, clamp: tuple[float, float] | None = None,
                 alpha: float | None = None, beta: float | None = None, bias: bool = False,
                 scale: bool = False, residual: bool = False, runtime_values: bool = False,
                 convolution: Conv2d | None = None) -> Problem:
    """Parameters as Compiler.compile has them. Raises InvalidArgument."""
    if clamp is not None and activation is not None:
        raise InvalidArgument(f"clamp and activation={activation!r} are given; expected one")
    low, high = (0.0, 0.0) if clamp is None else _bounds(clamp)
    function = _CLAMP if clamp is not None else _named(activation, "activation", _ACTIVATIONS)
    alpha, beta = _line(activation, alpha, beta)
    place = _named(layout, "layout", _LAYOUTS)
    if convolution is not None and not isinstance(convolution, Conv2d):
        raise InvalidArgument(f"convolution is {convolution!r}; expected an spjit.Conv2d")
    if convolution is not None and n is not None:
        raise InvalidArgument(f"n={n} and a convolution are given; its sizes say n")
    problem = Problem(
        n=whole(typical_n, "typical_n") if n is None else whole(n, "n"), runtime_n=int(n is None),
        b_layout=place, c_layout=place, has_scale=flag(scale, "scale", _WITH_CALLS),
        has_bias=flag(bias, "bias", _WITH_CALLS),
        has_residual=flag(residual, "residual", _WITH_CALLS), activation=function, clamp_low=low,
        clamp_high=high, runtime_values=flag(runtime_values, "runtime_values", _WITH_VALUES),
        alpha=alpha, beta=beta)
    if convolution is not None:
        problem.convolution = pointer(convolution.as_struct())
        problem.n, problem.runtime_n = 0, int(convolution.any_size)
    return problem


def interruptible(call: Callable[[], _Result], cancel: Callable[[], None]) -> _Result:
    """The result of `call`. In the main thread, which alone sees Ctrl-C, it runs beside that."""
    if threading.current_thread() is not threading.main_thread():
        return call()
    done = threading.Lock()
    done.acquire()
    outcome: list[Any] = [None, None]

    def work() -> None:
        try:
            outcome[0] = call()
        except BaseException as error:  # raised again below
            outcome[1] = error
        finally:
            done.release()

    thread = threading.Thread(target=work, name="spjit-compile", daemon=True)
    try:
        thread.start()
        done.acquire()
    except BaseException:
        cancel()
        if not thread.is_alive():  # It came within start(): the thread runs in a moment, or never.
            done.acquire(timeout=1)
        if thread.is_alive():
            thread.join()
        raise
    thread.join()
    if outcome[1] is not None:
        raise outcome[1]
    return outcome[0]  # type: ignore[no-any-return]


class Compiler:
    """Compiles matrices with one set of options, through one cache of kernels on disk. Kernels of
    one Compiler share its threads. May be used by several threads at once.

    threads: of a call of a kernel; 0: all CPUs.
    target: "host-avx2", "host-avx512:zen4", "sm_90" ...; None: this CPU.
    cache: a directory; None: SPJIT_CACHE_DIR or ~/.cache/spjit; False: kernels are not kept, and
        looked for in `cache_layers` alone.
    cache_layers: cache directories and bundles that are looked at next and only read; empty: those
        of SPJIT_CACHE_LAYERS.
    hot: calls of one kernel follow one another with nothing between; False: as in a network.
    search: "instant" (by rules), "ranked", "proxy", "exhaustive" (by timing).
    search_budget: seconds that timing may take; None: 60.
    family: the only family of kernels; None: chosen.
    network_nnz: nonzeros of all layers of the network; 0: not known.
    verify: "none", "sampled" or "full": how much of a kernel's result is compared with float64.
    keep_source: CUDA C++ and PTX stay with a kernel for a GPU, as files that save() writes.

    Raises InvalidArgument for an option that is none, CacheError for a directory that cannot be
    used.
    """

    def __init__(self, *, threads: int = 1, target: str | None = None,
                 cache: PathLike | bool | None = None, cache_layers: Sequence[PathLike] = (),
                 hot: bool = False, search: str | None = None,
                 search_budget: float | None = None, family: str | None = None,
                 network_nnz: int = 0, verify: str | None = None, keep_source: bool = False,
                 _parallel_for: tuple[int, int] | None = None) -> None:
        # _parallel_for: addresses of an spjit_parallel_for and of its first argument.
        directory = None if cache is None or isinstance(cache, bool) else path_bytes(cache)
        if isinstance(cache_layers, (str, bytes, os.PathLike)) or \
                not isinstance(cache_layers, Sequence):
            raise InvalidArgument(f"cache_layers is {cache_layers!r}; expected a list of paths")
        layers = (c_char_p * len(cache_layers))(*map(path_bytes, cache_layers))
        options = CompilerOptions(
            target=text(target, "target"), search=text(search, "search"),
            search_budget_ms=_milliseconds(search_budget, "search_budget"),
            family=text(family, "family"), network_nnz=whole(network_nnz, "network_nnz"),
            verify=text(verify, "verify"), cache_directory=directory,
            threads=thread_count(threads), hot=flag(hot, "hot"),
            no_cache=int(cache is False), cache_layers=layers if cache_layers else None,
            cache_layer_count=len(layers), keep_source=flag(keep_source, "keep_source"))
        if _parallel_for is not None:
            options.parallel_for, options.parallel_for_user = _parallel_for
        self._handle = Handle(library.spjit_compiler_create, library.spjit_compiler_destroy,
                              byref(options))

    def compile(self, matrix: Any, n: int | None = None, *, typical_n: int = 64,
                layout: str = "tokens", activation: str | None = None,
                clamp: tuple[float, float] | None = None, alpha: float | None = None,
                beta: float | None = None, bias: bool = False, scale: bool = False,
                residual: bool = False, runtime_values: bool = False,
                convolution: Conv2d | None = None, timeout: float | None = None) -> Kernel:
        """A kernel for Y = act(scale * (X * A^T) + bias + residual), from the cache or new.

        matrix: A [out, in]: scipy.sparse in any format, a numpy array whose zeros are left out, or
            the path of a .npz, .npy, .mtx or .smtx file, of text also .gz. A file that has no
            values (.smtx, .mtx of a pattern) gets made-up ones, not 1: for others load it with
            scipy. Rounded to fp32; not needed afterwards. NaN and infinities are taken as they are,
            finite numbers beyond fp32 refused.
        n: tokens of a call; None: any number.
        typical_n: where n is None, what choices are made for.
        layout: "tokens": x [..., tokens, in]; "features": x [..., in, n].
        activation: "relu", "gelu", "gelu-tanh", "silu", "hard-swish", "leaky-relu",
            "hard-sigmoid", "sigmoid" or "tanh".
        clamp: in place of an activation: y is kept within (low, high).
        alpha, beta: of "leaky-relu" (alpha * y where y < 0; None: 0.01) and of "hard-sigmoid"
            (min(max(alpha * y + beta, 0), 1); None: PyTorch's 1/6 and 0.5, ONNX's alpha is 0.2).
        bias, scale, residual: calls have a summand for each row of A, a factor for each row, a
            summand for each element of y.
        runtime_values: calls bring A's values (Kernel.prepare_values).
        convolution: A is the weights [filters, channels / groups * kernel height * kernel width] of
            this convolution, as a numpy array also with 4 dimensions; the kernel is a Conv2dKernel.
            `n` and `typical_n` are not used: sizes are those of the convolution.
        timeout: seconds after which it is given up.

        Ctrl-C stops it. Raises TypeError, InvalidArgument, InvalidMatrix, IoError, NotSupported,
        CompileFailed, VerificationFailed, DeadlineExceeded, OutOfMemory.
        """
        problem = make_problem(
            n, typical_n=typical_n, layout=layout, activation=activation, clamp=clamp, alpha=alpha,
            beta=beta, bias=bias, scale=scale, residual=residual, runtime_values=runtime_values,
            convolution=convolution)
        source = matrix_of(matrix, convolution)
        cancel = Handle(library.spjit_cancel_create, library.spjit_cancel_destroy)
        control = CompileControl(cancel=cancel.pointer,
                                 timeout_ms=_milliseconds(timeout, "timeout"))
        handle = interruptible(
            lambda: Handle(library.spjit_compile, library.spjit_kernel_destroy,
                           self._handle.pointer, source.pointer, byref(problem), byref(control)),
            lambda: check(library.spjit_cancel_request(cancel.pointer)))
        return Kernel(handle) if convolution is None else Conv2dKernel(handle, convolution)


def compile(matrix: Any, n: int | None = None, *, typical_n: int = 64, layout: str = "tokens",
            activation: str | None = None, clamp: tuple[float, float] | None = None,
            alpha: float | None = None, beta: float | None = None, bias: bool = False,
            scale: bool = False, residual: bool = False, runtime_values: bool = False,
            convolution: Conv2d | None = None, timeout: float | None = None, threads: int = 1,
            target: str | None = None, cache: PathLike | bool | None = None,
            cache_layers: Sequence[PathLike] = (), hot: bool = False, search: str | None = None,
            search_budget: float | None = None, family: str | None = None, network_nnz: int = 0,
            verify: str | None = None, keep_source: bool = False) -> Kernel:
    """Shorthand for Compiler(...).compile(matrix, ...), whose docstrings have the parameters."""
    compiler = Compiler(threads=threads, target=target, cache=cache, cache_layers=cache_layers,
                        hot=hot, search=search, search_budget=search_budget, family=family,
                        network_nnz=network_nnz, verify=verify, keep_source=keep_source)
    return compiler.compile(matrix, n, typical_n=typical_n, layout=layout, activation=activation,
                            clamp=clamp, alpha=alpha, beta=beta, bias=bias, scale=scale,
                            residual=residual, runtime_values=runtime_values,
                            convolution=convolution, timeout=timeout)
