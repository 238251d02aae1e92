"""Feed-forward networks of DLMC's Transformer in PyTorch, dense and with spjit: whole passes in one
process, in turn.

    python bench/python/feed_forward_bench.py --source DLMC [--sparsity 95] [--size 1x8 ...]
        [--threads 1] [--seconds 2] [--json FILE]

DLMC is a folder dlmc/transformer/METHOD. Weights have their entries where they are there, values are
drawn at random. Six blocks are x = norm(x + down(relu(up(x)))). Ways: `torch` is dense, `kernels`
the same model after spjit.torch.optimize_ without exact passes, `spjit` with them. A turn is two
passes, of which the second is timed; times are medians of the faster halves. --json adds to what is
in the file; rows of the same case are replaced. Needs spjit, torch and what bench/python needs.
"""

from __future__ import annotations

import argparse
import copy
import functools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench_support import add_rows, cpu_name
from encoder_models import BLOCKS, HIDDEN, NAMES, read
from torch import Tensor, nn

import spjit.torch
from spjit._timing import in_turn, usual_time

SCHEMA = "spjit-feed-forward-bench-1"
CASE = ("sparsity", "size", "threads")
LEAST_ROUNDS = 8


class Block(nn.Module):
    def __init__(self, folder: Path, block: int, rng: np.random.Generator) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(self._layer(folder, block, name, rng)
                                      for name in ("up", "down")))
        self.layers.insert(1, nn.ReLU())
        self.norm = nn.LayerNorm(HIDDEN)

    @staticmethod
    def _layer(folder: Path, block: int, name: str, rng: np.random.Generator) -> nn.Linear:
        weight = read(folder / f"body_encoder_layer_{block}_{NAMES[name]}.smtx", rng)
        layer = nn.Linear(weight.shape[1], weight.shape[0])
        layer.weight.copy_(torch.from_numpy(weight))
        layer.bias.copy_(torch.from_numpy(rng.standard_normal(len(weight)).astype(np.float32)))
        return layer

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(x + self.layers(x))
        return y


def measure(of: argparse.Namespace, sparsity: int, size: str, threads: int) -> dict[str, Any]:
    torch.set_num_threads(threads)
    rng = np.random.default_rng(0)
    model = nn.Sequential(*(Block(of.source / f"{sparsity / 100:g}", block, rng)
                            for block in range(BLOCKS))).eval()
    x = torch.from_numpy(rng.standard_normal((*map(int, size.split("x")), HIDDEN)).astype(
        np.float32))
    ways, reports = {"torch": model}, {}
    for way in ("kernels", "spjit"):
        ways[way] = copy.deepcopy(model)
        reports[way] = spjit.torch.optimize_(ways[way], (x,), exact_passes=way == "spjit")
    with torch.inference_mode():
        dense = model(x)
        worst = max(float((way(x) - dense).abs().max() / dense.abs().max())
                    for way in ways.values())
        times = in_turn([functools.partial(way, x) for way in ways.values()], of.seconds,
                        LEAST_ROUNDS)
    ms = {way: round(usual_time(each) * 1e-3, 4) for way, each in zip(ways, times)}
    return {"sparsity": sparsity, "size": size, "threads": threads, "ms": ms,
            "kernels_over_spjit": round(ms["kernels"] / ms["spjit"], 3),
            "sparse": {way: f"{len(one.sparse)} of {len(one.rows)}"
                       for way, one in reports.items()},
            "rows_removed": sum(each.rows for each in reports["spjit"].removed),
            "difference": float(f"{worst:.2g}")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--sparsity", type=int, nargs="+", default=[95], help="percent")
    parser.add_argument("--size", nargs="+", default=["1x1", "1x8", "1x32", "1x128"])
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--seconds", type=float, default=2, help="of passes, a case")
    parser.add_argument("--json", type=Path)
    of = parser.parse_args()
    print(cpu_name())
    for sparsity in of.sparsity:
        for size in of.size:
            for threads in of.threads:
                with torch.no_grad():
                    row = measure(of, sparsity, size, threads)
                print(row, flush=True)
                if of.json:
                    add_rows(of.json, SCHEMA, CASE, [row], ["torch"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
