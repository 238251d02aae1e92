#include "kernels/host/windows/windows_kernel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <stop_token>
#include <tuple>
#include <vector>

#include "kernels/dense_bits.hpp"
#include "kernels/host/host_rules.hpp"
#include "kernels/host/loops/csr_kernel.hpp"
#include "spjit/error.hpp"
#include "spjit/matrix.hpp"
#include "tests/support/guarded_buffers.hpp"
#include "tests/support/guarded_operands.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::CsrMatrix;
using spjit::CsrView;
using spjit::FloatBuffer;
using spjit::HeldType;
using spjit::HostIsa;
using spjit::RowRange;
using spjit::view_of;
using spjit::window_shape;
using spjit::WindowOperands;
using spjit::WindowShape;
using spjit::WindowSlots;
using spjit::WindowsMatrix;
using spjit::WindowValues;
using spjit::testing_support::dense_values;
using spjit::testing_support::GuardedBuffers;
using spjit::testing_support::GuardedFloats;
using spjit::testing_support::GuardedOperands;
using spjit::testing_support::GuardPlacement;
using spjit::testing_support::index;
using spjit::testing_support::k_placements;
using spjit::testing_support::OperandShape;
using spjit::testing_support::random_matrix;
using spjit::testing_support::same_bits;

constexpr float k_nan = std::numeric_limits<float>::quiet_NaN();
constexpr float k_infinite = std::numeric_limits<float>::infinity();

/// Rows of such columns, each entry with a value of its own.
CsrMatrix matrix_of(std::int64_t cols, const std::vector<std::vector<std::int32_t>>& rows) {
  CsrMatrix matrix{std::ssize(rows), cols, {0}, {}, {}};
  for (const std::vector<std::int32_t>& row : rows) {
    for (const std::int32_t column : row) {
      matrix.col_idxs.push_back(column);
      matrix.values.push_back(0.25F + static_cast<float>(matrix.nnz() % 97));
    }
    matrix.row_ptrs.push_back(matrix.nnz());
  }
  return matrix;
}

/// What both kernels make of B, with padding between the rows of C that must stay as it was. All
/// that is read and written lies against pages that cannot be touched.
struct BothProducts {
  GuardedOperands windows;
  GuardedOperands csr;
  bool intact = false;
  bool taken = false;

  BothProducts(const CsrMatrix& matrix, HostIsa isa, const OperandShape& shape,
               GuardPlacement placement, const std::vector<float>& b = {}, std::int64_t parts = 1)
      : windows(matrix, shape, placement, b), csr(matrix, shape, placement, b) {
    const GuardedBuffers guarded(placement);
    const WindowsMatrix steps(view_of(matrix), isa);
    const GuardedFloats columns(steps.column_floats() * shape.n, placement);
    steps.copy_columns({windows.b(), shape.ldb, nullptr, 0, shape.n}, columns.data());
    columns.seal();
    const WindowOperands operands{columns.data(), windows.c(), shape.ldc, shape.n};
    taken = steps.takes(operands, steps.values());
    for (const RowRange& part : steps.split(parts, shape.n)) {
      steps.run(part, operands, steps.values());
    }
    intact = columns.intact();
    spjit::run_csr(view_of(matrix), isa, {csr.b(), shape.ldb, csr.c(), shape.ldc, shape.n});
  }

  [[nodiscard]] bool same() const {
    return intact && taken && same_bits(windows.all_of_c(), csr.all_of_c());
  }
};

using IsaAndPlacement = std::tuple<HostIsa, GuardPlacement>;

class WindowsKernel : public testing::TestWithParam<IsaAndPlacement> {
 protected:
  void SetUp() override {
    if (!spjit::Target(isa()).runs_here()) GTEST_SKIP() << "no " << to_string(isa()) << " here";
  }

  static HostIsa isa() { return std::get<0>(GetParam()); }
  static GuardPlacement placement() { return std::get<1>(GetParam()); }

  static BothProducts product(const CsrMatrix& matrix, const OperandShape& shape,
                              const std::vector<float>& b = {}, std::int64_t parts = 1) {
    return {matrix, isa(), shape, placement(), b, parts};
  }

