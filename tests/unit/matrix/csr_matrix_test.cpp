#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "spjit/matrix.hpp"
#include "test_support.hpp"

namespace spjit {
namespace {

using test::five_by_five;
using test::message_of;
using testing::ElementsAre;
using testing::HasSubstr;

std::string validation_error(const CsrMatrix& matrix) {
  return message_of<InvalidMatrix>([&] { matrix.validate(); });
}

TEST(CsrMatrix, IsValidWhenDefaultConstructed) { EXPECT_NO_THROW(CsrMatrix{}.validate()); }

TEST(CsrMatrix, ValidatesTheHandMadeMatrix) { EXPECT_NO_THROW(five_by_five().validate()); }

TEST(CsrMatrix, AcceptsUnsortedColumns) {
  CsrMatrix matrix = five_by_five();
  std::swap(matrix.col_idxs[3], matrix.col_idxs[7]);

  EXPECT_NO_THROW(matrix.validate());
}

TEST(CsrMatrix, RefusesEachBrokenRuleByName) {
  CsrMatrix negative = five_by_five();
  negative.rows = -1;
  CsrMatrix huge = five_by_five();
  huge.cols = std::int64_t{1} << 31;
  CsrMatrix short_offsets = five_by_five();
  short_offsets.row_ptrs.pop_back();
  CsrMatrix no_offsets;
  no_offsets.row_ptrs.clear();
  CsrMatrix first = five_by_five();
  first.row_ptrs[0] = 1;
  CsrMatrix falling = five_by_five();
  falling.row_ptrs[2] = 4;
  CsrMatrix last = five_by_five();
  last.row_ptrs[5] = 10;
  CsrMatrix values = five_by_five();
  values.values.pop_back();

  EXPECT_THAT(validation_error(negative), HasSubstr("-1 rows"));
  EXPECT_THAT(validation_error(huge), HasSubstr("2147483648 cols"));
  EXPECT_THAT(validation_error(short_offsets), HasSubstr("row_ptrs has 5 entries"));
  EXPECT_THAT(validation_error(no_offsets), HasSubstr("row_ptrs has 0 entries"));
  EXPECT_THAT(validation_error(first), HasSubstr("row_ptrs[0] is 1"));
  EXPECT_THAT(validation_error(falling), HasSubstr("falls from 4 to 3 at row 2"));
  EXPECT_THAT(validation_error(last), HasSubstr("row_ptrs ends at 10"));
  EXPECT_THAT(validation_error(values), HasSubstr("values has 8 entries"));
}

TEST(CsrMatrix, RefusesColumnsOutOfRange) {
  CsrMatrix below = five_by_five();
  below.col_idxs[2] = -1;
  CsrMatrix above = five_by_five();
  above.col_idxs[8] = 5;

  EXPECT_THAT(validation_error(below), HasSubstr("row 2 has column -1"));
  EXPECT_THAT(validation_error(above), HasSubstr("row 4 has column 5"));
}

TEST(CsrMatrix, RefusesDuplicatesNextToEachOtherAndFarApart) {
  CsrMatrix near = five_by_five();
  near.col_idxs[4] = 0;
  CsrMatrix far = five_by_five();
  far.col_idxs[7] = 0;

  EXPECT_THAT(validation_error(near), HasSubstr("row 3 has column 0 twice"));
  EXPECT_THAT(validation_error(far), HasSubstr("row 3 has column 0 twice"));
}

TEST(CsrMatrix, SortsColumnsTogetherWithTheirValues) {
  CsrMatrix matrix = five_by_five();
  matrix.col_idxs = {3, 0, 2, 4, 0, 3, 1, 2, 0};
  matrix.values = {-2, 1, 0.5F, 7, 3, 6, 4, 5, 0};

  matrix.sort_columns();

  EXPECT_EQ(matrix, five_by_five());
}

TEST(CsrMatrix, DropsZerosOfBothSignsAndKeepsNanAndDenormals) {
  CsrMatrix matrix = five_by_five();
  const float denormal = std::numeric_limits<float>::denorm_min();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  matrix.values = {0, -0.0F, denormal, 3, 0, nan, 6, 0, 0};

  const std::int64_t dropped = matrix.drop_explicit_zeros();

  EXPECT_EQ(dropped, 5);
  EXPECT_THAT(matrix.row_ptrs, ElementsAre(0, 0, 0, 1, 4, 4));
  EXPECT_THAT(matrix.col_idxs, ElementsAre(2, 0, 2, 3));
  EXPECT_EQ(matrix.values[0], denormal);
  EXPECT_NO_THROW(matrix.validate());
}

TEST(CsrFromDense, LeavesOutZerosOfBothSigns) {
  const std::array<float, 6> dense = {0, 1, -0.0F, 2, 0, 3};

  const CsrMatrix matrix = csr_from_dense(dense.data(), 2, 3);

  EXPECT_THAT(matrix.row_ptrs, ElementsAre(0, 1, 3));
  EXPECT_THAT(matrix.col_idxs, ElementsAre(1, 0, 2));
  EXPECT_THAT(matrix.values, ElementsAre(1, 2, 3));
}

TEST(CsrFromDense, TakesANullPointerOnlyForAnEmptyMatrix) {
  const CsrMatrix no_cols = csr_from_dense(nullptr, 3, 0);

  EXPECT_THAT(no_cols.row_ptrs, ElementsAre(0, 0, 0, 0));
  EXPECT_NO_THROW(no_cols.validate());
  EXPECT_THROW(static_cast<void>(csr_from_dense(nullptr, 1, 1)), InvalidArgument);
}

TEST(CsrFromDense, RefusesImpossibleSizes) {
  const float one = 1;

  EXPECT_THROW(static_cast<void>(csr_from_dense(&one, -1, 1)), InvalidArgument);
  constexpr std::int64_t k_most = (std::int64_t{1} << 31) - 1;
  EXPECT_THROW(static_cast<void>(csr_from_dense(&one, k_most, k_most)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(csr_from_dense(&one, 0, std::int64_t{1} << 31)), InvalidArgument);
}

}  // namespace
}  // namespace spjit
