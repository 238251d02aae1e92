#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "artifact/argument_checks.hpp"
#include "artifact/kernel_impl.hpp"
#include "base/executable_code.hpp"
#include "base/float_buffer.hpp"
#include "kernels/host/object/csr_image.hpp"
#include "kernels/host/unrolled/host_program.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "tests/support/allocation_counter.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/guarded_buffers.hpp"
#include "tests/support/guarded_operands.hpp"
#include "tests/support/sparse_floats.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::CompileOptions;
using spjit::CsrMatrix;
using spjit::HostIsa;
using spjit::HostTile;
using spjit::Kernel;
using spjit::Problem;
using spjit::testing_support::dense_values;
using spjit::testing_support::GuardedBuffers;
using spjit::testing_support::GuardedImage;
using spjit::testing_support::GuardedOperands;
using spjit::testing_support::GuardPlacement;
using spjit::testing_support::hot_options;
using spjit::testing_support::index;
using spjit::testing_support::isa_and_placement;
using spjit::testing_support::IsaAndPlacement;
using spjit::testing_support::k_placements;
using spjit::testing_support::kernel_of;
using spjit::testing_support::open_image;
using spjit::testing_support::options_of;
using spjit::testing_support::problem_of;
using spjit::testing_support::random_matrix;
using spjit::testing_support::reference_product;
using spjit::testing_support::same_bits;
using spjit::testing_support::uncached;

constexpr std::int64_t count(std::int64_t rows, std::int64_t ld) { return rows * ld; }

Kernel compile_uncached(const Problem& problem, const CompileOptions& options = {}) {
  return spjit::Compiler(options, uncached()).compile(problem);
}

TEST(Kernel, RefusesLeadingDimensionsBelowN) {
  const Kernel kernel = compile_uncached(problem_of(random_matrix(6, 5, 0.5), 8));
  std::vector<float> memory(200);
  float* const p = memory.data();

  EXPECT_THROW(kernel.run(p, 7, p + 100, 8), spjit::InvalidArgument);
  EXPECT_THROW(kernel.run(p, 8, p + 100, 7), spjit::InvalidArgument);
  EXPECT_THROW(kernel.run(p, 0, p + 100, 8), spjit::InvalidArgument);
  EXPECT_THROW(kernel.to_panels(p, 7, 5, p), spjit::InvalidArgument);
  EXPECT_THROW(kernel.from_panels(p, 5, p, 7), spjit::InvalidArgument);
}

TEST(Kernel, RefusesLeadingDimensionsWhoseOffsetsWrapAround) {
  constexpr std::int64_t k_floats = std::numeric_limits<std::int64_t>::max() / 4;
  const Kernel kernel = compile_uncached(problem_of(random_matrix(6, 5, 0.5), 8));
  std::vector<float> memory(200);
  float* const p = memory.data();

  EXPECT_THROW(kernel.run(p, k_floats / 5 + 1, p + 100, 8), spjit::InvalidArgument);
  EXPECT_THROW(kernel.run(p, 8, p + 100, k_floats / 6 + 1), spjit::InvalidArgument);
  EXPECT_THROW(kernel.to_panels(p, k_floats / 5 + 1, 5, p), spjit::InvalidArgument);
  EXPECT_THROW(kernel.from_panels(p, 5, p, k_floats / 5 + 1), spjit::InvalidArgument);
  try {
    kernel.run(p, std::numeric_limits<std::int64_t>::max(), p + 100, 8);
    FAIL() << "rows of B 2^65 bytes apart were taken";
  } catch (const spjit::InvalidArgument& error) {
    EXPECT_EQ(std::string(error.what()),
              "ldb is 9223372036854775807; expected at most 461168601842738790, of 5 rows or "
              "tokens");
  }
}

TEST(Kernel, RefusesPanelsOfMoreRowsThanAMatrixHas) {
  const Kernel kernel = compile_uncached(problem_of(random_matrix(6, 5, 0.5), 8));
  constexpr std::int64_t k_most = (std::int64_t{1} << 31) - 1;

  EXPECT_EQ(kernel.panel_stride(k_most), k_most * kernel.info().panel_columns + 16);
  for (const std::int64_t rows : {std::int64_t{-1}, k_most + 1}) {
    EXPECT_THROW(static_cast<void>(kernel.panel_elements(rows)), spjit::InvalidArgument);
    EXPECT_THROW(static_cast<void>(kernel.panel_stride(rows)), spjit::InvalidArgument);
    EXPECT_THROW(kernel.to_panels(nullptr, 8, rows, nullptr), spjit::InvalidArgument);
    EXPECT_THROW(kernel.from_panels(nullptr, rows, nullptr, 8), spjit::InvalidArgument);
  }
}

