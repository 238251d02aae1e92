#pragma once

/// @file
/// Convolutions beside the product with all patches that they are, which a plain loop makes.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/draw.hpp"
#include "tests/support/layer_testing.hpp"

namespace spjit::testing_support {

/// How the operands of a run lie; what is 0 is as many floats as a row, pixel or image has.
struct ImageShape {
  Layout x_layout = Layout::row_major;
  Layout y_layout = Layout::row_major;
  std::int64_t ldx = 0;
  std::int64_t ldy = 0;
  std::int64_t batch = 1;
  bool in_place = false;
  std::int64_t height = 0;  ///< 0: as compiled
  std::int64_t width = 0;
  std::int64_t gap = 0;     ///< floats between images of a batch
  std::int64_t y_gap = 0;   ///< the same of Y
  bool same_image = false;  ///< all of a batch are one
  bool special = false;     ///< with NaN, infinities, zeros and subnormals; bits alone are compared
};

/// Weights with the zeros between groups.
[[nodiscard]] inline CsrMatrix ungrouped(const CsrMatrix& weights, std::int64_t groups) {
  CsrMatrix all = weights;
  all.cols *= groups;
  for (std::int64_t row = 0; row < weights.rows; ++row) {
    const std::int64_t group = row / (weights.rows / groups);
    for (std::int64_t i = weights.row_ptrs[index(row)]; i < weights.row_ptrs[index(row) + 1]; ++i) {
      all.col_idxs[index(i)] += static_cast<std::int32_t>(group * weights.cols);
    }
  }
  return all;
}

/// A kernel of a convolution and what its Y is compared with.
class ConvolutionKernels {
 public:
  ConvolutionKernels(Problem of, const std::string& family, HostIsa isa, int threads = 1)
      : problem_(std::move(of)), kernel_(compile_layer(problem_, family, isa, threads)), isa_(isa) {
    if (problem_.runtime_values) values_ = kernel_.prepare_values(problem_.a->values);
  }

  [[nodiscard]] const Kernel& kernel() const noexcept { return kernel_; }

  /// "" if Y has the bits of the product with all patches, is near it in float64, and nothing else
  /// was written; else what is wrong.
  [[nodiscard]] std::string run(const ImageShape& shape, GuardPlacement placement,
                                std::uint64_t seed = 7) const {
    Convolution of = *problem_.convolution;
    if (shape.height > 0) of.height = shape.height;
    if (shape.width > 0) of.width = shape.width;
    Problem product = problem_of(ungrouped(*problem_.a, of.groups), pixels_of(of));
    product.c.layout = shape.y_layout;
    product.epilogue = problem_.epilogue;
    LayerShape layer{.n = product.n.value,
                     .c_layout = shape.y_layout,
                     .ldc = shape.ldy,
                     .batch = shape.batch,
                     .in_place = shape.in_place};
    if (shape.y_gap > 0) layer.c_distance = extent_of_y(layer, problem_.a->rows) + shape.y_gap;
    const LayerArray x(image_place(of, shape), placement, std::numeric_limits<float>::quiet_NaN());
    const auto engine = std::make_shared<std::mt19937_64>(seed);
    x.draw([&] { return shape.special ? special_number(*engine) : number(*engine); });
    x.memory().seal();

    const LayerOperands expected(product, layer, placement, Patches(x, of, seed));
    compile_layer(product, "reference", isa_).run(expected.arguments());
    const LayerOperands computed(product, layer, placement, Patches(x, of, seed));
    Arguments arguments = computed.arguments();
    arguments.b = x.data();
    // What is left out is as compiled, or as many as there are.
    if (shape.ldy == 0 && problem_.c.leading_dimension == 0) arguments.c.ld = 0;
    arguments.b.ld = shape.ldx == 0 && problem_.b.leading_dimension == 0 ? 0 : x.place().ld;
    arguments.b.distance = x.place().distance;
    arguments.b.layout = shape.x_layout;
    arguments.n = Arguments::k_as_compiled;
    arguments.height = is_pointwise() ? 0 : shape.height;
    arguments.width = is_pointwise() ? 0 : shape.width;
    if (is_pointwise()) arguments.n = product.n.value;
    if (problem_.runtime_values) arguments.values = &values_;
    kernel_.run(arguments);
    std::string wrong = shape.special ? computed.outside_problem() : computed.problem_of_c();
    if (wrong.empty() && !same_bits(computed.all_of_c(), expected.all_of_c())) {
      wrong = "Y has not the bits of the product with all patches";
    }
    return wrong.empty() ? "" : wrong + describe(of, shape, placement);
  }
  /// With both placements.
  [[nodiscard]] std::string run(const ImageShape& shape) const {
    std::string wrong;
    for (const GuardPlacement placement : k_placements) {
      if (wrong.empty()) wrong = run(shape, placement);
    }
    return wrong;
  }