  static void expect_same(const CsrMatrix& matrix, const OperandShape& shape) {
    const BothProducts both = product(matrix, shape);
    EXPECT_TRUE(both.same()) << matrix.rows << " x " << matrix.cols << ", "
                             << both.windows.describe();
  }
};

TEST_P(WindowsKernel, GivesTheBitsOfTheCsrKernelForEveryShape) {
  for (const std::int64_t rows : {1, 2, 7, 8, 9, 15, 16, 17, 33, 64, 100}) {
    for (const std::int64_t cols : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 300}) {
      for (const double sparsity : {0.0, 0.5, 0.9, 0.99, 1.0}) {
        const CsrMatrix matrix = random_matrix(rows, cols, sparsity);
        for (std::int64_t n = 1; n <= spjit::k_most_window_columns; ++n) {
          expect_same(matrix, {n, n, n});
          expect_same(matrix, {n, n + 3, n + 2});
        }
      }
    }
  }
}

TEST_P(WindowsKernel, TakesWindowsWhereverEntriesAre) {
  std::vector<std::int32_t> all(200);
  std::iota(all.begin(), all.end(), 0);
  const std::vector<std::vector<std::int32_t>> rows = {all,       // a dense row beside short ones
                                                       {},        // and empty ones
                                                       {199},     // the last column
                                                       {0, 199},  // from the first to the last
                                                       {0, 31, 32, 63},  // both ends of windows
                                                       {0, 7, 8, 15, 16},
                                                       {167, 168},  // where the last window begins
                                                       {183, 184},
                                                       {},
                                                       {5, 36, 37, 68, 69, 100, 101}};
  const CsrMatrix matrix = matrix_of(200, rows);

  expect_same(matrix, {1, 1, 1});
  expect_same(matrix, {4, 4, 4});
}

TEST_P(WindowsKernel, TakesAsManyColumnsAsAStepCanName) {
  const auto last = static_cast<std::int32_t>(window_shape(isa()).most_cols()) - 1;

  expect_same(matrix_of(last + 1, {{0, last}, {last - 40, last - 16, last - 1}, {last / 2}}),
              {1, 1, 1});
}

TEST_P(WindowsKernel, AnElementOfBWithoutAnEntryIsNeverUsed) {
  CsrMatrix matrix = random_matrix(40, 150, 0.8);
  std::vector<float> b = dense_values(150);
  std::mt19937 random(5);
  for (int poisoned = 0; poisoned < 20; ++poisoned) {
    const auto column = static_cast<std::int32_t>(random() % 150);
    b[index(column)] = poisoned % 2 == 0 ? k_nan : k_infinite;
  }
  // Values that must be told from padding.
  for (std::size_t i = 0; i < matrix.values.size(); i += 3) matrix.values[i] = i % 2 ? 0.0F : -0.0F;

  const BothProducts both = product(matrix, {1, 1, 1}, b);

  if (isa() == HostIsa::avx2) {
    EXPECT_FALSE(both.taken) << "zeros times NaN";
    return;
  }
  EXPECT_TRUE(both.same());
  EXPECT_TRUE(std::ranges::any_of(both.windows.all_of_c(), [](float c) { return c == c; }));
  EXPECT_TRUE(std::ranges::any_of(both.windows.all_of_c(), [](float c) { return c != c; }));
}

TEST_P(WindowsKernel, TakesNoOneBadElementOfBWhereItAddsZeros) {
  if (isa() != HostIsa::avx2) GTEST_SKIP() << "it adds none";
  const CsrMatrix matrix = random_matrix(40, 75, 0.8);
  for (const float bad : {k_nan, k_infinite, -k_infinite, 1e-40F, -1e-32F}) {
    for (const std::int64_t n : {1, 3}) {
      for (const std::int64_t at : {std::int64_t{0}, 40 * n, 75 * n - 1}) {
        std::vector<float> b = dense_values(75 * n);
        b[index(at)] = bad;
        EXPECT_FALSE(product(matrix, {n, n, n}, b).taken) << bad << " at " << at << " of " << n;
        b[index(at)] = at % 2 == 0 ? 0.0F : -0.0F;
        EXPECT_TRUE(product(matrix, {n, n, n}, b).same()) << at;
      }
    }
  }
}