TEST(Kernel, RefusesPanelsWhoseOffsetsWrapAround) {
  constexpr std::int64_t k_most = (std::int64_t{1} << 31) - 1;
  const CsrMatrix wide{1, k_most, {0, 1}, {7}, {1.0F}};
  CompileOptions options = hot_options();
  options.policy.family = "csr";
  const Kernel kernel = compile_uncached(problem_of(wide, k_most), options);
  std::vector<float> memory(16);

  EXPECT_THROW(kernel.run_panels(memory.data(), memory.data()), spjit::InvalidArgument);
}

TEST(Kernel, RefusesPanelsOfARunTimeNWhoseOffsetsWrapAround) {
  constexpr std::int64_t k_most = std::numeric_limits<std::int64_t>::max();
  Problem problem = problem_of(random_matrix(6, 5, 0.5), 8);
  problem.n.runtime = true;
  const Kernel kernel = compile_uncached(problem);
  std::vector<float> memory(16);
  const auto run = [&](std::int64_t n) {
    kernel.run({.b = {memory.data(), {.layout = spjit::Layout::panel_major}},
                .c = {memory.data(), {.layout = spjit::Layout::panel_major}},
                .n = n});
  };

  // Panels of C: 6 rows of 16 floats, and 16 more.
  const std::int64_t most_floats = k_most / 4;
  for (const std::int64_t n :
       {most_floats / 112 * 16 + 1, (k_most >> 3) + 2, k_most - 16, k_most}) {
    EXPECT_THROW(run(n), spjit::InvalidArgument) << n;
  }
}

TEST(Kernel, OfTheHostHasNoBlocks) {
  const Kernel kernel = compile_uncached(problem_of(random_matrix(6, 5, 0.5), 8));

  EXPECT_THROW(static_cast<void>(kernel.driver_active_blocks()), spjit::InvalidArgument);
}

TEST(Kernel, RefusesALayoutThatThereIsNot) {
  const Kernel kernel = compile_uncached(problem_of(random_matrix(6, 5, 0.5), 8));
  std::vector<float> memory(200);

  for (const int layout : {3, 9, 255}) {
    const auto wrong = static_cast<spjit::Layout>(layout);
    spjit::Arguments arguments{.b = memory.data(), .c = memory.data() + 100};
    EXPECT_NO_THROW(kernel.run(arguments));
    arguments.b.layout = wrong;
    EXPECT_THROW(kernel.run(arguments), spjit::InvalidArgument);
    arguments.b.layout = {};
    arguments.c.layout = wrong;
    EXPECT_THROW(kernel.run(arguments), spjit::InvalidArgument);
  }
}

TEST(Kernel, RefusesNullPointersAndSaysWhatIsExpected) {
  const Kernel kernel = compile_uncached(problem_of(random_matrix(6, 5, 0.5), 8));
  std::vector<float> memory(64);

  EXPECT_THROW(kernel.run(memory.data(), nullptr), spjit::InvalidArgument);
  EXPECT_THROW(kernel.run_panels(nullptr, memory.data()), spjit::InvalidArgument);
  EXPECT_THROW(kernel.run_panels(memory.data(), nullptr), spjit::InvalidArgument);
  try {
    kernel.run(nullptr, memory.data());
    FAIL() << "a null B was taken";
  } catch (const spjit::InvalidArgument& error) {
    EXPECT_EQ(std::string(error.what()), "b is null; expected an array of [5 x 8] elements");
  }
}

TEST(Kernel, PanelsTakeOnlyRowsAndPointersThatThereCanBe) {
  const Kernel kernel = compile_uncached(problem_of(random_matrix(12, 10, 0.5), 8));
  std::vector<float> dense(index(10 * 8), 1.0F);
  std::vector<float> panels(index(kernel.panel_elements(10)));

  for (const std::int64_t rows : {std::int64_t{-1}, std::int64_t{1} << 31}) {
    EXPECT_THROW(static_cast<void>(kernel.panel_elements(rows)), spjit::InvalidArgument);
    EXPECT_THROW(static_cast<void>(kernel.panel_stride(rows)), spjit::InvalidArgument);
    EXPECT_THROW(kernel.to_panels(dense.data(), 8, rows, panels.data()), spjit::InvalidArgument);
    EXPECT_THROW(kernel.from_panels(panels.data(), rows, dense.data(), 8), spjit::InvalidArgument);
  }
  EXPECT_THROW(kernel.to_panels(nullptr, 8, 10, panels.data()), spjit::InvalidArgument);
  EXPECT_THROW(kernel.to_panels(dense.data(), 8, 10, nullptr), spjit::InvalidArgument);
  EXPECT_THROW(kernel.from_panels(nullptr, 10, dense.data(), 8), spjit::InvalidArgument);
  EXPECT_THROW(kernel.from_panels(panels.data(), 10, nullptr, 8), spjit::InvalidArgument);
  EXPECT_NO_THROW(kernel.from_panels(nullptr, 0, nullptr, 8));
}

