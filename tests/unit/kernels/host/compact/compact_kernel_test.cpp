#include "kernels/host/loops/compact_kernel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "spjit/error.hpp"
#include "tests/support/guarded_buffers.hpp"
#include "tests/support/guarded_operands.hpp"
#include "tests/support/long_tests.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::CompactBlocks;
using spjit::CompactCpu;
using spjit::CompactMatrix;
using spjit::CompactOrder;
using spjit::CsrMatrix;
using spjit::HeldType;
using spjit::HostIsa;
using spjit::RowRange;
using spjit::view_of;
using spjit::testing_support::dense_values;
using spjit::testing_support::GuardedFloats;
using spjit::testing_support::GuardedOperands;
using spjit::testing_support::GuardPlacement;
using spjit::testing_support::in_turn_if_emulated;
using spjit::testing_support::index;
using spjit::testing_support::k_placements;
using spjit::testing_support::OperandShape;
using spjit::testing_support::random_matrix;

/// Rows of such lengths, the entries in the first columns.
CsrMatrix rows_of(std::int64_t cols, const std::vector<std::int64_t>& lengths) {
  CsrMatrix matrix{std::ssize(lengths), cols, {0}, {}, {}};
  for (const std::int64_t length : lengths) {
    for (std::int32_t column = 0; column < length; ++column) {
      matrix.col_idxs.push_back(column);
      matrix.values.push_back(0.25F + static_cast<float>(matrix.nnz() % 97));
    }
    matrix.row_ptrs.push_back(matrix.nnz());
  }
  return matrix;
}

CompactCpu cpu_of(HostIsa isa, const char* vendor, int family) {
  spjit::HostCpu cpu;
  cpu.vendor = vendor;
  cpu.family = family;
  return compact_cpu_of(isa, cpu);
}

/// A loop: for which CPU, and in which order it takes A.
struct Loop {
  const char* name;
  CompactCpu cpu;
  CompactOrder order = CompactOrder::slices;
  bool sorted = true;
};

/// A loop; where operands lie.
using Case = std::tuple<Loop, GuardPlacement>;

class CompactKernel : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!spjit::Target(isa()).runs_here()) GTEST_SKIP() << "no " << to_string(isa()) << " here";
  }
  static HostIsa isa() { return cpu().isa; }
  static CompactCpu cpu() { return std::get<Loop>(GetParam()).cpu; }
  static CompactBlocks blocks(std::int64_t columns) {
    const Loop& loop = std::get<Loop>(GetParam());
    return {columns, loop.order, loop.sorted};
  }

  /// In parts of rows, as threads take them; everything that is read and written lies against pages
  /// that cannot be touched.
  static void expect_product(const CsrMatrix& matrix, const OperandShape& shape,
                             std::int64_t block_columns = 128, std::int64_t parts = 1,
                             const std::vector<float>& b = {}) {
    const GuardedOperands operands(matrix, shape, std::get<GuardPlacement>(GetParam()), b);
    const GuardedFloats workspace(CompactMatrix::k_workspace_floats, GuardPlacement::at_end);
    for (const RowRange& rows : spjit::split_rows(view_of(matrix), parts)) {
      CompactMatrix(view_of(matrix), rows, blocks(block_columns))
          .run({operands.b(), shape.ldb, operands.c(), shape.ldc, shape.n}, cpu(),
               workspace.data());
    }
    EXPECT_TRUE(operands.holds_product(matrix, isa()))
        << matrix.rows << " x " << matrix.cols << ", " << operands.describe() << ", blocks of "
        << block_columns;
    EXPECT_TRUE(workspace.intact());
  }
};

