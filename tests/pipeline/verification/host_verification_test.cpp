// A kernel that fails its check reaches nobody: neither the caller nor the cache.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <latch>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/host_cpu.hpp"
#include "compiler/kernel_check.hpp"
#include "runtime/cache/cache_store.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"
#include "tests/support/activations.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/wrong_kernels.hpp"

namespace {

namespace fs = std::filesystem;
using namespace spjit;
using namespace spjit::testing_support;
using testing::HasSubstr;

/// A return is all of each row tile's code.
void write_nothing(HostArtifact& artifact) {
  constexpr std::uint8_t k_ret = 0xC3;
  HostProgramRecord program = read_program(artifact.image());
  for (const std::int64_t offset : program.segment_offsets) artifact.text[index(offset)] = k_ret;
}

class HostVerification : public testing::Test {
 protected:
  [[nodiscard]] fs::path cache() const { return directory_.path() / "cache"; }

  [[nodiscard]] Kernel compile(VerifyMode mode, const CompileControl& control = {}) const {
    return compile(mode, cached_in(cache()), control);
  }

  [[nodiscard]] Kernel compile(VerifyMode mode, const CacheOptions& options,
                               const CompileControl& control = {}) const {
    CompileOptions compile_options = hot_options();
    compile_options.verify = mode;
    return Compiler(compile_options, options).compile(problem_of(matrix_, 33), control);
  }