TEST(Kernel, RefusesNamesThatCannotNameAFunction) {
  const Kernel kernel = compile_uncached(problem_of(random_matrix(6, 5, 0.5), 8));
  for (const std::string name :
       {"", "1st", "a-b", "a b", "a.b", "\xC3\xA4", "int", "namespace", "f(){};g"}) {
    EXPECT_THROW(static_cast<void>(kernel.object(name)), spjit::InvalidArgument) << name;
    EXPECT_THROW(static_cast<void>(kernel.aot_header(name)), spjit::InvalidArgument) << name;
  }
}

/// The kernels' own buffers lie against pages that cannot be touched.
class KernelOnIsa : public testing::TestWithParam<IsaAndPlacement> {
 protected:
  void SetUp() override {
    if (!spjit::testing_support::compiles_and_runs(isa())) {
      GTEST_SKIP() << "no " << to_string(isa()) << " in this build or on this CPU";
    }
  }
  static HostIsa isa() { return std::get<HostIsa>(GetParam()); }
  static GuardPlacement placement() { return std::get<GuardPlacement>(GetParam()); }

 private:
  GuardedBuffers guarded_{placement()};
};

TEST_P(KernelOnIsa, PanelsGiveTheBitsOfRowMajorOperands) {
  const CsrMatrix matrix = random_matrix(40, 60, 0.8);
  for (const std::int64_t n : {1, 15, 16, 33, 100}) {
    for (const char* family : {"csr", ""}) {
      CompileOptions options = options_of(isa());
      options.policy.family = family;
      Problem problem = problem_of(matrix, n);
      problem.panel_columns = spjit::lanes_of(isa()) * 2;
      const Kernel kernel = compile_uncached(problem, options);
      EXPECT_EQ(kernel.info().panel_columns, *problem.panel_columns) << kernel.info().family;
      const std::vector<float> b = dense_values(60 * n);
      std::vector<float> c(index(40 * n));
      std::vector<float> from_panels(c.size());
      std::vector<float> b_panels(index(kernel.panel_elements(60)));
      std::vector<float> c_panels(index(kernel.panel_elements(40)), -7.0F);

      kernel.run(b.data(), c.data());
      kernel.to_panels(b.data(), n, 60, b_panels.data());
      kernel.run_panels(b_panels.data(), c_panels.data());
      kernel.from_panels(c_panels.data(), 40, from_panels.data(), n);

      EXPECT_TRUE(same_bits(c, from_panels)) << "n " << n << " " << kernel.info().family;
      EXPECT_TRUE(same_bits(c, reference_product(matrix, isa(), b.data(), n, n)));
    }
  }
}

TEST_P(KernelOnIsa, PanelsOfOneLayerAreTheInputOfTheNext) {
  const std::int64_t n = 37;
  const CsrMatrix first = random_matrix(48, 30, 0.7, 3);
  const CsrMatrix second = random_matrix(10, 48, 0.6, 4);
  Problem one_problem = problem_of(first, n);
  Problem two_problem = problem_of(second, n);
  one_problem.panel_columns = two_problem.panel_columns = spjit::lanes_of(isa());
  const Kernel one = compile_uncached(one_problem, options_of(isa()));
  const Kernel two = compile_uncached(two_problem, options_of(isa()));
  ASSERT_EQ(one.info().panel_columns, two.info().panel_columns);
  const std::vector<float> b = dense_values(30 * n);
  std::vector<float> input(index(one.panel_elements(30)));
  std::vector<float> hidden(index(one.panel_elements(48)));
  std::vector<float> output(index(two.panel_elements(10)));
  std::vector<float> c(index(10 * n));

  one.to_panels(b.data(), n, 30, input.data());
  one.run_panels(input.data(), hidden.data());
  two.run_panels(hidden.data(), output.data());
  two.from_panels(output.data(), 10, c.data(), n);

  const std::vector<float> between = reference_product(first, isa(), b.data(), n, n);
  EXPECT_TRUE(same_bits(c, reference_product(second, isa(), between.data(), n, n)));
}

TEST_P(KernelOnIsa, TakesAnyLeadingDimensionsWhateverItWasCompiledFor) {
  const CsrMatrix matrix = random_matrix(40, 60, 0.5);
  for (const std::int64_t compiled_ldb : {0, 64, 80}) {
    Problem problem = problem_of(matrix, 64);
    problem.b.leading_dimension = compiled_ldb;
    const Kernel kernel = compile_uncached(problem, options_of(isa()));
    for (const std::int64_t ldb : {64, 65, 80, 127}) {
      const GuardedOperands operands(matrix, {64, ldb, 70}, placement());

      kernel.run(operands.b(), ldb, operands.c(), 70);

      EXPECT_TRUE(operands.holds_product(matrix, isa())) << operands.describe();
    }
  }
}

