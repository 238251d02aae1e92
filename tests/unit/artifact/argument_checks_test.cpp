#include "artifact/argument_checks.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "spjit/error.hpp"
#include "tests/support/padded_3x3.hpp"

namespace {

using spjit::Arguments;
using spjit::KernelInfo;
using spjit::Layout;

constexpr Layout k_rows = Layout::row_major;
constexpr Layout k_panels = Layout::panel_major;
constexpr Layout k_tokens = Layout::tokens_major;
constexpr std::int64_t k_largest_n = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t k_most_of_floats = k_largest_n / 4;

constexpr const char* k_b_overlaps = "b and c overlap; expected arrays that share no memory";

/// A [6 x 5], n at run time with 8 the typical one.
KernelInfo info_of(Layout b, Layout c) {
  KernelInfo info;
  info.rows = 6;
  info.cols = 5;
  info.n = 8;
  info.runtime_n = true;
  info.b_layout = b;
  info.c_layout = c;
  info.ldb = b == k_tokens ? 5 : 8;
  info.ldc = c == k_tokens ? 6 : 8;
  info.panel_columns = 16;
  return info;
}

/// "" if they are taken.
std::string said_of(const KernelInfo& info, const Arguments& arguments) {
  try {
    static_cast<void>(spjit::checked_arguments(info, arguments));
  } catch (const spjit::InvalidArgument& error) {
    return error.what();
  }
  return "";
}

/// Memory of which operands are parts. Nothing is read or written.
class ArgumentChecks : public testing::Test {
 protected:
  [[nodiscard]] float* at(std::int64_t floats) { return memory_.data() + floats; }
  /// B, and C behind it.
  [[nodiscard]] Arguments apart() { return {.b = at(0), .c = at(2000)}; }
  /// B and C that are parts of one array.
  [[nodiscard]] std::string said_of_parts(const KernelInfo& info, std::int64_t b_at,
                                          std::int64_t ldb, std::int64_t c_at, std::int64_t ldc) {
    return said_of(info, {.b = {at(b_at), {.ld = ldb}}, .c = {at(c_at), {.ld = ldc}}});
  }
  [[nodiscard]] std::string said_of_batch(const KernelInfo& info, std::int64_t batch,
                                          std::int64_t ldc, std::int64_t c_distance) {
    return said_of(info, {.b = {at(0), {.distance = 0}},
                          .c = {at(2000), {.ld = ldc, .distance = c_distance}},
                          .batch = batch});
  }

