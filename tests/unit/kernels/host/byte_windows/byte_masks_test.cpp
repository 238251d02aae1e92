// A of bytes as masks: sums against scalar loops, and what it holds.

#include "kernels/host/byte_windows/byte_masks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stop_token>
#include <vector>

#include "base/arithmetic.hpp"
#include "plan/group_scales.hpp"
#include "spjit/error.hpp"
#include "tests/support/draw.hpp"
#include "tests/support/guarded_memory.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

struct MaskedCase {
  CsrMatrix a;
  GroupScales scales = {};  ///< none: no groups

  [[nodiscard]] CsrView view() const {
    CsrView result = view_of(a);
    if (!scales.values.empty()) result.groups = {scales.columns, scales.values};
    return result;
  }
};

/// Rows that are empty, full, of the least value, and drawn ones.
CsrMatrix drawn_rows(Draw& draw, std::int64_t rows, std::int64_t cols, std::int64_t most) {
  CsrMatrix a{rows, cols, {0}, {}, {}};
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t density = draw.one_of<std::int64_t>({0, 5, 30, 60, 100});
    const bool is_extreme = draw.chance(20);
    for (std::int64_t column = 0; column < cols; ++column) {
      if (!draw.chance(density)) continue;
      a.col_idxs.push_back(static_cast<std::int32_t>(column));
      a.values.push_back(
          static_cast<float>(is_extreme ? -most - 1 : draw.between(-most - 1, most)));
    }
    a.row_ptrs.push_back(a.nnz());
  }
  return a;
}

GroupScales drawn_scales(Draw& draw, const CsrMatrix& a, std::int64_t columns, DataType exact_in) {
  GroupScales scales{columns, {}};
  scales.values.resize(index(a.rows * groups_of(a.cols, columns)));
  for (float& scale : scales.values) {
    // Of f16 11 bits are exact, of bf16 8 and any exponent.
    const std::int64_t bits = exact_in == DataType::f16 ? 10 : exact_in == DataType::bf16 ? 7 : 20;
    const std::int64_t exponent = exact_in == DataType::bf16 ? -40 : -5;
    scale = std::ldexp(static_cast<float>((1 << bits) + 1 + draw.between(0, 100) * 2 % (1 << bits)),
                       static_cast<int>(exponent - bits));
    if (draw.chance(20)) scale = draw.chance(20) ? 0 : -scale;
  }
  return scales;
}

class MaskedSums : public testing::Test {
 protected:
  void SetUp() override {
    if (!MaskedBytes::runs_here()) GTEST_SKIP() << "no VBMI2 and VNNI here";
  }

  /// Of all rows and tokens, in two parts, against pages that cannot be touched.
  static void expect_exact(const MaskedCase& of, const MaskedBytes& masked, std::int64_t n,
                           std::int32_t zero_point, bool has_floats, Draw& draw) {
    const std::int64_t blocks = ceil_div(of.a.cols, MaskedBytes::k_block);
    const std::int64_t token_bytes = std::max<std::int64_t>(blocks, 1) * MaskedBytes::k_block;
    const GuardedPages b(index(n * token_bytes), GuardPlacement::at_end, 1);
    for (std::byte& byte : b.bytes()) {
      byte = static_cast<std::byte>(draw.chance(20) ? 255 : draw.between(0, 255));
    }
    const std::int64_t ldc = n + 1;
    const GuardedPages c(index(of.a.rows * ldc - 1) * 4, GuardPlacement::at_end, 4);
    std::ranges::fill(c.bytes(), std::byte{77});
    ByteOperands operands{.b = reinterpret_cast<const std::uint8_t*>(b.bytes().data()),
                          .zero_point = zero_point,
                          .n = n,
                          .c = c.bytes().data(),
                          .row_bytes = ldc * 4,
                          .token_bytes = 4,
                          .has_floats = has_floats};

    for (const RowRange& part : masked.split(2)) masked.run(part, operands, token_bytes);

    for (std::int64_t row = 0; row < of.a.rows; ++row) {
      for (std::int64_t j = 0; j < n; ++j) {
        const std::int64_t expected =
            bits_of(of, row, operands.b + j * token_bytes, zero_point, has_floats);
        std::int32_t made = 0;
        std::memcpy(&made, c.bytes().data() + (row * ldc + j) * 4, 4);
        ASSERT_EQ(made, expected) << of.a.rows << " x " << of.a.cols << ", n = " << n << ", C["
                                  << row << "][" << j << "]";
      }
      if (row + 1 < of.a.rows) {
        ASSERT_EQ(c.bytes()[index((row * ldc + n) * 4)], std::byte{77}) << "behind row " << row;
      }
    }
    ASSERT_TRUE(c.intact() && b.intact());
  }

