"""Kernels of a model made by the machines of a Ray cluster. Needs the package ray:
`pip install spjit[fleet]`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import ray

import spjit

from ._errors import InvalidArgument, IoError, SpjitError
from ._library import PathLike

_PLAN = "work.jsonl"
_RESOURCE = "spjit:"  # of a node, before what a line of a plan needs
_RETRIES = 3  # of lines whose node was lost


class Made(NamedTuple):
    """What became of a line of the plan."""

    layer: str
    target: str
    node: str  # the host's name; empty for what was there
    seconds: float
    error: str = ""


@dataclass
class FleetReport:
    """Who made which kernels of a bundle."""

    bundle: Path
    bytes: int
    rows: list[Made] = field(default_factory=list)
    seconds: float = 0.0  # of the whole call

    def __str__(self) -> str:
        width = max((len(row.layer) for row in self.rows), default=0)
        lines = [f"{row.layer:{width}}  {row.target}  {row.node or 'was there'}  "
                 f"{row.seconds:.2f} s" for row in self.rows]
        nodes = len({row.node for row in self.rows if row.node})
        return "\n".join([*lines, f"{self.bundle}: {len(self.rows)} kernels, {self.bytes} bytes, "
                                  f"made by {nodes} machines in {self.seconds:.1f} s"])


def _absolute(path: PathLike) -> Path:
    return Path(os.fsdecode(path)).absolute()


def _run_tool(folder: Path, *arguments: str) -> str:
    """What `spjit` prints. Raises SpjitError with its error line."""
    result = subprocess.run([sys.executable, "-m", "spjit", *arguments], cwd=folder, text=True,
                            capture_output=True, stdin=subprocess.DEVNULL, check=False)
    if result.returncode:
        mark = "spjit: error: "
        errors = [line.removeprefix(mark) for line in result.stderr.splitlines()
                  if line.startswith(mark)]
        raise SpjitError(errors[0] if errors else
                         f"spjit {arguments[0]} ended with {result.returncode}: {result.stderr}")
    return result.stdout


def _contents(model: Path) -> dict[str, np.ndarray]:
    """A model's file and its parts, by name; of ONNX as safetensors. Raises IoError."""
    try:
        if model.suffix.lower() == ".onnx":
            from ._onnx_file import convert

            return {f"{model.stem}.safetensors": np.fromfile(convert(str(model), ""), np.uint8)}
        files = [model]
        if model.name.endswith(".index.json"):
            parts = json.loads(model.read_text(encoding="utf-8"))["weight_map"].values()
            files += [model.parent / name for name in sorted(set(parts))]
        return {file.name: np.fromfile(file, np.uint8) for file in files}
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise IoError(f"{model}: cannot be read as a model: {error}") from error


def _write(folder: Path, files: dict[str, np.ndarray]) -> None:
    for name, content in files.items():
        content.tofile(folder / name)


# Of a worker's process, which makes several lines: where the files of a model are.
_written: dict[str, tempfile.TemporaryDirectory[str]] = {}


def _make(line: str, files: dict[str, np.ndarray], name: str, version: str
          ) -> tuple[bytes, str, float]:
    """Of a line the bundle, the host's name and seconds. `name`: of these files, in all calls."""
    begin = time.perf_counter()
    if spjit.__version__ != version:
        raise SpjitError(f"{os.uname().nodename} has spjit {spjit.__version__}; expected {version}, "
                         "as the machine that planned")
    if name not in _written:
        made = tempfile.TemporaryDirectory(prefix="spjit-fleet-")
        _write(Path(made.name), files)
        _written[name] = made
    with tempfile.TemporaryDirectory(prefix="spjit-line-") as out:
        plan = Path(out) / _PLAN
        plan.write_text(line, encoding="utf-8")
        _run_tool(Path(_written[name].name), "work", str(plan), "--out", out)
        bundle, = Path(out).glob("*.spjit")
        return bundle.read_bytes(), os.uname().nodename, time.perf_counter() - begin


def _publish(path: Path, content: bytes) -> None:
    """Under its name once it is whole."""
    descriptor, made = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
        os.chmod(made, 0o444)
        os.replace(made, path)
    except BaseException:
        os.unlink(made)
        raise


