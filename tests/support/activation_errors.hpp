#pragma once

/// @file
/// Activations by their definitions in double, and what docs/use/epilogue.md promises of their
/// errors.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "spjit/epilogue.hpp"
#include "spjit/target.hpp"

namespace spjit::testing_support {

/// By the definition, in double.
[[nodiscard]] inline double exact_activation(Activation activation, double x) {
  if (activation == Activation::hard_swish) return x * std::clamp(x + 3, 0.0, 6.0) / 6;
  if (activation == Activation::sigmoid) return 1 / (1 + std::exp(-x));
  if (activation == Activation::tanh) return std::tanh(x);
  if (activation == Activation::gelu_erf) return x / 2 * std::erfc(-x / std::sqrt(2.0));
  const double z = activation == Activation::silu
                       ? x
                       : 2 * std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * std::pow(x, 3));
  return x / (1 + std::exp(-z));
}

/// Of the exact result as a float; denormal results all have the same.
[[nodiscard]] inline double ulp_of(double value) {
  return std::ldexp(1.0, std::max(std::ilogb(value), -126) - 23);
}

/// The error bound of docs/use/epilogue.md for low <= x < high.
struct Interval {
  float low;
  float high;
  double ulps;
  double absolute;
};

[[nodiscard]] inline std::vector<Interval> promises(Activation activation, HostIsa isa) {
  constexpr float k_max = std::numeric_limits<float>::max();
  constexpr double k_inf = std::numeric_limits<double>::infinity();
  if (activation == Activation::hard_swish) return {{-k_max, k_max, 2.5, k_inf}};
  if (isa == HostIsa::generic) return {{-k_max, k_max, 0.501, k_inf}};
  if (activation == Activation::tanh) return {{-k_max, k_max, 1.6, k_inf}};
  if (activation == Activation::sigmoid) {
    return {{-k_max, -87.3F, k_inf, 1.2e-38}, {-87.3F, -40, 4.6, k_inf}, {-40, k_max, 2.6, k_inf}};
  }
  if (activation == Activation::silu) {
    return {{-k_max, -88.7F, k_inf, 3e-37}, {-88.7F, -40, 5.5, k_inf}, {-40, k_max, 4, k_inf}};
  }
  if (isa == HostIsa::avx2) {
    return {{-k_max, -4.5F, k_inf, 3e-10}, {-4.5F, -2.5F, 16, 7e-9}, {-2.5F, k_max, 7, k_inf}};
  }
  return {{-k_max, -4.5F, k_inf, 3e-10}, {-4.5F, -2.5F, 10, 5e-9}, {-2.5F, k_max, 4, k_inf}};
}

/// The largest errors in an interval.
struct WorstError {
  Interval interval;
  double ulps = 0;
  double absolute = 0;
  float x = 0;

  void add(float at, float result, double expected) {
    const double error = std::abs(result - expected);
    absolute = std::max(absolute, error);
    if (error <= ulps * ulp_of(expected)) return;
    ulps = error / ulp_of(expected);
    x = at;
  }
};

}  // namespace spjit::testing_support
