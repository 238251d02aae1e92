"""A model whose layers are kernels, and the folder that these are in."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import onnxruntime

from .._bundle import Bundle, BundleWriter
from .._errors import InvalidArgument
from .._library import PathLike
from .._onnx_protos import all_graphs_of, copied
from .._report import Report
from ._graph import DOMAIN, kernels_of_node, session_of, uninterrupted, write
from ._sessions import Own, feeds_of, kernels_beside, merged, plain_options, sparse_options


@dataclass(frozen=True)
class How:
    """How a model runs, and is measured."""

    threads: int
    budget: float  # seconds a comparison
    own: Own


class KernelFolder:
    """A bundle in a folder that goes when nobody needs it any more."""

    def __init__(self) -> None:
        uninterrupted(self._make)

    def _make(self) -> None:
        folder = tempfile.mkdtemp(prefix="spjit-kernels-")
        self.path = str(Path(folder) / "model.spjit")
        self.remove = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)


def options_of(report: Report, kernels: KernelFolder, how: How) -> onnxruntime.SessionOptions:
    """Of a session of such a model."""
    if not report.sparse:
        return plain_options(how.threads, how.own)
    return sparse_options(kernels.path, how.threads, own=how.own)


class Optimized:
    """A model with kernels, ready to run. `optimize` makes it."""

    def __init__(self, model: onnx.ModelProto, report: Report, kernels: KernelFolder,
                 how: How) -> None:
        self._kernels = kernels
        self._how = how
        self.model = model
        self.report = report
        self.session = session_of(model, self._options())

    def _options(self) -> onnxruntime.SessionOptions:
        return options_of(self.report, self._kernels, self._how)

    def __call__(self, *inputs: Any, **named: Any) -> list[Any]:
        """The model's outputs, numpy arrays in its order. inputs: arrays in the model's order, or
        one dict by name, or named arguments. Any number of threads may call it."""
        return self.session.run(  # type: ignore[no-any-return]
            None, feeds_of(self.session, merged(inputs, named)))

    def save(self, path: PathLike, *, private_key: PathLike | None = None) -> None:
        """Writes the model, and its kernels beside it: "model.onnx" and "model.spjit", a bundle
        (docs/use/bundle.md), for `load`. The weights of a model over 2 GB are in
        "model.onnx.data". Replaces what was there before.

        private_key: PEM text of an Ed25519 key, or the path of a file that has it: signs the
            bundle.

        Raises OSError; InvalidArgument for what is no key, and for the path of a folder.
        """
        kernels = kernels_beside(path)
        if kernels == Path(path):
            raise InvalidArgument(f"the path of the model is {os.fspath(path)}; expected one that "
                                  "does not end in .spjit, as its kernels' does")
        uninterrupted(lambda: self._write(Path(path), kernels, private_key))

    def _write(self, path: Path, kernels: Path, private_key: PathLike | None) -> None:
        model = copied(self.model)
        with BundleWriter(kernels, private_key=private_key) as writer:
            made = Bundle(self._kernels.path)
            for node in (node for graph in all_graphs_of(model.graph) for node in graph.node
                         if node.domain == DOMAIN):
                for bundle in (one for one in node.attribute if one.name == "bundle"):
                    bundle.s = os.fsencode(kernels.name)
                for layer in kernels_of_node(node):
                    writer.add(layer, made[layer])
            _replace(model, path, writer)


def _replace(model: onnx.ModelProto, path: Path, kernels: BundleWriter) -> None:
    """Writes it and its kernels beside their places, where they get by renaming when all went well.
    """
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        written = write(model, Path(folder) / path.name)
        kernels.finish()
        for one in written:
            one.rename(path.with_name(one.name))
