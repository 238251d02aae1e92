// Bundles as read-only layers of a Compiler's cache.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <ios>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cache/cache_store.hpp"
#include "spjit/bundle.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/scoped_variable.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

namespace fs = std::filesystem;
using namespace spjit;
using namespace spjit::testing_support;
using testing::HasSubstr;
using testing::StartsWith;

class CompilerBundleLayerTest : public testing::Test {
 protected:
  [[nodiscard]] fs::path bundle() const { return directory_.path() / "model.spjit"; }
  /// Of a writable cache over the bundle.
  [[nodiscard]] CacheOptions layered() const {
    CacheOptions options = cached_in(directory_.path() / "cache");
    options.read_only_layers = {bundle()};
    return options;
  }
  [[nodiscard]] Kernel compile(const CacheOptions& cache, HostIsa isa = Target().isa()) const {
    return Compiler(options_of(isa), cache).compile(problem_of(matrix_, 33));
  }
  void write_bundle(HostIsa isa = Target().isa()) const {
    BundleWriter writer(bundle());
    writer.add("fc1", compile(cached_in(directory_.path() / "elsewhere"), isa));
    writer.finish();
  }
  void change_byte(std::streamoff place) const {
    fs::permissions(bundle(), fs::perms(0600));
    std::fstream file(bundle(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(place);
    file.put('\x5a');
  }
  [[nodiscard]] std::size_t published() const {
    return CacheStore(directory_.path() / "cache", SPJIT_VERSION).list().size();
  }

  CsrMatrix matrix_ = random_matrix(40, 50, 0.8);

  [[nodiscard]] const fs::path& directory() const { return directory_.path(); }

 private:
  TemporaryDirectory directory_;
};

TEST_F(CompilerBundleLayerTest, AKernelComesFromTheBundleAndIsNotCopied) {
  write_bundle();

  const Kernel kernel = compile(layered());

  EXPECT_TRUE(kernel.info().from_cache);
  EXPECT_EQ(kernel.info().cache_directory, bundle());
  EXPECT_EQ(kernel.info().note, "");
  EXPECT_TRUE(is_kernel_of(kernel, matrix_));
  EXPECT_EQ(published(), 0U);
}

TEST_F(CompilerBundleLayerTest, WithoutACacheTheLayersThatAreNamedAreLookedAt) {
  write_bundle();
  CacheOptions options = uncached();
  EXPECT_FALSE(compile(options).info().from_cache);
  options.read_only_layers = {bundle()};

  const Kernel kernel = compile(options);
  const Kernel other =
      Compiler(options_of(Target().isa()), options).compile(problem_of(matrix_, 7));

  EXPECT_TRUE(kernel.info().from_cache);
  EXPECT_TRUE(is_kernel_of(kernel, matrix_));
  EXPECT_FALSE(other.info().from_cache);
  EXPECT_EQ(other.info().note + other.info().not_cached, "");
  options.read_only_layers = {directory() / "nowhere"};
  EXPECT_THROW(static_cast<void>(compile(options)), CacheError);
}

TEST_F(CompilerBundleLayerTest, TheVariableNamesBundlesToo) {
  write_bundle();
  const ScopedVariable variable("SPJIT_CACHE_LAYERS", bundle().string());

  EXPECT_EQ(compile(cached_in(bundle().parent_path() / "cache")).info().cache_directory, bundle());
}

TEST_F(CompilerBundleLayerTest, KernelsOfAnotherCpuAreNotTaken) {
  write_bundle(HostIsa::generic);

  const Kernel kernel = compile(layered());

  EXPECT_FALSE(kernel.info().from_cache);
  EXPECT_EQ(kernel.info().note, "");
  EXPECT_EQ(published(), 1U);
  EXPECT_TRUE(compile(layered(), HostIsa::generic).info().from_cache);
}

TEST_F(CompilerBundleLayerTest, ADamagedKernelIsCompiledAnewWithANote) {
  write_bundle();
  change_byte(4096 + 100);

  const Kernel fresh = compile(layered());
  const Kernel own = compile(layered());

  EXPECT_FALSE(fresh.info().from_cache);
  EXPECT_THAT(fresh.info().note, StartsWith("cache: kernel "));
  EXPECT_THAT(fresh.info().note, HasSubstr(bundle().native()));
  EXPECT_TRUE(is_kernel_of(fresh, matrix_));
  EXPECT_NE(own.info().cache_directory, bundle());
  EXPECT_TRUE(own.info().from_cache);
}

TEST_F(CompilerBundleLayerTest, ADamagedBundleIsAnErrorIfGivenAndANoteOfTheEnvironment) {
  write_bundle();
  change_byte(static_cast<std::streamoff>(fs::file_size(bundle())) - 20);

  EXPECT_THROW(static_cast<void>(compile(layered())), CacheError);
  const ScopedVariable variable("SPJIT_CACHE_LAYERS", bundle().string());
  const Kernel kernel = compile(cached_in(bundle().parent_path() / "cache"));
  EXPECT_THAT(kernel.info().note, StartsWith("cache layer not used: "));
  EXPECT_THAT(kernel.info().note, HasSubstr(bundle().native()));
}

TEST_F(CompilerBundleLayerTest, OthersMustNotWriteToItUnlessThatIsAllowed) {
  write_bundle();
  fs::permissions(bundle(), fs::perms(0666));
  CacheOptions allowed = layered();
  allowed.allow_unsafe_directory = true;

  EXPECT_THROW(static_cast<void>(compile(layered())), CacheError);
  EXPECT_TRUE(compile(allowed).info().from_cache);
}

TEST_F(CompilerBundleLayerTest, CompilersOfManyThreadsShareABundle) {
  write_bundle();
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 10; ++k) {
        const Kernel kernel = compile(layered());
        if (kernel.info().cache_directory == bundle() && is_kernel_of(kernel, matrix_)) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(right, 40);
}

}  // namespace
