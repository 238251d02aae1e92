"""From a matrix to a kernel."""

from __future__ import annotations

import threading
from collections.abc import Callable
from ctypes import byref, c_int32, c_size_t, create_string_buffer
from typing import Any, TypeVar

from ._convolution import kernel_for
from ._fields import takes_fields_of, whole_or_made
from ._kernel import Kernel
from ._library import CompileControl, Handle, check, library
from ._matrix import matrix_of
from ._options import Options, milliseconds
from ._problem import Problem

_Result = TypeVar("_Result")


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

    options: an Options, or, in short, its fields: Compiler(threads=2).

    Raises InvalidArgument for an option that is none, CacheError for a directory that cannot be
    used.
    """

    @takes_fields_of(Options)
    def __init__(self, options: Options | None = None, *,
                 _parallel_for: tuple[int, int] | None = None, **fields: Any) -> None:
        struct = whole_or_made(Options, options, fields).as_struct()
        struct.use_loop(_parallel_for)
        self._handle = Handle(library.spjit_compiler_create, library.spjit_compiler_destroy,
                              byref(struct))

    @takes_fields_of(Problem)
    def compile(self, matrix: Any, problem: Problem | int | None = None, *,
                timeout: float | None = None, **fields: Any) -> Kernel:
        """A kernel for Y = act(scale * (X * A^T) + bias + residual), from the cache or new.

        matrix: A [out, in]: scipy.sparse in any format, a numpy array whose zeros are left out, or
            the path of a file. Files are .npz, .npy, .mtx and .smtx, and texts also .gz. A file
            that has no values (.smtx, .mtx of a pattern) gets made-up ones, not 1. For others load
            it with scipy. Values are rounded to fp32. NaN and infinities are taken as they are,
            finite numbers beyond fp32 are refused. The matrix is not needed afterwards.
        problem: a Problem, or, in short, its fields, of which the first is n: compile(a, 64,
            bias=True).
        timeout: seconds after which it is given up.

        Ctrl-C stops it. Raises TypeError, InvalidArgument, InvalidMatrix, IoError, NotSupported,
        CompileFailed, VerificationFailed, DeadlineExceeded, OutOfMemory.
        """
        wanted = Problem.of(problem, fields)
        source = matrix_of(matrix, wanted.convolution)
        if wanted.group_scales is not None:
            wanted.group_scales.expect_shape(library.spjit_matrix_rows(source.pointer),
                                             library.spjit_matrix_cols(source.pointer))
        struct = wanted.as_struct()
        cancel = Handle(library.spjit_cancel_create, library.spjit_cancel_destroy)
        control = CompileControl(cancel=cancel.pointer,
                                 timeout_ms=milliseconds(timeout, "timeout"))
        handle = interruptible(
            lambda: Handle(library.spjit_compile, library.spjit_kernel_destroy,
                           self._handle.pointer, source.pointer, byref(struct), byref(control)),
            lambda: check(library.spjit_cancel_request(cancel.pointer)))
        return kernel_for(handle, wanted.convolution)

    def metrics_text(self) -> str:
        """Counts since the Compiler was made, in the text format of Prometheus
        (docs/use/remote-cache.md lists them): for a scrape, or the textfile collector.
        """
        size = c_size_t()
        capacity = 4096
        while True:
            text = create_string_buffer(capacity)
            check(library.spjit_compiler_metrics(self._handle.pointer, text, capacity,
                                                 byref(size)))
            if size.value <= capacity:
                return text.raw[:size.value].decode()
            capacity = 2 * size.value

    def metrics(self) -> dict[str, float]:
        """The same by name: {'spjit_cache_hits_total{place="directory"}': 3.0, ...}."""
        samples = (line.rpartition(" ") for line in self.metrics_text().splitlines()
                   if not line.startswith("#"))
        return {name: float(value) for name, _, value in samples}

    def flush_remote(self, timeout: float | None = None) -> bool:
        """Waits until new kernels are written to the server of `cache_remote`. The end of the
        Compiler drops those that wait.

        timeout: seconds; None: as long as it takes.

        Returns whether nothing waits any more. Ctrl-C stops it. Raises InvalidArgument.
        """
        cancel = Handle(library.spjit_cancel_create, library.spjit_cancel_destroy)
        control = CompileControl(cancel=cancel.pointer,
                                 timeout_ms=milliseconds(timeout, "timeout"))
        done = c_int32()
        interruptible(
            lambda: check(library.spjit_compiler_flush_remote(self._handle.pointer, byref(control),
                                                              byref(done))),
            lambda: check(library.spjit_cancel_request(cancel.pointer)))
        return bool(done.value)


@takes_fields_of(Problem, Options)
def compile(matrix: Any, problem: Problem | int | None = None, options: Options | None = None, *,
            timeout: float | None = None, **fields: Any) -> Kernel:
    """Shorthand for Compiler(options).compile(matrix, problem, timeout=timeout). `Problem` and
    `Options` say what their fields are, which this takes, too: compile(a, bias=True, threads=2).
    """
    of_compiler = {name: fields.pop(name) for name in tuple(fields)
                   if name in Options.__dataclass_fields__}
    compiler = Compiler(options, **of_compiler)
    return compiler.compile(matrix, problem, timeout=timeout, **fields)
