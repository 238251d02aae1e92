// Layers at the edges: matrices without entries, special values, batches, threads.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/activations.hpp"
#include "tests/support/allocation_counter.hpp"
#include "tests/support/guarded_buffers.hpp"
#include "tests/support/layer_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

constexpr float k_inf = std::numeric_limits<float>::infinity();
constexpr float k_not_a_number = std::numeric_limits<float>::quiet_NaN();

/// Every kind of family: one that copies B, code, one that reads A, the slow one.
class LayerEdges : public testing::TestWithParam<std::tuple<const char*, HostIsa>> {
 protected:
  void SetUp() override {
    const bool compiles = family() != "unrolled" || compiles_and_runs(isa());
    if (!Target(isa()).runs_here() || !compiles) GTEST_SKIP() << "no " << to_string(isa());
  }
  static std::string family() { return std::get<0>(GetParam()); }
  static HostIsa isa() { return std::get<1>(GetParam()); }
  /// What all families take.
  static constexpr std::int64_t k_n = 3;

  static Problem problem(const CsrMatrix& matrix, const Epilogue& epilogue, std::int64_t n = k_n) {
    Problem problem = problem_of(matrix, n);
    problem.b.layout = problem.c.layout = Layout::tokens_major;
    problem.epilogue = epilogue;
    return problem;
  }
  /// The dense family leaves out what would be mostly zeros.
  static bool takes(const Problem& problem) {
    const CompileOptions options = options_of(isa());
    const DeviceInfo device = device_info_of(options.target);
    return family() != "dense" || !why_not(find_family("dense"), {problem, options, device, {}});
  }
  static LayerKernels kernels(const CsrMatrix& matrix, const Epilogue& epilogue, int threads = 1) {
    return {problem(matrix, epilogue), family(), isa(), threads};
  }

 private:
  GuardedBuffers guarded_{GuardPlacement::at_start};
};

/// All layouts but panels, and panels where a kernel has them.
std::vector<LayerShape> shapes_of(const Kernel& kernel, std::int64_t n) {
  std::vector<LayerShape> shapes;
  for (const Layout b : {Layout::row_major, Layout::panel_major, Layout::tokens_major}) {
    for (const Layout c : {Layout::row_major, Layout::panel_major, Layout::tokens_major}) {
      const bool has_panels = b == Layout::panel_major || c == Layout::panel_major;
      if (!has_panels || kernel.info().panel_columns > 0) {
        shapes.push_back({.n = n, .b_layout = b, .c_layout = c});
      }
    }
  }
  return shapes;
}

const Epilogue k_all{.scale = true, .bias = true, .residual = true, .activation = Activation::silu};

TEST_P(LayerEdges, RowsWithoutEntriesHaveTheirEpilogue) {
  const std::vector<std::pair<std::string, CsrMatrix>> matrices = {
      {"no entries", {5, 4, {0, 0, 0, 0, 0, 0}, {}, {}}},
      {"no columns", {3, 0, {0, 0, 0, 0}, {}, {}}},
      {"one row", {1, 4, {0, 2}, {1, 3}, {1.5F, -2}}},
      {"one column", {4, 1, {0, 1, 1, 2, 3}, {0, 0, 0}, {1, -2, 3}}},
      {"one entry", {1, 1, {0, 1}, {0}, {-2.5F}}},
      {"only the last row", {4, 3, {0, 0, 0, 0, 3}, {0, 1, 2}, {1, 2, 3}}},
      {"entries that are zero", {2, 2, {0, 1, 2}, {0, 1}, {0.0F, -0.0F}}},
      {"no rows", {0, 5, {0}, {}, {}}}};
  for (const auto& [name, matrix] : matrices) {
    for (const Epilogue& epilogue : {Epilogue{}, Epilogue{.bias = true}, k_all}) {
      if (!takes(problem(matrix, epilogue))) continue;
      const LayerKernels layer = kernels(matrix, epilogue);
      for (const LayerShape& shape : shapes_of(layer.kernel, k_n)) {
        EXPECT_EQ(layer.run(shape), "") << name;
      }
    }
  }
}