 private:
  std::vector<float> memory_ = std::vector<float>(6000);
};

TEST_F(ArgumentChecks, FillInWhatTheKernelWasCompiledFor) {
  KernelInfo info = info_of(k_tokens, k_rows);
  info.ldb = 7;
  info.ldc = 12;

  const Arguments checked = spjit::checked_arguments(info, apart());

  EXPECT_EQ(checked.n, 8);
  EXPECT_EQ(checked.b.layout, k_tokens);
  EXPECT_EQ(checked.c.layout, k_rows);
  EXPECT_EQ(checked.b.ld, 7);
  EXPECT_EQ(checked.c.ld, 12);
}

TEST_F(ArgumentChecks, OfAPlainRunAreFilledInAndCheckedAsAllAre) {
  KernelInfo info = info_of(k_rows, k_rows);
  info.ldb = 9;
  info.ldc = 12;
  constexpr std::int64_t k_b_floats = 4 * 9 + 8;
  constexpr std::int64_t k_c_floats = 5 * 12 + 8;

  const Arguments checked = spjit::checked_arguments(info, apart());

  EXPECT_EQ(checked.n, 8);
  EXPECT_EQ(checked.b.ld, 9);
  EXPECT_EQ(checked.c.ld, 12);
  EXPECT_EQ(checked.b.layout, k_rows);
  EXPECT_EQ(checked.c.layout, k_rows);
  EXPECT_EQ(said_of(info, {.b = at(0), .c = at(k_b_floats)}), "");
  EXPECT_EQ(said_of(info, {.b = at(0), .c = at(k_b_floats - 1)}), k_b_overlaps);
  EXPECT_EQ(said_of(info, {.b = at(k_c_floats), .c = at(0)}), "");
  EXPECT_EQ(said_of(info, {.b = at(k_c_floats - 1), .c = at(0)}), k_b_overlaps);
  EXPECT_EQ(said_of(info, {.b = at(0), .c = at(0)}), k_b_overlaps);
  EXPECT_NE(said_of(info, {.b = nullptr, .c = at(0)}), "");
  EXPECT_NE(said_of(info, {.b = at(0), .c = nullptr}), "");
}

TEST_F(ArgumentChecks, OfAPlainRunMayLieBetweenRowsOfOneAnother) {
  KernelInfo info = info_of(k_rows, k_rows);
  info.ldb = 16;
  info.ldc = 16;

  EXPECT_EQ(said_of(info, {.b = at(0), .c = at(8)}), "");
  EXPECT_EQ(said_of(info, {.b = at(0), .c = at(7)}), k_b_overlaps);
}

TEST_F(ArgumentChecks, OfAnotherNOrLayoutOperandsAreContiguous) {
  KernelInfo info = info_of(k_tokens, k_rows);
  info.ldb = 7;
  info.ldc = 12;
  info.epilogue.residual = true;
  Arguments arguments = apart();
  arguments.residual = at(4000);
  arguments.n = 20;

  const Arguments another_n = spjit::checked_arguments(info, arguments);
  arguments.b.layout = k_rows;
  arguments.c.layout = k_tokens;
  const Arguments another_layout = spjit::checked_arguments(info, arguments);

  EXPECT_EQ(another_n.b.ld, 7);  // between tokens, of which n is only the number
  EXPECT_EQ(another_n.c.ld, 20);
  EXPECT_EQ(another_n.residual.ld, 20);
  EXPECT_EQ(another_layout.b.ld, 20);
  EXPECT_EQ(another_layout.c.ld, 6);
  EXPECT_EQ(another_layout.residual.ld, 6);
}

TEST_F(ArgumentChecks, TheResidualLiesAsCUnlessItIsSaid) {
  KernelInfo info = info_of(k_rows, k_rows);
  info.epilogue.residual = true;
  Arguments arguments = apart();
  arguments.residual = at(4000);
  arguments.c.ld = 11;

  EXPECT_EQ(spjit::checked_arguments(info, arguments).residual.ld, 11);
  arguments.residual.ld = 9;
  EXPECT_EQ(spjit::checked_arguments(info, arguments).residual.ld, 9);
}

TEST_F(ArgumentChecks, RefuseAnNThatTheKernelDoesNotHave) {
  KernelInfo info = info_of(k_rows, k_rows);
  Arguments arguments = apart();
  for (const std::int64_t n : {0, 1, 9}) {
    arguments.n = n;
    EXPECT_EQ(said_of(info, arguments), "") << n;
  }
  arguments.n = -1;
  EXPECT_EQ(said_of(info, arguments),
            "n is -1; this kernel was compiled for n = 8 (compile with a run-time n for others)");
  info.runtime_n = false;
  arguments.n = 9;
  EXPECT_EQ(said_of(info, arguments),
            "n is 9; this kernel was compiled for n = 8 (compile with a run-time n for others)");
  arguments.n = 8;
  EXPECT_EQ(said_of(info, arguments), "");
}

TEST_F(ArgumentChecks, RefuseALayoutThatThereIsNot) {
  Arguments b = apart();
  Arguments c = apart();
  b.b.layout = static_cast<Layout>(3);
  c.c.layout = static_cast<Layout>(255);
  const std::string expected = "; expected 0 (row-major), 1 (panel-major) or 2 (tokens-major)";

  EXPECT_EQ(said_of(info_of(k_rows, k_rows), b), "b_layout is 3" + expected);
  EXPECT_EQ(said_of(info_of(k_rows, k_rows), c), "c_layout is 255" + expected);
}

TEST_F(ArgumentChecks, RefusePanelsOfAKernelWithoutThem) {
  KernelInfo info = info_of(k_rows, k_rows);
  info.panel_columns = 0;
  Arguments arguments = apart();
  arguments.c.layout = k_panels;

  EXPECT_EQ(said_of(info, arguments), "a kernel for " + info.target.name() + " takes no panels");
}

TEST_F(ArgumentChecks, RefuseNullOperandsUnlessTheyAreEmpty) {
  for (const Layout layout : {k_rows, k_panels, k_tokens}) {
    const KernelInfo info = info_of(layout, layout);
    KernelInfo empty = info;
    empty.rows = empty.cols = 0;

    EXPECT_EQ(said_of(info, {.b = nullptr, .c = at(0)}),
              "b is null; expected an array of [5 x 8] elements");
    EXPECT_EQ(said_of(info, {.b = at(0), .c = nullptr}),
              "c is null; expected an array of [6 x 8] elements");
    EXPECT_EQ(said_of(info, {.n = 0}), "");
    EXPECT_EQ(said_of(info, {.batch = 0}), "");
    EXPECT_EQ(said_of(empty, {}), "");
  }
}

TEST_F(ArgumentChecks, RefuseOperandsOfAnEpilogueThatAreMissing) {
  KernelInfo info = info_of(k_rows, k_tokens);
  info.epilogue = {.scale = true, .bias = true, .residual = true};
  Arguments whole = apart();
  whole.scale = at(4000);
  whole.bias = at(4100);
  whole.residual = at(4200);
  const auto without = [&](auto Arguments::*operand) {
    Arguments arguments = whole;
    arguments.*operand = nullptr;
    return said_of(info, arguments);
  };

  EXPECT_EQ(said_of(info, whole), "");
  EXPECT_EQ(without(&Arguments::scale), "scale is null; expected an array of 6 floats");
  EXPECT_EQ(without(&Arguments::bias), "bias is null; expected an array of 6 floats");
  EXPECT_EQ(without(&Arguments::residual),
            "residual is null; expected an array of [6 x 8] elements");
  info.rows = 0;
  EXPECT_EQ(said_of(info, apart()), "");
}

TEST_F(ArgumentChecks, WithoutColumnsThereIsNoResidual) {
  KernelInfo info = info_of(k_rows, k_rows);
  info.epilogue.residual = true;

  EXPECT_EQ(said_of(info, {.b = at(0), .c = at(1), .n = 0}), "");
}

TEST_F(ArgumentChecks, RefuseOperandsThatNoEpilogueAskedFor) {
  const KernelInfo info = info_of(k_rows, k_rows);
  const auto with = [&](auto Arguments::*operand) {
    Arguments arguments = apart();
    arguments.*operand = at(4000);
    return said_of(info, arguments);
  };
  const std::string rest = " is given; this kernel was compiled without (Problem::epilogue)";

  EXPECT_EQ(with(&Arguments::scale), "scale" + rest);
  EXPECT_EQ(with(&Arguments::bias), "bias" + rest);
  EXPECT_EQ(with(&Arguments::residual), "residual" + rest);
}

TEST_F(ArgumentChecks, RefuseLeadingDimensionsBelowARowOrToken) {
  KernelInfo rows = info_of(k_rows, k_rows);
  KernelInfo tokens = info_of(k_tokens, k_tokens);
  rows.epilogue.residual = tokens.epilogue.residual = true;
  const auto with = [&](const KernelInfo& info, std::int64_t ldb, std::int64_t ldc,
                        std::int64_t ldr) {
    Arguments arguments = apart();
    arguments.residual = at(4000);
    arguments.b.ld = ldb;
    arguments.c.ld = ldc;
    arguments.residual.ld = ldr;
    return said_of(info, arguments);
  };
  const std::string rest = ", the elements of a row or token";

  EXPECT_EQ(with(rows, 8, 8, 8), "");
  EXPECT_EQ(with(rows, 7, 8, 8), "ldb is 7; expected at least 8" + rest);
  EXPECT_EQ(with(rows, 8, 7, 8), "ldc is 7; expected at least 8" + rest);
  EXPECT_EQ(with(rows, 8, 8, 7), "ldr is 7; expected at least 8" + rest);
  EXPECT_EQ(with(rows, -8, 8, 8), "ldb is -8; expected at least 8" + rest);
  EXPECT_EQ(with(tokens, 5, 6, 6), "");
  EXPECT_EQ(with(tokens, 5, 5, 6), "ldc is 5; expected at least 6" + rest);
  EXPECT_EQ(with(tokens, 5, -1, 6), "ldc is -1; expected at least 6" + rest);
  // Tokens that are only read may overlap.
  EXPECT_EQ(with(tokens, 1, 6, 1), "");
  EXPECT_EQ(with(tokens, -1, 6, 6), "ldb is -1; expected at least 1" + rest);
  EXPECT_EQ(with(tokens, 5, 6, -1), "ldr is -1; expected at least 1" + rest);
}

TEST_F(ArgumentChecks, RefuseLeadingDimensionsWhoseOffsetsWrapAround) {
  const auto said = [&](Layout layout, std::int64_t n, std::int64_t ldb, std::int64_t ldc) {
    Arguments arguments = apart();
    arguments.n = n;
    arguments.b.ld = ldb;
    arguments.c.ld = ldc;
    return said_of(info_of(layout, layout), arguments);
  };
  const auto refusal = [](const std::string& name, std::int64_t ld, std::int64_t most,
                          std::int64_t count) {
    return name + " is " + std::to_string(ld) + "; expected at most " + std::to_string(most) +
           ", of " + std::to_string(count) + " rows or tokens";
  };

  EXPECT_EQ(said(k_rows, 8, k_most_of_floats / 5 + 1, 8),
            refusal("ldb", k_most_of_floats / 5 + 1, k_most_of_floats / 5, 5));
  EXPECT_EQ(said(k_rows, 8, 8, k_largest_n), refusal("ldc", k_largest_n, k_most_of_floats / 6, 6));
  EXPECT_EQ(said(k_tokens, 8, k_largest_n, 6),
            refusal("ldb", k_largest_n, (k_most_of_floats - 5) / 8, 8));
  EXPECT_EQ(said(k_tokens, 8, 5, k_most_of_floats / 8 + 1),
            refusal("ldc", k_most_of_floats / 8 + 1, k_most_of_floats / 8, 8));
  // So many tokens that their own floats are too many.
  EXPECT_EQ(said(k_tokens, k_most_of_floats, 1, 6), refusal("ldb", 1, 0, k_most_of_floats));
  EXPECT_EQ(said(k_tokens, k_largest_n, 1, 6), refusal("ldb", 1, 0, k_largest_n));
  EXPECT_EQ(said(k_rows, k_largest_n, 0, 0), refusal("ldb", k_largest_n, k_most_of_floats / 5, 5));
}

TEST_F(ArgumentChecks, RefusePanelsWhoseOffsetsWrapAround) {
  Arguments arguments = apart();
  arguments.n = k_largest_n;

  EXPECT_EQ(said_of(info_of(k_panels, k_panels), arguments),
            "b has 9223372036854775807 columns in panels of 96 elements; expected at most "
            "2305843009213693951 elements");
}

// B [5 x 8], C [6 x 8] or their transposes: 40 and 48 floats.
TEST_F(ArgumentChecks, RefuseOverlapInEveryLayout) {
  for (const Layout b : {k_rows, k_tokens}) {
    for (const Layout c : {k_rows, k_tokens}) {
      const KernelInfo info = info_of(b, c);
      const std::string name =
          std::to_string(static_cast<int>(b)) + std::to_string(static_cast<int>(c));
      EXPECT_EQ(said_of_parts(info, 0, 0, 40, 0), "") << name;
      EXPECT_EQ(said_of_parts(info, 48, 0, 0, 0), "") << name;
      EXPECT_EQ(said_of_parts(info, 0, 0, 39, 0), k_b_overlaps) << name;
      EXPECT_EQ(said_of_parts(info, 47, 0, 0, 0), k_b_overlaps) << name;
      EXPECT_EQ(said_of_parts(info, 0, 0, 0, 0), k_b_overlaps) << name;
    }
  }
  // Five rows of a panel of 16; six.
  const KernelInfo panels = info_of(k_panels, k_panels);
  EXPECT_EQ(said_of_parts(panels, 0, 0, 80, 0), "");
  EXPECT_EQ(said_of_parts(panels, 96, 0, 0, 0), "");
  EXPECT_EQ(said_of_parts(panels, 0, 0, 79, 0), k_b_overlaps);
  EXPECT_EQ(said_of_parts(panels, 95, 0, 0, 0), k_b_overlaps);
}

TEST_F(ArgumentChecks, PartsOfTheRowsOfOneArrayDoNotOverlap) {
  const KernelInfo rows = info_of(k_rows, k_rows);
  const KernelInfo tokens = info_of(k_tokens, k_tokens);
  const KernelInfo mixed = info_of(k_rows, k_tokens);

  // Rows of 8 of B and of 8 of C.
  EXPECT_EQ(said_of_parts(rows, 0, 16, 8, 16), "");
  EXPECT_EQ(said_of_parts(rows, 8, 16, 0, 16), "");
  EXPECT_EQ(said_of_parts(rows, 0, 16, 40, 16), "");  // from row 2 on
  EXPECT_EQ(said_of_parts(rows, 0, 15, 8, 15), k_b_overlaps);
  EXPECT_EQ(said_of_parts(rows, 0, 16, 7, 16), k_b_overlaps);
  EXPECT_EQ(said_of_parts(rows, 0, 16, 9, 16), k_b_overlaps);
  EXPECT_EQ(said_of_parts(rows, 0, 16, 8, 17), k_b_overlaps);
  // Tokens of 5 of B and of 6 of C.
  EXPECT_EQ(said_of_parts(tokens, 0, 11, 5, 11), "");
  EXPECT_EQ(said_of_parts(tokens, 6, 11, 0, 11), "");
  EXPECT_EQ(said_of_parts(tokens, 0, 10, 5, 10), k_b_overlaps);
  EXPECT_EQ(said_of_parts(tokens, 0, 11, 4, 11), k_b_overlaps);
  EXPECT_EQ(said_of_parts(tokens, 5, 11, 0, 11), k_b_overlaps);
  // Tokens of B that overlap one another leave nothing between them.
  EXPECT_EQ(said_of_parts(tokens, 0, 6, 5, 6), k_b_overlaps);
  // Rows of 8 of B, tokens of 6 of C.
  EXPECT_EQ(said_of_parts(mixed, 0, 14, 8, 14), "");
  EXPECT_EQ(said_of_parts(mixed, 0, 14, 7, 14), k_b_overlaps);
  EXPECT_EQ(said_of_parts(mixed, 0, 14, 9, 14), k_b_overlaps);
}

TEST_F(ArgumentChecks, RefuseVectorsAndAResidualThatOverlapC) {
  KernelInfo info = info_of(k_rows, k_rows);
  info.epilogue = {.scale = true, .bias = true, .residual = true};
  Arguments whole = apart();
  whole.scale = at(1994);
  whole.bias = at(2048);
  whole.residual = at(4000);
  const auto with = [&](auto Arguments::*operand, std::int64_t floats) {
    Arguments arguments = whole;
    arguments.*operand = at(floats);
    return said_of(info, arguments);
  };
  const std::string rest = " and c overlap; expected arrays that share no memory";

  EXPECT_EQ(said_of(info, whole), "");
  EXPECT_EQ(with(&Arguments::scale, 1995), "scale" + rest);
  EXPECT_EQ(with(&Arguments::bias, 2047), "bias" + rest);
  EXPECT_EQ(with(&Arguments::residual, 2001), "residual" + rest);
  EXPECT_EQ(with(&Arguments::residual, 1953), "residual" + rest);
  EXPECT_EQ(with(&Arguments::residual, 1952), "");
  EXPECT_EQ(with(&Arguments::bias, 0), "");  // nothing is written to B
}

TEST_F(ArgumentChecks, TheResidualMayBeCInPlace) {
  for (const Layout layout : {k_rows, k_panels, k_tokens}) {
    KernelInfo info = info_of(layout, layout);
    info.epilogue.residual = true;
    Arguments arguments = apart();
    arguments.residual = arguments.c;
    arguments.batch = 3;
    arguments.c.distance = arguments.residual.distance = 200;
    const std::string refusal = "residual and c overlap; expected arrays that share no memory";

    EXPECT_EQ(said_of(info, arguments), "");
    arguments.residual.distance = 100;
    EXPECT_EQ(said_of(info, arguments), refusal);
    arguments.batch = 1;
    EXPECT_EQ(said_of(info, arguments), "");
    arguments.residual.ld = 20;  // not of panels
    EXPECT_EQ(said_of(info, arguments), layout == k_panels ? "" : refusal);
  }
}

TEST_F(ArgumentChecks, RefuseABatchBelowNone) {
  Arguments arguments = apart();
  arguments.batch = -1;

  EXPECT_EQ(said_of(info_of(k_rows, k_rows), arguments),
            "batch is -1; expected a number of products");
}

TEST_F(ArgumentChecks, RefuseDistancesWhoseOffsetsWrapAround) {
  KernelInfo info = info_of(k_rows, k_rows);
  info.epilogue.residual = true;
  Arguments whole = apart();
  whole.residual = at(4000);
  whole.batch = 3;
  whole.b.distance = whole.c.distance = whole.residual.distance = 48;
  const auto with = [&](auto Arguments::*operand, std::int64_t value) {
    Arguments arguments = whole;
    (arguments.*operand).distance = value;
    return said_of(info, arguments);
  };
  const auto refusal = [](const std::string& name, std::int64_t value, std::int64_t most) {
    return name + " is " + std::to_string(value) + "; expected -" + std::to_string(most) + " to " +
           std::to_string(most) + " for a batch of 3";
  };
  constexpr std::int64_t k_most_of_b = (k_most_of_floats - 40) / 2;
  constexpr std::int64_t k_most_of_c = (k_most_of_floats - 48) / 2;

  EXPECT_EQ(said_of(info, whole), "");
  for (const std::int64_t sign : {-1, 1}) {
    EXPECT_EQ(with(&Arguments::b, sign * (k_most_of_b + 1)),
              refusal("b_distance", sign * (k_most_of_b + 1), k_most_of_b));
    EXPECT_EQ(with(&Arguments::c, sign * (k_most_of_c + 1)),
              refusal("c_distance", sign * (k_most_of_c + 1), k_most_of_c));
    EXPECT_EQ(with(&Arguments::residual, sign * k_largest_n),
              refusal("residual_distance", sign * k_largest_n, k_most_of_c));
  }
  EXPECT_NE(with(&Arguments::c, std::numeric_limits<std::int64_t>::min()), "");
  whole.batch = 1;
  EXPECT_EQ(with(&Arguments::c, k_largest_n), "");  // there is no other
}

TEST_F(ArgumentChecks, RefuseProductsOfABatchThatOverlap) {
  const KernelInfo rows = info_of(k_rows, k_rows);
  const KernelInfo tokens = info_of(k_rows, k_tokens);
  const KernelInfo panels = info_of(k_rows, k_panels);
  const auto refusal = [](std::int64_t distance, std::int64_t batch, std::int64_t extent) {
    return "c_distance is " + std::to_string(distance) + ", at which products of the batch of " +
           std::to_string(batch) + " overlap; expected " + std::to_string(extent) +
           " or more, or rows of one between those of another";
  };

  EXPECT_EQ(said_of_batch(rows, 3, 8, 48), "");
  EXPECT_EQ(said_of_batch(rows, 3, 8, -48), "");
  EXPECT_EQ(said_of_batch(rows, 3, 8, 47), refusal(47, 3, 48));
  EXPECT_EQ(said_of_batch(rows, 3, 8, -47), refusal(-47, 3, 48));
  EXPECT_EQ(said_of_batch(rows, 3, 8, 0), refusal(0, 3, 48));
  EXPECT_EQ(said_of_batch(rows, 1, 8, 0), "");
  EXPECT_EQ(said_of_batch(tokens, 2, 6, 48), "");
  EXPECT_EQ(said_of_batch(tokens, 2, 6, 47), refusal(47, 2, 48));
  EXPECT_EQ(said_of_batch(panels, 2, 0, 96), "");
  EXPECT_EQ(said_of_batch(panels, 2, 0, 95), refusal(95, 2, 96));
  EXPECT_EQ(said_of_batch(panels, 9, 0, 16), refusal(16, 9, 96));
  // Nothing is written.
  for (KernelInfo none : {rows, tokens, panels}) {
    none.rows = 0;
    none.n = none.ldb = none.ldc = 40;  // three panels
    EXPECT_EQ(said_of_batch(none, 3, 0, 0), "");
  }
}

TEST_F(ArgumentChecks, ProductsOfABatchMayLieBetweenOneAnother) {
  const KernelInfo rows = info_of(k_rows, k_rows);
  const KernelInfo tokens = info_of(k_rows, k_tokens);
  const auto taken = [&](const KernelInfo& info, std::int64_t batch, std::int64_t ldc,
                         std::int64_t distance) {
    return said_of_batch(info, batch, ldc, distance).empty();
  };

  // Rows of 8, of three products in turn: [6 x 3 x 8].
  for (const std::int64_t sign : {-1, 1}) {
    EXPECT_TRUE(taken(rows, 3, 24, sign * 8));
    EXPECT_FALSE(taken(rows, 4, 24, sign * 8));  // the fourth is the first's next row
    EXPECT_FALSE(taken(rows, 3, 23, sign * 8));
    EXPECT_FALSE(taken(rows, 3, 24, sign * 7));
    // The second product from row 1 on, between the rows of the first.
    EXPECT_TRUE(taken(rows, 2, 24, sign * (24 + 8)));
    EXPECT_TRUE(taken(rows, 2, 24, sign * (24 + 16)));
    EXPECT_FALSE(taken(rows, 2, 24, sign * (24 + 17)));
    EXPECT_FALSE(taken(rows, 2, 24, sign * 24));
    // The fourth would be the first's row 4.
    EXPECT_TRUE(taken(rows, 3, 24, sign * (24 + 8)));
    EXPECT_FALSE(taken(rows, 4, 24, sign * (24 + 8)));
    // The last row of the first, which the second begins behind: [5 x 24 + 8] floats.
    EXPECT_TRUE(taken(rows, 2, 24, sign * (5 * 24 + 8)));
    EXPECT_FALSE(taken(rows, 2, 24, sign * (5 * 24 + 7)));
    EXPECT_TRUE(taken(rows, 2, 24, sign * (5 * 24 + 20)));
    // Tokens of 6.
    EXPECT_TRUE(taken(tokens, 4, 24, sign * 6));
    EXPECT_FALSE(taken(tokens, 5, 24, sign * 6));
  }
}

/// What touches the same floats, one after another.
bool share_floats(std::int64_t rows, std::int64_t ld, std::int64_t width, std::int64_t batch,
                  std::int64_t distance) {
  std::vector<char> seen(2000);
  for (std::int64_t item = 0; item < batch; ++item) {
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t j = 0; j < width; ++j) {
        char& one = seen[static_cast<std::size_t>(1000 + item * distance + row * ld + j)];
        if (one != 0) return true;
        one = 1;
      }
    }
  }
  return false;
}

