#include "kernels/cuda/packed/packed_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "plan/elements.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using testing::Each;
using testing::ElementsAre;

/// The matrix that arrays say, walked as a kernel does: in each chunk the bits of a row's words
/// ascend, and its values lie side by side from its start on.
CsrMatrix unpacked(const PackedRows& packed, const CsrMatrix& of) {
  const std::vector<std::byte> units = packed.arrange(of.values);
  CsrMatrix matrix{of.rows, of.cols, {0}, {}, {}};
  for (std::int64_t row = 0; row < of.rows; ++row) {
    for (std::int64_t chunk = 0; chunk < packed.sizes.chunks; ++chunk) {
      const std::int64_t place = packed.place_of(row, chunk);
      std::int64_t value = packed.starts.at(to_size(place)) * packed.form.unit();
      const std::int64_t end = packed.starts.at(to_size(place + 1)) * packed.form.unit();
      for (std::int64_t column = 0; column < k_packed_chunk; ++column) {
        const std::uint32_t word = packed.bitmaps.at(to_size(place * 4 + column / 32));
        if ((word >> (column % 32) & 1U) == 0) continue;
        matrix.col_idxs.push_back(static_cast<std::int32_t>(chunk * k_packed_chunk + column));
        matrix.values.push_back(
            static_cast<float>(load_element(packed.form.values, units.data(), value++)));
      }
      EXPECT_LT(end - value, packed.form.unit()) << "a unit for nothing";
      for (; value < end; ++value) {
        const double fill = load_element(packed.form.values, units.data(), value);
        EXPECT_TRUE(fill == 0 && std::signbit(fill)) << fill;
      }
    }
    matrix.row_ptrs.push_back(matrix.nnz());
  }
  return matrix;
}

std::vector<CsrMatrix> edge_cases() {
  std::vector<CsrMatrix> all = {random_matrix(1, 1, 0),      random_matrix(1, 500, 0.5),
                                random_matrix(70, 1, 0.5),   random_matrix(33, 129, 0),
                                random_matrix(40, 127, 0.5), random_matrix(8, 128, 0),
                                random_matrix(65, 300, 0.9), {5, 200, {0, 0, 0, 0, 0, 0}, {}, {}},
                                {3, 0, {0, 0, 0, 0}, {}, {}}};
  CsrMatrix dense_row = random_matrix(9, 260, 0.99);
  dense_row.row_ptrs = {0, 0, 0, 260, 260, 260, 260, 260, 260, 260};
  dense_row.col_idxs.clear();
  dense_row.values.assign(260, 1.5F);
  for (std::int32_t column = 0; column < 260; ++column) dense_row.col_idxs.push_back(column);
  all.push_back(dense_row);
  return all;
}

TEST(PackedRows, HoldTheMatrix) {
  for (CsrMatrix matrix : edge_cases()) {
    for (const DataType type : {DataType::f32, DataType::bf16, DataType::f16}) {
      for (float& value : matrix.values) value = static_cast<float>(rounded_to(type, value));
      for (const std::int64_t group_rows : {8, 16, 32}) {
        SCOPED_TRACE(testing::Message() << matrix.rows << "x" << matrix.cols << " of "
                                        << to_string(type) << ", groups of " << group_rows);
        const PackedRows packed(matrix, {group_rows, type});

        const CsrMatrix found = unpacked(packed, matrix);

        EXPECT_EQ(found.row_ptrs, matrix.row_ptrs);
        EXPECT_EQ(found.col_idxs, matrix.col_idxs);
        EXPECT_TRUE(same_bits(found.values, matrix.values));
      }
    }
  }
}

TEST(PackedRows, HaveTheSizesThatAreCountedBefore) {
  for (const CsrMatrix& matrix : edge_cases()) {
    const PackedForm form{16, DataType::f32};
    const PackedSizes sizes = packed_sizes(matrix, form);
    const PackedRows packed(matrix, form);

    const auto bytes = static_cast<double>(packed.bitmaps.size() * 4 + packed.starts.size() * 4 +
                                           packed.arrange(matrix.values).size());

    EXPECT_EQ(packed.starts.back(), sizes.units);
    EXPECT_EQ(bytes, sizes.bytes(form) + 4 * 17) << "and the starts behind the last chunk";
  }
}

TEST(PackedRows, FillTheLastGroupWithEmptyRows) {
  const PackedRows packed(random_matrix(1, 128, 0), {8, DataType::f32});

  EXPECT_EQ(packed.bitmaps.size(), 32);
  EXPECT_THAT(std::vector(packed.bitmaps.begin() + 4, packed.bitmaps.end()), Each(0));
  EXPECT_THAT(packed.starts,
              ElementsAre(0, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32));
}

TEST(PackedRows, KeepTheBitsOfUnusualValues) {
  CsrMatrix matrix = random_matrix(1, 6, 0);
  using Limits = std::numeric_limits<float>;
  matrix.values = {-0.0F,
                   Limits::denorm_min(),
                   Limits::infinity(),
                   -Limits::max(),
                   std::bit_cast<float>(0x7FC12345U),
                   0.1F};

  const std::vector<std::byte> units =
      PackedRows(matrix, {8, DataType::f32}).arrange(matrix.values);

  ASSERT_EQ(units.size(), 32);
  EXPECT_EQ(std::memcmp(units.data(), matrix.values.data(), 24), 0);
}

/// What A takes of a GPU's memory, over what its places take as fp32.
double share_of_dense(const CsrMatrix& matrix, const PackedForm& form) {
  return packed_sizes(matrix, form).bytes(form) /
         (4 * static_cast<double>(matrix.rows) * static_cast<double>(matrix.cols));
}

TEST(PackedRows, OfHalfTheEntriesTakeAtMost56PercentOfDenseFp32) {
  const CsrMatrix matrix = random_matrix(256, 2048, 0.5);

  EXPECT_LE(share_of_dense(matrix, {32, DataType::f32}), 0.56);
  EXPECT_LE(share_of_dense(matrix, {8, DataType::f32}), 0.56);
  EXPECT_LE(share_of_dense(matrix, {32, DataType::bf16}), 0.31);
  EXPECT_GE(share_of_dense(matrix, {32, DataType::f32}), 0.5 + 1.0 / 32) << "values and bits";
}

TEST(PackedGroups, LeaveNoSmWithoutOneButHaveEightRows) {
  EXPECT_EQ(packed_group_rows(4096, 100), 32);
  EXPECT_EQ(packed_group_rows(3200, 100), 32);
  EXPECT_EQ(packed_group_rows(3168, 100), 16);
  EXPECT_EQ(packed_group_rows(768, 132), 8);
  EXPECT_EQ(packed_group_rows(1, 1), 32);
  EXPECT_EQ(packed_group_rows(1, 132), 8);
}

}  // namespace