 private:
  static std::int64_t bits_of(const MaskedCase& of, std::int64_t row, const std::uint8_t* token,
                              std::int32_t zero_point, bool has_floats) {
    const std::int64_t columns = of.scales.values.empty() ? of.a.cols + 1 : of.scales.columns;
    std::vector<std::int64_t> sums(index(groups_of(of.a.cols, columns)), 0);
    for (std::int64_t i = of.a.row_ptrs[index(row)]; i < of.a.row_ptrs[index(row) + 1]; ++i) {
      const std::int64_t column = of.a.col_idxs[index(i)];
      sums[index(column / columns)] +=
          static_cast<std::int64_t>(of.a.values[index(i)]) * (token[column] - zero_point);
    }
    if (of.scales.values.empty()) {
      return has_floats ? std::bit_cast<std::int32_t>(static_cast<float>(sums[0])) : sums[0];
    }
    float total = 0;
    for (std::size_t group = 0; group < sums.size(); ++group) {
      const float scale = of.scales.values[index(row) * sums.size() + group];
      total = std::fma(scale, static_cast<float>(sums[group]), total);
    }
    return std::bit_cast<std::int32_t>(total);
  }
};

TEST_F(MaskedSums, AreExactForEveryShapeAndNumberOfTokens) {
  Draw draw(1);
  for (const std::int64_t rows : {1, 3, 4, 7, 8, 9, 16, 17, 33}) {
    for (const std::int64_t cols : {1, 2, 63, 64, 65, 127, 128, 129, 300}) {
      for (const std::int64_t most : {7, 127}) {
        const MaskedCase of{drawn_rows(draw, rows, cols, most)};
        const MaskedBytes few(of.view(), 2);
        const MaskedBytes some(of.view(), 3);
        for (const std::int64_t n : {1, 2, 3, 4, 5, 9}) {
          const std::int32_t zero_point = draw.one_of<std::int32_t>({0, 1, 128, 255});
          expect_exact(of, few, n, zero_point, draw.chance(50), draw);
          expect_exact(of, some, n, zero_point, draw.chance(50), draw);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_F(MaskedSums, OfGroupsAreScaledInOrder) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Draw draw(seed);
    const std::int64_t most = draw.one_of<std::int64_t>({7, 127});
    MaskedCase of{drawn_rows(
        draw, draw.one_of<std::int64_t>({1, 15, 16, 17, 40}),
        draw.one_of<std::int64_t>({1, 31, 32, 33, 64, 65, 96, 97, 128, 129, 191, 193, 400}), most)};
    const auto type = draw.one_of<DataType>({DataType::f32, DataType::f16, DataType::bf16});
    of.scales = drawn_scales(draw, of.a, draw.one_of<std::int64_t>({32, 64, 128}), type);
    const MaskedBytes masked(of.view(), 1);
    SCOPED_TRACE(seed);
    for (const std::int64_t n : {1, 2, 8, 9, 17}) {
      expect_exact(of, masked, n, draw.one_of<std::int32_t>({0, 1, 128, 255}), true, draw);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(MaskedSums, OfMoreThanIsNearAreComputedInParts) {
  Draw draw(5);
  const MaskedCase of{drawn_rows(draw, 700, 900, 127)};
  const MaskedBytes masked(of.view(), 9);
  ASSERT_GT(masked.bytes(), 2 * (128 << 10));

  expect_exact(of, masked, 9, 128, false, draw);
}

TEST(MaskedBytesSizes, AreABitAColumnAndTheValues) {
  CsrMatrix a = random_matrix(64, 256, 0.5);
  std::ranges::fill(a.values, -9.0F);
  const MaskedBytes bytes(view_of(a), 1);
  EXPECT_FALSE(bytes.has_nibbles());
  EXPECT_EQ(bytes.bytes(), 64 * 256 / 8 + a.nnz());
  EXPECT_LT(bytes.held_bytes(), bytes.bytes() + 1000);

  std::ranges::fill(a.values, -8.0F);
  const MaskedBytes nibbles(view_of(a), 1);
  EXPECT_TRUE(nibbles.has_nibbles());
  // Of two rows the longer one takes the bytes.
  EXPECT_GE(nibbles.bytes(), 64 * 256 / 8 + a.nnz() / 2);
  EXPECT_LE(nibbles.bytes(), 64 * 256 / 8 + a.nnz() * 6 / 10);
}

TEST(MaskedBytesSizes, OfScalesAreThoseOfTheNarrowestTypeThatHasThem) {
  Draw draw(3);
  MaskedCase of{random_matrix(16, 128, 0.5)};
  std::ranges::fill(of.a.values, 3.0F);
  of.scales = {64, std::vector<float>(32, 1.5F)};
  const auto type_with = [&](float scale) {
    of.scales.values[17] = scale;
    return MaskedBytes(of.view(), 1).scale_type();
  };

  EXPECT_EQ(type_with(0.5F), DataType::f16);
  EXPECT_EQ(type_with(0x1p-30F), DataType::bf16);
  EXPECT_EQ(type_with(0.1F), DataType::f32);
  const std::int64_t wide = MaskedBytes(of.view(), 1).bytes();
  EXPECT_EQ(type_with(0x1p20F), DataType::bf16);
  EXPECT_EQ(wide - MaskedBytes(of.view(), 1).bytes(), 32 * 2);
}

TEST(MaskedBytesSizes, StopWhenCancelled) {
  std::stop_source stop;
  stop.request_stop();
  const CsrMatrix a = random_matrix(64, 256, 0.5);
  EXPECT_THROW(MaskedBytes(view_of(a), 1, {{}, stop.get_token()}), Cancelled);
}

}  // namespace
