// Scales of groups of columns of A, in every family that takes them: against scalar loops.

#include "plan/group_scales.hpp"

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

#include "artifact/families.hpp"
#include "plan/problem.hpp"
#include "spjit/compiler.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/draw.hpp"
#include "tests/support/family_choice.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

std::shared_ptr<const GroupScales> drawn_scales(Draw& draw, const CsrMatrix& a,
                                                std::int64_t columns) {
  GroupScales scales{columns, {}};
  scales.values.resize(index(a.rows * groups_of(a.cols, columns)));
  for (float& scale : scales.values) {
    scale = std::ldexp(1.0F + static_cast<float>(draw.between(0, 1 << 20)) * 0x1p-20F,
                       static_cast<int>(draw.between(-9, 2)));
    if (draw.chance(20)) scale = draw.chance(20) ? 0 : -scale;
    if (draw.chance(2)) scale = std::numeric_limits<float>::denorm_min();  // a product underflows
  }
  return std::make_shared<const GroupScales>(std::move(scales));
}

/// A product of integers in groups, some of them and some rows without entries.
Problem drawn_scaled_problem(Draw& draw, DataType type) {
  Problem problem;
  problem.numerics.a = type;
  const std::int64_t rows = draw.one_of<std::int64_t>({1, 2, 15, 16, 17, 33, 70});
  const std::int64_t cols =
      draw.one_of<std::int64_t>({1, 31, 32, 33, 63, 64, 65, 100, 128, 129, 200, 300, 513});
  CsrMatrix a{rows, cols, {0}, {}, {}};
  const std::int64_t density = draw.one_of<std::int64_t>({2, 20, 50, 100});
  const std::int64_t most = type == DataType::i4 ? 7 : 127;
  const bool has_zeros = draw.chance(50);  // entries of value 0
  for (std::int64_t row = 0; row < rows; ++row) {
    const bool is_empty = draw.chance(10);
    bool skips = false;
    for (std::int64_t column = 0; column < cols; ++column) {
      if (column % 32 == 0) skips = draw.chance(15);
      if (is_empty || skips || !draw.chance(density)) continue;
      a.col_idxs.push_back(static_cast<std::int32_t>(column));
      const std::int64_t value = draw.between(-most - 1, most);
      a.values.push_back(static_cast<float>(value == 0 && !has_zeros ? 1 : value));
    }
    a.row_ptrs.push_back(a.nnz());
  }
  problem.group_scales = drawn_scales(draw, a, draw.one_of<std::int64_t>({32, 64, 128}));
  problem.a = std::move(a);
  return problem;
}

/// C of one column of B, entry by entry: fused or, of the generic target, rounded twice.
float scaled_element(const Problem& problem, std::int64_t row, const std::vector<float>& b,
                     std::int64_t n, std::int64_t j, bool is_fused) {
  const auto multiply_add = [&](float x, float y, float sum) {
    if (is_fused) return std::fma(x, y, sum);
    const volatile float product = x * y;
    return product + sum;
  };
  const CsrMatrix& a = *problem.a;
  const std::int64_t columns = problem.group_scales->columns;
  const std::int64_t groups = (a.cols + columns - 1) / columns;
  float total = 0;
  for (std::int64_t group = 0; group < groups; ++group) {
    float sum = 0;
    for (std::int64_t i = a.row_ptrs[index(row)]; i < a.row_ptrs[index(row) + 1]; ++i) {
      const std::int64_t column = a.col_idxs[index(i)];
      if (column / columns != group) continue;
      sum = multiply_add(a.values[index(i)], b[index(column * n + j)], sum);
    }
    total = multiply_add(problem.group_scales->values[index(row * groups + group)], sum, total);
  }
  return total;
}

std::vector<float> drawn_scaled_b(Draw& draw, const Problem& problem, std::int64_t n) {
  std::vector<float> b(index(problem.a->cols * n));
  const bool has_special = draw.chance(30);
  for (float& value : b) value = draw_value(draw, has_special);
  return b;
}

void expect_scaled_sums(const Problem& problem, const Kernel& kernel, std::int64_t n, Draw& draw,
                        bool is_fused) {
  const std::vector<float> b = drawn_scaled_b(draw, problem, n);
  std::vector<float> c(index(problem.a->rows * n + 1), 77.0F);
  kernel.run({.b = b.data(), .c = c.data(), .n = n});
  for (std::int64_t row = 0; row < problem.a->rows; ++row) {
    for (std::int64_t j = 0; j < n; ++j) {
      const float made = c[index(row * n + j)];
      const float expected = scaled_element(problem, row, b, n, j, is_fused);
      if (std::isnan(made) && std::isnan(expected)) continue;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(made), std::bit_cast<std::uint32_t>(expected))
          << "C[" << row << "][" << j << "] is " << made << ", expected " << expected << "; k "
          << problem.a->cols << ", groups of " << problem.group_scales->columns << ", n " << n;
    }
  }
  ASSERT_EQ(c.back(), 77.0F);
}