/// What the formulas of spjit/epilogue.hpp give, each with its sign.
struct SpecialCase {
  float x;
  float relu, gelu, silu, clamp;    // gelu-tanh as gelu, hard-swish as silu; clamp from -2 to 3
  float leaky_relu, sigmoid, tanh;  // alpha 0.25; hard-sigmoid with 0.25 and 0.5 as sigmoid
};

float activated(const SpecialCase& special, Activation activation) {
  switch (activation) {
    case Activation::relu:
      return special.relu;
    case Activation::gelu_erf:
    case Activation::gelu_tanh:
      return special.gelu;
    case Activation::silu:
    case Activation::hard_swish:
      return special.silu;
    case Activation::clamp:
      return special.clamp;
    case Activation::leaky_relu:
      return special.leaky_relu;
    case Activation::hard_sigmoid:
    case Activation::sigmoid:
      return special.sigmoid;
    case Activation::tanh:
      return special.tanh;
    case Activation::none:
      break;
  }
  return special.x;
}

TEST_P(LayerEdges, SpecialValuesGoThroughActivationsAsTheFormulasSay) {
  const float largest = std::numeric_limits<float>::max();
  const std::vector<SpecialCase> cases = {
      {k_not_a_number, k_not_a_number, k_not_a_number, k_not_a_number, k_not_a_number,
       k_not_a_number, k_not_a_number, k_not_a_number},
      {k_inf, k_inf, k_inf, k_inf, 3, k_inf, 1, 1},
      {-k_inf, 0, k_not_a_number, k_not_a_number, -2, -k_inf, 0, -1},
      {0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.5F, 0.0F},
      {-0.0F, -0.0F, -0.0F, -0.0F, -0.0F, -0.0F, 0.5F, -0.0F},
      {largest, largest, largest, largest, 3, largest, 1, 1},
      {-largest, 0, -0.0F, -0.0F, -2, -largest / 4, 0, -1},
      {1000, 1000, 1000, 1000, 3, 1000, 1, 1},
      {-1000, 0, -0.0F, -0.0F, -2, -250, 0, -1}};
  const auto rows = static_cast<std::int64_t>(cases.size());
  // Of rows without entries, +0; the scale -1 makes -0 of them. A bias of -0 leaves all as it is.
  CsrMatrix matrix{rows, 1, std::vector<std::int64_t>(index(rows + 1)), {}, {}};
  std::vector<float> scale(index(rows), -1.0F);
  std::vector<float> bias;
  for (const SpecialCase& special : cases) bias.push_back(special.x);
  if (family() == "dense") {
    matrix.row_ptrs.assign(index(rows + 1), 0);
    for (std::int64_t row = 0; row < rows; ++row) matrix.row_ptrs[index(row + 1)] = row + 1;
    matrix.col_idxs.assign(index(rows), 0);
    matrix.values.assign(index(rows), 0.0F);
  }
  for (const Activation activation : k_activations) {
    const Epilogue epilogue{.scale = true,
                            .bias = true,
                            .activation = activation,
                            .low = activation == Activation::clamp ? -2.0F : 0.0F,
                            .high = activation == Activation::clamp ? 3.0F : 0.0F,
                            .alpha = has_alpha(activation) ? 0.25F : 0.0F,
                            .beta = has_beta(activation) ? 0.5F : 0.0F};
    const Kernel kernel = compile_layer(problem(matrix, epilogue), family(), isa());
    const std::vector<float> b(index(k_n), 1.0F);
    std::vector<float> c(index(rows * k_n), -7.0F);
    kernel.run({.b = b.data(), .c = c.data(), .scale = scale.data(), .bias = bias.data()});

    for (std::int64_t i = 0; i < rows * k_n; ++i) {
      const float expected = activated(cases[index(i % rows)], activation);
      EXPECT_TRUE(same_value(c[index(i)], expected))
          << to_string(activation) << " of " << cases[index(i % rows)].x << " is " << c[index(i)]
          << (std::signbit(c[index(i)]) ? ", negative" : "") << "; expected " << expected;
    }
  }
}

