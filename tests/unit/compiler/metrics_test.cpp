#include "compiler/metrics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "compiler/cache_question.hpp"
#include "compiler/compiler_impl.hpp"
#include "spjit/compiler.hpp"
#include "tests/support/compile_testing.hpp"

namespace {

namespace fs = std::filesystem;
using namespace spjit;
using namespace spjit::testing_support;
using testing::HasSubstr;

TEST(Metrics, CountHitsMissesAndSeconds) {
  const TemporaryDirectory directory;
  const CacheOptions cache = cached_in(directory.path() / "cache");
  const Problem problem = small_problem(random_matrix(40, 50, 0.8));
  const Compiler compiler(hot_options(), cache);

  static_cast<void>(compiler.compile(problem));
  const Metrics after_one = compiler.metrics();
  static_cast<void>(Compiler(compiler).compile(problem));
  const Metrics after_two = compiler.metrics();

  EXPECT_EQ(after_one.at("spjit_kernels_compiled_total"), 1);
  EXPECT_EQ(after_one.at("spjit_cache_misses_total{reason=\"absent\"}"), 1);
  EXPECT_EQ(after_one.at("spjit_cache_hits_total{place=\"directory\"}"), 0);
  EXPECT_GT(after_one.at("spjit_compile_seconds_total"), 0);
  EXPECT_EQ(after_one.at("spjit_cache_hit_seconds_total"), 0);
  EXPECT_EQ(after_two.at("spjit_kernels_compiled_total"), 1);
  EXPECT_EQ(after_two.at("spjit_cache_hits_total{place=\"directory\"}"), 1);
  EXPECT_GT(after_two.at("spjit_cache_hit_seconds_total"), 0);
  EXPECT_EQ(after_two.count("spjit_remote_hits_total"), 0U);
}

TEST(Metrics, CountWhatIsInALayerAndWhatIsRefused) {
  const TemporaryDirectory directory;
  const Problem problem = small_problem(random_matrix(40, 50, 0.8));
  static_cast<void>(
      Compiler(hot_options(), cached_in(directory.path() / "below")).compile(problem));
  CacheOptions cache = cached_in(directory.path() / "cache");
  cache.read_only_layers = {directory.path() / "below"};
  CompileOptions options = hot_options();
  options.compile = CompileWhen::never;
  const Compiler compiler(options, cache);

  static_cast<void>(compiler.compile(problem));
  EXPECT_THROW(static_cast<void>(compiler.compile(small_problem(random_matrix(9, 8, 0.5)))),
               NotSupported);

  EXPECT_EQ(compiler.metrics().at("spjit_cache_hits_total{place=\"layer\"}"), 1);
  EXPECT_EQ(compiler.metrics().at("spjit_kernels_refused_total"), 1);
}

TEST(Metrics, HaveTheTextFormatOfPrometheus) {
  const std::string text = prometheus_text({{"spjit_cache_hits_total{place=\"layer\"}", 2},
                                            {"spjit_cache_hits_total{place=\"remote\"}", 0},
                                            {"spjit_remote_left_alone", 1},
                                            {"spjit_compile_seconds_total", 0.25}});

  EXPECT_EQ(text,
            "# HELP spjit_cache_hits_total Kernels that were taken from a place.\n"
            "# TYPE spjit_cache_hits_total counter\n"
            "spjit_cache_hits_total{place=\"layer\"} 2\n"
            "spjit_cache_hits_total{place=\"remote\"} 0\n"
            "# HELP spjit_compile_seconds_total Seconds from a problem to a kernel that was "
            "compiled.\n"
            "# TYPE spjit_compile_seconds_total counter\n"
            "spjit_compile_seconds_total 0.25\n"
            "# HELP spjit_remote_left_alone 1 while the server is not asked, because it failed.\n"
            "# TYPE spjit_remote_left_alone gauge\n"
            "spjit_remote_left_alone 1\n");
  EXPECT_EQ(prometheus_text({}), "");
}

TEST(Metrics, OfAServerThatNobodyIsAt) {
  const TemporaryDirectory directory;
  CacheOptions cache = cached_in(directory.path() / "cache");
  cache.remote.emplace();
  cache.remote->url = "http://127.0.0.1:1/spjit";
  cache.remote->trust = "server";
  cache.remote->dear_only = false;
  const Compiler compiler(hot_options(), cache);

  for (int n = 1; n < 6; ++n) {
    static_cast<void>(compiler.compile(problem_of(random_matrix(9, 8, 0.5), n)));
  }

  const Metrics metrics = compiler.metrics();
  if (metrics.count("spjit_remote_hits_total") == 0) GTEST_SKIP() << "there is no libcurl";
  EXPECT_EQ(metrics.at("spjit_remote_misses_total{reason=\"connection\"}"), 3);
  EXPECT_EQ(metrics.at("spjit_remote_misses_total{reason=\"breaker\"}"), 2);
  EXPECT_EQ(metrics.at("spjit_remote_left_alone"), 1);
  EXPECT_EQ(metrics.at("spjit_kernels_compiled_total"), 5);
}

TEST(CacheQuestion, SaysWhereAKernelIsOrWhatIsNearest) {
  const TemporaryDirectory directory;
  const CacheOptions cache = cached_in(directory.path() / "cache");
  const CsrMatrix matrix = random_matrix(40, 50, 0.8);
  const Kernel made = Compiler(hot_options(), cache).compile(problem_of(matrix, 16));
  const OpenedCache opened = open_cache(cache);

  const CacheAnswer there = ask_caches(opened, problem_of(matrix, 16), hot_options());
  const CacheAnswer near = ask_caches(opened, problem_of(matrix, 17), hot_options());

  EXPECT_EQ(there.key, made.info().key);
  EXPECT_EQ(there.found_in, cache.directory);
  EXPECT_FALSE(there.nearest);
  EXPECT_EQ(near.found_in, "");
  ASSERT_TRUE(near.nearest);
  EXPECT_EQ(near.nearest->kernel.key, made.info().key);
  EXPECT_EQ(to_text(near.nearest->differences), "n (16 there, 17 wanted)");
  EXPECT_FALSE(near.remote);
}

TEST(CacheQuestion, AsksAServerAndTakesNothing) {
  const TemporaryDirectory directory;
  CacheOptions cache = cached_in(directory.path() / "cache");
  cache.remote.emplace();
  cache.remote->url = "http://127.0.0.1:1/another";
  cache.remote->trust = "server";
  cache.remote->dear_only = false;
  const OpenedCache opened = open_cache(cache);

  const CacheAnswer answer =
      ask_caches(opened, small_problem(random_matrix(9, 8, 0.5)), hot_options());

  ASSERT_TRUE(answer.remote);
  EXPECT_EQ(answer.remote->url, cache.remote->url);
  EXPECT_FALSE(answer.remote->has_kernel);
  EXPECT_NE(answer.remote->problem, "");
  EXPECT_EQ(answer.note, "");  // nothing was looked up there
}

}  // namespace