Kernel scaled_kernel(const Problem& problem, const std::string& family, HostIsa isa,
                     int threads = 1, const CacheOptions& cache = uncached()) {
  CompileOptions options = options_of(isa);
  options.policy.family = family;
  options.resources.threads = threads;
  return Compiler(options, cache).compile(problem);
}

std::string scaled_refusal(const std::string& family, const Problem& problem) {
  const CompileOptions options = options_of();
  const DeviceInfo device = device_info_of(options.target);
  return why_not(find_family(family), {problem, options, device, {}}).reason();
}

class GroupScalesOf : public testing::TestWithParam<std::tuple<std::string, HostIsa>> {
 protected:
  void SetUp() override {
    if (!Target(isa()).runs_here()) GTEST_SKIP() << "no " << to_string(isa()) << " here";
  }
  static std::string family() { return std::get<0>(GetParam()); }
  static HostIsa isa() { return std::get<1>(GetParam()); }
};

TEST_P(GroupScalesOf, GiveTheBitsOfScalarLoops) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Draw draw(seed);
    Problem problem = drawn_scaled_problem(draw, draw.chance(50) ? DataType::i4 : DataType::i8);
    problem.n = draw.one_of<std::int64_t>({1, 2, 3, 4, 5, 8, 13, 17, 29, 40, 70, 130});

    const Kernel kernel = scaled_kernel(problem, family(), isa(), seed % 3 == 0 ? 3 : 1);

    expect_scaled_sums(problem, kernel, problem.n.value, draw, isa() != HostIsa::generic);
    if (HasFatalFailure()) return;
  }
}

