#pragma once

/// @file
/// The dense sides of a case, and A with its zeros.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "spjit/matrix.hpp"

namespace spjit::bench {

/// Floats that start at a cache line; at least one line behind them may be read.
class AlignedFloats {
 public:
  AlignedFloats(std::int64_t size, float value);

  [[nodiscard]] float* data() noexcept { return storage_.data() + first_; }
  [[nodiscard]] const float* data() const noexcept { return storage_.data() + first_; }

 private:
  std::vector<float> storage_;
  std::size_t first_ = 0;
};

/// What layers that run one after another read and write. A layer reads what the latest layer
/// before it wrote of its input's size; the first of a size reads an input.
class ChainedBuffers {
 public:
  using Size = std::array<std::int64_t, 3>;

  [[nodiscard]] const float* input(std::size_t layer) const {
    return buffers_[inputs_[layer]].data();
  }
  [[nodiscard]] const float* output(std::size_t layer) const {
    return buffers_[outputs_[layer]].data();
  }
  [[nodiscard]] float* output(std::size_t layer) { return buffers_[outputs_[layer]].data(); }

  /// NaN into every output: what is not written shows.
  void spoil();

 protected:
  /// Adds the next layer, which writes `floats`.
  void add_layer(const Size& reads, const Size& writes, std::int64_t floats,
                 const std::function<AlignedFloats()>& make_input);

 private:
  std::vector<AlignedFloats> buffers_;
  std::map<Size, std::size_t> latest_;      ///< of buffers_
  std::vector<std::size_t> inputs_;         ///< the same, a layer each
  std::vector<std::size_t> outputs_;        ///< the same
  std::vector<std::int64_t> output_sizes_;  ///< floats
};

/// `[rows x n]` values of a fixed seed, the same for every benchmark.
void fill_operand(float* values, std::int64_t rows, std::int64_t n);

/// The matrix with its zeros, `[rows x cols]` row-major.
[[nodiscard]] std::vector<float> dense_of(const CsrMatrix& matrix);

}  // namespace spjit::bench
