#include "bench/gpu/cubin_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/hash.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"

namespace {

namespace fs = std::filesystem;
using namespace spjit;
using namespace spjit::bench;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* k_card = "sm_90:h100";

std::string key_of(const std::string& text) { return KeyBuilder().field("test", text).hex(); }

template <typename Run>
std::string message_of(const Run& run) {
  try {
    static_cast<void>(run());
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

class CubinFolderTest : public testing::Test {
 protected:
  CubinFolderTest()
      : folder_(fs::temp_directory_path() / ("spjit-cubin-folder-" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
  }
  ~CubinFolderTest() override { fs::remove_all(folder_); }

  /// Adds a cubin of that name and text, which a proxy of 40 registers may be.
  static StoredCubin add(CubinFolder& folder, const std::string& name, const std::string& text) {
    return folder.cubin({name, "ptx"}, key_of(name), [&] {
      return StoredCubin{text, {{"registers", 40}}};
    });
  }

  /// Two cubins, finished.
  void fill() {
    const auto folder = CubinFolder::to_fill(folder_, k_card);
    add(*folder, "one", "cubin 1");
    add(*folder, "two", "cubin 2");
    folder->finish("ranks");
  }

  [[nodiscard]] fs::path cubin_of(const std::string& name) const {
    const std::string key = key_of(name);
    return folder_ / key.substr(0, 2) / key / "kernel.cubin";
  }

  /// As a disk or a copy might.
  void damage(const std::string& name) const {
    const fs::path path = cubin_of(name);
    fs::permissions(path, fs::perms::owner_write, fs::perm_options::add);
    std::ofstream(path, std::ios::in) << "CUBIN";
  }

  void change_manifest(const std::string& member, const nlohmann::json& value) const {
    const fs::path path = folder_ / k_cubin_manifest_file;
    std::ifstream in(path);
    nlohmann::json document = nlohmann::json::parse(in);
    document[member] = value;
    std::ofstream(path) << document.dump();
  }

  fs::path folder_;
};

TEST_F(CubinFolderTest, GivesBackWhatWasCompiledAndListsIt) {
  fill();

  const auto folder = CubinFolder::for_device(folder_, parse_cuda_target(k_card));
  const StoredCubin found = add(*folder, "one", "never made");

  EXPECT_EQ(found.cubin, "cubin 1");
  EXPECT_EQ(found.more.at("registers"), 40);
  EXPECT_EQ(folder->counts().found, 1U);
  EXPECT_EQ(folder->counts().compiled, 0U);
  const CubinManifest manifest = read_cubin_manifest(folder_);
  EXPECT_EQ(manifest.target, k_card);
  EXPECT_THAT(manifest.finished, ElementsAre("ranks"));
  ASSERT_EQ(manifest.cubins.size(), 2U);
  EXPECT_EQ(manifest.cubins[0].name, "one");
  EXPECT_EQ(manifest.cubins[0].bytes, 7);
  EXPECT_EQ(manifest.cubins[0].sha256, hex_text(sha256(std::as_bytes(std::span(found.cubin)))));
  EXPECT_THAT(damaged_cubins(folder_, manifest), IsEmpty());
}

TEST_F(CubinFolderTest, GoesOnWhereItWasInterrupted) {
  {
    const auto interrupted = CubinFolder::to_fill(folder_, k_card);
    add(*interrupted, "one", "cubin 1");
  }
  EXPECT_THAT(read_cubin_manifest(folder_).finished, IsEmpty());

  const auto folder = CubinFolder::to_fill(folder_, k_card);
  add(*folder, "one", "never made");
  add(*folder, "two", "cubin 2");
  folder->finish("ranks");

  EXPECT_EQ(folder->counts().found, 1U);
  EXPECT_EQ(folder->counts().compiled, 1U);
  EXPECT_EQ(read_cubin_manifest(folder_).cubins.size(), 2U);
}

TEST_F(CubinFolderTest, ListsWhatAKilledProcessCompiledAndDidNotList) {
  fill();
  change_manifest("cubins", nlohmann::json::array());

  const auto folder = CubinFolder::to_fill(folder_, k_card);
  add(*folder, "one", "never made");
  folder->finish("ranks");

  EXPECT_EQ(folder->counts().found, 1U);
  EXPECT_EQ(read_cubin_manifest(folder_).cubins.size(), 1U);
}

TEST_F(CubinFolderTest, TellsADamagedCubinAndMakesItAnew) {
  fill();
  damage("two");
  const CubinManifest manifest = read_cubin_manifest(folder_);
  EXPECT_THAT(damaged_cubins(folder_, manifest),
              ElementsAre(AllOf(HasSubstr("two: "), HasSubstr("kernel.cubin"))));

  const auto folder = CubinFolder::to_fill(folder_, k_card);
  EXPECT_EQ(add(*folder, "two", "cubin 2 again").cubin, "cubin 2 again");
  folder->finish("ranks");

  EXPECT_EQ(folder->counts().compiled, 1U);
  EXPECT_THAT(damaged_cubins(folder_, read_cubin_manifest(folder_)), IsEmpty());
}

TEST_F(CubinFolderTest, TellsAMissingCubinAndOneThatIsNotTheListed) {
  fill();
  fs::remove_all(cubin_of("one").parent_path());
  CubinManifest manifest = read_cubin_manifest(folder_);
  manifest.cubins[1].sha256 = std::string(64, '0');

  EXPECT_THAT(damaged_cubins(folder_, manifest),
              ElementsAre(HasSubstr("one: "), AllOf(HasSubstr("two: "), HasSubstr("SHA-256"))));
}

TEST_F(CubinFolderTest, IsRefusedOnAnotherDevice) {
  fill();

  EXPECT_THAT(
      message_of([&] { return CubinFolder::for_device(folder_, parse_cuda_target("sm_80")); }),
      AllOf(HasSubstr(folder_.string()), HasSubstr("compiled for sm_90:h100"), HasSubstr("sm_80")));
  EXPECT_THAT(message_of([&] {
                return CubinFolder::for_device(folder_, parse_cuda_target("sm_90:h100-pcie"));
              }),
              AllOf(HasSubstr("132 SMs"), HasSubstr("has 114")));
  EXPECT_THAT(message_of([&] { return CubinFolder::to_fill(folder_, "sm_80"); }),
              AllOf(HasSubstr("sm_90:h100"), HasSubstr("sm_80:a100-40")));
}

TEST_F(CubinFolderTest, OfAnotherVersionIsRefused) {
  fill();
  change_manifest("spjit", "0.0.1");

  EXPECT_THAT(
      message_of([&] { return CubinFolder::for_device(folder_, parse_cuda_target(k_card)); }),
      AllOf(HasSubstr("spjit 0.0.1"), HasSubstr(SPJIT_VERSION)));
  EXPECT_THAT(message_of([&] { return CubinFolder::to_fill(folder_, k_card); }),
              AllOf(HasSubstr("spjit 0.0.1"), HasSubstr("remove it")));
}

TEST_F(CubinFolderTest, WithoutAManifestOrWithAWrongOneIsRefused) {
  EXPECT_THAT(message_of([&] { return read_cubin_manifest(folder_); }),
              AllOf(HasSubstr("manifest.json"), HasSubstr("cannot be read")));
  fill();
  change_manifest("schema", "another");
  EXPECT_THAT(message_of([&] { return read_cubin_manifest(folder_); }),
              HasSubstr("another schema"));
  change_manifest("schema", std::string(k_cubin_folder_schema));
  change_manifest("cubins", {{{"name", "x"}}});
  EXPECT_THAT(message_of([&] { return read_cubin_manifest(folder_); }), HasSubstr("options"));
  std::ofstream(folder_ / k_cubin_manifest_file) << "[";
  EXPECT_THAT(message_of([&] { return read_cubin_manifest(folder_); }),
              HasSubstr("no JSON object"));
}

TEST_F(CubinFolderTest, LeavesTheListAloneOnTheDevice) {
  fill();

  const auto folder = CubinFolder::for_device(folder_, parse_cuda_target(k_card));
  add(*folder, "three", "compiled here");

  EXPECT_EQ(folder->counts().compiled, 1U);
  EXPECT_EQ(read_cubin_manifest(folder_).cubins.size(), 2U);
  EXPECT_EQ(to_string(folder->counts()), "0 cubins found in the folder, 1 compiled");
}

}  // namespace
