// The family `reference` on elements of every type, against a scalar evaluation of its own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "kernels/host/reference/reference_family.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/draw.hpp"
#include "tests/support/narrow_elements.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using testing::HasSubstr;

/// Elements of one operand of a batch.
struct TypedPlace {
  Layout layout = Layout::row_major;
  std::int64_t rows = 0;
  std::int64_t n = 0;
  std::int64_t ld = 0;
  std::int64_t width = 1;   ///< of panels
  std::int64_t stride = 0;  ///< between panels
  std::int64_t distance = 0;

  [[nodiscard]] std::size_t at(std::int64_t item, std::int64_t row, std::int64_t column) const {
    const std::int64_t inside = layout == Layout::tokens_major ? column * ld + row
                                : layout == Layout::row_major
                                    ? row * ld + column
                                    : column / width * stride + row * width + column % width;
    return index(item * distance + inside);
  }
  [[nodiscard]] std::int64_t size() const {
    if (layout == Layout::panel_major) return (n + width - 1) / width * stride + 64;
    return (layout == Layout::tokens_major ? n : rows) * ld + 64;
  }
};

/// A layer, its operands and a run of it.
struct TypedRun {
  Problem problem;
  std::int64_t n = 1;
  std::int64_t batch = 1;
  TypedPlace b;
  TypedPlace c;
  std::vector<float> scale;
  std::vector<float> bias;
};

double drawn_element(Draw& draw, DataType type) {
  const DataTypeInfo& info = info_of(type);
  if (!info.is_integer) return static_cast<double>(draw.between(-4096, 4096)) * 0x1p-11;
  const auto low = static_cast<std::int64_t>(std::max(info.lowest, -1000.0));
  return static_cast<double>(
      draw.between(low, static_cast<std::int64_t>(std::min(info.largest, 1000.0))));
}

/// A value of A that the type has.
float drawn_weight(Draw& draw, DataType type) {
  const double value = drawn_element(draw, type);
  if (info_of(type).is_integer || type == DataType::f32) return static_cast<float>(value);
  return static_cast<float>(narrow_value(type, nearest_narrow(type, value)));
}

Numerics drawn_numerics(Draw& draw) {
  using enum DataType;
  Numerics numerics;
  numerics.c = draw.one_of<DataType>({f32, bf16, f16, i32, i8, u8});
  switch (draw.between(0, 2)) {
    case 0:
      numerics.a = draw.one_of<DataType>({f32, bf16, f16, i8, u8, i4});
      numerics.b = draw.one_of<DataType>({f32, bf16, f16});
      break;
    case 1:
      numerics.a = draw.one_of<DataType>({i8, u8, i4});
      numerics.b = draw.one_of<DataType>({i8, u8});
      numerics.accumulate = Accumulate::integer();
      break;
    default:
      numerics.a = draw.one_of<DataType>({f32, bf16, f16, i32, i8, u8, i4});
      numerics.b = draw.one_of<DataType>({f32, bf16, f16, i32, i8, u8});
      numerics.accumulate = Accumulate::bounded(1e-6);
  }
  return numerics;
}

TypedPlace drawn_place(Draw& draw, std::int64_t rows, std::int64_t n, bool has_panels) {
  TypedPlace place{.rows = rows, .n = n};
  place.layout = has_panels ? Layout::panel_major
                            : draw.one_of<Layout>({Layout::row_major, Layout::tokens_major});
  place.ld = (place.layout == Layout::tokens_major ? rows : n) + draw.between(0, 3);
  return place;
}

TypedRun drawn_run(Draw& draw) {
  TypedRun run;
  Problem& problem = run.problem;
  problem.numerics = drawn_numerics(draw);
  const std::int64_t rows = draw.between(1, 12);
  const std::int64_t cols = draw.between(1, 20);
  CsrMatrix matrix =
      random_matrix(rows, cols, 0.6, static_cast<std::uint64_t>(draw.between(1, 999)));
  for (float& value : matrix.values) value = drawn_weight(draw, problem.numerics.a);
  problem.a = std::move(matrix);
  run.n = draw.one_of<std::int64_t>({0, 1, 3, 16, 19});
  problem.n = Extent::at_run_time(std::max<std::int64_t>(run.n, 1));
  run.batch = draw.between(0, 3);
  problem.epilogue = {.scale = draw.chance(30),
                      .bias = draw.chance(30),
                      .residual = draw.chance(30),
                      .activation = draw.one_of<Activation>({Activation::none, Activation::relu})};
  const bool has_panels = draw.chance(25);
  if (has_panels) problem.panel_columns = 16;
  run.b = drawn_place(draw, cols, run.n, has_panels);
  run.c = drawn_place(draw, rows, run.n, has_panels);
  problem.b.layout = run.b.layout;
  problem.c.layout = run.c.layout;
  for (std::int64_t row = 0; row < rows; ++row) {
    run.scale.push_back(draw_value(draw, false));
    run.bias.push_back(4 * draw_value(draw, false));
  }
  return run;
}

