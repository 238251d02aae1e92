#include "spjit/compiler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/host_cpu.hpp"
#include "compiler/compile_options.hpp"
#include "kernels/cuda/launch/cuda_reading.hpp"
#include "kernels/host/unrolled/host_tile.hpp"
#include "runtime/host/host_cards.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/scoped_variable.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

namespace fs = std::filesystem;
using spjit::CacheOptions;
using spjit::CompileOptions;
using spjit::Compiler;
using spjit::CsrMatrix;
using spjit::HostIsa;
using spjit::Kernel;
using spjit::Problem;
using spjit::testing_support::cached_in;
using spjit::testing_support::dense_values;
using spjit::testing_support::index;
using spjit::testing_support::options_of;
using spjit::testing_support::problem_of;
using spjit::testing_support::random_matrix;
using spjit::testing_support::reference_product;
using spjit::testing_support::same_bits;
using spjit::testing_support::ScopedVariable;
using spjit::testing_support::TemporaryDirectory;
using spjit::testing_support::uncached;
using testing::HasSubstr;

std::vector<float> product(const Kernel& kernel) {
  const std::vector<float> b = dense_values(kernel.cols() * kernel.n());
  std::vector<float> c(index(kernel.rows() * kernel.n()), -7.0F);
  kernel.run(b.data(), c.data());
  return c;
}

std::vector<float> expected_product(const CsrMatrix& matrix, const Kernel& kernel) {
  const std::vector<float> b = dense_values(matrix.cols * kernel.n());
  return reference_product(matrix, kernel.info().target.isa(), b.data(), kernel.n(), kernel.n());
}

/// The message of the InvalidArgument that `work` throws.
template <class Work>
std::string refusal_of(const Work& work) {
  try {
    static_cast<void>(work());
  } catch (const spjit::InvalidArgument& error) {
    return error.what();
  }
  return "taken";
}

TEST(CompilerOptions, AreRefusedWithWhatWasGiven) {
  const auto refuses = [](const CompileOptions& options, const std::string& part) {
    EXPECT_THAT(refusal_of([&] { return Compiler(options, uncached()); }), HasSubstr(part));
  };
  CompileOptions options = hot_options();
  options.resources.threads = -1;
  refuses(options, "threads is -1");
  options.resources.threads = 5000;
  refuses(options, "threads is 5000");
  options = {};
  options.policy.code_budget_bytes = -1;
  refuses(options, "the code budget is -1");
  options = {};
  options.policy.network_nnz = -1;
  refuses(options, "network_nnz is -1");
  options.policy.network_nnz = 0;
  options.policy.top_k = 0;
  refuses(options, "top_k is 0");
  options.policy.top_k = -3;
  refuses(options, "top_k is -3");
  options = {};
  options.policy.search_budget_ms = -1;
  refuses(options, "the search budget is -1 ms");
  options.policy.search_budget_ms = 1e300;
  refuses(options, "the search budget is 1e+300 ms");
  options.policy.search_budget_ms = std::nan("");
  refuses(options, "the search budget is nan ms");
  options = {};
  options.policy.values["m1"] = "0";
  refuses(options, "m1 is 0; expected 1 to 128");
  options.policy.values.erase("m1");
  options.policy.values["unit_nonzeros"] = "0";
  refuses(options, "unit_nonzeros is 0");
  options = {};
  options.resources.compile_threads = -1;
  refuses(options, "compile_threads is -1");
}

TEST(CompilerOptions, AModelThatCannotBeReadIsRefusedForHostAndGpu) {
  for (const char* target : {"host", "sm_90"}) {
    spjit::CompileOptions options;
    options.target = spjit::Target::parse(target);
    options.policy.search = spjit::SearchMode::ranked;
    options.policy.rank_model = "/nowhere/model.json";
    EXPECT_THROW(static_cast<void>(Compiler(options, uncached())), spjit::IoError) << target;
  }
}

