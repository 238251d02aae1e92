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
#include "tests/support/typed_layers.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using testing::HasSubstr;

Numerics drawn_float_numerics(Draw& draw) {
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

Kernel reference_kernel(const Problem& problem, HostIsa isa = Target().isa()) {
  CompileOptions options = options_of(isa);
  options.policy.family = "reference";
  return Compiler(options, uncached()).compile(problem);
}

TEST(TypedReference, OfRandomLayersIsTheScalarOne) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Draw draw(seed);
    const Numerics numerics = drawn_float_numerics(draw);
    TypedRun run = drawn_run(draw, numerics, {}, draw.chance(25));
    SCOPED_TRACE(seed);

    expect_run(run, reference_kernel(run.problem), draw);

    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(TypedReference, OfAQuantizedBIsTheScalarOne) {
  using enum DataType;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Draw draw(seed);
    const auto how =
        draw.one_of<Quantization>({Quantization::given, Quantization::tensor, Quantization::token});
    const DataType of_b = how == Quantization::given ? draw.one_of<DataType>({i8, u8}) : f32;
    const Numerics numerics{draw.one_of<DataType>({i8, u8, i4, i32}), of_b,
                            draw.one_of<DataType>({f32, bf16, f16, i32, i8, u8}),
                            Accumulate::integer(), how};
    TypedRun run = drawn_run(draw, numerics, {}, draw.chance(25));
    SCOPED_TRACE(seed);

    expect_run(run, reference_kernel(run.problem), draw);

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

TEST(TypedReference, NanBecomesTheLeastByteZeroInI32AndStaysInFloats) {
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
      EXPECT_EQ(c.at(0), type == DataType::i8 ? -128 : 0);
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
  CompileOptions options = options_of();
  options.policy.family = "reference";
  const Compiler compiler(options, cached_in(folder.path()));

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

TEST(TypedReference, IsTheOnlyFamilyOfBoundedSums) {
  Problem problem = problem_of(small_matrix(), 3);
  problem.numerics.accumulate = Accumulate::bounded(1e-3);

  EXPECT_EQ(Compiler(options_of(), uncached()).compile(problem).info().family, "reference");
  CompileOptions options = options_of();
  options.policy.family = "csr";
  try {
    static_cast<void>(Compiler(options, uncached()).compile(problem));
    FAIL();
  } catch (const NotSupported& error) {
    EXPECT_THAT(error.what(), HasSubstr("csr: it does not keep the promise bounded:0.001"));
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