Kernel reference_kernel(const Problem& problem, HostIsa isa = Target().isa()) {
  CompileOptions options = options_of(isa);
  options.policy.family = "reference";
  return Compiler(options, uncached()).compile(problem);
}

/// The sum of an element of C, as the promise has it.
double expected_sum(const TypedRun& run, const TypedArray& b, std::int64_t item, std::int64_t row,
                    std::int64_t column) {
  const CsrMatrix& a = *run.problem.a;
  float in_order = 0;
  double exact = 0;
  for (std::int64_t i = a.row_ptrs[index(row)]; i < a.row_ptrs[index(row) + 1]; ++i) {
    const double of_b = b.at(run.b.at(item, a.col_idxs[index(i)], column));
    in_order = std::fma(a.values[index(i)], static_cast<float>(of_b), in_order);
    exact += static_cast<double>(a.values[index(i)]) * of_b;
  }
  const bool is_in_order = run.problem.numerics.accumulate.promise == Promise::ordered;
  return is_in_order ? static_cast<double>(in_order) : exact;
}

double expected_element(const TypedRun& run, double sum, std::int64_t row, double residual) {
  const Epilogue& epilogue = run.problem.epilogue;
  if (epilogue.empty()) return sum;
  auto value = static_cast<float>(sum);
  if (epilogue.scale) value *= run.scale[index(row)];
  if (epilogue.bias) value += run.bias[index(row)];
  if (epilogue.residual) value += static_cast<float>(residual);
  if (epilogue.activation == Activation::relu) value = value < 0 ? 0 : value;
  return static_cast<double>(value);
}

/// Runs it and compares all of C, and what is between its rows.
void expect_run(TypedRun& run, Draw& draw) {
  const Numerics& numerics = run.problem.numerics;
  const Kernel kernel = reference_kernel(run.problem);
  for (TypedPlace* place : {&run.b, &run.c}) {
    place->width = std::max<std::int64_t>(kernel.info().panel_columns, 1);
    place->stride = PanelLayout{place->rows, place->n, place->width}.stride();
    place->distance = place->size();
  }
  const auto batch = index(std::max<std::int64_t>(run.batch, 1));
  TypedArray b(numerics.b, index(run.b.distance) * batch);
  TypedArray c(numerics.c, index(run.c.distance) * batch);
  TypedArray residual(numerics.c, index(run.c.distance) * batch);
  for (std::size_t i = 0; i < b.count(); ++i) b.set(i, drawn_element(draw, numerics.b));
  for (std::size_t i = 0; i < c.count(); ++i) {
    c.set(i, 77);
    residual.set(i, drawn_element(draw, numerics.c));
  }
  TypedArray expected = c;
  for (std::int64_t item = 0; item < run.batch; ++item) {
    for (std::int64_t row = 0; row < run.c.rows; ++row) {
      for (std::int64_t column = 0; column < run.n; ++column) {
        const std::size_t at = run.c.at(item, row, column);
        expected.set(at, expected_element(run, expected_sum(run, b, item, row, column), row,
                                          residual.at(at)));
      }
      const bool has_panels = run.c.layout == Layout::panel_major;
      for (std::int64_t past = run.n; has_panels && past % run.c.width != 0; ++past) {
        expected.set(run.c.at(item, row, past), 0);
      }
    }
  }
  const auto strides_of = [](const TypedPlace& place) {
    const bool has_panels = place.layout == Layout::panel_major;
    return Strides{.ld = has_panels ? 0 : place.ld, .distance = place.distance};
  };
  Arguments arguments{.b = b.operand(strides_of(run.b)),
                      .c = c.operand(strides_of(run.c)),
                      .n = run.n,
                      .batch = run.batch};
  const Epilogue& epilogue = run.problem.epilogue;
  if (epilogue.scale) arguments.scale = run.scale.data();
  if (epilogue.bias) arguments.bias = run.bias.data();
  if (epilogue.residual) arguments.residual = residual.operand({.distance = run.c.distance});

  kernel.run(arguments);

  EXPECT_EQ(kernel.info().numerics, numerics);
  for (std::size_t i = 0; i < c.count(); ++i) {
    ASSERT_EQ(c.element(i), expected.element(i))
        << to_string(numerics) << " at " << i << ": " << c.at(i) << ", expected " << expected.at(i);
  }
}

