#pragma once

/// @file
/// Rows of bf16, f16, i8 and u8 on their way from B, and on their way to C. In between all is fp32.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/host/operands/finish.hpp"
#include "kernels/host/operands/half_floats.hpp"
#include "kernels/host/operands/placement.hpp"
#include "kernels/host/operands/transpose.hpp"
#include "plan/quantization.hpp"
#include "spjit/data_type.hpp"
#include "spjit/operand.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// Whether elements are narrower than a float.
[[nodiscard]] constexpr bool is_narrow(DataType type) noexcept {
  return is_half(type) || is_byte(type);
}

/// Where narrow elements are, in rows. Void is void or const void.
template <class Void>
struct NarrowRows {
  Void* data = nullptr;
  std::int64_t ld = 0;  ///< elements between rows
  DataType type = DataType::bf16;
  ByteScale scale = {};  ///< of bytes

  [[nodiscard]] Void* at(std::int64_t row, std::int64_t column) const noexcept {
    using Byte = std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>;
    const std::int64_t bytes = is_half(type) ? 2 : 1;
    return static_cast<Byte*>(data) + (row * ld + column) * bytes;
  }
  [[nodiscard]] NarrowRows from(std::int64_t row, std::int64_t column) const noexcept {
    return {at(row, column), ld, type, scale};
  }
};
using NarrowSource = NarrowRows<const void>;
using NarrowTarget = NarrowRows<void>;

/// From an element of a narrow operand on. `scale`: that of bytes.
template <class Void>
NarrowRows<Void> narrow_rows(const BasicOperand<Void>& operand, const Placement& place,
                             const ByteScale& scale, std::int64_t row, std::int64_t column) {
  const NarrowRows<Void> all{operand.data, 0, operand.type, scale};
  NarrowRows<Void> rows = all.from(0, place.offset(row, column));
  rows.ld = place.row_distance();
  return rows;
}

/// Rows `[rows x columns]` as floats. Nothing else is read or written. Precondition: this CPU has
/// `isa`.
void widen_rows(const NarrowSource& from, std::int64_t rows, std::int64_t columns,
                const DenseTarget& to, HostIsa isa);

/// Rows `[rows x columns]` as floats of their transpose `[columns x rows]`.
void widen_transposed(const NarrowSource& from, std::int64_t rows, std::int64_t columns,
                      const DenseTarget& to, HostIsa isa);

/// A finish() to narrow elements; `task` has neither result nor residual.
struct RoundedFinish {
  Finish task;
  NarrowTarget to;             ///< `[rows x columns]`, or with tokens `[columns x rows]`
  NarrowSource residual = {};  ///< as `to`, and it may be there; null: there is none
};

/// Computes C in fp32 and rounds each element once.
void finish(const RoundedFinish& rounded, HostIsa isa);

}  // namespace spjit
