#include "compiler/kernel_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/refusal.hpp"
#include "compiler/check_pattern.hpp"
#include "compiler/float64_reference.hpp"
#include "compiler/guarded_operand.hpp"
#include "kernels/host/operands/placement.hpp"
#include "matrix/rows_of_b.hpp"
#include "plan/elements.hpp"
#include "plan/formula.hpp"
#include "plan/quantization.hpp"
#include "spjit/matrix_io.hpp"

namespace spjit {
namespace {

/// Whether no B of the check makes NaN or an infinity of A, in fp32 and in any order.
bool gives_finite_sums(const CheckedKernel& kernel, CancelPace& pace) {
  const CsrMatrix& matrix = kernel.matrix;
  double magnitude = 0;
  pace.pieces(0, matrix.nnz(), [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i) {
      magnitude += std::abs(static_cast<double>(matrix.values[to_size(i)]));
    }
  });
  const DataType b = kernel.numerics.b;
  magnitude *= std::max({1.0, std::abs(in_type(b, -1)), std::abs(in_type(b, 1))});
  return magnitude <= static_cast<double>(std::numeric_limits<float>::max());  // false for NaN
}

Placement place_of(const DenseFormat& format, std::int64_t rows, std::int64_t n,
                   std::int64_t panel_columns) {
  return {
      format.layout, format.leading_dimension, {rows, n, std::max<std::int64_t>(panel_columns, 1)}};
}
/// B, or the image that it is patches of.
Placement b_of(const CheckedKernel& kernel, const CheckRun& run) {
  const OperationRules& rules = run.rules();
  const StoredSize b = rules.stored_b(run.sizes(kernel.matrix.cols));
  return place_of(run.b, b.rows, b.columns, rules.takes_panels() ? kernel.panel_columns : 1);
}
Placement c_of(const CheckedKernel& kernel, const CheckRun& run) {
  return place_of(run.c, kernel.matrix.rows, run.n, kernel.panel_columns);
}
Placement residual_of(const CheckedKernel& kernel, const CheckRun& run) {
  const std::int64_t ldr = run.ldr > 0 ? run.ldr : run.c.leading_dimension;
  return place_of({ldr, run.c.layout}, kernel.matrix.rows, run.n, kernel.panel_columns);
}
/// A vector of one number for each row of C.
Placement vector_of(const CheckedKernel& kernel) {
  const std::int64_t rows = kernel.matrix.rows;
  return {Layout::row_major, rows, {1, rows, 1}};
}

/// Rows of B that A reads, those that a scale depends on, or the channels that have them.
RowRanges read_by(const CheckedKernel& kernel, const Cancellation& cancel) {
  const CheckRun& run = kernel.runs.front();
  if (is_quantized(kernel.numerics)) {
    return all_rows(run.convolution ? run.convolution->channels : kernel.matrix.cols);
  }
  return run.rules().stored_rows(run.sizes(kernel.matrix.cols),
                                 rows_of_b(kernel.matrix.col_idxs, kernel.matrix.cols, cancel));
}

/// "B: tokens, ldb = 9"
std::string describe(const char* name, const char* ld_name, const Placement& place) {
  if (place.layout == Layout::panel_major) {
    return fmt::format("{}: panels of {}", name, place.panels.width);
  }
  return fmt::format("{}: {}, {} = {}", name, to_string(place.layout), ld_name, place.ld);
}

/// Writes `value(row, column)` into the elements of some rows, zero past the last column of panels.
template <class Value>
void fill(const GuardedOperand& operand, const RowRanges& rows, CancelPace& pace,
          const Value& value) {
  const std::int64_t n = operand.place().panels.n;
  for (const RowRange& range : rows.ranges()) {
    operand.for_each_run(range.begin, range.end, [&](const ElementRun& run) {
      for (std::int64_t i = 0; i < run.count; ++i) {
        const auto [row, column] = run.at(i);
        operand.store(run.offset + i, column < n ? static_cast<double>(value(row, column)) : 0.0);
        pace.spend(1);
      }
    });
  }
}

bool has_same_sizes(const CheckRun& left, const CheckRun& right) {
  return left.n == right.n && left.convolution == right.convolution;
}

Strides strides_of(const DenseFormat& format) {
  return {.ld = format.leading_dimension, .layout = format.layout};
}

/// What a run is given besides C.
class Inputs {
 public:
  Inputs(const CheckedKernel& kernel, const CheckRun& run, const RowRanges& read,
         const PatternScale& scale, CancelPace& pace)
      : epilogue_(kernel.epilogue),
        numerics_(kernel.numerics),
        groups_(kernel.groups),
        run_(run),
        b_(b_of(kernel, run), read, pace, {kernel.numerics.b}),
        scale_(vector_of(kernel), all_rows(1), pace),
        bias_(vector_of(kernel), all_rows(1), pace) {
    const RowRanges rows = all_rows(kernel.matrix.rows);
    const PatternOfB pattern(kernel, scale.of_b());
    fill(b_, read, pace, [&](auto row, auto column) { return pattern.at(row, column); });
    fill(scale_, all_rows(1), pace, [&](auto, auto row) {
      return scale.of_row(row) * pattern_value(k_check_seed + 1, row, 0);
    });
    fill(bias_, all_rows(1), pace,
         [](auto, auto row) { return 4 * pattern_value(k_check_seed + 2, row, 0); });
    if (!epilogue_.residual) return;
    residual_.emplace(residual_of(kernel, run), rows, pace, ElementKind{numerics_.c});
    fill_residual(*residual_, rows, pace);
  }

