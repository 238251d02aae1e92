#include "buffers.hpp"

#include <algorithm>
#include <limits>

#include "spjit/matrix_io.hpp"

namespace spjit::cli {
namespace {

constexpr std::uint64_t k_b_seed = 20240229;

}  // namespace

Operands::Operands(std::int64_t m, std::int64_t k, std::int64_t columns)
    : n(columns),
      b(static_cast<std::size_t>(k * columns)),
      c(static_cast<std::size_t>(m * columns)) {
  float* next = b.data();
  for (std::int64_t row = 0; row < k; ++row) {
    for (std::int64_t col = 0; col < n; ++col) *next++ = pattern_value(k_b_seed, row, col);
  }
  std::fill(c.span().begin(), c.span().end(), std::numeric_limits<float>::quiet_NaN());
}

}  // namespace spjit::cli
