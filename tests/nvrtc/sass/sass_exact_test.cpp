// What is shipped for a GPU, executed: cubins from PTX and from CUDA C++ give C the bits of the
// evaluator or of the host's family `reference`, on sm_75, sm_80 and sm_90.

#include <gtest/gtest.h>

#include <random>

#include "tests/nvrtc/sass/sass_testing.hpp"
#include "tests/support/far_cases.hpp"
#include "tests/support/long_tests.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

class SassExact : public OnDevice {
 protected:
  void expect_right(const CudaCase& item, CudaSource source) const {
    const CudaFunction function = load_ptx(context(), cubin_of(item, source));
    EXPECT_TRUE(same_bits(run_kernel(function, item), expected_c(item)));
  }

  void expect_right(const std::vector<NamedLayer>& layers) const {
    const ScopedVariable driver("SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA);
    std::size_t number = 0;
    for (const NamedLayer& layer : in_turn(3, layers)) {
      SCOPED_TRACE(layer.name);
      const LayerOperands operands(layer.item);
      const std::vector<float> expected = reference_layer(layer.item, operands);
      // NVRTC takes ten times as long: every other one.
      const bool both = ++number % 2 == 0;
      for (const CudaSource source : {CudaSource::ptx, CudaSource::cuda}) {
        if (source == CudaSource::cuda && !both) continue;
        const Kernel kernel = layer_kernel(layer.item, cubin_of(layer, source), device());

        EXPECT_TRUE(same_layer(launch_layer(kernel, operands), expected,
                               layer.item.spec.layer.epilogue.activation))
            << to_string(source);
      }
    }
  }
};

TEST_P(SassExact, HasTheBitsOfTheEvaluatorOnPlantedCases) {
  for (const auto& [name, item] : in_turn(3, planted_cases())) {
    SCOPED_TRACE(name + ", tile " + to_string(item.spec.tile));
    // A unit for every function of a large case is hundreds of compilations.
    if (item.spec.tile.unit_nonzeros == 1 && item.plan.grouping.tiles() > 6) continue;

    expect_right(item, CudaSource::ptx);
    expect_right(item, CudaSource::cuda);
  }
}

TEST_P(SassExact, HasTheBitsOfTheEvaluatorOnRandomKernels) {
  std::mt19937_64 random(20250101);
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (std::size_t i = 0; i < 40; ++i) {
    const double sparsity = static_cast<double>(pick(0, 100)) / 100;
    const CsrMatrix matrix = random_matrix(pick(1, 90), pick(1, 90), sparsity, random());
    CudaKernelSpec spec = cuda_spec(pick(1, 40), pick(1, 70));
    spec.ldb = spec.n + pick(0, 3);
    spec.ldc = spec.n + pick(0, 3);
    spec.tile.n1 = 32 * pick(1, 3);
    spec.tile.tiles_a_block = std::int64_t{1} << i % 3;
    spec.tile.unit_nonzeros = pick(200, 3000);
    spec.tile.runtime_sizes = pick(0, 1) == 1;
    spec.layer.runtime_values = i % 5 == 0;
    const auto reorder = static_cast<ReorderAlgorithm>(pick(0, 2));
    SCOPED_TRACE(testing::Message() << i << ": " << matrix.rows << "x" << matrix.cols << ", n "
                                    << spec.n << ", tile " << to_string(spec.tile));

    if (!long_tests() && i % 4 != turn_of(4)) continue;  // all draw from one stream
    expect_right(make_cuda_case(matrix, spec, reorder), CudaSource::ptx);
  }
}

TEST_P(SassExact, WithRuntimeThreadsHasTheBitsOfTheEvaluatorForEveryN1) {
  CudaKernelSpec spec = cuda_spec(16, 100);
  spec.tile.n1 = 256;
  spec.tile.unit_nonzeros = 500;
  spec.tile.runtime_sizes = true;
  spec.runtime_threads = true;
  const CudaCase item =
      make_cuda_case(random_matrix(90, 70, 0.8), spec, ReorderAlgorithm::similarity);
  const CudaFunction function = load_ptx(context(), cubin_of(item));

  for (const LaunchedBlock block : {LaunchedBlock{32, 4}, {96, 2}, {256, 1}}) {
    EXPECT_TRUE(same_bits(run_kernel(function, item, block), expected_c(item))) << block.n1;
  }
}

TEST_P(SassExact, ProxiesWriteWhatTheirPlanSays) {
  std::vector<ProgramCase> proxies;
  add_proxies(proxies);
  for (const ProgramCase& proxy : proxies) {
    const CudaCase item{proxy.plan, proxy.spec, dense_values(extent_of(proxy.plan.cols, 100, 100))};
    for (const CudaSource source : {CudaSource::ptx, CudaSource::cuda}) {
      const CudaFunction function = load_ptx(context(), cubin_of(item, source));
      for (const LaunchedBlock block : {LaunchedBlock{32, 4}, {96, 2}, {256, 1}}) {
        EXPECT_TRUE(same_bits(run_kernel(function, item, block), expected_c(item))) << block.n1;
      }
    }
  }
}

TEST_P(SassExact, HasTheBitsOfTheEvaluatorWhereRowsAreFarApart) {
  for (const FarCase& far : far_cases_in_all_forms()) {
    SCOPED_TRACE(far.name + ", tile " + to_string(far.spec.tile));
    const std::string cubin = cubin_of({far.name, far_plan(far), far.spec}, CudaSource::ptx);

    EXPECT_TRUE(same_bits(run_far(load_ptx(context(), cubin), far), near_c(far)));
  }
}

TEST_P(SassExact, HasTheEpiloguesOfTheReference) { expect_right(epilogue_cases()); }

TEST_P(SassExact, HasTheTokensOfTheReference) { expect_right(token_cases()); }

TEST_P(SassExact, HasTheConvolutionsOfTheReference) { expect_right(convolution_layers()); }

TEST_P(SassExact, HasTheValuesOfARun) { expect_right(value_cases()); }

/// A layer as large as real ones: 26 thousand nonzeros, 512 columns.
TEST_P(SassExact, HasTheBitsOfTheEvaluatorOnALargeLayer) {
  CudaKernelSpec spec = cuda_spec(32, 512);
  spec.tile.n1 = 128;
  const CudaCase item =
      make_cuda_case(random_matrix(512, 512, 0.9), spec, ReorderAlgorithm::balanced);

  expect_right(item, CudaSource::ptx);
}

INSTANTIATE_TEST_SUITE_P(Cubins, SassExact, ::testing::ValuesIn(k_device_archs), device_name);

}  // namespace
