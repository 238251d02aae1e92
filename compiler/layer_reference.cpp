#include "compiler/layer_reference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/arithmetic.hpp"
#include "compiler/epilogue_reference.hpp"
#include "compiler/float64_reference.hpp"

namespace spjit {
namespace {

class Comparison {
 public:
  Comparison(const LayerInputs& inputs, std::span<const LayerOutput> outputs,
             const EvenSpread& columns, const Cancellation& cancel)
      : inputs_(inputs),
        outputs_(outputs),
        sums_(inputs.matrix, inputs.b, inputs.b_layout, columns),
        pace_(cancel) {}

  void compare_row(std::int64_t row) {
    const std::span<const Reference> sums = sums_.row(row, pace_);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const std::int64_t column = sums_.columns()[i];
      const Reference reference = finished(sums[i], inputs_.epilogue, values_at(row, column));
      for (const LayerOutput& output : outputs_) compare(output, row, column, reference);
    }
    pace_.spend(1);
  }

  [[nodiscard]] CheckResult& result() noexcept { return result_; }

 private:
  [[nodiscard]] EpilogueValues values_at(std::int64_t row, std::int64_t column) const {
    EpilogueValues values;
    if (inputs_.epilogue.scale) values.scale = inputs_.scale[row];
    if (inputs_.epilogue.bias) values.bias = inputs_.bias[row];
    if (inputs_.epilogue.residual) {
      values.residual = inputs_.residual[inputs_.residual_layout.offset(row, column)];
    }
    return values;
  }

  void compare(const LayerOutput& output, std::int64_t row, std::int64_t column,
               const Reference& reference) {
    const float value = output.c[output.layout.offset(row, column)];
    const double ratio = judge(value, reference);
    if (std::isfinite(reference.value) && std::isfinite(value)) {
      result_.max_abs_error =
          std::max(result_.max_abs_error, std::abs(static_cast<double>(value) - reference.value));
    }
    result_.max_error_over_bound = std::max(result_.max_error_over_bound, ratio);
    if (ratio <= 1 || !result_.problem.empty()) return;
    result_.problem = fmt::format(
        "wrong result: C[{}][{}] is {:.9g}, the float64 reference {:.9g} +- {:.3g} ({})", row,
        column, value, reference.value, reference.bound, output.run);
  }

  const LayerInputs& inputs_;
  std::span<const LayerOutput> outputs_;
  ReferenceRows sums_;
  CancelPace pace_;
  CheckResult result_;
};

}  // namespace

CheckResult compare_layer(const LayerInputs& inputs, std::span<const LayerOutput> outputs,
                          const CheckOptions& options) {
  const CsrMatrix& matrix = inputs.matrix;
  const std::int64_t n = inputs.b_layout.panels.n;
  const ReferenceSample sample =
      options.most_products ? choose_sample(matrix, n, *options.most_products, options.cancel)
                            : whole_sample(matrix, n);
  Comparison comparison(inputs, outputs, sample.columns, options.cancel);
  for (std::int64_t i = 0; i < sample.row_count(); ++i) comparison.compare_row(sample.row(i));
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    const bool is_empty = matrix.row_ptrs[to_size(row)] == matrix.row_ptrs[to_size(row) + 1];
    if (is_empty) comparison.compare_row(row);
  }
  CheckResult result = comparison.result();
  result.rows_checked = sample.row_count();
  result.columns_checked = sample.columns.count;
  return result;
}

}  // namespace spjit