TEST(TypedReference, OfRandomLayersIsTheScalarOne) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Draw draw(seed);
    TypedRun run = drawn_run(draw);
    SCOPED_TRACE(seed);

    expect_run(run, draw);

    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(TypedReference, OnAGenericTargetRoundsTheProductToo) {
  Problem problem = problem_of({1, 2, {0, 2}, {0, 1}, {1, 3}}, 1);
  problem.numerics.b = DataType::f32;
  problem.numerics.c = DataType::bf16;
  const float third = 1.0F / 3;
  TypedArray b(DataType::f32, 2);
  TypedArray c(DataType::bf16, 1);
  b.set(0, -1);
  b.set(1, static_cast<double>(third));

  reference_kernel(problem, HostIsa::generic).run({.b = b.operand(), .c = c.operand()});

  EXPECT_EQ(c.at(0), 0);  // fused: 3 * third - 1 is 2^-25
}

/// Row 0 of A times B, which has one column.
double only_element(const Numerics& numerics, const std::vector<float>& a,
                    const std::vector<double>& of_b, const Epilogue& epilogue = {}) {
  CsrMatrix matrix{1, std::ssize(a), {0, std::ssize(a)}, {}, a};
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(a.size()); ++i) {
    matrix.col_idxs.push_back(i);
  }
  Problem problem = problem_of(matrix, 1);
  problem.numerics = numerics;
  problem.epilogue = epilogue;
  TypedArray b(numerics.b, a.size());
  TypedArray c(numerics.c, 1);
  for (std::size_t i = 0; i < of_b.size(); ++i) b.set(i, of_b[i]);
  const float one = 1;
  Arguments arguments{.b = b.operand(), .c = c.operand()};
  if (epilogue.scale) arguments.scale = &one;
  reference_kernel(problem).run(arguments);
  return c.at(0);
}

constexpr Numerics k_exact{DataType::i8, DataType::u8, DataType::i32, Accumulate::integer()};

TEST(TypedReference, SumsOfIntegersAreExactBeyondFloat) {
  // 127 * 255 * 1001 = 32417385 is beyond 2^24 and odd.
  const std::vector<float> a(1001, 127);
  const std::vector<double> b(1001, 255);
  Numerics to_float = k_exact;
  to_float.c = DataType::f32;
  Numerics to_bytes = k_exact;
  to_bytes.c = DataType::i8;

  EXPECT_EQ(only_element(k_exact, a, b), 32'417'385);
  EXPECT_EQ(only_element(to_float, a, b), 32'417'384);
  EXPECT_EQ(only_element(to_bytes, a, b), 127);
  EXPECT_EQ(only_element(k_exact, a, b, {.scale = true}), 32'417'384);  // the epilogue is fp32
}

TEST(TypedReference, NanBecomesZeroInIntegersAndStaysInFloats) {
  Numerics numerics{DataType::bf16, DataType::bf16, DataType::i8, {}};
  TypedArray nan(DataType::bf16, 1);
  const std::uint16_t bits = 0x7FC0;
  CsrMatrix one{1, 1, {0, 1}, {0}, {1}};
  Problem problem = problem_of(one, 1);
  std::memcpy(nan.data(), &bits, sizeof(bits));
  for (const DataType type : {DataType::i8, DataType::u8, DataType::i32, DataType::f16}) {
    numerics.c = type;
    problem.numerics = numerics;
    TypedArray c(type, 1);
    c.set(0, 3);

    reference_kernel(problem).run({.b = nan.operand(), .c = c.operand()});

    EXPECT_EQ(std::isnan(c.at(0)), type == DataType::f16);
    if (type != DataType::f16) {
      EXPECT_EQ(c.at(0), 0);
    }
  }
}

TEST(TypedReference, BoundedIsNearerThanInOrder) {
  Numerics in_order{DataType::f32, DataType::f32, DataType::f32, {}};
  Numerics bounded{DataType::f32, DataType::f32, DataType::f32, Accumulate::bounded(1e-9)};
  const std::vector<float> a = {1, 0x1p-25F, 0x1p-25F, 0x1p-25F, 0x1p-25F};
  const std::vector<double> ones(5, 1.0);

  EXPECT_EQ(only_element(in_order, a, ones), 1);
  EXPECT_EQ(only_element(bounded, a, ones), 1 + 0x1p-23);
}

TEST(TypedReference, OfAConvolutionHasTheBitsOfFloats) {
  Problem problem;
  CsrMatrix matrix = random_matrix(3, 2 * 9, 0.5);
  Draw draw(5);
  for (float& value : matrix.values) value = drawn_weight(draw, DataType::bf16);
  problem.a = matrix;
  problem.operation = Operation::conv2d;
  problem.convolution = Convolution{.channels = 2,
                                    .height = 5,
                                    .width = 4,
                                    .kernel_height = 3,
                                    .kernel_width = 3,
                                    .pad_top = 1,
                                    .pad_left = 1,
                                    .pad_bottom = 1,
                                    .pad_right = 1};
  Problem typed = problem;
  typed.numerics = {DataType::bf16, DataType::bf16, DataType::f32, {}};
  TypedArray b(DataType::bf16, 40);
  TypedArray c(DataType::f32, 60);
  std::vector<float> floats(40);
  std::vector<float> expected(60);
  for (std::size_t i = 0; i < floats.size(); ++i) {
    b.set(i, drawn_element(draw, DataType::bf16));
    floats[i] = static_cast<float>(b.at(i));
  }

  reference_kernel(problem).run(floats.data(), expected.data());
  reference_kernel(typed).run({.b = b.operand(), .c = c.operand()});

  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(c.at(i), expected[i]) << i;
}

