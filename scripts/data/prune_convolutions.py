#!/usr/bin/env python3
"""Prunes the convolutions of rapidocr's text detector by magnitude, each by itself.

    scripts/data/prune_convolutions.py WHEEL OUT SPARSITY...

Reads PP-OCRv4's detector (ONNX; 62 convolutions, 14 of them depthwise, 3x3 and 5x5) from the wheel
rapidocr-onnxruntime and writes OUT/rapidocr-det-SPARSITY: NN.npz for each (scipy.sparse CSR,
[filters x channels / groups * taps]), and convolutions.json with their sizes, for an image of
640 x 640, in the order of a pass. Needs the package onnx. scripts/data/make_networks.sh runs it.
"""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.shape_inference
import scipy.sparse

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "shared"))
from pruning import pruned  # noqa: E402

MODEL = "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx"
IMAGE = (1, 3, 640, 640)


def with_sizes(model: onnx.ModelProto) -> onnx.ModelProto:
    """Shapes of all tensors for one IMAGE. Those that the model has are of any image."""
    del model.graph.value_info[:]
    for dimension, size in zip(model.graph.input[0].type.tensor_type.shape.dim, IMAGE, strict=True):
        dimension.Clear()
        dimension.dim_value = size
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def sizes_of(model: onnx.ModelProto) -> dict[str, list[int]]:
    return {value.name: [dimension.dim_value for dimension in value.type.tensor_type.shape.dim]
            for value in [*model.graph.input, *model.graph.value_info]}


def constants_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    constants = {one.name: onnx.numpy_helper.to_array(one) for one in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            constants[node.output[0]] = onnx.numpy_helper.to_array(node.attribute[0].t)
    return constants


def convolution_of(node: onnx.NodeProto, image: list[int], weights: np.ndarray) -> dict:
    """As plan/convolution.hpp reads it."""
    given = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    if given.get("auto_pad", b"NOTSET") != b"NOTSET" or min(image) < 1 or weights.ndim != 4:
        raise ValueError(f"{node.name}: expected a 2-D convolution with explicit padding of an "
                         f"image of known size, not {image}")
    return {"channels": image[1], "height": image[2], "width": image[3],
            "kernel": list(weights.shape[2:]), "stride": given.get("strides", [1, 1]),
            "pad": given.get("pads", [0, 0, 0, 0]), "dilation": given.get("dilations", [1, 1]),
            "groups": given.get("group", 1)}


def convolutions_of(model: onnx.ModelProto) -> list[tuple[dict, np.ndarray]]:
    """Sizes and weights [filters x channels / groups * taps]."""
    model = with_sizes(model)
    sizes, constants = sizes_of(model), constants_of(model)
    found = []
    for node in model.graph.node:
        if node.op_type == "Conv":
            weights = constants[node.input[1]].astype(np.float32)
            sizes_of_node = convolution_of(node, sizes[node.input[0]], weights)
            found.append((sizes_of_node, weights.reshape(weights.shape[0], -1)))
    return found


def main() -> int:
    if len(sys.argv) < 4:
        print(__doc__, file=sys.stderr)
        return 2
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        convolutions = convolutions_of(onnx.load_model_from_string(wheel.read(MODEL)))
    for sparsity in map(int, sys.argv[3:]):
        folder = Path(sys.argv[2]) / f"rapidocr-det-{sparsity}"
        folder.mkdir()
        layers = []
        for number, (sizes, weights) in enumerate(convolutions):
            file = f"{number:02}.npz"
            layer = scipy.sparse.csr_matrix(pruned(weights, sparsity / 100))
            scipy.sparse.save_npz(folder / file, layer)
            layers.append({"name": f"conv {number}", "file": file, "convolution": sizes})
        document = {"schema": "spjit-convolutions-1", "source": Path(sys.argv[1]).name,
                    "model": MODEL, "sparsity": sparsity, "layers": layers}
        (folder / "convolutions.json").write_text(json.dumps(document, indent=1) + "\n",
                                                  encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