TEST_P(GroupScalesOf, TakeAnyNumberOfColumnsAtRunTime) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Draw draw(seed);
    Problem problem = drawn_scaled_problem(draw, DataType::i4);
    problem.n = Extent::at_run_time(1);

    const Kernel kernel = scaled_kernel(problem, family(), isa());

    for (const std::int64_t n : {0, 1, 2, 5, 17}) {
      expect_scaled_sums(problem, kernel, n, draw, isa() != HostIsa::generic);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(GroupScalesOf, HaveAllValuesOfI4) {
  CsrMatrix a{16, 33, {0}, {}, {}};
  for (int value = -8; value < 8; ++value) {
    if (value != 0) {
      a.col_idxs.push_back(value + 8);
      a.values.push_back(static_cast<float>(value));
    }
    a.col_idxs.push_back(32);
    a.values.push_back(1.0F);
    a.row_ptrs.push_back(a.nnz());
  }
  Problem problem = problem_of(std::move(a), 1);
  problem.numerics.a = DataType::i4;
  problem.group_scales =
      std::make_shared<const GroupScales>(GroupScales{32, std::vector<float>(32, 0.5F)});
  const std::vector<float> b(33, 2.0F);
  std::vector<float> c(16);

  scaled_kernel(problem, family(), isa()).run(b.data(), c.data());

  for (int value = -8; value < 8; ++value) {
    EXPECT_EQ(c[index(value + 8)], static_cast<float>(value) + 1.0F);
  }
}

TEST_P(GroupScalesOf, AddAnEntryOfValueZero) {
  Problem problem = problem_of({1, 2, {0, 2}, {0, 1}, {0.0F, 1.0F}}, 1);
  problem.numerics.a = DataType::i4;
  problem.group_scales = std::make_shared<const GroupScales>(GroupScales{32, {1.0F}});
  const std::vector<float> b = {std::numeric_limits<float>::infinity(), 2.0F};
  float c = 0;

  scaled_kernel(problem, family(), isa()).run(b.data(), &c);

  EXPECT_TRUE(std::isnan(c)) << c;
}

TEST_P(GroupScalesOf, AreReadBackFromACache) {
  const TemporaryDirectory directory;
  Draw draw(3);
  Problem problem = drawn_scaled_problem(draw, DataType::i4);
  problem.n = 2;
  const CacheOptions cache = cached_in(directory.path());
  static_cast<void>(scaled_kernel(problem, family(), isa(), 1, cache));
  GroupScales others = *problem.group_scales;
  others.values.back() *= 2;

  const Kernel again = scaled_kernel(problem, family(), isa(), 1, cache);
  problem.group_scales = std::make_shared<const GroupScales>(others);
  const Kernel other = scaled_kernel(problem, family(), isa(), 1, cache);

  EXPECT_TRUE(again.info().from_cache);
  EXPECT_EQ(again.info().group_columns, others.columns);
  EXPECT_FALSE(other.info().from_cache);
  expect_scaled_sums(problem, other, 2, draw, isa() != HostIsa::generic);
}

TEST_P(GroupScalesOf, WorkInALayerOfHalfFloats) {
  Draw draw(8);
  Problem problem = drawn_scaled_problem(draw, DataType::i8);
  problem.n = 3;
  problem.b.layout = problem.c.layout = Layout::tokens_major;
  problem.epilogue = {.scale = true, .bias = true, .activation = Activation::relu};
  problem.numerics.b = problem.numerics.c = DataType::bf16;
  CompileOptions options = options_of(isa());
  options.policy.family = family();
  options.verify = VerifyMode::full;

  const Kernel kernel = Compiler(options, uncached()).compile(problem);  // throws what is wrong

  EXPECT_EQ(kernel.info().verification.reason, "");
  EXPECT_GT(kernel.info().verification.rows_checked, 0);
}

std::string name_of_scaled_case(
    const testing::TestParamInfo<std::tuple<std::string, HostIsa>>& info) {
  return std::get<0>(info.param) + "_" + std::string(to_string(std::get<1>(info.param)));
}

INSTANTIATE_TEST_SUITE_P(Families, GroupScalesOf,
                         testing::Combine(testing::Values("reference", "csr"),
                                          testing::Values(HostIsa::avx512, HostIsa::avx2,
                                                          HostIsa::generic)),
                         name_of_scaled_case);
INSTANTIATE_TEST_SUITE_P(Windows, GroupScalesOf,
                         testing::Combine(testing::Values("windows", "compact"),
                                          testing::Values(HostIsa::avx512, HostIsa::avx2)),
                         name_of_scaled_case);

/// In `compact` a group without entries is one of the middle, or the last one.
TEST_P(GroupScalesOf, EndInThePositiveZeroOfAGroupWithoutEntries) {
  constexpr float k_least = std::numeric_limits<float>::denorm_min();
  Problem problem = problem_of({3, 96, {0, 1, 2, 3}, {5, 40, 70}, {1, 1, 1}}, 1);
  problem.numerics.a = DataType::i8;
  problem.group_scales =
      std::make_shared<const GroupScales>(GroupScales{32, std::vector<float>(9, 0.25F)});
  const std::vector<float> b(96, -k_least);
  std::vector<float> c(3);

  scaled_kernel(problem, family(), isa()).run(b.data(), c.data());

  // A quarter of the least float rounds to -0, and C of -0 plus a group's +0 is +0. What is rounded
  // before it is added to +0 is +0, too.
  EXPECT_FALSE(std::signbit(c[0]));
  EXPECT_FALSE(std::signbit(c[1]));
  EXPECT_EQ(std::signbit(c[2]), isa() != HostIsa::generic);
}

TEST_P(GroupScalesOf, TakeAMatrixWithoutColumnsOrEntries) {
  for (const std::int64_t cols : {0, 100}) {
    Problem problem = problem_of({2, cols, {0, 0, 0}, {}, {}}, 9);
    problem.numerics.a = DataType::i8;
    problem.group_scales = std::make_shared<const GroupScales>(
        GroupScales{32, std::vector<float>(index(2 * groups_of(cols, 32)), 0.5F)});
    if (!scaled_refusal(family(), problem).empty()) continue;
    const std::vector<float> b(index(cols * 9 + 1), 1.0F);
    std::vector<float> c(18, 77.0F);

    scaled_kernel(problem, family(), isa()).run(b.data(), c.data());

    EXPECT_EQ(c, std::vector<float>(18, 0.0F)) << cols;
  }
}

TEST_P(GroupScalesOf, WorkOverBatchesOfTokens) {
  Draw draw(11);
  Problem problem = drawn_scaled_problem(draw, DataType::i8);
  problem.n = 5;
  problem.b.layout = problem.c.layout = Layout::tokens_major;
  const std::int64_t rows = problem.a->rows;
  const std::int64_t cols = problem.a->cols;
  constexpr std::int64_t k_items = 9;
  const Kernel kernel = scaled_kernel(problem, family(), isa(), 2);
  std::vector<float> b(index(k_items * cols * 5));
  for (float& value : b) value = draw_value(draw, false);
  std::vector<float> c(index(k_items * rows * 5), 77.0F);

  kernel.run({.b = {b.data(), {.distance = cols * 5}},
              .c = {c.data(), {.distance = rows * 5}},
              .batch = k_items});

  for (std::int64_t token = 0; token < k_items * 5; ++token) {
    const std::vector<float> one(b.begin() + token * cols, b.begin() + (token + 1) * cols);
    for (std::int64_t row = 0; row < rows; ++row) {
      const float expected = scaled_element(problem, row, one, 1, 0, isa() != HostIsa::generic);
      ASSERT_EQ(c[index(token * rows + row)], expected) << token << ", " << row;
    }
  }
}

TEST(GroupScales, AreNotForFamiliesThatDoNotKnowThem) {
  Draw draw(5);
  Problem problem = drawn_scaled_problem(draw, DataType::i8);
  problem.n = 64;

  for (const char* family : {"dense", "unrolled"}) {
    EXPECT_NE(scaled_refusal(family, problem).find("scales of groups of columns"),
              std::string::npos)
        << family << ": " << scaled_refusal(family, problem);
  }
}

/// 40 x 100: the first of each `period` elements.
CsrMatrix every_so_many(int period) {
  CsrMatrix a{40, 100, {0}, {}, {}};
  for (int i = 0; i < 4000; ++i) {
    if (i % period == 0) a.col_idxs.push_back(i % 100);
    if (i % 100 == 99) a.row_ptrs.push_back(a.nnz());
  }
  a.values.assign(a.col_idxs.size(), 3.0F);
  return a;
}

TEST(GroupScales, GoToTheFamilyThatSuitsTheColumns) {
  if (!Target(HostIsa::avx2).runs_here()) GTEST_SKIP() << "no avx2 here";
  Problem problem;
  problem.numerics.a = DataType::i8;
  problem.group_scales =
      std::make_shared<const GroupScales>(GroupScales{32, std::vector<float>(160, 0.5F)});
  const auto family_for = [&](std::int64_t n, HostIsa isa) {
    problem.n = n;
    return Compiler(options_of(isa), uncached()).compile(problem).info().family;
  };

  problem.a = every_so_many(5);
  EXPECT_EQ(family_for(3, HostIsa::avx2), "windows");
  EXPECT_EQ(family_for(4, HostIsa::avx2), "compact");
  EXPECT_EQ(family_for(1000, HostIsa::avx2), "compact");
  problem.a = every_so_many(25);
  EXPECT_EQ(family_for(3, HostIsa::avx2), "windows");
  EXPECT_EQ(family_for(4, HostIsa::avx2), "csr");
  problem.a = every_so_many(17);
  EXPECT_EQ(family_for(4, HostIsa::avx2), "windows");
  EXPECT_EQ(family_for(5, HostIsa::avx2), "compact");
  problem.a = every_so_many(25);
  if (!Target(HostIsa::avx512).runs_here()) return;
  EXPECT_EQ(family_for(4, HostIsa::avx512), "windows");
  EXPECT_EQ(family_for(5, HostIsa::avx512), "csr");
  problem.a = every_so_many(17);
  EXPECT_EQ(family_for(4, HostIsa::avx512), "windows");
  EXPECT_EQ(family_for(5, HostIsa::avx512), "compact");
  problem.a = every_so_many(5);
  EXPECT_EQ(family_for(8, HostIsa::avx512), "windows");
  EXPECT_EQ(family_for(9, HostIsa::avx512), "compact");
  EXPECT_EQ(family_for(1000, HostIsa::avx512), "compact");
}

/// The image of a small kernel.
HostArtifact scaled_artifact() {
  Problem problem = problem_of({2, 40, {0, 2, 3}, {0, 39, 5}, {3, -4, 1}}, 1);
  problem.numerics.a = DataType::i8;
  problem.group_scales =
      std::make_shared<const GroupScales>(GroupScales{32, {0.5F, 0.25F, 2.0F, 1.0F}});
  return make_csr_artifact(checked_problem(problem), "csr", HostIsa::generic);
}

std::string scaled_image_refusal(const HostArtifact& artifact) {
  try {
    static_cast<void>(open_image(artifact.image()));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(GroupScales, AreCheckedInAnImage) {
  HostArtifact made = scaled_artifact();
  ASSERT_EQ(scaled_image_refusal(made), "");

  for (const float scale :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    HostArtifact damaged = made;
    damaged.weights.back() = std::bit_cast<std::uint32_t>(scale);
    EXPECT_EQ(scaled_image_refusal(damaged), "program record: csr scales of groups") << scale;
  }
  made.weights.pop_back();
  EXPECT_EQ(scaled_image_refusal(made), "program record: csr size");
}

TEST(GroupScales, AreCheckedInARecord) {
  const HostArtifact made = scaled_artifact();
  const auto found = std::ranges::find(made.program, 32);
  ASSERT_NE(found, made.program.end());
  const auto at = index(found - made.program.begin());

  for (const std::int64_t columns : {0, -32, 16, 33, 64, 256}) {
    HostArtifact damaged = made;
    damaged.program[at] = columns;
    const std::string refusal = scaled_image_refusal(damaged);
    EXPECT_TRUE(refusal == "program record: groups of columns" ||
                refusal == "program record: csr size")
        << columns << ": " << refusal;
  }
  HostArtifact other = made;
  other.program[at - 5] = static_cast<std::int64_t>(DataType::bf16);  // the type of A
  EXPECT_EQ(scaled_image_refusal(other), "program record: groups of columns");
}

}  // namespace
