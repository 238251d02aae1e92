// The search for a GPU tile on the emulated driver, with PTX in place of cubins: timing of proxies
// and kernels, whole searches, and which GPU they are timed on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/unrolled/cuda_tunable.hpp"
#include "proxy/search.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "tests/support/convolution_cases.hpp"
#include "tests/support/cuda/cuda_proxy_cases.hpp"
#include "tests/support/cuda/cuda_search_testing.hpp"
#include "tests/support/cuda/emulated_kernel.hpp"
#include "tests/support/scoped_variable.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t k_searched_columns = 70;

std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

bool is_one_line(const std::string& text) {
  return !text.empty() && text.find('\n') == std::string::npos;
}

/// One small matrix with two candidates, timed on an emulated H100.
class CudaSearchOnEmulatedDriver : public ::testing::Test {
 protected:
  CudaSearchOnEmulatedDriver() {
    options_.policy.reorder = ReorderAlgorithm::balanced;
    // Interpreted kernels take long.
    tuning_options_.min_sample_us = 1;
    tuning_options_.max_rounds = tuning_options_.min_rounds = 1;
    tuning_options_.drops = false;
    tuning_options_.call_limit_ms = 1e6;
  }

  [[nodiscard]] CudaTimer timer() const { return {emulated_context(), problem_}; }
  [[nodiscard]] std::string proxy_ptx() const {
    return join_texts(emit_cuda_proxy(
        make_cuda_proxy(given_.plan, given_.candidates, given_.limits), CudaSource::ptx, 90));
  }
  [[nodiscard]] CudaCase kernel_of(const CudaCandidate& candidate) const {
    CudaKernelSpec spec = cuda_spec(8, k_searched_columns);
    spec.tile = candidate.tile;
    return make_cuda_case(*problem_.a, spec, ReorderAlgorithm::balanced);
  }
  [[nodiscard]] CudaTuningCandidate proxy(std::size_t candidate, const std::string& image) const {
    const CudaCandidate& of = given_.candidates[candidate];
    return {to_string(of.tile), bytes(image), launch_of(of, 32, given_.limits)};
  }

  Problem problem_ = cuda_problem(random_matrix(64, 40, 0.8), k_searched_columns);
  ProxyCase given_ = proxy_case(*problem_.a, 8, k_searched_columns, {32, 64});
  CompileOptions options_;
  TuningOptions tuning_options_;
};

TEST_F(CudaSearchOnEmulatedDriver, ProxiesAndWholeKernelsRaceTogether) {
  const std::string small = proxy_ptx();
  const CudaCase whole = kernel_of(given_.candidates[1]);
  const std::string kernel = ptx_of(whole);
  const CudaGrid grid = cuda_grid(whole.plan, whole.spec);
  CudaTimer timer = this->timer();

  const std::vector<TuningResult> results = time_cuda_kernels(
      std::vector<CudaTuningCandidate>{
          proxy(0, small), proxy(1, small), {"whole", bytes(kernel), {grid.x, grid.y, 64, 0, ""}}},
      tuning_options_, timer);

  ASSERT_EQ(results.size(), 3U);
  for (const TuningResult& result : results) {
    EXPECT_EQ(result.outcome, TuningOutcome::finished) << result.failure;
    EXPECT_EQ(result.timing.samples, 1);
    EXPECT_GT(result.timing.median_us, 0);
  }
  EXPECT_EQ(results[1].timing.name, to_string(given_.candidates[1].tile));
  EXPECT_EQ(results[2].timing.name, "whole");
}

TEST_F(CudaSearchOnEmulatedDriver, TimesLayersOfTokens) {
  problem_.b.layout = problem_.c.layout = Layout::tokens_major;
  problem_.epilogue = {
      .scale = true, .bias = true, .residual = true, .activation = Activation::gelu_erf};
  std::vector<std::string> images;
  for (CudaCandidate& candidate : given_.candidates) {
    candidate.layer = {problem_.epilogue, problem_.b.layout, problem_.c.layout};
    candidate.ldb = problem_.ldb();
    candidate.ldc = problem_.ldc();
    images.push_back(join_texts(emit_cuda_proxy(
        make_cuda_proxy(given_.plan, {&candidate, 1}, given_.limits), CudaSource::ptx, 90)));
  }
  CudaTimer timer = this->timer();

  const std::vector<TuningResult> results = time_cuda_kernels(
      std::vector{proxy(0, images[0]), proxy(1, images[1])}, tuning_options_, timer);

  for (const TuningResult& result : results) {
    EXPECT_EQ(result.outcome, TuningOutcome::finished) << result.failure;
  }
  EXPECT_FALSE(share_proxy(given_.candidates[0], given_.candidates[1]));
  EXPECT_TRUE(share_proxy(given_.candidates[0], given_.candidates[0]));
}

