"""Sessions of ONNX Runtime that know the operator SparseLayer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import onnxruntime

from .._errors import InvalidArgument, NotSupported
from .._library import LIBRARY, PathLike, cpu_count

PROVIDERS = ["CPUExecutionProvider"]
OLDEST = (1, 17)


def check_version() -> None:
    """NotSupported for an ONNX Runtime whose operators cannot use a session's threads."""
    version = onnxruntime.__version__
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise NotSupported(f"this is onnxruntime {version}; expected 1.17 or later")


def plain_options(threads: int) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # errors; warnings are about the model, which is the user's
    return options


def register(options: onnxruntime.SessionOptions, kernels: PathLike | None = None,
             threads: int | None = None, *, public_key: PathLike | None = None) -> None:
    """Makes SparseLayer known to sessions of `options`.

    kernels: the bundle of the model's; None: where its nodes say, from the current directory.
    threads: of a run, at most those of the session; None: as many as it was optimized for.
    public_key: PEM text of an Ed25519 key, or the path of a file that has it: only a bundle that it
        signed is opened.
    """
    if kernels is not None:
        if not Path(kernels).exists():
            raise FileNotFoundError(f"{os.fspath(kernels)} does not exist; expected the kernels of "
                                    "the model, which Optimized.save() wrote beside it")
        options.add_session_config_entry("spjit.bundle", os.fspath(kernels))
    if threads is not None:
        options.add_session_config_entry("spjit.threads", str(cpu_count(threads)))
    if public_key is not None:
        options.add_session_config_entry("spjit.public_key", os.fspath(public_key))
    options.register_custom_ops_library(LIBRARY)


def sparse_options(kernels: PathLike, threads: int,
                   public_key: PathLike | None = None) -> onnxruntime.SessionOptions:
    options = plain_options(threads)
    register(options, kernels, threads, public_key=public_key)
    return options


def kernels_beside(model: PathLike) -> Path:
    """Of "dir/model.onnx": "dir/model.spjit"."""
    return Path(model).with_suffix(".spjit")


def load(model: PathLike, *, threads: int = 1,
         public_key: PathLike | None = None) -> onnxruntime.InferenceSession:
    """A session of a model that `Optimized.save` wrote, with its kernels beside it.

    threads: of a run; 0: all CPUs.
    public_key: PEM text of an Ed25519 key, or the path of a file that has it: only kernels that it
        signed are loaded.

    Raises FileNotFoundError without the model or its kernels; what ONNX Runtime raises where they
    are damaged, of another model or CPU, or not signed by the key.
    """
    check_version()
    if not Path(model).exists():
        raise FileNotFoundError(f"{os.fspath(model)} does not exist; expected a model")
    return onnxruntime.InferenceSession(
        os.fspath(model), sparse_options(kernels_beside(model), cpu_count(threads), public_key),
        providers=PROVIDERS)


def feeds_of(session: onnxruntime.InferenceSession, inputs: tuple[Any, ...]) -> dict[str, Any]:
    """Inputs by name: of arrays in the model's order, or of one dict."""
    names = [one.name for one in session.get_inputs()]
    if len(inputs) == 1 and isinstance(inputs[0], dict):
        return dict(inputs[0])
    if len(inputs) != len(names):
        raise InvalidArgument(f"{len(inputs)} inputs; expected {len(names)}: {', '.join(names)}")
    return dict(zip(names, inputs))
