#pragma once

/// @file
/// Runs of kernels as layers have them, whatever the layout, the epilogue and the batch: operands
/// of exact sizes, and what C must be.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numbers>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "spjit/arguments.hpp"
#include "spjit/compiler.hpp"
#include "spjit/epilogue.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/float64_check.hpp"
#include "tests/support/guarded_memory.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit::testing_support {

/// How the operands of a run lie; what is 0 is as many floats as a row, token or product has.
struct LayerShape {
  std::int64_t n = 1;
  Layout b_layout = Layout::row_major;
  Layout c_layout = Layout::row_major;
  std::int64_t ldb = 0;
  std::int64_t ldc = 0;
  std::int64_t ldr = 0;
  std::int64_t batch = 1;
  std::optional<std::int64_t> b_distance = {};
  std::optional<std::int64_t> c_distance = {};
  std::optional<std::int64_t> residual_distance = {};
  bool in_place = false;  ///< the residual is C
  std::int64_t panel_columns = 16;
};

/// One operand of all products of a batch.
struct LayerPlace {
  Layout layout = Layout::row_major;
  std::int64_t features = 0;
  std::int64_t n = 0;
  std::int64_t ld = 0;
  std::int64_t panel_columns = 16;
  std::int64_t batch = 1;
  std::int64_t distance = 0;

  /// Floats between panels: a line more than they hold.
  [[nodiscard]] std::int64_t panel_stride() const { return features * panel_columns + 16; }
  /// From the first float of a product.
  [[nodiscard]] std::int64_t operator()(std::int64_t feature, std::int64_t token) const {
    if (layout == Layout::tokens_major) return token * ld + feature;
    if (layout == Layout::row_major) return feature * ld + token;
    return token / panel_columns * panel_stride() + feature * panel_columns + token % panel_columns;
  }
  /// Tokens that have a place: in panels, more than n.
  [[nodiscard]] std::int64_t places() const {
    if (layout != Layout::panel_major) return n;
    return (n + panel_columns - 1) / panel_columns * panel_columns;
  }
  /// Floats of a product, from the first to one past the last.
  [[nodiscard]] std::int64_t extent() const {
    return features == 0 || n == 0 ? 0 : (*this)(features - 1, places() - 1) + 1;
  }
  /// From the lowest of all products to the first product.
  [[nodiscard]] std::int64_t first() const {
    return batch > 1 ? std::max<std::int64_t>((1 - batch) * distance, 0) : 0;
  }
  [[nodiscard]] std::int64_t size() const {
    const std::int64_t reach = batch > 1 ? std::abs((batch - 1) * distance) : 0;
    return batch == 0 || extent() == 0 ? 0 : reach + extent();
  }
};

/// Its memory, against a page that cannot be touched.
class LayerArray {
 public:
  /// All floats are `fill`.
  LayerArray(const LayerPlace& place, GuardPlacement placement, float fill)
      : place_(place), floats_(place.size(), placement) {
    std::ranges::fill(floats_.span(), fill);
  }

  [[nodiscard]] const LayerPlace& place() const noexcept { return place_; }
  [[nodiscard]] const GuardedFloats& memory() const noexcept { return floats_; }
  /// Of the first product.
  [[nodiscard]] float* data() const noexcept { return floats_.data() + place_.first(); }
  [[nodiscard]] float& at(std::int64_t item, std::int64_t feature, std::int64_t token) const {
    return data()[item * place_.distance + place_(feature, token)];
  }
  /// Calls each(float, item, feature, token), for places past n, too.
  template <class Each>
  void for_each(const Each& each) const {
    if (floats_.span().empty()) return;
    for (std::int64_t item = 0; item < place_.batch; ++item) {
      for (std::int64_t feature = 0; feature < place_.features; ++feature) {
        for (std::int64_t token = 0; token < place_.places(); ++token) {
          each(at(item, feature, token), item, feature, token);
        }
      }
    }
  }
  /// One value after another; zeros past n.
  template <class Next>
  void draw(const Next& next) const {
    for_each([&](float& value, std::int64_t, std::int64_t, std::int64_t token) {
      value = token < place_.n ? next() : 0.0F;
    });
  }

 private:
  LayerPlace place_;
  GuardedFloats floats_;
};

/// Of a kernel of `problem`, which may be run with another shape than it was compiled for.
class LayerOperands {
 public:
  static constexpr float k_untouched = -7.25F;

