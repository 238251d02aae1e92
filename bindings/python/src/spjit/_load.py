"""Kernels from files."""

from __future__ import annotations

from ctypes import byref

from ._convolution import Conv2d, Conv2dKernel
from ._kernel import Kernel, info_of
from ._library import Handle, LoadOptions, PathLike, library, path_bytes, thread_count


def load(folder: PathLike, *, threads: int = 1, any_owner: bool = False) -> Kernel:
    """A kernel that `Kernel.save` wrote, or an entry of a cache. Needs neither matrix nor cache.

    threads: of a call; 0: all CPUs.
    any_owner: also take files that other users can write to.

    A Conv2dKernel of one tap without stride and padding comes back as the product that it is, a
    Kernel of images [..., channels, pixels].

    Raises IoError if there is none; CacheError or SpjitError if it is damaged; NotSupported if this
    CPU lacks the instruction set.
    """
    options = LoadOptions(threads=thread_count(threads), any_owner=int(any_owner))
    handle = Handle(library.spjit_kernel_load, library.spjit_kernel_destroy,
                    path_bytes(folder), byref(options))
    info = info_of(handle)
    if info["convolution"] is None:
        return Kernel(handle)
    return Conv2dKernel(handle, Conv2d.of_info(info["convolution"], info["runtime_n"]))
