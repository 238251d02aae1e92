// That the check fails: kernels that are wrong in one way each.

#include "compiler/kernel_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <stop_token>
#include <utility>
#include <vector>

#include "compiler/float64_reference.hpp"
#include "kernels/host/operands/placement.hpp"
#include "spjit/error.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using testing::HasSubstr;

constexpr std::int64_t k_n = 9;
constexpr float k_checked_infinity = std::numeric_limits<float>::infinity();
constexpr float k_checked_nan = std::numeric_limits<float>::quiet_NaN();

void compute(const CsrMatrix& matrix, const Arguments& operands) {
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (std::int64_t j = 0; j < operands.n; ++j) {
      float sum = 0;
      for (std::int64_t i = matrix.row_ptrs[index(row)]; i < matrix.row_ptrs[index(row) + 1]; ++i) {
        sum = std::fma(matrix.values[index(i)],
                       operands.b.as<float>()[matrix.col_idxs[index(i)] * operands.b.ld + j], sum);
      }
      operands.c.as<float>()[row * operands.c.ld + j] = sum;
    }
  }
}

CheckRun row_major(std::int64_t ldb, std::int64_t ldc, std::int64_t n = k_n) {
  return {.n = n, .b = {.leading_dimension = ldb}, .c = {.leading_dimension = ldc}};
}

/// What is done to C, or before it is computed, beside computing it.
using Fault = std::function<void(const Arguments& operands)>;

constexpr auto k_no_fault = [](const Arguments&) {};

CheckResult check(const CsrMatrix& matrix, const Fault& fault, const CheckOptions& options = {}) {
  const CheckedKernel kernel{.matrix = matrix,
                             .runs = {row_major(k_n, k_n), row_major(k_n + 2, k_n + 3)},
                             .run = [&](const Arguments& operands) {
                               compute(matrix, operands);
                               fault(operands);
                             }};
  return check_kernel(kernel, options);
}

/// Checks a kernel that writes a wrong element.
CheckResult check_element(const CsrMatrix& matrix, std::int64_t row, std::int64_t column,
                          const std::function<float(float right)>& wrong) {
  return check(matrix, [&](const Arguments& operands) {
    float& element = operands.c.as<float>()[row * operands.c.ld + column];
    element = wrong(element);
  });
}

/// An element of C in float64 for the B of a run.
Reference reference_of(const CsrMatrix& matrix, const Arguments& operands, std::int64_t row,
                       std::int64_t column) {
  const Cancellation none;
  CancelPace pace(none);
  ReferenceRows rows(matrix, operands.b.as<float>(), {{.ld = operands.b.ld}}, {k_n, k_n});
  return rows.row(row, pace)[index(column)];
}

/// The number furthest from the reference that is not over the bound.
float last_right(const Reference& reference) {
  auto value = static_cast<float>(reference.value + reference.bound);
  while (judge(value, reference) <= 1) value = std::nextafter(value, k_checked_infinity);
  while (judge(value, reference) > 1) value = std::nextafter(value, -k_checked_infinity);
  return value;
}

CsrMatrix usual_matrix() {
  CsrMatrix matrix = random_matrix(30, 20, 0.7);
  // Row 11 is empty.
  const std::int64_t begin = matrix.row_ptrs[11];
  const std::int64_t end = matrix.row_ptrs[12];
  matrix.values.erase(matrix.values.begin() + begin, matrix.values.begin() + end);
  matrix.col_idxs.erase(matrix.col_idxs.begin() + begin, matrix.col_idxs.begin() + end);
  for (std::size_t row = 12; row <= 30; ++row) matrix.row_ptrs[row] -= end - begin;
  return matrix;
}

class KernelCheck : public testing::Test {
 protected:
  CsrMatrix matrix_ = usual_matrix();
};

