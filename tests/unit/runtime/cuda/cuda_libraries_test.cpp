#include "runtime/cuda/cuda_libraries.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/dynamic_library.hpp"
#include "kernels/cuda/build/cuda_build.hpp"
#include "spjit/error.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using testing_support::TemporaryDirectory;

std::vector<std::string> paths_of(const CudaPlaces& places) {
  std::vector<std::string> paths;
  for (const CudaPlace& place : places.places) paths.push_back(place.path.string());
  return paths;
}

std::string message_without_library(const CudaToolchainNeeds& needs,
                                    const FoundCudaLibraries& found) {
  try {
    static_cast<void>(load_cuda_toolchain(needs, found));
  } catch (const NotSupported& error) {
    return error.what();
  }
  return "no error";
}

TEST(CudaPlaces, AreOnlyTheGivenOnesIfThereAreAny) {
  const CudaEnvironment environment{
      .spjit_cuda_path = "/a:/b::/c", .cuda_home = "/home", .cuda_path = {}};

  const CudaPlaces given = cuda_places({.paths = {"/x", "/y"}}, environment);
  const CudaPlaces set = cuda_places({}, environment);

  EXPECT_THAT(paths_of(given), ElementsAre("/x", "/y"));
  EXPECT_THAT(paths_of(set), ElementsAre("/a", "/b", "/c"));
  EXPECT_FALSE(given.loader);
  EXPECT_FALSE(set.loader);
}

TEST(CudaPlaces, AreTheUsualOnesOtherwise) {
  const CudaEnvironment environment{
      .spjit_cuda_path = {}, .cuda_home = "/my/home", .cuda_path = "/my/path"};

  const CudaPlaces places = cuda_places({}, environment);

  EXPECT_THAT(paths_of(places), ::testing::IsSupersetOf({"/my/home", "/my/path"}));
  EXPECT_TRUE(places.loader);
}

TEST(FoundCudaLibraries, AreNoneInAnEmptyFolder) {
  const TemporaryDirectory folder;

  const FoundCudaLibraries found = found_cuda_libraries(CudaLibraryOptions{{folder.path()}});

  EXPECT_THAT(found.libraries, IsEmpty());
  EXPECT_THAT(found.rejected, IsEmpty());
}

TEST(FoundCudaLibraries, RejectWhatOnlyHasTheName) {
  const TemporaryDirectory folder;
  for (const char* wheel : {"cuda_nvrtc/lib/libnvrtc.so.12", "nvjitlink/lib/libnvJitLink.so.12"}) {
    const std::filesystem::path file = folder.path() / "nvidia" / wheel;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << "no ELF file";
  }

  const FoundCudaLibraries found = found_cuda_libraries(CudaLibraryOptions{{folder.path()}});

  EXPECT_THAT(found.libraries, IsEmpty());
  ASSERT_THAT(found.rejected, SizeIs(2));
  EXPECT_THAT(found.rejected[0], HasSubstr("libnvrtc.so.12"));
  EXPECT_THAT(found.rejected[1], HasSubstr("libnvJitLink.so.12"));
}

TEST(FoundCudaLibraries, RejectAnotherLibraryUnderTheName) {
  const TemporaryDirectory folder;
  const DynamicLibrary other("libz.so.1");
  std::filesystem::copy_file(other.path(), folder.path() / "libnvrtc.so.13");

  const FoundCudaLibraries found = found_cuda_libraries(CudaLibraryOptions{{folder.path()}});

  EXPECT_THAT(found.libraries, IsEmpty());
  ASSERT_THAT(found.rejected, SizeIs(1));
  EXPECT_THAT(found.rejected[0], HasSubstr("nvrtcVersion"));
}

/// A place with `lib/libnvrtc.so.13`, which loads and then turns out to be another library.
class CudaPlaceOthersChange : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(lib_);
    const DynamicLibrary other("libz.so.1");
    std::filesystem::copy_file(other.path(), file_);
    mode(folder_.path(), 0755);
    mode(lib_, 0755);
    mode(file_, 0644);
    if (const SafePath file = find_safely(file_); file.path.empty()) {
      GTEST_SKIP() << "the folder of temporary files is not safe: " << file.problem;
    }
  }

  static void mode(const std::filesystem::path& path, mode_t bits) {
    ASSERT_EQ(::chmod(path.c_str(), bits), 0) << path;
  }

  [[nodiscard]] std::vector<std::string> rejected(bool named) const {
    const CudaPlaces places{.places = {{folder_.path(), "found", named}}};
    return found_cuda_libraries(places).rejected;
  }

  TemporaryDirectory folder_;
  std::filesystem::path lib_ = folder_.path() / "lib";
  std::filesystem::path file_ = lib_ / "libnvrtc.so.13";
};

TEST_F(CudaPlaceOthersChange, IsLoadedFromWhileTheyCannot) {
  EXPECT_THAT(rejected(false), ElementsAre(HasSubstr("nvrtcVersion")));
}

TEST_F(CudaPlaceOthersChange, IsNotLoadedFromIfAFolderInItIsOpenToThem) {
  mode(lib_, 0777);

  EXPECT_THAT(rejected(false),
              ElementsAre(AllOf(HasSubstr("lib (found): "), HasSubstr("lib' has mode 0777"),
                                HasSubstr("SPJIT_CUDA_PATH"), Not(HasSubstr("nvrtcVersion")))));
}

TEST_F(CudaPlaceOthersChange, IsNotLoadedFromIfTheLibraryIsOpenToThem) {
  mode(file_, 0666);

  EXPECT_THAT(rejected(false), ElementsAre(HasSubstr("libnvrtc.so.13' has mode 0666")));
}

