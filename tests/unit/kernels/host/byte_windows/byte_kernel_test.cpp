// The loops of the family `byte_windows` and the copy of B, against sums of 64 bits.

#include "kernels/host/byte_windows/byte_kernel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <tuple>
#include <vector>

#include "kernels/host/byte_windows/byte_tokens.hpp"
#include "tests/support/guarded_buffers.hpp"
#include "tests/support/guarded_memory.hpp"
#include "tests/support/host/byte_forms.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

/// A byte of B of a row and a column, as i8 or u8.
using ByteOf = std::function<int(std::int64_t row, std::int64_t column)>;

struct ByteCase {
  bool is_signed = true;
  Layout layout = Layout::row_major;
  std::int64_t n = 1;
  std::int64_t gap = 0;  ///< of B and C, between rows or tokens
  std::int64_t parts = 1;
  std::int64_t window = 0;  ///< one of the form's; 0: each of them
};

/// What the kernel makes of B. All that is read and written lies against pages that cannot be
/// touched.
class ByteProduct {
 public:
  ByteProduct(const CsrMatrix& matrix, ByteForm form, const ByteCase& shape, const ByteOf& of_b,
              GuardPlacement placement)
      : matrix_(matrix), shape_(shape), of_b_(of_b) {
    const GuardedBuffers guarded(placement);
    const ByteMatrix bytes(view_of(matrix), form, {}, {.window = shape.window});
    const bool has_tokens = shape.layout == Layout::tokens_major;
    const std::int64_t ldb = (has_tokens ? matrix.cols : shape.n) + shape.gap;
    const std::int64_t rows_of_b = has_tokens ? shape.n : matrix.cols;
    const GuardedPages b(index(std::max<std::int64_t>(rows_of_b * ldb - shape.gap, 0)), placement);
    for (std::int64_t row = 0; row < matrix.cols; ++row) {
      for (std::int64_t j = 0; j < shape.n; ++j) {
        b.bytes()[index(has_tokens ? j * ldb + row : row * ldb + j)] =
            static_cast<std::byte>(of_b(row, j));
      }
    }
    b.seal();
    const GuardedPages tokens(index(shape.n * bytes.token_bytes()), placement, 64);
    auto* const token_data = reinterpret_cast<std::uint8_t*>(tokens.bytes().data());
    ByteOperands operands{.b = token_data, .n = shape.n};
    const ByteSource from{reinterpret_cast<const std::uint8_t*>(b.bytes().data()), shape.layout,
                          ldb, matrix.cols, shape.n};
    const ByteTokens to{token_data, bytes.token_bytes(), 0, shape.n};
    const bool adds_bias = shape.is_signed && adds_products(form);
    const std::int64_t middle = matrix.cols * 2 / 5;
    const std::uint8_t flipped = adds_bias ? k_byte_bias : 0;
    const bool first = copy_tokens(from, {0, middle}, flipped, to);
    has_least = copy_tokens(from, {middle, matrix.cols}, flipped, to) || first;
    if (shape.is_signed && !adds_bias) operands.kind = ByteKind::is_signed;
    if (adds_bias) operands.zero_point = k_byte_bias;
    if (shape.is_signed && !adds_bias && has_least) {
      bias_tokens(to, matrix.cols);
      operands.kind = ByteKind::is_unsigned;
      operands.zero_point = k_byte_bias;
    }
    ldc_ = shape.n + shape.gap;
    const GuardedPages c(index(std::max<std::int64_t>(matrix.rows * ldc_ - shape.gap, 0)) * 4,
                         placement, 4);
    std::ranges::fill(c.bytes(), std::byte{77});
    operands.c = c.bytes().data();
    operands.row_bytes = ldc_ * 4;
    operands.token_bytes = 4;
    for (const RowRange& part : bytes.split(shape.parts)) bytes.run(part, operands, bytes.values());
    intact_ = c.intact() && tokens.intact();
    c_.resize(c.bytes().size() / 4);
    std::memcpy(c_.data(), c.bytes().data(), c.bytes().size());
  }

  bool has_least = false;  ///< one of B's bytes is 0x80