TEST_F(ArgumentChecks, ProductsOverlapExactlyWhereTheyShareFloats) {
  KernelInfo info = info_of(k_rows, k_tokens);
  info.rows = 3;
  for (const std::int64_t n : {1, 2, 5}) {
    for (const std::int64_t ld : {3, 4, 7, 12}) {
      for (std::int64_t distance = -40; distance <= 40; ++distance) {
        for (const std::int64_t batch : {2, 3, 6}) {
          const Arguments arguments{.b = at(0),
                                    .c = {at(2000), {.ld = ld, .distance = distance}},
                                    .n = n,
                                    .batch = batch};
          EXPECT_EQ(said_of(info, arguments).empty(), !share_floats(n, ld, 3, batch, distance))
              << n << " tokens " << ld << " apart, " << batch << " products " << distance;
        }
      }
    }
  }
}

TEST_F(ArgumentChecks, AnswerSoonForBatchesOfAnySize) {
  KernelInfo info = info_of(k_rows, k_rows);
  constexpr std::int64_t k_batch = std::int64_t{1} << 40;

  EXPECT_NE(said_of_batch(info, k_batch, 8, 1), "");
  EXPECT_EQ(said_of_batch(info, k_batch, 8, 48), "");
  EXPECT_EQ(said_of_batch(info, k_batch, k_batch * 8, 8), "");
}

