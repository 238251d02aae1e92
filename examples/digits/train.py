#!/usr/bin/env python3
"""Trains, prunes and saves the example network: an MLP 64-512-512-10 on scikit-learn's digits.

The training is plain NumPy: Adam on the cross entropy, first dense, then in steps that each remove
the smallest weights of every layer and let the surviving ones recover. What is removed stays zero.

    python3 -m venv .venv && .venv/bin/pip install -r requirements.txt
    .venv/bin/python train.py [--out weights]

Seeded: the same package versions give the same network; another BLAS may change the last bits.
Exits with 1 and writes nothing if the pruned network falls below the accuracy asked for.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

# One thread, set before NumPy loads its BLAS: the order of a sum must not depend on the cores.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402
import scipy.sparse  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402
from sklearn.model_selection import train_test_split  # noqa: E402

LAYER_SIZES = (64, 512, 512, 10)
SPARSITY = (0.90, 0.90, 0.80)  # share of the weights removed, a layer
SPARSITY_STEPS = (0.5, 0.75, 0.9, 1.0)  # of SPARSITY, one pruning step each
DENSE_EPOCHS = 30
EPOCHS_A_STEP = 20
BATCH = 64
LEARNING_RATE = 1e-3
WEIGHT_DECAY = 1e-4
TEST_SHARE = 0.2
MIN_ACCURACY = 0.96


@dataclass
class Layer:
    weight: np.ndarray  # [out x in]
    bias: np.ndarray  # [out]
    mask: np.ndarray = field(init=False)  # [out x in], 1 where a weight survives
    moments: list[np.ndarray] = field(init=False)  # Adam: of weight and bias, first and second

    def __post_init__(self) -> None:
        self.mask = np.ones_like(self.weight)
        self.moments = [np.zeros_like(p) for p in (self.weight, self.weight, self.bias, self.bias)]

    def prune(self, sparsity: float) -> None:
        keep = self.weight.size - round(sparsity * self.weight.size)
        order = np.argsort(-np.abs(self.weight), axis=None, kind="stable")
        self.mask = np.zeros_like(self.weight)
        self.mask.flat[order[:keep]] = 1
        self.weight *= self.mask

    def step(self, weight_gradient: np.ndarray, bias_gradient: np.ndarray, t: int) -> None:
        """One step of Adam (Kingma and Ba 2015, Algorithm 1); t counts from 1."""
        gradients = ((weight_gradient + WEIGHT_DECAY * self.weight) * self.mask, bias_gradient)
        for i, (parameter, gradient) in enumerate(zip((self.weight, self.bias), gradients)):
            first, second = self.moments[2 * i], self.moments[2 * i + 1]
            first += (1 - 0.9) * (gradient - first)
            second += (1 - 0.999) * (gradient**2 - second)
            scale = LEARNING_RATE * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
            parameter -= (scale * first / (np.sqrt(second) + 1e-8)).astype(np.float32)
        self.weight *= self.mask


def make_layers(rng: np.random.Generator) -> list[Layer]:
    return [
        Layer((rng.standard_normal((out, inputs)) * np.sqrt(2 / inputs)).astype(np.float32),
              np.zeros(out, np.float32))
        for inputs, out in zip(LAYER_SIZES, LAYER_SIZES[1:])
    ]


def forward(layers: list[Layer], x: np.ndarray) -> list[np.ndarray]:
    """The input and every layer's output, `[features x samples]`; ReLU after all but the last."""
    outputs = [x]
    for i, layer in enumerate(layers):
        z = layer.weight @ outputs[-1] + layer.bias[:, None]
        outputs.append(np.maximum(z, 0) if i + 1 < len(layers) else z)
    return outputs


def accuracy(layers: list[Layer], x: np.ndarray, labels: np.ndarray) -> float:
    return float(np.mean(np.argmax(forward(layers, x)[-1], axis=0) == labels))


def train(layers: list[Layer], x: np.ndarray, labels: np.ndarray, epochs: int,
          rng: np.random.Generator, t: int) -> int:
    """Trains in place; returns the count of Adam steps so far."""
    for _ in range(epochs):
        order = rng.permutation(x.shape[1])
        for batch in np.array_split(order, x.shape[1] // BATCH):
            outputs = forward(layers, x[:, batch])
            logits = outputs[-1] - outputs[-1].max(axis=0)
            delta = np.exp(logits) / np.exp(logits).sum(axis=0)
            delta[labels[batch], np.arange(batch.size)] -= 1
            delta /= batch.size
            t += 1
            for i in reversed(range(len(layers))):
                gradients = delta @ outputs[i].T, delta.sum(axis=1)
                delta = (layers[i].weight.T @ delta) * (outputs[i] > 0)
                layers[i].step(*gradients, t)
    return t


def save(layers: list[Layer], x: np.ndarray, labels: np.ndarray, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for i, layer in enumerate(layers, 1):
        scipy.sparse.save_npz(out / f"fc{i}.npz", scipy.sparse.csr_matrix(layer.weight))
        np.save(out / f"fc{i}_bias.npy", layer.bias)
    np.save(out / "test_inputs.npy", np.ascontiguousarray(x))
    np.save(out / "test_labels.npy", labels.astype(np.int32))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent / "weights")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()

    digits = load_digits()
    pixels = (digits.data / 16).astype(np.float32)  # 0 .. 16 as 0 .. 1
    train_x, test_x, train_labels, test_labels = train_test_split(
        pixels, digits.target, test_size=TEST_SHARE, random_state=options.seed,
        stratify=digits.target)
    train_x, test_x = train_x.T, test_x.T  # a column is a sample

    rng = np.random.default_rng(options.seed)
    layers = make_layers(rng)
    t = train(layers, train_x, train_labels, DENSE_EPOCHS, rng, 0)
    print(f"dense: {accuracy(layers, test_x, test_labels):.4f} of {test_labels.size} test samples")
    for share in SPARSITY_STEPS:
        for layer, sparsity in zip(layers, SPARSITY):
            layer.prune(share * sparsity)
        t = train(layers, train_x, train_labels, EPOCHS_A_STEP, rng, t)
        sparsities = ", ".join(f"{1 - layer.mask.mean():.3f}" for layer in layers)
        print(f"sparsity {sparsities}: {accuracy(layers, test_x, test_labels):.4f}")

    reached = accuracy(layers, test_x, test_labels)
    if reached < MIN_ACCURACY:
        print(f"train.py: accuracy {reached:.4f}, expected at least {MIN_ACCURACY}; try another "
              "--seed", file=sys.stderr)
        return 1
    save(layers, test_x, test_labels, options.out)
    print(f"written to {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