TEST_F(CudaSearchOnEmulatedDriver, TimesKernelsAndProxiesOfValuesAtRunTime) {
  problem_.runtime_values = true;
  for (CudaCandidate& candidate : given_.candidates) candidate.layer.runtime_values = true;
  const std::string small = proxy_ptx();
  CudaCase whole = kernel_of(given_.candidates[1]);
  whole.spec.layer.runtime_values = true;
  const std::string kernel = ptx_of(whole);
  const CudaGrid grid = cuda_grid(whole.plan, whole.spec);
  CudaTimer timer = this->timer();

  const std::vector<TuningResult> results = time_cuda_kernels(
      std::vector<CudaTuningCandidate>{
          proxy(0, small), proxy(1, small), {"whole", bytes(kernel), {grid.x, grid.y, 64, 0, ""}}},
      tuning_options_, timer);

  for (const std::string& text : {small, kernel}) EXPECT_THAT(text, HasSubstr("[pvalues+"));
  for (const TuningResult& result : results) {
    EXPECT_EQ(result.outcome, TuningOutcome::finished) << result.failure;
  }
}

/// Operands are as large as the image: a kernel or proxy that reads more faults.
TEST_F(CudaSearchOnEmulatedDriver, TimesKernelsAndProxiesOfConvolutions) {
  problem_ = problem_of_convolution({.channels = 4,
                                     .height = 8,
                                     .width = 9,
                                     .kernel_height = 3,
                                     .kernel_width = 3,
                                     .stride_width = 2,
                                     .pad_top = 1,
                                     .pad_left = 1,
                                     .pad_bottom = 1,
                                     .pad_right = 1},
                                    64);
  problem_.n = 40;
  for (const Layout layout : {Layout::row_major, Layout::tokens_major}) {
    problem_.b.layout = layout;
    given_ = proxy_case(*problem_.a, 8, problem_.n.value, {32, 64});
    for (CudaCandidate& candidate : given_.candidates) {
      candidate.layer.b_layout = layout;
      candidate.layer.convolution = problem_.convolution;
      candidate.ldb = problem_.ldb();
    }
    const std::string small = proxy_ptx();
    CudaCase whole = kernel_of(given_.candidates[1]);
    whole.spec.n = whole.spec.ldc = problem_.n.value;
    whole.spec.ldb = problem_.ldb();
    whole.spec.layer = given_.candidates[1].layer;
    const std::string kernel = ptx_of(whole);
    const CudaGrid grid = cuda_grid(whole.plan, whole.spec);
    CudaTimer timer = this->timer();

    const std::vector<TuningResult> results = time_cuda_kernels(
        std::vector<CudaTuningCandidate>{proxy(0, small),
                                         proxy(1, small),
                                         {"whole", bytes(kernel), {grid.x, grid.y, 64, 0, ""}}},
        tuning_options_, timer);

    for (const std::string& text : {small, kernel}) EXPECT_THAT(text, HasSubstr("@valid0 ld."));
    for (const TuningResult& result : results) {
      EXPECT_EQ(result.outcome, TuningOutcome::finished) << result.failure;
    }
    EXPECT_TRUE(share_proxy(given_.candidates[0], given_.candidates[1]));
  }
}

TEST_F(CudaSearchOnEmulatedDriver, AnImageThatCannotBeLoadedHasFailedAndTheOthersGoOn) {
  const std::string good = proxy_ptx();
  const std::string bad = "no code";
  CudaTimer timer = this->timer();

  const std::vector<TuningResult> results =
      time_cuda_kernels(std::vector<CudaTuningCandidate>{proxy(0, bad), proxy(0, good),
                                                         proxy(1, bad), proxy(1, good)},
                        tuning_options_, timer);

  ASSERT_EQ(results.size(), 4U);
  for (const std::size_t unloadable : {0U, 2U}) {
    EXPECT_EQ(results[unloadable].outcome, TuningOutcome::failed);
    EXPECT_NE(results[unloadable].failure, "");
  }
  for (const std::size_t loaded : {1U, 3U}) {
    EXPECT_EQ(results[loaded].outcome, TuningOutcome::finished) << results[loaded].failure;
  }
}