class _Lines:
    """Of a plan, on their way through the cluster."""

    def __init__(self, text: str, work: Path) -> None:
        self._texts = text.splitlines()
        self.lines: list[dict[str, Any]] = [json.loads(line) for line in self._texts]
        self._work = work
        self.made: list[Made | None] = [
            Made(line["layer"], line["target"], "", 0.0) if self.path(line).exists() else None
            for line in self.lines]

    def path(self, line: dict[str, Any]) -> Path:
        return self._work / f"{line['id']}.spjit"

    def missing(self) -> list[int]:
        """The longest first."""
        return sorted((i for i, made in enumerate(self.made) if made is None),
                      key=lambda i: -self.lines[i]["seconds"])

    def start(self, i: int, files: Any, name: str) -> Any:
        need = self.lines[i]["resource"]
        options = {} if need == "cpu" else {"resources": {f"{_RESOURCE}{need}": 1}}
        task = ray.remote(_make).options(num_cpus=1, max_retries=_RETRIES, **options)
        return task.remote(self._texts[i], files, name, spjit.__version__)

    def take(self, i: int, ref: Any) -> Made:
        """The result of a task that has ended."""
        line = self.lines[i]
        try:
            content, node, seconds = ray.get(ref)
            _publish(self.path(line), content)
            row = Made(line["layer"], line["target"], node, seconds)
        except (ray.exceptions.RayError, SpjitError) as error:
            cause = getattr(error, "cause", None) or error
            row = Made(line["layer"], line["target"], "", 0.0, " ".join(str(cause).split()))
        self.made[i] = row
        return row


def _require_resources(lines: list[dict[str, Any]]) -> None:
    """A task that no node can run would wait for ever."""
    there = ray.cluster_resources()
    for need in sorted({line["resource"] for line in lines} - {"cpu"}):
        if there.get(f"{_RESOURCE}{need}", 0) < 1:
            raise InvalidArgument(
                f"no machine of the cluster has the resource {_RESOURCE}{need}, which a search that "
                "times needs; expected one that was started with ray start "
                f"--resources='{{\"{_RESOURCE}{need}\": 1}}'")


def compile_model(model: PathLike, targets: str | Sequence[str], *, out: PathLike,
                  options: Sequence[str] = (), key: PathLike | None = None,
                  work: PathLike | None = None, address: str | None = None,
                  progress: Callable[[int, int, Made], None] | None = None) -> FleetReport:
    """Makes the bundle `out` of the kernels of a model, on all machines of a Ray cluster.

    The machines need this version of spjit, but neither the model's file nor a signing key. A
    kernel is a task; those that take the longest begin first. What a search times needs the
    resource that its line names, such as "spjit:gpu:sm_90:h100": one at a time uses a device.

    - `model`: .safetensors, .safetensors.index.json, .onnx, or a file with one matrix
    - `targets`: as of `spjit compile --target`
    - `options`: others of that command, as ("--layout=tokens", "--search=ranked"); files that they
      name are not brought to other machines
    - `key`: a file with the private key (PEM, Ed25519) that signs the bundle, on this machine
    - `work`: the folder of kernels that are made; what is there is not made again. Default:
      `out`.work
    - `address`: of the cluster, as of ray.init(), unless ray is initialized
    - `progress`: called with how many kernels there are, of how many, and the latest

    Raises InvalidArgument where no machine has a device that a search needs, IoError for a model
    that cannot be read, and SpjitError if a kernel cannot be made; then there is no bundle, and
    the others are in `work`. Ctrl-C ends all tasks; a second call goes on.
    """
    begin = time.perf_counter()
    bundle = _absolute(out)
    folder = bundle.with_name(f"{bundle.name}.work") if work is None else _absolute(work)
    names = targets if isinstance(targets, str) else ",".join(targets)
    files = _contents(Path(os.fsdecode(model)))
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="spjit-fleet-") as here:
        _write(Path(here), files)
        plan = Path(here) / _PLAN
        plan.write_text(_run_tool(Path(here), "plan", next(iter(files)), "--target", names,
                                  *options), encoding="utf-8")
        lines = _Lines(plan.read_text(encoding="utf-8"), folder)
        if lines.missing():
            _make_all(lines, files, address, progress)
        failed = [row for row in lines.made if row is not None and row.error]
        if failed:
            raise SpjitError(f"{bundle}: not written: {len(failed)} of {len(lines.made)} kernels "
                             f"cannot be made, first '{failed[0].layer}' for {failed[0].target}: "
                             f"{failed[0].error}")
        signing = [] if key is None else ["--key", str(_absolute(key))]
        _run_tool(Path(here), "work", str(plan), "--out", str(folder), "--bundle", str(bundle),
                  *signing)
    return FleetReport(bundle, bundle.stat().st_size, [row for row in lines.made if row is not None],
                       time.perf_counter() - begin)


def _make_all(lines: _Lines, files: dict[str, np.ndarray], address: str | None,
              progress: Callable[[int, int, Made], None] | None) -> None:
    if not ray.is_initialized():
        ray.init(address=address, log_to_driver=False)
    missing = lines.missing()
    _require_resources([lines.lines[i] for i in missing])
    shipped, name = ray.put(files), os.urandom(8).hex()
    tasks = {lines.start(i, shipped, name): i for i in missing}
    done = len(lines.lines) - len(tasks)
    try:
        while tasks:
            ended, _ = ray.wait(list(tasks), num_returns=1)
            row = lines.take(tasks.pop(ended[0]), ended[0])
            done += 1
            if progress is not None:
                progress(done, len(lines.lines), row)
    finally:
        for ref in tasks:
            ray.cancel(ref, force=True)
