// Types of operands, and sizes of elements of one byte and of four.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "artifact/argument_checks.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t k_largest = std::numeric_limits<std::int64_t>::max();
constexpr OperandTypes k_all_i8 = {DataType::i8, DataType::i8, DataType::i8};
constexpr OperandTypes k_i8_to_f32 = {DataType::i8, DataType::f32, DataType::f32};

/// A [6 x 5], n at run time with 8 the typical one, B and C in rows.
KernelInfo info_of_rows(bool has_residual = false) {
  KernelInfo info;
  info.rows = 6;
  info.cols = 5;
  info.n = info.ldb = info.ldc = 8;
  info.runtime_n = true;
  info.panel_columns = 16;
  info.epilogue.residual = has_residual;
  return info;
}

/// "" if they are taken.
std::string said_of(const KernelInfo& info, const Arguments& arguments,
                    const OperandTypes& types = {}) {
  try {
    static_cast<void>(checked_arguments(info, arguments, types));
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

/// Memory of which operands are parts. Nothing is read or written.
class OperandChecks : public testing::Test {
 protected:
  [[nodiscard]] std::byte* at(std::size_t byte) { return memory_.data() + byte; }
  [[nodiscard]] Operand i8(std::size_t byte, const Strides& strides = {}) {
    return {at(byte), DataType::i8, strides};
  }
  [[nodiscard]] Operand f32(std::size_t byte, const Strides& strides = {}) {
    return {at(byte), DataType::f32, strides};
  }

 private:
  std::vector<std::byte> memory_ = std::vector<std::byte>(20'000);
};

TEST_F(OperandChecks, RefuseOtherTypesThanTheKernels) {
  const KernelInfo info = info_of_rows(true);
  const Arguments right{.b = f32(0), .c = f32(8000), .residual = f32(16'000)};
  const auto with = [&](auto Arguments::*operand, DataType type) {
    Arguments arguments = right;
    (arguments.*operand).type = type;
    return said_of(info, arguments);
  };

  EXPECT_EQ(said_of(info, right), "");
  EXPECT_EQ(with(&Arguments::b, DataType::bf16), "b is bf16; this kernel takes f32");
  EXPECT_EQ(with(&Arguments::c, DataType::i8), "c is i8; this kernel takes f32");
  EXPECT_EQ(with(&Arguments::residual, DataType::f16), "residual is f16; this kernel takes f32");
  EXPECT_EQ(said_of(info, right, k_i8_to_f32), "b is f32; this kernel takes i8");
  EXPECT_EQ(with(&Arguments::b, static_cast<DataType>(9)), "the data type is 9; expected 0 to 6");
}

TEST_F(OperandChecks, RefuseAnotherTypeOfThePlainestRun) {
  const KernelInfo info = info_of_rows();

  EXPECT_EQ(said_of(info, {.b = f32(0), .c = f32(8000)}), "");
  EXPECT_EQ(said_of(info, {.b = i8(0), .c = f32(8000)}), "b is i8; this kernel takes f32");
  EXPECT_EQ(said_of(info, {.b = f32(0), .c = i8(8000)}), "c is i8; this kernel takes f32");
  EXPECT_EQ(said_of(info, {.b = i8(0), .c = f32(8000)}, k_i8_to_f32), "");
}

TEST_F(OperandChecks, OfSizesAloneAreOfTypesToo) {
  const KernelInfo info = info_of_rows();

  EXPECT_THROW(static_cast<void>(checked_sizes(info, {.b = i8(0)})), InvalidArgument);
  EXPECT_NO_THROW(static_cast<void>(checked_sizes(info, {.b = f32(0)})));
  EXPECT_NO_THROW(static_cast<void>(checked_sizes(info, {.b = {nullptr, DataType::i8}})))
      << "there is none";
}

TEST_F(OperandChecks, RefuseAResidualInAnotherLayoutThanC) {
  const KernelInfo info = info_of_rows(true);
  Arguments arguments{.b = f32(0), .c = f32(8000), .residual = f32(16'000)};

  EXPECT_EQ(checked_arguments(info, arguments).residual.layout, Layout::row_major);
  arguments.residual.layout = Layout::row_major;
  EXPECT_EQ(said_of(info, arguments), "");
  arguments.residual.layout = Layout::tokens_major;
  EXPECT_EQ(said_of(info, arguments), "the residual's layout is tokens; expected C's, features");
  arguments.c.layout = Layout::tokens_major;
  EXPECT_EQ(checked_arguments(info, arguments).residual.layout, Layout::tokens_major);
}

TEST_F(OperandChecks, FillInEachStrideThatWasLeftOut) {
  KernelInfo info = info_of_rows(true);
  info.ldb = 9;
  info.ldc = 12;
  const Arguments left_out{.b = f32(0), .c = f32(8000), .residual = f32(16'000), .batch = 1};

  const Arguments checked = checked_arguments(info, left_out);

  EXPECT_EQ(checked.b.ld, 9);
  EXPECT_EQ(checked.c.ld, 12);
  EXPECT_EQ(checked.residual.ld, 12) << "that of C";
  EXPECT_EQ(checked.b.layout, Layout::row_major);
  EXPECT_EQ(checked.c.layout, Layout::row_major);
  EXPECT_EQ(checked.b.distance, 0);
  EXPECT_EQ(checked.b.data, at(0));
}

// B [5 x 8] lies behind C [6 x 8] in what follows.
TEST_F(OperandChecks, TakeRowsWhoseBytesCanBeCounted) {
  const auto said = [&](std::int64_t ldb, const OperandTypes& types) {
    return said_of(info_of_rows(), {.b = {at(8000), types.b, {.ld = ldb}}, .c = f32(0)}, types);
  };
  const auto refusal = [](std::int64_t ldb, std::int64_t most) {
    return "ldb is " + std::to_string(ldb) + "; expected at most " + std::to_string(most) +
           ", of 5 rows or tokens";
  };
  constexpr std::int64_t k_most_bytes = k_largest / 5;
  constexpr std::int64_t k_most_floats = k_largest / 4 / 5;

  EXPECT_EQ(said(k_most_bytes, k_i8_to_f32), "");
  EXPECT_EQ(said(k_most_bytes + 1, k_i8_to_f32), refusal(k_most_bytes + 1, k_most_bytes));
  EXPECT_EQ(said(k_most_floats, {}), "");
  EXPECT_EQ(said(k_most_floats + 1, {}), refusal(k_most_floats + 1, k_most_floats));
}

// Panels of B have 5 rows of 16 columns, and as many elements as another row to spare.
TEST_F(OperandChecks, TakePanelsWhoseBytesCanBeCounted) {
  const auto said = [&](std::int64_t n, const OperandTypes& types) {
    return said_of(info_of_rows(),
                   {.b = {at(8000), types.b, {.layout = Layout::panel_major}},
                    .c = {at(0), types.c, {.ld = n, .layout = Layout::row_major}},
                    .n = n},
                   types);
  };
  const auto refusal = [](std::int64_t n, std::int64_t most) {
    return "b has " + std::to_string(n) + " columns in panels of 96 elements; expected at most " +
           std::to_string(most) + " elements";
  };
  constexpr std::int64_t k_most_bytes = k_largest / 96 * 16;
  constexpr std::int64_t k_most_floats = k_largest / 4 / 96 * 16;

  EXPECT_EQ(said(k_most_bytes + 1, k_all_i8), refusal(k_most_bytes + 1, k_largest));
  EXPECT_THAT(said(k_most_bytes, k_all_i8), Not(HasSubstr("panels")));
  EXPECT_EQ(said(k_most_floats + 1, {}), refusal(k_most_floats + 1, k_largest / 4));
  EXPECT_THAT(said(k_most_floats, {}), Not(HasSubstr("panels")));
  EXPECT_THAT(said(k_most_floats + 1, k_all_i8), Not(HasSubstr("panels")));
}

TEST_F(OperandChecks, CountDistancesInElements) {
  const auto said = [&](std::int64_t of_b, std::int64_t of_c, const OperandTypes& types) {
    return said_of(info_of_rows(),
                   {.b = {at(8000), types.b, {.distance = of_b}},
                    .c = {at(0), types.c, {.distance = of_c}},
                    .batch = 3},
                   types);
  };
  const auto refusal = [](std::int64_t distance, std::int64_t most) {
    return "b_distance is " + std::to_string(distance) + "; expected -" + std::to_string(most) +
           " to " + std::to_string(most) + " for a batch of 3";
  };
  constexpr std::int64_t k_apart = 48;
  constexpr std::int64_t k_most_bytes = (k_largest - 40) / 2;
  constexpr std::int64_t k_most_floats = (k_largest / 4 - 40) / 2;

  for (const OperandTypes& types : {OperandTypes{}, k_i8_to_f32, k_all_i8}) {
    EXPECT_EQ(said(0, k_apart, types), "");
    EXPECT_THAT(said(0, k_apart - 1, types), HasSubstr("products of the batch of 3 overlap"));
  }
  EXPECT_EQ(said(k_most_bytes, k_apart, k_i8_to_f32), "");
  EXPECT_EQ(said(k_most_bytes + 1, k_apart, k_i8_to_f32), refusal(k_most_bytes + 1, k_most_bytes));
  EXPECT_EQ(said(k_most_floats, k_apart, {}), "");
  EXPECT_EQ(said(k_most_floats + 1, k_apart, {}), refusal(k_most_floats + 1, k_most_floats));
}

constexpr const char* k_b_overlaps = "b and c overlap; expected arrays that share no memory";

// 40 bytes of B and 192 of C.
TEST_F(OperandChecks, FindOverlapOfElementsOfDifferentWidths) {
  const auto said = [&](std::size_t b, std::size_t c) {
    return said_of(info_of_rows(), {.b = i8(b), .c = f32(c)}, k_i8_to_f32);
  };

  EXPECT_EQ(said(7960, 8000), "");
  EXPECT_EQ(said(7961, 8000), k_b_overlaps);
  EXPECT_EQ(said(8000, 8000), k_b_overlaps);
  EXPECT_EQ(said(8191, 8000), k_b_overlaps);
  EXPECT_EQ(said(8192, 8000), "");
}

TEST_F(OperandChecks, TakeAResidualInPlaceOfOneTypeOnly) {
  const KernelInfo info = info_of_rows(true);
  Arguments arguments{.b = f32(0), .c = f32(8000), .residual = f32(8000)};

  EXPECT_EQ(said_of(info, arguments), "");
  arguments.residual = i8(8000);
  EXPECT_EQ(said_of(info, arguments, {DataType::f32, DataType::f32, DataType::i8}),
            "residual and c overlap; expected arrays that share no memory");
}

// Rows of C are 32 bytes and begin every 64; those of B are 8 bytes.
TEST_F(OperandChecks, SeeNoOverlapOfNarrowRowsBetweenWideOnes) {
  const auto said = [&](std::size_t b, std::int64_t ldb) {
    return said_of(info_of_rows(), {.b = i8(b, {.ld = ldb}), .c = f32(8000, {.ld = 16})},
                   k_i8_to_f32);
  };

  EXPECT_EQ(said(8032, 64), "");
  EXPECT_EQ(said(8056, 64), "");
  EXPECT_EQ(said(8031, 64), k_b_overlaps);
  EXPECT_EQ(said(8057, 64), k_b_overlaps);
  EXPECT_EQ(said(8032, 128), "");
  EXPECT_EQ(said(8032, 16), k_b_overlaps) << "16 floats are not 16 bytes";
}

// Products of B are 1000 bytes apart, those of C 256.
TEST_F(OperandChecks, FindOverlapOfABatchOfDifferentWidths) {
  const auto said = [&](std::size_t b) {
    return said_of(info_of_rows(),
                   {.b = i8(b, {.distance = 1000}), .c = f32(8000, {.distance = 64}), .batch = 3},
                   k_i8_to_f32);
  };

  // C ends at 8000 + 2 * 256 + 192, the last B begins 2000 bytes behind the first.
  EXPECT_EQ(said(8704), "");
  EXPECT_EQ(said(8703), k_b_overlaps);
  EXPECT_EQ(said(5960), "");
  EXPECT_EQ(said(5961), k_b_overlaps);
}

}  // namespace
}  // namespace spjit