TEST_F(KernelCheck, PassesARightKernelAndSaysHowRightItIs) {
  const CheckResult result = check(matrix_, k_no_fault);

  EXPECT_EQ(result.problem, "");
  EXPECT_EQ(result.rows_checked, 30);
  EXPECT_EQ(result.columns_checked, k_n);
  EXPECT_GT(result.max_abs_error, 0);
  EXPECT_LT(result.max_abs_error, 1e-5);
  EXPECT_GT(result.max_error_over_bound, 0);
  EXPECT_LT(result.max_error_over_bound, 1);
}

TEST_F(KernelCheck, PassesAnElementAtTheBoundAndFailsTheNextNumber) {
  CheckResult at_the_bound = check(matrix_, [&](const Arguments& operands) {
    operands.c.as<float>()[7 * operands.c.ld + 3] =
        last_right(reference_of(matrix_, operands, 7, 3));
  });
  CheckResult over_it = check(matrix_, [&](const Arguments& operands) {
    operands.c.as<float>()[7 * operands.c.ld + 3] =
        std::nextafter(last_right(reference_of(matrix_, operands, 7, 3)), k_checked_infinity);
  });

  EXPECT_EQ(at_the_bound.problem, "");
  EXPECT_LE(at_the_bound.max_error_over_bound, 1);
  EXPECT_GT(at_the_bound.max_error_over_bound, 0.8);
  EXPECT_THAT(over_it.problem, HasSubstr("wrong result: C[7][3] is "));
  EXPECT_THAT(over_it.problem, HasSubstr("the float64 reference "));
  EXPECT_GT(over_it.max_error_over_bound, 1);
  EXPECT_LT(over_it.max_error_over_bound, 1.2);
}

TEST_F(KernelCheck, FailsAnElementThatIsNotWritten) {
  // Before it is computed C holds what a hole leaves.
  const CheckedKernel kernel{
      .matrix = matrix_, .runs = {row_major(k_n, k_n)}, .run = [&](const Arguments& operands) {
        const float before = operands.c.as<float>()[29 * operands.c.ld + 8];
        compute(matrix_, operands);
        operands.c.as<float>()[29 * operands.c.ld + 8] = before;
      }};

  EXPECT_THAT(check_kernel(kernel).problem, HasSubstr("C[29][8] was not written"));
}

TEST_F(KernelCheck, FailsAHoleInARowWithoutEntriesAndInAMatrixOfNan) {
  matrix_.values.assign(matrix_.values.size(), k_checked_nan);
  for (const std::int64_t row : {11, 12}) {
    const CheckedKernel kernel{
        .matrix = matrix_, .runs = {row_major(k_n, k_n)}, .run = [&](const Arguments& operands) {
          const float before = operands.c.as<float>()[row * operands.c.ld];
          compute(matrix_, operands);
          operands.c.as<float>()[row * operands.c.ld] = before;
        }};

    EXPECT_THAT(check_kernel(kernel).problem, HasSubstr("[0] was not written")) << row;
  }
}

TEST_F(KernelCheck, FailsNanAndInfinity) {
  EXPECT_THAT(check_element(matrix_, 4, 0, [](float) { return k_checked_nan; }).problem,
              HasSubstr("C[4][0] is NaN"));
  EXPECT_THAT(check_element(matrix_, 4, 0, [](float) { return k_checked_infinity; }).problem,
              HasSubstr("C[4][0] is inf"));
  EXPECT_THAT(check_element(matrix_, 4, 0, [](float) { return -k_checked_infinity; }).problem,
              HasSubstr("C[4][0] is -inf"));
}

TEST_F(KernelCheck, FailsAnythingButPlusZeroInARowWithoutEntries) {
  for (const float wrong : {-0.0F, std::numeric_limits<float>::denorm_min(), 1.0F}) {
    EXPECT_THAT(check_element(matrix_, 11, 5, [&](float) { return wrong; }).problem,
                HasSubstr("expected +0: the row of A has no entries"))
        << wrong;
  }
  EXPECT_THAT(check_element(matrix_, 11, 5, [](float) { return k_checked_nan; }).problem,
              HasSubstr("C[11][5] is"));
}