TEST_P(KernelOnIsa, ReadsBInPlaceWithNNotAMultipleOfThePanel) {
  const CsrMatrix matrix = random_matrix(40, 60, 0.5);
  for (const std::int64_t n : {32, 33, 47, 63}) {
    HostTile tile;
    tile.m1 = 4;
    tile.nv = 2;
    tile.pack_b = false;
    tile.form = spjit::WeightForm::register_;
    const std::int64_t ldb = n + 9;
    const Kernel kernel = kernel_of(matrix, tile, isa(), n, ldb);
    const GuardedOperands operands(matrix, {n, ldb, n}, placement());

    kernel.run(operands.b(), ldb, operands.c(), n);

    EXPECT_TRUE(operands.holds_product(matrix, isa())) << n;
  }
}

TEST_P(KernelOnIsa, AKernelThatReadsInPlaceTakesNoPanelsAndSaysWhatToDo) {
  HostTile tile;
  tile.m1 = 4;
  tile.pack_b = false;
  const Kernel kernel = kernel_of(random_matrix(8, 8, 0.5), tile, isa(), 64, 64);
  std::vector<float> b(index(kernel.panel_elements(8)));
  std::vector<float> c(index(kernel.panel_elements(8)));

  try {
    kernel.run_panels(b.data(), c.data());
    FAIL() << "panels were taken";
  } catch (const spjit::InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("Problem::panel_columns"), std::string::npos);
  }
}

TEST_P(KernelOnIsa, AllocatesNothingInSteadyState) {
  const CsrMatrix matrix = random_matrix(60, 900, 0.9);
  for (const int threads : {1, 2}) {
    for (const std::int64_t ldb : {64, 72}) {
      CompileOptions options = options_of(isa());
      options.resources.threads = threads;
      const Kernel kernel = compile_uncached(problem_of(matrix, 64), options);
      const std::vector<float> b = dense_values(900 * ldb);
      std::vector<float> c(index(count(60, 64)));
      for (int i = 0; i < 3; ++i) kernel.run(b.data(), ldb, c.data(), 64);
      const std::int64_t before = spjit::testing_support::allocations_so_far();

      for (int i = 0; i < 20; ++i) kernel.run(b.data(), ldb, c.data(), 64);

      EXPECT_EQ(spjit::testing_support::allocations_so_far(), before)
          << "threads " << threads << " ldb " << ldb;
    }
  }
}

/// How often a kernel that reads B in place allocates in a run whose B begins `offset` floats
/// behind a cache line: once where it copies B.
std::int64_t allocations_of_a_run(const CsrMatrix& matrix, HostIsa isa, std::int64_t offset) {
  constexpr std::int64_t k_n = 64;
  HostTile tile = spjit::testing_support::host_tile(4);
  tile.pack_b = false;
  const Kernel kernel = kernel_of(matrix, tile, isa, k_n, k_n);
  spjit::FloatBuffer b(index(matrix.cols * k_n + 16));
  std::ranges::copy(dense_values(matrix.cols * k_n), b.data() + offset);
  std::vector<float> c(index(matrix.rows * k_n));

  const std::int64_t before = spjit::testing_support::allocations_so_far();
  kernel.run(b.data() + offset, c.data());
  const std::int64_t allocations = spjit::testing_support::allocations_so_far() - before;

  EXPECT_TRUE(same_bits(c, reference_product(matrix, isa, b.data() + offset, k_n, k_n)));
  return allocations;
}

TEST_P(KernelOnIsa, CopiesABThatStraddlesCacheLinesWhereItIsReadOften) {
  const CsrMatrix often = random_matrix(64, 160, 0.5);
  const CsrMatrix seldom = random_matrix(64, 160, 0.9);
  const CsrMatrix few_rows = random_matrix(64, 100, 0.5);

  EXPECT_EQ(allocations_of_a_run(often, isa(), 0), 0);
  EXPECT_EQ(allocations_of_a_run(often, isa(), 4) > 0, isa() != HostIsa::generic);
  EXPECT_EQ(allocations_of_a_run(seldom, isa(), 4), 0);
  EXPECT_EQ(allocations_of_a_run(few_rows, isa(), 4), 0);
}

