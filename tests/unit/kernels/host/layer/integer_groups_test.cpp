// Exact sums of bytes whose groups of columns have scales: against scalar loops.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/host/byte_windows/byte_kernel.hpp"
#include "plan/group_scales.hpp"
#include "plan/problem.hpp"
#include "plan/quantization.hpp"
#include "spjit/compiler.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/draw.hpp"
#include "tests/support/host/byte_forms.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

struct DrawnGroups {
  CsrMatrix a;
  GroupScales scales;

  [[nodiscard]] CsrView view() const {
    CsrView result = view_of(a);
    result.groups = {scales.columns, scales.values};
    return result;
  }
};

/// Some groups and some rows have no entries.
DrawnGroups drawn_groups(Draw& draw, std::int64_t most) {
  const std::int64_t rows = draw.one_of<std::int64_t>({1, 2, 7, 8, 9, 15, 16, 17, 33, 70});
  const std::int64_t cols =
      draw.one_of<std::int64_t>({1, 15, 16, 31, 32, 33, 63, 65, 100, 128, 129, 200, 513});
  const std::int64_t density = draw.one_of<std::int64_t>({2, 20, 50, 100});
  DrawnGroups drawn{{rows, cols, {0}, {}, {}}, {draw.one_of<std::int64_t>({32, 64, 128}), {}}};
  for (std::int64_t row = 0; row < rows; ++row) {
    const bool is_empty = draw.chance(10);
    const bool is_extreme = draw.chance(20);  // the largest sums
    bool skips = false;
    for (std::int64_t column = 0; column < cols; ++column) {
      if (column % 32 == 0) skips = draw.chance(15);
      if (is_empty || skips || !draw.chance(density)) continue;
      drawn.a.col_idxs.push_back(static_cast<std::int32_t>(column));
      drawn.a.values.push_back(
          static_cast<float>(is_extreme ? -most - 1 : draw.between(-most - 1, most)));
    }
    drawn.a.row_ptrs.push_back(drawn.a.nnz());
  }
  drawn.scales.values.resize(index(rows * groups_of(cols, drawn.scales.columns)));
  for (float& scale : drawn.scales.values) {
    scale = std::ldexp(1.0F + static_cast<float>(draw.between(0, 1 << 20)) * 0x1p-20F,
                       static_cast<int>(draw.between(-9, 2)));
    if (draw.chance(20)) scale = draw.chance(20) ? 0 : -scale;
    if (draw.chance(2)) scale = std::numeric_limits<float>::denorm_min();
  }
  return drawn;
}

float scaled_sum(float scale, std::int64_t sum, float total, bool is_fused) {
  const auto value = static_cast<float>(sum);
  if (is_fused) return std::fma(scale, value, total);
  const volatile float product = scale * value;
  return product + total;
}

/// The sum of a row over a column of B, whose bytes `b_at(column)` gives, less the zero point.
template <class ByteAt>
float scaled_row(const DrawnGroups& of, std::int64_t row, const ByteAt& b_at, bool is_fused) {
  const std::int64_t groups = groups_of(of.a.cols, of.scales.columns);
  float total = 0;
  for (std::int64_t group = 0; group < groups; ++group) {
    std::int64_t sum = 0;
    for (std::int64_t i = of.a.row_ptrs[index(row)]; i < of.a.row_ptrs[index(row) + 1]; ++i) {
      const std::int64_t column = of.a.col_idxs[index(i)];
      if (column / of.scales.columns != group) continue;
      sum += static_cast<std::int64_t>(of.a.values[index(i)]) * b_at(column);
    }
    total = scaled_sum(of.scales.values[index(row * groups + group)], sum, total, is_fused);
  }
  return total;
}

// ---- The loops -------------------------------------------------------------------------------

