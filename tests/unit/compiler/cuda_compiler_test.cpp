// compile_cuda() where it must refuse: no library and no GPU is needed for that.

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "compiler/cache_key.hpp"
#include "compiler/cuda_pipeline.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

CompileOptions gpu_options(std::int64_t n = 8) {
  CompileOptions options;
  options.n = n;
  options.target = Target::parse("sm_90:h200");
  return options;
}

constexpr auto k_no_cache = [] { return CacheOptions{.enabled = false, .directory = {}}; };

/// The message of the `Expected` that compiling throws; it has to be one line.
template <typename Expected>
std::string refusal(const CompileOptions& options, const CsrMatrix& matrix = small_matrix()) {
  try {
    static_cast<void>(Compiler(options, k_no_cache()).compile_cuda(matrix));
  } catch (const Expected& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    return text;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(CudaCompiler, RefusesOptionsOutOfRangeAndSaysWhatItExpects) {
  const auto with = [](const std::function<void(CompileOptions&)>& change) {
    CompileOptions options = gpu_options();
    change(options);
    return refusal<InvalidArgument>(options);
  };

  EXPECT_NE(with([](CompileOptions& o) { o.n = 0; }).find("n is 0"), std::string::npos);
  EXPECT_NE(with([](CompileOptions& o) { o.ldb = 7; }).find("ldb is 7"), std::string::npos);
  EXPECT_NE(with([](CompileOptions& o) { o.ldc = 7; }).find("ldc is 7"), std::string::npos);
  EXPECT_NE(with([](CompileOptions& o) { o.policy.m1 = 129; }).find("1 to 128"), std::string::npos);
  EXPECT_NE(with([](CompileOptions& o) { o.policy.n1 = 33; }).find("32"), std::string::npos);
  EXPECT_NE(with([](CompileOptions& o) { o.policy.n1 = 48; }).find("32"), std::string::npos);
  EXPECT_NE(with([](CompileOptions& o) { o.resources.compile_limit_ms = -1; }).find("-1"),
            std::string::npos);
  EXPECT_NE(with([](CompileOptions& o) { o.panel_columns = 16; }).find("panel_columns"),
            std::string::npos);
}

TEST(CudaCompiler, KeepsHostAndGpuApart) {
  CompileOptions host;
  host.n = 8;

  EXPECT_NE(refusal<InvalidArgument>(host).find("compile()"), std::string::npos);
  EXPECT_THROW(static_cast<void>(Compiler(gpu_options(), k_no_cache()).compile(small_matrix())),
               InvalidArgument);
}

TEST(CudaCompiler, RefusesAMatrixWithoutRows) {
  EXPECT_NE(refusal<InvalidArgument>(gpu_options(), {0, 5, {0}, {}, {}}).find("no rows"),
            std::string::npos);
}

TEST(CudaCompiler, RefusesCodeOverTheBudgetBeforeItNeedsALibrary) {
  CompileOptions options = gpu_options();
  options.policy.code_budget_bytes = 100;
  options.resources.toolkit_paths = {"/nowhere"};

  const std::string message = refusal<CompileFailed>(options);

  EXPECT_NE(message.find("budget is 100"), std::string::npos);
  EXPECT_NE(message.find("--code-budget"), std::string::npos);
}

TEST(CudaCompiler, SaysWhichLibraryIsMissingAndWhatToRun) {
  const TemporaryDirectory empty;
  CompileOptions options = gpu_options();
  options.resources.toolkit_paths = {empty.path()};

  const std::string message = refusal<NotSupported>(options);

  EXPECT_NE(message.find("setup_cuda.sh"), std::string::npos) << message;
}

TEST(CudaCompiler, LeavesNothingInTheCacheWhenItFails) {
  const TemporaryDirectory directory;
  CompileOptions options = gpu_options();
  options.resources.toolkit_paths = {directory.path() / "none"};
  const Compiler compiler(options, {.enabled = true, .directory = directory.path() / "cache"});

  EXPECT_THROW(static_cast<void>(compiler.compile_cuda(small_matrix())), Error);

  EXPECT_TRUE(std::filesystem::is_empty(directory.path() / "cache"));
}

TEST(CudaChoice, SaysThatItIsRankedAndWhichRulesWereRelaxed) {
  const CudaDeviceInfo limits = parse_cuda_target("sm_90:h200");

  const CudaChoice large = choose_cuda_tile(random_matrix(512, 512, 0.9), gpu_options(512), limits);
  const CudaChoice small = choose_cuda_tile(small_matrix(), gpu_options(1), limits);

  EXPECT_NE(large.reason.find("ranked, not timed"), std::string::npos);
  EXPECT_EQ(large.reason.find("relaxed"), std::string::npos);
  EXPECT_NE(small.reason.find("relaxed"), std::string::npos) << small.reason;
  EXPECT_EQ(large.chosen.tile, large.ranked.front().tile);
}

TEST(CudaChoice, KeepsTheTileThatIsAskedFor) {
  CompileOptions options = gpu_options(512);
  options.policy.m1 = 24;
  options.policy.n1 = 64;

  const CudaChoice choice =
      choose_cuda_tile(random_matrix(512, 512, 0.9), options, parse_cuda_target("sm_90:h200"));

  EXPECT_EQ(choice.chosen.tile.m1, 24);
  EXPECT_EQ(choice.chosen.tile.n1, 64);
}

TEST(CudaCacheKey, DependsOnWhatDecidesTheCode) {
  const CsrMatrix matrix = small_matrix();
  const CudaDeviceInfo limits = parse_cuda_target("sm_90:h200");
  const std::string key = cuda_cache_key(matrix, gpu_options(), limits);
  const auto changed = [&](const std::function<void(CompileOptions&)>& change) {
    CompileOptions options = gpu_options();
    change(options);
    return cuda_cache_key(matrix, options, limits);
  };
  CsrMatrix other = matrix;
  other.values[3] = -other.values[3];
  CudaDeviceInfo renamed = limits;
  renamed.card = "gpu0";
  renamed.product = "NVIDIA H200";

  EXPECT_EQ(key, cuda_cache_key(matrix, gpu_options(), renamed)) << "a name decides nothing";
  EXPECT_NE(key, cuda_cache_key(other, gpu_options(), limits));
  EXPECT_NE(key, cuda_cache_key(matrix, gpu_options(), parse_cuda_target("sm_90:h100-pcie")));
  EXPECT_NE(key, cuda_cache_key(matrix, gpu_options(), parse_cuda_target("sm_80")));
  EXPECT_NE(key, changed([](CompileOptions& o) { o.n = 9; }));
  EXPECT_NE(key, changed([](CompileOptions& o) { o.ldc = 9; }));
  EXPECT_NE(key, changed([](CompileOptions& o) { o.cuda.runtime_sizes = true; }));
  EXPECT_NE(key, changed([](CompileOptions& o) { o.policy.source = CudaSource::cuda; }));
  EXPECT_NE(key, changed([](CompileOptions& o) { o.policy.m1 = 2; }));
  EXPECT_NE(key, changed([](CompileOptions& o) { o.policy.unit_nonzeros = 7; }));
}

TEST(CudaCacheKey, DependsOnEveryLimitThatATileIsChosenBy) {
  const CudaDeviceInfo limits = parse_cuda_target("sm_90:h200");
  const std::string key = cuda_cache_key(small_matrix(), gpu_options(), limits);

  for (const auto limit :
       {&CudaDeviceInfo::sms, &CudaDeviceInfo::l2_bytes, &CudaDeviceInfo::registers_per_block,
        &CudaDeviceInfo::registers_per_sm, &CudaDeviceInfo::threads_per_sm,
        &CudaDeviceInfo::blocks_per_sm, &CudaDeviceInfo::shared_per_sm_bytes}) {
    CudaDeviceInfo other = limits;
    other.*limit /= 2;

    EXPECT_NE(key, cuda_cache_key(small_matrix(), gpu_options(), other)) << limits.*limit;
  }
}

TEST(Kernel, RefusesToBeLoadedFromWhatIsNoKernel) {
  const std::string text = "not a cubin";
  const auto image = std::as_bytes(std::span(text));

  EXPECT_THROW(static_cast<void>(Kernel::load(image, "")), Error);
  EXPECT_THROW(static_cast<void>(Kernel::load(image, "{}")), Error);
  EXPECT_THROW(static_cast<void>(Kernel::load(image, R"({"program": {"version": 1}})")), Error);
}

TEST(LocalGpus, AreAnAnswerAlsoWhereThereAreNone) {
  const LocalGpus local = find_local_gpus();

  EXPECT_EQ(local.gpus.empty(), !local.problem.empty());
  EXPECT_EQ(local.problem.find('\n'), std::string::npos);
}

TEST(LocalGpus, AreNamedByTheirOrdinal) {
  EXPECT_EQ(gpu_ordinal("gpu0"), 0);
  EXPECT_EQ(gpu_ordinal("gpu12"), 12);
  for (const char* name : {"", "gpu", "gpu-1", "gpu1x", "h200", "GPU0"}) {
    EXPECT_EQ(gpu_ordinal(name), std::nullopt) << name;
  }
}

TEST(LocalGpus, RunCodeOfTheirMajorVersionUpToTheirMinorOne) {
  EXPECT_TRUE(runs_code_of(90, 90));
  EXPECT_TRUE(runs_code_of(89, 80));
  EXPECT_FALSE(runs_code_of(80, 86));
  EXPECT_FALSE(runs_code_of(90, 89));
  EXPECT_FALSE(runs_code_of(120, 100));
}

}  // namespace
