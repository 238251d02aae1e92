#!/usr/bin/env python3
"""Writes kernels/activation_tables.hpp: what activations are computed from (docs/use/epilogue.md).

    python3 -m venv DIR && DIR/bin/pip install numpy scipy
    DIR/bin/python scripts/data/fit_activations.py kernels/activation_tables.hpp
    clang-format-14 -i kernels/activation_tables.hpp

A GELU's piece is a polynomial p(d) with p^2 or p^4 close to the upper tail Q(t) = 1 - Phi(t), where
t = |x|, d = t - center and |d| <= step / 2. At the largest t, which stands for all beyond, p is 0:
the last piece is, or its polynomial has a root there. SiLU has one polynomial, of e^-r on
[-ln 2, 0]; sigmoid and tanh have one on [-ln 2 / 2, ln 2 / 2], and tanh another near 0. A weighted least-squares fit is made minimax (Lawson's iteration) and rounded to floats,
whose bits (but for sigmoid and tanh) are then moved while the largest error of the result falls, computed in floats as the
kernel does. The same coefficients come out of every run. It takes three minutes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Callable

import numpy as np
from scipy.special import erfc

POINTS = 1_500_000  # where the error is looked at
WORST = 200  # of them: so many more are looked at after every move of a round
ROUNDS = 12
MOVES = 4000  # a round
LOG2_E, LN_2 = np.float32(1 / np.log(2)), np.float32(np.log(2))
TANH_NEAR = 0.625  # tanh is a polynomial below it

Function = Callable[[np.ndarray], np.ndarray]
# Errors at given points of floats from given coefficients.
Errors = Callable[[np.ndarray, np.ndarray], np.ndarray]

HEADER = """#pragma once

/// @file
/// Coefficients of activations. Written by scripts/data/fit_activations.py, which says what they
/// are.

#include <array>
#include <cstddef>
#include <cstdint>

namespace spjit {

/// Polynomials in t - center for t around 0, step, 2 * step, ... and up to `most`, where p is 0.
template <std::size_t Pieces, std::size_t Degree, int Root = 2>
struct GeluPieces {
  static constexpr std::size_t k_degree = Degree;
  static constexpr int k_root = Root;  ///< 2: the tail is p^2; 4: p^4
  float step;
  float most;
  alignas(64) float coefficients[Degree + 1][Pieces];  ///< of the powers of t - center, upwards
};

/// By the entries that a vector holds.
template <std::int64_t Entries>
inline constexpr auto k_gelu_erf = nullptr;
template <std::int64_t Entries>
inline constexpr auto k_gelu_tanh = nullptr;
"""


def tail_of_erf(t: np.ndarray) -> np.ndarray:
    return erfc(t / np.sqrt(2)) / 2


def tail_of_tanh(t: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(2 * np.sqrt(2 / np.pi) * (t + 0.044715 * t**3)))


def fma(a: np.ndarray, b: np.ndarray | np.float32, c: np.ndarray | np.float32) -> np.ndarray:
    return (a.astype(np.float64) * np.float64(b) + np.float64(c)).astype(np.float32)


def polynomial(coefficients: np.ndarray, d: np.ndarray) -> np.ndarray:
    """As the kernel computes it."""
    p = np.full_like(d, coefficients[-1])
    for c in coefficients[-2::-1]:
        p = fma(p, d, c)
    return p


def ulps(result: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Of errors, in units in the last place of the exact result as a float."""
    return np.abs(result - exact) / 2.0 ** (np.floor(np.log2(np.abs(exact))) - 23)


def minimax(d: np.ndarray, values: np.ndarray, degree: int, fixed: dict[int, float],
            tolerances: np.ndarray | None = None, end: float | None = None) -> np.ndarray:
    """Coefficients whose largest error, as a multiple of `tolerances` (relative if there are none),
    is smallest; those in `fixed` as given. With a root at `end`, which the lowest one makes."""
    units = values if tolerances is None else tolerances
    free = [k for k in range(0 if end is None else 1, degree + 1) if k not in fixed]
    scale = np.max(np.abs(d))

    def power(k: int, unit: float) -> np.ndarray:
        return (d / unit) ** k - (0 if end is None else (end / unit) ** k)

