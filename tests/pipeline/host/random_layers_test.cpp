// Property: whatever the matrix, the family, the layouts, the epilogue, the batch and the threads,
// C of a layer has the bits of the reference, is near a float64 loop, and nothing else is written.
// SPJIT_RANDOM_LAYERS is the number of layers, SPJIT_RANDOM_SEED the first one's seed.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "artifact/families.hpp"
#include "plan/problem.hpp"
#include "spjit/error.hpp"
#include "tests/support/draw.hpp"
#include "tests/support/guarded_buffers.hpp"
#include "tests/support/layer_testing.hpp"
#include "tests/support/long_tests.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

std::int64_t number_in(const char* variable, std::int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoll(text, nullptr, 10);
}

CsrMatrix draw_layer_matrix(Draw& draw) {
  CsrMatrix matrix;
  const std::int64_t most = draw.chance(80) ? 50 : 300;
  matrix.rows = draw.chance(10) ? draw.between(0, 1) : draw.between(0, most);
  matrix.cols = draw.chance(10) ? draw.between(0, 1) : draw.between(0, most);
  const auto density = draw.one_of<std::int64_t>({0, 2, 10, 30, 60, 80, 100});
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    const std::int64_t here = draw.chance(10) ? draw.one_of<std::int64_t>({0, 100}) : density;
    for (std::int64_t col = 0; col < matrix.cols; ++col) {
      if (!draw.chance(here)) continue;
      matrix.col_idxs.push_back(static_cast<std::int32_t>(col));
      matrix.values.push_back(draw_value(draw, false));
    }
    matrix.row_ptrs.push_back(matrix.nnz());
  }
  return matrix;
}

Layout draw_layout(Draw& draw) {
  return draw.one_of<Layout>(
      {Layout::row_major, Layout::tokens_major, Layout::tokens_major, Layout::panel_major});
}

Epilogue draw_epilogue(Draw& draw) {
  if (draw.chance(15)) return {};
  Epilogue epilogue{.scale = draw.chance(40), .bias = draw.chance(60), .residual = draw.chance(40)};
  epilogue.activation =
      static_cast<Activation>(draw.between(0, static_cast<int>(k_last_activation)));
  if (epilogue.activation == Activation::clamp) {
    constexpr float k_infinite = std::numeric_limits<float>::infinity();
    epilogue.low = draw.one_of<float>({-k_infinite, -1, 0});
    epilogue.high = draw.one_of<float>({0, 0.5F, k_infinite});
  }
  if (has_alpha(epilogue.activation)) epilogue.alpha = draw.one_of<float>({0.01F, 0.2F, -1.5F, 0});
  if (has_beta(epilogue.activation)) epilogue.beta = draw.one_of<float>({0, 0.5F, -3});
  return epilogue;
}

std::int64_t draw_tokens(Draw& draw) {
  return draw.chance(40) ? draw.one_of<std::int64_t>({1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 63, 64,
                                                      65, 127, 128, 129, 256, 257})
                         : draw.between(1, 200);
}

/// Distances that the checks take: one product after another, or their rows side by side.
void draw_batch(Draw& draw, const CsrMatrix& matrix, LayerShape& shape) {
  if (draw.chance(50)) return;
  shape.batch = draw.between(0, draw.chance(80) ? 4 : 20);
  const std::int64_t b_width = shape.b_layout == Layout::tokens_major ? matrix.cols : shape.n;
  const std::int64_t c_width = shape.c_layout == Layout::tokens_major ? matrix.rows : shape.n;
  const std::int64_t sign = draw.chance(30) ? -1 : 1;
  if (draw.chance(30) && shape.b_layout != Layout::panel_major &&
      shape.c_layout != Layout::panel_major) {
    const std::int64_t gap = draw.between(0, 3);
    shape.batch = std::min<std::int64_t>(shape.batch, 4);
    shape.ldb = 4 * (b_width + gap);
    shape.ldc = shape.ldr = 4 * (c_width + gap);
    shape.b_distance = sign * (b_width + gap);
    shape.c_distance = shape.residual_distance = sign * (c_width + gap);
    return;
  }
  if (draw.chance(20)) shape.b_distance = 0;
  if (draw.chance(20)) shape.residual_distance = 0;
  if (!draw.chance(40)) return;
  constexpr std::int64_t k_beyond_c = 120'000;  // more floats than any C here has
  shape.c_distance = sign * (draw.between(0, 30) + k_beyond_c);
}