  /// `next()` gives values of B, then of scale, bias and residual. Gaps of what is read are NaN.
  template <class Next>
  LayerOperands(const Problem& problem, const LayerShape& shape, GuardPlacement placement,
                const Next& next)
      : problem_(problem),
        shape_(shape),
        b_(place_of(shape, true, shape.ldb, shape.b_distance), placement, k_unread),
        c_(place_of(shape, false, shape.ldc, shape.c_distance), placement, k_untouched),
        scale_(problem.a->rows, placement),
        bias_(problem.a->rows, placement),
        residual_(residual_place(), placement, k_unread) {
    b_.draw(next);
    std::ranges::generate(scale_.span(), next);
    std::ranges::generate(bias_.span(), next);
    (shape.in_place ? c_ : residual_).draw(next);
    if (shape.in_place) {
      residual_values_.assign(c_.memory().span().begin(), c_.memory().span().end());
    }
    b_.memory().seal();
    scale_.seal();
    bias_.seal();
    if (!shape.in_place) residual_.memory().seal();
  }
  /// Values in [-2, 2).
  LayerOperands(const Problem& problem, const LayerShape& shape, GuardPlacement placement,
                std::uint64_t seed = 7)
      : LayerOperands(problem, shape, placement, Uniform(seed)) {}

  [[nodiscard]] Arguments arguments() const {
    const Epilogue& epilogue = problem_.epilogue;
    return {
        .b = {b_.data(),
              {.ld = b_.place().ld, .distance = b_.place().distance, .layout = shape_.b_layout}},
        .c = {c_.data(),
              {.ld = c_.place().ld, .distance = c_.place().distance, .layout = shape_.c_layout}},
        .n = shape_.n,
        .scale = epilogue.scale ? scale_.data() : nullptr,
        .bias = epilogue.bias ? bias_.data() : nullptr,
        .residual = {epilogue.residual ? residual_data() : nullptr,
                     {.ld = shape_.in_place ? c_.place().ld : residual_.place().ld,
                      .distance =
                          shape_.in_place ? c_.place().distance : residual_.place().distance}},
        .batch = shape_.batch};
  }

  /// All memory of C, gaps included.
  [[nodiscard]] std::span<const float> all_of_c() const { return c_.memory().span(); }

  /// A write beside C, in one line; or empty.
  [[nodiscard]] std::string outside_problem() const {
    if (!c_.memory().intact()) return "something was written around C";
    std::vector<float> copy(c_.memory().span().begin(), c_.memory().span().end());
    c_.for_each([&](float& value, std::int64_t, std::int64_t, std::int64_t) {
      copy[static_cast<std::size_t>(&value - c_.memory().data())] = k_untouched;
    });
    const auto changed = std::ranges::find_if(copy, [](float f) { return f != k_untouched; });
    if (changed == copy.end()) return {};
    return "a float between rows of C was written, " + std::to_string(changed - copy.begin()) +
           " from its first";
  }

  /// The problem with C after a run, in one line; or empty.
  [[nodiscard]] std::string problem_of_c() const {
    std::string problem = outside_problem();
    if (!problem.empty()) return problem;
    c_.for_each([&](float value, std::int64_t item, std::int64_t row, std::int64_t token) {
      if (!problem.empty()) return;
      const auto [expected, bound] = token < shape_.n ? element(item, row, token) : Expected{0, 0};
      if (is_within(value, expected, bound)) return;
      problem = "C[" + std::to_string(row) + "][" + std::to_string(token) + "] of product " +
                std::to_string(item) + " is " + std::to_string(value) + ", in float64 " +
                std::to_string(expected) + " +- " + std::to_string(bound);
    });
    return problem;
  }

 private:
  static constexpr float k_unread = std::numeric_limits<float>::quiet_NaN();

  struct Expected {
    double value;
    double bound;
  };
  struct Uniform {
    explicit Uniform(std::uint64_t seed) : engine(std::make_shared<std::mt19937_64>(seed)) {}
    float operator()() const {
      return static_cast<float>(static_cast<std::int64_t>((*engine)() >> 40U) - (1 << 23)) *
             0x1p-22F;
    }
    std::shared_ptr<std::mt19937_64> engine;
  };

  [[nodiscard]] LayerPlace place_of(const LayerShape& shape, bool is_b, std::int64_t ld,
                                    std::optional<std::int64_t> distance) const {
    LayerPlace place{.layout = is_b ? shape.b_layout : shape.c_layout,
                     .features = is_b ? problem_.a->cols : problem_.a->rows,
                     .n = shape.n,
                     .ld = ld,
                     .panel_columns = shape.panel_columns,
                     .batch = shape.batch};
    if (ld == 0) place.ld = place.layout == Layout::tokens_major ? place.features : place.n;
    place.distance = distance.value_or(place.extent());
    return place;
  }
  /// Of none if there is no residual or it is C.
  [[nodiscard]] LayerPlace residual_place() const {
    LayerPlace place = place_of(shape_, false, shape_.ldr, shape_.residual_distance);
    if (!problem_.epilogue.residual || shape_.in_place) place.batch = 0;
    return place;
  }
  [[nodiscard]] const float* residual_data() const {
    return shape_.in_place ? c_.data() : residual_.data();
  }