    basis = np.stack([power(k, scale) for k in free], 1) / units[:, None]
    goal = values / units - sum(c * power(k, 1) for k, c in fixed.items()) / units
    weights = np.ones(len(d))
    best = (np.inf, np.zeros(len(free)))
    for _ in range(100):
        root = np.sqrt(weights)
        found = np.linalg.lstsq(basis * root[:, None], goal * root, rcond=None)[0]
        errors = np.abs(basis @ found - goal)
        best = min(best, (errors.max(), found), key=lambda pair: pair[0])
        weights *= errors / errors.max() + 1e-3
        weights /= weights.sum()
    result = np.zeros(degree + 1)
    for k, c in fixed.items():
        result[k] = c
    for k, c in zip(free, best[1]):
        result[k] = c / scale**k
    return result


def rounded_minimax(d: np.ndarray, values: np.ndarray, degree: int,
                    fixed: dict[int, float]) -> np.ndarray:
    """The same in floats: the highest is rounded first, and the others make up for it."""
    fixed = dict(fixed)
    for k in range(degree, -1, -1):
        if k not in fixed:
            fixed[k] = float(np.float32(minimax(d, values, degree, fixed)[k]))
    return np.array([fixed[k] for k in range(degree + 1)], dtype=np.float32)


def improved(coefficients: np.ndarray, points: np.ndarray, errors: Errors,
             first: int) -> tuple[np.ndarray, float]:
    """Moves those from `first` on by units in the last place while the largest error falls."""
    random = np.random.default_rng(1)
    best, least = coefficients, np.inf
    current, seen = coefficients, random.choice(points, WORST)
    for _ in range(ROUNDS):
        everywhere = errors(current, points)
        if everywhere.max() < least:
            best, least = current, float(everywhere.max())
        worst = points[np.argpartition(everywhere, -WORST)[-WORST:]]
        seen = np.unique(np.concatenate([seen, worst]))
        current_error = errors(current, seen).max()
        for _ in range(MOVES):
            bits = current.view(np.int32).copy()
            changed = random.choice(np.arange(first, len(bits)), random.integers(1, 3), False)
            for k in changed:
                bits[k] += random.choice([-1, 1]) * 2 ** random.integers(0, 1 + 3 * min(k, 4))
            moved = bits.view(np.float32)
            moved_error = errors(moved, seen).max()
            if moved_error < current_error:
                current, current_error = moved, moved_error
    return best, least


def nodes(low: float, high: float) -> np.ndarray:
    return low + (high - low) * (0.5 - 0.5 * np.cos(np.pi * (np.arange(150) + 0.5) / 150))


def activated_tail(t: np.ndarray, p: np.ndarray, root: int) -> np.ndarray:
    """t * p^root as the kernel computes it, before the last rounding."""
    if root == 4:
        p = (p * p).astype(np.float32)
    return (t * p).astype(np.float32) * p.astype(np.float64)


def last_piece(tail: Function, center: float, most: float, step: float,
               degree: int) -> tuple[np.ndarray, float]:
    """Of p^4 with the root `most`, and its largest absolute error."""
    small = 4e-10  # of t * Q(t): below it p goes straight to its root
    end = most - center
    at = nodes(-step / 2, end)
    exact = (center + at) * tail(center + at)
    values = tail(center + at) ** 0.25
    first = np.argmax(exact < small)
    values = np.where(exact < small, values[first] * (end - at) / (end - at[first]), values)
    # What an absolute error of t * p^4 is of p.
    tolerances = 1e-10 / (4 * (center + at) * np.maximum(values, values[first]) ** 3)
    fixed: dict[int, float] = {}
    for k in range(degree, 0, -1):
        fixed[k] = float(np.float32(minimax(at, values, degree, fixed, tolerances, end)[k]))
    # The last product has to be exact at the end.
    for attempt in range(100):
        p = np.float32(fixed[degree])
        for k in range(degree - 1, 0, -1):
            p = np.float32(np.float64(p) * end + fixed[k])
        product = np.float64(p) * end
        if np.float32(product) == product:
            break
        moved = 1 + attempt % 3
        fixed[moved] = float(np.nextafter(np.float32(fixed[moved]), np.float32(0)))
    coefficients = np.array([-product] + [fixed[k] for k in range(1, degree + 1)], dtype=np.float32)
    t = np.linspace(center - step / 2, most, POINTS).astype(np.float32)
    result = activated_tail(t, polynomial(coefficients, t - np.float32(center)), 4)
    assert result[-1] == 0
    return coefficients, float(np.abs(result - t * tail(t.astype(np.float64))).max())


def piece(tail: Function, center: float, step: float, degree: int,
          root: int) -> tuple[np.ndarray, float]:
    low = 0.0 if center == 0 else -step / 2
    at = nodes(low, step / 2)
    start = rounded_minimax(at, tail(center + at) ** (1 / root), degree, {})
    spread = np.random.default_rng(2).uniform(max(center + low, 1e-3), center + step / 2, POINTS)

    def errors(coefficients: np.ndarray, t: np.ndarray) -> np.ndarray:
        p = polynomial(coefficients, t - np.float32(center))
        result = activated_tail(t, p, root).astype(np.float32)
        return ulps(result, t.astype(np.float64) * tail(t.astype(np.float64)))