TEST_P(CompactKernel, ComputesEveryShape) {
  for (const std::int64_t rows : {1, 2, 7, 8, 9, 16, 17, 50}) {
    for (const std::int64_t cols :
         in_turn_if_emulated<std::int64_t>(7, {1, 2, 127, 128, 129, 256, 300})) {
      for (const double sparsity : {0.0, 0.5, 0.9, 0.99, 1.0}) {
        const CsrMatrix matrix = random_matrix(rows, cols, sparsity);
        for (const std::int64_t n : {1, 7, 8, 9, 16, 17, 32, 33, 48, 64, 65}) {
          expect_product(matrix, {n, n, n});
          expect_product(matrix, {n, n + 3, n + 2}, 256);
          expect_product(matrix, {n, n + 1, n}, CompactMatrix::k_most_block_columns);
        }
      }
    }
  }
}

TEST_P(CompactKernel, ComputesEveryWidth) {
  const CsrMatrix matrix = random_matrix(21, 150, 0.7);
  for (std::int64_t n = 1; n <= 200; ++n) {
    expect_product(matrix, {n, n, n});
    expect_product(matrix, {n, n, n}, CompactMatrix::k_most_packed_columns + 1);
  }
}

TEST_P(CompactKernel, ComputesMoreColumnsThanAreTakenAtOnce) {
  const CsrMatrix matrix = random_matrix(19, 140, 0.7);
  for (const std::int64_t n : {256, 257, 300, 513}) {
    expect_product(matrix, {n, n, n});
    expect_product(matrix, {n, n + 1, n + 2}, CompactMatrix::k_most_block_columns);
  }
}

/// Runs of such lengths, which come again and again, with a gap behind each.
std::vector<spjit::ColumnRun> runs_of(std::int64_t n, const std::vector<std::int64_t>& lengths,
                                      std::int64_t gap) {
  std::vector<spjit::ColumnRun> runs;
  for (std::int64_t column = 0; column < n; column += lengths[(runs.size() - 1) % lengths.size()]) {
    runs.push_back({column, column + std::ssize(runs) * gap});
  }
  return runs;
}

TEST_P(CompactKernel, WithoutRowsTouchesNothing) {
  const std::vector<float> b = dense_values(8, 3);
  std::vector<float> c(8, 7);

  CompactMatrix::run({}, {b.data(), 8, c.data(), 8, 8}, cpu(), nullptr);

  EXPECT_EQ(c, std::vector<float>(8, 7));
}

TEST_P(CompactKernel, ReadsRunsOfColumns) {
  const CsrMatrix matrix = random_matrix(19, 600, 0.7);
  const GuardPlacement placement = std::get<GuardPlacement>(GetParam());
  const GuardedFloats workspace(CompactMatrix::k_workspace_floats, GuardPlacement::at_end);
  for (const std::int64_t block : {64, 256, 512}) {
    const CompactMatrix compact(view_of(matrix), {0, matrix.rows}, blocks(block));
    for (const std::int64_t n : {1, 7, 8, 13, 16, 31, 49, 64, 65, 196, 300}) {
      const std::vector<float> b = dense_values(matrix.cols * n, 3);
      std::vector<float> expected(index(matrix.rows * n));
      compact.run({b.data(), n, expected.data(), n, n}, cpu(), workspace.data());
      for (const std::vector<std::int64_t>& lengths : std::vector<std::vector<std::int64_t>>{
               {1}, {7}, {8, 1}, {14}, {15, 17, 2}, {49}, {1000}}) {
        const std::vector<spjit::ColumnRun> runs = runs_of(n, lengths, 3);
        const std::int64_t width = runs.back().offset + n - runs.back().column;
        const GuardedFloats stored((matrix.cols - 1) * (width + 2) + width, placement);
        std::ranges::fill(stored.span(), std::numeric_limits<float>::quiet_NaN());
        for (std::int64_t row = 0; row < matrix.cols; ++row) {
          for (std::size_t i = 0; i < runs.size(); ++i) {
            const std::int64_t end = i + 1 < runs.size() ? runs[i + 1].column : n;
            for (std::int64_t j = runs[i].column; j < end; ++j) {
              stored.span()[index(row * (width + 2) + runs[i].offset + j - runs[i].column)] =
                  b[index(row * n + j)];
            }
          }
        }
        const GuardedFloats c(matrix.rows * n, placement);

        compact.run(
            {.b = stored.data(), .ldb = width + 2, .c = c.data(), .ldc = n, .n = n, .runs = runs},
            cpu(), workspace.data());

        EXPECT_TRUE(std::ranges::equal(c.span(), expected)) << n << " in runs of " << lengths[0];
        EXPECT_TRUE(c.intact());
        EXPECT_TRUE(workspace.intact());
      }
    }
  }
}

