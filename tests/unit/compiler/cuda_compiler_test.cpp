// Compiling for a GPU where it must refuse: no library and no GPU is needed for that.

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "artifact/families.hpp"
#include "compiler/cache_key.hpp"
#include "compiler/compile_options.hpp"
#include "compiler/pipeline.hpp"
#include "kernels/cuda/launch/cuda_reading.hpp"
#include "kernels/cuda/unrolled/cuda_choice.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/cuda/cuda_search_testing.hpp"
#include "tests/support/request_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

CompileOptions gpu_options() {
  CompileOptions options;
  options.target = Target::parse("sm_90:h200");
  return options;
}

/// The message of the `Expected` that compiling throws; it has to be one line.
template <typename Expected>
std::string refusal(const CompileOptions& options,
                    const Problem& problem = problem_of(small_matrix(), 8)) {
  try {
    static_cast<void>(Compiler(options, uncached()).compile(problem));
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

  EXPECT_NE(with([](CompileOptions& o) { o.policy.values["m1"] = "129"; }).find("1 to 128"),
            std::string::npos);
  EXPECT_NE(with([](CompileOptions& o) { o.policy.values["n1"] = "33"; }).find("32"),
            std::string::npos);
  EXPECT_NE(with([](CompileOptions& o) { o.policy.values["n1"] = "48"; }).find("32"),
            std::string::npos);
  EXPECT_NE(with([](CompileOptions& o) { o.resources.compile_limit_ms = -1; }).find("-1"),
            std::string::npos);
}

TEST(CudaCompiler, RefusesProblemsThatAGpuDoesNotTakeAndSaysWhatItExpects) {
  const auto with = [](const std::function<void(Problem&)>& change) {
    Problem problem = problem_of(small_matrix(), 8);
    change(problem);
    return refusal<InvalidArgument>(gpu_options(), problem);
  };

  EXPECT_NE(with([](Problem& p) { p.n = 0; }).find("n is 0"), std::string::npos);
  EXPECT_NE(with([](Problem& p) { p.b.leading_dimension = 7; }).find("ldb is 7"),
            std::string::npos);
  EXPECT_NE(with([](Problem& p) { p.c.leading_dimension = 7; }).find("ldc is 7"),
            std::string::npos);
  EXPECT_NE(with([](Problem& p) { p.panel_columns = 16; }).find("panel_columns"),
            std::string::npos);
}

TEST(CudaCompiler, RefusesDistancesThatNoFamilyTakes) {
  for (const std::int64_t most : {k_most_reading_distance + 1, std::int64_t{1} << 47}) {
    for (const auto operand : {&Problem::b, &Problem::c}) {
      Problem problem = problem_of(small_matrix(), 8);
      (problem.*operand).leading_dimension = most;

      const std::string text = refusal<NotSupported>(gpu_options(), problem);

      EXPECT_NE(text.find(std::to_string(most)), std::string::npos) << text;
      EXPECT_NE(text.find("unrolled: "), std::string::npos) << text;
      EXPECT_NE(text.find("csr: "), std::string::npos) << text;
    }
  }
}

TEST(CudaCompiler, ChecksAProblemForItsOwnLimits) {
  Problem problem = problem_of(small_matrix(), 8);
  problem.panel_columns = 7;

  EXPECT_THROW(check_for_target(problem, Target(HostIsa::avx2)), InvalidArgument);
  EXPECT_THROW(check_for_target(problem, gpu_options().target), InvalidArgument);
  problem.panel_columns.reset();
  EXPECT_NO_THROW(check_for_target(problem, Target(HostIsa::avx2)));
  EXPECT_NO_THROW(check_for_target(problem, gpu_options().target));
}

/// What instant mode chooses, of which nothing is compiled.
class CudaFamilies : public testing::Test {
 protected:
  [[nodiscard]] static std::string family_of(const Problem& problem,
                                             std::int64_t code_budget_bytes = 1 << 28) {
    CompileOptions options = gpu_options();
    options.policy.code_budget_bytes = code_budget_bytes;
    const OwnRequest own(problem, options, device_info_of(options.target));
    return explain_problem(own.request, families_for(options.target))
        .at("family")
        .get<std::string>();
  }
  [[nodiscard]] static Problem of(double sparsity, std::int64_t n) {
    return problem_of(random_matrix(200, 200, sparsity), n);
  }
};

TEST_F(CudaFamilies, AreChosenByColumnsAndEntries) {
  EXPECT_EQ(family_of(of(0.9, 16)), "narrow");
  EXPECT_EQ(family_of(of(0.95, 1)), "narrow");
  EXPECT_EQ(family_of(of(0.5, 1)), "packed");
  EXPECT_EQ(family_of(of(0, 16)), "packed");
  EXPECT_EQ(family_of(of(0.9, 17)), "unrolled");
  EXPECT_EQ(family_of(of(0.3, 64)), "unrolled");
  EXPECT_EQ(family_of(of(0.1, 64)), "dense");
}

TEST_F(CudaFamilies, OverTheCodeBudgetAreThoseThatReadA) {
  constexpr std::int64_t k_no_code = 1000;

  EXPECT_EQ(family_of(of(0.9, 64), k_no_code), "csr");
  EXPECT_EQ(family_of(of(0.9, 1), k_no_code), "narrow");
  EXPECT_EQ(family_of(of(0.75, 64), k_no_code), "dense");
  // Of one instruction a product the budget is just enough, and one byte too small.
  const Problem problem = of(0.75, 64);
  EXPECT_EQ(family_of(problem, 16 * problem.a->nnz()), "csr") << "other code does not fit";
  EXPECT_EQ(family_of(problem, 16 * problem.a->nnz() - 1), "dense");
}

/// Which of two decides by bytes, at two thirds of what CSR moves.
TEST_F(CudaFamilies, OfFewColumnsAreChosenByBytesOfA) {
  // A row of one chunk: 20 bytes beside its units of 16.
  const auto of_row = [](std::int64_t entries) {
    CsrMatrix matrix{1024 * 8, 128, {0}, {}, {}};
    for (std::int64_t row = 0; row < matrix.rows; ++row) {
      for (std::int64_t i = 0; i < entries; ++i) {
        matrix.col_idxs.push_back(static_cast<std::int32_t>(i));
        matrix.values.push_back(1);
      }
      matrix.row_ptrs.push_back(matrix.nnz());
    }
    return problem_of(matrix, 8);
  };

  EXPECT_EQ(family_of(of_row(16)), "packed") << "84 bytes, of 128";
  EXPECT_EQ(family_of(of_row(15)), "narrow") << "84 bytes, of 120";
}

TEST_F(CudaFamilies, OfHalvesAreThoseThatTakeThem) {
  Problem problem = of(0.99, 4);
  for (const DataType type : {DataType::bf16, DataType::f16}) {
    problem.numerics.a = type;
    CsrMatrix matrix = *problem.a;
    std::ranges::fill(matrix.values, 0.5F);
    problem.a = std::move(matrix);

    EXPECT_EQ(family_of(problem), "packed");
  }
}

TEST_F(CudaFamilies, TakeWhatUnrolledCodeDoesNot) {
  Problem far = of(0.9, 64);
  far.b.leading_dimension = std::int64_t{1} << 30;
  Problem many = of(0.9, 64);
  many.n = k_cuda_max_grid_y * k_cuda_max_threads + 1;

  EXPECT_EQ(family_of(far), "csr");
  EXPECT_EQ(family_of(many), "csr");
}

TEST(CudaCompiler, RefusesAMatrixWithoutRows) {
  EXPECT_NE(
      refusal<InvalidArgument>(gpu_options(), problem_of({0, 5, {0}, {}, {}}, 8)).find("no rows"),
      std::string::npos);
}

TEST(CudaCompiler, RefusesUnrolledCodeOverTheBudgetBeforeItNeedsALibrary) {
  CompileOptions options = gpu_options();
  options.policy.family = "unrolled";
  options.resources.toolkit_paths = {"/nowhere"};
  // The products alone, and only with all that is around them.
  for (const std::int64_t budget : {100, 200}) {
    options.policy.code_budget_bytes = budget;

    const std::string message = refusal<NotSupported>(options);

    EXPECT_NE(message.find("budget is " + std::to_string(budget)), std::string::npos) << message;
  }
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

  EXPECT_THROW(static_cast<void>(compiler.compile(problem_of(small_matrix(), 8))), Error);

  EXPECT_TRUE(std::filesystem::is_empty(directory.path() / "cache"));
}

CudaChoice choice_of(CsrMatrix matrix, std::int64_t n, const CompileOptions& options) {
  const OwnRequest own(problem_of(std::move(matrix), n), options, parse_cuda_target("sm_90:h200"));
  return choose_cuda_tile(own.request);
}

TEST(CudaChoice, SaysThatItIsRankedAndWhichRulesWereRelaxed) {
  const CudaChoice large = choice_of(random_matrix(512, 512, 0.9), 512, gpu_options());
  const CudaChoice small = choice_of(small_matrix(), 1, gpu_options());

  EXPECT_NE(large.reason.find("ranked, not timed"), std::string::npos);
  EXPECT_EQ(large.reason.find("relaxed"), std::string::npos);
  EXPECT_NE(small.reason.find("relaxed"), std::string::npos) << small.reason;
  EXPECT_EQ(large.chosen.tile, large.ranked.front().tile);
}

TEST(CudaChoice, KeepsTheTileThatIsAskedFor) {
  CompileOptions options = gpu_options();
  options.policy.values["m1"] = "24";
  options.policy.values["n1"] = "64";

  const CudaChoice choice = choice_of(random_matrix(512, 512, 0.9), 512, options);

  EXPECT_EQ(choice.chosen.tile.m1, 24);
  EXPECT_EQ(choice.chosen.tile.n1, 64);
}

TEST(CudaChoice, WhoseKernelTheSearchCompiledIsNotCompiledAgain) {
  const MadeUpSearch given;
  auto built = std::make_shared<BuiltCuda>();
  built->artifact.cubin = "a cubin";
  built->program.blocks_x = 7;
  built->trace.note = "a note";
  CudaChoice choice;
  choice.built = built;
  choice.reason = "a reason";
  const OwnRequest own(given.problem, given.options, given.limits);

  const CompiledCuda compiled = compile_cuda_choice(choice, own.request);

  EXPECT_EQ(compiled.artifact.cubin, "a cubin");
  EXPECT_EQ(compiled.program.blocks_x, 7);
  EXPECT_EQ(compiled.trace.note, "a note");
  EXPECT_EQ(compiled.choice.reason, "a reason");
  EXPECT_EQ(compiled.choice.built, nullptr);
}

std::string gpu_key(const Problem& problem, const CompileOptions& options,
                    const CudaDeviceInfo& limits) {
  const DeviceInfo device = limits;
  return cache_key({problem, options, device, {}});
}

TEST(CudaCacheKey, DependsOnWhatDecidesTheCode) {
  const Problem problem = problem_of(small_matrix(), 8);
  const CudaDeviceInfo limits = parse_cuda_target("sm_90:h200");
  const std::string key = gpu_key(problem, gpu_options(), limits);
  const auto changed = [&](const std::function<void(CompileOptions&)>& change) {
    CompileOptions options = gpu_options();
    change(options);
    return gpu_key(problem, options, limits);
  };
  const auto changed_problem = [&](const std::function<void(Problem&)>& change) {
    Problem other = problem;
    change(other);
    return gpu_key(other, gpu_options(), limits);
  };
  CsrMatrix other = small_matrix();
  other.values[3] = -other.values[3];
  CudaDeviceInfo renamed = limits;
  renamed.card = "gpu0";
  renamed.product = "NVIDIA H200";
  CompileOptions bare = gpu_options();
  bare.target = Target::parse("sm_90");

  EXPECT_EQ(key, gpu_key(problem, gpu_options(), renamed)) << "a name decides nothing";
  EXPECT_EQ(key, gpu_key(problem, bare, limits)) << "nor does what the target calls it";
  EXPECT_EQ(key, changed([](CompileOptions& o) { o.resources.threads = 3; }));
  EXPECT_NE(key, gpu_key(problem_of(other, 8), gpu_options(), limits));
  EXPECT_NE(key, gpu_key(problem, gpu_options(), parse_cuda_target("sm_90:h100-pcie")));
  EXPECT_NE(key, gpu_key(problem, gpu_options(), parse_cuda_target("sm_80")));
  EXPECT_NE(key, changed_problem([](Problem& p) { p.n = 9; }));
  EXPECT_NE(key, changed_problem([](Problem& p) { p.c.leading_dimension = 9; }));
  EXPECT_NE(key, changed_problem([](Problem& p) { p.n = Extent::at_run_time(8); }));
  EXPECT_NE(key, changed([](CompileOptions& o) { o.policy.values["source"] = "cuda"; }));
  EXPECT_NE(key, changed([](CompileOptions& o) { o.policy.values["m1"] = "2"; }));
  EXPECT_NE(key, changed([](CompileOptions& o) { o.policy.values["n1"] = "32"; }));
  EXPECT_NE(key, changed([](CompileOptions& o) { o.policy.values["unit_nonzeros"] = "7"; }));
}

TEST(CudaCacheKey, DependsOnEveryLimitThatATileIsChosenBy) {
  const Problem problem = problem_of(small_matrix(), 8);
  const CudaDeviceInfo limits = parse_cuda_target("sm_90:h200");
  const std::string key = gpu_key(problem, gpu_options(), limits);

  for (const auto limit :
       {&CudaDeviceInfo::sms, &CudaDeviceInfo::l2_bytes, &CudaDeviceInfo::registers_per_block,
        &CudaDeviceInfo::registers_per_sm, &CudaDeviceInfo::threads_per_sm,
        &CudaDeviceInfo::blocks_per_sm, &CudaDeviceInfo::shared_per_sm_bytes}) {
    CudaDeviceInfo other = limits;
    other.*limit /= 2;

    EXPECT_NE(key, gpu_key(problem, gpu_options(), other)) << limits.*limit;
  }
}

TEST(KernelFromArtifact, RefusesWhatIsNoKernel) {
  const auto load = [](const std::string& image, const std::string& record) {
    Artifact artifact;
    const auto bytes = std::as_bytes(std::span(image));
    artifact.add("kernel.cubin", {bytes.begin(), bytes.end()});
    artifact.record = record;
    static_cast<void>(Kernel::from_artifact(artifact));
  };

  for (const char* record :
       {"", "{}", "[]", "3", R"({"family": 3})", R"({"family": "none"})",
        R"({"family": "unrolled", "target": "sm_90"})",
        R"({"family": "unrolled", "target": "sm_90", "program": {"version": 1}})",
        R"({"family": "csr"})"}) {
    EXPECT_THROW(load("not a cubin", record), Error) << record;
  }
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
