// What a Compiler makes of CacheOptions, of the variables behind them, and of entries that are
// whole but of no use.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "kernels/host/unrolled/host_program.hpp"
#include "runtime/cache/cache_store.hpp"
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
using testing::Not;
using testing::StartsWith;

std::size_t files_in(const fs::path& directory) {
  std::error_code none;
  const fs::directory_iterator begin(directory, none);
  return static_cast<std::size_t>(std::distance(begin, fs::directory_iterator()));
}

nlohmann::json record_of(const Kernel& kernel) { return nlohmann::json::parse(kernel.record()); }

class CompilerCacheTest : public testing::Test {
 protected:
  [[nodiscard]] fs::path cache() const { return directory_.path() / "cache"; }
  [[nodiscard]] fs::path layer() const { return directory_.path() / "layer"; }

  [[nodiscard]] Kernel compile(const CacheOptions& options, std::int64_t n = 33) const {
    return Compiler(options_of(), options).compile(problem_of(matrix_, n));
  }

  /// Replaces the entry `key` by a whole one of other content.
  void replace(const std::string& key, const std::vector<CacheFile>& files,
               const nlohmann::json& record) const {
    const CacheStore store(cache(), SPJIT_VERSION);
    store.remove(key);
    store.publish(key, files, record);
  }

  /// Compiles what is in the cache as `key`, which is of no use: that is said once, and put right.
  void expect_set_aside(const std::string& reason) const {
    const Kernel fresh = compile(cached_in(cache()));
    const Kernel cached = compile(cached_in(cache()));

    EXPECT_FALSE(fresh.info().from_cache);
    EXPECT_THAT(fresh.info().note, StartsWith("cache: "));
    EXPECT_THAT(fresh.info().note, HasSubstr(reason));
    EXPECT_THAT(fresh.info().note, Not(HasSubstr("; cache: ")));  // one note
    EXPECT_THAT(fresh.info().note, HasSubstr(cache().native()));
    EXPECT_EQ(files_in(cache() / "damaged"), 1U);
    EXPECT_TRUE(cached.info().from_cache);
    EXPECT_EQ(cached.info().note, "");
  }

  TemporaryDirectory directory_;
  CsrMatrix matrix_ = random_matrix(60, 70, 0.8);
};

TEST_F(CompilerCacheTest, AnObjectOfAnotherMachineIsSetAside) {
  const Kernel kernel = compile(cached_in(cache()));
  std::vector<std::byte> object = kernel.object("kernel");
  object.at(18) = std::byte{183};  // e_machine: AArch64

  replace(kernel.info().key, {{.name = "kernel.o", .bytes = object}}, record_of(kernel));

  expect_set_aside("machine 183, expected 62");
}

TEST_F(CompilerCacheTest, AnObjectOfAnotherInstructionSetIsSetAside) {
  const Kernel kernel = compile(cached_in(cache()));
  const HostIsa other =
      kernel.info().target.isa() == HostIsa::generic ? HostIsa::avx2 : HostIsa::generic;
  if (!compiles_and_runs(other)) GTEST_SKIP() << "only one instruction set compiles here";
  const CompileOptions options = options_of(other);
  const Kernel foreign =
      Compiler(options, {.enabled = false, .directory = {}}).compile(problem_of(matrix_, 33));
  const std::vector<std::byte> object = foreign.object("kernel");

  replace(kernel.info().key, {{.name = "kernel.o", .bytes = object}}, record_of(kernel));

  expect_set_aside("its code is for " + Target(other).name());
}

TEST_F(CompilerCacheTest, AnObjectOfAnotherWidthIsSetAside) {
  const Kernel kernel = compile(cached_in(cache()));
  const std::vector<std::byte> object =
      compile({.enabled = false, .directory = {}}, 34).object("kernel");

  replace(kernel.info().key, {{.name = "kernel.o", .bytes = object}}, record_of(kernel));

  expect_set_aside("n = 34");
}

