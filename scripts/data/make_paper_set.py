#!/usr/bin/env python3
"""Makes bench/paper_set.json: 41 GEMM shapes of BERT, ResNet-50, ShuffleNetV2 and MobileNetV2 and
five sparsities, 205 kernels.

    scripts/data/make_paper_set.py [--out FILE] [--check]

LO-SpMM (ACM TACO 2024, section 7.1) says of its benchmark: GEMMs of these four networks, 41
distinct shapes, randomly pruned at five sparsities; M from 64 to 3,072, N from 512 to 50,176, K
from 27 to 3,072. It names neither the shapes nor the sparsities. So every layer is taken from the
networks' published definitions, and kept if it lies in those ranges: a batch of 4 images of 224 x
224 puts the first layers at N = 50,176 = 4 x 112 x 112, and 4 sequences of 128 tokens put BERT at N
= 512. Those are the ranges' ends. BERT at a batch of 32 is the paper's own (3,072, 4,096, 768).
That gives 41 shapes, but nobody knows whether they are the paper's 41.

--check compares FILE with what would be written and exits with 1 if they differ.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The paper's ranges and counts (section 7.1).
M_RANGE, N_RANGE, K_RANGE = (64, 3072), (512, 50176), (27, 3072)
SHAPES = 41

# 50, 70 and 98 % are the sparsities of the paper's examples (sections 5.1.3, 5 and 4.3); 90 and
# 95 % are levels of DLMC between them. The paper prunes at random: the generator's `uniform`.
SPARSITIES = (0.5, 0.7, 0.9, 0.95, 0.98)
PATTERN = "uniform"

IMAGE, IMAGE_BATCH = 224, 4
SEQUENCE, SEQUENCE_BATCHES = 128, (4, 32)


@dataclass(frozen=True)
class Gemm:
    """C [m x n] = A [m x k] * B [k x n]; A holds the weights."""

    network: str
    layer: str
    m: int
    k: int
    n: int
    origin: dict[str, int | str]  # how n and k come about


def convolution(network: str, layer: str, channels: tuple[int, int], kernel: int,
                size: int) -> Gemm:
    """Of (input, output) channels; `size` is the height and width of the output."""
    inputs, outputs = channels
    origin = {"kind": f"{kernel}x{kernel} convolution", "image": IMAGE, "batch": IMAGE_BATCH,
              "output": f"{size}x{size}"}
    return Gemm(network, layer, outputs, inputs * kernel * kernel, size * size * IMAGE_BATCH,
                origin)


def resnet50() -> Iterator[Gemm]:
    """He et al. 2016, the stride in the 3x3 convolutions (version 1.5, as in torchvision)."""
    name = "ResNet-50"
    yield convolution(name, "conv1", (3, 64), 7, 112)
    # The only stem of 3 x 3 x 3 inputs with 64 outputs: the paper's K = 27 with M >= 64.
    yield convolution("ResNet-50 v1s (deep stem)", "conv1.0", (3, 64), 3, 112)
    inputs, size = 64, 56
    for stage, blocks in enumerate((3, 4, 6, 3), 1):
        width = 32 << stage
        for block in range(blocks):
            before = size
            if block == 0 and stage > 1:
                size //= 2
            layer = f"layer{stage}.{block}"
            yield convolution(name, f"{layer}.conv1", (inputs, width), 1, before)
            yield convolution(name, f"{layer}.conv2", (width, width), 3, size)
            yield convolution(name, f"{layer}.conv3", (width, 4 * width), 1, size)
            if block == 0:
                yield convolution(name, f"{layer}.downsample", (inputs, 4 * width), 1, size)
            inputs = 4 * width


def mobilenet_v2() -> Iterator[Gemm]:
    """Sandler et al. 2018, table 2, width 1. Depthwise convolutions are no GEMMs."""
    name, size, inputs = "MobileNetV2", 112, 32
    yield convolution(name, "features.0", (3, 32), 3, size)
    index = 0
    for expansion, outputs, repeats, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2),
                                                (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                                                (6, 320, 1, 1)):
        for repeat in range(repeats):
            index += 1
            hidden = expansion * inputs
            if expansion > 1:
                yield convolution(name, f"features.{index}.expand", (inputs, hidden), 1, size)
            if repeat == 0:
                size //= stride
            yield convolution(name, f"features.{index}.project", (hidden, outputs), 1, size)
            inputs = outputs
    yield convolution(name, "features.18", (inputs, 1280), 1, size)


def shufflenet_v2(width: str, channels: tuple[int, int, int], last: int) -> Iterator[Gemm]:
    """Ma et al. 2018, table 5. A unit works on half the channels; the first of a stage halves the
    image and works on both branches."""
    name, inputs, size = f"ShuffleNetV2 {width}", 24, 56
    yield convolution(name, "conv1", (3, inputs), 3, 112)
    for stage, outputs in enumerate(channels, 2):
        half = outputs // 2
        layer = f"stage{stage}.0"
        yield convolution(name, f"{layer}.branch2.pointwise1", (inputs, half), 1, size)
        size //= 2
        yield convolution(name, f"{layer}.branch1.pointwise", (inputs, half), 1, size)
        yield convolution(name, f"{layer}.branch2.pointwise2", (half, half), 1, size)
        yield convolution(name, f"stage{stage}.1.branch2.pointwise1", (half, half), 1, size)
        inputs = outputs
    yield convolution(name, "conv5", (inputs, last), 1, size)


def bert() -> Iterator[Gemm]:
    """Devlin et al. 2019, BERT-base: hidden size 768, feed-forward 3072."""
    for batch in SEQUENCE_BATCHES:
        origin = {"kind": "linear", "sequence": SEQUENCE, "batch": batch}
        for layer, outputs, inputs in (("attention.query", 768, 768),
                                       ("intermediate.dense", 3072, 768),
                                       ("output.dense", 768, 3072)):
            yield Gemm("BERT-base", f"encoder.layer.0.{layer}", outputs, inputs,
                       SEQUENCE * batch, origin)


def in_ranges(gemm: Gemm) -> bool:
    return all(low <= value <= high for value, (low, high) in
               ((gemm.m, M_RANGE), (gemm.n, N_RANGE), (gemm.k, K_RANGE)))


def paper_shapes() -> list[Gemm]:
    """The distinct shapes in the paper's ranges, each under the first layer that has it."""
    layers = [*bert(), *resnet50(), *shufflenet_v2("1x", (116, 232, 464), 1024),
              *shufflenet_v2("1.5x", (176, 352, 704), 1024),
              *shufflenet_v2("2x", (244, 488, 976), 2048), *mobilenet_v2()]
    shapes: dict[tuple[int, int, int], Gemm] = {}
    for gemm in filter(in_ranges, layers):
        shapes.setdefault((gemm.m, gemm.n, gemm.k), gemm)
    return list(shapes.values())