  /// The message of the VerificationFailed that compiling throws.
  [[nodiscard]] std::string failure(VerifyMode mode, const CacheOptions& options) const {
    try {
      static_cast<void>(compile(mode, options));
    } catch (const VerificationFailed& error) {
      return error.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return {};
  }

  /// What the records of the cache's entries say of their checks.
  [[nodiscard]] std::vector<nlohmann::json> certificates() const {
    std::vector<nlohmann::json> found;
    for (const CacheListing& entry : CacheStore(cache(), SPJIT_VERSION).list()) {
      found.push_back(entry.record->kernel.at("verification"));
    }
    return found;
  }

  TemporaryDirectory directory_;
  CsrMatrix matrix_ = random_matrix(60, 70, 0.8);
};

TEST_F(HostVerification, AWrongKernelIsAnErrorAndIsNotPublished) {
  const SpoiledHostKernels spoiled(change_a_weight);
  for (const VerifyMode mode : {VerifyMode::sampled, VerifyMode::full}) {
    EXPECT_THAT(failure(mode, cached_in(cache())), HasSubstr("wrong result: C["));
    EXPECT_THAT(failure(mode, uncached()), HasSubstr("the float64 reference"));
  }
  EXPECT_EQ(left_in(cache()), std::vector<std::string>());
}

TEST_F(HostVerification, AKernelThatWritesNothingIsAnErrorAndIsNotPublished) {
  const SpoiledHostKernels spoiled(write_nothing);

  EXPECT_THAT(failure(VerifyMode::sampled, cached_in(cache())), HasSubstr("wrong result: C["));
  EXPECT_EQ(left_in(cache()), std::vector<std::string>());
}

TEST_F(HostVerification, AWrongKernelInTheCacheIsWithdrawnAndCompiledAnew) {
  std::string key;
  {
    const SpoiledHostKernels spoiled(change_a_weight);
    key = compile(VerifyMode::none).info().key;
  }
  EXPECT_FALSE(is_kernel_of(compile(VerifyMode::none), matrix_));  // what no check is for

  const Kernel checked = compile(VerifyMode::sampled);
  const Kernel cached = compile(VerifyMode::none);

  EXPECT_FALSE(checked.info().from_cache);
  EXPECT_THAT(checked.info().note, HasSubstr("its kernel failed the check: wrong result: C["));
  EXPECT_THAT(checked.info().note, HasSubstr(key));
  EXPECT_TRUE(is_kernel_of(checked, matrix_));
  EXPECT_EQ(checked.info().verification.mode, VerifyMode::sampled);
  EXPECT_TRUE(cached.info().from_cache);
  EXPECT_EQ(cached.info().note, "");
  EXPECT_TRUE(is_kernel_of(cached, matrix_));
  ASSERT_EQ(certificates().size(), 1U);
  EXPECT_EQ(certificates().front().at("mode"), "sampled");
  EXPECT_FALSE(fs::is_empty(cache() / "damaged"));
}

TEST_F(HostVerification, AWrongKernelInTheCacheThatIsWrongAgainLeavesNoEntry) {
  const SpoiledHostKernels spoiled(change_a_weight);
  static_cast<void>(compile(VerifyMode::none));

  const std::string message = failure(VerifyMode::sampled, cached_in(cache()));

  EXPECT_THAT(message, HasSubstr("the kernel was not kept"));
  EXPECT_THAT(message, HasSubstr("its kernel failed the check"));  // the one that was there
  EXPECT_EQ(certificates(), std::vector<nlohmann::json>());
}

TEST_F(HostVerification, AWrongKernelInALayerIsReplacedInTheCacheAboveIt) {
  const fs::path layer = directory_.path() / "layer";
  {
    const SpoiledHostKernels spoiled(change_a_weight);
    static_cast<void>(compile(VerifyMode::none, cached_in(layer)));
  }
  CacheOptions options = cached_in(cache());
  options.read_only_layers = {layer};

  const Kernel checked = compile(VerifyMode::sampled, options);
  const Kernel cached = compile(VerifyMode::none, options);

  EXPECT_FALSE(checked.info().from_cache);
  EXPECT_THAT(checked.info().note, HasSubstr("its kernel failed the check"));
  EXPECT_EQ(cached.info().cache_directory, cache());
  EXPECT_TRUE(is_kernel_of(cached, matrix_));
  EXPECT_EQ(CacheStore(layer, SPJIT_VERSION).list().size(), 1U);
}

TEST_F(HostVerification, ARightKernelHasItsCertificateInTheRecord) {
  const Kernel fresh = compile(VerifyMode::full);
  const Kernel cached = compile(VerifyMode::sampled);

  const Verification& found = fresh.info().verification;
  EXPECT_EQ(found.mode, VerifyMode::full);
  EXPECT_TRUE(found.complete());
  EXPECT_EQ(found.rows_checked, 60);
  EXPECT_EQ(found.columns_checked, 33);
  EXPECT_EQ(found.device, host_cpu().model_name);
  EXPECT_GT(found.max_abs_error, 0);
  EXPECT_LT(found.max_error_over_bound, 1);
  const nlohmann::json expected = {{"mode", "full"},
                                   {"reference", "float64"},
                                   {"seed", k_check_seed},
                                   {"device", host_cpu().model_name},
                                   {"rows_checked", 60},
                                   {"columns_checked", 33},
                                   {"complete", true},
                                   {"max_abs_error", found.max_abs_error},
                                   {"max_error_over_bound", found.max_error_over_bound}};
  EXPECT_EQ(nlohmann::json::parse(fresh.record()).at("verification"), expected);
  EXPECT_EQ(certificates(), std::vector<nlohmann::json>{expected});
  EXPECT_TRUE(cached.info().from_cache);
  EXPECT_EQ(cached.info().verification.mode, VerifyMode::sampled);  // of this call
  EXPECT_EQ(cached.record(), fresh.record());                       // of its publication
}

TEST_F(HostVerification, ASampleOfALargeKernelIsPartOfItAndFullIsAll) {
  matrix_ = random_matrix(1500, 1000, 0.5);  // 25 million products

  for (const bool full : {false, true}) {
    CompileOptions options = hot_options();
    options.verify = full ? VerifyMode::full : VerifyMode::sampled;

    const Verification found =
        Compiler(options, uncached()).compile(problem_of(matrix_, 64)).info().verification;

    EXPECT_EQ(found.complete(), full);
    EXPECT_EQ(found.columns_checked == 64, full);
  }
}

TEST_F(HostVerification, AKernelThatIsNotCheckedSaysSo) {
  const Kernel kernel = compile(VerifyMode::none);

  EXPECT_EQ(kernel.info().verification.mode, VerifyMode::none);
  EXPECT_FALSE(kernel.info().verification.complete());
  EXPECT_EQ(certificates(), std::vector<nlohmann::json>({{{"mode", "none"}}}));
}

TEST_F(HostVerification, EveryKindOfKernelPassesOnEveryInstructionSet) {
  for (const HostIsa isa : isas_here()) {
    for (const std::int64_t n : {1, 3, 5, 16, 130}) {
      for (const char* family : {"csr", ""}) {
        CompileOptions options = options_of(isa);
        options.verify = VerifyMode::full;
        options.policy.family = family;
        options.resources.threads = 2;
        Problem problem = problem_of(matrix_, n);
        problem.b.leading_dimension = n == 5 ? 9 : 0;

        const Kernel kernel = Compiler(options, uncached()).compile(problem);

        EXPECT_TRUE(kernel.info().verification.complete())
            << to_string(isa) << " n=" << n << " " << kernel.info().family;
      }
    }
  }
}

/// Each activation, with and without the rest.
std::vector<Epilogue> epilogues() {
  std::vector<Epilogue> all;
  for (const Activation activation : k_activations) {
    Epilogue epilogue;
    epilogue.activation = activation;
    if (activation == Activation::clamp) epilogue.high = 2;
    set_line(epilogue);
    all.push_back(epilogue);
    epilogue.scale = activation == Activation::none || activation == Activation::relu;
    epilogue.bias = true;
    epilogue.residual = activation != Activation::silu;
    all.push_back(epilogue);
  }
  return all;
}

/// A layer of the matrix in some layout.
Problem layer_of(const CsrMatrix& matrix, Layout layout) {
  Problem problem = problem_of(matrix, 37);
  problem.b.layout = problem.c.layout = layout;
  if (layout == Layout::panel_major) problem.panel_columns = 16;
  return problem;
}

constexpr std::array k_layouts = {Layout::row_major, Layout::tokens_major, Layout::panel_major};

TEST_F(HostVerification, LayersOfEveryLayoutAndEpiloguePass) {
  for (const HostIsa isa : isas_here()) {
    for (const Layout layout : k_layouts) {
      for (const Epilogue& epilogue : epilogues()) {
        CompileOptions options = options_of(isa);
        options.verify = VerifyMode::full;
        options.resources.threads = 2;
        Problem problem = layer_of(matrix_, layout);
        problem.epilogue = epilogue;

        const Kernel kernel = Compiler(options, uncached()).compile(problem);

        EXPECT_TRUE(kernel.info().verification.complete())
            << to_string(isa) << " " << to_string(layout) << " " << to_string(epilogue.activation)
            << kernel.info().note;
        EXPECT_GT(kernel.info().verification.max_error_over_bound, 0);
      }
    }
  }
}

TEST_F(HostVerification, LayersWithValuesAndColumnsOfARunPass) {
  for (const Layout layout : k_layouts) {
    for (const bool hot : {false, true}) {
      CompileOptions options;
      options.policy.hot = hot;
      options.verify = VerifyMode::full;
      Problem problem = layer_of(matrix_, layout);
      problem.n = Extent::at_run_time(37);
      problem.runtime_values = true;
      problem.epilogue.bias = true;

      const Kernel kernel = Compiler(options, uncached()).compile(problem);

      EXPECT_TRUE(kernel.info().verification.complete()) << to_string(layout);
    }
  }
}

TEST_F(HostVerification, LayersOfOtherLayoutsOfBAndCAndOverlappingTokensPass) {
  for (const Layout b : k_layouts) {
    for (const Layout c : k_layouts) {
      CompileOptions options;
      options.verify = VerifyMode::full;
      Problem problem = layer_of(matrix_, Layout::panel_major);
      problem.b.layout = b;
      problem.c.layout = c;
      problem.epilogue.residual = true;
      if (b == Layout::tokens_major) problem.b.leading_dimension = 11;  // of 70 features

      const Kernel kernel = Compiler(options, uncached()).compile(problem);

      EXPECT_TRUE(kernel.info().verification.complete()) << to_string(b) << to_string(c);
    }
  }
}

TEST_F(HostVerification, LayersThatWereTimedPassAndTheirFamiliesRaced) {
  for (const SearchMode mode : {SearchMode::ranked, SearchMode::proxy}) {
    for (const Layout layout : k_layouts) {
      CompileOptions options;
      options.verify = VerifyMode::full;
      options.policy.search = mode;
      options.policy.search_budget_ms = 200;
      Problem problem = layer_of(matrix_, layout);
      problem.epilogue = {.bias = true, .residual = true, .activation = Activation::gelu_tanh};

      const Kernel kernel = Compiler(options, uncached()).compile(problem);

      EXPECT_TRUE(kernel.info().verification.complete()) << to_string(layout);
      EXPECT_THAT(kernel.info().reason, HasSubstr("families")) << to_string(layout);
    }
  }
}

TEST_F(HostVerification, AWrongLayerIsAnErrorThatNamesLayoutsAndEpilogue) {
  const SpoiledHostKernels spoiled(change_a_weight);
  CompileOptions options = hot_options();
  options.verify = VerifyMode::sampled;
  options.policy.family = "unrolled";
  Problem problem = layer_of(matrix_, Layout::tokens_major);
  problem.epilogue.bias = true;
  problem.epilogue.activation = Activation::relu;

  try {
    static_cast<void>(Compiler(options, uncached()).compile(problem));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const VerificationFailed& error) {
    EXPECT_THAT(error.what(), HasSubstr("(n = 37; B: tokens, ldb = 70; C: tokens, ldc = 60; "
                                        "C = relu(A * B + bias))"));
  }
}

TEST_F(HostVerification, WrongLayersOfEveryLayoutAreErrors) {
  for (const Layout layout : k_layouts) {
    Problem layer = layer_of(matrix_, layout);
    layer.epilogue = {
        .scale = true, .bias = true, .residual = true, .activation = Activation::gelu_erf};
    CompileOptions options = hot_options();
    options.verify = VerifyMode::full;
    const SpoiledHostKernels spoiled(change_a_weight);

    EXPECT_THROW(static_cast<void>(Compiler(options, uncached()).compile(layer)),
                 VerificationFailed);
  }
}

TEST_F(HostVerification, WhatTakesTooMuchMemoryIsNotCheckedAndSaysSo) {
  CompileOptions options = hot_options();
  options.verify = VerifyMode::full;

  const Kernel kernel = Compiler(options, cached_in(cache()))
                            .compile(problem_of(small_matrix(), (std::int64_t{1} << 31) - 1));

  EXPECT_THAT(kernel.info().note, HasSubstr("not checked: B and C of the check would take"));
  EXPECT_EQ(kernel.info().verification.mode, VerifyMode::none);
  EXPECT_THAT(kernel.info().verification.reason, HasSubstr(" GB, over "));
  EXPECT_EQ(certificates().front().at("mode"), "none");
  EXPECT_THAT(certificates().front().at("reason").get<std::string>(), HasSubstr(" GB, over "));
}

TEST_F(HostVerification, FewColumnsOfAVeryWideMatrixAreChecked) {
  constexpr std::int32_t k_columns = 2147483647;
  matrix_ = {1, k_columns, {0, 1}, {k_columns - 1}, {2}};
  CompileOptions options = hot_options();
  options.verify = VerifyMode::sampled;

  const Kernel kernel = Compiler(options, uncached()).compile(problem_of(matrix_, 1));

  EXPECT_TRUE(kernel.info().verification.complete()) << kernel.info().verification.reason;
}

TEST_F(HostVerification, KernelsOfACompilerAreCheckedOneAfterTheOther) {
  const CsrMatrix large = random_matrix(1500, 1000, 0.5);
  CompileOptions options = hot_options();
  options.verify = VerifyMode::full;  // seconds, of the large one
  options.policy.family = "csr";
  const Compiler compiler(options, uncached());
  std::latch begun(1);
  std::stop_source stop;
  std::atomic<bool> ended = false;
  std::jthread leader([&] {
    CompileControl control = at_stage("checking", [&] { begun.count_down(); });
    control.stop = stop.get_token();
    EXPECT_TRUE(
        throws<Cancelled>([&] { return compiler.compile(problem_of(large, 4000), control); }));
    ended = true;
  });
  begun.wait();

  bool waited = false;
  while (!waited && !ended) {  // the first few may come before the large one
    CompileControl control;
    control.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    waited = throws<DeadlineExceeded>(
        [&] { return compiler.compile(problem_of(matrix_, 4000), control); });
  }
  stop.request_stop();

  EXPECT_TRUE(waited);
}

TEST_F(HostVerification, TheModeIsNotPartOfTheKey) {
  EXPECT_EQ(compile(VerifyMode::none, uncached()).info().key,
            compile(VerifyMode::full, uncached()).info().key);
}

TEST_F(HostVerification, ModesThatAreNoneAreRefused) {
  CompileOptions options = hot_options();
  options.verify = static_cast<VerifyMode>(99);

  EXPECT_THROW(Compiler(options, uncached()), InvalidArgument);
  EXPECT_THROW(static_cast<void>(parse_verify("some")), InvalidArgument);
  for (const VerifyMode mode : {VerifyMode::none, VerifyMode::sampled, VerifyMode::full}) {
    EXPECT_EQ(parse_verify(to_string(mode)), mode);
  }
}

TEST_F(HostVerification, IsAStageThatCanBeStopped) {
  std::set<std::string> stages;
  CompileControl telling;
  telling.progress = [&](const SearchProgress& progress) { stages.emplace(progress.stage); };
  std::stop_source stop;
  CompileControl control = at_stage("checking", [&] { stop.request_stop(); });
  control.stop = stop.get_token();

  EXPECT_TRUE(throws<Cancelled>([&] { return compile(VerifyMode::sampled, control); }));
  EXPECT_EQ(left_in(cache()), std::vector<std::string>());
  static_cast<void>(compile(VerifyMode::sampled, telling));
  EXPECT_EQ(stages, (std::set<std::string>{"looking up", "grouping", "emitting", "checking",
                                           "publishing"}));
  EXPECT_TRUE(throws<Cancelled>([&] { return compile(VerifyMode::sampled, control); }));  // a hit
  EXPECT_EQ(certificates().size(), 1U);
}

TEST_F(HostVerification, ThreadsThatWaitForAWrongKernelGetTheSameError) {
  const SpoiledHostKernels spoiled(change_a_weight);
  CompileOptions options = hot_options();
  options.verify = VerifyMode::sampled;
  const Compiler compiler(options, cached_in(cache()));
  std::latch begun(1);
  std::latch other_waits(1);
  std::optional<std::string> first;
  std::optional<std::string> second;
  const auto compile_into = [&](std::optional<std::string>& message,
                                const CompileControl& control) {
    try {
      static_cast<void>(compiler.compile(problem_of(matrix_, 33), control));
    } catch (const VerificationFailed& error) {
      message = error.what();
    }
  };

  std::jthread leader([&] {
    compile_into(first, at_stage("checking", [&] {
                   begun.count_down();
                   other_waits.wait();
                 }));
  });
  begun.wait();
  compile_into(second, at_stage("waiting", [&] { other_waits.count_down(); }));
  leader.join();

  ASSERT_TRUE(first && second);
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(left_in(cache()), std::vector<std::string>());
}

}  // namespace
