#include "bench/model/layer_buffers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/arithmetic.hpp"
#include "tests/support/float64_check.hpp"

namespace spjit::bench {
namespace {

constexpr std::int64_t k_checked_tokens = 8;

/// A few at both ends of each product, ascending.
std::vector<std::int64_t> checked_tokens(const TokenShape& shape) {
  const std::int64_t each = shape.tokens_each();
  std::vector<std::int64_t> tokens;
  for (std::int64_t token = 0; token < shape.n; ++token) {
    const std::int64_t place = token % each;
    if (std::min(place, each - 1 - place) < k_checked_tokens) tokens.push_back(token);
  }
  return tokens;
}

/// Those tokens of B, row-major.
std::vector<float> gathered(const float* b, std::int64_t features, const TokenShape& shape,
                            const std::vector<std::int64_t>& tokens) {
  std::vector<float> values;
  values.reserve(to_size(features) * tokens.size());
  for (std::int64_t feature = 0; feature < features; ++feature) {
    for (const std::int64_t token : tokens) {
      values.push_back(b[shape.offset(features, feature, token)]);
    }
  }
  return values;
}

std::string place_of(std::size_t layer, const std::string& name, std::int64_t row,
                     std::int64_t token) {
  return fmt::format("wrong: layer {} ({}): C[{}][{}]", layer, name, row, token);
}

}  // namespace

LayerBuffers::LayerBuffers(const std::vector<NetworkLayer>& layers, const TokenShape& shape)
    : shape_(shape) {
  for (const NetworkLayer& layer : layers) {
    const CsrMatrix& a = layer.matrix;
    add_layer({a.cols}, {a.rows}, a.rows * shape.n, [&] {
      std::vector<float> rows(to_size(a.cols * shape.n));
      fill_operand(rows.data(), a.cols, shape.n);
      AlignedFloats input(a.cols * shape.n, 0.0F);
      for (std::int64_t i = 0; i < a.cols * shape.n; ++i) {
        input.data()[shape.offset(a.cols, i / shape.n, i % shape.n)] = rows[to_size(i)];
      }
      return input;
    });
  }
}

std::string check_layer(const std::vector<NetworkLayer>& layers, std::size_t layer,
                        const LayerBuffers& buffers, const LayerCheck& check) {
  const std::vector<std::int64_t> tokens = checked_tokens(buffers.shape());
  const std::int64_t count = std::ssize(tokens);
  const CsrMatrix& a = layers[layer].matrix;
  const std::vector<float> b = gathered(buffers.input(layer), a.cols, buffers.shape(), tokens);
  const Float64Product product = evaluate_float64(a, {.b = b.data(), .ldb = count, .n = count});
  double worst = 0;
  std::string place;
  for (std::int64_t at = 0; at < a.rows * count; ++at) {
    const std::int64_t row = at / count;
    const std::int64_t token = tokens[to_size(at % count)];
    ExpectedElement expected{product.values[to_size(at)], product.bounds[to_size(at)]};
    if (check.finish) expected = check.finish(row, expected);
    const float given = buffers.output(layer)[buffers.shape().offset(a.rows, row, token)];
    const double ratio = float64_check::error_of(given, expected.value, expected.bound).bound_ratio;
    if (ratio <= worst) continue;
    worst = ratio;
    place = place_of(layer, layers[layer].name, row, token);
  }
  if (worst <= check.rounding) return {};
  return fmt::format("{} is off by {:.2g} times the bound", place, worst);
}

std::string compare_bits(const std::vector<NetworkLayer>& layers, const LayerBuffers& buffers,
                         const LayerBuffers& expected) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::int64_t rows = layers[i].matrix.rows;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t token = 0; token < buffers.shape().n; ++token) {
        const float given = buffers.output(i)[buffers.shape().offset(rows, row, token)];
        const float wanted = expected.output(i)[expected.shape().offset(rows, row, token)];
        if (std::bit_cast<std::uint32_t>(given) == std::bit_cast<std::uint32_t>(wanted)) continue;
        return fmt::format("{} is {}; expected the bits of {}",
                           place_of(i, layers[i].name, row, token), given, wanted);
      }
    }
  }
  return {};
}

}  // namespace spjit::bench
