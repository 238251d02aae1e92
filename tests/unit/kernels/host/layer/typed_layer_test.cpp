// Layers of bf16, f16 and integers in order, in every fast family: against a scalar evaluation and
// `reference`.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "artifact/families.hpp"
#include "plan/problem.hpp"
#include "spjit/compiler.hpp"
#include "tests/support/activations.hpp"
#include "tests/support/allocation_counter.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/convolution_cases.hpp"
#include "tests/support/draw.hpp"
#include "tests/support/guarded_memory.hpp"
#include "tests/support/narrow_elements.hpp"
#include "tests/support/typed_layers.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using enum DataType;

Numerics numerics_in_order(Draw& draw) {
  return {draw.one_of<DataType>({f32, bf16, f16, i8, u8, i4}),
          draw.one_of<DataType>({f32, bf16, f16}),
          draw.one_of<DataType>({f32, bf16, f16, i8, u8}),
          {}};
}

Kernel kernel_of_family(const Problem& problem, const std::string& family, HostIsa isa,
                        int threads = 1) {
  CompileOptions options = options_of(isa);
  options.policy.family = family;
  options.resources.threads = threads;
  return Compiler(options, uncached()).compile(problem);
}

std::string refusal_of(const std::string& family, const Problem& problem, HostIsa isa) {
  const CompileOptions options = options_of(isa);
  const DeviceInfo device = device_info_of(options.target);
  return why_not(find_family(family), {problem, options, device, {}}).reason();
}

TypedArray drawn_operand(DataType type, std::int64_t count, std::uint64_t seed) {
  Draw draw(seed);
  TypedArray array(type, index(count));
  for (std::size_t i = 0; i < array.count(); ++i) array.set(i, drawn_element(draw, type));
  return array;
}

/// Bit for bit, but that NaN are all one.
void expect_same_numbers(const TypedArray& made, const TypedArray& expected) {
  for (std::size_t i = 0; i < made.count(); ++i) {
    if (std::isnan(made.at(i)) && std::isnan(expected.at(i))) continue;
    ASSERT_EQ(made.element(i), expected.element(i))
        << "at " << i << ": " << made.at(i) << ", expected " << expected.at(i);
  }
}

/// A value of A with every bit that its type has.
CsrMatrix with_values_of(CsrMatrix matrix, DataType type) {
  Draw draw(9);
  for (float& value : matrix.values) value = drawn_weight(draw, type);
  return matrix;
}

class TypedLayers : public testing::TestWithParam<std::tuple<std::string, HostIsa>> {
 protected:
  void SetUp() override {
    if (!Target(isa()).runs_here()) GTEST_SKIP() << "no " << to_string(isa()) << " here";
    if (isa() == HostIsa::generic && !compiles_and_runs(isa())) GTEST_SKIP() << "without LLVM";
  }
  [[nodiscard]] static std::string family() { return std::get<0>(GetParam()); }
  [[nodiscard]] static HostIsa isa() { return std::get<1>(GetParam()); }
  [[nodiscard]] static bool is_windows() { return family() == "windows"; }
  [[nodiscard]] static std::int64_t n() { return is_windows() ? 3 : 21; }

  static Kernel kernel(const Problem& problem, int threads = 1) {
    return kernel_of_family(problem, family(), isa(), threads);
  }
};

/// The scalar evaluation rounds a product and its sum once.
class TypedLayersOfScalars : public TypedLayers {};

TEST_P(TypedLayersOfScalars, AreTheSameInEveryLayout) {
  TypedSizes sizes{40, 150, {0, 1, 2, 3, 4, 5, 8, 9, 16, 17, 33, 65, 70, 130}};
  if (is_windows()) sizes.n = {1, 2, 3, 4};
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    Draw draw(seed);
    const Numerics numerics = numerics_in_order(draw);
    const bool has_panels = !is_windows() && draw.chance(20);
    TypedRun run = drawn_run(draw, numerics, sizes, has_panels);
    if (is_windows() || (draw.chance(50) && run.n > 0)) run.problem.n = run.n;
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << to_string(numerics));
    if (!refusal_of(family(), run.problem, isa()).empty()) continue;

    expect_run(run, kernel(run.problem, seed % 3 == 0 ? 3 : 1), draw);

    if (HasFatalFailure()) return;
  }
}