  void expect_exact() const {
    constexpr std::int32_t k_untouched = 0x4D4D4D4D;
    ASSERT_TRUE(intact_);
    for (std::int64_t row = 0; row < matrix_.rows; ++row) {
      for (std::int64_t j = 0; j < ldc_; ++j) {
        if (row == matrix_.rows - 1 && j >= shape_.n) break;
        std::int64_t sum = 0;
        for (std::int64_t i = matrix_.row_ptrs[index(row)]; i < matrix_.row_ptrs[index(row) + 1];
             ++i) {
          if (j >= shape_.n) break;
          sum += static_cast<std::int64_t>(matrix_.values[index(i)]) *
                 of_b_(matrix_.col_idxs[index(i)], j);
        }
        ASSERT_EQ(c_[index(row * ldc_ + j)], j < shape_.n ? sum : k_untouched)
            << matrix_.rows << " x " << matrix_.cols << ", n = " << shape_.n << ": C[" << row
            << "][" << j << "]";
      }
    }
  }

 private:
  const CsrMatrix& matrix_;
  ByteCase shape_;
  const ByteOf& of_b_;
  std::int64_t ldc_ = 0;
  bool intact_ = false;
  std::vector<std::int32_t> c_;
};

/// Scattered over the type, from `least` on.
ByteOf drawn_bytes(bool is_signed, int least = -128) {
  return [=](std::int64_t row, std::int64_t column) {
    const auto place = static_cast<std::uint32_t>(row * 1009 + column);
    const auto drawn = static_cast<int>((place * 2'654'435'761U) >> 24U);
    return is_signed ? std::max(drawn - 128, least) : drawn;
  };
}

/// Each value of i8 in turn.
CsrMatrix with_bytes(CsrMatrix matrix) {
  for (std::size_t i = 0; i < matrix.values.size(); ++i) {
    matrix.values[i] = static_cast<float>(static_cast<int>(i * 37 % 256) - 128);
  }
  return matrix;
}

CsrMatrix matrix_of_columns(std::int64_t cols, const std::vector<std::vector<std::int32_t>>& rows) {
  CsrMatrix matrix{std::ssize(rows), cols, {0}, {}, {}};
  for (const std::vector<std::int32_t>& row : rows) {
    matrix.col_idxs.insert(matrix.col_idxs.end(), row.begin(), row.end());
    matrix.row_ptrs.push_back(std::ssize(matrix.col_idxs));
  }
  matrix.values.resize(matrix.col_idxs.size());
  return with_bytes(matrix);
}

class ByteKernel : public testing::TestWithParam<std::tuple<ByteForm, GuardPlacement>> {
 protected:
  void SetUp() override {
    const std::string reason = byte_form_skip(form());
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
  static ByteForm form() { return std::get<0>(GetParam()); }

  static ByteProduct product(const CsrMatrix& matrix, const ByteCase& shape, const ByteOf& of_b) {
    return {matrix, form(), shape, of_b, std::get<1>(GetParam())};
  }
  /// B of both types, from both layouts.
  static void expect_exact(const CsrMatrix& matrix, ByteCase shape) {
    const std::int64_t given = shape.window;
    for (const std::int64_t window : byte_windows(form())) {
      if (given != 0 && given != window) continue;
      shape.window = window;
      for (const Layout layout : {Layout::row_major, Layout::tokens_major}) {
        shape.layout = layout;
        for (const int least : {-128, -127, 0}) {
          shape.is_signed = least < 0;
          const ByteOf of_b = drawn_bytes(shape.is_signed, least);
          product(matrix, shape, of_b).expect_exact();
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }

 private:
  EmulatedAvxVnni emulated_;
};

TEST_P(ByteKernel, GivesExactSumsOfEveryShape) {
  for (const std::int64_t rows : {1, 7, 8, 9, 15, 16, 17, 40}) {
    for (const std::int64_t cols : {1, 3, 15, 16, 17, 31, 33, 53, 64, 65, 200}) {
      for (const double sparsity : {0.0, 0.5, 0.9, 1.0}) {
        const CsrMatrix matrix = with_bytes(random_matrix(rows, cols, sparsity));
        const std::int64_t window = byte_windows(form())[index((rows + cols) % 2)];
        expect_exact(matrix, {.n = 1, .window = window});
        expect_exact(matrix, {.n = 3, .gap = 2, .parts = 3, .window = window});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ByteKernel, TakesEveryNumberOfTokens) {
  for (const double sparsity : {0.3, 0.85}) {
    const CsrMatrix matrix = with_bytes(random_matrix(37, 150, sparsity));
    for (std::int64_t n = 1; n <= 17; ++n) {
      expect_exact(matrix, {.n = n});
      expect_exact(matrix, {.n = n, .gap = 3, .parts = 2});
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(ByteKernel, TakesWindowsWhereverEntriesAre) {
  std::vector<std::int32_t> all(200);
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::vector<std::int32_t>> rows = {all,  // a dense row beside short ones
                                                 {},   // and empty ones
                                                 {199},
                                                 {0, 199},
                                                 {0, 15, 16, 17, 31, 32, 33},
                                                 {0, 63, 64, 65, 127, 128},
                                                 {1, 16, 17, 32, 64},
                                                 {136, 137, 183, 184, 198, 199}};
  for (std::int32_t count = 1; count <= 9; ++count) {  // at once, and a window apart
    rows.emplace_back();
    rows.emplace_back();
    for (std::int32_t i = 0; i < count; ++i) {
      rows[rows.size() - 2].push_back(100 + i);
      rows.back().push_back(20 * i);
    }
  }

  for (const std::int64_t n : {1, 2, 8}) expect_exact(matrix_of_columns(200, rows), {.n = n});
}

TEST_P(ByteKernel, IsExactAtTheEndsOfTheTypes) {
  CsrMatrix matrix = random_matrix(20, 150, 0.1);
  for (const int a : {-128, -127, 127}) {
    for (const int other : {-128, 0, 127}) {
      for (std::size_t i = 0; i < matrix.values.size(); ++i) {
        matrix.values[i] = static_cast<float>(i % 2 == 0 ? a : other);
      }
      for (const int b : {-128, -127, 127, 255}) {
        for (const std::int64_t every : {1, 2, 150}) {
          const bool is_signed = b != 255;
          const ByteOf of_b = [&](std::int64_t row, std::int64_t column) {
            return (row + column) % every == 0 ? b : is_signed ? 127 : 254;
          };
          for (const std::int64_t window : byte_windows(form())) {
            const ByteProduct made =
                product(matrix, {.is_signed = is_signed, .n = 5, .window = window}, of_b);

            made.expect_exact();
            if (HasFatalFailure()) return;
            EXPECT_EQ(made.has_least, b == -128);
          }
        }
      }
    }
  }
}

TEST_P(ByteKernel, TakesAsManyColumnsAsAStepCanName) {
  const auto most = static_cast<std::int32_t>(k_most_byte_columns);
  const CsrMatrix matrix = matrix_of_columns(
      most, {{0, most - 1}, {most - 1}, {most - 70, most - 64, most - 32, most - 16}, {1}});

  expect_exact(matrix, {.n = 2});
}

TEST_P(ByteKernel, StoresFloatsThatAreRoundedOnce) {
  // 127 * 255 * 1001 = 32417385 is beyond 2^24 and odd.
  CsrMatrix matrix = random_matrix(1, 1001, 0);
  std::ranges::fill(matrix.values, 127.0F);
  const ByteMatrix bytes(view_of(matrix), form());
  std::vector<std::uint8_t> tokens(index(bytes.token_bytes()), 255);
  float c = 0;

  bytes.run({0, 1},
            {.b = tokens.data(),
             .n = 1,
             .c = reinterpret_cast<std::byte*>(&c),
             .row_bytes = 4,
             .token_bytes = 4,
             .has_floats = true},
            bytes.values());

  EXPECT_EQ(c, 32'417'384);
}

TEST_P(ByteKernel, DividesGroupsAmongThreads) {
  const CsrMatrix matrix = with_bytes(random_matrix(100, 90, 0.5));
  const ByteMatrix bytes(view_of(matrix), form());
  for (const std::int64_t parts : {1, 2, 3, 50}) {
    std::int64_t end = 0;
    const std::vector<RowRange> ranges = bytes.split(parts);
    for (const RowRange& range : ranges) {
      EXPECT_EQ(range.begin, end);
      EXPECT_LT(range.begin, range.end);
      end = range.end;
    }
    EXPECT_EQ(end, bytes.groups());
    EXPECT_LE(std::ssize(ranges), parts);
  }
  EXPECT_GT(std::ssize(bytes.split(50)), 5);
}

INSTANTIATE_TEST_SUITE_P(All, ByteKernel,
                         testing::Combine(testing::ValuesIn(k_byte_forms),
                                          testing::ValuesIn(k_placements)),
                         [](const auto& test) {
                           return to_string(std::get<0>(test.param)) + "_" +
                                  to_string(std::get<1>(test.param));
                         });

TEST(ByteForms, AreThoseOfTheCpuAndTheTarget) {
  HostCpu cpu;
  EXPECT_EQ(byte_form(HostIsa::avx512, cpu), ByteForm::avx512);
  EXPECT_EQ(byte_form(HostIsa::avx2, cpu), ByteForm::avx2);
  cpu.avx512_vbmi = true;
  EXPECT_EQ(byte_form(HostIsa::avx512, cpu), ByteForm::avx512);
  cpu.avx512_vnni = true;
  EXPECT_EQ(byte_form(HostIsa::avx512, cpu), ByteForm::vbmi);
  EXPECT_EQ(byte_form(HostIsa::avx2, cpu), ByteForm::avx2);
  cpu.avx512_vbmi = false;
  EXPECT_EQ(byte_form(HostIsa::avx512, cpu), ByteForm::vnni);
  cpu.avx_vnni = true;
  EXPECT_EQ(byte_form(HostIsa::avx512, cpu), ByteForm::vnni);
  EXPECT_EQ(byte_form(HostIsa::avx2, cpu), ByteForm::avx_vnni);
}

TEST(ByteForms, RunWhereTheCpuHasTheirInstructions) {
  HostCpu cpu;
  EXPECT_FALSE(has_byte_form(cpu, ByteForm::avx2));
  cpu.avx2_fma = true;
  cpu.avx512 = true;
  cpu.avx512_vbmi = true;
  for (const ByteForm form : k_byte_forms) {
    EXPECT_EQ(has_byte_form(cpu, form), form == ByteForm::avx2 || form == ByteForm::avx512);
  }
  cpu.avx512_vnni = true;
  for (const ByteForm form : k_byte_forms) {
    EXPECT_EQ(has_byte_form(cpu, form), form != ByteForm::avx_vnni);
  }
  cpu.avx_vnni = true;
  EXPECT_TRUE(has_byte_form(cpu, ByteForm::avx_vnni));
}

TEST(ByteSteps, TakeTheWiderWindowOnlyWhereItsStepsAreFewEnough) {
  const CsrMatrix dense = with_bytes(random_matrix(64, 384, 0.5));
  const CsrMatrix sparse = with_bytes(random_matrix(64, 384, 0.95));

  for (const ByteForm form : k_byte_forms) {
    EXPECT_EQ(ByteMatrix(view_of(dense), form).shape().window, 16);
    EXPECT_EQ(ByteMatrix(view_of(sparse), form, {}, {.tokens = 1}).shape().window,
              byte_windows(form)[1]);
  }
}

TEST(ByteSteps, TakeTheWiderWindowRatherForFewTokens) {
  const CsrMatrix matrix = with_bytes(random_matrix(384, 384, 0.8));
  for (const ByteForm form : {ByteForm::avx_vnni, ByteForm::vnni}) {
    EXPECT_EQ(ByteMatrix(view_of(matrix), form, {}, {.tokens = 1}).shape().window, 32);
    EXPECT_EQ(ByteMatrix(view_of(matrix), form, {}, {.tokens = 8}).shape().window, 16);
  }
}

TEST(ByteSteps, HaveNoEmptySlotsWhereEveryColumnIsAnEntry) {
  const CsrMatrix dense = with_bytes(random_matrix(32, 128, 0));

  for (const ByteShape shape : {ByteShape{8, 16}, ByteShape{8, 32}, ByteShape{16, 64}}) {
    const OrderedRows ordered = order_byte_rows(view_of(dense), shape);
    EXPECT_EQ(ordered.steps, 32 * 128 / shape.slots());
    EXPECT_EQ(make_byte_steps(view_of(dense), shape, ordered).steps(), 32 * 128 / shape.slots());
  }
}

}  // namespace