TEST(CompilerProblem, IsRefusedByCompileWithWhatWasGiven) {
  const Compiler compiler({}, uncached());
  const CsrMatrix matrix = random_matrix(6, 5, 0.5);
  const auto refuses = [&](const Problem& problem, const std::string& part) {
    EXPECT_THAT(refusal_of([&] { return compiler.compile(problem); }), HasSubstr(part));
    // Only a missing matrix is an error before there is a handle.
    if (problem.a) {
      EXPECT_THAT(refusal_of([&] { return compiler.compile_async(problem).get(); }),
                  HasSubstr(part));
    } else {
      EXPECT_THAT(refusal_of([&] { return compiler.compile_async(problem); }), HasSubstr("matrix"));
    }
  };

  refuses({.n = 8}, "matrix");
  refuses({.a = matrix}, "n is 0");
  refuses(problem_of(matrix, 0), "n is 0");
  refuses(problem_of(matrix, -4), "n is -4");
  refuses(problem_of(matrix, std::int64_t{1} << 31), "n is 2147483648");
  Problem problem = problem_of(matrix, 64);
  problem.b.leading_dimension = 63;
  refuses(problem, "ldb is 63");
  problem.b.leading_dimension = -1;
  refuses(problem, "ldb is -1");
  problem.b.leading_dimension = (std::int64_t{1} << 48) + 1;
  refuses(problem, "ldb is 281474976710657; expected 0 to 281474976710656");
  problem.b.leading_dimension = 0;
  problem.c.leading_dimension = 63;
  refuses(problem, "ldc is 63");
  problem.c.leading_dimension = (std::int64_t{1} << 48) + 1;
  refuses(problem, "ldc is 281474976710657; expected 0 to 281474976710656");
  problem = problem_of(matrix, 64);
  problem.operation = static_cast<spjit::Operation>(1);
  refuses(problem, "operation");
}

TEST(CompilerOptions, ValuesThatAnEnumerationDoesNotHaveAreRefused) {
  const auto refuses = [](const CompileOptions& options) {
    EXPECT_THROW(Compiler(options, uncached()), spjit::InvalidArgument);
  };
  CompileOptions options = hot_options();
  for (const int value : {4, 99, 255}) {
    options.policy.search = static_cast<spjit::SearchMode>(value);
    refuses(options);
  }
  for (const int value : {-1, 4, 99}) {
    options = {};
    options.policy.reorder = static_cast<spjit::ReorderAlgorithm>(value);
    refuses(options);
  }
  for (const int value : {3, 255}) {
    options = {};
    options.target = spjit::Target(static_cast<HostIsa>(value));
    refuses(options);
  }
  for (const char* target : {"host", "sm_90"}) {
    options = {};
    options.target = spjit::Target::parse(target);
    options.policy.values["source"] = "sass";
    refuses(options);
    options.policy.values = {{"proxy_source", ""}};
    refuses(options);
    options.policy.values = {{"m1", "8 rows"}};
    refuses(options);
    options.policy.values = {{"depth", "8"}};
    refuses(options);
  }
}

TEST(CompilerOptions, PathsWithAZeroByteAreRefused) {
  const std::string path("/tmp/a\0b", 8);
  CompileOptions model;
  model.policy.rank_model = path;
  CompileOptions toolkit;
  toolkit.target = spjit::Target::parse("sm_90");
  toolkit.resources.toolkit_paths = {"/tmp", path};

  EXPECT_THROW(Compiler(model, uncached()), spjit::InvalidArgument);
  EXPECT_THROW(Compiler(toolkit, uncached()), spjit::InvalidArgument);
  EXPECT_THROW(Compiler(CompileOptions(), {.directory = path}), spjit::InvalidArgument);
  EXPECT_THROW(Compiler(CompileOptions(), {.read_only_layers = {path}}), spjit::InvalidArgument);

  // What stands before the zero byte is a file.
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "bundle";
  std::ofstream(file) << "no bundle";
  const std::string longer = file.native() + std::string("\0more", 5);
  EXPECT_THROW(Compiler(CompileOptions(), {.read_only_layers = {longer}}), spjit::InvalidArgument);
}

TEST(CompilerOptions, ARankModelIsReadOnlyInModesThatTime) {
  CompileOptions options = hot_options();
  options.policy.rank_model = "/nowhere/model.json";

  EXPECT_NO_THROW(Compiler(options, uncached()));
  options.policy.search = spjit::SearchMode::ranked;
  EXPECT_THROW(Compiler(options, uncached()), spjit::IoError);
}