TEST_F(KernelCheck, FailsAnElementOfAnotherRowOrColumn) {
  const auto swapped = [](std::int64_t rows, std::int64_t columns) {
    return [=](const Arguments& operands) {
      std::swap(operands.c.as<float>()[0], operands.c.as<float>()[rows * operands.c.ld + columns]);
    };
  };

  EXPECT_THAT(check(matrix_, swapped(1, 0)).problem, HasSubstr("C[0][0] is "));
  EXPECT_THAT(check(matrix_, swapped(0, 1)).problem, HasSubstr("C[0][0] is "));
}

TEST_F(KernelCheck, FailsAWriteOutsideC) {
  const auto writes_at = [&](const std::function<std::int64_t(const Arguments&)>& place) {
    return check(matrix_,
                 [&](const Arguments& operands) { operands.c.as<float>()[place(operands)] = 0; })
        .problem;
  };

  EXPECT_THAT(writes_at([](const auto&) { return -1; }), HasSubstr("in front of its first row"));
  EXPECT_THAT(writes_at([](const auto& o) { return 30 * o.c.ld; }),
              HasSubstr("behind its last row"));
  EXPECT_THAT(check(matrix_,
                    [&](const Arguments& o) {
                      if (o.c.ld > k_n) o.c.as<float>()[7 * o.c.ld - 1] = 0;
                    })
                  .problem,
              HasSubstr("the kernel wrote outside C, behind row 6 (n = 9; B: features, ldb = 11; "
                        "C: features, ldc = 12)"));
  EXPECT_THAT(check(matrix_,
                    [&](const Arguments& o) {
                      if (o.c.ld > k_n) o.c.as<float>()[6 * o.c.ld + k_n] = 0;
                    })
                  .problem,
              HasSubstr("behind row 6"));
}

TEST_F(KernelCheck, FailsWhatIsWrongInOneLayoutOnly) {
  for (const std::int64_t ldc : {k_n, k_n + 3}) {
    const CheckResult result = check(matrix_, [&](const Arguments& operands) {
      if (operands.c.ld == ldc) operands.c.as<float>()[5] += 1;
    });

    EXPECT_THAT(result.problem, HasSubstr("ldc = " + std::to_string(ldc)));
  }
}

TEST_F(KernelCheck, FailsAReadBehindARowOfB) {
  const CheckResult result = check(matrix_, [&](const Arguments& operands) {
    if (operands.b.ld > k_n)
      operands.c.as<float>()[3] += 0 * operands.b.as<float>()[4 * operands.b.ld + k_n];
  });

  EXPECT_THAT(result.problem, HasSubstr("C[0][3] is NaN"));
}

TEST_F(KernelCheck, GivesBInBothLayoutsTheSameNumbersBelowOne) {
  std::vector<std::vector<float>> seen;
  static_cast<void>(check(matrix_, [&](const Arguments& operands) {
    std::vector<float>& b = seen.emplace_back();
    for (std::int64_t row = 0; row < matrix_.cols; ++row) {
      b.insert(b.end(), operands.b.as<float>() + row * operands.b.ld,
               operands.b.as<float>() + row * operands.b.ld + k_n);
    }
  }));

  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0], seen[1]);
  for (const float value : seen[0]) EXPECT_TRUE(value >= -1 && value < 1 && value != 0) << value;
}

TEST_F(KernelCheck, TakesWhatUnusualValuesOfAGive) {
  matrix_.values[0] = k_checked_nan;
  matrix_.values[20] = k_checked_infinity;
  matrix_.values[21] = -k_checked_infinity;
  matrix_.values[40] = 3e38F;
  matrix_.values[41] = 3e38F;
  matrix_.values[60] = 1e-45F;

  EXPECT_EQ(check(matrix_, k_no_fault).problem, "");
}