// 272 MB of it, of which no page is there before it is read.
TEST_P(KernelOnIsa, CopiesNoBThatThereMayBeNoRoomForTwice) {
  constexpr std::int64_t k_n = 1 << 16;
  constexpr std::int64_t k_cols = 1040;
  HostTile tile = spjit::testing_support::host_tile(4);
  tile.pack_b = false;
  const Kernel kernel = kernel_of(random_matrix(16, k_cols, 0), tile, isa(), k_n, k_n);
  const spjit::testing_support::SparseFloats b(k_cols * k_n + 4);
  if (!b.mapped()) GTEST_SKIP() << "no address space";
  std::vector<float> c(index(16 * k_n), -7.0F);

  for (const std::int64_t offset : {0, 4}) {
    const std::int64_t before = spjit::testing_support::allocations_so_far();
    kernel.run(b.data() + offset, c.data());
    EXPECT_EQ(spjit::testing_support::allocations_so_far(), before) << offset;
  }

  EXPECT_TRUE(std::ranges::all_of(c, [](float value) { return value == 0; }));
}

// Against the end of a page B straddles lines unless its floats fill them.
TEST_P(KernelOnIsa, CopiesOfBHaveNothingThatIsNotB) {
  const CsrMatrix matrix = random_matrix(64, 160, 0.5);
  HostTile tile = spjit::testing_support::host_tile(4, 2);
  tile.pack_b = false;
  for (const std::int64_t ldb : {48, 64}) {
    const Kernel kernel = kernel_of(matrix, tile, isa(), 47, ldb);
    const GuardedOperands operands(matrix, {47, ldb, 47}, placement());

    kernel.run(operands.b(), ldb, operands.c(), 47);

    EXPECT_TRUE(operands.holds_product(matrix, isa())) << ldb;
  }
}

TEST_P(KernelOnIsa, TakesPanelsThatStraddleCacheLines) {
  const CsrMatrix matrix = random_matrix(64, 160, 0.5);
  for (const int threads : {1, 3}) {
    CompileOptions options = options_of(isa());
    options.resources.threads = threads;
    options.policy.family = "unrolled";
    Problem problem = problem_of(matrix, 75);
    problem.panel_columns = spjit::lanes_of(isa());
    const Kernel kernel = compile_uncached(problem, options);
    const std::vector<float> b = dense_values(count(160, 75));
    spjit::FloatBuffer b_panels(index(kernel.panel_elements(160) + 16));
    std::vector<float> c_panels(index(kernel.panel_elements(64)));
    std::vector<float> c(index(count(64, 75)));

    kernel.to_panels(b.data(), 75, 160, b_panels.data());
    kernel.run_panels(b_panels.data(), c_panels.data());
    kernel.to_panels(b.data(), 75, 160, b_panels.data() + 3);
    const std::int64_t before = spjit::testing_support::allocations_so_far();
    kernel.run_panels(b_panels.data() + 3, c_panels.data());
    const std::int64_t allocations = spjit::testing_support::allocations_so_far() - before;
    kernel.from_panels(c_panels.data(), 64, c.data(), 75);

    EXPECT_EQ(allocations > 0, isa() != HostIsa::generic);  // for a copy, besides the workspace
    EXPECT_TRUE(same_bits(c, reference_product(matrix, isa(), b.data(), 75, 75))) << threads;
  }
}

TEST_P(KernelOnIsa, ManyThreadsRunOneKernelAtOnce) {
  const CsrMatrix matrix = random_matrix(60, 900, 0.9);
  for (const int threads : {1, 3}) {
    CompileOptions options = options_of(isa());
    options.resources.threads = threads;
    const Kernel kernel = compile_uncached(problem_of(matrix, 40), options);
    const std::vector<float> b = dense_values(count(900, 40));
    const std::vector<float> expected = reference_product(matrix, isa(), b.data(), 40, 40);
    std::vector<std::vector<float>> results(8, std::vector<float>(index(count(60, 40)), -7.0F));
    std::vector<std::thread> callers;

    for (std::vector<float>& c : results) {
      callers.emplace_back([&kernel, &b, &c] {
        for (int i = 0; i < 10; ++i) kernel.run(b.data(), c.data());
      });
    }
    for (std::thread& caller : callers) caller.join();

    for (const std::vector<float>& c : results) EXPECT_TRUE(same_bits(c, expected));
  }
}

Kernel link_image(const spjit::HostImage& image, const std::byte* executable, int threads) {
  return Kernel::link({executable, image.text.size(), image.weights.data(), image.weights.size(),
                       image.program.data(), image.program.size()},
                      threads);
}

TEST_P(KernelOnIsa, ALinkedObjectIsTheSameKernel) {
  const CsrMatrix matrix = random_matrix(40, 60, 0.8);
  const Kernel kernel = compile_uncached(problem_of(matrix, 50), options_of(isa()));
  const std::vector<std::byte> object = kernel.object("layer");
  const spjit::HostImage image = spjit::read_object(object, "layer");
  const spjit::ExecutableCode code(image.text);
  const std::vector<float> b = dense_values(count(60, 50));
  std::vector<float> c(index(count(40, 50)));

  for (const int threads : {1, 2}) {
    const Kernel linked = link_image(image, code.code().data(), threads);
    linked.run(b.data(), c.data());

    EXPECT_EQ(linked.info().tile, kernel.info().tile);
    EXPECT_EQ(linked.info().threads, threads);
    EXPECT_EQ(linked.info().nnz, matrix.nnz());
    EXPECT_TRUE(same_bits(c, reference_product(matrix, isa(), b.data(), 50, 50)));
  }
}