TEST(CompilerOptions, AsManyCompileAtOnceAsThereAreCpusUnlessSaidOtherwise) {
  CompileOptions two;
  two.resources.parallel_compiles = 2;

  EXPECT_EQ(Compiler(hot_options(), uncached()).options().resources.parallel_compiles,
            spjit::usable_cpus());
  EXPECT_EQ(Compiler(two, uncached()).options().resources.parallel_compiles, 2);
}

TEST(CompilerOptions, LeadingDimensionsOfAGpuHaveALimit) {
  constexpr std::int64_t k_most = spjit::k_most_reading_distance;
  CompileOptions options = hot_options();
  options.target = spjit::Target::parse("sm_90");
  const Compiler compiler(options, uncached());
  for (const auto operand : {&Problem::b, &Problem::c}) {
    Problem problem = problem_of(random_matrix(6, 5, 0.5), 8);
    (problem.*operand).leading_dimension = k_most + 1;

    EXPECT_THROW(static_cast<void>(compiler.compile(problem)), spjit::NotSupported);
  }
}

TEST(CompilerOptions, ALimitOfCompilingIsATime) {
  CompileOptions options = hot_options();
  options.target = spjit::Target::parse("sm_90");
  for (const double limit : {-1.0, 1e10, HUGE_VAL, std::nan("")}) {
    options.resources.compile_limit_ms = limit;
    EXPECT_THROW(Compiler(options, uncached()), spjit::InvalidArgument) << limit;
  }
}

TEST(CompilerOptions, PanelWidthsAreMultiplesOfTheLanesThatFitTheRegisters) {
  for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2, HostIsa::generic}) {
    const std::int64_t lanes = spjit::lanes_of(isa);
    const spjit::Target target(isa);
    Problem problem = problem_of(random_matrix(6, 5, 0.5), 64);
    for (const std::int64_t bad : {std::int64_t{0}, lanes - 1, lanes + 1, -lanes, lanes * 9}) {
      problem.panel_columns = bad;
      EXPECT_THROW(spjit::check_for_target(problem, target), spjit::InvalidArgument) << bad;
      EXPECT_THROW(static_cast<void>(Compiler(options_of(isa), uncached()).compile(problem)),
                   spjit::InvalidArgument)
          << bad;
    }
    problem.panel_columns = lanes * 2;
    EXPECT_NO_THROW(spjit::check_for_target(problem, target));
  }
}

TEST(CompilerOptions, EveryPanelWidthThatIsTakenCompiles) {
  for (const HostIsa isa : spjit::testing_support::isas_here()) {
    const Compiler compiler(options_of(isa), uncached());
    for (std::int64_t vectors = 1; vectors <= 8; ++vectors) {
      for (const std::int64_t rows : {1, 40}) {
        const CsrMatrix matrix = random_matrix(rows, 30, 0.5);
        Problem problem = problem_of(matrix, 50);
        problem.panel_columns = vectors * spjit::lanes_of(isa);
        try {
          spjit::check_for_target(problem, compiler.options().target);
        } catch (const spjit::InvalidArgument&) {
          EXPECT_GT(vectors, 4);
          continue;
        }

        const Kernel kernel = compiler.compile(problem);

        EXPECT_EQ(kernel.info().panel_columns, *problem.panel_columns);
        EXPECT_TRUE(same_bits(product(kernel), expected_product(matrix, kernel)));
      }
    }
  }
}

TEST(CompilerOptions, NoThreadsMeansAllOfThem) {
  CompileOptions options = hot_options();
  options.resources.threads = 0;

  EXPECT_GE(Compiler(options, uncached()).options().resources.threads, 1);
}

TEST(SearchMode, ParsesWhatItPrints) {
  for (const std::string name : {"instant", "ranked", "proxy", "exhaustive"}) {
    EXPECT_EQ(to_string(spjit::parse_search(name)), name);
  }
  EXPECT_EQ(spjit::parse_search("proxy"), spjit::SearchMode::proxy);
  EXPECT_THROW(static_cast<void>(spjit::parse_search("fast")), spjit::InvalidArgument);
}

TEST(Compiler, RefusesAMatrixThatIsNone) {
  CsrMatrix matrix = random_matrix(6, 5, 0.5);
  matrix.col_idxs[0] = 5;

  EXPECT_THROW(
      static_cast<void>(Compiler(hot_options(), uncached()).compile(problem_of(matrix, 8))),
      spjit::InvalidMatrix);
}