/// The object of a kernel, as if an earlier program had written it.
std::vector<std::byte> object_of_the_previous_version(const Kernel& kernel) {
  const std::vector<std::byte> object = kernel.object("kernel");
  const HostImage image = read_object(object, "kernel");
  std::vector<std::int64_t> words(image.program.size() / sizeof(std::int64_t));
  std::memcpy(words.data(), image.program.data(), image.program.size());
  words.at(1) = k_host_program_version - 1;
  return write_object({image.text, image.weights, std::as_bytes(std::span(words))}, "kernel");
}

TEST_F(CompilerCacheTest, AnObjectOfThePreviousVersionIsSetAside) {
  const Kernel kernel = compile(cached_in(cache()));
  const std::vector<std::byte> object = object_of_the_previous_version(kernel);

  replace(kernel.info().key, {{.name = "kernel.o", .bytes = object}}, record_of(kernel));

  expect_set_aside("version " + std::to_string(k_host_program_version - 1));
}

TEST_F(CompilerCacheTest, ARecordOfThePreviousVersionIsSetAside) {
  const Kernel kernel = compile(cached_in(cache()));
  const std::vector<std::byte> object = object_of_the_previous_version(kernel);
  nlohmann::json record = record_of(kernel);
  record["kind"] = record["family"];
  record.erase("family");
  record.erase("problem");

  replace(kernel.info().key, {{.name = "kernel.o", .bytes = object}}, record);

  expect_set_aside("\"family\"");
}

TEST_F(CompilerCacheTest, ARecordOfAFamilyThatIsUnknownIsSetAside) {
  const Kernel kernel = compile(cached_in(cache()));
  nlohmann::json record = record_of(kernel);
  record["family"] = "quantum";

  replace(kernel.info().key, {{.name = "kernel.o", .bytes = kernel.object("kernel")}}, record);

  expect_set_aside("the family of kernels \"quantum\" is unknown");
}

TEST_F(CompilerCacheTest, AnEntryWithoutAnObjectIsSetAside) {
  const Kernel kernel = compile(cached_in(cache()));

  replace(kernel.info().key, {}, record_of(kernel));

  expect_set_aside("no file \"kernel.o\"");
}

TEST_F(CompilerCacheTest, AKernelIsTakenWhoseRecordLacksTheReasonForItsTile) {
  const Kernel kernel = compile(cached_in(cache()));
  const std::vector<std::byte> object = kernel.object("kernel");

  replace(kernel.info().key, {{.name = "kernel.o", .bytes = object}},
          {{"family", kernel.info().family}, {"search", {{"reason", 42}}}});

  const Kernel cached = compile(cached_in(cache()));
  EXPECT_TRUE(cached.info().from_cache);
  EXPECT_EQ(cached.info().reason, "");
}

TEST_F(CompilerCacheTest, AHitSaysWhichDirectoryItIsFrom) {
  CacheOptions options = cached_in(cache());
  static_cast<void>(compile(cached_in(layer())));
  options.read_only_layers = {layer()};

  const Kernel from_layer = compile(options);
  const Kernel fresh = compile(options, 34);
  const Kernel own = compile(options, 34);

  EXPECT_EQ(from_layer.info().cache_directory, layer());
  EXPECT_EQ(from_layer.info().note, "");
  EXPECT_EQ(fresh.info().cache_directory, "");
  EXPECT_EQ(own.info().cache_directory, cache());
  EXPECT_EQ(CacheStore(cache(), SPJIT_VERSION).list().size(), 1U);
  EXPECT_EQ(CacheStore(layer(), SPJIT_VERSION).list().size(), 1U);
}

TEST_F(CompilerCacheTest, LayersOfTheEnvironmentAreUsedUnlessSomeAreGiven) {
  static_cast<void>(compile(cached_in(layer())));
  const ScopedVariable variable("SPJIT_CACHE_LAYERS", layer().string());
  CacheOptions others = cached_in(directory_.path() / "other");
  static_cast<void>(compile(cached_in(directory_.path() / "empty"), 40));
  others.read_only_layers = {directory_.path() / "empty"};

  EXPECT_EQ(compile(cached_in(cache())).info().cache_directory, layer());
  EXPECT_FALSE(compile(others).info().from_cache);
}

