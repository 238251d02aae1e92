"""Means, levels and verdicts that sections and figures share."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .model import Case, SideBySide

# A speed-up counts as one if it is further from 1 than this many times its noise.
NOISE_FACTOR = 3

# Sparsities that benchmarks ask for; a matrix belongs to the one it meets within half a percent
# point, else to the interval between two of them.
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
LEVEL_TOLERANCE = 0.005


@dataclass(frozen=True, order=True)
class Level:
    """A sparsity, or an interval of sparsities (`low` < `high`)."""

    low: float
    high: float

    @property
    def label(self) -> str:
        if self.low == self.high:
            return f"{100 * self.low:g} %"
        if self.low == 0:
            return f"< {100 * self.high:g} %"
        if self.high == 1:
            return f"> {100 * self.low:g} %"
        return f"{100 * self.low:g}-{100 * self.high:g} %"


def level_of(sparsity: float) -> Level:
    for level in LEVELS:
        if abs(sparsity - level) <= LEVEL_TOLERANCE:
            return Level(level, level)
    edges = (0.0, *LEVELS, 1.0)
    high = next(i for i, edge in enumerate(edges) if sparsity <= edge or edge == 1)
    return Level(edges[max(high - 1, 0)], edges[max(high, 1)])


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    if not logs:
        raise ValueError("a mean of nothing; expected at least one value")
    return math.exp(sum(logs) / len(logs))


def percentile(values: Iterable[float], share: float) -> float:
    """Between the two nearest, as numpy's default."""
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (position - low) * (ordered[high] - ordered[low])


@dataclass(frozen=True)
class Summary:
    """Of the speed-ups over one peer."""

    cases: int
    mean: float  # geometric
    median: float
    least: float
    greatest: float
    faster: int  # beyond noise
    slower: int  # beyond noise


def speedups(cases: Iterable[Case], peer: str) -> list[tuple[Case, float]]:
    return [(case, ratio) for case in cases if (ratio := case.speedup(peer)) is not None]


def summarize(cases: Iterable[Case], peer: str) -> Summary | None:
    """None where no case has both."""
    pairs = speedups(cases, peer)
    if not pairs:
        return None
    ratios = [ratio for _, ratio in pairs]
    return Summary(
        cases=len(pairs), mean=geometric_mean(ratios), median=statistics.median(ratios),
        least=min(ratios), greatest=max(ratios),
        faster=sum(ratio > 1 + NOISE_FACTOR * case.noise(peer) for case, ratio in pairs),
        slower=sum(1 / ratio > 1 + NOISE_FACTOR * case.noise(peer) for case, ratio in pairs))


def grouped(cases: Iterable[Case], key: Callable[[Case], tuple]) -> dict[tuple, list[Case]]:
    """In the order of the keys."""
    groups: dict[tuple, list[Case]] = {}
    for case in cases:
        groups.setdefault(key(case), []).append(case)
    return dict(sorted(groups.items()))


def levels_of(cases: Iterable[Case]) -> list[Level]:
    return sorted({level_of(case.sparsity) for case in cases})


def noises(result: SideBySide) -> list[float]:
    return [timing.noise for case in result.cases for timing in case.timings.values()]


def with_threads(result: SideBySide, threads: int) -> list[Case]:
    return [case for case in result.cases if case.threads == threads]