TEST_P(CompactKernel, ReadsNothingPastRowsOfOneCacheLine) {
  const CsrMatrix matrix = random_matrix(19, 140, 0.7);
  for (std::int64_t n = 1; n <= 16; ++n) expect_product(matrix, {n, 16, n});
}

TEST_P(CompactKernel, TakesRowsOfAnyLengthsTogether) {
  const CsrMatrix one_long = rows_of(300, {1, 0, 2, 300, 0, 1, 1, 1, 1});
  const CsrMatrix ascending = rows_of(300, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 299});
  for (const std::int64_t n : {1, 8, 16, 32, 64, 100}) {
    for (const std::int64_t block : {1, 8, 100, 256, 600}) {
      expect_product(one_long, {n, n, n}, block);
      expect_product(ascending, {n, n, n}, block);
    }
  }
}

TEST_P(CompactKernel, ReadsInPlaceMoreColumnsThanABlockHas) {
  const CsrMatrix matrix = random_matrix(11, 20'000, 0.995);
  for (const std::int64_t n : {1, 17, 64, 70}) {
    expect_product(matrix, {n, n + 5, n}, CompactMatrix::k_most_block_columns);
  }
}

TEST_P(CompactKernel, WritesZerosIntoRowsWithoutEntries) {
  for (const std::int64_t n : {1, 16, 40}) {
    expect_product(rows_of(10, {0, 0, 0}), {n, n, n + 1});
    expect_product(rows_of(0, {0, 0, 0}), {n, n, n});
    expect_product(rows_of(5, {}), {n, n, n});
  }
}

TEST_P(CompactKernel, AnyPartsGiveTheSame) {
  const CsrMatrix matrix = random_matrix(300, 290, 0.8);
  for (const std::int64_t parts : {1, 2, 3, 7, 40}) {
    expect_product(matrix, {16, 16, 16}, 128, parts);
    expect_product(matrix, {70, 71, 72}, 256, parts);
  }
}

TEST_P(CompactKernel, AnElementOfBWithoutAnEntryIsNeverUsed) {
  CsrMatrix matrix = random_matrix(40, 150, 0.8);
  // Values that must be told from padding.
  for (std::size_t i = 0; i < matrix.values.size(); i += 3) {
    matrix.values[i] = i % 2 == 0 ? 0.0F : -0.0F;
  }
  for (const std::int64_t n : {1, 16, 64}) {
    std::vector<float> b = dense_values(150 * n);
    for (std::size_t i = 0; i < b.size(); i += 11) b[i] = i % 2 == 0 ? std::nanf("") : HUGE_VALF;
    expect_product(matrix, {n, n, n}, 64, 1, b);
    expect_product(matrix, {n, n, n}, CompactMatrix::k_most_block_columns, 1, b);
  }
}

TEST_P(CompactKernel, KeepsNegativeZerosAndDenormals) {
  const float denormal = std::numeric_limits<float>::denorm_min();
  CsrMatrix matrix = rows_of(64, {2, 2, 1, 2});
  matrix.col_idxs = {0, 1, 1, 40, 2, 3, 63};
  matrix.values = {-denormal, 1, denormal, denormal, -1e-30F, 1, 0.5F};
  std::vector<float> b(64, 0.25F);
  b[1] = 3;
  b[2] = 1e-30F;
  b[3] = -0.0F;

  expect_product(matrix, {1, 1, 1}, 256, 1, b);
}

constexpr auto k_name = [](const auto& parameter) {
  const auto& [loop, placement] = parameter.param;
  return std::string(loop.name) + "_" + to_string(placement);
};

constexpr CompactCpu k_loading = {.isa = HostIsa::avx512, .loads_weights = true};
constexpr CompactCpu k_avx2 = {.isa = HostIsa::avx2};

INSTANTIATE_TEST_SUITE_P(
    Guarded, CompactKernel,
    testing::Combine(testing::Values(Loop{"avx512", {}}, Loop{"avx512_loading", k_loading},
                                     Loop{"avx512_rows", {}, CompactOrder::rows},
                                     Loop{"avx2", k_avx2},
                                     Loop{"avx2_rows", k_avx2, CompactOrder::rows},
                                     Loop{"avx2_rows_of_a", k_avx2, CompactOrder::rows, false}),
                     testing::ValuesIn(k_placements)),
    k_name);

TEST(CompactBlocks, FitTheL1CacheUnlessFewEntriesShareThem) {
  CompactCpu cpu;
  const auto columns = [&](double density, std::int64_t n) {
    return compact_blocks(view_of(random_matrix(400, 300, 1 - density)), cpu, n, n).columns;
  };

  EXPECT_EQ(columns(0.5, 16), 256);
  EXPECT_EQ(columns(0.5, 64), 128);
  EXPECT_EQ(columns(0.1, 16), CompactMatrix::k_most_packed_columns);
  EXPECT_EQ(columns(0.1, 64), 128);
  EXPECT_EQ(columns(0.06, 64), CompactMatrix::k_most_packed_columns);
  EXPECT_EQ(columns(0.04, 64), CompactMatrix::k_most_block_columns);  // 16 entries a row of B
  EXPECT_EQ(columns(0.04, 16), CompactMatrix::k_most_packed_columns);
  EXPECT_EQ(columns(0.04, 192), CompactMatrix::k_most_packed_columns);
  cpu.isa = HostIsa::avx2;
  EXPECT_EQ(columns(0.5, 16), 256);
}

TEST(CompactBlocks, AreOfRowsForManyColumnsWithAvx2) {
  const auto blocks = [](double density, const spjit::Extent& n, HostIsa isa = HostIsa::avx2) {
    const CompactCpu cpu = cpu_of(isa, "AuthenticAMD", 25);
    return compact_blocks(view_of(random_matrix(400, 1530, 1 - density)), cpu, n, n.value);
  };

  EXPECT_EQ(blocks(0.5, 16).order, CompactOrder::slices);
  EXPECT_EQ(blocks(0.2, 17).order, CompactOrder::rows);
  EXPECT_EQ(blocks(0.5, 25).order, CompactOrder::rows);
  EXPECT_EQ(blocks(0.5, 63, HostIsa::avx512).order, CompactOrder::slices);
  EXPECT_EQ(blocks(0.5, 64, HostIsa::avx512).order, CompactOrder::rows);
  EXPECT_EQ(blocks(0.5, 32).columns, 255) << "six blocks of one size";
  EXPECT_EQ(blocks(0.06, 32).columns, 510);
  EXPECT_EQ(blocks(0.5, spjit::Extent::at_run_time(32)).columns, 128);
  EXPECT_EQ(blocks(0.5, 33).columns, 128);
  EXPECT_EQ(blocks(0.1, 64).columns, 192);
  EXPECT_EQ(blocks(0.06, 64).columns, 383);
  EXPECT_EQ(blocks(0.025, 64).columns, 510) << "10 entries a row of B";
  EXPECT_EQ(blocks(0.0175, 64).columns, CompactMatrix::k_most_block_columns) << "7";
  EXPECT_EQ(blocks(0.0175, 65).columns, 510);
  EXPECT_EQ(blocks(0.01, 65).columns, CompactMatrix::k_most_block_columns) << "4";
  EXPECT_EQ(blocks(0.01, 192).columns, 510);
  EXPECT_TRUE(blocks(0.5, 16).sorted);
  EXPECT_TRUE(blocks(0.1, 64).sorted);
  EXPECT_FALSE(blocks(0.1, 65).sorted);
  EXPECT_TRUE(blocks(0.13, 65).sorted);
}

TEST(CompactBlocks, AreSlicesOfThreeVectorsWithAvx2WhereAHasFewZeros) {
  const CompactCpu cpu = cpu_of(HostIsa::avx2, "AuthenticAMD", 25);
  const auto blocks = [&](double density, const spjit::Extent& n) {
    return compact_blocks(view_of(random_matrix(400, 1530, 1 - density)), cpu, n, n.value);
  };

  for (const std::int64_t n : {17, 24}) {
    EXPECT_EQ(blocks(0.28, n).order, CompactOrder::slices);
    EXPECT_EQ(blocks(0.26, n).order, CompactOrder::rows);
  }
  EXPECT_EQ(blocks(0.5, 24).columns, 256);
  EXPECT_EQ(blocks(0.5, 25).order, CompactOrder::rows);
  EXPECT_EQ(blocks(0.5, spjit::Extent::at_run_time(24)).order, CompactOrder::rows)
      << "may be more columns";
}

TEST(CompactBlocks, FillTwoThirdsOfTheL1CacheWhereWeightsAreLoaded) {
  CompactCpu cpu{.isa = HostIsa::avx512, .loads_weights = true};
  const auto columns = [&](double density, const spjit::Extent& n, std::int64_t apart = 0) {
    return compact_blocks(view_of(random_matrix(400, 300, 1 - density)), cpu, n, n.value + apart)
        .columns;
  };
  constexpr std::int64_t k_in_place = CompactMatrix::k_most_block_columns;

  EXPECT_EQ(columns(0.5, 8), CompactMatrix::k_most_packed_columns);
  EXPECT_EQ(columns(0.5, 16), 512);
  EXPECT_EQ(columns(0.5, 32), 256);
  EXPECT_EQ(columns(0.5, 33), 128);
  EXPECT_EQ(columns(0.5, 1000), 128);
  EXPECT_EQ(columns(0.06, 64), 256);
  EXPECT_EQ(columns(0.02, 64), 512) << "rows that follow one another";
  EXPECT_EQ(columns(0.02, 64, 1), k_in_place) << "8 entries a row of B";
  EXPECT_EQ(columns(0.02, 63), k_in_place);
  EXPECT_EQ(columns(0.04, 63), 256) << "16";
  EXPECT_EQ(columns(0.04, 65), k_in_place);
  EXPECT_EQ(columns(0.02, 16, 1), 512);
  EXPECT_EQ(columns(0.02, 192), 512);
  EXPECT_EQ(columns(0.5, spjit::Extent::at_run_time(16)), 256);
  EXPECT_EQ(columns(0.02, spjit::Extent::at_run_time(64)), k_in_place);
  cpu.l1d_bytes = 32 << 10;
  EXPECT_EQ(columns(0.5, 64), 80);
}

TEST(CompactCpu, LoadsWeightsOnIntelAlone) {
  spjit::HostCpu cpu;
  cpu.l1d_bytes = 1 << 15;
  for (const char* vendor : {"GenuineIntel", "AuthenticAMD", ""}) {
    cpu.vendor = vendor;

    const CompactCpu found = compact_cpu_of(HostIsa::avx512, cpu);

    EXPECT_EQ(found.loads_weights, cpu.vendor == "GenuineIntel");
    EXPECT_FALSE(compact_cpu_of(HostIsa::avx2, cpu).loads_weights) << "nor are its shuffles slow";
    EXPECT_EQ(found.isa, HostIsa::avx512);
    EXPECT_EQ(found.l1d_bytes, 1 << 15);
  }
}

TEST(CompactCpu, TakesRowsOneByOneWhereThatWasMeasured) {
  const auto columns = [](HostIsa isa, const char* vendor, int family) {
    return cpu_of(isa, vendor, family).wide_columns;
  };
  constexpr std::int64_t k_never = std::numeric_limits<std::int64_t>::max();

  EXPECT_EQ(columns(HostIsa::avx2, "AuthenticAMD", 25), 17);
  EXPECT_EQ(columns(HostIsa::avx2, "GenuineIntel", 6), 17);
  EXPECT_EQ(columns(HostIsa::avx512, "AuthenticAMD", 25), 64);
  EXPECT_EQ(columns(HostIsa::avx512, "AuthenticAMD", 26), k_never) << "Zen 5";
  EXPECT_EQ(columns(HostIsa::avx512, "GenuineIntel", 6), k_never);
}

TEST(CompactMatrix, ReadsSixBytesANonzeroWhereRowsAreAlike) {
  const CsrMatrix matrix = random_matrix(384, 384, 0.8);

  const CompactMatrix compact(view_of(matrix), {0, matrix.rows}, {256});

  EXPECT_LT(static_cast<double>(compact.bytes()), 6.4 * static_cast<double>(matrix.nnz()));
}

TEST(CompactMatrix, OfNarrowValuesReadsFourBytesOrThreeUnlessBIsInPlace) {
  const CsrMatrix matrix = random_matrix(384, 384, 0.8);
  const auto bytes_a_nonzero = [&](HeldType held, std::int64_t columns, CompactOrder order) {
    const CompactBlocks blocks{columns, order, true, held};
    const CompactMatrix compact(view_of(matrix), {0, matrix.rows}, blocks);
    return static_cast<double>(compact.bytes()) / static_cast<double>(matrix.nnz());
  };
  for (const CompactOrder order : {CompactOrder::slices, CompactOrder::rows}) {
    EXPECT_LT(bytes_a_nonzero(HeldType::bf16, 256, order), 4.4);
    EXPECT_LT(bytes_a_nonzero(HeldType::f16, 256, order), 4.4);
    EXPECT_LT(bytes_a_nonzero(HeldType::i8, 256, order), 3.4);
    EXPECT_GT(bytes_a_nonzero(HeldType::i8, CompactMatrix::k_most_block_columns, order), 6);
  }
}

TEST(CompactMatrix, RefusesColumnsThatDoNotAscend) {
  for (const std::vector<std::int32_t>& columns :
       {std::vector<std::int32_t>{600, 5, 900}, {900, 600, 5}, {3, 3, 4}, {5, 4, 900}}) {
    CsrMatrix matrix = rows_of(1000, {3});
    matrix.col_idxs = columns;

    EXPECT_THROW(CompactMatrix(view_of(matrix), {0, 1}, {256}), spjit::Error);
  }
}

TEST(CompactMatrix, OfManyBlocksLooksAtEachEntryOnce) {
  // Rows x blocks would be 2.4e10.
  constexpr std::int32_t k_size = 3'500'000;
  CsrMatrix matrix{k_size, k_size, {}, {}, {}};
  for (std::int32_t row = 0; row < k_size; ++row) {
    matrix.row_ptrs.push_back(row);
    matrix.col_idxs.push_back(k_size - 1 - row);
  }
  matrix.row_ptrs.push_back(k_size);
  matrix.values.assign(k_size, 1.0F);

  const CompactMatrix compact(
      view_of(matrix), {0, k_size}, {512},
      {.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60), .stop = {}});

  EXPECT_GT(compact.bytes(), 0);
}

TEST(CompactMatrix, CanBeCancelled) {
  const CsrMatrix matrix = random_matrix(1000, 1000, 0.5);
  std::stop_source stop;
  stop.request_stop();

  EXPECT_THROW(CompactMatrix(view_of(matrix), {0, matrix.rows}, {256},
                             {.deadline = {}, .stop = stop.get_token()}),
               spjit::Cancelled);
}

}  // namespace