class ScaledByteMatrix : public testing::TestWithParam<std::tuple<ByteForm, ByteSlots>> {
 protected:
  void SetUp() override {
    const std::string reason = byte_form_skip(form());
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
  static ByteForm form() { return std::get<0>(GetParam()); }
  static ByteSlots slots() { return std::get<1>(GetParam()); }

 private:
  EmulatedAvxVnni emulated_;
};

TEST_P(ScaledByteMatrix, GivesTheBitsOfScalarLoops) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Draw draw(seed);
    const DrawnGroups drawn = drawn_groups(draw, slots() == ByteSlots::packed ? 7 : 127);
    ByteWishes wishes{.slots = slots()};
    if (slots() == ByteSlots::apart) wishes.window = byte_windows(form())[seed % 2];
    const ByteMatrix matrix(drawn.view(), form(), {}, wishes);
    ASSERT_EQ(matrix.slots(), slots());
    const std::int64_t n = draw.one_of<std::int64_t>({1, 2, 3, 4, 5, 8, 9, 17});
    const bool may_be_signed = !adds_products(form()) && slots() == ByteSlots::apart;
    const bool is_signed = may_be_signed && draw.chance(50);
    std::vector<std::uint8_t> b(index(n * matrix.token_bytes()));
    for (std::uint8_t& byte : b) {
      byte = static_cast<std::uint8_t>(draw.chance(30) ? (is_signed ? 129 : 255)
                                                       : draw.between(is_signed ? 129 : 0, 255));
    }
    ByteOperands operands{
        .b = b.data(), .kind = is_signed ? ByteKind::is_signed : ByteKind::is_unsigned, .n = n};
    operands.zero_point = is_signed ? 0 : draw.one_of<std::int32_t>({0, 1, 128, 255, 383});
    std::vector<float> c(index(drawn.a.rows * n + 1), 77.0F);
    operands.c = reinterpret_cast<std::byte*>(c.data());
    operands.row_bytes = n * 4;
    operands.token_bytes = 4;
    operands.has_floats = true;

    for (const RowRange& part : matrix.split(3)) matrix.run(part, operands, matrix.values());

    for (std::int64_t row = 0; row < drawn.a.rows; ++row) {
      for (std::int64_t j = 0; j < n; ++j) {
        const float expected = scaled_row(
            drawn, row,
            [&](std::int64_t column) {
              const std::uint8_t byte = b[index(j * matrix.token_bytes() + column)];
              return is_signed ? static_cast<std::int8_t>(byte) : byte - operands.zero_point;
            },
            true);
        ASSERT_EQ(std::bit_cast<std::uint32_t>(c[index(row * n + j)]),
                  std::bit_cast<std::uint32_t>(expected))
            << "seed " << seed << ", C[" << row << "][" << j << "] is " << c[index(row * n + j)]
            << ", expected " << expected;
      }
    }
    ASSERT_EQ(c.back(), 77.0F);
  }
}

TEST_P(ScaledByteMatrix, TakesTheBytesOfItsSteps) {
  Draw draw(4);
  const DrawnGroups drawn = drawn_groups(draw, 7);
  const ByteMatrix matrix(drawn.view(), form(), {}, {.slots = slots()});

  const std::int64_t lanes = matrix.shape().lanes;
  const std::int64_t groups = matrix.groups() * groups_of(drawn.a.cols, drawn.scales.columns);
  const std::int64_t of_step = (slots() == ByteSlots::packed ? 1 : 2) * 4 * lanes + 1;

  EXPECT_EQ(matrix.bytes(), matrix.steps() * of_step + groups * (lanes * 6 + 1));
}

TEST_P(ScaledByteMatrix, HoldsNoMoreThanThatBesideRows) {
  DrawnGroups drawn{random_matrix(300, 200, 0.5), {32, std::vector<float>(300 * 7, 1.0F)}};
  std::ranges::fill(drawn.a.values, 5.0F);

  const ByteMatrix matrix(drawn.view(), form(), {}, {.slots = slots()});

  // Where entries of A were in steps, eight bytes a slot, would be 250 KB or more.
  EXPECT_LT(matrix.held_bytes() - matrix.bytes(), 8000);
}

INSTANTIATE_TEST_SUITE_P(Forms, ScaledByteMatrix,
                         testing::Combine(testing::ValuesIn(k_byte_forms),
                                          testing::Values(ByteSlots::apart, ByteSlots::packed)),
                         [](const auto& of) {
                           const bool is_packed = std::get<1>(of.param) == ByteSlots::packed;
                           return to_string(std::get<0>(of.param)) +
                                  (is_packed ? "_packed" : "_apart");
                         });

TEST(ScaledBytesSlots, AreApartWhereAValueIsNoNibble) {
  Draw draw(1);
  DrawnGroups drawn = drawn_groups(draw, 7);
  ASSERT_GT(drawn.a.nnz(), 0);

  drawn.a.values.back() = 8;

  EXPECT_EQ(ByteMatrix(drawn.view(), ByteForm::avx2, {}, {.slots = ByteSlots::packed}).slots(),
            ByteSlots::apart);
}

