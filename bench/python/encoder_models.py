"""Networks of linear layers with weights at random: the layers of MiniLM-L6 as a chain, and encoder
blocks of the Transformer in DLMC, with entries where they are there."""

from __future__ import annotations

from pathlib import Path

import bench_support  # noqa: F401  the examples' modules
import numpy as np
import onnx
from graph_builder import GraphBuilder
from pruning import pruned

CHAIN_HIDDEN, CHAIN_INNER, BLOCKS = 384, 1536, 6
HIDDEN, HEADS = 512, 8
NAMES = {"q": "self_attention_multihead_attention_q", "k": "self_attention_multihead_attention_k",
         "v": "self_attention_multihead_attention_v",
         "o": "self_attention_multihead_attention_output_transform", "up": "ffn_conv1",
         "down": "ffn_conv2"}


def chain(sparsity: float) -> onnx.ModelProto:
    """x [tokens, 384], through MatMul and Add of each of 36 layers. Rows are of length 1, so that
    numbers neither grow nor vanish."""
    rng = np.random.default_rng(0)
    builder, x = GraphBuilder(), "x"
    for index, (out, given) in enumerate([*[(CHAIN_HIDDEN, CHAIN_HIDDEN)] * 4,
                                          (CHAIN_INNER, CHAIN_HIDDEN),
                                          (CHAIN_HIDDEN, CHAIN_INNER)] * BLOCKS):
        weight = pruned(rng.standard_normal((out, given)).astype(np.float32), sparsity)
        weight /= np.linalg.norm(weight, axis=1, keepdims=True)
        product = builder.node("MatMul", x, builder.constant(f"w{index}", weight.T.copy()))
        bias = builder.constant(f"b{index}", 0.1 * rng.standard_normal(out).astype(np.float32))
        x = builder.node("Add", product, bias)
    shape = ["tokens", CHAIN_HIDDEN]
    return builder.model({"x": shape}, ("y", shape))


def read(path: Path, rng: np.random.Generator) -> np.ndarray:
    """[out, in], of the size that keeps the variance of its inputs."""
    sizes, offsets, columns = path.read_text(encoding="utf-8").splitlines()[:3]
    rows, count, _ = map(int, sizes.split(","))
    lengths = np.diff(np.array(offsets.split(), np.int64))
    weight = np.zeros((rows, count), np.float32)
    places = np.repeat(np.arange(rows), lengths), np.array(columns.split(), np.int64)
    weight[places] = rng.standard_normal(len(places[0])) / np.sqrt(max(lengths.mean(), 1))
    return weight


class _Builder(GraphBuilder):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._rng = np.random.default_rng(0)

    def linear(self, x: str, block: int, name: str) -> str:
        weight = read(self._folder / f"body_encoder_layer_{block}_{NAMES[name]}.smtx", self._rng)
        product = self.node("MatMul", x, self.constant(f"{block}.{name}", weight.T.copy()))
        bias = self._rng.standard_normal(len(weight)).astype(np.float32)
        return self.node("Add", product, self.constant(f"{block}.{name}.bias", bias))

    def normalized(self, x: str, name: str) -> str:
        one, zero = np.ones(HIDDEN, np.float32), np.zeros(HIDDEN, np.float32)
        return self.node("LayerNormalization", x, self.constant(f"{name}.scale", one),
                         self.constant(f"{name}.shift", zero), axis=-1)

    def heads(self, x: str, perm: list[int]) -> str:
        shape = self.constant("heads", np.array([0, 0, HEADS, HIDDEN // HEADS]))
        return self.node("Transpose", self.node("Reshape", x, shape), perm=perm)

    def attention(self, x: str, block: int) -> str:
        query, key, value = (self.linear(x, block, name) for name in "qkv")
        scores = self.node("MatMul", self.heads(query, [0, 2, 1, 3]), self.heads(key, [0, 2, 3, 1]))
        scores = self.node("Mul", scores, self.constant(
            "scale", np.float32((HIDDEN // HEADS)**-0.5)))
        mixed = self.node("MatMul", self.node("Softmax", scores, axis=-1),
                          self.heads(value, [0, 2, 1, 3]))
        joined = self.node("Reshape", self.node("Transpose", mixed, perm=[0, 2, 1, 3]),
                           self.constant("joined", np.array([0, 0, HIDDEN])))
        output = self.linear(joined, block, "o")
        return self.normalized(self.node("Add", output, x), f"{block}.attention")

    def feed_forward(self, x: str, block: int) -> str:
        inner = self.node("Relu", self.linear(x, block, "up"))
        output = self.linear(inner, block, "down")
        return self.normalized(self.node("Add", output, x), f"{block}.ffn")


def encoder(folder: Path, with_attention: bool) -> onnx.ModelProto:
    """Six blocks, or only their feed-forward networks. `folder` is a level of DLMC's Transformer.
    Input x and output y [sentences, tokens, 512]."""
    builder, x = _Builder(folder), "x"
    for block in range(BLOCKS):
        if with_attention:
            x = builder.attention(x, block)
        x = builder.feed_forward(x, block)
    shape = ["sentences", "tokens", HIDDEN]
    return builder.model({"x": shape}, ("y", shape))
