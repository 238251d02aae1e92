#include "bench/host/buffers.hpp"

#include <algorithm>
#include <limits>

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

void ChainedBuffers::spoil() {
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    std::fill_n(output(i), output_sizes_[i], std::numeric_limits<float>::quiet_NaN());
  }
}

void ChainedBuffers::add_layer(const Size& reads, const Size& writes, std::int64_t floats,
                               const std::function<AlignedFloats()>& make_input) {
  if (!latest_.contains(reads)) {
    latest_[reads] = buffers_.size();
    buffers_.push_back(make_input());
  }
  inputs_.push_back(latest_[reads]);
  outputs_.push_back(buffers_.size());
  latest_[writes] = buffers_.size();
  output_sizes_.push_back(floats);
  buffers_.emplace_back(floats, 0.0F);
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