TEST_P(LayerEdges, ClampWithoutBoundsChangesNothing) {
  const CsrMatrix matrix = random_matrix(20, 30, 0.3);
  const Problem plain = problem(matrix, {.bias = true});
  for (const auto& [low, high] : {std::pair{-k_inf, k_inf}, {-k_inf, 0.5F}, {-0.5F, k_inf}}) {
    const Epilogue epilogue{
        .bias = true, .activation = Activation::clamp, .low = low, .high = high};
    const LayerKernels layer = kernels(matrix, epilogue);
    const LayerShape tokens{
        .n = k_n, .b_layout = Layout::tokens_major, .c_layout = Layout::tokens_major};
    EXPECT_EQ(layer.kernel.info().epilogue, epilogue);
    EXPECT_EQ(layer.run(tokens), "");

    const LayerOperands clamped(layer.problem, tokens, GuardPlacement::at_end);
    const LayerOperands unclamped(plain, tokens, GuardPlacement::at_end);
    layer.kernel.run(clamped.arguments());
    compile_layer(plain, family(), isa()).run(unclamped.arguments());
    for (std::size_t i = 0; i < clamped.all_of_c().size(); ++i) {
      EXPECT_EQ(clamped.all_of_c()[i], std::min(std::max(unclamped.all_of_c()[i], low), high));
    }
  }
}

/// One of the floats that are hardest to get right now and then; none is so large that sums
/// overflow in float and not in double.
struct HardValues {
  std::shared_ptr<std::uint64_t> state = std::make_shared<std::uint64_t>(1);

  float operator()() const {
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    const auto drawn = static_cast<std::int64_t>(*state >> 40U);
    constexpr std::array<float, 8> k_hard = {0.0F,   -0.0F,  1e-45F,         -1e-40F,
                                             1e-38F, -k_inf, k_not_a_number, k_inf};
    if (drawn % 50 < 8) return k_hard.at(static_cast<std::size_t>(drawn % 50));
    return static_cast<float>(drawn - (1 << 23)) * 0x1p-21F;
  }
};

TEST_P(LayerEdges, HardValuesGiveTheBitsOfTheReference) {
  const CsrMatrix matrix = random_matrix(37, 3, 0.3);
  for (const Activation activation : k_activations) {
    Epilogue epilogue = k_all;
    epilogue.activation = activation;
    if (activation == Activation::clamp) epilogue.high = k_inf;
    set_line(epilogue);
    const LayerKernels layer = kernels(matrix, epilogue);
    for (const LayerShape& shape : shapes_of(layer.kernel, k_n)) {
      EXPECT_EQ(layer.run(shape, GuardPlacement::at_end, [] { return HardValues(); }), "");
    }
  }
}

TEST_P(LayerEdges, RunBatches) {
  const CsrMatrix matrix = random_matrix(13, 17, 0.4);
  const LayerKernels layer = kernels(matrix, k_all);
  for (LayerShape shape : shapes_of(layer.kernel, k_n)) {
    for (const std::int64_t batch : {0, 1, 2, 5}) {
      for (const bool in_place : {false, true}) {
        shape.batch = batch;
        shape.in_place = in_place;
        EXPECT_EQ(layer.run(shape), "");
      }
    }
  }
}

TEST_P(LayerEdges, RunBatchesWithGapsBetween) {
  const CsrMatrix matrix = random_matrix(13, 17, 0.4);
  const LayerKernels layer = kernels(matrix, k_all);
  for (LayerShape shape : shapes_of(layer.kernel, k_n)) {
    shape.batch = 7;
    shape.b_distance = 2000;
    shape.c_distance = 3000;
    shape.residual_distance = 1500;
    EXPECT_EQ(layer.run(shape), "");
  }
}

