"""Pruning by magnitude."""

from __future__ import annotations

import numpy as np


def pruned(weights: np.ndarray, sparsity: float) -> np.ndarray:
    """A copy whose smallest numbers by magnitude are 0. `sparsity`: the share of zeros, 0 to 1."""
    dropped = round(weights.size * sparsity)
    kept = weights.copy(order="C")
    kept.reshape(-1)[np.argsort(np.abs(kept), axis=None, kind="stable")[:dropped]] = 0
    return kept
