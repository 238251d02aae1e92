// Whole compilations that search: tiles are timed on a GPU, and the kernel that comes out is right.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/cuda/local_gpus.hpp"
#include "spjit/matrix_io.hpp"
#include "tests/gpu/kernels/gpu_testing.hpp"
#include "tests/support/files/real_matrices.hpp"
#include "tests/support/long_tests.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using nlohmann::json;
using testing::HasSubstr;

constexpr std::int64_t k_columns = 96;

/// Large enough that proxies are smaller.
CsrMatrix searched_matrix() { return random_matrix(long_tests() ? 1024 : 512, 64, 0.95); }

class CudaSearchOnGpu : public GpuTest {
 protected:
  /// One M1 with all its N1, so that whole kernels of all are compiled in seconds.
  [[nodiscard]] CompileOptions search_options(SearchMode mode) const {
    CompileOptions made = options();
    made.policy.search = mode;
    made.policy.values["m1"] = "16";
    made.policy.top_k = 100;
    return made;
  }

  void expect_right(const Kernel& kernel, const CsrMatrix& matrix) const {
    const std::vector<float> b = dense_values(matrix.cols * k_columns);
    EXPECT_TRUE(
        same_bits(product(kernel, b, gpu_.ordinal),
                  reference_product(matrix, HostIsa::avx512, b.data(), k_columns, k_columns)));
  }

  void expect_timed(const Kernel& kernel, SearchMode mode) const {
    const json record = json::parse(kernel.record());
    const json& search = record.at("search");
    const bool in_full = mode == SearchMode::exhaustive;
    const char* stage = in_full ? "full" : "proxy";
    EXPECT_EQ(record.at("device"), gpu_.limits.product);
    EXPECT_EQ(search.at("mode"), to_string(mode));
    EXPECT_EQ(search.at("timed"), true) << search.at("reason");
    EXPECT_EQ(search.at("chosen"), kernel.info().tile);
    ASSERT_GT(search.at("entries").size(), 1U);
    int with_samples = 0;
    int finalists = 0;
    for (const json& entry : search.at("entries")) {
      ASSERT_TRUE(entry.contains(stage)) << entry;
      const json& result = entry.at(stage);
      EXPECT_THAT(result.at("outcome"), testing::AnyOf("finished", "dropped")) << entry;
      EXPECT_GT(result.at("median_us"), 0);
      with_samples += result.at("samples") > 0 ? 1 : 0;
      finalists += entry.contains("full") ? 1 : 0;
    }
    EXPECT_GT(with_samples, 1);
    EXPECT_THAT(kernel.info().reason, HasSubstr("fastest of "));
    EXPECT_THAT(kernel.info().reason, HasSubstr(std::to_string(with_samples) + " timed " +
                                                (in_full ? "in full" : "by proxy")));
    EXPECT_GT(finalists, 1);
  }
};

TEST_F(CudaSearchOnGpu, InEachModeTimesTilesAndTheKernelIsRight) {
  const CsrMatrix matrix = searched_matrix();
  for (const SearchMode mode : {SearchMode::ranked, SearchMode::proxy, SearchMode::exhaustive}) {
    SCOPED_TRACE(to_string(mode));

    const Kernel kernel = compile_kernel(problem_of(matrix, k_columns), search_options(mode));

    expect_timed(kernel, mode);
    expect_right(kernel, matrix);
  }
}

TEST_F(CudaSearchOnGpu, TakesProxiesFromCudaToo) {
  const CsrMatrix matrix = searched_matrix();
  CompileOptions from_cuda = search_options(SearchMode::proxy);
  from_cuda.policy.values["proxy_source"] = "cuda";

  const Kernel kernel = compile_kernel(problem_of(matrix, k_columns), from_cuda);

  expect_timed(kernel, SearchMode::proxy);
  expect_right(kernel, matrix);
}

TEST_F(CudaSearchOnGpu, TimesTilesOfALayer) {
  constexpr std::int64_t k_most_nonzeros = 5'000;
  for (const auto& file : matrix_files("dlmc")) {
    CsrMatrix matrix = load_matrix(file);
    if (matrix.nnz() == 0 || matrix.nnz() > k_most_nonzeros) continue;
    matrix.sort_columns();
    SCOPED_TRACE(file);
    for (const SearchMode mode :
         in_turn<SearchMode>({SearchMode::ranked, SearchMode::proxy, SearchMode::exhaustive})) {
      SCOPED_TRACE(to_string(mode));

      const Kernel kernel = compile_kernel(problem_of(matrix, k_columns), search_options(mode));

      expect_timed(kernel, mode);
      expect_right(kernel, matrix);
    }
    return;
  }
  GTEST_SKIP() << "no small matrices in " << (data_directory() / "dlmc");
}

TEST_F(CudaSearchOnGpu, TellsHowItStands) {
  CompileControl told;
  std::vector<std::string> stages;
  told.progress = [&](const SearchProgress& progress) {
    if (progress.total == 0) return;  // a stage begins
    if (stages.empty() || stages.back() != progress.stage) stages.emplace_back(progress.stage);
    EXPECT_LE(progress.done, progress.total);
  };

  const Compiler compiler(search_options(SearchMode::proxy), uncached());
  static_cast<void>(compiler.compile(problem_of(searched_matrix(), k_columns), told));

  ASSERT_FALSE(stages.empty());
  EXPECT_EQ(stages.front(), "compiling");
  EXPECT_EQ(stages.back(), "kernels");
}

TEST_F(CudaSearchOnGpu, IsTimedOnTheGpuThatTheTargetNames) {
  for (int ordinal = 0; ordinal < gpus_; ++ordinal) {
    const std::string card = "gpu" + std::to_string(ordinal);
    const CudaDeviceInfo limits = local_gpu_info(ordinal);

    const TimingGpu gpu = find_timing_gpu(Target::parse(limits.name()), limits);

    EXPECT_EQ(limits.card, card);
    EXPECT_EQ(gpu.ordinal, ordinal);
    EXPECT_EQ(gpu.product, limits.product);
  }
}

}  // namespace