TEST_F(KernelCheck, OfASampleSeesTheFullestRowAndEveryHoleAndAllOfItIfAsked) {
  matrix_ = random_matrix(200, 30, 0.9);
  std::int64_t fullest = 0;
  for (std::int64_t row = 0; row < 200; ++row) {
    const auto nnz = [&](std::int64_t r) {
      return matrix_.row_ptrs[index(r) + 1] - matrix_.row_ptrs[index(r)];
    };
    if (nnz(row) > nnz(fullest)) fullest = row;
  }
  ASSERT_NE(fullest, 0);
  const std::int64_t unseen = fullest == 100 ? 101 : 100;
  const auto problem_of = [&](std::int64_t row, std::optional<std::int64_t> most) {
    return check(matrix_,
                 [&](const Arguments& operands) {
                   operands.c.as<float>()[row * operands.c.ld] = 1000;
                 },
                 {.most_products = most})
        .problem;
  };

  EXPECT_NE(problem_of(fullest, 1), "");
  EXPECT_NE(problem_of(0, 1), "");
  EXPECT_NE(problem_of(199, 1), "");
  EXPECT_EQ(problem_of(unseen, 1), "");  // that is what a sample misses
  EXPECT_NE(problem_of(unseen, std::nullopt), "");
  EXPECT_NE(problem_of(unseen, k_most_reference_products), "");
}

TEST_F(KernelCheck, SaysHowMuchOfASampleItLookedAt) {
  const CheckResult result = check(random_matrix(200, 30, 0.9), k_no_fault, {.most_products = 1});

  EXPECT_LE(result.rows_checked, 3);
  EXPECT_GE(result.rows_checked, 2);
  EXPECT_EQ(result.columns_checked, k_n);
}

TEST_F(KernelCheck, TakesMatricesWithoutRowsColumnsOrEntries) {
  EXPECT_EQ(check({0, 5, {0}, {}, {}}, k_no_fault).problem, "");
  EXPECT_EQ(check({3, 0, {0, 0, 0, 0}, {}, {}}, k_no_fault).problem, "");
  EXPECT_EQ(check({2, 2, {0, 0, 0}, {}, {}}, k_no_fault).problem, "");
}

TEST_F(KernelCheck, IsGivenUpBeforeAndAfterARun) {
  std::stop_source stop;
  CheckOptions options;
  options.cancel.stop = stop.get_token();
  int runs = 0;
  const auto stopping = [&](const Arguments&) {
    ++runs;
    stop.request_stop();
  };

  EXPECT_THROW(static_cast<void>(check(matrix_, stopping, options)), Cancelled);
  EXPECT_EQ(runs, 1);
  CheckOptions late;
  late.cancel.deadline = std::chrono::steady_clock::now();
  EXPECT_THROW(static_cast<void>(check(matrix_, stopping, late)), DeadlineExceeded);
  EXPECT_EQ(runs, 1);
}

TEST_F(KernelCheck, LetsThroughWhatTheKernelThrows) {
  EXPECT_THROW(static_cast<void>(check(
                   matrix_, [](const Arguments&) { throw DeviceError("the kernel faults", 700); })),
               DeviceError);
}

TEST_F(KernelCheck, KnowsWhatItsOperandsTake) {
  const CheckedKernel kernel{.matrix = matrix_,
                             .runs = {row_major(k_n, k_n), row_major(k_n + 2, k_n + 3)}};

  EXPECT_EQ(kernel.bytes(), 4 * (20 * 11 + 30 * 9 + 30 * 12));
}

TEST_F(KernelCheck, MayTakeHalfOfTheMemoryAndEightGigabytesAtMost) {
  EXPECT_EQ(most_check_bytes(6e9), 3e9);
  EXPECT_EQ(most_check_bytes(100e9), 8e9);
}

std::int64_t resident_pages() {
  std::int64_t all = 0;
  std::int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident;
}

