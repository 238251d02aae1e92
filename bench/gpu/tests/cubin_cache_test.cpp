#include "bench/gpu/cubin_cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/hash.hpp"
#include "spjit/error.hpp"

namespace {

namespace fs = std::filesystem;
using namespace spjit;
using namespace spjit::bench;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* k_card = "sm_90:h100";

std::string key_of(const std::string& text) { return KeyBuilder().field("test", text).hex(); }

class CubinCacheTest : public testing::Test {
 protected:
  CubinCacheTest()
      : folder_(fs::temp_directory_path() / ("spjit-cubin-cache-" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
  }
  ~CubinCacheTest() override { fs::remove_all(folder_); }

  /// A cubin of that name and text, which a proxy of 40 registers may be.
  static StoredCubin find(CubinCache& cache, const std::string& name, const std::string& text) {
    return cache.cubin(key_of(name), [&] { return StoredCubin{text, {{"registers", 40}}}; });
  }

  /// As a disk or a copy might.
  void damage(const std::string& name) const {
    const std::string key = key_of(name);
    const fs::path path = folder_ / key.substr(0, 2) / key / "kernel.cubin";
    fs::permissions(path, fs::perms::owner_write, fs::perm_options::add);
    std::ofstream(path, std::ios::in) << "CUBIN";
  }

  fs::path folder_;
};

TEST_F(CubinCacheTest, GivesBackWhatWasCompiled) {
  CubinCache earlier(folder_, k_card);
  find(earlier, "one", "cubin 1");

  CubinCache cache(folder_, k_card);
  const StoredCubin found = find(cache, "one", "never made");
  find(cache, "two", "cubin 2");

  EXPECT_EQ(found.cubin, "cubin 1");
  EXPECT_EQ(found.more.at("registers"), 40);
  EXPECT_EQ(to_string(earlier.counts()), "0 cubins found in the folder, 1 compiled");
  EXPECT_EQ(to_string(cache.counts()), "1 cubins found in the folder, 1 compiled");
}

TEST_F(CubinCacheTest, MakesADamagedCubinAnew) {
  CubinCache cache(folder_, k_card);
  find(cache, "one", "cubin 1");
  damage("one");

  EXPECT_EQ(find(cache, "one", "cubin 1 again").cubin, "cubin 1 again");
  EXPECT_EQ(cache.counts().compiled, 2U);
}

TEST_F(CubinCacheTest, IsForDevicesThatAreLikeTheCard) {
  const CubinCache cache(folder_, k_card);
  const auto message = [&](const char* device) -> std::string {
    try {
      cache.require(parse_cuda_target(device));
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  };

  EXPECT_EQ(message(k_card), "");
  EXPECT_THAT(message("sm_80"), AllOf(HasSubstr("sm_90:h100"), HasSubstr("is sm_80")));
  EXPECT_THAT(message("sm_90:h100-pcie"), AllOf(HasSubstr("132 SMs"), HasSubstr("with 114")));
}

}  // namespace