TEST_F(CudaSearchOnEmulatedDriver, AfterAFaultAllThatFollowFail) {
  const std::string good = proxy_ptx();
  // A row of B that there is not.
  CsrMatrix wide = *problem_.a;
  wide.cols = 1 << 12;
  wide.col_idxs.back() = (1 << 12) - 1;
  const CudaCase reads_far =
      make_cuda_case(wide, cuda_spec(8, k_searched_columns), ReorderAlgorithm::balanced);
  const std::string faults = ptx_of(reads_far);
  const CudaGrid grid = cuda_grid(reads_far.plan, reads_far.spec);
  CudaTimer timer = this->timer();

  const std::vector<TuningResult> results = time_cuda_kernels(
      std::vector<CudaTuningCandidate>{{"far", bytes(faults), {grid.x, grid.y, 32, 0, ""}},
                                       proxy(0, good)},
      tuning_options_, timer);

  EXPECT_EQ(results[0].outcome, TuningOutcome::failed);
  EXPECT_THAT(results[0].failure, HasSubstr("ILLEGAL_ADDRESS"));
  EXPECT_EQ(results[1].outcome, TuningOutcome::failed);
  EXPECT_EQ(winner_of(results), k_no_winner);
}

TEST_F(CudaSearchOnEmulatedDriver, ASearchInEachModeChoosesATileThatWasTimed) {
  CudaTimer timer = this->timer();
  CudaSearchTools tools;
  tools.compile_proxy = [](const CudaProxy& proxy, const Cancellation&) {
    CompiledCudaProxy compiled;
    compiled.cubin = join_texts(emit_cuda_proxy(proxy, CudaSource::ptx, 90));
    compiled.registers = 32;
    return compiled;
  };
  tools.compile_kernel = [&](const CudaCandidate& candidate, const Cancellation&) {
    const CudaCase item = kernel_of(candidate);
    return CudaKernelImage{ptx_of(item), cuda_grid(item.plan, item.spec).x};
  };
  tools.time = [&](std::span<const CudaTuningCandidate> candidates, const TuningOptions&) {
    return time_cuda_kernels(candidates, tuning_options_, timer);
  };
  tools.compile_threads = 2;
  RowGroupings groupings(*problem_.a, ReorderAlgorithm::balanced);
  for (const SearchMode mode : {SearchMode::ranked, SearchMode::proxy, SearchMode::exhaustive}) {
    SCOPED_TRACE(to_string(mode));
    options_.policy.search = mode;

    CudaTunable space({problem_, options_, given_.limits, groupings}, given_.candidates, tools);
    SearchSettings settings;
    settings.mode = mode;
    settings.stages = search_stages(mode, options_.policy.top_k, true);
    settings.stages.finalists = 0;
    const SearchTrace trace = search(space, settings, {}).trace;

    EXPECT_TRUE(trace.timed);
    ASSERT_EQ(trace.entries.size(), 2U);
    double best_us = 0;
    for (const SearchTraceEntry& entry : trace.entries) {
      const auto& result = mode == SearchMode::exhaustive ? entry.full : entry.proxy;
      ASSERT_TRUE(result);
      EXPECT_EQ(result->outcome, TuningOutcome::finished) << result->failure;
      const double us = result->timing.median_us;
      best_us = best_us == 0 ? us : std::min(best_us, us);
    }
    const SearchTraceEntry& chosen = trace.entries[trace.chosen];
    EXPECT_EQ((mode == SearchMode::exhaustive ? chosen.full : chosen.proxy)->timing.median_us,
              best_us);
  }
}

