// The families `byte_windows` and `bitmask`: layers of bytes against a scalar evaluation and
// `reference`.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "artifact/families.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "tests/support/activations.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/draw.hpp"
#include "tests/support/guarded_buffers.hpp"
#include "tests/support/narrow_elements.hpp"
#include "tests/support/typed_layers.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using testing::HasSubstr;
using testing::Not;
using enum DataType;

constexpr Numerics k_bytes{i8, i8, i32, Accumulate::integer()};

CsrMatrix random_bytes(std::int64_t rows, std::int64_t cols, double sparsity) {
  CsrMatrix matrix = random_matrix(rows, cols, sparsity);
  Draw draw(3);
  for (float& value : matrix.values) value = static_cast<float>(draw.between(-128, 127));
  return matrix;
}

Problem problem_of_bytes(CsrMatrix matrix, std::int64_t n, const Numerics& numerics = k_bytes) {
  Problem problem = problem_of(std::move(matrix), n);
  problem.numerics = numerics;
  return problem;
}

Kernel compiled(const Problem& problem, const std::string& family, HostIsa isa, int threads = 1) {
  CompileOptions options = options_of(isa);
  options.policy.family = family;
  options.resources.threads = threads;
  return Compiler(options, uncached()).compile(problem);
}

TypedArray drawn_array(DataType type, std::int64_t count, std::uint64_t seed) {
  Draw draw(seed);
  TypedArray array(type, index(count));
  for (std::size_t i = 0; i < array.count(); ++i) array.set(i, drawn_element(draw, type));
  return array;
}

void expect_same(const TypedArray& made, const TypedArray& expected) {
  for (std::size_t i = 0; i < made.count(); ++i) {
    ASSERT_EQ(made.element(i), expected.element(i)) << "at " << i << ": " << made.at(i);
  }
}

class ByteWindows : public testing::TestWithParam<std::tuple<std::string, HostIsa>> {
 protected:
  void SetUp() override {
    if (!Target(isa()).runs_here()) GTEST_SKIP() << "no " << to_string(isa()) << " here";
  }
  static std::string family() { return std::get<0>(GetParam()); }
  static HostIsa isa() { return std::get<1>(GetParam()); }
  static bool takes_values_of_a_run() { return family() == "byte_windows"; }

  /// Both families on all of C, which begins with the same bytes.
  static void expect_bits_of_reference(const Problem& problem, std::int64_t n, int threads) {
    const Kernel reference = compiled(problem, "reference", isa());
    const Kernel kernel = compiled(problem, family(), isa(), threads);
    const Numerics& numerics = problem.numerics;
    const TypedArray b = drawn_array(numerics.b, problem.a->cols * n, 1);
    const TypedArray residual = drawn_array(numerics.c, problem.a->rows * n, 2);
    TypedArray expected = drawn_array(numerics.c, problem.a->rows * n, 3);
    TypedArray c = expected;
    const std::vector<float> scale = dense_values(problem.a->rows, 4);
    const std::vector<float> bias = dense_values(problem.a->rows, 5);
    Arguments arguments{.b = {b.data(), numerics.b}, .c = expected.operand(), .n = n};
    if (problem.epilogue.scale) arguments.scale = scale.data();
    if (problem.epilogue.bias) arguments.bias = bias.data();
    if (problem.epilogue.residual) arguments.residual = {residual.data(), numerics.c};
    set_unit_of_c(arguments, numerics.c);

    reference.run(arguments);
    arguments.c = c.operand();
    kernel.run(arguments);

    EXPECT_EQ(kernel.info().family, family());
    expect_same(c, expected);
  }

 private:
  GuardedBuffers guarded_{GuardPlacement::at_end};
};

TEST_P(ByteWindows, OfRandomLayersAreTheScalarOnes) {
  const TypedSizes sizes{40, 150, {0, 1, 2, 3, 7, 8, 9, 16, 17, 65, 70}};
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Draw draw(seed);
    const Numerics numerics{draw.one_of<DataType>({i8, i8, i4}), draw.one_of<DataType>({i8, u8}),
                            draw.one_of<DataType>({f32, bf16, f16, i32, i32, i8, u8}),
                            Accumulate::integer()};
    TypedRun run = drawn_run(draw, numerics, sizes, false);
    SCOPED_TRACE(seed);

    expect_run(run, compiled(run.problem, family(), isa(), seed % 3 == 0 ? 3 : 1), draw);

    if (HasFatalFailure()) return;
  }
}