  /// Of a run into C, which gets the residual if it is to be there.
  [[nodiscard]] Arguments arguments(const GuardedOperand& c, CancelPace& pace) const {
    const ImageSize image = run_.sizes(0).image;
    Arguments arguments{.b = {b_.data(), numerics_.b, strides_of(run_.b)},
                        .c = {c.data(), numerics_.c, strides_of(run_.c)},
                        .n = run_.n,
                        .height = image.height,
                        .width = image.width};
    if (epilogue_.scale) arguments.scale = scale_.floats();
    if (epilogue_.bias) arguments.bias = bias_.floats();
    if (numerics_.quantization == Quantization::given) {
      arguments.b_scale = &k_check_b_scale;
      arguments.b_zero_point = check_zero_point(numerics_.b);
    }
    if (is_byte(numerics_.c)) {
      arguments.c_scale = &k_check_c_scale;
      arguments.c_zero_point = check_zero_point(numerics_.c);
    }
    if (!residual_) return arguments;
    const GuardedOperand& residual = run_.ldr == 0 ? c : *residual_;
    if (run_.ldr == 0) fill_residual(c, all_rows(c.place().panels.rows), pace);
    arguments.residual = {residual.data(), numerics_.c, {.ld = residual.place().ld}};
    return arguments;
  }

  /// The operands of the reference.
  [[nodiscard]] LayerInputs of_layer(const CsrMatrix& matrix) const {
    LayerInputs inputs{.matrix = matrix,
                       .epilogue = epilogue_,
                       .b = b_.data(),
                       .b_layout = {b_.place(), run_.sizes(0).convolution},
                       .scale = scale_.floats(),
                       .bias = bias_.floats(),
                       .numerics = numerics_,
                       .groups = groups_};
    if (residual_) inputs.residual = residual_->data();
    if (residual_) inputs.residual_layout = residual_->place();
    if (numerics_.quantization == Quantization::given) {
      inputs.of_tensor = {k_check_b_scale, check_zero_point(numerics_.b)};
    }
    if (is_byte(numerics_.c)) inputs.of_c = {k_check_c_scale, check_zero_point(numerics_.c)};
    return inputs;
  }

 private:
  // As bias, wide enough for both sides of every activation.
  void fill_residual(const GuardedOperand& residual, const RowRanges& rows,
                     CancelPace& pace) const {
    const DataType type = numerics_.c;
    const double scale = info_of(type).is_integer ? 1 : 4;
    fill(residual, rows, pace, [&](auto row, auto column) {
      return in_type(type,
                     scale * static_cast<double>(pattern_value(k_check_seed + 3, row, column)));
    });
  }