TEST_P(WindowsKernel, KeepsNegativeZerosAndDenormals) {
  const float denormal = std::numeric_limits<float>::denorm_min();
  CsrMatrix matrix = matrix_of(64, {{0, 1}, {1, 40}, {2}, {3, 63}});
  matrix.values = {-denormal, 1, denormal, denormal, -1e-30F, 1, 0.5F};
  std::vector<float> b(64, 0.25F);
  b[1] = 3;
  b[2] = 1e-30F;
  b[3] = -0.0F;

  const BothProducts both = product(matrix, {1, 1, 1}, b);

  EXPECT_EQ(both.taken, isa() == HostIsa::avx512);
  if (!both.taken) return;
  EXPECT_TRUE(both.same());
  const float underflowed = both.windows.all_of_c()[2];
  EXPECT_TRUE(std::signbit(underflowed) && underflowed == 0);
}

TEST_P(WindowsKernel, AnySplitGivesTheSameAndHasEveryPairOnce) {
  const CsrMatrix matrix = random_matrix(3000, 90, 0.8);
  const WindowsMatrix steps(view_of(matrix), isa());
  for (const std::int64_t parts : {1, 2, 3, 7, 100}) {
    std::int64_t next = 0;
    for (const RowRange& part : steps.split(parts, 2)) {
      EXPECT_EQ(part.begin, next);
      EXPECT_LT(part.begin, part.end);
      next = part.end;
    }
    EXPECT_EQ(next, steps.pairs());
    EXPECT_LE(std::ssize(steps.split(parts, 2)), parts);
    EXPECT_TRUE(product(matrix, {2, 2, 2}, {}, parts).same()) << parts;
  }
  EXPECT_GT(steps.split(7, 2).size(), 2U);
}

