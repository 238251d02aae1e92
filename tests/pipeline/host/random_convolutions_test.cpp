// Property: whatever the convolution, the family, the layouts, the epilogue, the batch, the sizes
// of a run and the threads, Y has the bits of the product with all patches, is near a float64 loop,
// and nothing else is written. SPJIT_RANDOM_CONVOLUTIONS is the number of kernels (500),
// SPJIT_RANDOM_SEED the first one's seed (1).

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "artifact/families.hpp"
#include "plan/convolution.hpp"
#include "plan/problem.hpp"
#include "spjit/error.hpp"
#include "tests/support/convolution_testing.hpp"
#include "tests/support/draw.hpp"
#include "tests/support/guarded_buffers.hpp"
#include "tests/support/long_tests.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

std::int64_t setting(const char* variable, std::int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoll(text, nullptr, 10);
}

/// Often what networks have, else anything.
Convolution draw_convolution(Draw& draw) {
  Convolution of;
  of.groups = draw.chance(75) ? 1 : draw.between(2, 6);
  of.channels = of.groups * draw.between(1, draw.chance(90) ? 5 : 20);
  do {
    of.height = draw.chance(10) ? 1 : draw.between(1, 14);
    of.width = draw.chance(10) ? 1 : draw.chance(85) ? draw.between(1, 20) : draw.between(60, 400);
    const bool is_usual = draw.chance(50);
    of.kernel_height = is_usual ? draw.one_of<std::int64_t>({1, 3, 3, 5}) : draw.between(1, 6);
    of.kernel_width = is_usual ? of.kernel_height : draw.between(1, 6);
    of.stride_height = is_usual ? draw.between(1, 2) : draw.between(1, 5);
    of.stride_width = is_usual ? of.stride_height : draw.between(1, 5);
    of.dilation_height = is_usual ? 1 : draw.between(1, 4);
    of.dilation_width = is_usual ? 1 : draw.between(1, 4);
    of.pad_top = is_usual ? of.kernel_height / 2 : draw.between(0, 7);
    of.pad_bottom = is_usual ? of.pad_top : draw.between(0, 7);
    of.pad_left = is_usual ? of.pad_top : draw.between(0, 7);
    of.pad_right = is_usual ? of.pad_top : draw.between(0, 7);
  } while (of.output_height() < 1 || of.output_width() < 1);
  return of;
}

CsrMatrix draw_weights(Draw& draw, const Convolution& of, bool special) {
  CsrMatrix weights;
  weights.rows = of.groups * draw.between(draw.chance(5) ? 0 : 1, draw.chance(90) ? 12 : 50);
  weights.cols = of.channels / of.groups * of.kernel_height * of.kernel_width;
  const auto density = draw.one_of<std::int64_t>({0, 3, 10, 30, 60, 90, 100, 100});
  for (std::int64_t row = 0; row < weights.rows; ++row) {
    const std::int64_t here = draw.chance(10) ? draw.one_of<std::int64_t>({0, 100}) : density;
    for (std::int64_t col = 0; col < weights.cols; ++col) {
      if (!draw.chance(here)) continue;
      weights.col_idxs.push_back(static_cast<std::int32_t>(col));
      weights.values.push_back(draw_value(draw, special));
    }
    weights.row_ptrs.push_back(weights.nnz());
  }
  return weights;
}

Epilogue draw_epilogue_of_images(Draw& draw) {
  if (draw.chance(40)) return {};
  Epilogue epilogue{.scale = draw.chance(40), .bias = draw.chance(60), .residual = draw.chance(40)};
  epilogue.activation = static_cast<Activation>(draw.between(0, 4));
  return epilogue;
}

Layout draw_image_layout(Draw& draw) {
  return draw.chance(50) ? Layout::row_major : Layout::tokens_major;
}

