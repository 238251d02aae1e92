// A's values as operands of runs: every family of the host.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/executable_code.hpp"
#include "spjit/error.hpp"
#include "tests/support/guarded_buffers.hpp"
#include "tests/support/layer_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

constexpr std::int64_t k_few = 3;  // columns that every family takes

/// The pattern of `matrix` with other values.
CsrMatrix revalued(CsrMatrix matrix, std::uint64_t seed) {
  matrix.values = dense_values(matrix.nnz(), seed);
  return matrix;
}

/// Values that go wrong where anything is computed with them before a run.
CsrMatrix with_hard_values(CsrMatrix matrix) {
  constexpr float k_infinite_value = std::numeric_limits<float>::infinity();
  constexpr std::array<float, 9> k_hard = {0.0F,
                                           -0.0F,
                                           1e-45F,
                                           -1e-40F,
                                           -k_infinite_value,
                                           std::numeric_limits<float>::quiet_NaN(),
                                           1e-30F,
                                           k_infinite_value,
                                           -3e38F};
  for (std::size_t i = 0; i < matrix.values.size(); ++i) {
    if (i % 5 == 0) matrix.values[i] = k_hard.at(i / 5 % k_hard.size());
  }
  return matrix;
}

Problem with_runtime_values(const CsrMatrix& matrix, std::int64_t n) {
  Problem problem = problem_of(matrix, n);
  problem.runtime_values = true;
  return problem;
}

class RuntimeValues : public testing::TestWithParam<std::tuple<const char*, HostIsa>> {
 protected:
  void SetUp() override {
    const bool compiles = family() != "unrolled" || compiles_and_runs(isa());
    if (!Target(isa()).runs_here() || !compiles) GTEST_SKIP() << "no " << to_string(isa());
  }
  static std::string family() { return std::get<0>(GetParam()); }
  static HostIsa isa() { return std::get<1>(GetParam()); }
  static std::vector<std::int64_t> columns() {
    return family() == "windows" ? std::vector<std::int64_t>{1, 2, 4}
                                 : std::vector<std::int64_t>{1, k_few, 17, 40, 130};
  }
  static Kernel compile(const Problem& problem, int threads = 1) {
    return compile_layer(problem, family(), isa(), threads);
  }
  /// C of a run with values.
  static std::vector<float> product(const Kernel& kernel, const std::vector<float>& values) {
    const PreparedValues prepared = kernel.prepare_values(values);
    const std::vector<float> b = dense_values(kernel.cols() * kernel.n());
    std::vector<float> c(index(kernel.rows() * kernel.n()), -7.0F);
    kernel.run({.b = b.data(), .c = c.data(), .values = &prepared});
    return c;
  }
  static std::vector<float> expected_product(const CsrMatrix& matrix, std::int64_t n) {
    return reference_product(matrix, isa(), dense_values(matrix.cols * n).data(), n, n);
  }

 private:
  GuardedBuffers guarded_{GuardPlacement::at_end};
};

TEST_P(RuntimeValues, GiveTheBitsOfAKernelOfTheseValues) {
  const CsrMatrix matrix = with_hard_values(random_matrix(37, 43, 0.4));
  for (const std::int64_t n : columns()) {
    for (const int threads : {1, 3}) {
      const LayerKernels layer(with_runtime_values(matrix, n), family(), isa(), threads);
      for (const Layout layout : {Layout::row_major, Layout::tokens_major}) {
        const LayerShape shape{.n = n, .b_layout = layout, .c_layout = layout, .batch = 2};
        const LayerOperands operands(layer.problem, shape, GuardPlacement::at_end);
        const LayerOperands expected(layer.problem, shape, GuardPlacement::at_end);

        layer.run(layer.kernel, operands);
        layer.run(layer.reference, expected);

        EXPECT_TRUE(same_bits(operands.all_of_c(), expected.all_of_c()))
            << layer.describe(shape, GuardPlacement::at_end);
      }
    }
  }
}

TEST_P(RuntimeValues, OfARunTimeNTakeFewAndManyColumns) {
  if (family() == "windows") GTEST_SKIP() << "it is of one n";
  const CsrMatrix matrix = random_matrix(60, 90, 0.4);
  for (const std::int64_t typical : {16, 600}) {
    Problem problem = with_runtime_values(matrix, typical);
    problem.n.runtime = true;
    const LayerKernels layer(problem, family(), isa(), 2);
    for (const std::int64_t n : {1, 2, 16, 65, 800}) {
      EXPECT_EQ(layer.run({.n = n}), "");
    }
  }
}