TEST_P(LayerEdges, RunBatchesOfMoreColumnsThanAGroup) {
  const CsrMatrix matrix = random_matrix(13, 17, 0.4);
  constexpr std::int64_t k_columns = 108;
  if (family() == "windows") GTEST_SKIP() << "it has up to 4 columns";
  const LayerKernels layer = {problem(matrix, k_all, k_columns), family(), isa(), 1};
  for (LayerShape shape : shapes_of(layer.kernel, k_columns)) {
    shape.batch = 3;
    EXPECT_EQ(layer.run(shape), "");
  }
}

TEST_P(LayerEdges, RunBatchesBackwardsAndWithOneBForAll) {
  const CsrMatrix matrix = random_matrix(13, 17, 0.4);
  const LayerKernels layer = kernels(matrix, k_all);
  for (LayerShape shape : shapes_of(layer.kernel, k_n)) {
    shape.batch = 3;
    shape.c_distance = -3000;
    shape.b_distance = -2000;
    shape.residual_distance = 1500;
    EXPECT_EQ(layer.run(shape), "");
    shape.b_distance = 0;
    shape.residual_distance = 0;
    EXPECT_EQ(layer.run(shape), "");
  }
}

TEST_P(LayerEdges, RunBatchesWhoseRowsOrTokensLieBetweenOneAnother) {
  const CsrMatrix matrix = random_matrix(13, 17, 0.4);
  const LayerKernels layer = kernels(matrix, k_all);
  const auto interleaved = [](Layout b, Layout c) {
    const std::int64_t b_width = b == Layout::tokens_major ? 17 : k_n;
    const std::int64_t c_width = c == Layout::tokens_major ? 13 : k_n;
    return LayerShape{.n = k_n,
                      .b_layout = b,
                      .c_layout = c,
                      .ldb = 4 * b_width,
                      .ldc = 4 * c_width,
                      .ldr = 4 * c_width,
                      .batch = 4,
                      .b_distance = b_width,
                      .c_distance = c_width,
                      .residual_distance = c_width};
  };
  for (const Layout b : {Layout::row_major, Layout::tokens_major}) {
    for (const Layout c : {Layout::row_major, Layout::tokens_major}) {
      LayerShape shape = interleaved(b, c);
      EXPECT_EQ(layer.run(shape), "");
      shape.in_place = true;
      EXPECT_EQ(layer.run(shape), "");
      shape.c_distance = -*shape.c_distance;
      EXPECT_EQ(layer.run(shape), "");
    }
  }
}

TEST_P(LayerEdges, ReadAndWritePartsOfTheRowsOfOneArray) {
  const CsrMatrix matrix = random_matrix(13, 17, 0.4);
  const Problem asked = problem(matrix, {.bias = true, .activation = Activation::gelu_tanh});
  const LayerKernels layer(asked, family(), isa());
  const std::vector<float> bias = dense_values(13, 5);
  // Tokens of 17 + 13 floats, and rows of n + n.
  for (const Layout layout : {Layout::tokens_major, Layout::row_major}) {
    const bool has_tokens = layout == Layout::tokens_major;
    const std::int64_t ld = has_tokens ? 30 : 2 * k_n;
    const std::int64_t c_at = has_tokens ? 17 : k_n;
    const std::vector<float> before = dense_values(2 * (has_tokens ? k_n : 17) * ld, 9);
    std::vector<float> array = before;
    std::vector<float> expected = before;
    const auto run = [&](const Kernel& kernel, std::vector<float>& memory) {
      kernel.run({.b = {memory.data(), {.ld = ld, .layout = layout}},
                  .c = {memory.data() + c_at, {.ld = ld, .layout = layout}},
                  .bias = bias.data()});
    };
    run(layer.kernel, array);
    run(layer.reference, expected);

    EXPECT_TRUE(same_bits(array, expected));
    EXPECT_FALSE(same_bits(array, before));
  }
}

