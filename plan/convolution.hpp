#pragma once

/// @file
/// A Convolution as the pipeline sees it: checked, in a cache key, as JSON, and where the elements
/// of its B are in X.

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "base/cancel.hpp"
#include "base/hash.hpp"
#include "spjit/convolution.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// Throws InvalidArgument, which names the member, for
/// - sizes that are not positive or above 2^31 - 1, or padding below 0
/// - groups that do not divide, or a kernel that does not fit into the padded image
/// - an output of more than 2^31 - 1 pixels, or images of 2^61 floats and more with their padding
/// - more than 2^31 - 1 weights of a filter with all channels
void check_convolution(const Convolution& convolution);

/// Throws InvalidArgument if A of so many rows and columns cannot be the weights.
void check_weights(const Convolution& convolution, std::int64_t rows, std::int64_t cols);

/// Whether B is X itself: one tap, stride 1, no padding.
[[nodiscard]] bool is_pointwise(const Convolution& convolution) noexcept;

/// Weights with all channels `[filters x channels * taps]`: those of each group at its channels.
/// Throws what `cancel` throws. Precondition: check_convolution() and check_weights() passed.
[[nodiscard]] CsrMatrix with_all_channels(const CsrMatrix& weights, const Convolution& convolution,
                                          const Cancellation& cancel = {});

/// An element of B of one image.
struct PatchElement {
  std::int64_t channel;
  std::int64_t pixel;  ///< y * width + x in X; below 0: outside, the element is +0
};

/// Row `k` of B and column `j`. Precondition: checked, and both are in range.
[[nodiscard]] PatchElement patch_element(const Convolution& convolution, std::int64_t k,
                                         std::int64_t j) noexcept;

/// All its members in their order.
inline constexpr std::size_t k_convolution_sizes = 14;
[[nodiscard]] std::array<std::int64_t, k_convolution_sizes> sizes_of(
    const Convolution& convolution) noexcept;
[[nodiscard]] Convolution convolution_of(
    const std::array<std::int64_t, k_convolution_sizes>& sizes) noexcept;

void add_to_key(const Convolution& convolution, KeyBuilder& key);

/// {"channels", "height", "width", "kernel": [h, w], "stride": [h, w],
///  "pad": [top, left, bottom, right], "dilation": [h, w], "groups"}
[[nodiscard]] nlohmann::json to_json(const Convolution& convolution);
/// Throws Error that names the member, and as check_convolution().
[[nodiscard]] Convolution read_convolution(const nlohmann::json& json);

}  // namespace spjit