TEST_F(ArgumentChecks, BAndCOfABatchMayBePartsOfTheRowsOfOneArray) {
  const KernelInfo tokens = info_of(k_tokens, k_tokens);
  const auto said = [&](std::int64_t c_at, std::int64_t ld, std::int64_t b_distance,
                        std::int64_t c_distance) {
    return said_of(tokens, {.b = {at(1000), {.ld = ld, .distance = b_distance}},
                            .c = {at(1000 + c_at), {.ld = ld, .distance = c_distance}},
                            .batch = 3});
  };

  // [3 x 8 x (5 + 6)], and backwards.
  EXPECT_EQ(said(5, 11, 88, 88), "");
  EXPECT_EQ(said(5, 11, -88, -88), "");
  EXPECT_EQ(said(5, 11, 0, 88), "");  // one B for all
  EXPECT_EQ(said(4, 11, 88, 88), k_b_overlaps);
  EXPECT_EQ(said(5, 11, 87, 88), k_b_overlaps);
  // [8 x (3 x 5 + 3 x 6)]
  EXPECT_EQ(said(15, 33, 5, 6), "");
  EXPECT_EQ(said(14, 33, 5, 6), k_b_overlaps);
  EXPECT_EQ(said(15, 32, 5, 6), k_b_overlaps);
  EXPECT_EQ(said(15, 33, 6, 6), k_b_overlaps);
  // [8 x 3 x (5 + 6)]
  EXPECT_EQ(said(5, 33, 11, 11), "");
  EXPECT_EQ(said(-6, 33, 11, 11), "");
  EXPECT_EQ(said(6, 33, 11, 11), k_b_overlaps);
}