TEST(ScaledBytesSlots, ArePackedWhereWindowsHaveEnoughEntries) {
  const auto slots_of = [](int distance, ByteForm form) {
    DrawnGroups drawn{{32, 2048, {0}, {}, {}}, {128, std::vector<float>(32 * 16, 1.0F)}};
    for (int row = 0; row < 32; ++row) {
      for (int column = row % distance; column < 2048; column += distance) {
        drawn.a.col_idxs.push_back(column);
        drawn.a.values.push_back(3.0F);
      }
      drawn.a.row_ptrs.push_back(drawn.a.nnz());
    }
    return ByteMatrix(drawn.view(), form).slots();
  };

  for (const ByteForm form : k_byte_forms) {
    EXPECT_EQ(slots_of(2, form), ByteSlots::packed);
    EXPECT_EQ(slots_of(16, form), ByteSlots::apart);
  }
}

// ---- Kernels ---------------------------------------------------------------------------------

using IntegerGroupsCase = std::tuple<std::string, HostIsa>;

class IntegerGroups : public testing::TestWithParam<IntegerGroupsCase> {
 protected:
  void SetUp() override {
    if (!Target(isa()).runs_here()) GTEST_SKIP() << "no " << to_string(isa()) << " here";
  }
  static std::string family() { return std::get<0>(GetParam()); }
  static HostIsa isa() { return std::get<1>(GetParam()); }
  static bool is_fused() { return isa() != HostIsa::generic; }

  static Kernel compile(Problem problem, const DrawnGroups& drawn, int threads = 1,
                        VerifyMode verify = VerifyMode::none) {
    problem.a = drawn.a;
    problem.group_scales = std::make_shared<const GroupScales>(drawn.scales);
    CompileOptions options = options_of(isa());
    options.policy.family = family();
    options.resources.threads = threads;
    options.verify = verify;
    return Compiler(options, uncached()).compile(problem);
  }
};

TEST_P(IntegerGroups, ScaleTheBytesOfAQuantisedToken) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Draw draw(seed);
    const bool is_nibble = draw.chance(50);
    const DrawnGroups drawn = drawn_groups(draw, is_nibble ? 7 : 127);
    const std::int64_t n = draw.one_of<std::int64_t>({1, 2, 3, 5, 13, 17, 70});
    Problem problem;
    problem.n = draw.chance(30) ? Extent::at_run_time(n) : Extent(n);
    problem.numerics = {.a = is_nibble ? DataType::i4 : DataType::i8,
                        .accumulate = Accumulate::integer(),
                        .quantization = Quantization::token};
    problem.epilogue = {.scale = draw.chance(50), .bias = draw.chance(50)};
    std::vector<float> b(index(drawn.a.cols * n));
    for (float& value : b) value = static_cast<float>(draw.between(-1000, 1000)) * 0.003F;
    std::vector<float> scale(index(drawn.a.rows), 0.3F);
    std::vector<float> bias(index(drawn.a.rows), -0.7F);
    std::vector<float> c(index(drawn.a.rows * n));

    compile(problem, drawn, seed % 3 == 0 ? 3 : 1)
        .run({.b = b.data(),
              .c = c.data(),
              .n = n,
              .scale = problem.epilogue.scale ? scale.data() : nullptr,
              .bias = problem.epilogue.bias ? bias.data() : nullptr});

    for (std::int64_t j = 0; j < n; ++j) {
      FloatRange range;
      for (std::int64_t k = 0; k < drawn.a.cols; ++k) range.add(b[index(k * n + j)]);
      const ByteScale token = scale_of(range, Quantization::token);
      for (std::int64_t row = 0; row < drawn.a.rows; ++row) {
        float expected = scaled_row(
            drawn, row,
            [&](std::int64_t k) {
              return quantized(b[index(k * n + j)], token, Quantization::token);
            },
            is_fused());
        expected *= token.scale * (problem.epilogue.scale ? 0.3F : 1.0F);
        if (problem.epilogue.bias) expected += -0.7F;
        ASSERT_EQ(c[index(row * n + j)], expected)
            << "seed " << seed << ", C[" << row << "][" << j << "]";
      }
    }
  }
}

