#pragma once

/// @file
/// Rows of bf16 and f16 on their way from B, and on their way to C. In between all is fp32.

#include <cstddef>
#include <cstdint>

#include "kernels/host/operands/finish.hpp"
#include "kernels/host/operands/half_floats.hpp"
#include "kernels/host/operands/transpose.hpp"
#include "spjit/data_type.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// Where elements of bf16 or f16 are, in rows.
template <class Bits>
struct HalfRows {
  Bits* data = nullptr;
  std::int64_t ld = 0;  ///< elements between rows
  DataType type = DataType::bf16;

  [[nodiscard]] Bits* at(std::int64_t row, std::int64_t column) const noexcept {
    return data + row * ld + column;
  }
  [[nodiscard]] HalfRows from(std::int64_t row, std::int64_t column) const noexcept {
    return {at(row, column), ld, type};
  }
};
using HalfSource = HalfRows<const std::uint16_t>;
using HalfTarget = HalfRows<std::uint16_t>;

/// Rows `[rows x columns]` as floats. Nothing else is read or written. Precondition: this CPU has
/// `isa`.
void widen_rows(const HalfSource& from, std::int64_t rows, std::int64_t columns,
                const DenseTarget& to, HostIsa isa);

/// Rows `[rows x columns]` as floats of their transpose `[columns x rows]`.
void widen_transposed(const HalfSource& from, std::int64_t rows, std::int64_t columns,
                      const DenseTarget& to, HostIsa isa);

/// A finish() to elements of bf16 or f16; `task` has neither result nor residual.
struct RoundedFinish {
  Finish task;
  HalfTarget to;             ///< `[rows x columns]`, or with tokens `[columns x rows]`
  HalfSource residual = {};  ///< as `to`, and it may be there; null: there is none
};

/// Computes C in fp32 and rounds each element once.
void finish(const RoundedFinish& rounded, HostIsa isa);

}  // namespace spjit
