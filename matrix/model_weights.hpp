#pragma once

/// @file
/// The forms in which weights lie in a file of tensors; spjit/model_io.hpp lists them.

#include <cstdint>
#include <string>
#include <vector>

#include "matrix/tensor_file.hpp"
#include "spjit/matrix.hpp"
#include "spjit/model_io.hpp"

namespace spjit {

/// Bits of an element of I32 that holds several integers.
inline constexpr std::int64_t k_packed_word_bits = 32;

/// One tensor of weights and what it is made of. Refers to tensors of the file.
struct StoredWeights {
  WeightTensor what;
  std::int64_t rows = 0;  ///< of the matrix; unless it was refused, as the rest
  std::int64_t cols = 0;
  const Tensor* values = nullptr;       ///< all of them; with `bitmask` the nonzeros
  const Tensor* mask = nullptr;         ///< factors of `values`, or null
  const Tensor* bitmask = nullptr;      ///< a bit for each element, rows of whole bytes; or null
  const Tensor* row_offsets = nullptr;  ///< with `bitmask`: of a row's first in `values`
  const Tensor* shape = nullptr;        ///< the sizes, if they are not those of `values`
  const Tensor* scale = nullptr;        ///< of integers: a factor for each row, or one; else null
  const Tensor* zero_point = nullptr;   ///< of integers: what stands for 0, all 0; or null
  int packed_bits = 0;  ///< of an integer of `values`, several in an I32; 0: an element is one

  [[nodiscard]] bool is_convolution() const noexcept { return what.shape.size() > 2; }
};

/// All tensors of two dimensions and more, ascending by name. What only the elements show is not
/// checked. Throws IoError.
[[nodiscard]] std::vector<StoredWeights> weights_in(const TensorFile& file);

/// Elements that are not 0, counted without keeping any. Throws IoError.
[[nodiscard]] std::int64_t count_nonzeros(const TensorFile& file, const StoredWeights& weights);

/// The matrix; see load_weights(). Throws IoError.
[[nodiscard]] CsrMatrix read_weights(const TensorFile& file, const StoredWeights& weights);

/// Factors of the rows of integers: the matrix times them is the weights [rows]; empty of floats.
/// Throws IoError, also for a factor that is 0 or not finite.
[[nodiscard]] std::vector<float> read_scale(const TensorFile& file, const StoredWeights& weights);

/// The bias beside the weights "X.weight": the floats "X.bias" [rows], or empty. Throws IoError.
[[nodiscard]] std::vector<float> read_bias(const TensorFile& file, const StoredWeights& weights);

}  // namespace spjit