  Epilogue epilogue_;
  Numerics numerics_;
  GroupScalesView groups_;
  CheckRun run_;
  GuardedOperand b_;
  GuardedOperand scale_;
  GuardedOperand bias_;
  std::optional<GuardedOperand> residual_;
};

/// C of a run.
struct Output {
  GuardedOperand c;
  CheckRun run;
};

class Check {
 public:
  Check(const CheckedKernel& kernel, const CheckOptions& options)
      : kernel_(kernel),
        matrix_(kernel.matrix),
        options_(options),
        pace_(options.cancel),
        is_finite_(gives_finite_sums(kernel, pace_)),
        scale_(kernel, pace_),
        read_(read_by(kernel, options.cancel)) {}

  CheckResult result() {
    for (const CheckRun& run : kernel_.runs) {
      if (!outputs_.empty() && !has_same_sizes(outputs_.front().run, run)) compare();
      if (result_.passed()) run_once(run);
      if (!result_.passed()) return std::move(result_);
    }
    compare();
    return std::move(result_);
  }

 private:
  void run_once(const CheckRun& run) {
    inputs_.reset();  // its memory first
    inputs_ = std::make_unique<Inputs>(kernel_, run, read_, scale_, pace_);
    const Output& output = outputs_.emplace_back(Output{new_c(run, false), run});
    run_into(output.c);
    look_at(output);
    if (info_of(kernel_.numerics.c).is_integer && result_.passed()) run_again(output);
  }

  [[nodiscard]] GuardedOperand new_c(const CheckRun& run, bool has_other_guards) {
    return {
        c_of(kernel_, run), all_rows(matrix_.rows), pace_, {kernel_.numerics.c, has_other_guards}};
  }

  void run_into(const GuardedOperand& c) {
    const Arguments arguments = inputs_->arguments(c, pace_);
    options_.cancel.check();
    kernel_.run(arguments);
    options_.cancel.check();
  }

  /// Into other guards: what is not written differs.
  void run_again(const Output& output) {
    const Output again{new_c(output.run, true), output.run};
    run_into(again.c);
    again.c.for_each_run(0, matrix_.rows, [&](const ElementRun& run) {
      for (std::int64_t i = 0; i < run.count && result_.passed(); ++i) {
        const std::int64_t offset = run.offset + i;
        pace_.spend(1);
        if (again.c.load(offset) == output.c.load(offset)) continue;
        const auto [row, column] = run.at(i);
        fail(output, fmt::format("C[{}][{}] was not written, or is another one in a second run",
                                 row, column));
      }
    });
    if (result_.passed()) look_around(again);
  }

  /// At all of C.
  void look_at(const Output& output) {
    output.c.for_each_run(0, matrix_.rows, [&](const ElementRun& run) {
      for (std::int64_t i = 0; i < run.count && result_.passed(); ++i) {
        const Element at = run.at(i);
        const double value = output.c.load(run.offset + i);
        if (!is_usual(at, value, output.run.n)) {
          const bool is_unwritten = std::isnan(value) && output.c.is_guard(run.offset + i);
          const Refusal wrong = wrong_element(at, value, is_unwritten, output.run.n);
          if (wrong) fail(output, wrong.reason());
        }
        pace_.spend(1);
      }
    });
    if (result_.passed()) look_around(output);
  }

  void look_around(const Output& output) {
    const Refusal touched = output.c.touched(pace_);
    if (touched) fail(output, "the kernel wrote outside C, " + touched.reason());
  }

  /// Whether nothing can be wrong with an element, whatever B is: nearly all are like that.
  [[nodiscard]] bool is_usual(const Element& at, double value, std::int64_t n) const {
    if (std::isnan(value) || at.column >= n) return false;
    return !kernel_.epilogue.empty() || !is_empty_row(matrix_, at.row);
  }

