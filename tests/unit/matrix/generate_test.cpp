#include "spjit/generate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "matrix/random.hpp"
#include "spjit/error.hpp"
#include "spjit/matrix_io.hpp"
#include "test_support.hpp"

namespace spjit {
namespace {

using test::message_of;
using testing::HasSubstr;

constexpr MatrixPattern k_all[] = {MatrixPattern::uniform, MatrixPattern::uneven_rows,
                                   MatrixPattern::blocks,  MatrixPattern::power_law,
                                   MatrixPattern::banded,  MatrixPattern::magnitude};

GenerateOptions options_of(MatrixPattern pattern, std::int64_t rows, std::int64_t cols,
                           double sparsity) {
  GenerateOptions options;
  options.pattern = pattern;
  options.rows = rows;
  options.cols = cols;
  options.sparsity = sparsity;
  return options;
}

// FNV-1a over every number of the matrix.
std::uint64_t fingerprint(const CsrMatrix& matrix) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  const auto add = [&hash](std::uint64_t word) { hash = (hash ^ word) * 0x100000001B3U; };
  for (const std::int64_t ptr : matrix.row_ptrs) {
    add(static_cast<std::uint64_t>(ptr));
  }
  for (std::size_t at = 0; at < matrix.col_idxs.size(); ++at) {
    add(static_cast<std::uint64_t>(matrix.col_idxs[at]));
    add(std::bit_cast<std::uint32_t>(matrix.values[at]));
  }
  return hash;
}

TEST(GenerateMatrix, MeetsShapeAndNnzWithSortedRowsAndNoZeros) {
  for (const MatrixPattern pattern : k_all) {
    for (const auto& [rows, cols] : {std::pair{1, 1}, {1, 300}, {300, 1}, {64, 48}, {200, 513}}) {
      for (const double sparsity : {0.0, 0.1, 0.5, 0.9, 0.99, 1.0}) {
        SCOPED_TRACE(std::string(to_string(pattern)) + " " + std::to_string(rows) + " x " +
                     std::to_string(cols) + " at " + std::to_string(sparsity));
        const CsrMatrix matrix = generate_matrix(options_of(pattern, rows, cols, sparsity));

        CsrMatrix sorted = matrix;
        sorted.sort_columns();
        const std::int64_t wanted = std::llround((1.0 - sparsity) * rows * cols);
        const std::int64_t slack = pattern == MatrixPattern::blocks ? 16 : 0;
        EXPECT_NO_THROW(matrix.validate());
        EXPECT_EQ(matrix.rows, rows);
        EXPECT_EQ(matrix.cols, cols);
        EXPECT_LE(std::abs(matrix.nnz() - wanted), slack);
        EXPECT_EQ(sorted, matrix);
        EXPECT_EQ(compute_statistics(matrix).explicit_zeros, 0);
      }
    }
  }
}

TEST(GenerateMatrix, RefusesAPatternThatThereIsNot) {
  for (const int value : {-1, 6, 99}) {
    GenerateOptions options;
    options.pattern = static_cast<MatrixPattern>(value);

    EXPECT_THROW(static_cast<void>(generate_matrix(options)), InvalidArgument) << value;
  }
}

TEST(GenerateMatrix, MakesEmptyShapes) {
  for (const MatrixPattern pattern : k_all) {
    EXPECT_NO_THROW(generate_matrix(options_of(pattern, 0, 5, 0.5)).validate());
    EXPECT_NO_THROW(generate_matrix(options_of(pattern, 5, 0, 0.5)).validate());
  }
}

TEST(GenerateMatrix, DependsOnTheSeedAlone) {
  for (const MatrixPattern pattern : k_all) {
    GenerateOptions options = options_of(pattern, 100, 100, 0.8);
    const CsrMatrix first = generate_matrix(options);

    EXPECT_EQ(generate_matrix(options), first);
    options.seed = 2;
    EXPECT_NE(generate_matrix(options), first);
  }
}

// These change only together with the definitions in spjit/generate.hpp.
TEST(GenerateMatrix, GivesTheSameBitsAsEver) {
  const std::uint64_t expected[] = {1374009642955254258U,  15110085876372112899U,
                                    13453044701370353425U, 9619328042556310403U,
                                    12465029565364196252U, 11056560032675469995U};
  ASSERT_EQ(std::size(expected), std::size(k_all));
  for (std::size_t at = 0; at < std::size(k_all); ++at) {
    const CsrMatrix matrix = generate_matrix(options_of(k_all[at], 301, 203, 0.85));

    EXPECT_EQ(fingerprint(matrix), expected[at]) << to_string(k_all[at]);
  }
}

TEST(GenerateMatrix, GivesEntriesTheirPatternValue) {
  GenerateOptions options;
  options.seed = 77;

  const CsrMatrix matrix = generate_matrix(options);

  EXPECT_EQ(matrix.values.front(), pattern_value(77, 0, matrix.col_idxs.front()));
}

TEST(GenerateMatrix, SpreadsUniformEntriesEvenlyOverRowsAndColumns) {
  const CsrMatrix matrix = generate_matrix(options_of(MatrixPattern::uniform, 400, 400, 0.75));

  // 100 of 400 without replacement: a deviation of 8.66, less than 6 of them off in any row.
  const MatrixStatistics stats = compute_statistics(matrix);
  EXPECT_GT(stats.row_nnz_min, 100 - 52);
  EXPECT_LT(stats.row_nnz_max, 100 + 52);
  EXPECT_NEAR(stats.row_nnz_cv, 0.0866, 0.02);
  std::vector<int> columns(400, 0);
  for (const std::int32_t col : matrix.col_idxs) {
    ++columns[static_cast<std::size_t>(col)];
  }
  EXPECT_GT(*std::min_element(columns.begin(), columns.end()), 100 - 52);
  EXPECT_LT(*std::max_element(columns.begin(), columns.end()), 100 + 52);
}

TEST(GenerateMatrix, MakesRowsUneven) {
  const MatrixStatistics stats =
      compute_statistics(generate_matrix(options_of(MatrixPattern::uneven_rows, 2000, 2000, 0.98)));

  // A log-normal distribution of deviation 1 has a coefficient of variation of 1.31.
  EXPECT_GT(stats.row_nnz_cv, 1.0);
  EXPECT_LT(stats.row_nnz_cv, 1.6);
}

TEST(GenerateMatrix, MakesWholeAlignedBlocks) {
  GenerateOptions options = options_of(MatrixPattern::blocks, 64, 96, 0.8);
  options.block_rows = 8;
  options.block_cols = 3;

  const CsrMatrix matrix = generate_matrix(options);

  EXPECT_EQ(matrix.nnz() % 24, 0);
  for (std::size_t row = 0; row < 64; ++row) {
    const std::size_t top = row / 8 * 8;
    const auto begin = matrix.col_idxs.begin();
    EXPECT_TRUE(std::equal(begin + matrix.row_ptrs[row], begin + matrix.row_ptrs[row + 1],
                           begin + matrix.row_ptrs[top], begin + matrix.row_ptrs[top + 1]));
  }
  for (std::size_t at = 0; at < matrix.col_idxs.size(); at += 3) {
    EXPECT_EQ(matrix.col_idxs[at] % 3, 0);
    EXPECT_EQ(matrix.col_idxs[at] + 2, matrix.col_idxs[at + 2]);
  }
}

TEST(GenerateMatrix, GivesFewRowsAndColumnsMostOfAPowerLaw) {
  const CsrMatrix matrix = generate_matrix(options_of(MatrixPattern::power_law, 1000, 1000, 0.98));

  std::vector<std::int64_t> rows;
  for (std::size_t row = 0; row < 1000; ++row) {
    rows.push_back(matrix.row_ptrs[row + 1] - matrix.row_ptrs[row]);
  }
  std::sort(rows.rbegin(), rows.rend());
  std::vector<std::int64_t> cols(1000, 0);
  for (const std::int32_t col : matrix.col_idxs) {
    ++cols[static_cast<std::size_t>(col)];
  }
  std::sort(cols.rbegin(), cols.rend());
  const auto share_of_top_100 = [](const std::vector<std::int64_t>& counts) {
    std::int64_t top = 0;
    std::int64_t all = 0;
    for (std::size_t at = 0; at < counts.size(); ++at) {
      top += at < 100 ? counts[at] : 0;
      all += counts[at];
    }
    return static_cast<double>(top) / static_cast<double>(all);
  };
  EXPECT_GT(share_of_top_100(rows), 0.5);
  EXPECT_GT(share_of_top_100(cols), 0.3);
}

TEST(GenerateMatrix, KeepsBandedEntriesNearTheDiagonal) {
  const CsrMatrix matrix = generate_matrix(options_of(MatrixPattern::banded, 500, 250, 0.96));

  // 10 a row, so a window of 20; at the corners it is pushed inside.
  for (std::size_t row = 0; row < 500; ++row) {
    EXPECT_EQ(matrix.row_ptrs[row + 1] - matrix.row_ptrs[row], 10);
    for (auto at = static_cast<std::size_t>(matrix.row_ptrs[row]);
         at < static_cast<std::size_t>(matrix.row_ptrs[row + 1]); ++at) {
      EXPECT_LE(std::abs(matrix.col_idxs[at] - static_cast<std::int32_t>(row / 2)), 20);
    }
  }
}

TEST(GenerateMatrix, PrunesByMagnitudeRowsAndColumnsOfDifferentScale) {
  const CsrMatrix matrix = generate_matrix(options_of(MatrixPattern::magnitude, 1000, 1000, 0.9));

  // Pruned layers have 0.2 to 0.6; positions at random would have 0.03.
  const MatrixStatistics stats = compute_statistics(matrix);
  EXPECT_GT(stats.row_nnz_cv, 0.3);
  EXPECT_LT(stats.row_nnz_cv, 0.6);
}

TEST(GenerateMatrix, RefusesImpossibleOptions) {
  const auto error_of = [](const GenerateOptions& options) {
    return message_of<InvalidArgument>([&] { static_cast<void>(generate_matrix(options)); });
  };
  EXPECT_THAT(error_of(options_of(MatrixPattern::magnitude, 20'000, 20'000, 0.99)),
              HasSubstr("20000 x 20000 cells: expected at most"));
  GenerateOptions flat = options_of(MatrixPattern::blocks, 4, 4, 0.5);
  flat.block_rows = 0;

  EXPECT_THAT(error_of(options_of(MatrixPattern::uniform, -1, 4, 0.5)), HasSubstr("-1 x 4"));
  EXPECT_THAT(error_of(options_of(MatrixPattern::uniform, 4, std::int64_t{1} << 31, 0.5)),
              HasSubstr("2147483648"));
  EXPECT_THAT(error_of(options_of(MatrixPattern::uniform, 4, 4, 1.5)), HasSubstr("1.5"));
  EXPECT_THAT(
      error_of(options_of(MatrixPattern::uniform, 4, 4, std::numeric_limits<double>::quiet_NaN())),
      HasSubstr("nan"));
  EXPECT_THAT(error_of(options_of(MatrixPattern::uniform, 2147483647, 2147483647, 0.5)),
              HasSubstr("nonzeros: expected at most 2147483647"));
  EXPECT_THAT(error_of(flat), HasSubstr("0 x 4"));
}

TEST(MatrixPatternNames, ConvertBothWays) {
  for (const MatrixPattern pattern : k_all) {
    EXPECT_EQ(parse_pattern(to_string(pattern)), pattern);
  }
  EXPECT_THAT(message_of<InvalidArgument>([] { static_cast<void>(parse_pattern("odd")); }),
              HasSubstr("pattern 'odd' is unknown: expected uniform, uneven_rows"));
}

}  // namespace
}  // namespace spjit