TEST_P(ByteWindows, OfRandomLayersThatQuantizeBAreTheScalarOnes) {
  const TypedSizes sizes{40, 150, {0, 1, 2, 3, 7, 8, 9, 16, 17, 65, 70}};
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Draw draw(seed);
    const auto how =
        draw.one_of<Quantization>({Quantization::given, Quantization::tensor, Quantization::token});
    const Numerics numerics{draw.one_of<DataType>({i8, i8, i4}),
                            how == Quantization::given ? draw.one_of<DataType>({i8, u8}) : f32,
                            draw.one_of<DataType>({f32, f32, f32, bf16, f16, i32, i8, u8}),
                            Accumulate::integer(), how};
    TypedRun run = drawn_run(draw, numerics, sizes, false);
    SCOPED_TRACE(seed);

    expect_run(run, compiled(run.problem, family(), isa(), seed % 3 == 0 ? 3 : 1), draw);

    if (HasFatalFailure()) return;
  }
}

/// With AVX-512 sums become such bytes while they are in registers, 64 rows at a time.
TEST_P(ByteWindows, OfTokensOfBytesAreTheScalarOnes) {
  const TypedSizes sizes{300, 150, {0, 1, 2, 3, 7, 8, 9, 16, 17, 65, 70}};
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    Draw draw(seed);
    const auto how = draw.one_of<Quantization>({Quantization::given, Quantization::tensor});
    const Numerics numerics{i8, how == Quantization::given ? draw.one_of<DataType>({i8, u8}) : f32,
                            draw.one_of<DataType>({i8, u8}), Accumulate::integer(), how};
    TypedRun run = drawn_run(draw, numerics, sizes, false);
    run.problem.epilogue.residual = false;
    run.problem.epilogue.activation = Activation::none;
    run.problem.c.layout = run.c.layout = Layout::tokens_major;
    run.c.ld = run.c.rows + draw.between(0, 3);
    SCOPED_TRACE(seed);

    expect_run(run, compiled(run.problem, family(), isa(), seed % 3 == 0 ? 3 : 1), draw);

    if (HasFatalFailure()) return;
  }
}

