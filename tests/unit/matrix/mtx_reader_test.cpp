#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "matrix/limits.hpp"
#include "matrix/readers.hpp"
#include "test_support.hpp"

namespace spjit {
namespace {

using test::message_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* k_real = "%%MatrixMarket matrix coordinate real general\n";

CsrMatrix read_mtx(const std::string& text, const LoadOptions& options = {}) {
  return parse_mtx(text, "x.mtx", options);
}

template <typename Expected = IoError>
std::string mtx_error(const std::string& text) {
  std::string message = message_of<Expected>([&] { static_cast<void>(read_mtx(text)); });
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message;
}

// The dense rows of a small matrix, for comparison with what is written by hand.
std::vector<float> dense(const CsrMatrix& matrix) {
  std::vector<float> cells(static_cast<std::size_t>(matrix.rows * matrix.cols), 0.0F);
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (auto at = static_cast<std::size_t>(matrix.row_ptrs[static_cast<std::size_t>(row)]);
         at < static_cast<std::size_t>(matrix.row_ptrs[static_cast<std::size_t>(row) + 1]); ++at) {
      cells[static_cast<std::size_t>(row * matrix.cols + matrix.col_idxs[at])] = matrix.values[at];
    }
  }
  return cells;
}

TEST(MtxReader, ReadsTheHandMadeMatrixInAnyOrderOfEntries) {
  const CsrMatrix matrix = read_mtx(std::string(k_real) +
                                    "5 5 9\n4 5 7\n4 1 3\n1 4 -2\n1 1 1\n4 2 4.0\n5 1 0\n4 3 5\n"
                                    "4 4 6e0\n3 3 .5\n");

  EXPECT_EQ(matrix, test::five_by_five());
}

TEST(MtxReader, AcceptsAnyCaseCommentsBlankLinesAndCarriageReturns) {
  const CsrMatrix matrix = read_mtx(
      "%%MATRIXMARKET Matrix COORDINATE Double General\r\n"
      "%%GraphBLAS type double\r\n\r\n  % indented\r\n 2 2 2\r\n\r\n% between\r\n1 1 1\r\n\r\n"
      "\t2   2\t-1  \r\n%end\r\n\r\n");

  EXPECT_THAT(dense(matrix), ElementsAre(1, 0, 0, -1));
}

TEST(MtxReader, MirrorsSymmetricEntriesOfEitherTriangle) {
  const CsrMatrix matrix =
      read_mtx("%%MatrixMarket matrix coordinate real symmetric\n3 3 3\n1 1 1\n2 1 2\n2 3 3\n");

  EXPECT_THAT(dense(matrix), ElementsAre(1, 2, 0, 2, 0, 3, 0, 3, 0));
  EXPECT_EQ(matrix.nnz(), 5);
}

TEST(MtxReader, MirrorsSkewSymmetricEntriesWithTheOtherSign) {
  const CsrMatrix matrix =
      read_mtx("%%MatrixMarket matrix coordinate integer skew-symmetric\n2 2 1\n2 1 +5\n");

  EXPECT_THAT(dense(matrix), ElementsAre(0, -5, 5, 0));
}

TEST(MtxReader, TakesTheRealPartWhereEveryImaginaryPartIsZero) {
  const CsrMatrix general =
      read_mtx("%%MatrixMarket matrix coordinate complex general\n1 2 2\n1 1 3 0\n1 2 4 -0.0\n");
  const CsrMatrix hermitian =
      read_mtx("%%MatrixMarket matrix coordinate complex Hermitian\n2 2 1\n2 1 3 0\n");

  EXPECT_THAT(dense(general), ElementsAre(3, 4));
  EXPECT_THAT(dense(hermitian), ElementsAre(0, 3, 3, 0));
}

TEST(MtxReader, RefusesComplexMatricesAsNotSupported) {
  const std::string message = mtx_error<NotSupported>(
      "%%MatrixMarket matrix coordinate complex general\n1 2 2\n1 1 3 0\n1 2 4 .5\n");

  EXPECT_THAT(message, StartsWith("x.mtx:4: the imaginary part is 0.5"));
}

TEST(MtxReader, GivesPatternFilesPatternValuesAndKeepsThemSymmetric) {
  LoadOptions options;
  options.value_seed = 3;

  const CsrMatrix matrix =
      read_mtx("%%MatrixMarket matrix coordinate pattern symmetric\n2 2 2\n1 1\n2 1\n", options);

  EXPECT_THAT(dense(matrix), ElementsAre(pattern_value(3, 0, 0), pattern_value(3, 1, 0),
                                         pattern_value(3, 1, 0), 0));
}

TEST(MtxReader, ReadsArraysColumnByColumn) {
  const CsrMatrix general =
      read_mtx("%%MatrixMarket matrix array real general\n2 3\n1\n2\n3\n0\n5\n6\n");
  const CsrMatrix symmetric =
      read_mtx("%%MatrixMarket matrix array integer symmetric\n2 2\n1\n2\n3\n");
  const CsrMatrix skew =
      read_mtx("%%MatrixMarket matrix array real skew-symmetric\n3 3\n1\n2\n3\n");
  const CsrMatrix hermitian =
      read_mtx("%%MatrixMarket matrix array complex hermitian\n2 2\n1 0\n2 0\n3 0\n");

  EXPECT_THAT(dense(general), ElementsAre(1, 3, 5, 2, 0, 6));
  EXPECT_EQ(general.nnz(), 5);
  EXPECT_THAT(dense(symmetric), ElementsAre(1, 2, 2, 3));
  EXPECT_THAT(dense(skew), ElementsAre(0, -1, -2, 1, 0, -3, 2, 3, 0));
  EXPECT_THAT(dense(hermitian), ElementsAre(1, 2, 2, 3));
}

TEST(MtxReader, ReadsMatricesWithZeroDimensions) {
  const CsrMatrix no_rows = read_mtx(std::string(k_real) + "0 4 0\n");
  const CsrMatrix no_cols = read_mtx("%%MatrixMarket matrix array real general\n3 0\n");
  const CsrMatrix nothing = read_mtx("%%MatrixMarket matrix coordinate pattern symmetric\n0 0 0");

  EXPECT_EQ(no_rows.cols, 4);
  EXPECT_THAT(no_cols.row_ptrs, ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(nothing, CsrMatrix{});
}

TEST(MtxReader, KeepsOrDropsExplicitZeros) {
  const std::string text = std::string(k_real) + "2 2 3\n1 1 0\n2 1 -0\n2 2 1e-60\n";
  LoadOptions drop;
  drop.keep_explicit_zeros = false;

  EXPECT_EQ(read_mtx(text).nnz(), 3);
  EXPECT_TRUE(std::signbit(read_mtx(text).values[1]));
  EXPECT_EQ(read_mtx(text, drop).nnz(), 0);
  EXPECT_THAT(read_mtx(text, drop).row_ptrs, ElementsAre(0, 0, 0));
}

TEST(MtxReader, TakesNanInfinityAndDenormals) {
  const CsrMatrix matrix =
      read_mtx(std::string(k_real) + "1 4 4\n1 1 nan\n1 2 -INF\n1 3 1e-45\n1 4 1");

  EXPECT_TRUE(std::isnan(matrix.values[0]));
  EXPECT_EQ(matrix.values[1], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(matrix.values[2], std::numeric_limits<float>::denorm_min());
}

TEST(MtxReader, RefusesBadBanners) {
  EXPECT_THAT(mtx_error(""), StartsWith("x.mtx:1: the file is empty"));
  EXPECT_THAT(mtx_error("3 3 1\n1 1 1\n"), HasSubstr("the file starts with '3'"));
  EXPECT_THAT(mtx_error("%%MatrixMarket vector coordinate real general\n"), HasSubstr("'vector'"));
  EXPECT_THAT(mtx_error("%%MatrixMarket matrix\n"), HasSubstr("the format in the banner is ''"));
  EXPECT_THAT(mtx_error("%%MatrixMarket matrix array quaternion general\n"),
              HasSubstr("the field in the banner is 'quaternion'"));
  EXPECT_THAT(mtx_error("%%MatrixMarket matrix array real general extra\n"), HasSubstr("'extra'"));
  EXPECT_THAT(mtx_error("%%MatrixMarket matrix array pattern general\n1 1\n"),
              HasSubstr("array pattern"));
  EXPECT_THAT(mtx_error("%%MatrixMarket matrix coordinate real hermitian\n1 1 0\n"),
              HasSubstr("not complex"));
  EXPECT_THAT(mtx_error("%%MatrixMarket matrix coordinate pattern skew-symmetric\n1 1 0\n"),
              HasSubstr("pattern skew-symmetric"));
}

TEST(MtxReader, RefusesBadSizeLines) {
  const std::string real = k_real;

  EXPECT_THAT(mtx_error(real + "%\n%\n"),
              StartsWith("x.mtx:3: the file ends before the size line"));
  EXPECT_THAT(mtx_error(real + "3\n"), HasSubstr(":2: the size line has no number of columns"));
  EXPECT_THAT(mtx_error(real + "3 3\n"), HasSubstr("no number of entries"));
  EXPECT_THAT(mtx_error(real + "3 3 0 1\n"), HasSubstr("goes on with '1'"));
  EXPECT_THAT(mtx_error(real + "-3 3 0\n"), HasSubstr("the number of rows is '-3'"));
  EXPECT_THAT(mtx_error(real + "3 2147483648 0\n"), HasSubstr("3 x 2147483648"));
  EXPECT_THAT(mtx_error("%%MatrixMarket matrix coordinate real symmetric\n2 3 0\n"),
              HasSubstr("expected a square"));
}

TEST(MtxReader, RefusesSizesTheFileCannotHoldBeforeAllocating) {
  const std::string real = k_real;

  EXPECT_THAT(mtx_error(real + "9 9 9223372036854775807\n1 1 1\n"),
              HasSubstr(":2: the size line asks for 9223372036854775807 entries"));
  EXPECT_THAT(mtx_error("%%MatrixMarket matrix array real general\n16000000 2147483647\n1\n"),
              HasSubstr("asks for 34359738352000000 entries"));
  EXPECT_THAT(mtx_error(real + "2147483647 1 0\n"), HasSubstr("asks for 2147483647 rows"));
}

TEST(MtxReader, AllowsRowsWithoutEntriesUpToTheStatedBound) {
  const std::string rows = std::to_string(k_max_free_rows);
  const std::string too_many = std::to_string(k_max_free_rows + 1);

  const CsrMatrix matrix = read_mtx(std::string(k_real) + rows + " 2147483647 1\n1 2147483647 1\n");

  EXPECT_EQ(matrix.rows, k_max_free_rows);
  EXPECT_EQ(matrix.col_idxs.front(), 2147483646);
  EXPECT_THAT(mtx_error(std::string(k_real) + too_many + " 1 0\n"), HasSubstr("may have 16777216"));
}

TEST(MtxReader, RefusesBadEntriesWithTheirLine) {
  const std::string real = std::string(k_real) + "3 4 2\n% comment\n1 1 1\n";

  EXPECT_THAT(mtx_error(real + "2 2"), StartsWith("x.mtx:5: the value is missing"));
  EXPECT_THAT(mtx_error(real + "zero 2 1\n"), HasSubstr(":5: the row is 'zero'"));
  EXPECT_THAT(mtx_error(real + "0 2 1\n"), HasSubstr("the row is 0: expected 1 to 3"));
  EXPECT_THAT(mtx_error(real + "1 5 1\n"), HasSubstr("the column is 5: expected 1 to 4"));
  EXPECT_THAT(mtx_error(real + "1 2 pi\n"), HasSubstr("the value is 'pi'"));
  EXPECT_THAT(mtx_error(real + "1 2 3 4\n"), HasSubstr("goes on with '4'"));
  EXPECT_THAT(mtx_error(real + "1 2 1e39\n"), HasSubstr("'1e39' does not fit fp32"));
  EXPECT_THAT(mtx_error(real + "%%%%%%%%%\n"), HasSubstr(":5: the file ends after 1 of 2 entries"));
  EXPECT_THAT(mtx_error(real + "1 2 3\n1 3 4\n"), HasSubstr(":6: the file goes on after the 2"));
  EXPECT_THAT(mtx_error("%%MatrixMarket matrix coordinate integer general\n1 1 1\n1 1 1.5\n"),
              HasSubstr(":3: the value is '1.5': the banner says integer"));
  EXPECT_THAT(mtx_error("%%MatrixMarket matrix array real general\n1 1\n1 2\n"),
              HasSubstr(":3: the entry goes on with '2'"));
  EXPECT_THAT(mtx_error("%%MatrixMarket matrix array real general\n1 2\n1\n2\n3\n"),
              HasSubstr(":5: the file goes on after the 2"));
  EXPECT_THAT(mtx_error("%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n1 1 0\n"),
              HasSubstr(":3: entry (1, 1) is on the diagonal"));
}

TEST(MtxReader, RefusesDuplicatesAtTheLineThatRepeats) {
  EXPECT_THAT(mtx_error(std::string(k_real) + "3 3 3\n2 2 1\n1 1 1\n\n2 2 0\n"),
              StartsWith("x.mtx:6: entry (2, 2) was given before"));
  EXPECT_THAT(mtx_error("%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n1 2 1\n2 1 1\n"),
              StartsWith("x.mtx:4: entry (2, 1) was given before"));
}

}  // namespace
}  // namespace spjit