TEST(Compiler, CompilesForATargetThatThisCpuLacksAndRunsNothingOfIt) {
  for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2}) {
    if (spjit::Target(isa).runs_here()) continue;
    CompileOptions options = options_of(isa);
    options.verify = spjit::VerifyMode::sampled;
    const std::vector<float> b(40);
    std::vector<float> c(48);

    const Kernel kernel =
        Compiler(options, uncached()).compile(problem_of(random_matrix(6, 5, 0.5), 8));

    EXPECT_EQ(kernel.info().target, spjit::Target(isa));
    EXPECT_THAT(kernel.info().verification.reason, testing::StartsWith("needs AVX"));
    EXPECT_FALSE(kernel.object("layer").empty());
    EXPECT_THROW(kernel.run(b.data(), c.data()), spjit::NotSupported);
    EXPECT_THROW(static_cast<void>(Kernel::from_artifact(kernel.artifact())), spjit::NotSupported);
  }
}

TEST(Compiler, ForACpuThatIsNotThisOneNothingIsTimed) {
  const auto here = spjit::card_of_cpu(spjit::host_cpu());
  const std::string isa = spjit::Target().name();
  for (const spjit::HostCard& card : spjit::host_cards(spjit::Target().isa())) {
    if (here && here->name == card.name) continue;
    CompileOptions options = hot_options();
    options.target = spjit::Target::parse(isa + ":" + std::string(card.name));
    options.policy.search = spjit::SearchMode::ranked;
    options.verify = spjit::VerifyMode::full;

    const Kernel kernel =
        Compiler(options, uncached()).compile(problem_of(random_matrix(60, 50, 0.8), 64));

    const auto record = nlohmann::json::parse(kernel.record());
    EXPECT_THAT(kernel.info().reason, testing::HasSubstr("not timed: "));
    EXPECT_EQ(record.at("card").at("name"), card.name);
    EXPECT_EQ(record.at("card").at("l2_bytes"), card.l2_bytes);
    EXPECT_EQ(record.at("device"), card.product);
    EXPECT_EQ(kernel.info().target.card(), card.name);
    EXPECT_TRUE(kernel.info().verification.complete()) << "this CPU runs it all the same";
  }
}

TEST(Compiler, DescribesTheKernelItMade) {
  const CsrMatrix matrix = random_matrix(60, 70, 0.8);

  const Kernel kernel = Compiler(hot_options(), uncached()).compile(problem_of(matrix, 33));

  EXPECT_EQ(kernel.info().rows, 60);
  EXPECT_EQ(kernel.info().cols, 70);
  EXPECT_EQ(kernel.info().n, 33);
  EXPECT_EQ(kernel.info().nnz, matrix.nnz());
  EXPECT_EQ(kernel.info().target, spjit::Target());
  EXPECT_EQ(kernel.info().key.size(), 64U);
  EXPECT_FALSE(kernel.info().from_cache);
  EXPECT_EQ(kernel.info().note, "");
  EXPECT_FALSE(kernel.info().reason.empty());
  EXPECT_GT(kernel.info().compile_ms, 0);
  EXPECT_EQ(nlohmann::json::parse(kernel.record())["problem"]["n"]["value"], 33);
}

TEST(Compiler, UnsortedRowsGiveTheSameBits) {
  const CsrMatrix matrix = random_matrix(60, 70, 0.8);
  CsrMatrix shuffled = matrix;
  for (std::size_t row = 0; row < 60; ++row) {
    const auto begin = shuffled.row_ptrs[row];
    const auto end = shuffled.row_ptrs[row + 1];
    std::reverse(shuffled.col_idxs.begin() + begin, shuffled.col_idxs.begin() + end);
    std::reverse(shuffled.values.begin() + begin, shuffled.values.begin() + end);
  }
  const Compiler compiler({}, uncached());

  const Kernel one = compiler.compile(problem_of(matrix, 33));
  const Kernel two = compiler.compile(problem_of(shuffled, 33));

  EXPECT_NE(shuffled.col_idxs, matrix.col_idxs);
  EXPECT_EQ(one.info().key, two.info().key);
  EXPECT_TRUE(same_bits(product(one), product(two)));
}