TEST_P(IntegerGroups, ScaleTheBytesOfARun) {
  for (const DataType type : {DataType::i8, DataType::u8}) {
    for (const DataType of_c : {DataType::f32, DataType::i32, DataType::i8}) {
      Draw draw(7);
      const DrawnGroups drawn = drawn_groups(draw, 7);
      const std::int64_t n = 5;
      Problem problem;
      problem.n = n;
      problem.numerics = {DataType::i4, type, of_c, Accumulate::integer()};
      std::vector<std::uint8_t> b(index(drawn.a.cols * n));
      for (std::uint8_t& byte : b) byte = static_cast<std::uint8_t>(draw.between(0, 255));
      b.front() = 128;  // -128 of i8
      std::vector<std::int32_t> c(index(drawn.a.rows * n));

      compile(problem, drawn)
          .run({.b = {static_cast<const void*>(b.data()), type},
                .c = {static_cast<void*>(c.data()), of_c},
                .n = n});

      for (std::int64_t i = 0; i < drawn.a.rows * n; ++i) {
        const float sum = scaled_row(
            drawn, i / n,
            [&](std::int64_t k) {
              const std::uint8_t byte = b[index(k * n + i % n)];
              return type == DataType::i8 ? static_cast<std::int8_t>(byte) : std::int32_t{byte};
            },
            is_fused());
        if (of_c == DataType::f32) {
          ASSERT_EQ(std::bit_cast<float>(c[index(i)]), sum);
        } else if (of_c == DataType::i32) {
          ASSERT_EQ(c[index(i)], static_cast<std::int32_t>(std::nearbyint(sum)));
        } else {
          ASSERT_EQ(reinterpret_cast<const std::int8_t*>(c.data())[i],
                    static_cast<std::int8_t>(std::clamp(std::nearbyint(sum), -128.0F, 127.0F)));
        }
      }
    }
  }
}

TEST_P(IntegerGroups, PassTheChecksOfKernels) {
  for (const Quantization how :
       {Quantization::none, Quantization::given, Quantization::tensor, Quantization::token}) {
    Draw draw(11);
    const DrawnGroups drawn = drawn_groups(draw, 7);
    Problem problem;
    problem.n = 6;
    problem.b.layout = problem.c.layout = Layout::tokens_major;
    problem.epilogue = {.bias = true, .residual = true, .activation = Activation::gelu_erf};
    const bool has_floats = how == Quantization::tensor || how == Quantization::token;
    problem.numerics = {DataType::i4, has_floats ? DataType::f32 : DataType::u8, DataType::bf16,
                        Accumulate::integer(), how};

    const Kernel kernel = compile(problem, drawn, 1, VerifyMode::full);  // throws what is wrong

    EXPECT_EQ(kernel.info().verification.reason, "");
    EXPECT_GT(kernel.info().verification.rows_checked, 0);
  }
}

TEST_P(IntegerGroups, MakeATokenWithAnInfinityNan) {
  DrawnGroups drawn{{1, 2, {0, 1}, {0}, {3.0F}}, {32, {0.5F}}};
  Problem problem;
  problem.n = 2;
  problem.numerics = {
      .a = DataType::i4, .accumulate = Accumulate::integer(), .quantization = Quantization::token};
  const std::vector<float> b = {127.0F, 1.0F, 0.0F, std::numeric_limits<float>::infinity()};
  std::vector<float> c(2);

  compile(problem, drawn).run({.b = b.data(), .c = c.data(), .n = 2});

  EXPECT_EQ(c[0], 127.0F * 1.5F);
  EXPECT_TRUE(std::isnan(c[1])) << c[1];
}

std::string name_of_integer_groups(const testing::TestParamInfo<IntegerGroupsCase>& info) {
  return std::get<0>(info.param) + "_" + std::string(to_string(std::get<1>(info.param)));
}
INSTANTIATE_TEST_SUITE_P(Reference, IntegerGroups,
                         testing::Combine(testing::Values("reference"),
                                          testing::Values(HostIsa::avx512, HostIsa::avx2,
                                                          HostIsa::generic)),
                         name_of_integer_groups);
INSTANTIATE_TEST_SUITE_P(ByteWindows, IntegerGroups,
                         testing::Combine(testing::Values("byte_windows"),
                                          testing::Values(HostIsa::avx512, HostIsa::avx2)),
                         name_of_integer_groups);
INSTANTIATE_TEST_SUITE_P(Bitmask, IntegerGroups,
                         testing::Combine(testing::Values("bitmask"),
                                          testing::Values(HostIsa::avx512)),
                         name_of_integer_groups);

}  // namespace