TEST_F(CompilerCacheTest, AMissingLayerIsAnErrorIfGivenAndANoteOfTheEnvironment) {
  CacheOptions given = cached_in(cache());
  given.read_only_layers = {layer()};
  EXPECT_THROW(static_cast<void>(compile(given)), CacheError);
  const ScopedVariable variable("SPJIT_CACHE_LAYERS", layer().string());

  const Kernel fresh = compile(cached_in(cache()));
  const Kernel cached = compile(cached_in(cache()));

  EXPECT_THAT(fresh.info().note, StartsWith("cache layer not used: "));
  EXPECT_THAT(fresh.info().note, HasSubstr(layer().native()));
  EXPECT_TRUE(cached.info().from_cache);
}

TEST_F(CompilerCacheTest, LayersServeWithoutADirectoryToWriteTo) {
  static_cast<void>(compile(cached_in(layer())));
  fs::create_directories(cache());
  fs::permissions(cache(), fs::perms(0777));
  const ScopedVariable variable("SPJIT_CACHE_DIR", cache().string());
  CacheOptions options;
  options.read_only_layers = {layer()};

  const Kernel cached = compile(options);
  const Kernel fresh = compile(options, 34);

  EXPECT_TRUE(cached.info().from_cache);
  EXPECT_THAT(fresh.info().note, StartsWith("not cached: "));
  EXPECT_TRUE(fs::is_empty(cache()));
}

TEST_F(CompilerCacheTest, AnUnsafeDirectoryIsAnErrorIfGivenANoteByDefaultAndTakenIfAllowed) {
  fs::create_directories(cache());
  fs::permissions(cache(), fs::perms(0777));
  CacheOptions allowed = cached_in(cache());
  allowed.allow_unsafe_directory = true;
  const ScopedVariable variable("SPJIT_CACHE_DIR", cache().string());

  EXPECT_THROW(static_cast<void>(compile(cached_in(cache()))), CacheError);
  EXPECT_THAT(compile({}).info().note, HasSubstr("mode 0777"));
  EXPECT_EQ(compile(allowed).info().note, "");
  EXPECT_TRUE(compile(allowed).info().from_cache);
  const ScopedVariable unsafe("SPJIT_CACHE_UNSAFE", "1");
  EXPECT_TRUE(compile({}).info().from_cache);
}

TEST_F(CompilerCacheTest, TheSizeLimitIsTheOptionElseTheVariable) {
  const auto age_all = [&] {
    for (const auto& item : fs::recursive_directory_iterator(cache())) {
      if (item.path().filename() != "record.json") continue;
      fs::last_write_time(item.path(), item.last_write_time() - std::chrono::hours(1));
    }
  };
  const auto entries = [&] { return CacheStore(cache(), SPJIT_VERSION).list().size(); };
  CacheOptions small = cached_in(cache());
  small.size_limit_bytes = 1;
  static_cast<void>(compile(cached_in(cache())));
  age_all();

  static_cast<void>(compile(small, 34));
  EXPECT_EQ(entries(), 1U);

  age_all();
  const ScopedVariable variable("SPJIT_CACHE_SIZE", "1K");
  static_cast<void>(compile(cached_in(cache()), 35));
  EXPECT_EQ(entries(), 1U);

  age_all();
  small.size_limit_bytes = 0;
  static_cast<void>(compile(small, 36));
  EXPECT_EQ(entries(), 2U);
}

TEST_F(CompilerCacheTest, VariablesAndLimitsThatAreNoneAreRefused) {
  CacheOptions negative = cached_in(cache());
  negative.size_limit_bytes = -1;
  EXPECT_THROW(static_cast<void>(compile(negative)), InvalidArgument);
  {
    const ScopedVariable variable("SPJIT_CACHE_SIZE", "lots");
    EXPECT_THROW(static_cast<void>(compile(cached_in(cache()))), InvalidArgument);
  }
  const ScopedVariable variable("SPJIT_CACHE_UNSAFE", "maybe");
  EXPECT_THROW(static_cast<void>(compile(cached_in(cache()))), InvalidArgument);
  EXPECT_FALSE(compile({.enabled = false, .directory = {}}).info().from_cache);
}

}  // namespace