 private:
  /// Elements of B for all images, row by row; then other numbers.
  class Patches {
   public:
    Patches(const LayerArray& x, const Convolution& of, std::uint64_t seed)
        : x_(&x), of_(of), engine_(std::make_shared<std::mt19937_64>(seed + 1)) {}

    float operator()() const {
      const std::int64_t n = pixels_of(of_);
      const std::int64_t taps = of_.kernel_height * of_.kernel_width;
      const std::int64_t at = (*next_)++;
      if (at >= x_->place().batch * of_.channels * taps * n) return number(*engine_);
      const std::int64_t j = at % n;
      const std::int64_t k = at / n % (of_.channels * taps);
      const std::int64_t image = at / n / (of_.channels * taps);
      const std::int64_t y = j / of_.output_width() * of_.stride_height - of_.pad_top +
                             k % taps / of_.kernel_width * of_.dilation_height;
      const std::int64_t x = j % of_.output_width() * of_.stride_width - of_.pad_left +
                             k % of_.kernel_width * of_.dilation_width;
      const bool inside = y >= 0 && y < of_.height && x >= 0 && x < of_.width;
      return inside ? x_->at(image, k / taps, y * of_.width + x) : 0.0F;
    }

   private:
    const LayerArray* x_;
    Convolution of_;
    std::shared_ptr<std::int64_t> next_ = std::make_shared<std::int64_t>(0);  // copies go on
    std::shared_ptr<std::mt19937_64> engine_;
  };

  [[nodiscard]] static float number(std::mt19937_64& engine) {
    return static_cast<float>(static_cast<std::int64_t>(engine() >> 40U) - (1 << 23)) * 0x1p-22F;
  }
  [[nodiscard]] static float special_number(std::mt19937_64& engine) {
    return engine() % 16 == 0 ? special_value(engine()) : number(engine);
  }
  [[nodiscard]] static std::int64_t pixels_of(const Convolution& of) {
    return of.output_height() * of.output_width();
  }
  [[nodiscard]] static LayerPlace image_place(const Convolution& of, const ImageShape& shape) {
    LayerPlace place{.layout = shape.x_layout,
                     .features = of.channels,
                     .n = of.height * of.width,
                     .ld = shape.ldx,
                     .batch = shape.batch};
    if (place.ld == 0) {
      place.ld = place.layout == Layout::tokens_major ? place.features : place.n;
    }
    place.distance = shape.same_image ? 0 : place.extent() + shape.gap;
    return place;
  }
  /// Floats from the first to the last of an image.
  [[nodiscard]] static std::int64_t extent_of_y(const LayerShape& shape, std::int64_t filters) {
    const bool has_tokens = shape.c_layout == Layout::tokens_major;
    const std::int64_t rows = has_tokens ? shape.n : filters;
    const std::int64_t width = has_tokens ? filters : shape.n;
    return std::max<std::int64_t>(rows - 1, 0) * (shape.ldc == 0 ? width : shape.ldc) + width;
  }
  /// The kernel is of a plain product.
  [[nodiscard]] bool is_pointwise() const { return !kernel_.info().convolution; }

  [[nodiscard]] std::string describe(const Convolution& of, const ImageShape& shape,
                                     GuardPlacement placement) const {
    return "; " + kernel_.info().family + " " + kernel_.info().target.name() + " threads " +
           std::to_string(kernel_.info().threads) + " " + std::to_string(problem_.a->rows) +
           " filters, " + to_string(of) + " " + std::string(to_string(shape.x_layout)) + " " +
           std::to_string(shape.ldx) + " to " + std::string(to_string(shape.y_layout)) + " " +
           std::to_string(shape.ldy) + " batch " + std::to_string(shape.batch) + " " +
           to_string(placement) + " gaps " + std::to_string(shape.gap) + " " +
           std::to_string(shape.y_gap) + (shape.in_place ? " in place" : "") +
           (shape.special ? " special" : "") + (problem_.n.runtime ? " any size" : "") +
           (problem_.runtime_values ? " values" : "") + " tile " + kernel_.info().tile;
  }

  Problem problem_;
  Kernel kernel_;
  HostIsa isa_;
  PreparedValues values_;
};

}  // namespace spjit::testing_support