TEST_P(ByteWindows, HaveTheBitsOfReferenceInEveryEpilogue) {
  for (const DataType c : {f32, bf16, i8, i32}) {
    for (const Activation activation : k_activations) {
      for (const Layout layout : {Layout::row_major, Layout::tokens_major}) {
        Problem problem =
            problem_of_bytes(random_bytes(37, 60, 0.6), 9, {i8, u8, c, Accumulate::integer()});
        problem.c.layout = layout;
        problem.epilogue = {true, true, true, activation};
        set_line(problem.epilogue);
        if (activation == Activation::clamp) problem.epilogue.high = 5;

        expect_bits_of_reference(problem, 9, 1);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ByteWindows, OfManyRowsAndTokensAreComputedInParts) {
  // More of A than is read for all tokens at once, more tokens than are copied at once, and sums of
  // so many rows that fewer are.
  Problem wide = problem_of_bytes(random_bytes(700, 900, 0.5), 70);
  Problem high =
      problem_of_bytes(random_bytes(20'000, 40, 0.8), 17, {i8, i8, f32, wide.numerics.accumulate});
  high.epilogue.bias = true;
  for (const int threads : {1, 3}) {
    expect_bits_of_reference(wide, 70, threads);
    expect_bits_of_reference(high, 17, threads);
  }
}

TEST_P(ByteWindows, QuantizeManyTokensInParts) {
  for (const Quantization how : {Quantization::tensor, Quantization::token}) {
    for (const Layout layout : {Layout::row_major, Layout::tokens_major}) {
      Problem problem = problem_of_bytes(random_bytes(60, 900, 0.8), 80,
                                         {i8, f32, f32, Accumulate::integer(), how});
      problem.b.layout = problem.c.layout = layout;
      problem.epilogue = {.scale = true, .bias = layout == Layout::row_major};
      for (const int threads : {1, 3}) expect_bits_of_reference(problem, 80, threads);
    }
  }
}

/// Floats that are nearly, or are, in the middle of two integers times the scale, whose range is
/// `largest` to both sides.
std::vector<float> middles(float largest, float scale, std::int64_t count) {
  std::vector<float> values;
  Draw draw(9);
  while (std::ssize(values) < count) {
    float value = scale * (static_cast<float>(draw.between(-127, 126)) + 0.5F);
    const float toward = draw.between(0, 1) == 0 ? -INFINITY : INFINITY;
    for (std::int64_t ulps = draw.between(0, 8); ulps > 0; --ulps) {
      value = std::nextafter(value, toward);
    }
    values.push_back(std::abs(value) <= largest ? value : largest);
  }
  // Of each token, in rows and in tokens, the largest.
  for (std::int64_t token = 0; token < count / 64; ++token) {
    values[index(token)] = values[index(token * 64)] = largest;
    values[index(count / 64 + token)] = values[index(token * 64 + 1)] = -largest;
  }
  return values;
}

TEST_P(ByteWindows, RoundQuotientsInTheMiddleAsReferenceDoes) {
  constexpr std::int64_t k_tokens = 33;
  CsrMatrix diagonal{64, 64, {0}, {}, {}};
  for (std::int32_t i = 0; i < 64; ++i) {
    diagonal.col_idxs.push_back(i);
    diagonal.values.push_back(1);
    diagonal.row_ptrs.push_back(i + 1);
  }
  for (const Quantization how : {Quantization::tensor, Quantization::token}) {
    for (const Layout layout : {Layout::row_major, Layout::tokens_major}) {
      for (const float largest : {1.0F, 0.37F, 126.5F, 1.5e38F, 1e-30F, 1e-37F, 3e-39F, 1e-44F}) {
        Problem problem =
            problem_of_bytes(diagonal, k_tokens, {i8, f32, f32, Accumulate::integer(), how});
        problem.b.layout = layout;
        const float scale = how == Quantization::tensor ? 2 * largest / 255 : largest / 127;
        const std::vector<float> b = middles(largest, scale, 64 * k_tokens);
        std::vector<float> c(b.size());
        std::vector<float> expected(b.size());

        compiled(problem, family(), isa()).run({.b = b.data(), .c = c.data()});
        compiled(problem, "reference", isa()).run({.b = b.data(), .c = expected.data()});

        ASSERT_EQ(c, expected) << largest;
      }
    }
  }
}

TEST_P(ByteWindows, OfAQuantizedBMayHaveTheResidualInC) {
  for (const Layout layout : {Layout::row_major, Layout::tokens_major}) {
    for (const std::int64_t n : {1, 9}) {
      Problem problem = problem_of_bytes(
          random_bytes(33, 60, 0.6), n, {i8, f32, f32, Accumulate::integer(), Quantization::token});
      problem.b.layout = problem.c.layout = layout;
      problem.epilogue = {.scale = true, .residual = true};
      const TypedArray b = drawn_array(f32, 60 * n, 1);
      const TypedArray residual = drawn_array(f32, 33 * n, 2);
      const std::vector<float> scale = dense_values(33, 4);
      TypedArray expected(f32, index(33 * n));
      TypedArray c = residual;

      compiled(problem, "reference", isa())
          .run({.b = {b.data(), f32},
                .c = expected.operand(),
                .scale = scale.data(),
                .residual = {residual.data(), f32}});
      compiled(problem, family(), isa())
          .run({.b = {b.data(), f32},
                .c = c.operand(),
                .scale = scale.data(),
                .residual = {c.data(), f32}});

      expect_same(c, expected);
    }
  }
}

TEST_P(ByteWindows, AreExactWhereSumsOfFloatsAreNot) {
  // 127 * 255 is odd, and 519 times that beyond 2^24; 518 times it is not.
  for (const std::int64_t cols : {518, 519}) {
    for (const bool runtime_values : {false, true}) {
      if (runtime_values && !takes_values_of_a_run()) continue;
      CsrMatrix matrix = random_bytes(3, cols, 0);
      std::ranges::fill(matrix.values, 127.0F);
      const std::vector<float> values = matrix.values;
      Problem problem =
          problem_of_bytes(std::move(matrix), 20, {i8, u8, i32, Accumulate::integer()});
      problem.runtime_values = runtime_values;
      const Kernel kernel = compiled(problem, family(), isa());
      TypedArray b(u8, index(cols * 20));
      for (std::size_t i = 0; i < b.count(); ++i) b.set(i, 255);
      TypedArray c(i32, 60);
      Arguments arguments{.b = {b.data(), u8}, .c = c.operand()};
      const PreparedValues prepared =
          runtime_values ? kernel.prepare_values(values) : PreparedValues();
      if (runtime_values) arguments.values = &prepared;

      kernel.run(arguments);

      for (std::size_t i = 0; i < c.count(); ++i) {
        ASSERT_EQ(c.at(i), static_cast<double>(cols * 127 * 255)) << cols << " at " << i;
      }
    }
  }
}

TEST_P(ByteWindows, ReadNothingOutsideOfAQuantizedB) {
  for (const Quantization how : {Quantization::tensor, Quantization::token}) {
    for (const Layout layout : {Layout::row_major, Layout::tokens_major}) {
      for (const std::int64_t n : {1, 5, 19, 33}) {
        const bool has_integers = n == 33;
        const CsrMatrix matrix =
            has_integers ? random_bytes(60, 397, 0.95) : random_bytes(20, 37, 0.5);
        Problem problem = problem_of_bytes(matrix, n, {i8, f32, f32, Accumulate::integer(), how});
        problem.b.layout = layout;
        const TypedArray b = drawn_array(f32, matrix.cols * n, 1);
        const GuardedPages pages(b.count() * sizeof(float), GuardPlacement::at_end);
        std::ranges::copy(std::span(b.data(), b.count() * sizeof(float)), pages.bytes().begin());
        pages.seal();
        TypedArray expected(f32, index(matrix.rows * n));
        TypedArray c(f32, index(matrix.rows * n));

        const Kernel kernel = compiled(problem, family(), isa());
        kernel.run({.b = {b.data(), f32}, .c = expected.operand()});
        kernel.run({.b = {pages.bytes().data(), f32}, .c = c.operand()});

        EXPECT_TRUE(pages.intact());
        expect_same(c, expected);
      }
    }
  }
}

TEST_P(ByteWindows, ReadNothingOutsideOfBytes) {
  // With AVX2 the second is multiplied as integers.
  for (const CsrMatrix& matrix : {random_bytes(20, 37, 0.5), random_bytes(60, 397, 0.95)}) {
    for (const DataType type : {i8, u8}) {
      for (const Layout layout : {Layout::row_major, Layout::tokens_major}) {
        for (const std::int64_t n : {1, 5, 16, 19, 33}) {
          Problem problem = problem_of_bytes(matrix, n, {i8, type, i32, Accumulate::integer()});
          problem.b.layout = layout;
          const TypedArray b = drawn_array(type, matrix.cols * n, 1);
          const GuardedPages pages(b.count(), GuardPlacement::at_end);
          std::ranges::copy(std::span(b.data(), b.count()), pages.bytes().begin());
          pages.seal();
          TypedArray expected(i32, index(matrix.rows * n));
          TypedArray c(i32, index(matrix.rows * n));

          compiled(problem, "reference", isa())
              .run({.b = {b.data(), type}, .c = expected.operand()});
          compiled(problem, family(), isa())
              .run({.b = {pages.bytes().data(), type}, .c = c.operand()});

          EXPECT_TRUE(pages.intact());
          expect_same(c, expected);
        }
      }
    }
  }
}

TEST_P(ByteWindows, TakeMatricesWithoutEntriesAndWithAll) {
  for (const double sparsity : {0.0, 1.0}) {
    for (const std::int64_t n : {1, 5, 24}) {
      expect_bits_of_reference(problem_of_bytes(random_bytes(19, 70, sparsity), n), n, 1);
    }
  }
}

TEST_P(ByteWindows, TakeValuesOfARun) {
  if (!takes_values_of_a_run()) GTEST_SKIP() << "the family refuses them";
  for (const std::int64_t n : {3, 20}) {
    Problem problem = problem_of_bytes(random_bytes(21, 90, 0.7), n);
    problem.runtime_values = true;
    const Kernel reference = compiled(problem, "reference", isa());
    const Kernel kernel = compiled(problem, family(), isa());
    const TypedArray b = drawn_array(i8, 90 * n, 1);
    Draw draw(2);
    std::vector<float> values(problem.a->values.size());
    for (float& value : values) value = static_cast<float>(draw.between(-128, 127));
    TypedArray c(i32, index(21 * n));
    TypedArray expected(i32, index(21 * n));

    const PreparedValues prepared = kernel.prepare_values(values);
    const PreparedValues of_reference = reference.prepare_values(values);
    kernel.run({.b = {b.data(), i8}, .c = c.operand(), .values = &prepared});
    reference.run({.b = {b.data(), i8}, .c = expected.operand(), .values = &of_reference});

    expect_same(c, expected);
  }
}

TEST_P(ByteWindows, WorkInTheMemoryOfACaller) {
  for (const DataType type : {i32, i8}) {
    Problem problem =
        problem_of_bytes(random_bytes(30, 50, 0.7), 11, {i8, i8, type, Accumulate::integer()});
    problem.epilogue = {.residual = type == i8};
    const Kernel kernel = compiled(problem, family(), isa());
    const TypedArray b = drawn_array(i8, 550, 1);
    TypedArray residual = drawn_array(type, 330, 2);
    TypedArray c(type, 330);
    TypedArray expected(type, 330);
    Arguments arguments{.b = {b.data(), i8}, .c = expected.operand()};
    if (type == i8) arguments.residual = residual.operand();
    kernel.run(arguments);

    const std::int64_t bytes = kernel.workspace_bytes(arguments);
    const GuardedPages memory(index(bytes), GuardPlacement::at_end);
    arguments.c = c.operand();
    arguments.workspace = memory.bytes().data();
    arguments.workspace_bytes = bytes;
    const std::int64_t made = GuardedBuffers::made();
    kernel.run(arguments);

    EXPECT_EQ(GuardedBuffers::made(), made);
    EXPECT_TRUE(memory.intact());
    expect_same(c, expected);
    arguments.workspace_bytes = bytes - 1;
    EXPECT_THROW(kernel.run(arguments), InvalidArgument);
  }
}

TEST_P(ByteWindows, QuantizeInTheMemoryOfACaller) {
  for (const DataType type : {f32, bf16}) {
    Problem problem = problem_of_bytes(random_bytes(30, 50, 0.7), 11,
                                       {i8, f32, type, Accumulate::integer(), Quantization::token});
    problem.c.layout = Layout::tokens_major;
    const Kernel kernel = compiled(problem, family(), isa());
    const TypedArray b = drawn_array(f32, 550, 1);
    TypedArray c(type, 330);
    TypedArray expected(type, 330);
    Arguments arguments{.b = {b.data(), f32}, .c = expected.operand()};
    kernel.run(arguments);

    const std::int64_t bytes = kernel.workspace_bytes(arguments);
    const GuardedPages memory(index(bytes), GuardPlacement::at_end);
    arguments.c = c.operand();
    arguments.workspace = memory.bytes().data();
    arguments.workspace_bytes = bytes;
    kernel.run(arguments);

    EXPECT_TRUE(memory.intact());
    expect_same(c, expected);
  }
}

std::string name_of_bytes(const testing::TestParamInfo<std::tuple<std::string, HostIsa>>& info) {
  return std::get<0>(info.param) + "_" + std::string(to_string(std::get<1>(info.param)));
}
INSTANTIATE_TEST_SUITE_P(All, ByteWindows,
                         testing::Combine(testing::Values("byte_windows"),
                                          testing::Values(HostIsa::avx512, HostIsa::avx2)),
                         name_of_bytes);
INSTANTIATE_TEST_SUITE_P(Bitmask, ByteWindows,
                         testing::Combine(testing::Values("bitmask"),
                                          testing::Values(HostIsa::avx512)),
                         name_of_bytes);

std::string refusal_of(const Problem& problem, HostIsa isa = HostIsa::avx2) {
  const CompileOptions options = options_of(isa);
  const DeviceInfo device = device_info_of(options.target);
  return why_not(find_family("byte_windows"), {problem, options, device, {}}).reason();
}

TEST(ByteWindowsFamily, SaysWhatItDoesNotTake) {
  const auto of = [](const Numerics& numerics) {
    return refusal_of(problem_of_bytes(small_matrix(), 2, numerics));
  };
  const Accumulate integer = Accumulate::integer();

  EXPECT_EQ(of(k_bytes), "");
  EXPECT_EQ(of({i4, u8, bf16, integer}), "");
  EXPECT_EQ(of({i8, f32, f32, integer, Quantization::tensor}), "");
  EXPECT_EQ(of({i4, f32, i8, integer, Quantization::token}), "");
  EXPECT_EQ(of({i8, u8, f32, integer, Quantization::given}), "");
  EXPECT_EQ(of({}), "it does not keep the promise ordered");
  EXPECT_EQ(of({i8, i8, i32, Accumulate::bounded(0.5)}),
            "it does not keep the promise bounded:0.5");
  EXPECT_EQ(of({u8, i8, i32, integer}), "it does not take A of u8");
  EXPECT_EQ(of({u8, f32, f32, integer, Quantization::token}), "it does not take A of u8");
  EXPECT_EQ(of({i8, i32, i32, integer}), "it does not take B of i32");
  EXPECT_EQ(refusal_of(problem_of_bytes(small_matrix(), 2), HostIsa::generic),
            "it is for avx512 and avx2; the target is generic");
  EXPECT_EQ(refusal_of(problem_of_bytes({1, 65'537, {0, 1}, {65'536}, {1}}, 2)),
            "it is for up to 65536 columns of A, which has 65537");
  EXPECT_EQ(refusal_of(problem_of_bytes({1, 65'536, {0, 1}, {65'535}, {1}}, 2)), "");
  Problem panels = problem_of_bytes(small_matrix(), 2);
  panels.panel_columns = 16;
  EXPECT_EQ(refusal_of(panels), "it does not know a fixed panel width");
  Problem first =
      problem_of_bytes(small_matrix(), 2, {i8, f32, f32, integer, Quantization::tensor});
  first.epilogue = {.scale = true, .bias = true, .bias_first = true};
  EXPECT_EQ(refusal_of(first), "");
  first.numerics.quantization = Quantization::token;
  EXPECT_EQ(refusal_of(first),
            "it multiplies with the scales of tokens first, and then adds a bias");
}

TEST(ByteWindowsFamily, IsChosenForBytesAndComesBackFromACache) {
  for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2}) {
    if (!Target(isa).runs_here()) continue;
    const TemporaryDirectory folder;
    const Problem problem = problem_of_bytes(random_bytes(30, 40, 0.8), 2);
    const Compiler compiler(options_of(isa), cached_in(folder.path()));

    const Kernel made = compiler.compile(problem);
    const Kernel found = compiler.compile(problem);
    const Kernel loaded = Kernel::from_artifact(made.artifact());

    EXPECT_EQ(made.info().family, "byte_windows");
    EXPECT_EQ(found.info().family, "byte_windows");
    EXPECT_TRUE(found.info().from_cache);
    EXPECT_EQ(loaded.info().numerics, k_bytes);
    EXPECT_THAT(made.info().reason, HasSubstr("fetched by shuffles"));
  }
}

TEST(ByteWindowsFamily, SaysNothingAboutFloatsUnlessItIsNamed) {
  const Problem problem = problem_of(small_matrix(), 2);
  CompileOptions options = options_of(HostIsa::avx2);

  const Kernel kernel = Compiler(options, uncached()).compile(problem);
  auto record = nlohmann::json::parse(kernel.artifact().record);
  record.erase("key");  // which has the versions of all families
  EXPECT_THAT(record.dump(), Not(HasSubstr("byte_windows")));
  options.policy.family = "byte_windows";
  try {
    static_cast<void>(Compiler(options, uncached()).compile(problem));
    FAIL();
  } catch (const NotSupported& error) {
    EXPECT_THAT(error.what(), HasSubstr("byte_windows: it does not keep the promise ordered"));
  }
}

TEST(ByteWindowsFamily, TakesNoPanelsOfARun) {
  const Kernel kernel =
      Compiler(options_of(HostIsa::avx2), uncached()).compile(problem_of_bytes(small_matrix(), 2));
  TypedArray b(i8, 200);
  TypedArray c(i32, 200);
  try {
    kernel.run({.b = b.operand({.layout = Layout::panel_major}), .c = c.operand()});
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "a kernel for host-avx2 takes no panels");
  }
}

