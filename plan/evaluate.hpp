#pragma once

/// @file
/// What every kernel is tested against: a slow evaluation of the plan that is right bit for bit.

#include <cstdint>

#include "plan/kernel_plan.hpp"
#include "spjit/arguments.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// How `a * b + c` is rounded.
enum class Arithmetic : std::uint8_t {
  fused,     ///< once: avx512, avx2
  separate,  ///< the product, then the sum: generic
};

[[nodiscard]] Arithmetic arithmetic_of(HostIsa isa) noexcept;

/// c[j] += value * b[j] for j < n, rounded as a kernel rounds it.
using AddScaledRow = void (*)(float value, const float* b, float* c, std::int64_t n);
[[nodiscard]] AddScaledRow add_scaled_row_of(Arithmetic arithmetic) noexcept;

/// C = A * B by walking the plan in its order: tiles, k blocks, columns, entries. Writes the rows
/// that the plan's tiles hold and +0 to its empty rows. Kernels of this plan must give the same
/// bits.
void evaluate(const KernelPlan& plan, Arithmetic arithmetic, const Arguments& operands);

}  // namespace spjit