TEST_P(RuntimeValues, AreManyForOneKernelAtTheSameTime) {
  const CsrMatrix matrix = random_matrix(60, 90, 0.4);
  const Kernel kernel = compile(with_runtime_values(matrix, k_few), 2);
  std::vector<std::string> said(6);
  std::vector<std::thread> callers;
  for (std::size_t i = 0; i < said.size(); ++i) {
    callers.emplace_back([&, i] {
      const CsrMatrix own = revalued(matrix, 100 + i);
      const std::vector<float> expected = expected_product(own, k_few);
      for (int round = 0; round < 10; ++round) {
        if (!same_bits(product(kernel, own.values), expected)) said[i] = "other values";
      }
    });
  }
  for (std::thread& caller : callers) caller.join();

  for (const std::string& one : said) EXPECT_EQ(one, "");
}

TEST_P(RuntimeValues, AreNotInTheArtifact) {
  const CsrMatrix matrix = random_matrix(40, 50, 0.4);
  for (const bool any_n : {false, true}) {
    if (any_n && family() == "windows") continue;
    Problem first = with_runtime_values(matrix, k_few);
    first.n.runtime = any_n;
    Problem second = first;
    second.a = with_hard_values(revalued(matrix, 5));

    const Artifact one = compile(first).artifact();
    const Artifact other = compile(second).artifact();

    ASSERT_EQ(one.files.size(), other.files.size());
    for (std::size_t i = 0; i < one.files.size(); ++i) {
      EXPECT_TRUE(std::ranges::equal(one.files[i].bytes, other.files[i].bytes));
    }
  }
}

TEST_P(RuntimeValues, AreTakenByAKernelOfAnArtifactAndByALinkedObject) {
  const CsrMatrix matrix = random_matrix(40, 50, 0.4);
  const Kernel kernel = compile(with_runtime_values(revalued(matrix, 5), k_few));
  const std::vector<std::byte> object = kernel.object("layer");
  const HostImage image = read_object(object, "layer");
  std::optional<ExecutableCode> code;
  if (!image.text.empty()) code.emplace(image.text);

  const Kernel read = Kernel::from_artifact(kernel.artifact());
  const Kernel linked =
      Kernel::link({code ? code->code().data() : nullptr, image.text.size(), image.weights.data(),
                    image.weights.size(), image.program.data(), image.program.size()});

  EXPECT_TRUE(same_bits(product(read, matrix.values), expected_product(matrix, k_few)));
  EXPECT_TRUE(same_bits(product(linked, matrix.values), expected_product(matrix, k_few)));
  EXPECT_NE(kernel.aot_header("layer").find("const spjit::PreparedValues& values"),
            std::string::npos);
}

TEST_P(RuntimeValues, AreTakenByAKernelOfTheCache) {
  const TemporaryDirectory directory;
  const CsrMatrix matrix = random_matrix(40, 50, 0.4);
  CompileOptions options = options_of(isa());
  options.policy.family = family();
  static_cast<void>(Compiler(options, cached_in(directory.path()))
                        .compile(with_runtime_values(revalued(matrix, 5), k_few)));

  const Kernel kernel =
      Compiler(options, cached_in(directory.path())).compile(with_runtime_values(matrix, k_few));

  EXPECT_TRUE(kernel.info().from_cache);
  EXPECT_TRUE(same_bits(product(kernel, matrix.values), expected_product(matrix, k_few)));
}

TEST_P(RuntimeValues, OfAMatrixWithoutEntriesAreNone) {
  if (family() == "dense") GTEST_SKIP() << "it is for matrices of few zeros";
  CsrMatrix empty;
  empty.rows = 5;
  empty.cols = 7;
  empty.row_ptrs.assign(6, 0);
  const Kernel kernel = compile(with_runtime_values(empty, k_few));

  EXPECT_TRUE(same_bits(product(kernel, {}), std::vector<float>(5 * k_few, 0.0F)));
}

/// What a call throws, or "".
template <class Call>
std::string refusal_of(const Call& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return {};
}

