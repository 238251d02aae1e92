"""How kernels are compiled."""

from __future__ import annotations

import os
from collections.abc import Sequence
from ctypes import c_char_p
from dataclasses import dataclass
from typing import Optional, Union

from ._checks import flag, seconds, text, thread_count, whole
from ._errors import InvalidArgument
from ._library import CompilerOptions, PathLike, path_bytes


_AT_ONCE_MS = 1e-6  # of no seconds: the library takes 0 for no limit


def milliseconds(value: float | None, name: str) -> float:
    """Of seconds; 0, which is no limit, for None."""
    return 0.0 if value is None else max(1e3 * seconds(value, name), _AT_ONCE_MS)


def _path(value: PathLike, name: str) -> bytes:
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise InvalidArgument(f"{name} is {value!r}; expected a path")
    return path_bytes(value)


@dataclass(frozen=True)
class Options:
    """How kernels are compiled, whatever they compute.

    threads: of a call of a kernel; 0: all CPUs.
    target: "host-avx2", "host-avx512:zen4", "sm_90" ...; None: this CPU.
    cache: a directory; None: SPJIT_CACHE_DIR or ~/.cache/spjit; False: kernels are not kept, and
        looked for in `cache_layers` alone.
    cache_layers: cache directories and bundles that are looked at next and only read; empty: those
        of SPJIT_CACHE_LAYERS.
    cache_remote: a server that is asked last: its URL, or the path of a file with its options
        (docs/use/remote-cache.md); False: none; None: as SPJIT_CACHE_REMOTE says, or
        ~/.config/spjit/remote.json.
    hot: calls of one kernel follow one another with nothing between; False: as in a network.
    search: "instant" (by rules), "ranked", "proxy", "exhaustive" (by timing).
    search_budget: seconds that timing may take; None: 60.
    family: the only family of kernels; None: chosen.
    network_nnz: nonzeros of all layers of the network; 0: not known.
    verify: "none", "sampled" or "full": how much of a kernel's result is compared with float64.
    keep_source: CUDA C++ and PTX stay with a kernel for a GPU, as files that save() writes.
    compile: "never": a kernel that is in no cache is NotSupported, whose message says what the
        caches have; "needed": it is compiled.

    Raises InvalidArgument for a value that a field does not take. Names, such as of a target, the
    Compiler checks.
    """

    threads: int = 1
    target: Optional[str] = None
    cache: Union[PathLike, bool, None] = None
    cache_layers: Sequence[PathLike] = ()
    hot: bool = False
    search: Optional[str] = None
    search_budget: Optional[float] = None
    family: Optional[str] = None
    network_nnz: int = 0
    verify: Optional[str] = None
    keep_source: bool = False
    cache_remote: Union[PathLike, bool, None] = None
    compile: Optional[str] = None

    def __post_init__(self) -> None:
        self.as_struct()

    def as_struct(self) -> CompilerOptions:
        """spjit_compiler_options."""
        cache, names = self.cache, self.cache_layers
        directory = None if cache is None or isinstance(cache, bool) else _path(cache, "cache")
        if isinstance(names, (str, bytes, os.PathLike)) or not isinstance(names, Sequence):
            raise InvalidArgument(f"cache_layers is {names!r}; expected a list of paths")
        remote = self.cache_remote
        if remote is True:
            raise InvalidArgument("cache_remote is True; expected a URL, a path, False or None")
        layers = (c_char_p * len(names))(*(_path(one, "a path of cache_layers") for one in names))
        return CompilerOptions(
            target=text(self.target, "target"), search=text(self.search, "search"),
            search_budget_ms=milliseconds(self.search_budget, "search_budget"),
            family=text(self.family, "family"),
            network_nnz=whole(self.network_nnz, "network_nnz"),
            verify=text(self.verify, "verify"), cache_directory=directory,
            threads=thread_count(self.threads), hot=flag(self.hot, "hot"),
            no_cache=int(cache is False), cache_layers=layers if names else None,
            cache_layer_count=len(layers), keep_source=flag(self.keep_source, "keep_source"),
            cache_remote=None if remote is None
            else b"off" if remote is False else _path(remote, "cache_remote"),
            compile=text(self.compile, "compile"))