    return improved(start, spread.astype(np.float32), errors, 0)


def numbers(values: np.ndarray) -> str:
    return ", ".join(np.format_float_scientific(v) + "F" for v in values)


def pieces(name: str, tail: Function, count: int, step: float, degree: int) -> str:
    """Sixteen of p^2, of which the last is 0; four of p^4."""
    root = 4 if count == 4 else 2
    most = 6.75 if count == 4 else step * (count - 1)
    columns = []
    for index in range(count - 1):
        coefficients, error = piece(tail, index * step, step, degree, root)
        print(f"{name}, {count} pieces: around {index * step:g}: {error:.2f} ulp", flush=True)
        columns.append(coefficients)
    if count == 4:
        coefficients, error = last_piece(tail, (count - 1) * step, most, step, degree)
        print(f"{name}, {count} pieces: around {(count - 1) * step:g}: {error:.1e}", flush=True)
        columns.append(coefficients)
    else:
        columns.append(np.zeros(degree + 1, dtype=np.float32))
    rows = ",\n".join("{" + numbers([c[k] for c in columns]) + "}" for k in range(degree + 1))
    return (f"template <>\ninline constexpr auto {name}<{count}> = "
            f"GeluPieces<{count}, {degree}, {root}>{{{step}F, {most}F, {{{rows}}}}};\n")


def exponential() -> str:
    random = np.random.default_rng(3)
    points = np.concatenate([random.uniform(-40, 0, POINTS), random.uniform(-4, 4, POINTS)])

    def errors(coefficients: np.ndarray, x: np.ndarray) -> np.ndarray:
        k = np.floor(x * -LOG2_E)
        power = polynomial(coefficients, fma(k, LN_2, x)).astype(np.float64) * 2.0**k
        result = x / (1 + power).astype(np.float32)
        return ulps(result, x / (1 + np.exp(-x.astype(np.float64))))

    at = nodes(-np.log(2), 0)
    start = rounded_minimax(at, np.exp(-at), 5, {0: 1.0})
    found, error = improved(start, points.astype(np.float32), errors, 1)
    print(f"silu: {error:.2f} ulp", flush=True)
    return (f"inline constexpr float k_log2_e = {numbers([LOG2_E])};\n"
            f"inline constexpr float k_ln_2 = {numbers([LN_2])};\n"
            "/// e^-r for -ln 2 <= r <= 0, by the powers of r, upwards.\n"
            f"inline constexpr std::array<float, 6> k_exp = {{{numbers(found)}}};\n")


def decayed(coefficients: np.ndarray, t: np.ndarray) -> np.ndarray:
    """e^-t as the kernel computes it."""
    large = np.float32(3 * 2**22 + 127)
    k = fma(t, -LOG2_E, large) - large
    power = polynomial(coefficients, fma(k, LN_2, t)).astype(np.float64) * 2.0**k
    return np.where(k == -127, 0, power).astype(np.float32)


def decay() -> str:
    """e^-r for |r| <= ln 2 / 2; the figures are errors of what sigmoid and tanh make of it."""
    half = np.log(2) / 2 * (1 + 1e-4)
    at = nodes(-half, half)
    found = rounded_minimax(at, np.exp(-at), 6, {0: 1.0, 1: -1.0})
    random = np.random.default_rng(4)
    x = random.uniform(0, 40, POINTS).astype(np.float32)
    e = decayed(found, x)
    below = ulps(e / (1 + e), 1 / (1 + np.exp(x.astype(np.float64))))
    x = random.uniform(TANH_NEAR, 10, POINTS).astype(np.float32)
    e = decayed(found, x + x)
    beyond = ulps((1 - e) / (1 + e), np.tanh(x.astype(np.float64)))
    print(f"sigmoid: {below.max():.2f} ulp; tanh: {beyond.max():.2f} ulp", flush=True)
    return ("/// e^-t of this is 0, as is that of anything larger.\n"
            "inline constexpr float k_decay_zero = 88;\n"
            "/// e^-r for |r| <= ln 2 / 2, by the powers of r, upwards.\n"
            f"inline constexpr std::array<float, 7> k_decay = {{{numbers(found)}}};\n")


def tanh_near() -> str:
    """tanh(x) / x by the powers of x^2, of which the lowest is 1."""
    square = nodes(1e-4, TANH_NEAR**2)
    root = np.sqrt(square)
    ratio = np.tanh(root) / root
    fixed: dict[int, float] = {}
    for k in range(4, -1, -1):
        found = minimax(square, (ratio - 1) / square, 4, fixed, ratio / square)
        fixed[k] = float(np.float32(found[k]))
    coefficients = np.array([1.0] + [fixed[k] for k in range(5)], dtype=np.float32)
    x = np.random.default_rng(5).uniform(1e-3, TANH_NEAR, POINTS).astype(np.float32)
    errors = ulps(x * polynomial(coefficients, x * x), np.tanh(x.astype(np.float64)))
    print(f"tanh near 0: {errors.max():.2f} ulp", flush=True)
    return ("/// tanh(x) / x for |x| below k_tanh_near, by the powers of x^2, upwards.\n"
            f"inline constexpr float k_tanh_near = {TANH_NEAR}F;\n"
            f"inline constexpr std::array<float, 6> k_tanh = {{{numbers(coefficients)}}};\n")


def main() -> None:
    parts = [HEADER]
    for name, tail, degree in (("k_gelu_erf", tail_of_erf, 8), ("k_gelu_tanh", tail_of_tanh, 9)):
        parts.append(pieces(name, tail, 16, 0.5, 5))
        parts.append(pieces(name, tail, 4, 2.0, degree))
    parts += [exponential(), decay(), tanh_near()]
    parts.append("}  // namespace spjit\n")
    Path(sys.argv[1]).write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
