#include "matrix/model_weights.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/printable.hpp"
#include "base/refusal.hpp"
#include "matrix/limits.hpp"

namespace spjit {
namespace {

// Of torch.nn.utils.prune and of compressed-tensors.
constexpr std::string_view k_original = "_orig";
constexpr std::string_view k_mask = "_mask";
constexpr std::string_view k_compressed = ".compressed";
constexpr std::string_view k_bitmask = ".bitmask";
constexpr std::string_view k_shape = ".shape";
constexpr std::string_view k_row_offsets = ".row_offsets";
constexpr std::int64_t k_byte_bits = 8;
// Of the integers of compressed-tensors, behind the name of the weights.
constexpr std::string_view k_packed = "_packed";
constexpr std::string_view k_packed_shape = "_shape";
constexpr std::string_view k_scale = "_scale";
constexpr std::string_view k_zero_point = "_zero_point";
constexpr std::string_view k_group_index = "_g_idx";

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

/// Whether weights of integers are called so.
bool are_integers(const TensorFile& file, const std::string& name) {
  const Tensor* const whole = file.find(name);
  if (whole != nullptr) return !TensorFile::is_float(*whole);
  const Tensor* const nonzeros = find_part(file, name, k_compressed);
  if (nonzeros != nullptr) return !TensorFile::is_float(*nonzeros);
  return find_part(file, name, k_packed) != nullptr;
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
  for (const std::string_view ending : {k_scale, k_zero_point, k_group_index, k_packed_shape}) {
    const auto stem = stem_of(tensor.name, ending);
    if (stem && are_integers(file, *stem)) return true;
  }
  return false;
}

Refusal scale_refusal(const StoredWeights& weights) {
  const Tensor& scale = *weights.scale;
  if (!TensorFile::is_float(scale) || (scale.count != weights.rows && scale.count != 1)) {
    return Refusal(fmt::format(
        "its scale is {} [{}]; expected a float for each of {} rows, or one (scales of groups of "
        "columns have no kernel)",
        printable(scale.dtype), fmt::join(scale.shape, ", "), weights.rows));
  }
  const Tensor* const zero = weights.zero_point;
  if (zero != nullptr && (zero->dtype != "I8" || zero->count != scale.count)) {
    return Refusal(fmt::format("its zero point is {} [{}]; expected none, or I8 [{}] of zeros",
                               printable(zero->dtype), fmt::join(zero->shape, ", "), scale.count));
  }
  return Refusal::none();
}

Refusal dtype_refusal(const StoredWeights& weights) {
  if (TensorFile::is_float(*weights.values) || weights.packed_bits != 0) return Refusal::none();
  if (weights.values->dtype == "I8" && weights.scale != nullptr) return Refusal::none();
  return Refusal(fmt::format("its dtype is {}; expected F32, F16, BF16, F64, or I8 with a scale",
                             printable(weights.what.dtype)));
}

Refusal refusal_of(const StoredWeights& weights) {
  const std::vector<std::int64_t>& shape = weights.what.shape;
  if (Refusal of_dtype = dtype_refusal(weights)) return of_dtype;
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
  return weights.scale == nullptr ? Refusal::none() : scale_refusal(weights);
}

/// Scale and zero point, which only integers have.
void find_scale(const TensorFile& file, StoredWeights& weights) {
  if (!are_integers(file, weights.what.name)) return;
  weights.scale = find_part(file, weights.what.name, k_scale);
  weights.zero_point = find_part(file, weights.what.name, k_zero_point);
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
  const std::vector<std::int64_t> expected = {weights.rows, ceil_div(weights.cols, k_byte_bits)};
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

/// The sizes that a tensor [2] says. Why there are none, else.
Refusal read_shape(const TensorFile& file, std::string_view ending, StoredWeights& weights) {
  const Tensor* const shape = find_part(file, weights.what.name, ending);
  weights.shape = shape;
  if (shape == nullptr || (shape->dtype != "I64" && shape->dtype != "I32") || shape->count != 2) {
    return Refusal("it has no shape of dtype I64 or I32 [2]");
  }
  std::vector<std::int64_t> sizes(2);
  if (shape->dtype == "I64") {
    file.read(*shape, 0, std::span(sizes));
  } else {
    std::array<std::int32_t, 2> narrow{};
    file.read(*shape, 0, std::as_writable_bytes(std::span(narrow)));
    std::ranges::copy(narrow, sizes.begin());
  }
  weights.what.shape = std::move(sizes);
  if (std::ranges::any_of(weights.what.shape,
                          [](std::int64_t size) { return size < 0 || size > k_max_dimension; })) {
    return Refusal(fmt::format("its shape is [{}]; expected sizes up to {}",
                               fmt::join(weights.what.shape, ", "), k_max_dimension));
  }
  set_sizes(weights);
  return Refusal::none();
}

StoredWeights bitmask_weights(const TensorFile& file, const std::string& stem) {
  StoredWeights weights;
  weights.what.name = stem;
  weights.values = find_part(file, stem, k_compressed);
  weights.what.dtype = weights.values->dtype;
  weights.bitmask = find_part(file, stem, k_bitmask);
  weights.row_offsets = find_part(file, stem, k_row_offsets);
  find_scale(file, weights);
  Refusal refusal = read_shape(file, k_shape, weights);
  if (!refusal) refusal = refusal_of(weights);
  if (!refusal) refusal = bitmask_refusal(weights);
  weights.what.refusal = std::move(refusal).reason();
  return weights;
}

/// Bits of an integer such that rows of it are as long as those of `words`. Why there are none,
/// else.
Refusal find_bits(const Tensor& words, StoredWeights& weights) {
  std::vector<int> found;
  for (const int bits : {4, 8}) {
    const std::int64_t row = ceil_div(weights.cols, k_packed_word_bits / bits);
    if (words.dtype == "I32" && words.shape == std::vector{weights.rows, row}) {
      found.push_back(bits);
    }
  }
  if (found.size() != 1) {
    return Refusal(fmt::format(
        "{} is {} [{}]; expected I32 [{} x words] with eight integers of 4 bits or four of 8 each",
        printable(words.name), printable(words.dtype), fmt::join(words.shape, ", "), weights.rows));
  }
  weights.packed_bits = found.front();
  weights.what.dtype = fmt::format("I{}", weights.packed_bits);
  return Refusal::none();
}

/// The pack-quantized format of compressed-tensors.
StoredWeights packed_weights(const TensorFile& file, const std::string& stem) {
  StoredWeights weights;
  weights.what.name = stem;
  weights.values = find_part(file, stem, k_packed);
  weights.what.dtype = weights.values->dtype;
  find_scale(file, weights);
  Refusal refusal = read_shape(file, k_packed_shape, weights);
  if (!refusal) refusal = find_bits(*weights.values, weights);
  if (!refusal && weights.scale == nullptr) refusal = Refusal("it has no scale");
  if (!refusal) refusal = refusal_of(weights);
  weights.what.refusal = std::move(refusal).reason();
  return weights;
}

StoredWeights plain_weights(const TensorFile& file, const Tensor& values, std::string name,
                            const Tensor* mask) {
  StoredWeights weights;
  weights.what = {std::move(name), values.dtype, values.shape, ""};
  weights.values = &values;
  weights.mask = mask;
  find_scale(file, weights);
  set_sizes(weights);
  weights.what.refusal = refusal_of(weights).reason();
  return weights;
}

}  // namespace

std::vector<StoredWeights> weights_in(const TensorFile& file) {
  std::vector<StoredWeights> all;
  for (const Tensor& tensor : file.tensors()) {
    if (is_part(file, tensor)) continue;
    if (const auto stem = stem_of(tensor.name, k_packed);
        stem && find_part(file, *stem, k_packed_shape) != nullptr) {
      all.push_back(packed_weights(file, *stem));
      continue;
    }
    if (const auto stem = stem_of(tensor.name, k_compressed); stem && is_bitmask(file, *stem)) {
      all.push_back(bitmask_weights(file, *stem));
    } else if (tensor.shape.size() >= 2) {
      const auto original = stem_of(tensor.name, k_original);
      const Tensor* mask = original ? find_part(file, *original, k_mask) : nullptr;
      all.push_back(plain_weights(file, tensor, mask != nullptr ? *original : tensor.name, mask));
    }
  }
  std::ranges::sort(all, is_before_by_number,
                    [](const StoredWeights& weights) { return weights.what.name; });
  return all;
}

}  // namespace spjit
