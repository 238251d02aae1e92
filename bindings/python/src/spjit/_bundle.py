"""Kernels of a network in one file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from ctypes import byref, c_char_p, c_int64
from types import TracebackType
from typing import Any

from ._checks import flag, key_bytes, text, whole
from ._convolution import kernel_for
from ._errors import InvalidArgument
from ._fields import takes_fields_of
from ._kernel import Kernel
from ._library import BundleOptions, Handle, LoadOptions, PathLike, check, library, path_bytes
from ._load import kernel_of, load_options
from ._matrix import matrix_of
from ._problem import Problem


class Bundle:
    """A file with kernels of a network, for several targets; only read. Processes that load its
    kernels share the pages of code and weights. May be used by several threads at once.

    public_key: PEM text of an Ed25519 key, or the path of a file that has it. Only a bundle that it
        signed is opened, and any change is refused. None: signed or not.
    any_owner: also a file that other users can write to.

    Raises IoError if it cannot be opened, is damaged, cut short or not signed by the key, or others
    can write to it. Raises InvalidArgument for what is no key.
    """

    def __init__(self, path: PathLike, *, public_key: PathLike | None = None,
                 any_owner: bool = False) -> None:
        options = BundleOptions(public_key=key_bytes(public_key, "public_key"),
                                any_owner=flag(any_owner, "any_owner"))
        self._handle = Handle(library.spjit_bundle_open, library.spjit_bundle_destroy,
                              path_bytes(path), byref(options))
        self._path = os.fspath(path)
        self._entries = [self._info(i)
                         for i in range(library.spjit_bundle_count(self._handle.pointer))]

    def _info(self, entry: int) -> dict[str, Any]:
        text = c_char_p()
        check(library.spjit_bundle_entry_info(self._handle.pointer, entry, byref(text)))
        info: dict[str, Any] = json.loads(text.value or b"")
        return info

    @property
    def entries(self) -> list[dict[str, Any]]:
        """What is in it, in order: layer, target, card, weights (a hash), family, key, rows, cols,
        nnz, n, runtime_n, bytes, problem (include/spjit.h)."""
        return json.loads(json.dumps(self._entries))  # type: ignore[no-any-return]

    @property
    def layers(self) -> list[str]:
        """The names of its layers, each once, in order."""
        return list(dict.fromkeys(entry["layer"] for entry in self._entries))

    def __repr__(self) -> str:
        return f"<spjit.Bundle {self._path!r}: {len(self._entries)} kernels>"

    def __len__(self) -> int:
        """Its entries."""
        return len(self._entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self.layers)

    def __contains__(self, layer: object) -> bool:
        return any(entry["layer"] == layer for entry in self._entries)

    def __getitem__(self, layer: str) -> Kernel:
        """load(layer). Raises KeyError if there is no such layer."""
        kernel = self.load(layer)
        if kernel is None:
            raise KeyError(layer)
        return kernel

    def load(self, layer: str | int, *, target: str | None = None,
             threads: int = 1, _parallel_for: tuple[int, int] | None = None) -> Kernel | None:
        """The kernel of a layer; None if there is no such layer.

        layer: its name, or the place of one of `entries`.
        target: "host-avx2", "sm_90" ...; None: the best for this CPU.
        threads: of a call; 0: all CPUs.

        Raises IoError if its files are damaged, NotSupported if it is there for other targets only.
        """
        entry = self._entry_of(layer, target)
        options = load_options(threads, parallel_for=_parallel_for)
        return None if entry < 0 else kernel_of(self._handle_of(entry, options))

    def _entry_of(self, layer: str | int, target: str | None) -> int:
        """Its place in `entries`; -1: there is no layer of this name."""
        if isinstance(layer, str):
            found = c_int64()
            check(library.spjit_bundle_find_layer(self._handle.pointer, text(layer, "layer"),
                                                  text(target, "target"), byref(found)))
            return found.value
        if target is not None:
            raise InvalidArgument(f"target is {target!r}; expected None: an entry has its own")
        entry = whole(layer, "layer", "a name or the place of an entry")
        if entry < 0:
            raise InvalidArgument(f"entry {entry} is not there; expected 0 to {len(self) - 1}")
        return entry

    @takes_fields_of(Problem)
    def find(self, matrix: Any, problem: Problem | int | None = None, *,
             target: str | None = None, threads: int = 1, **fields: Any) -> Kernel | None:
        """The kernel of a layer with these weights that computes just this; None if there is none.

        matrix, problem: as `spjit.compile` has them, also the fields of a Problem.
        target, threads: as `load` has them.

        Raises as `load`, and TypeError, InvalidArgument, InvalidMatrix.
        """
        wanted = Problem.of(problem, fields)
        source = matrix_of(matrix, wanted.convolution)
        found = c_int64()
        check(library.spjit_bundle_find(self._handle.pointer, source.pointer,
                                        byref(wanted.as_struct()), text(target, "target"),
                                        byref(found)))
        if found.value < 0:
            return None
        return kernel_for(self._handle_of(found.value, load_options(threads)), wanted.convolution)

    def _handle_of(self, entry: int, options: LoadOptions) -> Handle:
        return Handle(library.spjit_bundle_load, library.spjit_kernel_destroy,
                      self._handle.pointer, entry, byref(options))

    def verify(self) -> None:
        """Reads and verifies all files. Raises IoError that names the first that is damaged."""
        check(library.spjit_bundle_verify(self._handle.pointer))


class BundleWriter:
    """Makes a bundle; to be used by `with`, at whose end the file appears, whole, unless there was
    an exception.

        with spjit.BundleWriter("model.spjit", private_key="key.pem") as bundle:
            bundle.add("fc1", kernel)

    private_key: PEM text of an Ed25519 key, or the path of a file that has it. `openssl genpkey
        -algorithm ed25519 -out key.pem` makes one. None: the bundle is not signed.

    Raises IoError; InvalidArgument for what is no key.
    """

    def __init__(self, path: PathLike, *, private_key: PathLike | None = None) -> None:
        self._handle: Handle | None = Handle(
            library.spjit_bundle_writer_create, library.spjit_bundle_writer_destroy,
            path_bytes(path), key_bytes(private_key, "private_key"))

    def _open(self) -> int:
        if self._handle is None:
            raise InvalidArgument("the bundle is finished; expected one that is being written")
        return self._handle.pointer

    def add(self, layer: str, kernel: Kernel) -> None:
        """Raises InvalidArgument for a layer that is there with this kernel, or with one of other
        weights, epilogue or convolution, unless its name is ""; IoError."""
        if not isinstance(kernel, Kernel):
            raise InvalidArgument(f"kernel is {type(kernel).__name__}; expected a Kernel")
        if layer is None:
            raise InvalidArgument("layer is None; expected a text")
        check(library.spjit_bundle_writer_add(self._open(), text(layer, "layer"),
                                              kernel._handle.pointer))

    def add_bundle(self, bundle: Bundle) -> None:
        """All kernels of a bundle, of another target for example, but those that are there."""
        check(library.spjit_bundle_writer_add_bundle(self._open(), bundle._handle.pointer))

    def finish(self) -> None:
        """Makes the file appear. Raises IoError."""
        pointer = self._open()
        try:
            check(library.spjit_bundle_writer_finish(pointer))
        finally:
            self._handle = None

    def __enter__(self) -> BundleWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if kind is None and self._handle is not None:
            self.finish()
        self._handle = None