  /// Within the bound, or the same NaN or infinity.
  [[nodiscard]] static bool is_within(float value, double expected, double bound) {
    if (std::isnan(expected)) return std::isnan(value);
    if (std::isinf(expected)) return static_cast<double>(value) == expected;
    return std::abs(static_cast<double>(value) - expected) <= bound;
  }

  /// The product and what an epilogue makes of it, with what rounding each step to float may add.
  [[nodiscard]] Expected element(std::int64_t item, std::int64_t row, std::int64_t token) const {
    constexpr double k_unit = 0x1p-23;
    const CsrMatrix& a = *problem_.a;
    const std::int64_t begin = a.row_ptrs[index(row)];
    const std::int64_t end = a.row_ptrs[index(row) + 1];
    double sum = 0;
    double absolute = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const double product = static_cast<double>(a.values[index(i)]) *
                             static_cast<double>(b_.at(item, a.col_idxs[index(i)], token));
      sum += product;
      absolute += std::abs(product);
    }
    double bound = rounding_bound(end - begin, absolute);
    const auto round = [&] { bound += k_unit * std::abs(sum) + 0x1p-149; };
    const Epilogue& epilogue = problem_.epilogue;
    if (epilogue.scale) {
      sum *= static_cast<double>(scale_.span()[index(row)]);
      bound *= std::abs(static_cast<double>(scale_.span()[index(row)]));
      round();
    }
    if (epilogue.bias) {
      sum += static_cast<double>(bias_.span()[index(row)]);
      round();
    }
    if (epilogue.residual) {
      sum += static_cast<double>(residual_at(item, row, token));
      round();
    }
    return activated(sum, bound);
  }

  [[nodiscard]] float residual_at(std::int64_t item, std::int64_t row, std::int64_t token) const {
    if (!shape_.in_place) return residual_.at(item, row, token);
    return residual_values_[static_cast<std::size_t>(&c_.at(item, row, token) -
                                                     c_.memory().data())];
  }

  /// By the formulas of Activation. No smooth one is steeper than 1.13.
  [[nodiscard]] Expected activated(double x, double bound) const {
    constexpr double k_steepest = 1.13;
    const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)
    double y = x;
    switch (problem_.epilogue.activation) {
      case Activation::none:
        return {x, bound};
      case Activation::relu:
        return {x < 0 ? 0 : x, bound};
      case Activation::clamp:
        if (std::isnan(x)) return {x, bound};
        return {std::min(std::max(x, static_cast<double>(problem_.epilogue.low)),
                         static_cast<double>(problem_.epilogue.high)),
                bound};
      case Activation::gelu_erf:
        y = x / 2 * (1 + std::erf(x / std::numbers::sqrt2));
        break;
      case Activation::gelu_tanh:
        y = x / 2 * (1 + std::tanh(scale * (x + 0.044715 * x * x * x)));
        break;
      case Activation::silu:
        y = x / (1 + std::exp(-x));
        break;
      case Activation::hard_swish:
        // Steeper than the others, up to 1.5.
        return {x * std::min(std::max(x + 3, 0.0), 6.0) / 6, 1.5 * bound + 0x1p-22 * std::abs(x)};
      case Activation::leaky_relu: {
        const double alpha = problem_.epilogue.alpha;
        y = x < 0 ? alpha * x : x;
        return {y, std::max(1.0, std::abs(alpha)) * bound + 0x1p-23 * std::abs(y) + 1e-44};
      }
      case Activation::hard_sigmoid: {
        const double alpha = problem_.epilogue.alpha;
        const double beta = problem_.epilogue.beta;
        y = alpha * x + beta;
        if (!std::isnan(y)) y = std::min(std::max(y, 0.0), 1.0);
        return {y, std::abs(alpha) * bound + 0x1p-22 * (2 + std::abs(beta))};
      }
      case Activation::sigmoid:
        y = 1 / (1 + std::exp(-x));
        break;
      case Activation::tanh:
        y = std::tanh(x);
        break;
    }
    return {y, k_steepest * bound + 0x1p-20 * std::abs(y) + 3e-10};
  }

  Problem problem_;
  LayerShape shape_;
  LayerArray b_;
  LayerArray c_;
  GuardedFloats scale_;
  GuardedFloats bias_;
  LayerArray residual_;
  std::vector<float> residual_values_;  ///< of a C that the run overwrites
};

/// The kernel of a family, uncached.
[[nodiscard]] inline Kernel compile_layer(const Problem& problem, const std::string& family,
                                          HostIsa isa, int threads = 1) {
  CompileOptions options;
  options.target = Target(isa);
  options.policy.family = family;
  options.resources.threads = threads;
  return Compiler(options, uncached()).compile(problem);
}