TEST_F(ArgumentChecks, RefuseABatchThatGoesBackwardsOverB) {
  const KernelInfo info = info_of(k_rows, k_rows);
  const auto said = [&](std::int64_t b_at) {
    return said_of(info, {.b = at(b_at), .c = {at(2000), {.distance = -80}}, .batch = 2});
  };

  EXPECT_EQ(said(1880), "");
  EXPECT_EQ(said(1881), k_b_overlaps);
  EXPECT_EQ(said(1967), k_b_overlaps);
}

TEST_F(ArgumentChecks, ABOfNoRowsOverlapsNothing) {
  KernelInfo info = info_of(k_rows, k_rows);
  info.cols = 0;

  EXPECT_EQ(
      said_of(info,
              {.b = {at(2000), {.distance = 7}}, .c = {at(2000), {.distance = 48}}, .batch = 3}),
      "");
}

/// Images of 5 channels of 4 x 6 pixels, to 6 filters of 4 x 6; height and width at run time.
KernelInfo info_of_images(Layout x, Layout y) {
  KernelInfo info = info_of(x, y);
  info.cols = 5 * 9;
  info.n = 24;
  info.panel_columns = 0;
  info.convolution = spjit::testing_support::padded_3x3(5, 4, 6);
  info.ldb = x == k_tokens ? 5 : 24;
  info.ldc = y == k_tokens ? 6 : 24;
  return info;
}