  /// Whether an element can be right, whatever B is.
  [[nodiscard]] Refusal wrong_element(const Element& at, double value, bool is_unwritten,
                                      std::int64_t n) const {
    const auto [row, column] = at;
    if (is_unwritten) return Refusal(fmt::format("C[{}][{}] was not written", row, column));
    if (column >= n) {
      if (value == 0 || !is_finite_) return Refusal::none();
      return Refusal(
          fmt::format("C[{}][{}], past the last column of its panel, is {:.9g}, expected 0", row,
                      column, value));
    }
    const DataType type = kernel_.numerics.c;
    const double zero = is_byte(type) ? check_zero_point(type) : 0;
    const bool is_zero = value == zero && !std::signbit(value - zero);
    if (kernel_.epilogue.empty() && !is_zero && is_empty_row(matrix_, row)) {
      return Refusal(fmt::format("C[{}][{}] is {:.9g}, expected {:+}: the row of A has no entries",
                                 row, column, value, zero));
    }
    if (!is_finite_ || !std::isnan(value)) return Refusal::none();
    return Refusal(fmt::format("C[{}][{}] is NaN, and A and B have none", row, column));
  }

  /// Compares C of the runs so far, which have one n, and forgets them.
  void compare() {
    if (outputs_.empty()) return;
    std::vector<LayerOutput> computed;
    computed.reserve(outputs_.size());
    for (const Output& output : outputs_) {
      computed.push_back({output.c.data(), output.c.place(), describe(output)});
    }
    // The operands of the last run have the values of all.
    CheckResult compared = compare_layer(inputs_->of_layer(matrix_), computed, options_);
    if (has_same_sizes(outputs_.front().run, kernel_.runs.front())) {
      result_.rows_checked = compared.rows_checked;
      result_.columns_checked = compared.columns_checked;
    }
    result_.max_abs_error = std::max(result_.max_abs_error, compared.max_abs_error);
    result_.max_error_over_bound =
        std::max(result_.max_error_over_bound, compared.max_error_over_bound);
    result_.problem = std::move(compared.problem);
    outputs_.clear();
  }

  void fail(const Output& output, const std::string& what) {
    result_.problem = fmt::format("wrong result: {} ({})", what, describe(output));
  }

  [[nodiscard]] std::string describe(const Output& output) const {
    const CheckRun& run = output.run;
    const Epilogue& epilogue = kernel_.epilogue;
    std::string text =
        fmt::format("n = {}; {}; {}", run.n, spjit::describe("B", "ldb", b_of(kernel_, run)),
                    spjit::describe("C", "ldc", output.c.place()));
    const std::string details = run.rules().details(run.sizes(matrix_.cols));
    if (!details.empty()) text += "; " + details;
    if (!epilogue.empty()) text += "; C = " + formula_of(epilogue);
    if (!kernel_.numerics.is_default()) text += "; " + to_string(kernel_.numerics);
    if (epilogue.residual && run.ldr == 0) text += "; the residual is in C";
    if (epilogue.residual && run.ldr > 0) text += fmt::format("; ldr = {}", run.ldr);
    return text;
  }

  const CheckedKernel& kernel_;
  const CsrMatrix& matrix_;
  const CheckOptions& options_;
  CancelPace pace_;
  bool is_finite_;
  PatternScale scale_;
  RowRanges read_;
  std::unique_ptr<Inputs> inputs_;
  std::vector<Output> outputs_;
  CheckResult result_;
};

}  // namespace

double most_check_bytes(double memory_bytes) noexcept { return std::min(8e9, memory_bytes / 2); }

double CheckedKernel::bytes(const Cancellation& cancel) const {
  const RowRanges read = read_by(*this, cancel);
  double inputs = 0;
  double outputs = 0;
  for (const CheckRun& each : runs) {
    double bytes = GuardedOperand::bytes(b_of(*this, each), read.count(), numerics.b);
    if (epilogue.residual) {
      bytes += GuardedOperand::bytes(residual_of(*this, each), matrix.rows, numerics.c);
    }
    inputs = std::max(inputs, bytes);
    const double runs_of_each = info_of(numerics.c).is_integer ? 2 : 1;
    outputs += runs_of_each * GuardedOperand::bytes(c_of(*this, each), matrix.rows, numerics.c);
  }
  return inputs + outputs;
}

CheckResult check_kernel(const CheckedKernel& kernel, const CheckOptions& options) {
  return Check(kernel, options).result();
}

}  // namespace spjit