TEST_F(KernelCheck, TouchesOnlyTheRowsOfBThatAreRead) {
  constexpr std::int32_t k_columns = 2147483647;
  const CsrMatrix matrix{1, k_columns, {0, 2}, {5, k_columns - 1}, {1, 2}};
  std::int64_t most_pages = 0;
  const CheckedKernel kernel{.matrix = matrix,
                             .runs = {row_major(1, 1, 1), row_major(4, 4, 1)},
                             .run = [&](const Arguments& operands) {
                               compute(matrix, operands);
                               most_pages = std::max(most_pages, resident_pages());
                             }};
  const std::int64_t before = resident_pages();

  const CheckResult result = check_kernel(kernel);

  EXPECT_EQ(result.problem, "");
  EXPECT_EQ(kernel.bytes(), 4 * (2047 * 4 + 1 + 4));
  EXPECT_LT(most_pages - before, 10'000);  // 40 MB of 34 GB
}

TEST_F(KernelCheck, FailsAReadNextToTheRowsOfBThatAreRead) {
  const CsrMatrix matrix{1, 1 << 20, {0, 2}, {5000, 900'000}, {1, 2}};
  for (const std::int64_t row : {4095, 5120, 899'071, 900'096}) {
    const CheckResult result = check(matrix, [&](const Arguments& operands) {
      const std::int64_t ends_at = row < 4096 || row == 899'071 ? k_n - 1 : 0;
      operands.c.as<float>()[0] += 0 * operands.b.as<float>()[row * operands.b.ld + ends_at];
    });

    EXPECT_THAT(result.problem, HasSubstr("C[0][0] is NaN")) << row;
  }
}

/// A layer by loops: what it makes of a sum.
using Finish = std::function<float(float sum, float scale, float bias, float residual)>;

/// As k_everything says.
float finish_right(float sum, float scale, float bias, float residual) {
  const float x = sum * scale + bias + residual;
  return x / (1 + std::exp(-x));
}

constexpr Epilogue k_everything{
    .scale = true, .bias = true, .residual = true, .activation = Activation::silu};

constexpr std::array k_layouts = {Layout::row_major, Layout::panel_major, Layout::tokens_major};
constexpr std::int64_t k_panel_columns = 4;

spjit::Placement operand_of(Layout layout, std::int64_t ld, std::int64_t rows, std::int64_t n) {
  return {layout, ld, {rows, n, k_panel_columns}};
}

void compute_layer(const CsrMatrix& matrix, const Arguments& operands, const Finish& finish) {
  const std::int64_t n = operands.n;
  const spjit::Placement b = operand_of(*operands.b.layout, operands.b.ld, matrix.cols, n);
  const spjit::Placement c = operand_of(*operands.c.layout, operands.c.ld, matrix.rows, n);
  const spjit::Placement residual = operand_of(c.layout, operands.residual.ld, matrix.rows, n);
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (std::int64_t column = 0; column < n; ++column) {
      float sum = 0;
      for (auto i = matrix.row_ptrs[index(row)]; i < matrix.row_ptrs[index(row) + 1]; ++i) {
        const std::int64_t from = b.offset(matrix.col_idxs[index(i)], column);
        sum = std::fma(matrix.values[index(i)], operands.b.as<float>()[from], sum);
      }
      operands.c.as<float>()[c.offset(row, column)] =
          finish(sum, operands.scale == nullptr ? 1 : operands.scale[row],
                 operands.bias == nullptr ? 0 : operands.bias[row],
                 operands.residual.data == nullptr
                     ? 0
                     : operands.residual.as<float>()[residual.offset(row, column)]);
    }
    if (c.layout != Layout::panel_major) continue;
    for (std::int64_t column = n; column % k_panel_columns != 0; ++column) {
      operands.c.as<float>()[c.offset(row, column)] = 0;
    }
  }
}

/// A run with `gap` floats between rows or tokens; of the residual twice that, and none in C.
CheckRun run_of(const CsrMatrix& matrix, Layout b, Layout c, std::int64_t gap) {
  const auto ld = [&](Layout layout, std::int64_t features) {
    return (layout == Layout::tokens_major ? features : k_n) + gap;
  };
  return {.n = k_n,
          .b = {ld(b, matrix.cols), b},
          .c = {ld(c, matrix.rows), c},
          .ldr = ld(c, matrix.rows) + gap};
}

/// A layer of `matrix` with all of an epilogue.
CheckedKernel layer_of(const CsrMatrix& matrix, Layout b, Layout c) {
  CheckRun in_place = run_of(matrix, b, c, 0);
  in_place.ldr = 0;
  return {.matrix = matrix,
          .runs = {in_place, run_of(matrix, b, c, 3)},
          .epilogue = k_everything,
          .panel_columns = k_panel_columns};
}

/// What a check says of a layer that finishes its sums like that, and then has a fault.
std::string layer_problem(CheckedKernel layer, const Fault& fault,
                          const Finish& finish = finish_right) {
  layer.run = [&](const Arguments& operands) {
    compute_layer(layer.matrix, operands, finish);
    fault(operands);
  };
  return check_kernel(layer).problem;
}

TEST_F(KernelCheck, PassesARightLayerInEveryLayout) {
  for (const Layout b : k_layouts) {
    for (const Layout c : k_layouts) {
      EXPECT_EQ(layer_problem(layer_of(matrix_, b, c), k_no_fault), "")
          << to_string(b) << ' ' << to_string(c);
    }
  }
}

TEST_F(KernelCheck, FailsALayerThatDoesAnythingElseThanItsEpilogue) {
  const auto silu = [](float x) { return x / (1 + std::exp(-x)); };
  const std::vector<std::pair<const char*, Finish>> wrong = {
      {"no scale", [&](float x, float, float b, float r) { return silu(x + b + r); }},
      {"no bias", [&](float x, float s, float, float r) { return silu(x * s + r); }},
      {"no residual", [&](float x, float s, float b, float) { return silu(x * s + b); }},
      {"no activation", [&](float x, float s, float b, float r) { return x * s + b + r; }},
      {"another", [&](float x, float s, float b, float r) { return std::max(x * s + b + r, 0.F); }},
      {"scaled late", [&](float x, float s, float b, float r) { return silu((x + b) * s + r); }},
      {"bias late", [&](float x, float s, float b, float r) { return silu(x * s + r) + b; }},
      {"residual late", [&](float x, float s, float b, float r) { return silu(x * s + b) + r; }},
      {"bias subtracted", [&](float x, float s, float b, float r) { return silu(x * s - b + r); }}};

  for (const Layout layout : k_layouts) {
    for (const auto& [name, finish] : wrong) {
      EXPECT_THAT(layer_problem(layer_of(matrix_, layout, layout), k_no_fault, finish),
                  HasSubstr("C = silu(scale * (A * B) + bias + residual)"))
          << name << ' ' << to_string(layout);
    }
  }
}

TEST_F(KernelCheck, TellsTheFormsOfGeluApart) {
  const Finish with_erf = [](float x, float, float bias, float) {
    const double sum = x + bias;
    return static_cast<float>(sum / 2 * (1 + std::erf(sum / std::sqrt(2.0))));
  };
  const Finish with_tanh = [](float x, float, float bias, float) {
    const double sum = x + bias;
    const double u = std::sqrt(2 / M_PI) * (sum + 0.044715 * sum * sum * sum);
    return static_cast<float>(sum / 2 * (1 + std::tanh(u)));
  };
  for (const Activation activation : {Activation::gelu_erf, Activation::gelu_tanh}) {
    const bool is_erf = activation == Activation::gelu_erf;
    CheckedKernel layer = layer_of(matrix_, Layout::tokens_major, Layout::tokens_major);
    layer.epilogue = {.bias = true, .activation = activation};

    EXPECT_EQ(layer_problem(layer, k_no_fault, is_erf ? with_erf : with_tanh), "");
    EXPECT_THAT(layer_problem(layer, k_no_fault, is_erf ? with_tanh : with_erf),
                HasSubstr("the float64 reference"));
  }
}

TEST_F(KernelCheck, FailsWhatTakesLeadingDimensionsOrVectorsOfOthers) {
  for (const Layout layout : {Layout::row_major, Layout::tokens_major}) {
    CheckedKernel layer = layer_of(matrix_, layout, layout);
    const auto problem = [&](const std::function<void(Arguments&)>& change) {
      layer.run = [&](Arguments operands) {
        change(operands);
        compute_layer(matrix_, operands, finish_right);
      };
      return check_kernel(layer).problem;
    };

    EXPECT_NE(problem([](Arguments& o) { o.residual.ld = o.c.ld; }), "") << to_string(layout);
    EXPECT_NE(problem([](Arguments& o) { std::swap(o.scale, o.bias); }), "");
    EXPECT_NE(problem([](Arguments& o) { ++o.bias; }), "");
    EXPECT_NE(problem([](Arguments& o) {
                if (o.residual.ld == o.c.ld) o.residual = o.residual.as<float>() + 1;
              }),
              "");
    EXPECT_NE(problem([&](Arguments& o) { o.b.ld = layer.runs[0].b.leading_dimension; }), "");
  }
  // A [20 x 20] is as large transposed.
  matrix_ = random_matrix(k_n, k_n, 0.5);
  CheckedKernel layer = layer_of(matrix_, Layout::tokens_major, Layout::tokens_major);
  layer.run = [&](Arguments operands) {
    operands.b.layout = Layout::row_major;
    compute_layer(matrix_, operands, finish_right);
  };
  EXPECT_THAT(check_kernel(layer).problem, HasSubstr("B: tokens, ldb = 9; C: tokens, ldc = 9"));
}

TEST_F(KernelCheck, LooksAtTheEpilogueOfEveryRowWithoutEntries) {
  matrix_ = random_matrix(200, 30, 0.9);
  matrix_.row_ptrs.insert(matrix_.row_ptrs.begin() + 100, matrix_.row_ptrs[100]);
  ++matrix_.rows;  // row 100 is empty
  CheckedKernel layer = layer_of(matrix_, Layout::row_major, Layout::row_major);
  layer.run = [&](const Arguments& operands) {
    compute_layer(matrix_, operands, finish_right);
    operands.c.as<float>()[100 * operands.c.ld + 3] = 0;
  };

  EXPECT_THAT(check_kernel(layer, {.most_products = 1}).problem, HasSubstr("C[100][3] is 0, "));
}

TEST_F(KernelCheck, FailsWhatALayerWritesOutsideC) {
  const auto problem = [&](Layout c, const Fault& fault) {
    return layer_problem(layer_of(matrix_, Layout::row_major, c), fault);
  };

  EXPECT_THAT(problem(Layout::tokens_major,
                      [](const Arguments& o) {
                        if (o.c.ld > 30) o.c.as<float>()[2 * o.c.ld + 30] = 0;
                      }),
              HasSubstr("the kernel wrote outside C, behind token 2 (n = 9; "
                        "B: features, ldb = 12; C: tokens, ldc = 33; C = silu(scale * (A * B) + "
                        "bias + residual); ldr = 36)"));
  EXPECT_THAT(problem(Layout::tokens_major, [](const Arguments& o) { o.c.as<float>()[-1] = 0; }),
              HasSubstr("in front of its first token"));
  EXPECT_THAT(
      problem(Layout::tokens_major, [](const Arguments& o) { o.c.as<float>()[k_n * o.c.ld] = 0; }),
      HasSubstr("behind its last token"));
  EXPECT_THAT(problem(Layout::panel_major, [](const Arguments& o) { o.c.as<float>()[30 * 4] = 0; }),
              HasSubstr("the kernel wrote outside C, behind panel 0"));
  // 9 columns in panels of 4: the third has one.
  constexpr std::int64_t k_third = 2 * (30 * 4 + PanelLayout::k_spare_floats);
  EXPECT_THAT(problem(Layout::panel_major,
                      [](const Arguments& o) { o.c.as<float>()[k_third + 7 * 4 + 1] = 1; }),
              HasSubstr("C[7][9], past the last column of its panel, is 1, expected 0"));
}

TEST_F(KernelCheck, FailsAnElementOfALayerThatIsNotWritten) {
  for (const Layout layout : k_layouts) {
    CheckedKernel layer = layer_of(matrix_, layout, layout);
    const auto problem = [&](std::int64_t row, std::int64_t column) {
      layer.run = [&](const Arguments& operands) {
        const std::int64_t at = operand_of(layout, operands.c.ld, 30, k_n).offset(row, column);
        const float before = operands.c.as<float>()[at];
        compute_layer(matrix_, operands, finish_right);
        operands.c.as<float>()[at] = before;
      };
      return check_kernel(layer).problem;
    };

    EXPECT_THAT(problem(29, 8), HasSubstr("C[29][8] was not written"));
    if (layout == Layout::panel_major) {
      EXPECT_THAT(problem(3, 10), HasSubstr("C[3][10] was not written"));
    }
    layer.runs.pop_back();  // the other one has the residual in C
    EXPECT_THAT(problem(29, 8), HasSubstr("C[29][8] is "));
  }
}

TEST_F(KernelCheck, FailsWhatIsWrongForAnotherN) {
  CheckedKernel layer = layer_of(matrix_, Layout::tokens_major, Layout::tokens_major);
  layer.runs.push_back(layer.runs.front());
  layer.runs.back().n = 5;
  const auto problem = [&](std::int64_t n) {
    return layer_problem(layer, [&](const Arguments& o) {
      if (o.n == n) o.c.as<float>()[(n - 1) * o.c.ld] += 1;
    });
  };

  EXPECT_EQ(problem(0), "");
  EXPECT_THAT(problem(k_n), HasSubstr("C[0][8] is "));
  EXPECT_THAT(problem(5), HasSubstr("(n = 5; "));
  layer.run = [&](const Arguments& o) { compute_layer(matrix_, o, finish_right); };
  EXPECT_EQ(check_kernel(layer).columns_checked, k_n);
}

TEST_F(KernelCheck, FailsAReadBehindATokenOrAPanelOfAnOperand) {
  const CheckedKernel layer = layer_of(matrix_, Layout::tokens_major, Layout::panel_major);

  EXPECT_THAT(layer_problem(layer,
                            [](const Arguments& o) {
                              if (o.b.ld > 20) o.c.as<float>()[0] += 0 * o.b.as<float>()[20];
                            }),
              HasSubstr("C[0][0] is NaN"));
  for (const auto& read : std::vector<std::function<float(const Arguments&)>>{
           [](const Arguments& o) {
             return o.residual.data == o.c.data ? 0 : o.residual.as<float>()[30 * 4];
           },
           [](const Arguments& o) { return o.scale[30]; },
           [](const Arguments& o) { return o.bias[-1]; }}) {
    EXPECT_THAT(
        layer_problem(layer, [&](const Arguments& o) { o.c.as<float>()[0] += 0 * read(o); }),
        HasSubstr("C[0][0] is NaN"));
  }
}

TEST_F(KernelCheck, TakesTokensThatOverlapAndComparesThemWithSomeThatDoNot) {
  CheckedKernel layer = layer_of(matrix_, Layout::tokens_major, Layout::tokens_major);
  layer.runs.front().b.leading_dimension = 3;

  EXPECT_EQ(layer_problem(layer, k_no_fault), "");
  for (const std::int64_t ldb : {3, 23}) {
    EXPECT_THAT(layer_problem(layer,
                              [&](const Arguments& o) {
                                if (o.b.ld == ldb) o.c.as<float>()[0] += 0.5F;
                              }),
                HasSubstr("C[0][0]"));
  }
}

TEST_F(KernelCheck, KnowsWhatTheOperandsOfALayerTake) {
  const CheckedKernel layer = layer_of(matrix_, Layout::panel_major, Layout::tokens_major);

  EXPECT_EQ(layer.bytes(), 4 * (3 * (20 * 4 + 16) + 9 * 36 + 9 * 30 + 9 * 33));
}

}  // namespace