class ImageArguments : public ArgumentChecks {
 protected:
  [[nodiscard]] Arguments sized(std::int64_t height, std::int64_t width) {
    Arguments arguments = apart();
    arguments.height = height;
    arguments.width = width;
    return arguments;
  }
};

TEST_F(ImageArguments, FillInSizesAndWhatNIsOfThem) {
  const KernelInfo info = info_of_images(k_rows, k_tokens);

  const Arguments compiled = spjit::checked_arguments(info, apart());
  const Arguments other = spjit::checked_arguments(info, sized(7, 3));
  const Arguments half = spjit::checked_arguments(info, sized(0, 8));

  EXPECT_EQ(compiled.height, 4);
  EXPECT_EQ(compiled.width, 6);
  EXPECT_EQ(compiled.n, 24);
  EXPECT_EQ(compiled.b.ld, 24);
  EXPECT_EQ(compiled.c.ld, 6);
  EXPECT_EQ(other.n, 21);
  EXPECT_EQ(other.b.ld, 21);
  EXPECT_EQ(other.c.ld, 6);
  EXPECT_EQ(half.height, 4);
  EXPECT_EQ(half.n, 32);
}

TEST_F(ImageArguments, PixelsSayWhetherTheLeadingDimensionIsThatOfTheCompilation) {
  KernelInfo info = info_of_images(k_rows, k_rows);
  // With stride 2 both have 2 x 3 pixels of output.
  info.convolution->stride_height = info.convolution->stride_width = 2;
  info.n = info.ldc = 6;
  info.ldb = 30;

  EXPECT_EQ(spjit::checked_arguments(info, sized(4, 6)).b.ld, 30);
  EXPECT_EQ(spjit::checked_arguments(info, sized(3, 5)).b.ld, 15);
  EXPECT_EQ(spjit::checked_arguments(info, sized(3, 5)).n, 6);
  EXPECT_EQ(spjit::checked_arguments(info, sized(3, 8)).b.ld, 30);  // 24 pixels, as compiled
  info.ldb = 24;
  EXPECT_EQ(spjit::checked_arguments(info, sized(3, 5)).b.ld, 15);
  info.convolution->height = 3;
  info.convolution->width = 5;
  info.ldb = 15;
  EXPECT_EQ(spjit::checked_arguments(info, sized(4, 6)).b.ld, 24);
}