TEST(Compiler, EveryEmptyAndTinyShapeHasAKernel) {
  const std::vector<CsrMatrix> matrices = {
      {0, 0, {0}, {}, {}},          {0, 7, {0}, {}, {}},         {3, 0, {0, 0, 0, 0}, {}, {}},
      {3, 4, {0, 0, 0, 0}, {}, {}}, {1, 1, {0, 1}, {0}, {2.5F}}, {2, 3, {0, 0, 1}, {2}, {-1.5F}},
  };
  for (const HostIsa isa : spjit::testing_support::isas_here()) {
    for (const CsrMatrix& matrix : matrices) {
      for (const std::int64_t n : {1, 2, 16, 33}) {
        for (const char* family : {"csr", "hot", ""}) {
          for (const int threads : {1, 2}) {
            CompileOptions options;
            options.policy.hot = family == std::string("hot");
            options.target = spjit::Target(isa);
            if (!options.policy.hot) options.policy.family = family;
            options.resources.threads = threads;

            const Kernel kernel = Compiler(options, uncached()).compile(problem_of(matrix, n));

            EXPECT_TRUE(same_bits(product(kernel), expected_product(matrix, kernel)))
                << to_string(isa) << " " << matrix.rows << " x " << matrix.cols << " n " << n;
          }
        }
      }
    }
  }
}

TEST(Compiler, EmptyMatricesRunOnNullOperands) {
  const Kernel no_rows =
      Compiler(hot_options(), uncached()).compile(problem_of(CsrMatrix{0, 0, {0}, {}, {}}, 8));
  const Kernel no_cols = Compiler(hot_options(), uncached())
                             .compile(problem_of(CsrMatrix{2, 0, {0, 0, 0}, {}, {}}, 8));
  std::vector<float> c(16, -7.0F);

  no_rows.run(nullptr, nullptr);
  no_cols.run(nullptr, c.data());

  EXPECT_EQ(c, std::vector<float>(16, 0.0F));
}

TEST(Compiler, ThreadsDoNotChangeTheBits) {
  const CsrMatrix matrix = random_matrix(120, 900, 0.9);
  for (const HostIsa isa : spjit::testing_support::isas_here()) {
    for (const std::int64_t n : {1, 16, 100}) {
      for (const int threads : {1, 2, 3}) {
        CompileOptions options = hot_options();
        options.target = spjit::Target(isa);
        options.resources.threads = threads;

        const Kernel kernel = Compiler(options, uncached()).compile(problem_of(matrix, n));

        EXPECT_EQ(kernel.info().threads, threads);
        EXPECT_TRUE(same_bits(product(kernel), expected_product(matrix, kernel)))
            << to_string(isa) << " n " << n << " threads " << threads;
      }
    }
  }
}

TEST(Compiler, ACsrKernelTakesOverWithoutABudgetAndSaysSo) {
  const CsrMatrix matrix = random_matrix(60, 70, 0.8);
  CompileOptions options = options_of(HostIsa::generic);
  options.policy.code_budget_bytes = 0;

  const Kernel kernel = Compiler(options, uncached()).compile(problem_of(matrix, 33));

  EXPECT_EQ(kernel.info().family, "csr");
  EXPECT_EQ(kernel.info().tile, "");
  EXPECT_EQ(kernel.info().code_bytes, 0);
  EXPECT_NE(kernel.info().reason.find("the budget is 0"), std::string::npos);
  EXPECT_TRUE(same_bits(product(kernel), expected_product(matrix, kernel)));
}

TEST(Compiler, EverySearchTimesCandidatesAndRecordsThem) {
  const CsrMatrix matrix = random_matrix(60, 70, 0.8);
  for (const std::string mode : {"ranked", "proxy", "exhaustive"}) {
    CompileOptions options = hot_options();
    options.policy.search = spjit::parse_search(mode);
    options.policy.family = "unrolled";
    options.policy.search_budget_ms = 30'000;  // ends long before on an idle machine
    std::size_t reports = 0;
    spjit::CompileControl control;
    control.progress = [&](const spjit::SearchProgress& progress) {
      if (!progress.best.empty()) ++reports;
    };

    const Kernel kernel = Compiler(options, uncached()).compile(problem_of(matrix, 64), control);

    const auto search = nlohmann::json::parse(kernel.record())["search"];
    const auto& entries = search["entries"];
    EXPECT_EQ(kernel.info().reason.rfind(mode + ": fastest of ", 0), 0U) << kernel.info().reason;
    EXPECT_EQ(search["chosen"], kernel.info().tile);
    const auto timed = std::ranges::count_if(entries, [](const nlohmann::json& entry) {
      return entry.contains("full") && entry["full"].contains("median_us");
    });
    EXPECT_GT(timed, 1) << mode;
    EXPECT_GT(reports, 1U) << mode;
    EXPECT_TRUE(same_bits(product(kernel), expected_product(matrix, kernel)));
  }
}