/// Elements against a page that cannot be touched, which nobody may write.
class GuardedBytes {
 public:
  GuardedBytes(const TypedArray& from, GuardPlacement placement)
      : pages_(from.count() * index(bytes_of(from.type())), placement,
               index(bytes_of(from.type()))) {
    std::copy_n(from.data(), pages_.bytes().size(), pages_.bytes().data());
    pages_.seal();
  }
  [[nodiscard]] const std::byte* data() const { return pages_.bytes().data(); }

 private:
  GuardedPages pages_;
};

/// A run of a problem beside the one of `reference`.
class TypedLayersOfReference : public TypedLayers {
 protected:
  static void expect_bits_of_reference(const Problem& problem, const TypedArray& b,
                                       std::int64_t batch = 1, int threads = 1) {
    const std::int64_t columns =
        problem.convolution ? pixels_of(*problem.convolution) : problem.n.value;
    const std::int64_t size = problem.a->rows * columns;
    const DataType type = problem.numerics.c;
    const TypedArray residual = drawn_operand(type, size * batch, 2);
    TypedArray expected = drawn_operand(type, size * batch, 3);
    TypedArray c = expected;
    TypedArray again = expected;
    const std::vector<float> scale = dense_values(problem.a->rows, 4);
    const std::vector<float> bias = dense_values(problem.a->rows, 5);
    const auto of_batch = static_cast<std::int64_t>(b.count()) / std::max<std::int64_t>(batch, 1);
    Arguments arguments{.b = {nullptr, problem.numerics.b, {.distance = of_batch}},
                        .c = expected.operand({.distance = size}),
                        .batch = batch};
    if (problem.epilogue.scale) arguments.scale = scale.data();
    if (problem.epilogue.bias) arguments.bias = bias.data();
    if (problem.epilogue.residual) {
      arguments.residual = {residual.data(), type, {.distance = size}};
    }
    set_unit_of_c(arguments, type);
    const Kernel made = kernel(problem, threads);

    const GuardedBytes b_at_end(b, GuardPlacement::at_end);
    arguments.b.data = b_at_end.data();
    kernel_of_family(problem, "reference", isa()).run(arguments);
    arguments.c = c.operand({.distance = size});
    made.run(arguments);
    // In memory of the caller it needs no more than it says.
    const GuardedPages workspace(index(made.workspace_bytes(arguments)), GuardPlacement::at_end);
    arguments.workspace = workspace.bytes().data();
    arguments.workspace_bytes = std::ssize(workspace.bytes());
    arguments.c = again.operand({.distance = size});
    const GuardedBytes b_at_start(b, GuardPlacement::at_start);
    arguments.b.data = b_at_start.data();
    made.run(arguments);

    EXPECT_EQ(made.info().family, family());
    expect_same_numbers(c, expected);
    expect_same_numbers(again, expected);
    EXPECT_TRUE(workspace.intact());
  }

  static std::int64_t pixels_of(const Convolution& convolution) {
    return convolution.output_height() * convolution.output_width();
  }
};

/// Numbers of the type at the ends of its range, and what is none.
TypedArray special_array(DataType type, std::int64_t count, std::uint64_t seed) {
  using Limits = std::numeric_limits<double>;
  Draw draw(seed);
  TypedArray array(type, index(count));
  const DataTypeInfo& info = info_of(type);
  const double denormal = type == f16 ? 0x1p-24 : type == bf16 ? 0x1p-133 : 0x1p-149;
  for (std::size_t i = 0; i < array.count(); ++i) {
    array.set(i, draw.chance(80) ? drawn_element(draw, type)
                                 : draw.one_of<double>({0.0, -0.0, denormal, -3 * denormal,
                                                        info.largest, info.lowest}));
  }
  // Few columns: others show what is next to them.
  for (std::size_t i = 5; i < array.count(); i += 97) {
    const double value = draw.one_of<double>({Limits::infinity(), -Limits::infinity()});
    array.set(i, value);
  }
  return array;
}

void set_nan(TypedArray& array, std::size_t at) {
  const std::uint32_t bits = array.type() == f32    ? 0x7FC00000
                             : array.type() == bf16 ? 0x7FC0
                                                    : 0x7E00;
  std::memcpy(array.data() + at * index(bytes_of(array.type())), &bits,
              index(bytes_of(array.type())));
}

