"""How long a new process takes to load the kernels of MiniLM-L6 from a bundle.

    python bench/python/bundle_bench.py [--sparsity 80 90] [--samples 15] [--json FILE]

36 layers (weights drawn at random) in one bundle, signed and not. Each sample is a process of its
own that imports spjit, opens the bundle (with the public key where it is signed) and loads every
kernel; the latter two are timed, and a row has their medians. `warm`: the file is in the page
cache; `cold`: it was put out of it before, which is checked by asking for its first page. A folder
on tmpfs cannot be cold. --json adds to what is in the file; rows of the same case are replaced. Needs spjit
and openssl.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from bench_support import add_rows

import spjit

SCHEMA = "spjit-bundle-bench-1"
CASE = ("sparsity", "signed", "pages")
TRIES = 40
HIDDEN, INNER, BLOCKS = 384, 1536, 6
SHAPES = {"query": (HIDDEN, HIDDEN), "key": (HIDDEN, HIDDEN), "value": (HIDDEN, HIDDEN),
          "dense": (HIDDEN, HIDDEN), "up": (INNER, HIDDEN), "down": (HIDDEN, INNER)}


def write_bundle(path: Path, sparsity: int, private_key: Path | None) -> None:
    rng = np.random.default_rng(1)
    compiler = spjit.Compiler(cache=False)
    with spjit.BundleWriter(path, private_key=private_key) as bundle:
        for block in range(BLOCKS):
            for part, (rows, columns) in SHAPES.items():
                weight = scipy.sparse.random(rows, columns, 1 - sparsity / 100, "csr", np.float32,
                                             random_state=rng)
                bundle.add(f"{block}.{part}", compiler.compile(
                    weight, bias=True, activation="gelu" if part == "up" else None))


def make_keys(folder: Path) -> tuple[Path, Path]:
    """Private and public."""
    private, public = folder / "key.pem", folder / "key.pub"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", private], check=True,
                   capture_output=True)
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    return private, public


def load(path: str, public_key: str) -> dict[str, float]:
    """ms, in this process."""
    begin = time.perf_counter()
    bundle = spjit.Bundle(path, public_key=public_key or None)
    opened = time.perf_counter()
    kernels = [bundle.load(entry) for entry in range(len(bundle))]
    loaded = time.perf_counter()
    assert len(kernels) == BLOCKS * len(SHAPES)
    return {"open_ms": (opened - begin) * 1e3, "load_ms": (loaded - opened) * 1e3}


def is_cached(file: int) -> bool:
    try:
        os.preadv(file, [bytearray(1)], 0, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    return True


def put_out_of_cache(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
        for _ in range(TRIES):  # pages that were in use a moment ago may stay
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            if not is_cached(file):
                return
            time.sleep(0.05)
        raise SystemExit(f"{path} stays in the page cache; choose another --folder")
    finally:
        os.close(file)


def sample(path: Path, public_key: Path | None, is_cold: bool) -> dict[str, float]:
    if is_cold:
        put_out_of_cache(path)
    else:
        path.read_bytes()
    result = subprocess.run([sys.executable, __file__, "--child", path, public_key or ""],
                            check=True, capture_output=True, text=True)
    return json.loads(result.stdout)


def measure(path: Path, sparsity: int, public_key: Path | None, samples: int,
            pages: str) -> dict[str, Any]:
    taken = [sample(path, public_key, pages == "cold") for _ in range(samples)]
    return {"sparsity": sparsity, "signed": public_key is not None, "pages": pages,
            "kernels": BLOCKS * len(SHAPES), "bytes": path.stat().st_size,
            **{name: round(statistics.median(one[name] for one in taken), 2)
               for name in ("open_ms", "load_ms")}, "samples": samples}


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(load(*sys.argv[2:])))
        return 0
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sparsity", type=int, nargs="+", default=[80, 90], help="percent")
    parser.add_argument("--samples", type=int, default=15, help="processes; default: 15")
    parser.add_argument("--folder", type=Path, help="where bundles are made for the while")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        private, public = make_keys(Path(name))
        for sparsity in given.sparsity:
            for key in (None, public):
                path = Path(name) / f"{sparsity}-{'plain' if key is None else 'signed'}.spjit"
                write_bundle(path, sparsity, None if key is None else private)
                for pages in ("warm", "cold"):
                    row = measure(path, sparsity, key, given.samples, pages)
                    print(" ".join(f"{name}={value}" for name, value in row.items()), flush=True)
                    if given.json:
                        add_rows(given.json, SCHEMA, CASE, [row])
    return 0


if __name__ == "__main__":
    sys.exit(main())