TEST_P(WindowsKernel, ReadsNothingBesideBWhereItTakesItInPlace) {
  for (const std::int64_t cols : {32, 48, 64, 160}) {
    const CsrMatrix matrix = random_matrix(50, cols, 0.7);
    const WindowsMatrix steps(view_of(matrix), isa());
    const GuardedOperands operands(matrix, {1, 1, 1}, placement());
    ASSERT_TRUE(steps.takes_in_place({operands.b(), 1, operands.c(), 1, 1}));

    steps.run({0, steps.pairs()}, {operands.b(), operands.c(), 1, 1}, steps.values());

    EXPECT_TRUE(operands.holds_product(matrix, isa())) << cols;
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, WindowsKernel,
                         testing::Combine(testing::Values(HostIsa::avx512, HostIsa::avx2),
                                          testing::ValuesIn(k_placements)),
                         [](const auto& of) {
                           return to_string(std::get<0>(of.param)) + "_" +
                                  testing::PrintToString(std::get<1>(of.param));
                         });

class WindowsOfIsa : public testing::TestWithParam<HostIsa> {
 protected:
  static WindowsMatrix windows_of(const CsrMatrix& matrix) { return {view_of(matrix), GetParam()}; }
  static WindowShape shape() { return window_shape(GetParam()); }
};

TEST_P(WindowsOfIsa, ArrangesValuesThatItWasMadeWithout) {
  const CsrMatrix matrix = random_matrix(37, 90, 0.6);
  CsrView pattern = view_of(matrix);
  pattern.values = {};
  const WindowsMatrix steps(pattern, GetParam());
  std::vector<float> values(matrix.values.size());
  std::iota(values.begin(), values.end(), 1.0F);

  const WindowValues arranged = steps.arrange(values);

  const auto* const floats = reinterpret_cast<const float*>(arranged.steps.from(0));
  const std::int64_t count = steps.steps() * shape().lanes;
  EXPECT_EQ(arranged.steps.bytes(), count * 4);
  std::vector<float> sorted(floats, floats + count);
  std::ranges::sort(sorted);
  const auto entries = std::ranges::upper_bound(sorted, 0.0F);
  EXPECT_TRUE(std::equal(entries, sorted.end(), values.begin(), values.end()));
  EXPECT_EQ(arranged.least_b, spjit::least_b_for(1));
}

TEST_P(WindowsOfIsa, KeepsNeighboursTogetherWhereTheyHaveLikeColumns) {
  // A band of rows of 1 to 23 entries, AVX-512: 6186 steps with each 128 rows sorted, 13153 with
  // all.
  std::vector<std::vector<std::int32_t>> rows(2048);
  for (int row = 0; row < 2048; ++row) {
    for (int i = 0; i <= row * 7 % 23; ++i) rows[index(row)].push_back(row + i);
  }

  EXPECT_LT(windows_of(matrix_of(2048 + 23, rows)).steps(), 7000 * 16 / shape().lanes);
}

TEST_P(WindowsOfIsa, AreNotSplitWhereAThreadWouldHaveLittleToDo) {
  EXPECT_EQ(windows_of(random_matrix(5, 5, 1.0)).split(4, 1).size(), 1U);
  EXPECT_EQ(windows_of(random_matrix(100, 90, 0.8)).split(4, 1).size(), 1U);
  EXPECT_TRUE(windows_of(CsrMatrix{0, 5, {0}, {}, {}}).split(4, 1).empty());
}

TEST_P(WindowsOfIsa, ReadBWhereItIsIfThatIsAlignedAndLongEnough) {
  const GuardedFloats aligned(128, GuardPlacement::at_start);
  const float* b = aligned.data();
  const auto in_place = [](std::int64_t cols, const float* at, std::int64_t n, std::int64_t ldb) {
    return windows_of(random_matrix(20, cols, 0.5)).takes_in_place({at, ldb, nullptr, n, n});
  };
  const bool any = shape().align == 1;
  EXPECT_TRUE(in_place(64, b, 1, 1));
  EXPECT_EQ(in_place(64, b + 1, 1, 1), any);
  EXPECT_FALSE(in_place(64, b, 1, 2));
  EXPECT_FALSE(in_place(64, b, 2, 2));
  EXPECT_EQ(in_place(63, b, 1, 1), any);  // 64 would be read
  EXPECT_FALSE(in_place(shape().window - 1, b, 1, 1));
}

TEST_P(WindowsOfIsa, AStepTakesColumnsOfAWindow) {
  const auto steps = [](std::int64_t column) {
    return windows_of(matrix_of(64, {{0}, {static_cast<std::int32_t>(column)}})).steps();
  };
  EXPECT_EQ(steps(shape().window - 1), 1);
  EXPECT_EQ(steps(shape().window), 2);
}

TEST_P(WindowsOfIsa, SortRowsByLengthSoThatALaneWaitsForFew) {
  // Rows of one entry and of forty, alternating: two groups, not two of forty steps each.
  std::vector<std::vector<std::int32_t>> rows;
  for (std::int64_t row = 0; row < 2 * shape().lanes; ++row) {
    rows.emplace_back(row % 2 == 0 ? 1 : 40);
    std::iota(rows.back().begin(), rows.back().end(), 0);
  }

  const WindowsMatrix steps = windows_of(matrix_of(40, rows));

  EXPECT_EQ(steps.pairs(), 1);
  EXPECT_EQ(steps.steps(), 41);
}

INSTANTIATE_TEST_SUITE_P(Isas, WindowsOfIsa, testing::Values(HostIsa::avx512, HostIsa::avx2),
                         [](const auto& of) { return to_string(of.param); });

class WindowBytes : public testing::TestWithParam<HostIsa> {};

TEST_P(WindowBytes, CanBeCancelled) {
  const CsrMatrix matrix = random_matrix(100, 100, 0.5);
  std::stop_source stop;
  stop.request_stop();

  EXPECT_THROW(static_cast<void>(spjit::window_bytes(view_of(matrix), window_shape(GetParam()),
                                                     {.deadline = {}, .stop = stop.get_token()})),
               spjit::Cancelled);
}

TEST_P(WindowBytes, AreThoseOfItsSteps) {
  const CsrMatrix matrix = random_matrix(100, 100, 0.5);
  const std::int64_t step_bytes = GetParam() == HostIsa::avx512 ? 16 * 5 + 2 : 8 * 5 + 2;

  EXPECT_EQ(spjit::window_bytes(view_of(matrix), window_shape(GetParam())),
            WindowsMatrix(view_of(matrix), GetParam()).steps() * step_bytes);
}

TEST_P(WindowBytes, OfNarrowValuesAreTwoOrThreeFewerALane) {
  const CsrMatrix matrix = random_matrix(100, 100, 0.5);
  const std::int64_t lanes = window_shape(GetParam()).lanes;
  const auto bytes_of_step = [&](HeldType held) {
    const WindowsMatrix steps(view_of(matrix), GetParam(), held);
    EXPECT_EQ(steps.bytes() % steps.steps(), 0);
    return steps.bytes() / steps.steps();
  };

  EXPECT_EQ(bytes_of_step(HeldType::f32), lanes * 5 + 2);
  EXPECT_EQ(bytes_of_step(HeldType::bf16), lanes * 3 + 2);
  EXPECT_EQ(bytes_of_step(HeldType::f16), lanes * 3 + 2);
  EXPECT_EQ(bytes_of_step(HeldType::i8), lanes * 2 + 2);
}

TEST_P(WindowBytes, AreAllThatIsHeldBesideRows) {
  const CsrMatrix matrix = random_matrix(300, 200, 0.5);
  CsrView view = view_of(matrix);
  const auto spare_bytes = [&](HeldType held, WindowSlots slots) {
    const WindowsMatrix steps(view, GetParam(), held, {}, slots);
    return steps.held_bytes() - steps.bytes();
  };
  // Where entries of A were in steps, eight bytes a slot, would be 250 KB or more.
  constexpr std::int64_t k_rows_bytes = 8000;

  EXPECT_LT(spare_bytes(HeldType::f32, WindowSlots::apart), k_rows_bytes);
  CsrMatrix nibbles = matrix;
  std::ranges::fill(nibbles.values, 5.0F);
  const std::vector<float> scales(300 * 7, 1.0F);
  view = view_of(nibbles);
  view.groups = {32, scales};
  EXPECT_LT(spare_bytes(HeldType::i8, WindowSlots::packed), k_rows_bytes);
}

TEST_P(WindowBytes, OfPackedSlotsAreOneALane) {
  CsrMatrix matrix = random_matrix(64, 96, 0.5);
  std::ranges::fill(matrix.values, -3.0F);
  const std::vector<float> scales(64 * 3, 1.0F);
  CsrView view = view_of(matrix);
  view.groups = {32, scales};
  const std::int64_t lanes = window_shape(GetParam()).lanes;
  const auto bytes_of_step = [&] {
    const WindowsMatrix steps(view, GetParam(), HeldType::i8, {}, WindowSlots::packed);
    const std::int64_t of_scales = steps.pairs() * 3 * (2 * lanes * 4 + 6);
    EXPECT_EQ((steps.bytes() - of_scales) % steps.steps(), 0);
    return (steps.bytes() - of_scales) / steps.steps();
  };

  EXPECT_EQ(bytes_of_step(), lanes + 1);
  matrix.values[7] = 0;  // an entry that a byte cannot tell from none
  EXPECT_EQ(bytes_of_step(), lanes * 2 + 2);
}

INSTANTIATE_TEST_SUITE_P(Isas, WindowBytes, testing::Values(HostIsa::avx512, HostIsa::avx2),
                         [](const auto& of) { return to_string(of.param); });

TEST(PrefersWindows, UnlessPaddingIsMostOfIt) {
  const auto prefers = [](const CsrMatrix& matrix) {
    const auto bytes =
        static_cast<double>(spjit::window_bytes(view_of(matrix), window_shape(HostIsa::avx512)));
    return spjit::prefers_windows(matrix, bytes);
  };
  EXPECT_TRUE(prefers(random_matrix(100, 100, 0.5)));
  // An entry a row, each far from the others: a step for every one of them.
  std::vector<std::vector<std::int32_t>> rows(20'000);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    rows[row] = {static_cast<std::int32_t>(row * 1009 % 1'000'000)};
  }
  EXPECT_FALSE(prefers(matrix_of(1'000'000, rows)));
  for (std::vector<std::int32_t>& row : rows) row[0] %= 60'000;
  rows.resize(100);
  EXPECT_TRUE(prefers(matrix_of(60'000, rows)));
}

}  // namespace