/// An artifact of every kind and form that is there for an instruction set.
std::vector<spjit::HostArtifact> artifacts_of(const CsrMatrix& matrix, HostIsa isa,
                                              std::int64_t n) {
  std::vector<spjit::HostArtifact> artifacts = {
      spjit::make_csr_artifact(problem_of(matrix, n), "csr", isa),
      spjit::make_csr_artifact(problem_of(matrix, n), "reference", isa)};
  for (const spjit::WeightForm form :
       {spjit::WeightForm::broadcast, spjit::WeightForm::register_, spjit::WeightForm::balanced}) {
    for (const std::int64_t k_block : {0, 25}) {
      HostTile tile = spjit::testing_support::host_tile(5, 2, k_block);
      tile.form = form;
      tile.memory_rows = k_block == 0 ? 0 : 2;
      const auto grouping = spjit::group_rows(matrix, tile.m1, spjit::ReorderAlgorithm::similarity);
      artifacts.push_back(spjit::make_unrolled_artifact(
          spjit::build_plan(matrix, grouping, k_block > 0 ? k_block : matrix.cols), tile,
          problem_of(matrix, n), isa));
    }
  }
  return artifacts;
}

TEST_P(KernelOnIsa, ReadsNothingBesideItsWeightsAndItsOperands) {
  const CsrMatrix matrix = random_matrix(43, 61, 0.7);
  for (const std::int64_t n : {3, 7, 16, 33, 61}) {
    for (const spjit::HostArtifact& artifact : artifacts_of(matrix, isa(), n)) {
      const GuardedImage guarded(artifact.image(), placement());
      const GuardedOperands operands(matrix, {n, n, n}, placement());

      const spjit::LoadedKernel kernel = open_image(guarded.image());
      kernel.executable->run(spjit::checked_arguments(
          kernel.info, {.b = {operands.b(), {.ld = n}}, .c = {operands.c(), {.ld = n}}, .n = n}));

      EXPECT_TRUE(operands.holds_product(matrix, isa()))
          << kernel.info.family << " " << kernel.info.tile << " n " << n;
    }
  }
}

TEST_P(KernelOnIsa, TakesItsBuffersFromGuardedMemoryHere) {
  const std::int64_t before = GuardedBuffers::made();
  const Kernel kernel =
      compile_uncached(problem_of(random_matrix(40, 600, 0.5), 40), options_of(isa()));
  const std::vector<float> b = dense_values(count(600, 50));
  std::vector<float> c(index(count(40, 40)));

  kernel.run(b.data(), 50, c.data(), 40);

  EXPECT_GT(GuardedBuffers::made(), before);
}

INSTANTIATE_TEST_SUITE_P(AllIsas, KernelOnIsa,
                         testing::Combine(testing::Values(HostIsa::avx512, HostIsa::avx2,
                                                          HostIsa::generic),
                                          testing::ValuesIn(k_placements)),
                         isa_and_placement);

/// "" if the image loads and is linked, else what both said.
std::string said_of(const spjit::HostImage& image) {
  std::string said;
  try {
    static_cast<void>(open_image(image));
  } catch (const spjit::NotSupported& error) {
    said = error.what();
  }
  try {
    static_cast<void>(link_image(image, image.text.data(), 1));
    return said.empty() ? "" : "linked, though not loaded";
  } catch (const spjit::NotSupported& error) {
    return said == error.what() ? said : "linking says something else than loading";
  }
}

// tests/cpu runs this on CPUs that lack some of the instruction sets.
TEST(KernelOfAnotherCpu, IsRefusedInOneLineWhenItIsLoaded) {
  const CsrMatrix matrix = random_matrix(20, 30, 0.7);
  for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2, HostIsa::generic}) {
    const auto artifact = spjit::make_csr_artifact(problem_of(matrix, 9), "csr", isa);

    const std::string refusal = said_of(artifact.image());

    if (spjit::Target(isa).runs_here()) {
      EXPECT_EQ(refusal, "");
    } else {
      EXPECT_TRUE(
          refusal.starts_with("the kernel is for host-" + to_string(isa) + ", which this CPU ("))
          << refusal;
      EXPECT_EQ(refusal.find('\n'), std::string::npos);
    }
  }
}

/// Closes the library it holds.
struct CloseLibrary {
  void operator()(void* library) const noexcept { ::dlclose(library); }
};

