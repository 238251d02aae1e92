#include "matrix/model_weights.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <string_view>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/printable.hpp"
#include "base/refusal.hpp"
#include "matrix/limits.hpp"
#include "matrix/text_lines.hpp"

namespace spjit {
namespace {

// Of torch.nn.utils.prune and of compressed-tensors.
constexpr std::string_view k_original = "_orig";
constexpr std::string_view k_mask = "_mask";
constexpr std::string_view k_compressed = ".compressed";
constexpr std::string_view k_bitmask = ".bitmask";
constexpr std::string_view k_shape = ".shape";
constexpr std::string_view k_row_offsets = ".row_offsets";
constexpr std::int64_t k_bits = 8;

[[noreturn]] void fail_weights(const TensorFile& file, const StoredWeights& weights,
                               const std::string& reason) {
  fail_to_read(fmt::format("{}/{}", file.name(), printable(weights.what.name)), reason);
}

/// The name without its ending; nothing if it does not end so, or is nothing else.
std::optional<std::string> stem_of(const std::string& name, std::string_view ending) {
  if (!name.ends_with(ending) || name.size() == ending.size()) return std::nullopt;
  return name.substr(0, name.size() - ending.size());
}

const Tensor* find_part(const TensorFile& file, const std::string& stem, std::string_view ending) {
  return file.find(stem + std::string(ending));
}

bool is_bitmask(const TensorFile& file, const std::string& stem) {
  return find_part(file, stem, k_compressed) != nullptr &&
         find_part(file, stem, k_bitmask) != nullptr;
}

/// Part of other weights than those that it is called after.
bool is_part(const TensorFile& file, const Tensor& tensor) {
  if (const auto stem = stem_of(tensor.name, k_mask)) {
    if (find_part(file, *stem, k_original) != nullptr) return true;
  }
  for (const std::string_view ending : {k_bitmask, k_shape, k_row_offsets}) {
    const auto stem = stem_of(tensor.name, ending);
    if (stem && is_bitmask(file, *stem)) return true;
  }
  return false;
}

Refusal refusal_of(const StoredWeights& weights) {
  const std::vector<std::int64_t>& shape = weights.what.shape;
  if (!TensorFile::is_float(*weights.values)) {
    return Refusal(fmt::format("its dtype is {}; expected F32, F16, BF16 or F64",
                               printable(weights.what.dtype)));
  }
  if (shape.size() < 2 || shape.size() > 4) {
    return Refusal(
        fmt::format("it has {} dimensions; expected 2, or 3 or 4 of a convolution", shape.size()));
  }
  if (weights.rows > k_max_dimension || weights.cols > k_max_dimension) {
    return Refusal(fmt::format("it is {} x {}; expected at most {} each", weights.rows,
                               weights.cols, k_max_dimension));
  }
  if (weights.mask != nullptr &&
      (weights.mask->shape != shape || !TensorFile::is_mask(*weights.mask))) {
    return Refusal(fmt::format("its mask is {} [{}]; expected numbers of the same shape",
                               printable(weights.mask->dtype),
                               fmt::join(weights.mask->shape, ", ")));
  }
  return Refusal::none();
}

void set_sizes(StoredWeights& weights) {
  const std::vector<std::int64_t>& shape = weights.what.shape;
  weights.rows = shape.empty() ? 1 : shape.front();
  weights.cols = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) {
    // More than a matrix may have stays more: a product of two fits.
    weights.cols =
        std::min(weights.cols, k_max_dimension + 1) * std::min(shape[i], k_max_dimension + 1);
  }
}

Refusal bitmask_refusal(const StoredWeights& weights) {
  const Tensor& mask = *weights.bitmask;
  const std::vector<std::int64_t> expected = {weights.rows, ceil_div(weights.cols, k_bits)};
  if (mask.dtype != "U8" || mask.shape != expected) {
    return Refusal(fmt::format("its bitmask is {} [{}]; expected U8 [{}]", printable(mask.dtype),
                               fmt::join(mask.shape, ", "), fmt::join(expected, ", ")));
  }
  const Tensor* offsets = weights.row_offsets;
  if (offsets == nullptr || offsets->dtype != "I64" || offsets->count != weights.rows) {
    return Refusal(fmt::format("it has no row_offsets of dtype I64 [{}]", weights.rows));
  }
  return Refusal::none();
}

StoredWeights bitmask_weights(const TensorFile& file, const std::string& stem) {
  StoredWeights weights;
  weights.what.name = stem;
  weights.values = find_part(file, stem, k_compressed);
  weights.what.dtype = weights.values->dtype;
  weights.bitmask = find_part(file, stem, k_bitmask);
  weights.row_offsets = find_part(file, stem, k_row_offsets);
  const Tensor* shape = find_part(file, stem, k_shape);
  if (shape == nullptr || shape->dtype != "I64" || shape->count != 2) {
    weights.what.refusal = "it has no shape of dtype I64 [2]";
    return weights;
  }
  weights.what.shape.resize(2);
  file.read(*shape, 0, std::span(weights.what.shape));
  if (std::ranges::any_of(weights.what.shape,
                          [](std::int64_t size) { return size < 0 || size > k_max_dimension; })) {
    weights.what.refusal = fmt::format("its shape is [{}]; expected sizes up to {}",
                                       fmt::join(weights.what.shape, ", "), k_max_dimension);
    return weights;
  }
  set_sizes(weights);
  Refusal refusal = refusal_of(weights);
  if (!refusal) refusal = bitmask_refusal(weights);
  weights.what.refusal = std::move(refusal).reason();
  return weights;
}

StoredWeights plain_weights(const Tensor& values, std::string name, const Tensor* mask) {
  StoredWeights weights;
  weights.what = {std::move(name), values.dtype, values.shape, ""};
  weights.values = &values;
  weights.mask = mask;
  set_sizes(weights);
  weights.what.refusal = refusal_of(weights).reason();
  return weights;
}

/// Calls `look` with the values in their order, as they are behind the mask.
void for_each_masked(const TensorFile& file, const StoredWeights& weights,
                     FunctionRef<void(std::int64_t, std::span<const float>)> look) {
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
}

}  // namespace

std::vector<StoredWeights> weights_in(const TensorFile& file) {
  std::vector<StoredWeights> all;
  for (const Tensor& tensor : file.tensors()) {
    if (is_part(file, tensor)) continue;
    if (const auto stem = stem_of(tensor.name, k_compressed); stem && is_bitmask(file, *stem)) {
      all.push_back(bitmask_weights(file, *stem));
    } else if (tensor.shape.size() >= 2) {
      const auto original = stem_of(tensor.name, k_original);
      const Tensor* mask = original ? find_part(file, *original, k_mask) : nullptr;
      all.push_back(plain_weights(tensor, mask != nullptr ? *original : tensor.name, mask));
    }
  }
  std::ranges::sort(all, is_before_by_number,
                    [](const StoredWeights& weights) { return weights.what.name; });
  return all;
}

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

std::vector<float> read_bias(const TensorFile& file, const StoredWeights& weights) {
  const auto stem = stem_of(weights.what.name, ".weight");
  const Tensor* bias = stem ? find_part(file, *stem, ".bias") : nullptr;
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
