// Property: whatever the matrix, the options, the tile and the values, a kernel gives the
// evaluator's bits and touches nothing besides its operands.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "artifact/kernel_impl.hpp"
#include "kernels/host/operands/packing.hpp"
#include "kernels/host/unrolled/host_program.hpp"
#include "kernels/host/unrolled/unrolled_family.hpp"
#include "spjit/compiler.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/draw.hpp"
#include "tests/support/guarded_buffers.hpp"
#include "tests/support/guarded_operands.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::CompileOptions;
using spjit::CsrMatrix;
using spjit::HostArtifact;
using spjit::HostIsa;
using spjit::HostTile;
using spjit::Kernel;
using spjit::Problem;
using spjit::ReorderAlgorithm;
using spjit::testing_support::Draw;
using spjit::testing_support::draw_value;
using spjit::testing_support::GuardedBuffers;
using spjit::testing_support::GuardedFloats;
using spjit::testing_support::GuardedImage;
using spjit::testing_support::GuardedOperands;
using spjit::testing_support::GuardPlacement;
using spjit::testing_support::index;
using spjit::testing_support::isas_here;
using spjit::testing_support::k_placements;
using spjit::testing_support::OperandShape;
using spjit::testing_support::reference_product;
using spjit::testing_support::uncached;

CsrMatrix draw_matrix(Draw& draw, bool special) {
  CsrMatrix matrix;
  const std::int64_t most = draw.chance(70) ? 60 : 300;
  matrix.rows = draw.between(0, most);
  matrix.cols = draw.between(0, most);
  const auto density = draw.one_of<std::int64_t>({0, 1, 5, 10, 30, 60, 100});
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    const std::int64_t here = draw.chance(10) ? draw.one_of<std::int64_t>({0, 100}) : density;
    for (std::int64_t col = 0; col < matrix.cols; ++col) {
      if (!draw.chance(here)) continue;
      matrix.col_idxs.push_back(static_cast<std::int32_t>(col));
      matrix.values.push_back(draw_value(draw, special));
    }
    matrix.row_ptrs.push_back(matrix.nnz());
  }
  return matrix;
}

/// B and C with padding between rows or without, each against a page that cannot be touched.
struct DrawnOperands {
  std::int64_t n = 1;
  std::int64_t ldb = 1;
  bool special = false;
  GuardPlacement placement = GuardPlacement::at_end;
};

GuardedOperands draw_operands(Draw& draw, const CsrMatrix& matrix, const DrawnOperands& drawn) {
  const OperandShape shape{drawn.n, drawn.ldb,
                           drawn.n + (draw.chance(50) ? draw.between(0, 20) : 0)};
  std::vector<float> b(index(GuardedOperands::floats(matrix.cols, drawn.ldb, drawn.n)));
  for (float& value : b) value = draw_value(draw, drawn.special);
  return {matrix, shape, drawn.placement, b};
}

/// Either end of the memory in turn.
GuardPlacement placement_of(std::uint64_t seed) { return k_placements.at(seed % 2); }

std::int64_t draw_n(Draw& draw) {
  return draw.chance(30) ? draw.one_of<std::int64_t>({1, 4, 8, 15, 16, 17, 32, 64, 128, 256})
                         : draw.between(1, 300);
}

/// The generic target takes LLVM milliseconds a kernel: it gets fewer of them.
HostIsa draw_isa(Draw& draw) {
  const std::vector<HostIsa> isas = isas_here();
  const HostIsa isa = draw.one_of(isas);
  return isa == HostIsa::generic && draw.chance(70) ? isas.front() : isa;
}

/// What is compiled and how.
struct Drawn {
  Problem problem;
  CompileOptions options;
};

