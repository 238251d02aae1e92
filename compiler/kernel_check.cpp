#include "compiler/kernel_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/arithmetic.hpp"
#include "matrix/rows_of_b.hpp"
#include "spjit/matrix_io.hpp"

namespace spjit {
namespace {

/// Whether no B in [-1, 1) makes NaN or an infinity of A, in fp32 and in any order.
bool gives_finite_sums(const CsrMatrix& matrix, CancelPace& pace) {
  double magnitude = 0;
  pace.pieces(0, matrix.nnz(), [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i) {
      magnitude += std::abs(static_cast<double>(matrix.values[to_size(i)]));
    }
  });
  return magnitude <= static_cast<double>(std::numeric_limits<float>::max());  // false for NaN
}

RowRanges all_rows(std::int64_t rows) {
  RowRanges all;
  if (rows > 0) all.add(0, rows);
  return all;
}

bool is_empty_row(const CsrMatrix& matrix, std::int64_t row) {
  return matrix.row_ptrs[to_size(row)] == matrix.row_ptrs[to_size(row) + 1];
}

/// C of a run, and how the problem's text names the run.
struct Output {
  GuardedRows c;
  Operand operand;
  CheckLayout layout;

  [[nodiscard]] std::string run() const {
    return fmt::format("ldb = {}, ldc = {}", layout.ldb, layout.ldc);
  }
  [[nodiscard]] std::string describe(const std::string& what) const {
    return fmt::format("wrong result: {} ({})", what, run());
  }
};

/// Floats that lie together, over and over. In what a GuardedRows has of an operand.
struct Runs {
  std::int64_t count;
  std::int64_t floats;
  std::int64_t distance;
};

Runs runs_of(const Operand& operand) {
  const PanelLayout& sizes = operand.panels;
  switch (operand.layout) {
    case Layout::tokens_major:
      // Tokens that overlap are one run.
      if (operand.ld < sizes.rows && sizes.n > 0) {
        const std::int64_t all = (sizes.n - 1) * operand.ld + sizes.rows;
        return {1, all, all};
      }
      return {sizes.n, sizes.rows, operand.ld};
    case Layout::panel_major:
      return {sizes.panels(), sizes.rows * sizes.width, sizes.stride()};
    case Layout::row_major:
      break;
  }
  return {sizes.rows, sizes.n, operand.ld};
}

GuardedRows guarded(const Operand& operand, const RowRanges& used, CancelPace& pace) {
  const Runs runs = runs_of(operand);
  return {runs.count, runs.floats, runs.distance, used, pace};
}

/// An element of an operand: the inverse of Operand::offset() for the float `place` of a run.
struct Element {
  std::int64_t row;
  std::int64_t column;  ///< may be past the last in a panel
};

Element element_of(const Operand& operand, std::int64_t run, std::int64_t place) {
  const std::int64_t width = operand.panels.width;
  switch (operand.layout) {
    case Layout::tokens_major:
      return {place, run};
    case Layout::panel_major:
      return {place / width, run * width + place % width};
    case Layout::row_major:
      break;
  }
  return {run, place};
}

/// What every element of C has to be, whatever B is.
struct Expected {
  const CsrMatrix& matrix;
  bool finite;      ///< neither NaN nor an infinity is
  bool is_product;  ///< there is no epilogue
};

bool is_plus_zero(float value) { return std::bit_cast<std::uint32_t>(value) == 0; }

/// What is wrong with an element, whatever B is; or empty.
std::string element_problem(float value, const Element& at, const Output& output,
                            const Expected& expected) {
  const auto [row, column] = at;
  if (is_unwritten(value)) return fmt::format("C[{}][{}] was not written", row, column);
  if (column >= output.operand.panels.n) {
    if (is_plus_zero(value) || !expected.finite) return {};
    return fmt::format("C[{}][{}], past the last column of its panel, is {:.9g}, expected +0", row,
                       column, value);
  }
  if (expected.is_product && !is_plus_zero(value) && is_empty_row(expected.matrix, row)) {
    return fmt::format("C[{}][{}] is {:.9g}, expected +0: the row of A has no entries", row, column,
                       value);
  }
  if (expected.finite && std::isnan(value)) {
    return fmt::format("C[{}][{}] is NaN, and A and B have none", row, column);
  }
  return {};
}

std::string output_problem(const Output& output, const Expected& expected, CancelPace& pace) {
  for (std::int64_t run = 0; run < output.c.rows(); ++run) {
    const float* values = output.c.row(run);
    for (std::int64_t place = 0; place < output.c.n(); ++place) {
      const Element at = element_of(output.operand, run, place);
      std::string problem = element_problem(values[place], at, output, expected);
      if (!problem.empty()) return output.describe(problem);
      pace.spend(1);
    }
  }
  const std::string touched = output.c.touched(pace);
  return touched.empty() ? "" : output.describe("the kernel wrote outside C, " + touched);
}

/// Writes pattern_value() of the element into every float of `rows`; past the columns of a panel 0.
void fill(GuardedRows& operand, const Operand& layout, std::uint64_t seed, const RowRanges& rows,
          CancelPace& pace) {
  if (layout.layout == Layout::tokens_major && operand.rows() == 1) {
    // Tokens may overlap: each float has one value.
    for (std::int64_t i = 0; i < operand.n(); ++i) {
      operand.row(0)[i] = pattern_value(seed, i, 0);
      pace.spend(1);
    }
    return;
  }
  for (const RowRange& range : rows.ranges()) {
    for (std::int64_t run = range.begin; run < range.end; ++run) {
      float* values = operand.row(run);
      for (std::int64_t place = 0; place < operand.n(); ++place) {
        const auto [row, column] = element_of(layout, run, place);
        values[place] = column < layout.panels.n ? pattern_value(seed, row, column) : 0;
        pace.spend(1);
      }
    }
  }
}

/// What a run reads beside B.
class EpilogueOperands {
 public:
  EpilogueOperands(const CheckedKernel& kernel, CancelPace& pace) : kernel_(kernel) {
    const auto make = [&](bool wanted, std::uint64_t seed) {
      std::vector<float> values;
      for (std::int64_t row = 0; wanted && row < kernel.matrix.rows; ++row) {
        values.push_back(pattern_value(seed, row, 0));
        pace.spend(1);
      }
      return values;
    };
    scale_ = make(kernel.epilogue.scale, k_check_seed + 1);
    bias_ = make(kernel.epilogue.bias, k_check_seed + 2);
  }

