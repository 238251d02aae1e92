"""ResNet-50's bottlenecks with weights at random: one stage of them, and all stages."""

from __future__ import annotations

import bench_support  # noqa: F401  the examples' modules
import numpy as np
import onnx
from graph_builder import GraphBuilder
from pruning import pruned

EXPANSION = 4
BLOCKS = 3  # of one stage
STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # channels within blocks, and blocks
STEM = 64  # channels of the first stage's input


class _Builder(GraphBuilder):
    def __init__(self, sparsity: float) -> None:
        super().__init__()
        self._sparsity = sparsity
        self._rng = np.random.default_rng(0)

    def conv(self, x: str, sizes: tuple[int, int], kernel: int, stride: int, gain: float) -> str:
        """Of (out, in) channels. `gain`: of the variance."""
        out, given = sizes
        weight = pruned(self._rng.standard_normal((out, given * kernel * kernel)).astype(
            np.float32), self._sparsity)
        weight *= np.sqrt(gain / np.square(weight).sum(axis=1).mean())
        name = f"w{len(self.nodes)}"
        return self.node(
            "Conv", x, self.constant(name, weight.reshape(out, given, kernel, kernel)),
            self.constant(f"{name} bias", 0.1 * self._rng.standard_normal(out).astype(np.float32)),
            kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4)

    def bottleneck(self, x: str, given: int, channels: int, stride: int = 1) -> str:
        out = EXPANSION * channels
        inner = self.node("Relu", self.conv(x, (channels, given), 1, 1, 2))
        inner = self.node("Relu", self.conv(inner, (channels, channels), 3, stride, 2))
        left = x if given == out else self.conv(x, (out, given), 1, stride, 1)
        # Less than 1, so that sums of many blocks do not grow.
        return self.node("Relu", self.node("Add", self.conv(inner, (out, channels), 1, 1, 0.5),
                                           left))


def stage(sparsity: float, channels: int) -> onnx.ModelProto:
    """x [1, 4 channels, height, width], through three blocks that keep its shape."""
    builder, x = _Builder(sparsity), "x"
    shape = [1, EXPANSION * channels, "height", "width"]
    for _ in range(BLOCKS):
        x = builder.bottleneck(x, EXPANSION * channels, channels)
    return builder.model({"x": shape}, ("y", shape))


def stages(sparsity: float) -> onnx.ModelProto:
    """x [1, 64, height, width], which is what ResNet-50's first layer gives: all that follows it,
    but for the classifier."""
    builder = _Builder(sparsity)
    x = builder.node("MaxPool", "x", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    given = STEM
    for index, (channels, blocks) in enumerate(STAGES):
        for block in range(blocks):
            x = builder.bottleneck(x, given, channels, 2 if index > 0 and block == 0 else 1)
            given = EXPANSION * channels
    builder.node("GlobalAveragePool", x)
    return builder.model({"x": [1, STEM, "height", "width"]}, ("y", [1, given, 1, 1]))
