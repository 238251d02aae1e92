// Whole compilations for GPUs that are not there: from a matrix to a cubin, the cache and back.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/unrolled/cuda_builder.hpp"
#include "kernels/cuda/unrolled/cuda_tile.hpp"
#include "runtime/cache/cache_store.hpp"
#include "runtime/cuda/cubin_info.hpp"
#include "runtime/cuda/cuda_device_info.hpp"
#include "runtime/cuda/cuda_libraries.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/convolution_cases.hpp"
#include "tests/support/cuda/cuda_search_testing.hpp"
#include "tests/support/cuda/emitter_cases.hpp"
#include "tests/support/long_tests.hpp"
#include "tests/support/padded_3x3.hpp"
#include "tests/support/scoped_variable.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using testing::UnorderedElementsAreArray;

CompileOptions gpu_options(const std::string& target) {
  CompileOptions options;
  options.target = Target::parse(target);
  return options;
}

/// What keeps both texts.
CompileOptions with_source(const std::string& target) {
  CompileOptions options = gpu_options(target);
  options.keep_source = true;
  return options;
}

std::vector<std::string> names_of(const std::vector<Artifact::File>& files) {
  std::vector<std::string> names;
  for (const Artifact::File& file : files) names.push_back(file.name);
  std::ranges::sort(names);
  return names;
}

class CudaPipeline : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      found_ = found_cuda_libraries();
      static_cast<void>(
          load_cuda_toolchain({.arch = 90, .nvrtc = true, .nvjitlink = true}, found_));
    } catch (const NotSupported& error) {
      GTEST_SKIP() << error.what();
    }
  }

  [[nodiscard]] static Kernel compile_uncached(const Problem& problem,
                                               const CompileOptions& options) {
    return Compiler(options, uncached()).compile(problem);
  }

  FoundCudaLibraries found_;
};

TEST_F(CudaPipeline, MakesACubinForEveryArchitectureThatTheLibrariesKnow) {
  const Problem problem = problem_of(random_matrix(70, 50, 0.8), 40);
  for (const int arch : {70, 75, 80, 86, 89, 90, 100, 120}) {
    SCOPED_TRACE(arch);
    const auto& newest = found_.libraries.front();
    if (std::ranges::find(newest.archs, arch) == newest.archs.end()) continue;

    const Kernel kernel = compile_uncached(problem, with_source("sm_" + std::to_string(arch)));

    const CubinInfo cubin = read_cubin_info(kernel.image());
    EXPECT_EQ(cubin.arch, arch);
    const CubinKernel* entry = cubin.find_kernel(k_cuda_kernel_name);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->registers, kernel.info().cuda->registers);
    EXPECT_EQ(entry->max_threads, kernel.info().cuda->threads);
    EXPECT_EQ(kernel.info().cuda->spilled_bytes, 0);
    EXPECT_EQ(kernel.info().code_bytes, cubin.code_bytes);
    EXPECT_NE(kernel.cuda_source().find("__fmaf_rn"), std::string::npos);
    EXPECT_NE(kernel.ptx().find(".target sm_" + std::to_string(arch)), std::string::npos);
  }
}

TEST_F(CudaPipeline, MakesACubinOfLayersFromBothTexts) {
  for (const CudaSource source : {CudaSource::ptx, CudaSource::cuda}) {
    for (const Layout b_layout : {Layout::row_major, Layout::tokens_major}) {
      Problem problem = problem_of(with_empty_rows(100), 64);
      problem.n.runtime = source == CudaSource::ptx;
      problem.b.layout = b_layout;
      problem.c.layout = Layout::tokens_major;
      problem.epilogue = {
          .scale = true, .bias = true, .residual = true, .activation = Activation::gelu_tanh};
      CompileOptions options = gpu_options("sm_90");
      options.policy.values["source"] = to_string(source);
      options.policy.values["unit_nonzeros"] = "20";

      const Kernel kernel = compile_uncached(problem, options);

      const CubinInfo cubin = read_cubin_info(kernel.image());
      EXPECT_EQ(cubin.find_kernel(k_cuda_kernel_name)->static_shared_bytes, 0);
      EXPECT_EQ(kernel.info().cuda->spilled_bytes, 0);
      EXPECT_EQ(kernel.info().b_layout, b_layout);
      EXPECT_EQ(kernel.info().c_layout, Layout::tokens_major);
      EXPECT_EQ(kernel.info().epilogue, problem.epilogue);
      EXPECT_EQ(kernel.info().ldc, 100);
    }
  }
}