TEST(CompilerCache, TheSecondCompilationComesFromTheCache) {
  const TemporaryDirectory directory;
  const CsrMatrix matrix = random_matrix(60, 70, 0.8);
  const Compiler compiler(hot_options(), cached_in(directory.path()));

  const Kernel fresh = compiler.compile(problem_of(matrix, 33));
  const Kernel cached =
      Compiler(hot_options(), cached_in(directory.path())).compile(problem_of(matrix, 33));

  EXPECT_FALSE(fresh.info().from_cache);
  EXPECT_TRUE(cached.info().from_cache);
  EXPECT_EQ(cached.info().note, "");
  EXPECT_EQ(cached.info().key, fresh.info().key);
  EXPECT_EQ(cached.info().tile, fresh.info().tile);
  EXPECT_EQ(cached.info().reason, fresh.info().reason);
  EXPECT_EQ(nlohmann::json::parse(cached.record()), nlohmann::json::parse(fresh.record()));
  EXPECT_TRUE(same_bits(product(cached), expected_product(matrix, cached)));
}

TEST(CompilerCache, KernelsOfAllKindsComeBack) {
  const TemporaryDirectory directory;
  const CsrMatrix empty{3, 4, {0, 0, 0, 0}, {}, {}};
  for (const CsrMatrix& matrix : {random_matrix(60, 70, 0.8), empty}) {
    for (const char* family : {"csr", ""}) {
      CompileOptions options = hot_options();
      options.policy.family = family;
      const Compiler compiler(options, cached_in(directory.path()));

      const Kernel fresh = compiler.compile(problem_of(matrix, 33));
      const Kernel cached = compiler.compile(problem_of(matrix, 33));

      EXPECT_TRUE(cached.info().from_cache) << cached.info().note;
      EXPECT_EQ(cached.info().family, fresh.info().family);
      EXPECT_TRUE(same_bits(product(cached), expected_product(matrix, cached)));
    }
  }
}

TEST(CompilerCache, OtherValuesAreAnotherEntry) {
  const TemporaryDirectory directory;
  const Compiler compiler({}, cached_in(directory.path()));
  CsrMatrix matrix = random_matrix(60, 70, 0.8);
  const Kernel first = compiler.compile(problem_of(matrix, 33));
  matrix.values.back() *= 2;

  const Kernel second = compiler.compile(problem_of(matrix, 33));

  EXPECT_FALSE(second.info().from_cache);
  EXPECT_NE(first.info().key, second.info().key);
}

/// The kernel's object in a cache with a single entry, to be damaged.
fs::path object_in(const fs::path& cache) {
  for (const auto& entry : fs::recursive_directory_iterator(cache)) {
    if (entry.path().filename() != "kernel.o") continue;
    make_writable(entry.path());
    return entry.path();
  }
  throw std::runtime_error("no kernel.o in " + cache.string());
}

void damage(const fs::path& file, std::streamoff offset) {
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekg(offset);
  const int byte = stream.get();
  stream.seekp(offset);
  stream.put(static_cast<char>(byte ^ 0x40));
}

TEST(CompilerCache, ADamagedEntryIsCompiledAgainAndTheKernelSaysSo) {
  const TemporaryDirectory directory;
  const CsrMatrix matrix = random_matrix(60, 70, 0.8);
  const Compiler compiler({}, cached_in(directory.path()));
  static_cast<void>(compiler.compile(problem_of(matrix, 33)));
  damage(object_in(directory.path()), 500);

  const Kernel kernel = compiler.compile(problem_of(matrix, 33));
  const Kernel after = compiler.compile(problem_of(matrix, 33));

  EXPECT_FALSE(kernel.info().from_cache);
  EXPECT_EQ(kernel.info().note.rfind("cache: ", 0), 0U) << kernel.info().note;
  EXPECT_TRUE(same_bits(product(kernel), expected_product(matrix, kernel)));
  EXPECT_TRUE(after.info().from_cache);
  EXPECT_EQ(after.info().note, "");
}

