"""PP-OCRv4's text detector as the wheel rapidocr-onnxruntime has it, its convolutions pruned."""

from __future__ import annotations

import zipfile
from pathlib import Path

import bench_support  # noqa: F401  the examples' modules
import onnx
from onnx import numpy_helper
from pruning import pruned

MODEL = "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx"


def detector(wheel: Path, sparsity: float) -> onnx.ModelProto:
    """Input x [batch, 3, height, width], multiples of 32; outputs [batch, 1, height, width]: where
    text is, and last what its sigmoid takes, as without training the former is 0 everywhere."""
    with zipfile.ZipFile(wheel) as archive:
        model = onnx.load_model_from_string(archive.read(MODEL))
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