  /// Makes the residual for C of this layout.
  void lay_out(const CheckLayout& layout, CancelPace& pace) {
    if (!kernel_.epilogue.residual) return;
    residual_.reset();  // its memory first
    residual_layout_ = kernel_.c(layout);
    const RowRanges all = all_rows(runs_of(residual_layout_).count);
    residual_.emplace(guarded(residual_layout_, all, pace));
    fill(*residual_, residual_layout_, k_check_seed + 3, all, pace);
  }

  void add_to(Arguments& arguments) const {
    if (kernel_.epilogue.scale) arguments.scale = scale_.data();
    if (kernel_.epilogue.bias) arguments.bias = bias_.data();
    if (!residual_) return;
    arguments.residual = residual_->row(0);
    arguments.ldr = residual_layout_.ld;
  }

  [[nodiscard]] const Operand& residual_layout() const noexcept { return residual_layout_; }

 private:
  const CheckedKernel& kernel_;
  std::vector<float> scale_;
  std::vector<float> bias_;
  std::optional<GuardedRows> residual_;
  Operand residual_layout_;
};

/// Of an operand of which so many runs are used.
double bytes_of(const Operand& operand, std::optional<std::int64_t> used = {}) {
  const Runs runs = runs_of(operand);
  return GuardedRows::bytes(used.value_or(runs.count), runs.distance);
}

/// The rows of a row-major B that A reads from; else all of B.
RowRanges used_of_b(const CheckedKernel& kernel, const CheckLayout& layout,
                    const Cancellation& cancel) {
  if (kernel.b_layout != Layout::row_major) return all_rows(runs_of(kernel.b(layout)).count);
  return rows_of_b(kernel.matrix.col_idxs, kernel.matrix.cols, cancel);
}

}  // namespace

double most_check_bytes(double memory_bytes) noexcept { return std::min(8e9, memory_bytes / 2); }

Operand CheckedKernel::b(const CheckLayout& layout) const noexcept {
  return {b_layout, layout.ldb, {matrix.cols, n, panel_columns}};
}

Operand CheckedKernel::c(const CheckLayout& layout) const noexcept {
  return {c_layout, layout.ldc, {matrix.rows, n, panel_columns}};
}

double CheckedKernel::bytes(const Cancellation& cancel) const {
  const CheckLayout& widest = layouts.back();
  double total = bytes_of(b(widest), used_of_b(*this, widest, cancel).count());
  for (const CheckLayout& layout : layouts) total += bytes_of(c(layout));
  return total + (epilogue.residual ? bytes_of(c(widest)) : 0);
}

CheckResult check_kernel(const CheckedKernel& kernel, const CheckOptions& options) {
  const CsrMatrix& matrix = kernel.matrix;
  CancelPace pace(options.cancel);
  const Expected expected{matrix, gives_finite_sums(matrix, pace), kernel.epilogue.empty()};
  std::optional<GuardedRows> b;
  EpilogueOperands operands(kernel, pace);
  std::vector<Output> outputs;
  Arguments arguments;
  for (const CheckLayout& layout : kernel.layouts) {
    b.reset();  // its memory first
    const RowRanges used = used_of_b(kernel, layout, options.cancel);
    b.emplace(guarded(kernel.b(layout), used, pace));
    fill(*b, kernel.b(layout), k_check_seed, used, pace);
    operands.lay_out(layout, pace);
    const Operand c = kernel.c(layout);
    const Output& output =
        outputs.emplace_back(Output{guarded(c, all_rows(runs_of(c).count), pace), c, layout});
    options.cancel.check();
    arguments = {.b = b->row(0),
                 .ldb = layout.ldb,
                 .c = output.c.row(0),
                 .ldc = layout.ldc,
                 .n = kernel.n,
                 .b_layout = kernel.b_layout,
                 .c_layout = kernel.c_layout};
    operands.add_to(arguments);
    kernel.run(arguments);
    options.cancel.check();
    std::string problem = output_problem(output, expected, pace);
    if (!problem.empty()) return {.problem = std::move(problem)};
  }
  std::vector<LayerOutput> computed;
  for (const Output& output : outputs) {
    computed.push_back({output.c.row(0), output.operand, output.run()});
  }
  // The operands of the last run have the values of all.
  return compare_layer(
      {matrix, kernel.epilogue, arguments.b, kernel.b(kernel.layouts.back()), arguments.scale,
       arguments.bias, arguments.residual, operands.residual_layout()},
      computed, options);
}

}  // namespace spjit