LayerShape draw_shape(Draw& draw, const CsrMatrix& matrix, std::int64_t n) {
  LayerShape shape{.n = n, .b_layout = draw_layout(draw), .c_layout = draw_layout(draw)};
  const std::int64_t b_width = shape.b_layout == Layout::tokens_major ? matrix.cols : n;
  const std::int64_t c_width = shape.c_layout == Layout::tokens_major ? matrix.rows : n;
  if (draw.chance(40)) shape.ldb = b_width + draw.between(1, 20);
  if (draw.chance(15) && shape.b_layout == Layout::tokens_major && b_width > 0) {
    shape.ldb = draw.between(1, b_width);
  }
  if (draw.chance(40)) shape.ldc = c_width + draw.between(1, 20);
  if (draw.chance(40)) shape.ldr = c_width + draw.between(1, 20);
  draw_batch(draw, matrix, shape);
  shape.in_place = draw.chance(25);
  return shape;
}

/// A problem that its family takes, maybe of a run-time n, for the layouts of the shape or others.
Problem draw_layer(Draw& draw, const CsrMatrix& matrix, const LayerShape& shape,
                   const KernelFamily& family, HostIsa isa) {
  const ProblemFeatures features = family.features();
  Problem problem = problem_of(matrix, shape.n);
  problem.epilogue = draw_epilogue(draw);
  if (draw.chance(50) && features.has(ProblemFeature::runtime_n)) {
    problem.n = Extent::at_run_time(draw_tokens(draw));
  }
  problem.runtime_values = draw.chance(40) && features.has(ProblemFeature::runtime_values);
  const bool has_width = features.has(ProblemFeature::panels) && draw.chance(50);
  if (has_width) problem.panel_columns = lanes_of(isa) * draw.between(1, 4);
  const auto compiled = [&](Layout layout) {
    if (draw.chance(25)) layout = draw_layout(draw);
    return layout == Layout::panel_major && !has_width ? Layout::row_major : layout;
  };
  problem.b.layout = compiled(shape.b_layout);
  problem.c.layout = compiled(shape.c_layout);
  return problem;
}

Refusal refusal_of(const Problem& problem, const std::string& family, HostIsa isa) {
  const CompileOptions options = options_of(isa);
  const DeviceInfo device = device_info_of(options.target);
  return why_not(find_family(family), {problem, options, device, {}});
}

/// What is wrong with a drawn layer; or empty. "refused" if its family does not take it.
std::string random_layer(std::uint64_t seed) {
  Draw draw(seed + 7'000'000);
  const auto family = draw.one_of<std::string>(
      {"compact", "compact", "dense", "windows", "unrolled", "unrolled", "csr", "reference"});
  const HostIsa isa = draw.one_of(isas_here());
  const CsrMatrix matrix = draw_layer_matrix(draw);
  const std::int64_t n = family == "windows" ? draw.between(1, 4) : draw_tokens(draw);
  const LayerShape shape = draw_shape(draw, matrix, n);
  const Problem problem = draw_layer(draw, matrix, shape, find_family(family), isa);
  if (refusal_of(problem, family, isa)) return "refused";
  const int threads = static_cast<int>(draw.chance(60) ? 1 : draw.between(2, 4));
  const GuardPlacement placement = k_placements.at(seed % 2);
  const GuardedBuffers guarded(placement);

  const LayerKernels layer(problem, family, isa, threads);
  const bool has_panels =
      shape.b_layout == Layout::panel_major || shape.c_layout == Layout::panel_major;
  if (has_panels && layer.kernel.info().tile.find("in-place") != std::string::npos) {
    return "refused";
  }
  try {
    return layer.run(shape, placement, [seed] { return seed; });
  } catch (const Error& error) {
    return error.what() + layer.describe(shape, placement);
  }
}

TEST(RandomLayers, HaveTheBitsOfTheReferenceAndAreNearAFloat64Loop) {
  // Without anything said, a third in turn.
  const std::int64_t layers = number_in("SPJIT_RANDOM_LAYERS", long_tests() ? 1002 : 334);
  const std::int64_t first = number_in(
      "SPJIT_RANDOM_SEED", long_tests() ? 1 : 1 + 334 * static_cast<std::int64_t>(turn_of(3)));
  std::int64_t refused = 0;
  for (std::int64_t seed = first; seed < first + layers; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const std::string said = random_layer(static_cast<std::uint64_t>(seed));
    if (said == "refused") {
      ++refused;
    } else {
      ASSERT_EQ(said, "");
    }
  }
  EXPECT_LT(refused, layers * 2 / 3) << "of " << layers;
}

}  // namespace