TEST(ByteWindowsFamily, DoesNotOpenWhatItRefuses) {
  for (const auto& [isa, cols] : {std::pair{HostIsa::generic, 5}, {HostIsa::avx2, 65'537}}) {
    const Problem problem = problem_of_bytes({1, cols, {0, 1}, {0}, {1}}, 1);
    const HostArtifact artifact = make_csr_artifact(problem, "byte_windows", isa);
    EXPECT_THROW(static_cast<void>(open_image(artifact.image())), Error) << cols;
  }
  for (const float value : {128.0F, -129.0F, 0.5F, 1e30F, std::nanf("")}) {
    const Problem problem = problem_of_bytes({1, 5, {0, 1}, {0}, {value}}, 1);
    const HostArtifact artifact = make_csr_artifact(problem, "byte_windows", HostIsa::avx2);
    EXPECT_THROW(static_cast<void>(open_image(artifact.image())), Error) << value;
  }
  Problem first = problem_of_bytes({1, 5, {0, 1}, {0}, {1}}, 1,
                                   {i8, f32, f32, Accumulate::integer(), Quantization::token});
  first.epilogue = {.scale = true, .bias = true, .bias_first = true};
  const HostArtifact artifact = make_csr_artifact(first, "byte_windows", HostIsa::avx2);
  EXPECT_THROW(static_cast<void>(open_image(artifact.image())), Error);
}

}  // namespace
