"""Sessions of ONNX Runtime that know the operator SparseLayer."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import onnxruntime

from .._checks import cpu_count, key_bytes
from .._errors import InvalidArgument, NotSupported
from .._library import LIBRARY, PathLike

PROVIDERS = ["CPUExecutionProvider"]
OLDEST = (1, 17)
_TAKEN = "spjit.taken"  # an entry of options that have been given to a session


def check_version() -> None:
    """NotSupported for an ONNX Runtime whose operators cannot use a session's threads."""
    version = onnxruntime.__version__
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise NotSupported(f"this is onnxruntime {version}; expected 1.17 or later")


@dataclass(frozen=True)
class Own:
    """What a caller adds to every session: a function that makes its options, each time new ones,
    and paths of libraries of operators. Raises InvalidArgument for what is no function."""

    session_options: Optional[Callable[[], onnxruntime.SessionOptions]] = None
    operator_libraries: Sequence[PathLike] = ()

    def __post_init__(self) -> None:
        if self.session_options is not None and not callable(self.session_options):
            raise InvalidArgument(
                f"session_options is a {type(self.session_options).__name__}; expected a function "
                "that makes one: every session has its own")
        libraries = self.operator_libraries
        if isinstance(libraries, (str, bytes)) or not isinstance(libraries, Sequence) or \
                not all(isinstance(path, (str, os.PathLike)) for path in libraries):
            raise InvalidArgument(f"operator_libraries is {libraries!r}; expected a list of paths")

    def options(self) -> onnxruntime.SessionOptions:
        if self.session_options is not None:
            options = _new(self.session_options())
        else:
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 3  # errors; warnings are about the model, the user's
        for path in self.operator_libraries:
            options.register_custom_ops_library(os.fspath(path))
        return options


def _new(options: Any) -> onnxruntime.SessionOptions:
    """What a caller's function made, marked. Raises InvalidArgument for what is none, and for one
    that has the mark: what one session is told would be told to the next, too."""
    if not isinstance(options, onnxruntime.SessionOptions):
        raise InvalidArgument(f"session_options made a {type(options).__name__}; expected an "
                              "onnxruntime.SessionOptions")
    try:
        options.get_session_config_entry(_TAKEN)
    except RuntimeError:
        options.add_session_config_entry(_TAKEN, "1")
        return options
    raise InvalidArgument("session_options gave options that a session has already; expected new "
                          "ones each time")


def plain_options(threads: int, own: Own = Own()) -> onnxruntime.SessionOptions:
    options = own.options()
    options.intra_op_num_threads = threads
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
        key = key_bytes(public_key, "public_key")
        options.add_session_config_entry("spjit.public_key", os.fsdecode(key or b""))
    options.register_custom_ops_library(LIBRARY)


def sparse_options(kernels: PathLike, threads: int, public_key: PathLike | None = None,
                   own: Own = Own()) -> onnxruntime.SessionOptions:
    options = plain_options(threads, own)
    register(options, kernels, threads, public_key=public_key)
    return options


def path_of(model: PathLike) -> Path:
    """Raises InvalidArgument for a model that is no path, as ONNX Runtime takes some, too."""
    if not isinstance(model, (str, os.PathLike)):
        raise InvalidArgument(f"the model is a {type(model).__name__}; expected the path of a "
                              "file, as onnx.save() writes")
    return Path(model)


def kernels_beside(model: PathLike) -> Path:
    """Of "dir/model.onnx": "dir/model.spjit"; of another name, such as "net-0.9", all of it with
    ".spjit" behind, so that "net-0.8" has kernels of its own. Raises InvalidArgument for a folder.
    """
    path = path_of(model)
    if not path.name or path.is_dir():
        raise InvalidArgument(f"the path of the model is {os.fspath(model)!r}; expected that of a "
                              "file, not of a folder")
    if path.suffix.lower() in (".onnx", ".spjit"):
        return path.with_suffix(".spjit")
    return path.with_name(path.name + ".spjit")


def load(model: PathLike, *, threads: int = 1, public_key: PathLike | None = None,
         session_options: Callable[[], onnxruntime.SessionOptions] | None = None,
         operator_libraries: Sequence[PathLike] = ()) -> onnxruntime.InferenceSession:
    """A session of a model that `Optimized.save` wrote, with its kernels beside it.

    threads: of a run; 0: all CPUs.
    public_key: PEM text of an Ed25519 key, or the path of a file that has it. Only kernels that it
        signed are loaded.
    session_options, operator_libraries: as optimize() has them.

    Raises FileNotFoundError without the model or its kernels, and InvalidArgument for what is no
    path. ONNX Runtime raises where they are damaged, of another model or CPU, or not signed by the
    key.
    """
    check_version()
    if not path_of(model).exists():
        raise FileNotFoundError(f"{os.fspath(model)} does not exist; expected a model")
    options = sparse_options(kernels_beside(model), cpu_count(threads), public_key,
                             Own(session_options, operator_libraries))
    return onnxruntime.InferenceSession(os.fspath(model), options, providers=PROVIDERS)


def merged(inputs: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
    """Inputs and named ones as feeds_of() takes them: arrays, or one dict. Raises InvalidArgument.
    """
    if not named:
        return inputs
    given: Mapping[str, Any] = {}
    if inputs:
        if len(inputs) > 1 or not isinstance(inputs[0], Mapping):
            raise InvalidArgument(f"{len(inputs)} inputs in order and {', '.join(map(repr, named))} "
                                  "by name; expected all in order or all by name")
        given = inputs[0]
    both = sorted(named.keys() & given.keys())
    if both:
        raise InvalidArgument(f"the dict and the named inputs both have {both[0]!r}; expected it "
                              "once")
    return ({**given, **named},)


def feeds_of(session: onnxruntime.InferenceSession, inputs: tuple[Any, ...]) -> dict[str, Any]:
    """Inputs by name: of arrays in the model's order, or of one dict. Raises InvalidArgument for
    others than the model has."""
    names = [one.name for one in session.get_inputs()]
    if len(inputs) == 1 and isinstance(inputs[0], Mapping):
        feeds = dict(inputs[0])
        defaults = {one.name for one in session.get_overridable_initializers()}
        if not set(names) <= set(feeds) <= {*names, *defaults}:
            raise InvalidArgument(f"the inputs are {', '.join(map(repr, feeds)) or 'none'}; "
                                  f"expected {', '.join(map(repr, names))}")
        return feeds
    if len(inputs) != len(names):
        raise InvalidArgument(f"{len(inputs)} inputs; expected {len(names)}: {', '.join(names)}")
    return dict(zip(names, inputs))
