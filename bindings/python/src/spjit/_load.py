"""Kernels from files."""

from __future__ import annotations

import copyreg
import tempfile
from ctypes import byref
from pathlib import Path
from typing import Any

from ._checks import flag, thread_count
from ._convolution import Conv2d, Conv2dKernel, kernel_for
from ._kernel import Kernel
from ._library import Handle, LoadOptions, PathLike, library, path_bytes


def kernel_of(handle: Handle) -> Kernel:
    """A Conv2dKernel if it is one."""
    kernel = Kernel(handle)
    sizes = kernel.convolution_sizes
    return kernel if sizes is None else kernel_for(handle, Conv2d.of_info(sizes,
                                                                          kernel.n is None))


def load_options(threads: int, any_owner: bool = False,
                 parallel_for: tuple[int, int] | None = None) -> LoadOptions:
    options = LoadOptions(threads=thread_count(threads), any_owner=flag(any_owner, "any_owner"))
    options.use_loop(parallel_for)
    return options


def load(folder: PathLike, *, threads: int = 1, any_owner: bool = False,
         _parallel_for: tuple[int, int] | None = None) -> Kernel:
    """A kernel that `Kernel.save` wrote, or an entry of a cache. Needs neither matrix nor cache.

    threads: of a call; 0: all CPUs.
    any_owner: also take files that other users can write to.

    A Conv2dKernel of one tap without stride and padding comes back as the product that it is, a
    Kernel of images [..., channels, pixels].

    Raises IoError if there is none; CacheError or SpjitError if it is damaged; NotSupported if this
    CPU lacks the instruction set.
    """
    options = load_options(threads, any_owner, _parallel_for)
    handle = Handle(library.spjit_kernel_load, library.spjit_kernel_destroy,
                    path_bytes(folder), byref(options))
    return kernel_of(handle)


def _reduced(kernel: Kernel) -> tuple[Any, ...]:
    """A kernel for `pickle`: the files that `Kernel.save` writes."""
    with tempfile.TemporaryDirectory(prefix="spjit-") as folder:
        kernel.save(folder)
        files = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    convolution = kernel.convolution if isinstance(kernel, Conv2dKernel) else None
    return _unpickled, (files, kernel.info["threads"], convolution, kernel.device)


def _unpickled(files: dict[str, bytes], threads: int, convolution: Conv2d | None,
               device: int | None = None) -> Kernel:
    with tempfile.TemporaryDirectory(prefix="spjit-") as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        # The folder is this user's alone, whatever umask its files have.
        kernel = load(folder, threads=threads, any_owner=True)
    if convolution is not None:
        kernel = Conv2dKernel(kernel._handle, convolution)
    return kernel if device is None else kernel.to_device(device)


for _class in (Kernel, Conv2dKernel):
    copyreg.pickle(_class, _reduced)  # type: ignore[arg-type]
