"""Kernels from files."""

from __future__ import annotations

from ctypes import byref

from ._convolution import Conv2d, Conv2dKernel
from ._kernel import Kernel
from ._library import Handle, LoadOptions, PathLike, library, path_bytes, thread_count


def kernel_of(handle: Handle) -> Kernel:
    """A Conv2dKernel if it is one."""
    kernel = Kernel(handle)
    sizes = kernel.convolution_sizes
    return kernel if sizes is None else Conv2dKernel(handle, Conv2d.of_info(sizes,
                                                                            kernel.n is None))


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
    options = LoadOptions(threads=thread_count(threads), any_owner=int(any_owner))
    if _parallel_for is not None:
        options.parallel_for, options.parallel_for_user = _parallel_for
    handle = Handle(library.spjit_kernel_load, library.spjit_kernel_destroy,
                    path_bytes(folder), byref(options))
    return kernel_of(handle)
