#!/usr/bin/env python3
"""Pruned recurrent networks made faster: examples/speech/speech.py [OPTIONS]

Takes speech networks of PyPI packages (networks.py), prunes them by magnitude, and lets spjit put
its kernels into the models where that is faster. Prints a table of each model's layers, and the
real-time factors before and after: seconds of computation for a second of speech. Draws the table.
The accuracy of a network that is pruned so, without training, is not what this is about.

    pip install spjit onnx onnxruntime torch
    pip install --no-deps silero-vad==6.2.3 Resemblyzer==0.1.4
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import networks
import numpy as np
import onnx
import onnxruntime

import spjit.onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "shared"))
from picture import Pair, bars  # noqa: E402


class Line(NamedTuple):
    """Of the table. Factors are real-time factors."""

    network: str
    zeros: int  # percent
    before: float
    after: float
    difference: float  # of an output, as a part of the largest one


def seconds_of(sessions: list[onnxruntime.InferenceSession], feeds: dict[str, np.ndarray],
               budget: float) -> list[float]:
    """Of a run of each, which take turns: the median of the faster half, which other programs
    disturb least."""
    times: list[list[float]] = [[] for _ in sessions]
    end = time.perf_counter() + budget
    while len(times[-1]) < 8 or time.perf_counter() < end:
        for session, own in zip(sessions, times):
            start = time.perf_counter()
            session.run(None, feeds)
            own.append(time.perf_counter() - start)
    return [float(np.median(sorted(own)[:len(own) // 2])) for own in times]


def difference_of(sessions: list[onnxruntime.InferenceSession],
                  feeds: dict[str, np.ndarray]) -> float:
    """The largest, as a part of the largest number of that output."""
    pairs = zip(*(session.run(None, feeds) for session in sessions))
    return max(float(np.abs(ours - theirs).max() / np.abs(theirs).max()) for theirs, ours in pairs)


def line_of(name: str, zeros: int, options: argparse.Namespace) -> Line:
    """Prints the report of the network, too."""
    network = networks.load(name, zeros / 100)
    plain = onnxruntime.SessionOptions()
    plain.intra_op_num_threads = options.threads
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pruned.onnx"
        onnx.save(network.model, path)
        fast = spjit.onnx.optimize(path, network.feeds, threads=options.threads,
                                   budget=options.budget)
        dense = onnxruntime.InferenceSession(str(path), plain, providers=["CPUExecutionProvider"])
    print(f"{name}, {zeros} % zeros\n\n{fast.report}\n")
    sessions = [dense, fast.session]
    before, after = (own / network.seconds
                     for own in seconds_of(sessions, network.feeds, options.budget))
    return Line(name, zeros, before, after, difference_of(sessions, network.feeds))


def table(lines: list[Line]) -> str:
    text = ["| network | zeros | real-time factor, ONNX Runtime | with spjit | times faster | "
            "outputs differ by |", "|---|---|---|---|---|---|"]
    text += [f"| {one.network} | {one.zeros} % | {one.before:.5f} | {one.after:.5f} | "
             f"{one.before / one.after:.2f} | {one.difference:.0e} |" for one in lines]
    return "\n".join(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", choices=networks.NAMES, nargs="+", default=networks.NAMES,
                        help="default: all")
    parser.add_argument("--sparsity", type=int, nargs="+", default=[80, 90],
                        help="percent; default: 80 90")
    parser.add_argument("--threads", type=int, default=1, help="of a run; default: 1")
    parser.add_argument("--budget", type=float, default=2.0,
                        help="seconds of each comparison; default: 2")
    parser.add_argument("--picture", type=Path, help="an SVG file")
    options = parser.parse_args()

    lines = [line_of(name, zeros, options)
             for name in options.network for zeros in options.sparsity]
    print(table(lines))
    if options.picture:
        pairs = [Pair(f"{one.network}, {one.zeros} % zeros", 1, one.after / one.before,
                      f"{one.before:.5f} / {one.after:.5f}") for one in lines]
        options.picture.write_text(
            bars(pairs, f"Real-time factors of pruned networks, {options.threads} thread(s)",
                 "grey: ONNX Runtime, as long in each line; blue: with spjit"), encoding="utf-8")
    return 0 if max(one.difference for one in lines) < 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
