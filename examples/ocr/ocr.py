#!/usr/bin/env python3
"""A pruned text detector made faster: examples/ocr/ocr.py [OPTIONS]

Prunes the convolutions of PP-OCRv4's detector, as the PyPI package rapidocr-onnxruntime has it, by
magnitude; lets spjit put its kernels into the model where that is faster; prints a table of all
layers before and after, and how far the logits are from those of the dense pruned model; and draws
the table. The accuracy of a model that is pruned so, without training, is not what this is about.

    pip install spjit onnx onnxruntime
    pip install --no-deps rapidocr-onnxruntime==1.4.4
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

import spjit.onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "shared"))
from onnx_pruning import prune  # noqa: E402
from picture import picture  # noqa: E402

PACKAGE = "rapidocr-onnxruntime"
MODEL = "ch_PP-OCRv4_det_infer.onnx"


def detector() -> Path:
    """Where pip put the model."""
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        raise SystemExit(f"{PACKAGE} is not installed; pip install --no-deps {PACKAGE}") from None
    return Path(str(next(file for file in files if file.name == MODEL).locate()))


def show_logits(model: onnx.ModelProto) -> None:
    """What the last sigmoid takes becomes an output, too: without training, a pruned detector says 0
    everywhere, which would compare nothing."""
    last = next(node for node in reversed(model.graph.node) if node.op_type == "Sigmoid")
    model.graph.output.append(onnx.helper.make_tensor_value_info(
        last.input[0], onnx.TensorProto.FLOAT, None))


def compare(dense: Path, fast: spjit.onnx.Optimized, image: np.ndarray) -> float:
    """The largest difference of a logit, as a part of the largest one."""
    session = onnxruntime.InferenceSession(str(dense), providers=["CPUExecutionProvider"])
    theirs = session.run(None, {session.get_inputs()[0].name: image})[-1]
    return float(np.abs(fast(image)[-1] - theirs).max() / np.abs(theirs).max())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sparsity", type=int, default=90, help="percent; default: 90")
    parser.add_argument("--size", type=int, default=640, help="of the image; default: 640")
    parser.add_argument("--threads", type=int, default=1, help="of a run; default: 1")
    parser.add_argument("--budget", type=float, default=2.0,
                        help="seconds of each comparison; default: 2")
    parser.add_argument("--picture", type=Path, help="an SVG file")
    options = parser.parse_args()

    model = onnx.load(detector())
    count = prune(model.graph, options.sparsity / 100)
    show_logits(model)
    image = np.random.default_rng(1).standard_normal(
        (1, 3, options.size, options.size)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        dense = Path(folder) / "pruned.onnx"
        onnx.save(model, dense)
        fast = spjit.onnx.optimize(dense, image, threads=options.threads, budget=options.budget)
        difference = compare(dense, fast, image)
    print(fast.report)
    print(f"{count} convolutions pruned to {options.sparsity} % zeros; image {options.size} x "
          f"{options.size}; logits differ by {difference:.1e} of the largest one")
    if options.picture:
        title = f"PP-OCRv4 detector, {options.sparsity} % zeros, {options.threads} thread(s)"
        options.picture.write_text(picture(fast.report, title), encoding="utf-8")
    return 0 if difference < 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
