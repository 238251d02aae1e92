"""Kernels of a model on disk: a folder with index.json and a folder for each kernel."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

from .._errors import IoError
from .._kernel import Kernel
from .._library import PathLike
from .._load import load

_INDEX = "index.json"
_FORMAT = "spjit.torch 1"


def write(path: PathLike, kernels: list[tuple[str, Kernel]]) -> None:
    """Each with a text by which it is found again. What is at `path`, if it is such a folder, is
    replaced when all is written. Raises IoError."""
    target = Path(os.fsdecode(path))
    if target.exists() and not (target / _INDEX).exists():
        raise IoError(f"{target}: there is something else; expected nothing or what save() wrote")
    try:
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise IoError(f"{target}: {error}") from error
    try:
        layers = []
        for number, (text, kernel) in enumerate(kernels):
            folder = f"{number:04}"
            kernel.save(scratch / folder)
            layers.append({"layer": text, "folder": folder})
        (scratch / _INDEX).write_text(json.dumps({"format": _FORMAT, "layers": layers}, indent=1))
        scratch.chmod(0o755)
        if target.exists():
            shutil.rmtree(target)
        scratch.rename(target)
    except OSError as error:
        raise IoError(f"{target}: {error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


class Store:
    """What `write` wrote. Raises IoError if it cannot be read or is damaged."""

    def __init__(self, path: PathLike, any_owner: bool) -> None:
        self._path = Path(os.fsdecode(path))
        self._any_owner = any_owner
        try:
            index = json.loads((self._path / _INDEX).read_text())
            known = index["format"] == _FORMAT
            self._folders: dict[str, str] = {str(layer["layer"]): str(layer["folder"])
                                             for layer in index["layers"]}
        except OSError as error:
            raise IoError(f"{self._path}: {error}") from error
        except (ValueError, KeyError, TypeError):
            known = False
        if not known or any(not folder.isdigit() for folder in self._folders.values()):
            raise IoError(f"{self._path}: {_INDEX} is damaged or of another version")

    @property
    def texts(self) -> list[str]:
        return list(self._folders)

    def kernel(self, text: str, threads: int, parallel_for: tuple[int, int] | None) -> Kernel:
        """Raises IoError if it is damaged, NotSupported if it is for another CPU."""
        return load(self._path / self._folders[text], threads=threads, any_owner=self._any_owner,
                    _parallel_for=parallel_for)