TEST_P(LayerEdges, ThreadsGiveTheSameBits) {
  for (const std::int64_t rows : {1, 15, 16, 17, 100}) {
    const CsrMatrix matrix = random_matrix(rows, 300, 0.3);
    if (!takes(problem(matrix, k_all))) continue;
    for (const int threads : {2, 3}) {
      const LayerKernels layer = kernels(matrix, k_all, threads);
      EXPECT_EQ(layer.kernel.info().threads, threads);
      for (LayerShape shape : shapes_of(layer.kernel, k_n)) {
        shape.batch = 2;
        EXPECT_EQ(layer.run(shape), "");
      }
    }
  }
}

TEST_P(LayerEdges, AreRunByManyThreadsAtOnce) {
  const CsrMatrix matrix = random_matrix(60, 90, 0.4);
  const LayerKernels layer = kernels(matrix, k_all, 2);
  const LayerShape shape{
      .n = k_n, .b_layout = Layout::tokens_major, .c_layout = Layout::tokens_major, .batch = 3};
  std::vector<std::string> said(6);
  std::vector<std::thread> callers;
  for (std::string& one : said) {
    callers.emplace_back([&layer, &shape, &one] {
      for (int i = 0; i < 5; ++i) one += layer.run(shape, GuardPlacement::at_end);
    });
  }
  for (std::thread& caller : callers) caller.join();

  for (const std::string& one : said) EXPECT_EQ(one, "");
}

/// Whether runs stop allocating: it is chance which thread needs how many workspaces first.
template <class Run>
bool settles(const Run& run) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    const std::int64_t before = allocations_so_far();
    for (int i = 0; i < 10; ++i) run();
    if (allocations_so_far() == before) return true;
  }
  return false;
}

TEST_P(LayerEdges, AllocateNothingInSteadyState) {
  if (family() == "reference") GTEST_SKIP() << "it has sums of a row of its own";
  const CsrMatrix matrix = random_matrix(60, 90, 0.4);
  for (const int threads : {1, 2}) {
    const LayerKernels layer = kernels(matrix, k_all, threads);
    for (LayerShape shape : shapes_of(layer.kernel, k_n)) {
      shape.panel_columns = layer.kernel.info().panel_columns;
      shape.batch = 2;
      const LayerOperands operands(layer.problem, shape, GuardPlacement::at_end);
      EXPECT_TRUE(settles([&] { layer.kernel.run(operands.arguments()); }))
          << layer.describe(shape, GuardPlacement::at_end);
    }
  }
}

TEST_P(LayerEdges, AreTheSameFromAnArtifactAndALinkedObject) {
  const CsrMatrix matrix = random_matrix(20, 30, 0.3);
  const LayerKernels layer = kernels(matrix, k_all);
  const LayerShape tokens{
      .n = k_n, .b_layout = Layout::tokens_major, .c_layout = Layout::tokens_major};
  const LayerOperands expected(layer.problem, tokens, GuardPlacement::at_end);
  layer.kernel.run(expected.arguments());

  const Kernel read = Kernel::from_artifact(layer.kernel.artifact());
  const LayerOperands operands(layer.problem, tokens, GuardPlacement::at_end);
  Arguments arguments = operands.arguments();
  arguments.n = Arguments::k_as_compiled;
  arguments.b.ld = arguments.c.ld = arguments.residual.ld = 0;
  arguments.b.layout = arguments.c.layout = std::nullopt;
  read.run(arguments);

  EXPECT_EQ(read.info().epilogue, layer.problem.epilogue);
  EXPECT_EQ(read.info().b_layout, Layout::tokens_major);
  EXPECT_TRUE(same_bits(operands.all_of_c(), expected.all_of_c()));
}