/// The matrix of the problem stays to be set.
Drawn draw_options(Draw& draw) {
  Drawn drawn;
  Problem& problem = drawn.problem;
  CompileOptions& options = drawn.options;
  problem.n = draw_n(draw);
  options.target = spjit::Target(draw_isa(draw));
  options.resources.threads = static_cast<int>(draw.chance(60) ? 1 : draw.between(2, 4));
  options.policy.reorder = draw.one_of<ReorderAlgorithm>(
      {ReorderAlgorithm::none, ReorderAlgorithm::balanced, ReorderAlgorithm::similarity});
  if (draw.chance(30)) {
    const HostIsa isa = options.target.isa();
    problem.panel_columns =
        draw.between(1, spjit::widest_panel_vectors(isa)) * spjit::lanes_of(isa);
  }
  if (draw.chance(30)) problem.b.leading_dimension = problem.n.value + draw.between(0, 40);
  if (draw.chance(15)) options.policy.code_budget_bytes = 0;
  options.policy.hot = draw.chance(70);
  return drawn;
}

TEST(RandomKernels, OfAnyOptionsGiveTheEvaluatorsBits) {
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    Draw draw(seed);
    const bool special = draw.chance(40);
    const CsrMatrix matrix = draw_matrix(draw, special);
    auto [problem, options] = draw_options(draw);
    problem.a = matrix;
    const std::int64_t n = problem.n.value;
    const std::int64_t asked = problem.b.leading_dimension;
    const std::int64_t ldb = asked > 0 && draw.chance(50) ? asked : n + draw.between(0, 20);
    const GuardedBuffers guarded(placement_of(seed));
    const GuardedOperands operands =
        draw_operands(draw, matrix, {n, ldb, special, placement_of(seed)});

    const Kernel kernel = spjit::Compiler(options, uncached()).compile(problem);
    kernel.run(operands.b(), operands.ldb(), operands.c(), operands.ldc());

    ASSERT_TRUE(operands.holds_product(matrix, options.target.isa()))
        << "seed " << seed << ": " << options.target.name() << " " << matrix.rows << " x "
        << matrix.cols << " " << operands.describe() << " threads " << options.resources.threads
        << " tile " << kernel.info().tile << " " << kernel.info().reason;
  }
}

