#include "spjit/quantize.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "spjit/error.hpp"
#include "tests/unit/matrix/test_support.hpp"

namespace {

using namespace spjit;        // NOLINT(google-build-using-namespace): a test
using namespace spjit::test;  // NOLINT(google-build-using-namespace): a test
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

CsrMatrix dense(const std::vector<float>& values, std::int64_t rows) {
  return csr_from_dense(values.data(), rows, std::ssize(values) / rows);
}

TEST(QuantizeRows, TheLargestMagnitudeOfARowIs127) {
  const QuantizedMatrix result = quantize_rows(dense({-2, 1, 0, 0, 0, 0.5F}, 2));

  EXPECT_THAT(result.scale, ElementsAre(2.0F / 127, 0.5F / 127));
  EXPECT_THAT(result.integers.row_ptrs, ElementsAre(0, 2, 3));
  EXPECT_THAT(result.integers.col_idxs, ElementsAre(0, 1, 2));
  EXPECT_THAT(result.integers.values, ElementsAre(-127, 64, 127));
  EXPECT_EQ(result.integers.cols, 3);
}

TEST(QuantizeRows, TiesGoToEven) {
  // The scale is 1.
  const QuantizedMatrix result = quantize_rows(dense({127, 0.5F, 1.5F, 2.5F, -0.5F, -3.5F}, 1));

  EXPECT_THAT(result.integers.col_idxs, ElementsAre(0, 2, 3, 5));
  EXPECT_THAT(result.integers.values, ElementsAre(127, 2, 2, -4));
}

TEST(QuantizeRows, FiguresCompareAllEntries) {
  const QuantizedMatrix result = quantize_rows(dense({127, 0.5F, 0, 127}, 2));

  // 127, 0.5 and 127 became 127, 0 and 127.
  const double norm = std::sqrt(2 * 127.0 * 127 + 0.25);
  EXPECT_NEAR(result.relative_error, 0.5 / norm, 1e-12);
  EXPECT_NEAR(result.cosine, std::sqrt(2 * 127.0 * 127) / norm, 1e-12);
}

TEST(QuantizeRows, ExactIntegersHaveNoError) {
  const QuantizedMatrix result = quantize_rows(dense({-127, 64, 0, 3}, 1));

  EXPECT_EQ(result.relative_error, 0);
  EXPECT_NEAR(result.cosine, 1, 1e-15);
}

TEST(QuantizeRows, RowsOfZerosHaveTheScaleOne) {
  CsrMatrix matrix = dense({0, 0, 3, 0}, 2);
  matrix.row_ptrs = {0, 1, 2};
  matrix.col_idxs = {1, 0};
  matrix.values = {-0.0F, 3};
  const QuantizedMatrix result = quantize_rows(matrix);

  EXPECT_THAT(result.scale, ElementsAre(1, 3.0F / 127));
  EXPECT_THAT(result.integers.row_ptrs, ElementsAre(0, 0, 1));
}

TEST(QuantizeRows, NothingHasNoError) {
  const QuantizedMatrix result = quantize_rows(CsrMatrix{});

  EXPECT_THAT(result.scale, IsEmpty());
  EXPECT_EQ(result.cosine, 1);
  EXPECT_EQ(result.relative_error, 0);
}

TEST(QuantizeRows, LargeMagnitudesDoNotOverflow) {
  constexpr float k_most = std::numeric_limits<float>::max();
  const QuantizedMatrix result = quantize_rows(dense({k_most, -k_most, k_most / 4}, 1));

  EXPECT_THAT(result.integers.values, ElementsAre(127, -127, 32));
  EXPECT_GT(result.cosine, 0.99999);
}

TEST(QuantizeRows, RowsWithoutAScaleAreRefused) {
  const auto message = [](float value) {
    return message_of<InvalidArgument>([&] {
      static_cast<void>(quantize_rows(dense({1, 0, 0, value}, 2)));
    });
  };
  EXPECT_THAT(message(NAN), HasSubstr("row 1 has the entry nan; expected finite numbers"));
  EXPECT_THAT(message(-INFINITY), HasSubstr("row 1 has the entry -inf"));
  EXPECT_THAT(message(1e-40F), HasSubstr("the largest magnitude of row 1 is 1e-40"));
  CsrMatrix wrong = dense({1, 2}, 1);
  wrong.col_idxs = {1, 7};
  EXPECT_THROW(static_cast<void>(quantize_rows(wrong)), InvalidMatrix);
}

}  // namespace