/// The problem as whoever compiles it may have it: with other values, if those are of a run.
[[nodiscard]] inline Problem with_values_to_compile(const Problem& problem) {
  if (!problem.runtime_values) return problem;
  CsrMatrix other = *problem.a;
  std::ranges::fill(other.values, 3.0F);
  Problem result = problem;
  result.a = std::move(other);
  return result;
}

/// The kernel that others must have the bits of, of the problem's own values, with panels as they
/// have.
[[nodiscard]] inline Kernel reference_of(Problem problem, const Kernel& kernel) {
  problem.runtime_values = false;
  problem.panel_columns = kernel.info().panel_columns;
  return compile_layer(problem, "reference", kernel.info().target.isa());
}

/// A kernel and what its C is compared with.
struct LayerKernels {
  Problem problem;
  Kernel kernel;
  Kernel reference;

  LayerKernels(Problem of, const std::string& family, HostIsa isa, int threads = 1)
      : problem(std::move(of)),
        kernel(compile_layer(with_values_to_compile(problem), family, isa, threads)),
        reference(reference_of(problem, kernel)) {}

  /// "" if C of a run has the bits of the reference, is near the float64 product, and nothing else
  /// was written, also of a run in a workspace of exactly the bytes that it needs; else what is
  /// wrong.
  template <class Values>
  [[nodiscard]] std::string run(LayerShape shape, GuardPlacement placement,
                                const Values& values) const {
    shape.panel_columns = kernel.info().panel_columns;
    const LayerOperands operands(problem, shape, placement, values());
    const LayerOperands expected(problem, shape, placement, values());
    run(kernel, operands);
    run(reference, expected);
    std::string wrong = operands.problem_of_c();
    if (wrong.empty() && !same_bits(operands.all_of_c(), expected.all_of_c())) {
      wrong = "C has not the bits of the reference";
    }
    if (wrong.empty()) {
      const LayerOperands again(problem, shape, placement, values());
      if (!run_in_workspace(again, placement)) {
        wrong = "something was written around the workspace";
      } else if (!same_bits(again.all_of_c(), expected.all_of_c())) {
        wrong = "C of a run in a workspace has not the bits of the reference";
      }
    }
    return wrong.empty() ? "" : wrong + describe(shape, placement);
  }
  [[nodiscard]] std::string run(const LayerShape& shape, GuardPlacement placement) const {
    return run(shape, placement, [] { return std::uint64_t{7}; });
  }
  /// With both placements.
  [[nodiscard]] std::string run(const LayerShape& shape) const {
    std::string wrong;
    for (const GuardPlacement placement : k_placements) {
      if (wrong.empty()) wrong = run(shape, placement);
    }
    return wrong;
  }

  /// Whether nothing around the workspace was written.
  [[nodiscard]] bool run_in_workspace(const LayerOperands& operands,
                                      GuardPlacement placement) const {
    Arguments arguments = operands.arguments();
    arguments.workspace_bytes = kernel.workspace_bytes(arguments);
    const GuardedFloats workspace((arguments.workspace_bytes + 3) / 4, placement);
    arguments.workspace = workspace.data();
    run(kernel, arguments);
    return workspace.intact();
  }

  /// A's values are the problem's.
  void run(const Kernel& with, const LayerOperands& operands) const {
    run(with, operands.arguments());
  }
  void run(const Kernel& with, Arguments arguments) const {
    PreparedValues values;
    if (with.info().runtime_values) {
      values = with.prepare_values(problem.a->values);
      arguments.values = &values;
    }
    with.run(arguments);
  }

  [[nodiscard]] std::string describe(const LayerShape& shape, GuardPlacement placement) const {
    const auto distance = [](const std::optional<std::int64_t>& floats) {
      return floats ? std::to_string(*floats) : std::string("-");
    };
    const Epilogue& epilogue = problem.epilogue;
    return "; " + kernel.info().family + " " + kernel.info().target.name() + " threads " +
           std::to_string(kernel.info().threads) + " [" + std::to_string(problem.a->rows) + " x " +
           std::to_string(problem.a->cols) + "] n " + std::to_string(shape.n) + " " +
           std::string(to_string(shape.b_layout)) + " " + std::to_string(shape.ldb) + " to " +
           std::string(to_string(shape.c_layout)) + " " + std::to_string(shape.ldc) +
           (epilogue.scale ? " scale" : "") + (epilogue.bias ? " bias" : "") +
           (epilogue.residual ? " residual " + std::to_string(shape.ldr) : "") +
           (problem.runtime_values ? " values" : "") + (shape.in_place ? " in place " : " ") +
           std::string(to_string(epilogue.activation)) + " batch " + std::to_string(shape.batch) +
           " " + distance(shape.b_distance) + " " + distance(shape.c_distance) + " " +
           distance(shape.residual_distance) + " " + to_string(placement) + " tile " +
           kernel.info().tile;
  }
};

}  // namespace spjit::testing_support