TEST(CompilerCache, AnEntryCutShortIsCompiledAgain) {
  const TemporaryDirectory directory;
  const CsrMatrix matrix = random_matrix(60, 70, 0.8);
  const Compiler compiler({}, cached_in(directory.path()));
  static_cast<void>(compiler.compile(problem_of(matrix, 33)));
  fs::resize_file(object_in(directory.path()), 100);

  const Kernel kernel = compiler.compile(problem_of(matrix, 33));

  EXPECT_FALSE(kernel.info().from_cache);
  EXPECT_FALSE(kernel.info().note.empty());
  EXPECT_TRUE(same_bits(product(kernel), expected_product(matrix, kernel)));
}

TEST(CompilerCache, ADefaultDirectoryThatCannotBeUsedIsANote) {
  const TemporaryDirectory directory;
  const fs::path file = directory.path() / "file";
  std::ofstream(file) << "not a directory";
  const CsrMatrix matrix = random_matrix(60, 70, 0.8);
  for (const fs::path& unusable : {file, file / "below"}) {
    const ScopedVariable variable("SPJIT_CACHE_DIR", unusable.string());

    const Kernel kernel = Compiler().compile(problem_of(matrix, 33));

    EXPECT_EQ(kernel.info().note.rfind("not cached: ", 0), 0U) << kernel.info().note;
    EXPECT_TRUE(same_bits(product(kernel), expected_product(matrix, kernel)));
  }
}

TEST(CompilerCache, WhatADirectoryCannotTakeIsHandedOutAndSaysWhyItIsNotCached) {
  const TemporaryDirectory directory;
  const CsrMatrix matrix = random_matrix(60, 70, 0.8);
  const Compiler compiler({}, cached_in(directory.path()));
  const Kernel cached = compiler.compile(problem_of(matrix, 33));
  fs::remove_all(directory.path() / "tmp");
  std::ofstream(directory.path() / "tmp") << "not a directory";

  const Kernel kernel = compiler.compile(problem_of(matrix, 34));

  EXPECT_EQ(cached.info().not_cached, "");
  EXPECT_NE(kernel.info().not_cached, "");
  EXPECT_EQ(kernel.info().note, "not cached: " + kernel.info().not_cached);
  EXPECT_TRUE(same_bits(product(kernel), expected_product(matrix, kernel)));
}

TEST(CompilerCache, AnExplicitDirectoryThatCannotBeUsedIsAnError) {
  const TemporaryDirectory directory;
  const fs::path file = directory.path() / "file";
  std::ofstream(file) << "not a directory";
  const fs::path foreign = directory.path() / "foreign";
  fs::create_directory(foreign);
  std::ofstream(foreign / "precious") << "data";
  for (const fs::path& unusable : {file, foreign}) {
    EXPECT_THROW(static_cast<void>(Compiler(hot_options(), cached_in(unusable))
                                       .compile(problem_of(random_matrix(60, 70, 0.8), 33))),
                 spjit::CacheError)
        << unusable;
  }
}

TEST(CompilerCache, ADisabledCacheLeavesNoTrace) {
  const TemporaryDirectory directory;
  CacheOptions cache = cached_in(directory.path());
  cache.enabled = false;

  const Kernel kernel =
      Compiler(hot_options(), cache).compile(problem_of(random_matrix(60, 70, 0.8), 33));

  EXPECT_FALSE(kernel.info().from_cache);
  EXPECT_TRUE(fs::is_empty(directory.path()));
}

TEST(CompilerCache, CompileUsesTheDefaultDirectory) {
  const TemporaryDirectory directory;
  const ScopedVariable variable("SPJIT_CACHE_DIR", directory.path().string());
  const CsrMatrix matrix = random_matrix(60, 70, 0.8);

  const Kernel fresh = spjit::compile(problem_of(matrix, 33));
  const Kernel cached = spjit::compile(problem_of(matrix, 33));

  EXPECT_FALSE(fresh.info().from_cache);
  EXPECT_TRUE(cached.info().from_cache);
}

}  // namespace