TEST_F(CudaPipeline, KeepsTheRowsOfTokensInTheirOrder) {
  // Similar rows are far apart; the first tile has the first ones all the same.
  CsrMatrix matrix{8, 8, {0}, {}, {}};
  for (std::int32_t row = 0; row < 8; ++row) {
    for (std::int32_t column = 0; column < 4; ++column) {
      matrix.col_idxs.push_back(row % 2 * 4 + column);
      matrix.values.push_back(1);
    }
    matrix.row_ptrs.push_back(matrix.nnz());
  }
  Problem problem = problem_of(matrix, 64);
  problem.c.layout = Layout::tokens_major;
  CompileOptions options = with_source("sm_90");
  options.policy.values["m1"] = "4";

  const Kernel kernel = compile_uncached(problem, options);

  EXPECT_EQ(kernel.ptx().find("spjit_rows_"), std::string::npos) << "a table of rows";
  problem.c.layout = Layout::row_major;
  EXPECT_NE(compile_uncached(problem, options).ptx(), kernel.ptx());
}

TEST_F(CudaPipeline, FindsInTheCacheWhatItPublished) {
  const TemporaryDirectory directory;
  const Problem problem = problem_of(random_matrix(70, 50, 0.8), 40);
  const CacheOptions cache{.enabled = true, .directory = directory.path()};

  const Kernel first = Compiler(with_source("sm_90"), cache).compile(problem);
  CompileOptions without_libraries = with_source("sm_90");
  without_libraries.resources.toolkit_paths = {"/nowhere"};
  const Kernel second = Compiler(without_libraries, cache).compile(problem);

  EXPECT_FALSE(first.info().from_cache);
  EXPECT_TRUE(second.info().from_cache) << second.info().note;
  EXPECT_TRUE(std::ranges::equal(first.image(), second.image()));
  EXPECT_NE(first.cuda_source(), "");
  EXPECT_NE(first.ptx(), "");
  EXPECT_EQ(first.cuda_source(), second.cuda_source());
  EXPECT_EQ(first.ptx(), second.ptx());
  EXPECT_EQ(nlohmann::json::parse(first.record()), nlohmann::json::parse(second.record()));
  EXPECT_EQ(first.info().tile, second.info().tile);
  EXPECT_EQ(first.info().cuda->registers, second.info().cuda->registers);
}

TEST_F(CudaPipeline, KeepsTextsWhereTheyAreAskedForAlone) {
  const TemporaryDirectory directory;
  const CacheOptions cache = cached_in(directory.path());
  const Problem problem = problem_of(random_matrix(70, 50, 0.8), 40);
  for (const char* family : {"unrolled", "csr", "narrow", "packed", "dense"}) {
    SCOPED_TRACE(family);
    CompileOptions plain_options = gpu_options("sm_90");
    plain_options.policy.family = family;
    CompileOptions source_options = plain_options;
    source_options.keep_source = true;
    Problem of_family = problem;
    if (plain_options.policy.family == "narrow" || plain_options.policy.family == "packed") {
      of_family.n = 8;
    }

    const Kernel plain = Compiler(plain_options, cache).compile(of_family);
    const Kernel kept = Compiler(source_options, cache).compile(of_family);

    EXPECT_EQ(plain.cuda_source(), "");
    EXPECT_EQ(plain.ptx(), "");
    EXPECT_FALSE(kept.info().from_cache) << "an entry without texts is no hit";
    EXPECT_NE(kept.cuda_source().find("__fmaf_rn"), std::string::npos);
    EXPECT_NE(kept.ptx().find(".target sm_90"), std::string::npos);
    EXPECT_TRUE(std::ranges::equal(plain.image(), kept.image()));
    std::vector<std::string> with_texts = names_of(plain.artifact().files);
    with_texts.insert(with_texts.end(), {"kernel.cu.gz", "kernel.ptx.gz"});
    std::ranges::sort(with_texts);
    EXPECT_EQ(names_of(kept.artifact().files), with_texts);
  }
}