/// Any tile the emitters take, not only those that the tile space or the heuristic would.
HostTile draw_tile(Draw& draw, HostIsa isa, std::int64_t n, std::int64_t cols) {
  HostTile tile;
  const std::int64_t widest = spjit::widest_panel_vectors(isa);
  tile.nv = draw.chance(50) ? draw.between(1, 2) : draw.between(1, widest);
  tile.m1 = draw.between(1, (spjit::registers_of(isa) - 1 - tile.nv) / tile.nv);
  tile.k_block = draw.chance(50) ? 0 : draw.between(1, cols + 5);
  tile.panel_group = draw.chance(30) ? 1 : draw.between(1, 40);
  tile.row_group = draw.chance(50) ? 0 : draw.between(1, 12);
  tile.form = draw.one_of<spjit::WeightForm>(
      {spjit::WeightForm::broadcast, spjit::WeightForm::register_, spjit::WeightForm::balanced});
  tile.memory_rows = draw.between(0, 4);
  tile.stream_c = draw.chance(30);
  tile.join_bytes = draw.chance(50) ? 0 : draw.one_of<std::int64_t>({1, 2000, 10'000, 1 << 20});
  tile.pack_b = draw.chance(60) || n < tile.nv * spjit::lanes_of(isa);
  return tile;
}

/// What a kernel of a drawn tile is for.
struct Place {
  HostIsa isa = HostIsa::generic;
  std::int64_t n = 1;
  std::int64_t ldb = 1;
};

HostArtifact artifact_of(Draw& draw, const CsrMatrix& matrix, const HostTile& tile,
                         const Place& place) {
  const auto algorithm = draw.one_of<ReorderAlgorithm>(
      {ReorderAlgorithm::none, ReorderAlgorithm::balanced, ReorderAlgorithm::similarity});
  const std::int64_t k_block =
      tile.k_block > 0 ? tile.k_block : std::max<std::int64_t>(matrix.cols, 1);
  const auto plan =
      spjit::build_plan(matrix, spjit::group_rows(matrix, tile.m1, algorithm), k_block);
  Problem problem;
  problem.n = place.n;
  problem.b.leading_dimension = place.ldb;
  return spjit::make_unrolled_artifact(plan, tile, problem, place.isa);
}

/// `image` is borrowed.
Kernel load(Draw& draw, const spjit::HostImage& image) {
  const int threads = static_cast<int>(draw.chance(60) ? 1 : draw.between(2, 4));
  spjit::HostObject object{image};
  if (threads > 1) object.pool = std::make_shared<spjit::WorkerPool>(threads);
  static const spjit::UnrolledHostFamily k_family;
  return Kernel(std::make_shared<const Kernel::Impl>(k_family, k_family.open(object, {}), nullptr,
                                                     nlohmann::json::object()));
}

TEST(RandomKernels, OfAnyTileGiveTheEvaluatorsBits) {
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    Draw draw(seed + 1'000'000);
    const bool special = draw.chance(40);
    const HostIsa isa = draw_isa(draw);
    const CsrMatrix matrix = draw_matrix(draw, special);
    const std::int64_t n = draw_n(draw);
    const HostTile tile = draw_tile(draw, isa, n, matrix.cols);
    const std::int64_t ldb = n + (draw.chance(50) ? draw.between(0, 20) : 0);
    const GuardedBuffers guarded(placement_of(seed));
    const GuardedOperands operands =
        draw_operands(draw, matrix, {n, ldb, special, placement_of(seed)});
    const HostArtifact artifact = artifact_of(draw, matrix, tile, {isa, n, ldb});
    const GuardedImage image(artifact.image(), placement_of(seed));

    const Kernel kernel = load(draw, image.image());
    kernel.run(operands.b(), operands.ldb(), operands.c(), operands.ldc());

    ASSERT_TRUE(operands.holds_product(matrix, isa))
        << "seed " << seed << ": " << to_string(isa) << " " << matrix.rows << " x " << matrix.cols
        << " " << operands.describe() << " threads " << kernel.info().threads << " tile "
        << to_string(tile);
  }
}

TEST(RandomKernels, PanelsStayWithinTheirArrays) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Draw draw(seed + 2'000'000);
    const CsrMatrix matrix = draw_matrix(draw, false);
    auto [problem, options] = draw_options(draw);
    problem.a = matrix;
    problem.panel_columns = spjit::lanes_of(options.target.isa()) * draw.between(1, 4);
    const std::int64_t n = problem.n.value;
    const Kernel kernel = spjit::Compiler(options, uncached()).compile(problem);
    const std::vector<float> b = spjit::testing_support::dense_values(matrix.cols * n, seed);
    // The spare line behind the last panel is part of the array but nobody needs it.
    const auto needed = [&](std::int64_t rows) {
      return std::max<std::int64_t>(
          kernel.panel_elements(rows) - spjit::PanelLayout::k_spare_floats, 0);
    };
    const GuardPlacement placement = placement_of(seed);
    const GuardedBuffers guarded(placement);
    const GuardedFloats b_panels(needed(matrix.cols), placement);
    const GuardedFloats c_panels(needed(matrix.rows), placement);
    std::vector<float> c(index(matrix.rows * n));

    kernel.to_panels(b.data(), n, matrix.cols, b_panels.data());
    kernel.run_panels(b_panels.data(), c_panels.data());
    kernel.from_panels(c_panels.data(), matrix.rows, c.data(), n);

    const auto expected = reference_product(matrix, options.target.isa(), b.data(), n, n);
    ASSERT_TRUE(spjit::testing_support::same_bits(c, expected))
        << "seed " << seed << ": " << kernel.info().tile;
    ASSERT_TRUE(b_panels.intact() && c_panels.intact()) << "seed " << seed;
  }
}

}  // namespace