class TimingGpuOnEmulatedDriver : public ::testing::Test {
 protected:
  ScopedVariable driver_{"SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA};
  CudaDeviceInfo h100_ = parse_cuda_target("sm_90:h100");
};

TEST_F(TimingGpuOnEmulatedDriver, IsTheFirstOfTheArchitectureWithAsManySms) {
  for (const std::string name : {"sm_90", "sm_90:h100"}) {
    const TimingGpu gpu = find_timing_gpu(Target::parse(name), h100_);

    EXPECT_EQ(gpu.ordinal, 0) << name;
    EXPECT_EQ(gpu.product, "emulated H100") << name;
    EXPECT_EQ(gpu.problem, "") << name;
  }
}

TEST_F(TimingGpuOnEmulatedDriver, IsTheOneThatTheTargetNames) {
  CudaDeviceInfo cut_down = h100_;
  cut_down.sms = 114;

  const TimingGpu gpu = find_timing_gpu(Target::parse("sm_90:gpu0"), cut_down);

  EXPECT_EQ(gpu.ordinal, 0);
  EXPECT_EQ(gpu.product, "emulated H100");
}

TEST_F(TimingGpuOnEmulatedDriver, IsNoneOfAnotherArchitectureOrWithAnotherNumberOfSms) {
  const CudaDeviceInfo a100 = parse_cuda_target("sm_80:a100-40");
  CudaDeviceInfo cut_down = h100_;
  cut_down.sms = 114;

  const TimingGpu other_arch = find_timing_gpu(Target::parse("sm_80"), a100);
  const TimingGpu other_sms = find_timing_gpu(Target::parse("sm_90"), cut_down);

  EXPECT_FALSE(other_arch.ordinal);
  EXPECT_EQ(other_arch.problem, "no GPU here is an sm_80 with 108 SMs");
  EXPECT_EQ(other_arch.product, "");
  EXPECT_FALSE(other_sms.ordinal);
  EXPECT_EQ(other_sms.problem, "no GPU here is an sm_90 with 114 SMs");
}

TEST(TimingGpu, IsNoneWithoutADriverAndOneLineSaysWhy) {
  const ScopedVariable driver("SPJIT_CUDA_DRIVER", "/nowhere/libcuda.so.1");

  const TimingGpu gpu = find_timing_gpu(Target::parse("sm_90"), parse_cuda_target("sm_90:h100"));

  EXPECT_FALSE(gpu.ordinal);
  EXPECT_THAT(gpu.problem, HasSubstr("/nowhere/libcuda.so.1"));
  EXPECT_TRUE(is_one_line(gpu.problem)) << gpu.problem;
}

TEST(CudaChoiceWithoutAGpu, IsTheFirstOfTheRankingAndTheReasonSaysSo) {
  const ScopedVariable driver("SPJIT_CUDA_DRIVER", "/nowhere/libcuda.so.1");
  const Problem problem = cuda_problem(random_matrix(64, 40, 0.8), k_searched_columns);
  CompileOptions options;
  options.target = Target::parse("sm_90:h100");
  const CudaDeviceInfo limits = parse_cuda_target("sm_90:h100");
  const CudaChoice instant = choice_of(problem, options, limits);
  for (const SearchMode mode : {SearchMode::proxy, SearchMode::exhaustive}) {
    options.policy.search = mode;

    const CudaChoice choice = choice_of(problem, options, limits);

    EXPECT_EQ(choice.chosen.tile, choice.ranked.front().tile);
    EXPECT_EQ(choice.chosen.tile, instant.chosen.tile);
    EXPECT_FALSE(choice.search.timed);
    EXPECT_TRUE(choice.search.entries.empty());
    EXPECT_THAT(choice.reason, HasSubstr("ranked, not timed: "));
    EXPECT_THAT(choice.reason, HasSubstr("/nowhere/libcuda.so.1"));
    EXPECT_TRUE(is_one_line(choice.reason)) << choice.reason;
  }
  EXPECT_THAT(instant.reason, HasSubstr("; ranked, not timed"));
  EXPECT_THAT(instant.reason, Not(HasSubstr("not timed:")));
}

TEST_F(TimingGpuOnEmulatedDriver, WithoutCompilerLibrariesNothingIsTimed) {
  const Problem problem = cuda_problem(random_matrix(64, 40, 0.8), k_searched_columns);
  const TemporaryDirectory nothing;
  CompileOptions options;
  options.target = Target::parse("sm_90:h100");
  options.policy.search = SearchMode::ranked;
  options.resources.toolkit_paths = {nothing.path()};

  const CudaChoice choice = choice_of(problem, options, h100_);

  EXPECT_EQ(choice.chosen.tile, choice.ranked.front().tile);
  EXPECT_FALSE(choice.search.timed);
  EXPECT_THAT(choice.reason, HasSubstr("ranked, not timed: "));
  EXPECT_THAT(choice.reason, HasSubstr("setup_cuda.sh"));
  EXPECT_TRUE(is_one_line(choice.reason)) << choice.reason;
}

}  // namespace