TEST_P(TypedLayersOfReference, HaveItsBitsAtTheEndsOfTheRange) {
  for (const DataType type : {bf16, f16, f32}) {
    for (const DataType of_c : {bf16, f16, i8, u8}) {
      for (const Layout layout : {Layout::row_major, Layout::tokens_major}) {
        CsrMatrix matrix = with_values_of(planted_filters(37, 60, 50), type);
        matrix.values[3] = -0.0F;
        matrix.values[7] = static_cast<float>(info_of(type).largest);
        matrix.values[30] = type == f16 ? 0x1p-24F : 0x1p-133F;
        Problem problem = problem_of(matrix, n());
        problem.numerics = {type, type, of_c, {}};
        problem.b.layout = problem.c.layout = layout;
        TypedArray b = special_array(type, 60 * n(), 6);
        set_nan(b, 11);

        expect_bits_of_reference(problem, b);
        problem.epilogue = {.bias = true};
        expect_bits_of_reference(problem, b, 1, 3);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(TypedLayersOfReference, HaveItsBitsInEveryEpilogue) {
  for (const DataType of_c : {bf16, f16, u8}) {
    for (const Activation activation : k_activations) {
      for (const Layout layout : {Layout::row_major, Layout::tokens_major}) {
        Problem problem = problem_of(with_values_of(random_matrix(150, 70, 0.5), bf16), n());
        problem.numerics = {bf16, f16, of_c, {}};
        problem.c.layout = layout;
        problem.epilogue = {true, true, true, activation};
        set_line(problem.epilogue);
        if (activation == Activation::clamp) problem.epilogue.high = 5;

        expect_bits_of_reference(problem, drawn_operand(f16, 70 * n(), 1), 1, 2);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(TypedLayersOfReference, HaveItsBitsOfMoreRowsThanAreFinishedAtOnce) {
  for (const Layout layout : {Layout::row_major, Layout::tokens_major}) {
    for (const DataType of_c : {bf16, i8}) {
      const std::int64_t rows = is_windows() ? 1500 : 300;
      Problem problem = problem_of(with_values_of(random_matrix(rows, 30, 0.5), bf16), n());
      problem.numerics = {bf16, bf16, of_c, {}};
      problem.c.layout = layout;
      problem.epilogue = {.scale = true, .bias = true, .residual = true};

      expect_bits_of_reference(problem, drawn_operand(bf16, 30 * n(), 1));
      if (HasFatalFailure()) return;
    }
  }
}

/// The matrices that loops over rows and columns are wrong for.
std::vector<CsrMatrix> edge_matrices() {
  CsrMatrix with_dense_row = random_matrix(20, 300, 0.7);
  return {random_matrix(1, 90, 0.3),
          random_matrix(90, 1, 0.3),
          planted_filters(30, 33, 30),
          CsrMatrix{3, 4, {0, 0, 0, 0}, {}, {}},
          with_dense_row,
          random_matrix(64, 64, 0)};
}

TEST_P(TypedLayersOfReference, HaveItsBitsOfEveryShape) {
  for (const CsrMatrix& matrix : edge_matrices()) {
    for (const std::int64_t columns : is_windows() ? std::vector<std::int64_t>{1, 2, 4}
                                                   : std::vector<std::int64_t>{1, 2, 13, 64, 300}) {
      for (const DataType type : {bf16, i8, i4, u8}) {
        Problem problem = problem_of(with_values_of(matrix, type), columns);
        problem.numerics = {type, bf16, type == i8 ? u8 : f16, {}};
        const std::string refusal = refusal_of(family(), problem, isa());
        if (!refusal.empty()) continue;
        for (const std::int64_t batch : {0, 1, 3}) {
          expect_bits_of_reference(
              problem,
              drawn_operand(bf16, matrix.cols * columns * std::max<std::int64_t>(batch, 1), 1),
              batch, 2);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(TypedLayersOfReference, HaveItsBitsOfManyColumns) {
  if (is_windows()) GTEST_SKIP() << "it is for four at most";
  // Where rows of A are taken one by one, the last group has one column, and the last 9.
  for (const std::int64_t columns : {769, 777}) {
    for (const DataType type : {bf16, f16, i8}) {
      Problem problem = problem_of(with_values_of(random_matrix(64, 40, 0.4), type), columns);
      problem.numerics.a = type;

      expect_bits_of_reference(problem, drawn_operand(f32, 40 * columns, 1));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(TypedLayersOfReference, HaveItsBitsInConvolutions) {
  if (is_windows()) GTEST_SKIP() << "it computes none";
  for (const Convolution& geometry : geometries()) {
    for (const Layout layout : {Layout::row_major, Layout::tokens_major}) {
      for (const DataType type : {bf16, f16}) {
        Problem problem = problem_of_convolution(geometry, 32, 40);
        problem.a = with_values_of(*problem.a, type);
        problem.numerics = {type, type, type == bf16 ? type : u8, {}};
        problem.b.layout = problem.c.layout = layout;
        const Convolution& of = *problem.convolution;
        if (!refusal_of(family(), checked_problem(problem), isa()).empty()) continue;

        expect_bits_of_reference(
            problem, drawn_operand(type, 3 * of.channels * of.height * of.width, 1), 3, 2);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(TypedLayers, TakeValuesOfARun) {
  for (const DataType type : {bf16, f16, i8, i4}) {
    Problem problem = problem_of(random_matrix(40, 50, 0.5), n());
    problem.numerics = {type, f32, f32, {}};
    problem.runtime_values = true;
    problem.a = with_values_of(*problem.a, type);
    Problem fixed = problem;
    fixed.runtime_values = false;
    const TypedArray b = drawn_operand(f32, 50 * n(), 1);
    TypedArray c = drawn_operand(f32, 40 * n(), 2);
    TypedArray expected = c;

    const Kernel made = kernel(problem);
    const PreparedValues prepared = made.prepare_values(problem.a->values);
    made.run({.b = {b.data(), f32}, .c = c.operand(), .values = &prepared});
    kernel_of_family(fixed, "reference", isa())
        .run({.b = {b.data(), f32}, .c = expected.operand()});

    expect_same_numbers(c, expected);
  }
}

TEST_P(TypedLayers, HaveTheBitsOfFloatsAndLessOfThemInFiles) {
  for (const DataType type : {bf16, f16, i8, u8, i4}) {
    Problem problem = problem_of(with_values_of(random_matrix(41, 51, 0.5), type), n());
    const Kernel of_floats = kernel(problem);
    problem.numerics.a = type;
    const Kernel made = kernel(problem);
    const Kernel read = Kernel::from_artifact(made.artifact());
    const std::vector<float> b = dense_values(51 * n(), 1);
    std::vector<float> expected(index(41 * n()));
    std::vector<float> c = expected;
    std::vector<float> of_read = expected;

    of_floats.run(b.data(), expected.data());
    made.run(b.data(), c.data());
    read.run(b.data(), of_read.data());

    EXPECT_TRUE(same_bits(c, expected)) << to_string(type);
    EXPECT_TRUE(same_bits(of_read, expected)) << to_string(type);
    if (!made.info().reads_a) continue;
    const std::int64_t nnz = problem.a->nnz();
    const std::int64_t words = (nnz * info_of(type).bits + 31) / 32;
    EXPECT_EQ(made.info().weight_bytes, 4 * (words + nnz)) << to_string(type);
    EXPECT_EQ(of_floats.info().weight_bytes, 8 * nnz);
  }
}

/// Whether runs stop allocating: it is chance which thread needs how many workspaces first.
template <class Run>
bool stops_allocating(const Run& run) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    const std::int64_t before = allocations_so_far();
    for (int i = 0; i < 10; ++i) run();
    if (allocations_so_far() == before) return true;
  }
  return false;
}

TEST_P(TypedLayers, AllocateNothingInSteadyState) {
  for (const Layout layout : {Layout::row_major, Layout::tokens_major}) {
    Problem problem = problem_of(with_values_of(random_matrix(60, 90, 0.4), bf16), n());
    problem.numerics = {bf16, bf16, bf16, {}};
    problem.b.layout = problem.c.layout = layout;
    problem.epilogue = {.bias = true, .residual = true};
    const std::vector<float> bias = dense_values(60, 5);
    const TypedArray b = drawn_operand(bf16, 2 * 90 * n(), 1);
    TypedArray c = drawn_operand(bf16, 2 * 60 * n(), 2);
    for (const int threads : {1, 2}) {
      const Kernel made = kernel(problem, threads);
      Arguments arguments{.b = {b.data(), bf16, {.distance = 90 * n()}},
                          .c = c.operand({.distance = 60 * n()}),
                          .batch = 2};
      arguments.bias = bias.data();
      arguments.residual = c.operand({.distance = 60 * n()});

      EXPECT_TRUE(stops_allocating([&] { made.run(arguments); })) << to_string(layout) << threads;
    }
  }
}

std::string family_and_isa(const testing::TestParamInfo<std::tuple<std::string, HostIsa>>& info) {
  return std::get<0>(info.param) + "_" + std::string(to_string(std::get<1>(info.param)));
}

const auto k_fused =
    testing::Combine(testing::Values("dense", "compact", "windows", "unrolled", "csr"),
                     testing::Values(HostIsa::avx512, HostIsa::avx2));
const auto k_separate =
    testing::Combine(testing::Values("unrolled", "csr"), testing::Values(HostIsa::generic));

INSTANTIATE_TEST_SUITE_P(Fused, TypedLayersOfScalars, k_fused, family_and_isa);
INSTANTIATE_TEST_SUITE_P(Fused, TypedLayersOfReference, k_fused, family_and_isa);
INSTANTIATE_TEST_SUITE_P(Fused, TypedLayers, k_fused, family_and_isa);
INSTANTIATE_TEST_SUITE_P(Separate, TypedLayersOfReference, k_separate, family_and_isa);
INSTANTIATE_TEST_SUITE_P(Separate, TypedLayers, k_separate, family_and_isa);

/// Elements of B and C of every bit pattern, through a product with 1.
TEST(TypedLayer, PassesEveryNumber) {
  constexpr std::int64_t k_all = 65'536;
  for (const DataType type : {bf16, f16}) {
    Problem problem = problem_of({1, 1, {0, 1}, {0}, {1}}, k_all);
    problem.numerics = {type, type, type, {}};
    std::vector<std::uint16_t> all(k_all);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
    for (const HostIsa isa : isas_here()) {
      std::vector<std::uint16_t> c(k_all, 7);

      kernel_of_family(problem, "csr", isa).run({.b = {all.data(), type}, .c = {c.data(), type}});

      for (std::uint32_t i = 0; i < k_all; ++i) {
        const bool is_nan = std::isnan(narrow_value(type, i));
        const bool is_zero = (i & 0x7FFFU) == 0;  // a sum begins with +0
        if (is_nan) {
          ASSERT_TRUE(std::isnan(narrow_value(type, c[i]))) << to_string(isa) << " " << i;
        } else {
          ASSERT_EQ(c[i], is_zero ? 0 : i) << to_string(isa) << " " << i;
        }
      }
    }
  }
}

TEST(TypedLayer, IsTakenByTheFamilyThatFloatsAre) {
  for (const std::int64_t columns : {1, 32, 2000}) {
    Problem problem = problem_of(with_values_of(random_matrix(300, 400, 0.8), bf16), columns);
    const std::string family = Compiler(options_of(), uncached()).compile(problem).info().family;
    problem.numerics = {bf16, f32, f32, {}};

    EXPECT_EQ(Compiler(options_of(), uncached()).compile(problem).info().family, family);
    EXPECT_NE(family, "reference");
  }
}

TEST(TypedLayer, OfOtherPromisesAndIntegersIsLeftToOthers) {
  const auto refusal = [](const Numerics& numerics) {
    Problem problem = problem_of(with_values_of(random_matrix(10, 12, 0.3), i8), 3);
    problem.numerics = numerics;
    return refusal_of("csr", problem, Target().isa());
  };

  EXPECT_EQ(refusal({i8, f32, i32, {}}), "it does not take C of i32");
  EXPECT_EQ(refusal({i8, f32, i8, {}}), "");
  EXPECT_EQ(refusal({i8, i8, i32, Accumulate::integer()}), "it does not take B of i8");
  EXPECT_EQ(refusal({bf16, bf16, f32, Accumulate::bounded(1e-3)}),
            "it does not keep the promise bounded:0.001");
  EXPECT_EQ(refusal({i8, bf16, f16, {}}), "");
}

TEST(TypedLayer, OfABThatIsHardlyReadIsNotCopied) {
  Problem problem = problem_of({1, 100'000, {0, 1}, {5}, {1}}, 8);
  problem.numerics.b = bf16;

  EXPECT_EQ(Compiler(options_of(), uncached()).compile(problem).info().family, "reference");
}

}  // namespace