TEST(TypedReference, TakesValuesOfARunThatTheTypeHas) {
  Problem problem = problem_of(small_matrix(), 1);
  problem.numerics = k_exact;
  problem.runtime_values = true;
  const Kernel kernel = reference_kernel(problem);
  TypedArray b(DataType::u8, 5);
  TypedArray c(DataType::i32, 5);
  for (std::size_t i = 0; i < 5; ++i) b.set(i, static_cast<double>(i + 1));
  std::vector<float> values = {-1, 2, 3, 4, 5, 6, -7};

  const PreparedValues prepared = kernel.prepare_values(values);
  kernel.run({.b = b.operand(), .c = c.operand(), .values = &prepared});

  EXPECT_EQ(c.at(0), 7);
  EXPECT_EQ(c.at(4), -28);
  values[3] = 0.5F;
  try {
    static_cast<void>(kernel.prepare_values(values));
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(),
                 "value 3 is 0.5, which i8 does not have; round A's values to the type first");
  }
}

TEST(TypedReference, ComesBackFromACacheAndFromFiles) {
  const TemporaryDirectory folder;
  Problem problem = problem_of(small_matrix(), 3);
  problem.numerics = k_exact;
  const Compiler compiler(options_of(), cached_in(folder.path()));

  const Kernel made = compiler.compile(problem);
  const Kernel found = compiler.compile(problem);
  const Kernel loaded = Kernel::from_artifact(made.artifact());

  EXPECT_EQ(made.info().family, "reference");
  EXPECT_TRUE(found.info().from_cache);
  EXPECT_EQ(found.info().numerics, k_exact);
  EXPECT_EQ(loaded.info().numerics, k_exact);
  EXPECT_THAT(made.artifact().record, HasSubstr("\"accumulate\": \"integer\""));
  problem.numerics = {};
  EXPECT_FALSE(compiler.compile(problem).info().from_cache);
}

TEST(TypedReference, IsTheOnlyFamilyThatTakesOtherTypes) {
  Problem problem = problem_of(small_matrix(), 3);
  problem.numerics.b = DataType::bf16;

  EXPECT_EQ(Compiler(options_of(), uncached()).compile(problem).info().family, "reference");
  CompileOptions options = options_of();
  options.policy.family = "csr";
  try {
    static_cast<void>(Compiler(options, uncached()).compile(problem));
    FAIL();
  } catch (const NotSupported& error) {
    EXPECT_THAT(error.what(), HasSubstr("csr: it does not take B of bf16"));
  }
}

TEST(TypedReference, DoesNotKeepThePromiseOfTensorCores) {
  Problem problem = problem_of(small_matrix(), 3);
  problem.numerics = {DataType::bf16, DataType::bf16, DataType::f32, Accumulate::tensor()};
  try {
    static_cast<void>(Compiler(options_of(), uncached()).compile(problem));
    FAIL();
  } catch (const NotSupported& error) {
    EXPECT_THAT(error.what(), HasSubstr("reference: it does not keep the promise tensor"));
  }
}

TEST(TypedReference, RefusesOperandsOfAnotherType) {
  Problem problem = problem_of(small_matrix(), 1);
  problem.numerics.b = DataType::bf16;
  const Kernel kernel = reference_kernel(problem);
  TypedArray bf16(DataType::bf16, 5);
  TypedArray f16(DataType::f16, 5);
  TypedArray c(DataType::f32, 5);

  EXPECT_NO_THROW(kernel.run({.b = bf16.operand(), .c = c.operand()}));
  try {
    kernel.run({.b = f16.operand(), .c = c.operand()});
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "b is f16; this kernel takes bf16");
  }
}

TEST(TypedReference, MakesNoPanelsOfOtherTypes) {
  Problem problem = problem_of(small_matrix(), 3);
  problem.panel_columns = 16;
  problem.numerics.c = DataType::f16;
  const Kernel kernel = reference_kernel(problem);
  std::vector<float> floats(500);

  EXPECT_THROW(kernel.to_panels(floats.data(), 3, 5, floats.data() + 100), InvalidArgument);
  EXPECT_THROW(kernel.from_panels(floats.data(), 5, floats.data() + 400, 3), InvalidArgument);
}

}  // namespace