TEST(KernelObject, LinksIntoASharedLibraryWithTheSystemsLinker) {
  const CsrMatrix matrix = random_matrix(40, 60, 0.8);
  const Kernel kernel = compile_uncached(problem_of(matrix, 50));
  const spjit::testing_support::TemporaryDirectory directory;
  const std::string object = (directory.path() / "layer.o").string();
  const std::string library = (directory.path() / "layer.so").string();
  const std::vector<std::byte> bytes = kernel.object("layer");
  std::ofstream(object, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  const std::string command = "cc -shared -o " + library + " " + object;
  if (std::system("command -v cc > /dev/null") != 0) GTEST_SKIP() << "no C compiler to link with";

  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  const std::unique_ptr<void, CloseLibrary> handle(::dlopen(library.c_str(), RTLD_NOW));
  ASSERT_NE(handle, nullptr) << ::dlerror();
  const spjit::HostImage image = spjit::read_object(bytes, "layer");
  const auto symbol = [&](const char* name) { return ::dlsym(handle.get(), name); };
  const Kernel linked =
      Kernel::link({symbol("spjit_layer_text"), image.text.size(), symbol("spjit_layer_weights"),
                    image.weights.size(), symbol("spjit_layer_program"), image.program.size()});
  const std::vector<float> b = dense_values(count(60, 50));
  std::vector<float> c(index(count(40, 50)));
  linked.run(b.data(), c.data());

  EXPECT_TRUE(
      same_bits(c, reference_product(matrix, linked.info().target.isa(), b.data(), 50, 50)));
}

TEST(KernelObject, TheHeaderNamesTheSymbolsAndSizesOfTheObject) {
  const Kernel kernel = compile_uncached(problem_of(random_matrix(40, 60, 0.8), 50));
  const std::vector<std::byte> object = kernel.object("layer");
  const spjit::HostImage image = spjit::read_object(object, "layer");

  const std::string header = kernel.aot_header("layer");

  for (const std::string& part :
       {std::string("#include <spjit/kernel.hpp>"), std::string("spjit_layer_text[]"),
        std::string("spjit_layer_weights[]"),
        "spjit_layer_program[" + std::to_string(image.program.size()) + "]",
        "spjit_layer_text, " + std::to_string(image.text.size()),
        "spjit_layer_weights, " + std::to_string(image.weights.size()),
        std::string("spjit::Kernel layer(int threads = 1)")}) {
    EXPECT_NE(header.find(part), std::string::npos) << part;
  }
}

TEST(KernelObject, RefusesNullPartsAndThreadsThatThereCannotBe) {
  const Kernel::LinkedObject nothing{.text_bytes = 64, .weights_bytes = 4, .program_bytes = 8};

  EXPECT_THROW(static_cast<void>(Kernel::link(nothing)), spjit::InvalidArgument);
  EXPECT_THROW(static_cast<void>(Kernel::link({}, -1)), spjit::InvalidArgument);
  EXPECT_THROW(static_cast<void>(Kernel::link({}, 4097)), spjit::InvalidArgument);
}

TEST(KernelObject, RefusesAnotherProgramVersionAndDamage) {
  const Kernel kernel = compile_uncached(problem_of(random_matrix(40, 60, 0.8), 50));
  const std::vector<std::byte> object = kernel.object("layer");
  const spjit::HostImage image = spjit::read_object(object, "layer");
  std::vector<std::byte> program(image.program.begin(), image.program.end());
  const auto link = [&] {
    static_cast<void>(Kernel::link({image.text.data(), image.text.size(), image.weights.data(),
                                    image.weights.size(), program.data(), program.size()}));
  };

  program[8] ^= std::byte{0xFF};
  EXPECT_THROW(link(), spjit::Error);
  program.pop_back();
  EXPECT_THROW(link(), spjit::Error);
  program.clear();
  EXPECT_THROW(link(), spjit::Error);
}

class Avx512WindowsRun : public testing::Test {
 protected:
  void SetUp() override {
    if (!spjit::Target(HostIsa::avx512).runs_here()) GTEST_SKIP() << "no AVX-512 here";
  }
};

TEST_F(Avx512WindowsRun, TakesAnyStridesAndThreads) {
  for (const auto& [rows, cols] : {std::pair{300L, 700L}, {40L, 20L}, {1L, 1L}}) {
    const CsrMatrix matrix = random_matrix(rows, cols, 0.9);
    for (const std::int64_t n : {1, 2, 3, 4}) {
      for (const int threads : {1, 3}) {
        CompileOptions options = options_of(HostIsa::avx512);
        options.policy.family = "windows";
        options.resources.threads = threads;
        const GuardedBuffers guarded(GuardPlacement::at_end);
        const Kernel kernel = compile_uncached(problem_of(matrix, n), options);
        ASSERT_EQ(kernel.info().family, "windows") << kernel.info().reason;
        for (const std::int64_t ldb : {n, n + 5}) {
          for (const GuardPlacement placement : k_placements) {
            const GuardedOperands operands(matrix, {n, ldb, ldb + 1}, placement);

            kernel.run(operands.b(), ldb, operands.c(), ldb + 1);

            EXPECT_TRUE(operands.holds_product(matrix, HostIsa::avx512))
                << rows << " x " << cols << ", " << operands.describe() << ", threads " << threads;
          }
        }
      }
    }
  }
}

TEST_F(Avx512WindowsRun, GivesTheSameWhereverBLies) {
  const CsrMatrix matrix = random_matrix(100, 320, 0.9);
  const Kernel kernel = compile_uncached(problem_of(matrix, 1), options_of(HostIsa::avx512));
  const std::vector<float> b = dense_values(320);
  const std::vector<float> expected = reference_product(matrix, HostIsa::avx512, b.data(), 1, 1);
  std::vector<float> memory(320 + 32);
  for (std::ptrdiff_t at = 0; at < 32; ++at) {  // two of them 64-byte aligned
    std::ranges::copy(b, memory.begin() + at);
    std::vector<float> c(100);

    kernel.run(memory.data() + at, c.data());

    EXPECT_TRUE(same_bits(c, expected)) << at;
  }
}

TEST_F(Avx512WindowsRun, TakesPanelsToo) {
  const CsrMatrix matrix = random_matrix(60, 80, 0.8);
  const Kernel kernel = compile_uncached(problem_of(matrix, 2), options_of(HostIsa::avx512));
  const std::int64_t width = kernel.info().panel_columns;
  const std::vector<float> b = dense_values(count(80, 2));
  std::vector<float> b_panels(index(kernel.panel_elements(80)));
  for (std::size_t row = 0; row < 80; ++row) {
    std::copy_n(b.begin() + static_cast<std::ptrdiff_t>(2 * row), 2,
                b_panels.begin() + static_cast<std::ptrdiff_t>(row) * width);
  }
  std::vector<float> c_panels(index(kernel.panel_elements(60)));

  kernel.run_panels(b_panels.data(), c_panels.data());

  std::vector<float> c;
  for (std::int64_t row = 0; row < 60; ++row) {
    c.insert(c.end(), c_panels.begin() + row * width, c_panels.begin() + row * width + 2);
  }
  EXPECT_TRUE(same_bits(c, reference_product(matrix, HostIsa::avx512, b.data(), 2, 2)));
}

TEST_F(Avx512WindowsRun, AllocatesNothingOnceItHasRun) {
  const CsrMatrix matrix = random_matrix(60, 80, 0.8);
  const Kernel kernel = compile_uncached(problem_of(matrix, 2), options_of(HostIsa::avx512));
  const std::vector<float> b = dense_values(count(80, 2));
  std::vector<float> c(index(count(60, 2)));
  kernel.run(b.data(), c.data());

  const std::int64_t before = spjit::testing_support::allocations_so_far();
  for (int i = 0; i < 100; ++i) kernel.run(b.data(), c.data());

  EXPECT_EQ(spjit::testing_support::allocations_so_far(), before);
}

TEST_F(Avx512WindowsRun, LinksToo) {
  const CsrMatrix matrix = random_matrix(40, 60, 0.8);
  const Kernel kernel = compile_uncached(problem_of(matrix, 1), options_of(HostIsa::avx512));
  const std::vector<std::byte> object = kernel.object("layer");
  const spjit::HostImage image = spjit::read_object(object, "layer");
  const std::vector<float> b = dense_values(60);
  std::vector<float> c(40);

  const Kernel linked = link_image(image, image.text.data(), 1);
  linked.run(b.data(), c.data());

  EXPECT_EQ(linked.info().family, "windows");
  EXPECT_TRUE(same_bits(c, reference_product(matrix, HostIsa::avx512, b.data(), 1, 1)));
}

TEST(KernelObject, ACsrKernelLinksToo) {
  const CsrMatrix matrix = random_matrix(40, 60, 0.8);
  CompileOptions options = hot_options();
  options.policy.family = "csr";
  const Kernel kernel = compile_uncached(problem_of(matrix, 50), options);
  const std::vector<std::byte> object = kernel.object("layer");
  const spjit::HostImage image = spjit::read_object(object, "layer");
  const std::vector<float> b = dense_values(count(60, 50));
  std::vector<float> c(index(count(40, 50)));

  const Kernel linked = link_image(image, image.text.data(), 1);
  linked.run(b.data(), c.data());

  EXPECT_EQ(linked.info().family, "csr");
  EXPECT_TRUE(
      same_bits(c, reference_product(matrix, linked.info().target.isa(), b.data(), 50, 50)));
}

}  // namespace
