#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>

#include "base/arithmetic.hpp"
#include "base/printable.hpp"
#include "matrix/limits.hpp"
#include "matrix/model_weights.hpp"
#include "matrix/text_lines.hpp"

namespace spjit {
namespace {

constexpr std::int64_t k_bits = 8;

[[noreturn]] void fail_weights(const TensorFile& file, const StoredWeights& weights,
                               const std::string& reason) {
  fail_to_read(fmt::format("{}/{}", file.name(), printable(weights.what.name)), reason);
}

/// Calls `look` with row after row of packed integers. Each has half of its range added.
void for_each_packed_row(const TensorFile& file, const StoredWeights& weights,
                         FunctionRef<void(std::int64_t, std::span<const float>)> look) {
  const int bits = weights.packed_bits;
  const std::int64_t in_word = k_packed_word_bits / bits;
  const std::int64_t row_words = ceil_div(weights.cols, in_word);
  std::vector<std::uint32_t> words(to_size(row_words));
  std::vector<float> values(to_size(weights.cols));
  for (std::int64_t row = 0; row < weights.rows; ++row) {
    file.read(*weights.values, row * row_words, std::as_writable_bytes(std::span(words)));
    for (std::int64_t col = 0; col < weights.cols; ++col) {
      const auto shift = static_cast<unsigned>(col % in_word * bits);
      const std::uint32_t raised = words[to_size(col / in_word)] >> shift & ((1U << bits) - 1);
      values[to_size(col)] = static_cast<float>(static_cast<int>(raised) - (1 << (bits - 1)));
    }
    look(row * weights.cols, values);
  }
}

/// Calls `look` with the values in their order, as they are behind the mask.
void for_each_masked(const TensorFile& file, const StoredWeights& weights,
                     FunctionRef<void(std::int64_t, std::span<const float>)> look) {
  if (weights.packed_bits != 0) return for_each_packed_row(file, weights, look);
  std::vector<float> product;
  for_each_piece(file, *weights.values, [&](std::int64_t first, std::span<const float> values) {
    if (weights.mask == nullptr) return look(first, values);
    product.resize(values.size());
    file.read(*weights.mask, first, std::span(product));
    std::ranges::transform(values, product, product.begin(), std::multiplies<>());
    look(first, product);
  });
}

/// Appends what is in one place of the matrix after another.
class RowWriter {
 public:
  explicit RowWriter(CsrMatrix& matrix) : matrix_(matrix) {}

  void add(float value) {
    if (value != 0) {
      matrix_.col_idxs.push_back(static_cast<std::int32_t>(column_));
      matrix_.values.push_back(value);
    }
    if (++column_ == matrix_.cols) {
      matrix_.row_ptrs.push_back(matrix_.nnz());
      column_ = 0;
    }
  }