TEST_F(CudaPlaceOthersChange, IsNotLoadedFromThroughALink) {
  const TemporaryDirectory elsewhere;
  std::filesystem::create_symlink(folder_.path(), elsewhere.path() / "link");
  mode(lib_, 0777);

  const CudaPlaces places{.places = {{elsewhere.path() / "link", ".cuda"}}};

  EXPECT_THAT(found_cuda_libraries(places).rejected, ElementsAre(HasSubstr("has mode 0777")));
}

TEST_F(CudaPlaceOthersChange, IsNotLoadedFromIfTheBuiltInHeadersAreOpenToThem) {
  const std::filesystem::path builtins = lib_ / "libnvrtc-builtins.so.13.0";
  std::filesystem::copy_file(file_, builtins);
  mode(builtins, 0646);

  EXPECT_THAT(rejected(false),
              ElementsAre(AllOf(HasSubstr("libnvrtc.so.13: "),
                                HasSubstr("libnvrtc-builtins.so.13.0' has mode 0646"))));
}

TEST_F(CudaPlaceOthersChange, IsLoadedFromIfTheUserNamedIt) {
  mode(lib_, 0777);
  mode(file_, 0666);

  EXPECT_THAT(rejected(true), ElementsAre(HasSubstr("nvrtcVersion")));
}

TEST_F(CudaPlaceOthersChange, IsNamedInTheErrorOfACompilationThatNeedsIt) {
  mode(lib_, 0777);

  const FoundCudaLibraries found =
      found_cuda_libraries(CudaPlaces{.places = {{folder_.path(), ".cuda"}}});

  const std::string message = message_without_library({.arch = 90}, found);
  EXPECT_THAT(message, HasSubstr("was not found"));
  EXPECT_THAT(message, HasSubstr("not used: "));
  EXPECT_THAT(message, HasSubstr("lib' has mode 0777"));
}

TEST(CudaPlaces, AreTrustedOnlyIfTheUserNamedThemForSpjit) {
  const CudaEnvironment set{.spjit_cuda_path = "/a", .cuda_home = {}, .cuda_path = {}};
  const CudaEnvironment other{.spjit_cuda_path = {}, .cuda_home = "/b", .cuda_path = "/c"};

  EXPECT_TRUE(cuda_places({.paths = {"/x"}}, {}).places.front().named);
  EXPECT_TRUE(cuda_places({}, set).places.front().named);
  for (const CudaPlace& place : cuda_places({}, other).places) {
    EXPECT_FALSE(place.named) << place.path;
  }
}

TEST(LoadCudaToolchain, NamesAMissingLibraryAndWhatToRunInOneLine) {
  const TemporaryDirectory folder;
  const FoundCudaLibraries none = found_cuda_libraries(CudaLibraryOptions{{folder.path()}});

  const std::string nvrtc = message_without_library({.arch = 90}, none);
  const std::string nvjitlink =
      message_without_library({.arch = 90, .nvrtc = false, .nvjitlink = true}, none);

  EXPECT_THAT(nvrtc, HasSubstr("NVRTC (libnvrtc.so) was not found"));
  EXPECT_THAT(nvjitlink, HasSubstr("nvJitLink (libnvJitLink.so) was not found"));
  for (const std::string& message : {nvrtc, nvjitlink}) {
    EXPECT_THAT(message, HasSubstr(folder.path().string()));
    EXPECT_THAT(message, HasSubstr("scripts/build/setup_cuda.sh"));
    EXPECT_THAT(message, Not(HasSubstr("\n")));
  }
}

TEST(LoadCudaToolchain, ListsWhatIsSupportedIfTheArchIsNot) {
  FoundCudaLibraries found;
  found.libraries.push_back({.kind = CudaLibraryKind::nvrtc,
                             .version = {13, 0},
                             .path = "/cuda/lib64/libnvrtc.so.13",
                             .origin = "toolkit",
                             .archs = {75, 80}});

  const std::string message = message_without_library({.arch = 70}, found);

  EXPECT_THAT(message, HasSubstr("no NVRTC that was found compiles for sm_70"));
  EXPECT_THAT(message, HasSubstr("13.0 (/cuda/lib64/libnvrtc.so.13) has sm_75, sm_80"));
  EXPECT_THAT(message, HasSubstr("install a CUDA version (older than 13.0) that has sm_70"));
  EXPECT_THAT(message, Not(HasSubstr("\n")));
}

TEST(NeedsOf, AreWhatTheUnitsTake) {
  SourceUnit cuda;
  SourceUnit ptx;
  ptx.language = SourceLanguage::ptx;

  const CudaToolchainNeeds one = needs_of(std::vector{cuda}, 80);
  const CudaToolchainNeeds two = needs_of(std::vector{cuda, cuda}, 80);
  const CudaToolchainNeeds text = needs_of(std::vector{ptx}, 80);

  EXPECT_TRUE(one.nvrtc && !one.nvjitlink);
  EXPECT_TRUE(two.nvrtc && two.nvjitlink);
  EXPECT_TRUE(!text.nvrtc && text.nvjitlink);
}

TEST(BuildCubin, RefusesNoUnitsAndAToolchainThatLacksACompiler) {
  const std::vector<SourceUnit> one(1);

  EXPECT_THROW(static_cast<void>(build_cubin({}, {}, {.arch = 80})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(build_cubin(one, {}, {.arch = 80})), InvalidArgument);
}

}  // namespace
}  // namespace spjit