TEST_P(RuntimeValues, ThatAreNotTheKernelsAreRefused) {
  const CsrMatrix matrix = random_matrix(20, 30, 0.4);
  const Kernel kernel = compile(with_runtime_values(matrix, k_few));
  const Kernel same = compile(with_runtime_values(matrix, k_few));
  const Kernel baked = compile(problem_of(matrix, k_few));
  const PreparedValues others = same.prepare_values(matrix.values);
  const PreparedValues none;
  const std::vector<float> b = dense_values(30 * k_few);
  std::vector<float> c(20 * k_few, -7.0F);
  const auto run = [&](const Kernel& with, const PreparedValues* values) {
    return refusal_of([&] { with.run({.b = b.data(), .c = c.data(), .values = values}); });
  };

  EXPECT_NE(run(kernel, nullptr).find("values is null"), std::string::npos);
  EXPECT_NE(run(kernel, &none).find("values is null"), std::string::npos);
  EXPECT_NE(run(kernel, &others).find("prepared for another kernel"), std::string::npos);
  EXPECT_NE(run(baked, &others).find("compiled with its own"), std::string::npos);
  std::vector<float> wrong = matrix.values;
  wrong.push_back(1);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(refusal_of([&] { static_cast<void>(kernel.prepare_values(wrong)); }),
              std::to_string(wrong.size()) + " values; expected " + std::to_string(matrix.nnz()) +
                  ", one of each entry of A");
    wrong.resize(matrix.values.size() - 1);
  }
  EXPECT_NE(
      refusal_of([&] { static_cast<void>(baked.prepare_values(matrix.values)); }).find("has A's"),
      std::string::npos);
  EXPECT_EQ(std::ranges::count(c, -7.0F), std::ssize(c));
}

INSTANTIATE_TEST_SUITE_P(Families, RuntimeValues,
                         testing::Combine(testing::Values("compact", "dense", "unrolled", "csr",
                                                          "reference"),
                                          testing::Values(HostIsa::avx512, HostIsa::avx2)),
                         [](const auto& of) {
                           return std::get<0>(of.param) + ("_" + to_string(std::get<1>(of.param)));
                         });

INSTANTIATE_TEST_SUITE_P(OtherFamilies, RuntimeValues,
                         testing::Values(std::tuple{"windows", HostIsa::avx512},
                                         std::tuple{"windows", HostIsa::avx2},
                                         std::tuple{"unrolled", HostIsa::generic},
                                         std::tuple{"csr", HostIsa::generic},
                                         std::tuple{"reference", HostIsa::generic}),
                         [](const auto& of) {
                           return std::get<0>(of.param) + ("_" + to_string(std::get<1>(of.param)));
                         });

TEST(RuntimeValuesChoice, IsThatOfKernelsWithTheirValues) {
  std::vector<std::string> families;
  for (const HostIsa isa : isas_here()) {
    if (isa == HostIsa::generic) continue;
    for (const double sparsity : {0.1, 0.5, 0.8, 0.95}) {
      const CsrMatrix matrix = random_matrix(128, 160, sparsity);
      for (const std::int64_t n : {1, 2, 4, 16, 64, 300, 1000}) {
        for (const bool hot : {false, true}) {
          CompileOptions options = options_of(isa);
          options.policy.hot = hot;
          const Compiler compiler(options, uncached());

          const KernelInfo baked = compiler.compile(problem_of(matrix, n)).info();
          const KernelInfo kernel = compiler.compile(with_runtime_values(matrix, n)).info();

          EXPECT_EQ(kernel.family, baked.family);
          EXPECT_EQ(kernel.tile, baked.tile);
          families.push_back(kernel.family);
        }
      }
    }
  }
  for (const char* family : {"compact", "dense", "unrolled"}) {
    EXPECT_TRUE(std::ranges::find(families, family) != families.end()) << family;
  }
}

TEST(RuntimeValuesSearch, ChoosesATileThatTakesThem) {
  const CsrMatrix matrix = random_matrix(320, 320, 0.5);
  constexpr std::int64_t k_n = 256;  // enough for proxies, which have values of their own
  for (const SearchMode mode : {SearchMode::ranked, SearchMode::proxy, SearchMode::exhaustive}) {
    CompileOptions options = options_of();
    options.policy.search = mode;
    options.policy.search_budget_ms = 300;
    options.policy.family = "unrolled";
    const Kernel kernel =
        Compiler(options, uncached()).compile(with_runtime_values(revalued(matrix, 5), k_n));
    const PreparedValues values = kernel.prepare_values(matrix.values);
    const std::vector<float> b = dense_values(320 * k_n);
    std::vector<float> c(320 * k_n);

    kernel.run({.b = b.data(), .c = c.data(), .values = &values});

    EXPECT_TRUE(same_bits(c, reference_product(matrix, options.target.isa(), b.data(), k_n, k_n)))
        << to_string(mode);
  }
}

}  // namespace