TEST_F(ImageArguments, RefuseSizesThatTheKernelDoesNotHave) {
  KernelInfo info = info_of_images(k_rows, k_rows);
  EXPECT_EQ(said_of(info, sized(-1, 6)),
            "height of the convolution is -1; expected 1 to 2147483647");
  EXPECT_EQ(said_of(info, sized(4, std::int64_t{1} << 31)),
            "width of the convolution is 2147483648; expected 1 to 2147483647");
  EXPECT_EQ(said_of(info, sized(1 << 16, 1 << 16)),
            "the output of the convolution is 65536 x 65536 x 1; expected at most 2147483647 in "
            "all");
  info.convolution->pad_top = info.convolution->pad_bottom = 0;
  EXPECT_EQ(said_of(info, sized(2, 6)),
            "a kernel of height 3 with dilation 1 does not fit into 2 with padding of 0 in all");

  info = info_of_images(k_rows, k_rows);
  info.runtime_n = false;
  const std::string others = " (compile with a run-time n for others)";
  EXPECT_EQ(said_of(info, sized(4, 6)), "");
  EXPECT_EQ(said_of(info, sized(0, 0)), "");
  EXPECT_EQ(said_of(info, sized(5, 6)), "height is 5; this kernel was compiled for 4" + others);
  EXPECT_EQ(said_of(info, sized(6, 4)), "height is 6; this kernel was compiled for 4" + others);
  EXPECT_EQ(said_of(info, sized(4, 5)), "width is 5; this kernel was compiled for 6" + others);
}