Kernel kernel_of_tile(const Problem& problem, HostIsa isa, const HostTile& tile) {
  const CsrMatrix& matrix = *problem.a;
  const KernelPlan plan =
      build_plan(matrix, group_rows(matrix, tile.m1, ReorderAlgorithm::similarity), matrix.cols);
  return kernel_of(make_unrolled_artifact(plan, tile, problem, isa));
}

/// Code of a tile that reads B in place, which no rule chooses for so few columns.
Kernel in_place_kernel(const Problem& problem, HostIsa isa) {
  HostTile tile = host_tile(4);
  tile.pack_b = false;
  return kernel_of_tile(problem, isa, tile);
}

// Of three groups of columns the last has a panel less. It packs all of its panels at once, the
// others half of theirs.
TEST(LayersInGroups, SayTheWorkspaceOfALastGroupThatNeedsMost) {
  const CsrMatrix matrix = random_matrix(21, 34, 0.4);
  for (const HostIsa isa : isas_here()) {
    const std::int64_t width = lanes_of(isa);
    const std::int64_t panels = 256 / width;
    HostTile tile = host_tile(4);
    tile.panel_group = panels - 1;
    const Problem problem = problem_of(matrix, (3 * panels - 1) * width);
    const Kernel kernel = kernel_of_tile(problem, isa, tile);
    const LayerShape shape{.n = problem.n.value, .c_layout = Layout::tokens_major};
    const LayerOperands expected(problem, shape, GuardPlacement::at_end);
    kernel.run(expected.arguments());
    const LayerOperands operands(problem, shape, GuardPlacement::at_end);
    Arguments arguments = operands.arguments();
    std::vector<std::byte> workspace(index(kernel.workspace_bytes(arguments)));
    arguments.workspace = workspace.data();
    arguments.workspace_bytes = std::ssize(workspace);

    EXPECT_NO_THROW(kernel.run(arguments)) << to_string(isa);
    EXPECT_TRUE(same_bits(operands.all_of_c(), expected.all_of_c())) << to_string(isa);
  }
}

TEST(LayersInPlace, TakeEveryLayoutAndRefusePanelsInOneLine) {
  const CsrMatrix matrix = random_matrix(21, 34, 0.4);
  for (const HostIsa isa : isas_here()) {
    for (const std::int64_t n : {17, 65, 130, 260, 1030}) {
      Problem problem = problem_of(matrix, n);
      problem.epilogue = k_all;
      LayerKernels layer(problem, "unrolled", isa);
      layer.kernel = in_place_kernel(problem, isa);
      layer.reference = reference_of(problem, layer.kernel);
      EXPECT_NE(layer.kernel.info().tile.find("in-place"), std::string::npos);
      for (LayerShape shape : shapes_of(layer.kernel, n)) {
        const bool has_panels =
            shape.b_layout == Layout::panel_major || shape.c_layout == Layout::panel_major;
        try {
          EXPECT_EQ(layer.run(shape), "");
          shape.ldb = 1100;
          shape.batch = 2;
          EXPECT_EQ(layer.run(shape), "");
        } catch (const InvalidArgument& error) {
          EXPECT_TRUE(has_panels) << error.what();
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, LayerEdges,
                         testing::Combine(testing::Values("compact", "dense", "unrolled", "csr",
                                                          "reference"),
                                          testing::Values(HostIsa::avx512, HostIsa::avx2)),
                         [](const auto& of) {
                           return std::get<0>(of.param) + ("_" + to_string(std::get<1>(of.param)));
                         });

INSTANTIATE_TEST_SUITE_P(OtherFamilies, LayerEdges,
                         testing::Values(std::tuple{"windows", HostIsa::avx512},
                                         std::tuple{"windows", HostIsa::avx2},
                                         std::tuple{"unrolled", HostIsa::generic},
                                         std::tuple{"csr", HostIsa::generic},
                                         std::tuple{"reference", HostIsa::generic}),
                         [](const auto& of) {
                           return std::get<0>(of.param) + ("_" + to_string(std::get<1>(of.param)));
                         });

}  // namespace
