#pragma once

/// @file
/// B and C of all layers of a network, in the layout in which it has its activations.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/host/buffers.hpp"
#include "bench/model/network.hpp"
#include "spjit/layout.hpp"

namespace spjit::bench {

/// Where tokens are.
struct TokenShape {
  std::int64_t n = 0;                 ///< tokens
  Layout layout = Layout::row_major;  ///< no panels
  std::int64_t batch = 1;             ///< of so many products, which follow each other, each has
                                      ///< n / batch tokens

  [[nodiscard]] std::int64_t tokens_each() const noexcept { return n / batch; }
  /// Floats from the first to the one of a feature and a token.
  [[nodiscard]] std::int64_t offset(std::int64_t features, std::int64_t feature,
                                    std::int64_t token) const noexcept {
    if (layout == Layout::tokens_major) return token * features + feature;
    const std::int64_t each = tokens_each();
    return token / each * features * each + feature * each + token % each;
  }

  friend bool operator==(const TokenShape&, const TokenShape&) = default;
};

/// Sizes are numbers of features. Values of inputs do not depend on the layout.
class LayerBuffers : public ChainedBuffers {
 public:
  LayerBuffers(const std::vector<NetworkLayer>& layers, const TokenShape& shape);

  [[nodiscard]] const TokenShape& shape() const noexcept { return shape_; }

 private:
  TokenShape shape_;
};

/// An element of C as it should be, and how far off it may be.
struct ExpectedElement {
  double value = 0;
  double bound = 0;
};

struct LayerCheck {
  double rounding = 1;  ///< how many times fp32's rounding bound a result may be off
  /// Maps a sum and its row to the element that is stored; empty: the sum itself.
  std::function<ExpectedElement(std::int64_t, ExpectedElement)> finish = {};
};

/// Empty if a layer's output is, for a few tokens at both ends of each product, what it should be
/// of what it read; else where it is not.
[[nodiscard]] std::string check_layer(const std::vector<NetworkLayer>& layers, std::size_t layer,
                                      const LayerBuffers& buffers, const LayerCheck& check);

/// Empty if the outputs of both have the same bits wherever they lie; else where they do not.
[[nodiscard]] std::string compare_bits(const std::vector<NetworkLayer>& layers,
                                       const LayerBuffers& buffers, const LayerBuffers& expected);

}  // namespace spjit::bench
