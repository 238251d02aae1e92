"""ResNet-50 in plain PyTorch, with weights drawn at random."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Convolution(nn.Sequential):
    """A convolution and the norm behind it."""

    def __init__(self, inputs: int, outputs: int, size: int, stride: int = 1) -> None:
        super().__init__(nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False),
                         nn.BatchNorm2d(outputs))


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.branch = nn.Sequential(
            Convolution(inputs, width, 1), nn.ReLU(), Convolution(width, width, 3, stride),
            nn.ReLU(), Convolution(width, outputs, 1))
        is_same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if is_same else Convolution(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.branch(x) + self.shortcut(x))


class ResNet50(nn.Module):
    """Scores [images, 1000] of images [images, 3, height, width]. `width`: channels of the first
    layer, of ResNet-50 64; `blocks` of each stage."""

    def __init__(self, width: int = 64, blocks: tuple[int, ...] = (3, 4, 6, 3)) -> None:
        super().__init__()
        self.stem = nn.Sequential(Convolution(3, width, 7, 2), nn.ReLU(),
                                  nn.MaxPool2d(3, stride=2, padding=1))
        stages, channels = [], width
        for stage, count in enumerate(blocks):
            inner = width * 2**stage
            for block in range(count):
                stages.append(Bottleneck(channels, inner, 2 if stage and not block else 1))
                channels = 4 * inner
        self.stages = nn.Sequential(*stages)
        self.scores = nn.Linear(channels, 1000)

    def forward(self, images: Tensor) -> Tensor:
        return self.scores(self.stages(self.stem(images)).mean((2, 3)))
