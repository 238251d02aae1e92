#include "base/environment.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "spjit/error.hpp"
#include "tests/support/files/system_testing.hpp"

namespace spjit {
namespace {

TEST(Environment, ReadsItsVariablesAndTakesEmptyOnesAsUnset) {
  const int code = test::in_child([] {
    ::setenv("SPJIT_CACHE_DIR", "/some/where", 1);
    ::setenv("SPJIT_NUM_THREADS", "", 1);
    ::setenv("XDG_CACHE_HOME", "/xdg", 1);
    ::unsetenv("HOME");
    const Environment environment = read_environment();
    const bool right = environment.spjit_cache_dir == "/some/where" &&
                       !environment.spjit_num_threads && environment.xdg_cache_home == "/xdg" &&
                       !environment.home;
    return right ? 0 : 1;
  });

  EXPECT_EQ(code, 0);
}

TEST(TerminalEnvironment, TakesNoColorOnlyIfItIsNotEmpty) {
  const int code = test::in_child([] {
    ::setenv("TERM", "dumb", 1);
    ::setenv("NO_COLOR", "", 1);
    if (read_terminal_environment().no_color) return 1;
    ::setenv("NO_COLOR", "0", 1);
    const TerminalEnvironment terminal = read_terminal_environment();
    return terminal.no_color && terminal.term == "dumb" ? 0 : 2;
  });

  EXPECT_EQ(code, 0);
}

TEST(CudaEnvironment, ReadsWhereTheUserHasCuda) {
  const int code = test::in_child([] {
    ::setenv("SPJIT_CUDA_PATH", "/a:/b", 1);
    ::setenv("SPJIT_CUDA_DRIVER", "/driver.so", 1);
    ::setenv("CUDA_HOME", "", 1);
    ::setenv("CUDA_PATH", "/toolkit", 1);
    const CudaEnvironment cuda = read_cuda_environment();
    const bool right = cuda.spjit_cuda_path == "/a:/b" && cuda.spjit_cuda_driver == "/driver.so" &&
                       !cuda.cuda_home && cuda.cuda_path == "/toolkit";
    return right ? 0 : 1;
  });

  EXPECT_EQ(code, 0);
}

TEST(DefaultCacheDirectory, PrefersItsOwnVariableThenXdgThenHome) {
  Environment environment{.spjit_cache_dir = "own",
                          .spjit_num_threads = {},
                          .xdg_cache_home = "/xdg",
                          .home = "/home/user"};

  EXPECT_EQ(default_cache_directory(environment), "own");
  environment.spjit_cache_dir.reset();
  EXPECT_EQ(default_cache_directory(environment), "/xdg/spjit");
  environment.xdg_cache_home = "relative";
  EXPECT_EQ(default_cache_directory(environment), "/home/user/.cache/spjit");
  environment.home.reset();
  EXPECT_THROW(static_cast<void>(default_cache_directory(environment)), CacheError);
}

TEST(CacheEnvironment, ReadsHowACacheIsToBeUsed) {
  const int code = test::in_child([] {
    ::setenv("SPJIT_CACHE_UNSAFE", "1", 1);
    ::setenv("SPJIT_CACHE_SIZE", "2G", 1);
    ::setenv("SPJIT_CACHE_LAYERS", "", 1);
    const CacheEnvironment cache = read_cache_environment();
    return cache.unsafe == "1" && cache.size == "2G" && !cache.layers ? 0 : 1;
  });

  EXPECT_EQ(code, 0);
}

TEST(DefaultCacheUnsafe, IsAskedForByOneOnly) {
  EXPECT_FALSE(default_cache_unsafe({}));
  EXPECT_FALSE(default_cache_unsafe({.unsafe = "0", .size = {}, .layers = {}}));
  EXPECT_TRUE(default_cache_unsafe({.unsafe = "1", .size = {}, .layers = {}}));
  for (const char* text : {"yes", "true", "2", "01", " 1"}) {
    EXPECT_THROW(
        static_cast<void>(default_cache_unsafe({.unsafe = text, .size = {}, .layers = {}})),
        InvalidArgument)
        << text;
  }
}

TEST(DefaultCacheSize, TakesTheVariableOrTheFallback) {
  EXPECT_EQ(default_cache_size({}, 7), 7);
  EXPECT_EQ(default_cache_size({.unsafe = {}, .size = "0", .layers = {}}, 7), 0);
  EXPECT_EQ(default_cache_size({.unsafe = {}, .size = "2K", .layers = {}}, 7), 2048);
  EXPECT_THROW(
      static_cast<void>(default_cache_size({.unsafe = {}, .size = "big", .layers = {}}, 7)),
      InvalidArgument);
}

TEST(DefaultCacheLayers, AreSeparatedByColons) {
  const auto layers = [](const char* text) {
    return default_cache_layers({.unsafe = {}, .size = {}, .layers = text});
  };
  using Paths = std::vector<std::filesystem::path>;

  EXPECT_EQ(default_cache_layers({}), Paths());
  EXPECT_EQ(layers("/a"), Paths({"/a"}));
  EXPECT_EQ(layers("/a:b"), Paths({"/a", "b"}));
  EXPECT_EQ(layers(":/a::b:"), Paths({"/a", "b"}));
}

TEST(DefaultThreads, TakesTheVariableOrTheFallback) {
  Environment environment;

  EXPECT_EQ(default_threads(environment, 6), 6);
  environment.spjit_num_threads = "12";
  EXPECT_EQ(default_threads(environment, 6), 12);
}

TEST(DefaultThreads, RefusesWhatIsNoNumberOfThreads) {
  for (const char* text : {"0", "-1", "4097", "two", "2x", " 2", "99999999999999999999", "2.5"}) {
    Environment environment;
    environment.spjit_num_threads = text;

    EXPECT_THROW(static_cast<void>(default_threads(environment, 6)), InvalidArgument) << text;
  }
}

}  // namespace
}  // namespace spjit
