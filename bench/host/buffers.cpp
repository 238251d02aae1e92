#include "bench/host/buffers.hpp"

#include "spjit/matrix_io.hpp"

namespace spjit::bench {
namespace {

constexpr std::size_t k_line = 16;  // floats

}  // namespace

AlignedFloats::AlignedFloats(std::int64_t size, float value)
    : storage_(static_cast<std::size_t>(size) + 2 * k_line, value) {
  const auto misaligned =
      reinterpret_cast<std::uintptr_t>(storage_.data()) % (sizeof(float) * k_line) / sizeof(float);
  first_ = (k_line - misaligned) % k_line;
}

void fill_operand(float* values, std::int64_t rows, std::int64_t n) {
  constexpr std::uint64_t k_seed = 20'240'601;
  for (std::int64_t i = 0; i < rows * n; ++i) values[i] = pattern_value(k_seed, i / n, i % n);
}

std::vector<float> dense_of(const CsrMatrix& matrix) {
  std::vector<float> dense(static_cast<std::size_t>(matrix.rows * matrix.cols), 0.0F);
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    const auto begin = static_cast<std::size_t>(matrix.row_ptrs[static_cast<std::size_t>(row)]);
    const auto end = static_cast<std::size_t>(matrix.row_ptrs[static_cast<std::size_t>(row) + 1]);
    for (std::size_t i = begin; i < end; ++i) {
      dense[static_cast<std::size_t>(row * matrix.cols + matrix.col_idxs[i])] = matrix.values[i];
    }
  }
  return dense;
}

}  // namespace spjit::bench
