#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "matrix/readers.hpp"
#include "test_support.hpp"

namespace spjit {
namespace {

using test::message_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

CsrMatrix read_smtx(std::string_view text) { return parse_smtx(text, "x.smtx", {}); }

std::string smtx_error(std::string_view text) {
  std::string message = message_of<IoError>([&] { static_cast<void>(read_smtx(text)); });
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message;
}

TEST(SmtxReader, ReadsTheHandMadeMatrixWithPatternValues) {
  const CsrMatrix matrix = read_smtx("5, 5, 9\n0 2 2 3 8 9 \n0 3 2 0 1 2 3 4 0 \n");

  EXPECT_EQ(matrix.row_ptrs, test::five_by_five().row_ptrs);
  EXPECT_EQ(matrix.col_idxs, test::five_by_five().col_idxs);
  EXPECT_EQ(matrix.values[1], pattern_value(1, 0, 3));
  EXPECT_NO_THROW(matrix.validate());
}

TEST(SmtxReader, SortsRowsAndKeepsValuesWithTheirPositions) {
  LoadOptions options;
  options.value_seed = 5;

  const CsrMatrix matrix = parse_smtx("1 4 3\n0 3\n3 0 2\n", "x.smtx", options);

  EXPECT_THAT(matrix.col_idxs, ElementsAre(0, 2, 3));
  EXPECT_THAT(matrix.values,
              ElementsAre(pattern_value(5, 0, 0), pattern_value(5, 0, 2), pattern_value(5, 0, 3)));
}

TEST(SmtxReader, AcceptsCarriageReturnsBlankLinesAndAMissingEnd) {
  const CsrMatrix windows = read_smtx("1,2,1\r\n0 1\r\n1\r\n\r\n  \r\n");
  const CsrMatrix no_end = read_smtx("1, 2, 1\n0 1\n1");

  EXPECT_EQ(windows, no_end);
}

TEST(SmtxReader, ReadsEmptyMatricesWithAndWithoutTheThirdLine) {
  EXPECT_THAT(read_smtx("2, 3, 0\n0 0 0\n\n").row_ptrs, ElementsAre(0, 0, 0));
  EXPECT_THAT(read_smtx("2, 3, 0\n0 0 0").row_ptrs, ElementsAre(0, 0, 0));
  EXPECT_EQ(read_smtx("0, 3, 0\n0\n").cols, 3);
  EXPECT_EQ(read_smtx("3, 0, 0\n0 0 0 0\n").rows, 3);
}

TEST(SmtxReader, RefusesBadHeaders) {
  EXPECT_THAT(smtx_error(""), StartsWith("x.smtx:1: the file is empty"));
  EXPECT_THAT(smtx_error("5, 5\n"), HasSubstr(":1: nnz is missing"));
  EXPECT_THAT(smtx_error("5, x, 1\n"), HasSubstr("cols is 'x'"));
  EXPECT_THAT(smtx_error("5, 5, 1, 7\n"), HasSubstr("'7' follows nnz"));
  EXPECT_THAT(smtx_error("-5, 5, 1\n"), HasSubstr("-5 x 5"));
  EXPECT_THAT(smtx_error("2, 2, 5\n0 2 5\n"), HasSubstr("nnz = 5: expected 0 to rows * cols = 4"));
  EXPECT_THAT(smtx_error("4294967296, 4294967296, 0\n0\n"), HasSubstr("4294967296 x 4294967296"));
}

TEST(SmtxReader, RefusesDimensionsTheFileCannotHoldWithoutAllocatingThem) {
  EXPECT_THAT(smtx_error("2147483647, 2147483647, 0\n0\n"), HasSubstr(":2: the line has 1 row"));
  EXPECT_THAT(smtx_error("1, 2147483647, 2147483647\n0 2147483647\n1\n"),
              HasSubstr(":3: the line has 1 column"));
}

TEST(SmtxReader, RefusesBadRowOffsets) {
  EXPECT_THAT(smtx_error("1, 1, 1\n"), HasSubstr(":1: the line of row offsets is missing"));
  EXPECT_THAT(smtx_error("2, 2, 1\n0 1\n0\n"), HasSubstr(":2: the line has 2 row offsets"));
  EXPECT_THAT(smtx_error("1, 2, 1\n0 1 1\n0\n"), HasSubstr(":2: the line has 3 row offsets"));
  EXPECT_THAT(smtx_error("1, 2, 1\n1 1\n0\n"), HasSubstr("row offset 0 is 1"));
  EXPECT_THAT(smtx_error("2, 2, 1\n0 2 1\n0\n"), HasSubstr("fall from 2 to 1 at row 1"));
  EXPECT_THAT(smtx_error("1, 2, 2\n0 1\n0\n"), HasSubstr("the last row offset is 1"));
  EXPECT_THAT(smtx_error("1, 2, 1\n0 one\n0\n"), HasSubstr("row offset 1 is 'one'"));
}

TEST(SmtxReader, RefusesBadColumns) {
  EXPECT_THAT(smtx_error("1, 2, 1\n0 1\n"), HasSubstr("the line of column indices is missing"));
  EXPECT_THAT(smtx_error("1, 2, 2\n0 2\n1\n"), HasSubstr(":3: the line has 1 column"));
  EXPECT_THAT(smtx_error("1, 2, 1\n0 1\n0 1\n"), HasSubstr(":3: the line has 2 column"));
  EXPECT_THAT(smtx_error("1, 2, 1\n0 1\n2\n"), HasSubstr("column index 0 is 2: expected 0 to 1"));
  EXPECT_THAT(smtx_error("1, 2, 1\n0 1\n-1\n"), HasSubstr("column index 0 is -1"));
  EXPECT_THAT(smtx_error("1, 2, 1\n0 1\n0.5\n"), HasSubstr("column index 0 is '0.5'"));
  EXPECT_THAT(smtx_error("1, 3, 3\n0 3\n2 1 2\n"), HasSubstr(":3: row 0 has column 2 twice"));
  EXPECT_THAT(smtx_error("1, 2, 1\n0 1\n0\n\n7\n"), HasSubstr(":5: '7' follows the column"));
}

}  // namespace
}  // namespace spjit