TEST_F(CudaPipeline, RecordsAreSmallWhateverTheMode) {
  const std::int64_t size = long_tests() ? 512 : 192;
  const CsrMatrix matrix = random_matrix(size, size, 0.9);
  for (const SearchMode mode : {SearchMode::instant, SearchMode::ranked, SearchMode::exhaustive}) {
    CompileOptions options = gpu_options("sm_90");
    options.policy.search = mode;
    options.policy.top_k = 3;

    const Kernel kernel = compile_uncached(problem_of(matrix, 512), options);

    const auto record = nlohmann::json::parse(kernel.record());
    EXPECT_LE(record.dump().size(), 8192U + 300U) << "with its files";
    EXPECT_FALSE(record.at("search").contains("space"));
  }
}

TEST_F(CudaPipeline, PublishesACubinWithARecordThatNamesTheProblem) {
  const TemporaryDirectory directory;
  Problem problem = problem_of(random_matrix(70, 50, 0.8), 40);
  problem.c.leading_dimension = 44;

  const Kernel kernel =
      Compiler(gpu_options("sm_90"), cached_in(directory.path())).compile(problem);

  const std::vector<std::string> names = {"kernel.cubin"};
  const CacheLookup found = CacheStore(directory.path(), SPJIT_VERSION).lookup(kernel.info().key);
  ASSERT_TRUE(found.entry) << found.miss_reason;
  std::vector<std::string> published;
  for (const auto& [name, content] : found.entry->files) published.push_back(name);
  std::vector<std::string> held;
  for (const Artifact::File& file : kernel.artifact().files) held.push_back(file.name);
  std::ranges::sort(published);
  std::ranges::sort(held);
  EXPECT_EQ(published, names);
  EXPECT_EQ(held, names);
  nlohmann::json record = nlohmann::json::parse(kernel.record());
  EXPECT_THAT(record.at("files"),
              UnorderedElementsAreArray(write_cache_files(found.entry->record.files)));
  record.erase("files");
  EXPECT_EQ(record, found.entry->record.kernel);
  EXPECT_EQ(record.at("family"), "unrolled");
  EXPECT_EQ(record.at("device"), kernel.info().device);
  EXPECT_EQ(record.at("card").at("arch"), 90);
  EXPECT_EQ(record.at("problem").at("c").at("leading_dimension"), 44);
  EXPECT_EQ(record.at("search").at("reason"), kernel.info().reason);
  EXPECT_EQ(record.at("verdicts").back().at("reason"), kernel.info().reason);
}

TEST_F(CudaPipeline, OfValuesAtRunTimeIsOfThePatternAlone) {
  const TemporaryDirectory directory;
  Problem problem = problem_of(random_matrix(70, 50, 0.8), 40);
  problem.runtime_values = true;
  CsrMatrix other = *problem.a;
  for (float& value : other.values) value = 1 - value;
  Problem checkpoint = problem;
  checkpoint.a = other;
  const auto files_of = [](const Kernel& kernel) {
    std::vector<std::pair<std::string, std::vector<std::byte>>> files;
    for (const Artifact::File& file : kernel.artifact().files) {
      files.emplace_back(file.name, std::vector(file.bytes.begin(), file.bytes.end()));
    }
    std::ranges::sort(files);
    return files;
  };
  for (const CudaSource source : {CudaSource::ptx, CudaSource::cuda}) {
    CompileOptions options = gpu_options("sm_90");
    options.policy.values["source"] = to_string(source);

    const Kernel first = Compiler(options, cached_in(directory.path())).compile(problem);
    const Kernel again = compile_uncached(checkpoint, options);
    const Kernel cached = Compiler(options, cached_in(directory.path())).compile(checkpoint);

    EXPECT_TRUE(first.info().runtime_values);
    EXPECT_LE(first.info().cuda->spilled_bytes, k_tolerated_spill_bytes);
    EXPECT_EQ(files_of(again), files_of(first));
    EXPECT_EQ(again.info().key, first.info().key);
    EXPECT_TRUE(cached.info().from_cache) << cached.info().note;
    EXPECT_EQ(files_of(cached), files_of(first));
    EXPECT_EQ(std::ssize(cached.artifact().file("kernel.positions")) % 16, 0);
    EXPECT_TRUE(Kernel::from_artifact(cached.artifact()).info().runtime_values);
  }
}