/// How X and Y of a run lie.
ImageShape draw_image_shape(Draw& draw, const Problem& problem) {
  ImageShape shape;
  if (problem.n.runtime && draw.chance(70)) {
    const Convolution& compiled = *problem.convolution;
    Convolution of = compiled;
    of.height = draw.chance(20) ? compiled.height : draw.between(1, 20);
    of.width = draw.chance(20) ? compiled.width : draw.between(1, 30);
    if (of.output_height() > 0 && of.output_width() > 0) {
      shape.height = of.height;
      shape.width = of.width;
    }
  }
  Convolution of = *problem.convolution;
  if (shape.height > 0) of.height = shape.height;
  if (shape.width > 0) of.width = shape.width;
  shape.x_layout = draw.chance(70) ? problem.b.layout : draw_image_layout(draw);
  shape.y_layout = draw.chance(70) ? problem.c.layout : draw_image_layout(draw);
  const std::int64_t x_width =
      shape.x_layout == Layout::tokens_major ? of.channels : of.height * of.width;
  const std::int64_t y_width = shape.y_layout == Layout::tokens_major
                                   ? problem.a->rows
                                   : of.output_height() * of.output_width();
  if (draw.chance(40)) shape.ldx = x_width + draw.between(1, 20);
  if (draw.chance(40)) shape.ldy = y_width + draw.between(1, 20);
  if (draw.chance(50)) shape.batch = draw.between(0, draw.chance(50) ? 4 : 12);
  if (draw.chance(30)) shape.gap = draw.between(0, 20);
  if (draw.chance(30)) shape.y_gap = draw.between(1, 20);
  shape.same_image = draw.chance(10);
  shape.in_place = draw.chance(25);
  return shape;
}

/// A problem that may be refused by its family.
Problem draw_images(Draw& draw, const KernelFamily& family, bool special) {
  const ProblemFeatures features = family.features();
  Problem problem;
  problem.operation = Operation::conv2d;
  problem.convolution = draw_convolution(draw);
  problem.a = draw_weights(draw, *problem.convolution, special);
  problem.epilogue = draw_epilogue_of_images(draw);
  problem.n.runtime = draw.chance(40) && features.has(ProblemFeature::runtime_n);
  problem.runtime_values = draw.chance(20) && features.has(ProblemFeature::runtime_values);
  problem.b.layout = draw_image_layout(draw);
  problem.c.layout = draw_image_layout(draw);
  if (draw.chance(15)) problem.b.leading_dimension = problem.ldb() + draw.between(1, 9);
  return problem;
}

Refusal image_refusal(const Problem& problem, const std::string& family, HostIsa isa) {
  const CompileOptions options = options_of(isa);
  const DeviceInfo device = device_info_of(options.target);
  return why_not(find_family(family), {checked_problem(problem), options, device, {}});
}

/// What is wrong with a drawn convolution; or empty. "refused" if its family does not take it.
std::string random_convolution(std::uint64_t seed) {
  Draw draw(seed + 9'000'000);
  const auto family = draw.one_of<std::string>(
      {"compact", "compact", "dense", "unrolled", "unrolled", "csr", "csr", "reference"});
  const HostIsa isa = draw.one_of(isas_here());
  const bool special = draw.chance(25);
  const Problem problem = draw_images(draw, find_family(family), special);
  if (image_refusal(problem, family, isa)) return "refused";
  const int threads = static_cast<int>(draw.chance(60) ? 1 : draw.between(2, 4));
  const GuardPlacement placement = k_placements.at(seed % 2);
  const GuardedBuffers guarded(placement);
  const ConvolutionKernels kernels(problem, family, isa, threads);
  for (int run = 0; run < 2; ++run) {
    ImageShape shape = draw_image_shape(draw, problem);
    shape.special = special;
    try {
      const std::string wrong = kernels.run(shape, placement, seed);
      if (!wrong.empty()) return wrong;
    } catch (const Error& error) {
      return std::string(error.what()) + "; " + to_string(*problem.convolution);
    }
  }
  return "";
}

TEST(RandomConvolutions, HaveTheBitsOfTheProductWithAllPatchesAndAreNearAFloat64Loop) {
  // Without anything said, a third in turn.
  const std::int64_t count = setting("SPJIT_RANDOM_CONVOLUTIONS", long_tests() ? 501 : 167);
  const std::int64_t first = setting(
      "SPJIT_RANDOM_SEED", long_tests() ? 1 : 1 + 167 * static_cast<std::int64_t>(turn_of(3)));
  std::int64_t refused = 0;
  for (std::int64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const std::string said = random_convolution(static_cast<std::uint64_t>(seed));
    if (said == "refused") {
      ++refused;
    } else {
      ASSERT_EQ(said, "");
    }
  }
  EXPECT_LT(refused, count * 2 / 3) << "of " << count;
}

}  // namespace