TEST_F(ImageArguments, RefuseAnNThatIsNotThePixels) {
  const KernelInfo info = info_of_images(k_rows, k_rows);
  Arguments arguments = sized(5, 6);
  arguments.n = 30;
  EXPECT_EQ(said_of(info, arguments), "");
  for (const std::int64_t n : {-1, 0, 24, 31}) {
    arguments.n = n;
    EXPECT_EQ(said_of(info, arguments),
              "n is " + std::to_string(n) + "; the output of images of 5 x 6 has 5 x 6 pixels");
  }
}

TEST_F(ImageArguments, AProductHasNone) {
  const std::string refusal =
      "; this kernel is of no convolution, or of one that is a plain product: expected 0, and n";
  EXPECT_EQ(said_of(info_of(k_rows, k_rows), sized(4, 2)),
            "height and width are 4 and 2" + refusal);
  EXPECT_EQ(said_of(info_of(k_rows, k_rows), sized(0, 8)),
            "height and width are 0 and 8" + refusal);
}

TEST_F(ImageArguments, RefusePanels) {
  Arguments x = apart();
  Arguments y = apart();
  x.b.layout = k_panels;
  y.c.layout = k_panels;
  const std::string refusal = " is panels; a convolution takes features or tokens";

  EXPECT_EQ(said_of(info_of_images(k_rows, k_rows), x), "b_layout" + refusal);
  EXPECT_EQ(said_of(info_of_images(k_rows, k_rows), y), "c_layout" + refusal);
}

TEST_F(ImageArguments, RefuseLeadingDimensionsBelowARow) {
  const KernelInfo info = info_of_images(k_rows, k_rows);
  const std::string row = ", the elements of a row or token";
  Arguments arguments = apart();
  arguments.b.ld = 23;
  EXPECT_EQ(said_of(info, arguments), "ldb is 23; expected at least 24" + row);
  arguments.height = 3;
  EXPECT_EQ(said_of(info, arguments), "");
  arguments.b.layout = k_tokens;
  arguments.b.ld = 1;  // pixels of X may overlap
  EXPECT_EQ(said_of(info, arguments), "");
  arguments.c.layout = k_tokens;
  arguments.c.ld = 5;
  EXPECT_EQ(said_of(info, arguments), "ldc is 5; expected at least 6" + row);
}

TEST_F(ImageArguments, XIsNoNullAndSharesNothingWithY) {
  const KernelInfo info = info_of_images(k_rows, k_rows);
  Arguments none = apart();
  none.b = nullptr;

  EXPECT_EQ(said_of(info, none), "b is null; expected an array of [5 x 24] elements");
  // X has 5 x 24 floats, not the 45 x 24 of all patches.
  EXPECT_EQ(said_of_parts(info, 0, 24, 120, 24), "");
  EXPECT_EQ(said_of_parts(info, 0, 24, 119, 24), k_b_overlaps);
  EXPECT_EQ(said_of_parts(info, 144, 24, 0, 24), "");
  EXPECT_EQ(said_of_parts(info, 143, 24, 0, 24), k_b_overlaps);
  EXPECT_EQ(said_of_parts(info, 0, 48, 24, 48), "");  // rows of one between those of the other
}

TEST_F(ImageArguments, ImagesOfABatchMayBeTheSame) {
  Arguments arguments = apart();
  arguments.batch = 3;
  arguments.c.distance = 144;
  EXPECT_EQ(said_of(info_of_images(k_rows, k_rows), arguments), "");
  arguments.c.distance = 143;
  EXPECT_NE(said_of(info_of_images(k_rows, k_rows), arguments), "");
}

}  // namespace
