"""Recurrent networks of speech, as PyPI packages have them, pruned by magnitude.

`load(name, zeros)` gives an ONNX model, an input for it, and how much speech that input stands for:

    voice            Silero's voice activity detector on one chunk: convolutions and an LSTM of 128
    voice-recording  the same on ten seconds at once
    speaker          Resemblyzer's speaker encoder on one utterance: three LSTM layers of 256
"""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import onnx.numpy_helper
from onnx import TensorProto, helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "shared"))
from onnx_pruning import prune  # noqa: E402

NAMES = ("voice", "voice-recording", "speaker")
CHUNK, CONTEXT, RATE = 512, 64, 16000  # samples; of a second
FRAMES, MELS, FRAME_SECONDS = 160, 40, 0.01  # of an utterance
OPSET, IR_VERSION = 17, 8


class Network(NamedTuple):
    model: onnx.ModelProto
    feeds: dict[str, np.ndarray]
    seconds: float  # of speech, in one run


def load(name: str, zeros: float) -> Network:
    """`zeros`: their share in each weight, 0 to 1. Raises SystemExit without the package."""
    network = {"voice": lambda: silero(1), "voice-recording": lambda: silero(313),
               "speaker": resemblyzer}[name]()
    prune(network.model.graph, zeros)
    return network


def file_of(package: str, name: str) -> Path:
    """Where pip put it."""
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        raise SystemExit(f"{package} is not installed; pip install --no-deps {package}") from None
    return Path(str(next(file for file in files if file.name == name).locate()))


def silero(chunks: int) -> Network:
    """Each chunk comes with the end of the one before."""
    model = onnx.load(file_of("silero-vad", "silero_vad_16k_sequence.onnx"))
    samples = 0.1 * np.random.default_rng(1).standard_normal((chunks, CONTEXT + CHUNK))
    state = np.zeros((1, 1, 128), np.float32)
    return Network(model, {"input": samples.astype(np.float32), "h": state, "c": state},
                   chunks * CHUNK / RATE)


def onnx_gates(rows: np.ndarray) -> np.ndarray:
    """PyTorch has the gates i, f, g, o of an LSTM, ONNX i, o, f, g."""
    i, f, g, o = np.split(rows, 4)
    return np.concatenate([i, o, f, g])


def resemblyzer() -> Network:
    """Its PyTorch weights as an ONNX model: the last state of the last LSTM, a layer, ReLU, and a
    vector of length 1."""
    import torch

    state = torch.load(file_of("resemblyzer", "pretrained.pt"), "cpu", weights_only=True)
    arrays = {name: tensor.numpy() for name, tensor in state["model_state"].items()}
    constants = {"linear.weight": arrays["linear.weight"], "linear.bias": arrays["linear.bias"],
                 "axis": np.array([1], np.int64), "first": np.array([0], np.int64)}
    nodes, value = [], "mels"
    for layer in range(3):
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        w, r, *biases = (onnx_gates(arrays[f"lstm.{kind}_l{layer}"]) for kind in kinds)
        names = [f"lstm.{layer}.{kind}" for kind in ("w", "r", "b")]
        constants.update(zip(names, (w[None], r[None], np.concatenate(biases)[None])))
        nodes += [
            helper.make_node("LSTM", [value, *names], [f"all {layer}", f"last {layer}"],
                             f"lstm.{layer}", hidden_size=r.shape[1]),
            helper.make_node("Squeeze", [f"all {layer}", "axis"], [f"rows {layer}"])]
        value = f"rows {layer}"
    nodes += [
        helper.make_node("Squeeze", ["last 2", "first"], ["state"]),
        helper.make_node("Gemm", ["state", "linear.weight", "linear.bias"], ["raw"], "linear",
                         transB=1),
        helper.make_node("Relu", ["raw"], ["positive"]),
        helper.make_node("LpNormalization", ["positive"], ["embedding"], axis=1)]
    graph = helper.make_graph(
        nodes, "speaker",
        [helper.make_tensor_value_info("mels", TensorProto.FLOAT, ["frames", "batch", MELS])],
        [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", 256])],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)],
                              ir_version=IR_VERSION)
    mels = np.random.default_rng(1).random((FRAMES, 1, MELS), np.float32)
    return Network(model, {"mels": mels}, FRAMES * FRAME_SECONDS)