TEST_F(CudaPipeline, UnrolledOfAConvolutionIsForImagesOfOneSize) {
  Problem problem = problem_of_convolution(padded_3x3(16, 7, 7), 64, 10);
  for (const char* target : {"sm_80", "sm_90"}) {
    const Kernel kernel = compile_uncached(problem, gpu_options(target));

    EXPECT_EQ(kernel.info().n, 49);
    EXPECT_EQ(kernel.info().convolution, problem.convolution);
    EXPECT_EQ(kernel.info().cuda->spilled_bytes, 0);
    EXPECT_EQ(Kernel::from_artifact(kernel.artifact()).info().convolution, problem.convolution);
  }
  problem.n = Extent::at_run_time(0);
  const Kernel any = compile_uncached(problem, gpu_options("sm_90"));
  EXPECT_EQ(any.info().family, "csr");
  EXPECT_THAT(any.info().reason, testing::HasSubstr("images whose size a run says"));
}

TEST_F(CudaPipeline, ASearchWithoutAGpuSaysThatTilesWereRankedAndNotTimed) {
  const ScopedVariable nowhere("SPJIT_CUDA_DRIVER", "/nowhere/libcuda.so.1");
  const TemporaryDirectory directory;
  const Problem problem = problem_of(random_matrix(70, 50, 0.8), 40);
  CompileOptions options = gpu_options("sm_90");
  options.policy.search = SearchMode::proxy;

  const Kernel fresh = Compiler(options, cached_in(directory.path())).compile(problem);
  const Kernel cached = Compiler(options, cached_in(directory.path())).compile(problem);

  EXPECT_NE(fresh.info().reason.find("ranked, not timed: "), std::string::npos);
  EXPECT_NE(fresh.info().reason.find("/nowhere/libcuda.so.1"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(fresh.record()).at("search").at("mode"), "proxy");
  EXPECT_TRUE(cached.info().from_cache) << cached.info().note;
  EXPECT_EQ(cached.info().reason, fresh.info().reason);
  EXPECT_EQ(cached.info().tile, fresh.info().tile);
}

TEST_F(CudaPipeline, RankedWithoutAGpuTakesTheClocksChoiceAndSaysModelledNotTimed) {
  const ScopedVariable nowhere("SPJIT_CUDA_DRIVER", "/nowhere/libcuda.so.1");
  const TemporaryDirectory directory;
  const Problem problem = problem_of(random_matrix(70, 50, 0.8), 40);
  for (const char* target : in_turn<const char*>({"sm_75", "sm_80", "sm_90"})) {
    CompileOptions options = gpu_options(target);
    options.policy.search = SearchMode::ranked;
    options.policy.top_k = 4;

    const Kernel fresh = Compiler(options, cached_in(directory.path())).compile(problem);
    const Kernel cached = Compiler(options, cached_in(directory.path())).compile(problem);

    const auto search = nlohmann::json::parse(fresh.record()).at("search");
    EXPECT_THAT(fresh.info().reason, testing::HasSubstr("modelled, not timed"));
    EXPECT_THAT(fresh.info().reason, testing::HasSubstr("/nowhere/libcuda.so.1"));
    EXPECT_EQ(search.at("timed"), false);
    EXPECT_EQ(search.at("modelled"), true);
    std::size_t modelled = 0;
    double least = std::numeric_limits<double>::infinity();
    std::string fastest;
    for (const auto& entry : search.at("entries")) {
      if (!entry.contains("modelled")) continue;
      ++modelled;
      const double us = entry.at("modelled").at("us");
      if (us < least) fastest = entry.at("tile");
      least = std::min(least, us);
    }
    EXPECT_EQ(modelled, std::min<std::size_t>(4, search.at("entries").size()));
    EXPECT_EQ(fresh.info().tile, fastest);
    EXPECT_EQ(cached.info().reason, fresh.info().reason);
  }
}

TEST_F(CudaPipeline, WhatTheClockRefusesIsRankedNotTimed) {
  const ScopedVariable nowhere("SPJIT_CUDA_DRIVER", "/nowhere/libcuda.so.1");
  CompileOptions options = gpu_options("sm_86");  // it has no constants of this one
  options.policy.search = SearchMode::ranked;

  const Kernel kernel = compile_uncached(problem_of(random_matrix(70, 50, 0.8), 40), options);

  EXPECT_THAT(kernel.info().reason, testing::HasSubstr("ranked, not timed: "));
  EXPECT_THAT(kernel.info().reason, testing::HasSubstr("the clock has no constants of sm_86"));
}

Problem layer_of(const std::string& kind) {
  Problem problem = problem_of(random_matrix(70, 50, 0.8), 40);
  if (kind.ends_with("tokens")) problem.b.layout = problem.c.layout = Layout::tokens_major;
  if (kind == "gelu") problem.epilogue.activation = Activation::gelu_erf;
  problem.runtime_values = kind == "values";
  if (kind.starts_with("any")) problem.n = Extent::at_run_time(40);
  return problem;
}

TEST_F(CudaPipeline, TheClockFollowsLayersOfEveryKind) {
  const ScopedVariable nowhere("SPJIT_CUDA_DRIVER", "/nowhere/libcuda.so.1");
  for (const char* target : in_turn<const char*>({"sm_75", "sm_80", "sm_90"})) {
    for (const char* kind : {"plain", "tokens", "gelu", "values", "any n", "any tokens"}) {
      CompileOptions options = gpu_options(target);
      options.policy.search = SearchMode::ranked;
      options.policy.top_k = 2;
      options.policy.family = "unrolled";

      const Kernel kernel = compile_uncached(layer_of(kind), options);

      EXPECT_THAT(kernel.info().reason, testing::HasSubstr("modelled, not timed"))
          << kind << " for " << target;
    }
  }
}

TEST_F(CudaPipeline, KernelsOfAFixedAndOfARunTimeNAreTwoEntries) {
  const TemporaryDirectory directory;
  const Compiler compiler(gpu_options("sm_90"), cached_in(directory.path()));
  Problem problem = problem_of(random_matrix(70, 50, 0.8), 40);

  const Kernel fixed = compiler.compile(problem);
  problem.n = Extent::at_run_time(40);
  const Kernel any = compiler.compile(problem);

  EXPECT_NE(any.info().key, fixed.info().key);
  EXPECT_FALSE(any.info().from_cache);
  EXPECT_TRUE(any.info().runtime_n);
  EXPECT_FALSE(fixed.info().runtime_n);
  EXPECT_TRUE(compiler.compile(problem).info().runtime_n);
}

TEST_F(CudaPipeline, AnEntryForAnotherArchitectureIsSetAside) {
  const TemporaryDirectory directory;
  const Problem problem = problem_of(random_matrix(70, 50, 0.8), 40);
  const CacheOptions cache{.enabled = true, .directory = directory.path()};
  const std::string key = Compiler(gpu_options("sm_90"), cache).compile(problem).info().key;
  const Kernel foreign = Compiler(gpu_options("sm_80"), cache).compile(problem);
  const CacheStore store(directory.path(), SPJIT_VERSION);
  const CacheLookup found = store.lookup(foreign.info().key);
  std::vector<CacheFile> files;
  for (const auto& [name, content] : found.entry->files) files.push_back({name, content.bytes()});
  store.remove(key);
  store.publish(key, files, found.entry->record.kernel);

  const Kernel fresh = Compiler(gpu_options("sm_90"), cache).compile(problem);
  const Kernel cached = Compiler(gpu_options("sm_90"), cache).compile(problem);

  EXPECT_FALSE(fresh.info().from_cache);
  EXPECT_NE(fresh.info().note.find("its code is for sm_80"), std::string::npos);
  EXPECT_EQ(fresh.info().cuda->arch, 90);
  EXPECT_TRUE(cached.info().from_cache) << cached.info().note;
  EXPECT_EQ(cached.info().cache_directory, directory.path());
}

TEST_F(CudaPipeline, IsLoadedBackFromFilesAndRecord) {
  const Problem problem = problem_of(random_matrix(70, 50, 0.8), 40);
  const Kernel kernel = compile_uncached(problem, gpu_options("sm_90"));
  const Kernel other = compile_uncached(problem, gpu_options("sm_80"));

  const Kernel loaded = Kernel::from_artifact(kernel.artifact());

  const nlohmann::json line = {{"record", nlohmann::json::parse(kernel.record())}};
  const Kernel wrapped = Kernel::from_artifact({kernel.artifact().files, line.dump()});

  EXPECT_EQ(wrapped.record(), kernel.record());
  EXPECT_EQ(wrapped.info().cuda->registers, kernel.info().cuda->registers);
  EXPECT_EQ(loaded.info().reason, kernel.info().reason);
  EXPECT_EQ(loaded.info().tile, kernel.info().tile);
  EXPECT_EQ(loaded.info().cuda->blocks_x, kernel.info().cuda->blocks_x);
  EXPECT_THROW(static_cast<void>(Kernel::from_artifact({other.artifact().files, kernel.record()})),
               Error);
}

TEST_F(CudaPipeline, CompilesManyUnitsAndHoldsThemToTheCap) {
  CompileOptions options = gpu_options("sm_90");
  options.policy.values["unit_nonzeros"] = "300";
  options.policy.values["m1"] = "16";
  options.policy.values["n1"] = "128";

  const Kernel kernel = compile_uncached(problem_of(random_matrix(128, 128, 0.7), 256), options);

  const nlohmann::json record = nlohmann::json::parse(kernel.record());
  EXPECT_GT(record.at("units").get<int>(), 5);
  EXPECT_LE(kernel.info().cuda->registers, record.at("resources").at("register_cap").get<int>());
  EXPECT_GE(kernel.info().cuda->active_blocks,
            record.at("attempts").back().at("min_blocks").get<int>());
  EXPECT_EQ(kernel.info().cuda->spilled_bytes, 0);
}

TEST_F(CudaPipeline, UsesTheRegistersThatTheCapOfTheGridLeaves) {
  CompileOptions options = gpu_options("sm_90");
  options.policy.values["m1"] = "64";
  options.policy.values["n1"] = "64";
  const Problem problem = problem_of(random_matrix(512, 128, 0.7), 512);
  const CudaDeviceInfo limits = parse_cuda_target("sm_90:h200");
  CudaChoice choice = choice_of(problem, options, limits);
  std::erase_if(choice.ranked,
                [](const CudaCandidate& one) { return one.tile.tiles_a_block != 1; });
  const KernelPlan plan = build_plan(*problem.a, choice.grouping, problem.a->cols);
  ASSERT_EQ(choice.ranked.size(), 2U);
  std::map<CudaCap, CudaAttempt> built;

  for (const CudaCandidate& candidate : choice.ranked) {
    const CudaBuildTrace trace = build_cuda_kernel(plan, candidate, options, limits).trace;
    ASSERT_EQ(trace.attempts.size(), 1U);
    built[candidate.tile.cap] = trace.attempts.front();
    EXPECT_EQ(trace.attempts.front().register_cap, candidate.register_cap);
    EXPECT_LE(trace.attempts.front().registers, candidate.register_cap);
    EXPECT_EQ(trace.attempts.front().spilled_bytes, 0);
  }

  EXPECT_GT(built.at(CudaCap::grid).registers, built.at(CudaCap::device).registers);
}

TEST_F(CudaPipeline, CompilesAgainWithMoreRegistersWhereTheCapSpills) {
  CompileOptions options = gpu_options("sm_90");
  options.policy.values["m1"] = "128";
  options.policy.values["n1"] = "32";
  const CudaDeviceInfo limits = parse_cuda_target("sm_90:h200");
  CudaChoice choice = choice_of(problem_of(random_matrix(128, 40, 0.5), 4096), options, limits);
  // As if the registers had been predicted too low.
  choice.chosen.min_blocks = 2 * choice.chosen.occupancy.active_blocks;

  const CudaBuildTrace trace =
      build_cuda_kernel(cuda_plan(random_matrix(128, 40, 0.5), 128), choice.chosen, options, limits)
          .trace;

  ASSERT_GT(trace.attempts.size(), 1U);
  EXPECT_GT(trace.attempts.front().spilled_bytes, 0);
  EXPECT_GT(trace.attempts.back().register_cap, trace.attempts.front().register_cap);
  EXPECT_LT(trace.attempts.back().min_blocks, trace.attempts.front().min_blocks);
  EXPECT_EQ(trace.attempts.back().spilled_bytes, 0);
  EXPECT_TRUE(trace.note.empty()) << trace.note;
}

TEST_F(CudaPipeline, WritesRowsWithoutEntriesAndTakesPlantedMatrices) {
  const CsrMatrix nothing{150, 4, std::vector<std::int64_t>(151, 0), {}, {}};
  const CsrMatrix no_columns{3, 0, {0, 0, 0, 0}, {}, {}};
  for (const CsrMatrix& matrix : {nothing, no_columns, small_matrix(), with_empty_rows(200),
                                  random_matrix(1, 1, 0), random_matrix(1, 300, 0.5)}) {
    for (const std::int64_t n : {1, 33}) {
      const Kernel kernel = compile_uncached(problem_of(matrix, n), gpu_options("sm_90"));

      EXPECT_EQ(kernel.info().rows, matrix.rows);
      EXPECT_GE(kernel.info().cuda->blocks_x, 1);
    }
  }
}

TEST_F(CudaPipeline, SaysWhichArchitectureTheLibrariesDoNotKnow) {
  CompileOptions options = gpu_options("sm_120");
  for (const FoundCudaLibrary& library : found_.libraries) {
    if (library.version < CudaVersion{12, 8})
      options.resources.toolkit_paths.push_back(library.path);
  }
  if (options.resources.toolkit_paths.empty()) GTEST_SKIP() << "no library before CUDA 12.8";

  EXPECT_THROW(static_cast<void>(compile_uncached(problem_of(small_matrix(), 8), options)),
               NotSupported);
}

TEST_F(CudaPipeline, CompilesUndividedWithNvrtcAlone) {
  CompileOptions options = gpu_options("sm_90");
  for (const FoundCudaLibrary& library : found_.libraries) {
    if (library.kind == CudaLibraryKind::nvrtc)
      options.resources.toolkit_paths.push_back(library.path);
  }
  options.policy.values["unit_nonzeros"] = "100";

  const Kernel kernel = compile_uncached(problem_of(random_matrix(70, 50, 0.8), 40), options);

  EXPECT_EQ(kernel.info().cuda->compiled_from, "cuda");
  EXPECT_NE(kernel.info().note.find("no nvJitLink"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(kernel.record()).at("units"), 1);
}

TEST_F(CudaPipeline, GivesUpAtTheLimitAndCachesNothing) {
  const TemporaryDirectory directory;
  CompileOptions options = gpu_options("sm_90");
  options.resources.compile_limit_ms = 30;
  const Compiler compiler(options, {.enabled = true, .directory = directory.path()});

  EXPECT_THROW(static_cast<void>(compiler.compile(problem_of(random_matrix(512, 512, 0.7), 256))),
               CompileCancelled);

  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

}  // namespace