 private:
  CsrMatrix& matrix_;
  std::int64_t column_ = 0;
};

/// The columns of one row, out of its bits.
void append_columns(std::span<const std::byte> bits, std::int64_t cols,
                    std::vector<std::int32_t>& columns) {
  for (std::int64_t col = 0; col < cols; ++col) {
    const auto byte = std::to_integer<unsigned>(bits[to_size(col / k_bits)]);
    if ((byte >> static_cast<unsigned>(col % k_bits) & 1U) != 0) {
      columns.push_back(static_cast<std::int32_t>(col));
    }
  }
}

CsrMatrix read_bitmask(const TensorFile& file, const StoredWeights& weights) {
  CsrMatrix matrix{weights.rows, weights.cols, {0}, {}, {}};
  const std::int64_t row_bytes = ceil_div(weights.cols, k_bits);
  std::vector<std::byte> bits(to_size(row_bytes));
  std::vector<std::int64_t> offsets(to_size(weights.rows));
  file.read(*weights.row_offsets, 0, std::span(offsets));
  for (std::int64_t row = 0; row < weights.rows; ++row) {
    if (offsets[to_size(row)] != matrix.nnz()) {
      fail_weights(file, weights,
                   fmt::format("row_offsets says that row {} begins at {}; the "
                               "bits before it are {}",
                               row, offsets[to_size(row)], matrix.nnz()));
    }
    file.read(*weights.bitmask, row * row_bytes, std::span(bits));
    append_columns(bits, weights.cols, matrix.col_idxs);
    matrix.row_ptrs.push_back(matrix.nnz());
  }
  if (matrix.nnz() != weights.values->count) {
    fail_weights(file, weights,
                 fmt::format("its bitmask has {} bits; expected {}, as many as "
                             "values",
                             matrix.nnz(), weights.values->count));
  }
  matrix.values.resize(matrix.col_idxs.size());
  file.read(*weights.values, 0, std::span(matrix.values));
  matrix.drop_explicit_zeros();
  return matrix;
}

void require_taken(const TensorFile& file, const StoredWeights& weights) {
  if (!weights.what.refusal.empty()) fail_weights(file, weights, weights.what.refusal);
  if (weights.rows > most_rows(to_size(file.bytes()))) {
    fail_weights(file, weights,
                 fmt::format("it has {} rows: a file of {} bytes may have {}", weights.rows,
                             file.bytes(), most_rows(to_size(file.bytes()))));
  }
  if (weights.zero_point == nullptr) return;
  std::int64_t row = 0;
  for_each_piece(file, *weights.zero_point, [&](std::int64_t, std::span<const float> zeros) {
    for (const float zero : zeros) {
      if (zero != 0) {
        fail_weights(file, weights, fmt::format("zero point {} is {}; expected 0", row, zero));
      }
      ++row;
    }
  });
}

}  // namespace

std::int64_t count_nonzeros(const TensorFile& file, const StoredWeights& weights) {
  require_taken(file, weights);
  std::int64_t nonzeros = 0;
  for_each_masked(file, weights, [&](std::int64_t, std::span<const float> values) {
    nonzeros += std::ranges::count_if(values, [](float value) { return value != 0; });
  });
  return nonzeros;
}

CsrMatrix read_weights(const TensorFile& file, const StoredWeights& weights) {
  require_taken(file, weights);
  if (weights.bitmask != nullptr) return read_bitmask(file, weights);
  CsrMatrix matrix{weights.rows, weights.cols, {0}, {}, {}};
  if (weights.cols == 0) matrix.row_ptrs.resize(to_size(weights.rows) + 1);
  RowWriter writer(matrix);
  for_each_masked(file, weights, [&](std::int64_t, std::span<const float> values) {
    for (const float value : values) writer.add(value);
  });
  return matrix;
}

std::vector<float> read_scale(const TensorFile& file, const StoredWeights& weights) {
  require_taken(file, weights);
  if (weights.scale == nullptr) return {};
  std::vector<float> scale(to_size(weights.scale->count));
  file.read(*weights.scale, 0, std::span(scale));
  scale.resize(to_size(weights.rows), scale.empty() ? 0 : scale.front());
  for (std::size_t row = 0; row < scale.size(); ++row) {
    if (scale[row] != 0 && std::isfinite(scale[row])) continue;
    fail_weights(file, weights,
                 fmt::format("the scale of row {} is {}; expected a finite number other than 0",
                             row, scale[row]));
  }
  return scale;
}

std::vector<float> read_bias(const TensorFile& file, const StoredWeights& weights) {
  constexpr std::string_view k_weight = ".weight";
  const std::string& name = weights.what.name;
  if (!name.ends_with(k_weight)) return {};
  const std::string stem = name.substr(0, name.size() - k_weight.size());
  const Tensor* const bias = stem.empty() ? nullptr : file.find(stem + ".bias");
  if (bias == nullptr) return {};
  if (!TensorFile::is_float(*bias) || bias->shape != std::vector{weights.rows}) {
    fail_to_read(file.name(),
                 fmt::format("{} is {} [{}]; expected floats [{}]", printable(bias->name),
                             printable(bias->dtype), fmt::join(bias->shape, ", "), weights.rows));
  }
  std::vector<float> values(to_size(weights.rows));
  file.read(*bias, 0, std::span(values));
  return values;
}

}  // namespace spjit