def paper_set() -> dict:
    shapes = paper_shapes()
    if len(shapes) != SHAPES:
        raise SystemExit(f"{len(shapes)} shapes; expected {SHAPES}")
    return {
        "schema": "spjit-paper-set-1",
        "source": "LO-SpMM (ACM TACO 2024), section 7.1, gives the networks, the number of shapes "
                  "and of sparsities, and the ranges of M, N and K; scripts/data/make_paper_set.py says "
                  "how shapes and sparsities were chosen within them",
        "pattern": PATTERN,
        "sparsities": list(SPARSITIES),
        "seed": "1000 * id + round(1000 * sparsity): of the positions and of the values",
        "shapes": [{"id": number, "network": g.network, "layer": g.layer, "m": g.m, "k": g.k,
                    "n": g.n, "origin": g.origin} for number, g in enumerate(shapes, 1)],
    }


def to_text(document: dict) -> str:
    """JSON with one shape a line."""
    head = {name: value for name, value in document.items() if name != "shapes"}
    text = json.dumps(head, indent=1)[:-2] + ',\n "shapes": [\n'
    return text + ",\n".join("  " + json.dumps(s) for s in document["shapes"]) + "\n ]\n}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "bench/paper_set.json")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if they differ")
    arguments = parser.parse_args()
    text = to_text(paper_set())
    if arguments.check:
        same = arguments.out.is_file() and arguments.out.read_text(encoding="utf-8") == text
        print(f"{arguments.out}: {'as it should be' if same else 'differs; run without --check'}")
        return 0 if same else 1
    arguments.out.write_text(text, encoding="utf-8")
    print(f"{arguments.out}: {SHAPES} shapes x {len(SPARSITIES)} sparsities")
    return 0


if __name__ == "__main__":
    sys.exit(main())
