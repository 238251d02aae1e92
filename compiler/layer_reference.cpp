#include "compiler/layer_reference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/arithmetic.hpp"
#include "compiler/epilogue_reference.hpp"
#include "compiler/float64_reference.hpp"
#include "plan/elements.hpp"

namespace spjit {
namespace {

/// An epilogue takes as long as so many multiply-adds of the reference.
constexpr std::int64_t k_epilogue_products = 8;

class Comparison {
 public:
  Comparison(const LayerInputs& inputs, std::span<const LayerOutput> outputs,
             const EvenSpread& columns, const Cancellation& cancel)
      : inputs_(inputs),
        outputs_(outputs),
        sums_(inputs.matrix, inputs.b, inputs.b_layout, columns,
              {inputs.numerics, inputs.of_tensor, inputs.groups}),
        cancel_(cancel),
        pace_(cancel) {}

  /// One of a product without entries is not looked at.
  void compare_row(std::int64_t row) {
    pace_.spend(1);
    if (inputs_.epilogue.empty() && is_empty_row(inputs_.matrix, row)) return;
    const std::span<const Reference> sums = sums_.row(row, pace_);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const std::int64_t column = sums_.columns()[i];
      EpilogueValues values = values_at(row, column);
      values.b_scale = sums_.scale_of_b(i);
      const Reference reference = element_of_c(sums[i], inputs_.numerics, inputs_.epilogue, values);
      for (const LayerOutput& output : outputs_) compare(output, row, column, reference);
    }
    if (!inputs_.epilogue.empty()) pace_.spend(std::ssize(sums) * k_epilogue_products);
  }

  /// Rows without entries at even distances, up to `most`.
  void compare_empty_rows(std::int64_t most) {
    const CsrMatrix& matrix = inputs_.matrix;
    const auto for_each_empty_row = [&](const auto& visit) {
      for_each_piece(matrix.rows, cancel_, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          if (is_empty_row(matrix, row)) visit(row);
        }
      });
    };
    std::int64_t count = 0;
    for_each_empty_row([&](std::int64_t) { ++count; });
    const std::int64_t step = ceil_div(count, most);
    std::int64_t number = 0;
    for_each_empty_row([&](std::int64_t row) {
      if (number++ % step == 0) compare_row(row);
    });
  }

  [[nodiscard]] CheckResult& result() noexcept { return result_; }

 private:
  [[nodiscard]] EpilogueValues values_at(std::int64_t row, std::int64_t column) const {
    EpilogueValues values;
    values.c = inputs_.of_c;
    if (inputs_.epilogue.scale) values.scale = inputs_.scale[row];
    if (inputs_.epilogue.bias) values.bias = inputs_.bias[row];
    if (inputs_.epilogue.residual) {
      const std::int64_t at = inputs_.residual_layout.offset(row, column);
      const DataType type = inputs_.numerics.c;
      const double value = load_element(type, inputs_.residual, at);
      values.residual =
          is_byte(type) ? static_cast<float>(value - inputs_.of_c.zero_point) * inputs_.of_c.scale
                        : static_cast<float>(value);
    }
    return values;
  }

  void compare(const LayerOutput& output, std::int64_t row, std::int64_t column,
               const Reference& reference) {
    const DataType type = inputs_.numerics.c;
    const double value = load_element(type, output.c, output.layout.offset(row, column));
    const double ratio = judge(value, reference);
    if (std::isfinite(reference.value) && std::isfinite(value)) {
      result_.max_abs_error = std::max(result_.max_abs_error, std::abs(value - reference.value));
    }
    result_.max_error_over_bound = std::max(result_.max_error_over_bound, ratio);
    if (ratio <= 1 || !result_.problem.empty()) return;
    const int digits = info_of(type).is_integer ? 10 : 9;  // all that a number has
    result_.problem = fmt::format(
        "wrong result: C[{}][{}] is {:.{}g}, the float64 reference {:.{}g} +- {:.3g} ({})", row,
        column, value, digits, reference.value, digits, reference.bound, output.run);
  }

  const LayerInputs& inputs_;
  std::span<const LayerOutput> outputs_;
  ReferenceRows sums_;
  const Cancellation& cancel_;
  CancelPace pace_;
  CheckResult result_;
};

/// What is left for products of those that the epilogue takes a share of, too.
std::int64_t products_beside_epilogues(const LayerInputs& inputs, std::int64_t most_products) {
  if (inputs.epilogue.empty()) return most_products;
  const double products = as_double(inputs.matrix.nnz());
  const double epilogues = as_double(inputs.matrix.rows) * as_double(k_epilogue_products);
  return static_cast<std::int64_t>(as_double(most_products) * products /
                                   std::max(products + epilogues, 1.0));
}

}  // namespace

CheckResult compare_layer(const LayerInputs& inputs, std::span<const LayerOutput> outputs,
                          const CheckOptions& options) {
  const CsrMatrix& matrix = inputs.matrix;
  const std::int64_t n = inputs.b_layout.columns();
  const ReferenceSample sample =
      options.most_products
          ? choose_sample(matrix, n, products_beside_epilogues(inputs, *options.most_products),
                          options.cancel)
          : whole_sample(matrix, n);
  Comparison comparison(inputs, outputs, sample.columns, options.cancel);
  for (std::int64_t i = 0; i < sample.row_count(); ++i) comparison.compare_row(sample.row(i));
  if (!inputs.epilogue.empty() && sample.rows.count < matrix.rows) {
    constexpr std::int64_t k_least_rows = 64;
    const std::int64_t products = sample.columns.count * k_epilogue_products;  // of a row
    comparison.compare_empty_rows(std::max(*options.most_products / products, k_least_rows));
  }
  CheckResult result = comparison.result();
  result.rows_checked = sample.row_count();
  result.columns_checked = sample.columns.count;
  return result;
}

}  // namespace spjit
