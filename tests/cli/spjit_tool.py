"""Runs the command line tool for the tests here.

Environment: SPJIT_TOOL (the binary), SPJIT_LIBRARY (libspjit), SPJIT_EMULATED_CUDA (the driver of
machines that have none), SPJIT_CXX (a C++ compiler), SPJIT_LINK_FLAGS. ctest sets them; see CMakeLists.txt.
"""

from __future__ import annotations

import array
import json
import os
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from long_tests import in_turn, long_tests  # noqa: E402, F401

TOOL = os.environ.get("SPJIT_TOOL", "spjit")
ROOT = Path(__file__).resolve().parents[2]

# Exit statuses, as docs/use/cli.md has them.
OK, SOME_FAILED, USAGE, FAILED = range(4)


def write_safetensors(path: Path, tensors: dict[str, tuple[list[int], list[float]]],
                      metadata: dict[str, str] | None = None,
                      dtypes: dict[str, str] | None = None) -> None:
    header: dict = {} if metadata is None else {"__metadata__": metadata}
    data = b""
    for tensor, (shape, values) in tensors.items():
        is_bytes = all(isinstance(value, int) for value in values)
        dtype = (dtypes or {}).get(tensor, "I8" if is_bytes else "F32")
        letter = {"F64": "d", "I8": "b"}.get(dtype, "f")
        packed = struct.pack(f"<{len(values)}{letter}", *values)
        header[tensor] = {"dtype": dtype, "shape": shape,
                          "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class ToolTest(unittest.TestCase):
    """A test with a folder of its own, its cache in it, and the folder as working directory."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="spjit-cli-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.cache = self.folder / "cache"

    def environment(self, **extra: str) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("SPJIT_")}
        return {**kept, "SPJIT_CACHE_DIR": str(self.cache),
                "XDG_CONFIG_HOME": str(self.folder / "config"), **extra}

    def run_tool(self, *arguments: object, before: Callable[[], None] | None = None,
                 **extra: str) -> subprocess.CompletedProcess[str]:
        """Runs the tool; `before` in its process first."""
        command = [TOOL, *map(str, arguments)]
        return subprocess.run(command, cwd=self.folder, env=self.environment(**extra), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=300,
                              check=False, preexec_fn=before)

    def succeed(self, *arguments: object, **extra: str) -> subprocess.CompletedProcess[str]:
        result = self.run_tool(*arguments, **extra)
        self.assertEqual(result.returncode, OK, result.stderr)
        return result

    def run_json(self, *arguments: object, status: int = OK, **extra: str) -> dict:
        result = self.run_tool(*arguments, "--json", **extra)
        self.assertEqual(result.returncode, status, result.stderr)
        return json.loads(result.stdout)

    def assert_error(self, result: subprocess.CompletedProcess[str], status: int,
                     *fragments: str) -> None:
        """The exit status, and an error line that has every fragment."""
        self.assertEqual(result.returncode, status, result.stderr)
        lines = [line for line in result.stderr.splitlines() if line.startswith("spjit: error: ")]
        self.assertTrue(any(all(f in line for f in fragments) for line in lines),
                        f"no error line with {fragments} in:\n{result.stderr}")
        self.assertNotIn("terminate called", result.stderr)

    def generate(self, name: str = "layer.npz", rows: int = 40, cols: int = 30,
                 sparsity: float = 0.8, *more: object) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self.succeed("gen", "--rows", rows, "--cols", cols, "--sparsity", sparsity, "--out", path,
                     *more)
        return path

    def save(self, name: str, shape: tuple[int, ...], values: list[float]) -> Path:
        """Writes a .npy file of floats."""
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
        header += " " * (-(len(header) + 11) % 64) + "\n"
        path = self.folder / name
        path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
                         + array.array("f", values).tobytes())
        return path

    def run_program(self, source: str, *objects: str) -> str:
        """What a program with the library prints."""
        compiler = shutil.which(os.environ.get("SPJIT_CXX", "c++"))
        library = os.environ.get("SPJIT_LIBRARY", "")
        if compiler is None or ".so" not in Path(library).name:
            self.skipTest("needs a C++ compiler and a shared libspjit")
        (self.folder / "main.cpp").write_text(source)
        flags = shlex.split(os.environ.get("SPJIT_LINK_FLAGS", ""))
        subprocess.run([compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", *flags, "-I",
                        ROOT / "include", "main.cpp", *objects, library,
                        f"-Wl,-rpath,{Path(library).parent}", "-o", "program"],
                       cwd=self.folder, check=True, timeout=300)
        return subprocess.run(["./program"], cwd=self.folder, capture_output=True, text=True,
                              timeout=300, check=True, env=self.environment()).stdout
