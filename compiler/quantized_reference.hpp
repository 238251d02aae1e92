#pragma once

/// @file
/// Bytes that B is quantised to, and elements of C that are made of them: what checks compare with,
/// independent of plan/quantization.hpp, which kernels use.

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/host/operands/placement.hpp"
#include "plan/group_scales.hpp"
#include "plan/quantization.hpp"
#include "spjit/numerics.hpp"

namespace spjit {

/// Numerics, and what the tensor of B is quantised by.
struct QuantizedNumerics {
  Numerics numerics = {};
  /// If they are not those of this B alone; with Quantization::given they are there.
  std::optional<ByteScale> of_tensor = {};
  GroupScalesView groups = {};
};

/// Some columns of a B `[k x n]` that is quantised, or of the image that B is of. Both are
/// borrowed.
class QuantizedColumns {
 public:
  QuantizedColumns(const void* b, const PlacementOfB& layout, std::int64_t rows,
                   const std::vector<std::int64_t>& columns, const QuantizedNumerics& how);

  /// The byte of row `row` and of the i-th of the columns, less the zero point; 0 outside of an
  /// image.
  [[nodiscard]] double difference(std::int64_t row, std::size_t i) const;
  [[nodiscard]] float scale(std::size_t i) const { return scales_[i].scale; }

 private:
  [[nodiscard]] double element(std::int64_t row, std::int64_t column) const;
  [[nodiscard]] ByteScale of_range(double least, double largest) const;
  [[nodiscard]] ByteScale of_tensor() const;
  [[nodiscard]] ByteScale of_token(std::int64_t column) const;

  const void* b_;
  PlacementOfB layout_;
  std::int64_t rows_;
  std::vector<std::int64_t> columns_;
  Numerics numerics_;
  std::vector<ByteScale> scales_;  ///< of the columns
};

}  // namespace spjit
