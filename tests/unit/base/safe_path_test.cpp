#include "base/safe_path.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/files/system_testing.hpp"

namespace spjit {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uid_t k_nobody = 65534;

/// A folder of this user's with `outer/inner/file` in it, as safe as can be.
class FindSafely : public ::testing::Test {
 protected:
  void SetUp() override {
    inner_ = folder_.path() / "outer" / "inner";
    fs::create_directories(inner_);
    file_ = inner_ / "file";
    std::ofstream(file_) << "text";
    for (const fs::path& path : {folder_.path(), inner_.parent_path(), inner_}) mode(path, 0755);
    mode(file_, 0644);
    if (const SafePath all = find_safely(folder_.path()); all.path.empty()) {
      GTEST_SKIP() << "the folder of temporary files is not safe: " << all.problem;
    }
  }

  static void mode(const fs::path& path, mode_t bits) {
    ASSERT_EQ(::chmod(path.c_str(), bits), 0) << path;
  }

  test::ScratchDirectory folder_;
  fs::path inner_;
  fs::path file_;
};

TEST_F(FindSafely, ResolvesLinksToWhatOnlyThisUserCanChange) {
  fs::create_symlink("outer/../outer", folder_.path() / "relative");
  fs::create_symlink(folder_.path() / "relative" / "inner", folder_.path() / "absolute");

  const SafePath found = find_safely(folder_.path() / "absolute" / "." / "file");

  EXPECT_EQ(found.path, fs::canonical(file_));
  EXPECT_THAT(found.problem, IsEmpty());
}

TEST_F(FindSafely, FindsFolders) {
  EXPECT_EQ(find_safely(inner_).path, fs::canonical(inner_));
  EXPECT_EQ(find_safely(inner_ / "").path, fs::canonical(inner_));
}

TEST_F(FindSafely, RefusesAFolderOnTheWayThatOthersCanWriteTo) {
  mode(inner_.parent_path(), 0757);

  const SafePath found = find_safely(file_);

  EXPECT_THAT(found.path.native(), IsEmpty());
  EXPECT_THAT(found.problem, HasSubstr("outer' has mode 0757"));
}

TEST_F(FindSafely, RefusesAFolderThatItsGroupCanWriteTo) {
  mode(inner_, 0775);

  const SafePath found = find_safely(inner_);

  EXPECT_THAT(found.problem, HasSubstr("inner' has mode 0775"));
}

TEST_F(FindSafely, RefusesAFileThatOthersCanWriteTo) {
  mode(file_, 0646);

  const SafePath found = find_safely(file_);

  EXPECT_THAT(found.path.native(), IsEmpty());
  EXPECT_THAT(found.problem, HasSubstr("file' has mode 0646"));
}

TEST_F(FindSafely, LooksAtTheFoldersThatALinkLeadsThrough) {
  const fs::path other = folder_.path() / "other";
  fs::create_directory(other);
  mode(other, 0755);
  fs::create_symlink("../outer/inner/file", other / "link");
  mode(inner_.parent_path(), 0777);

  const SafePath found = find_safely(other / "link");

  EXPECT_THAT(found.path.native(), IsEmpty());
  EXPECT_THAT(found.problem, HasSubstr("outer' has mode 0777"));
}

TEST_F(FindSafely, TakesWhatIsThisUsersInAStickyFolder) {
  mode(inner_, 01777);

  const SafePath found = find_safely(file_);

  EXPECT_EQ(found.path, fs::canonical(file_)) << found.problem;
}

TEST_F(FindSafely, TellsWhatIsNotThereFromWhatIsNotSafe) {
  fs::create_symlink("b", folder_.path() / "a");
  fs::create_symlink("a", folder_.path() / "b");
  const std::string with_zero = file_.native() + std::string("\0more", 5);

  for (const fs::path& path : {folder_.path() / "none", folder_.path() / "a", file_ / "below",
                               fs::path(with_zero), fs::path("/dev/null")}) {
    const SafePath found = find_safely(path);

    EXPECT_THAT(found.path.native(), IsEmpty()) << path;
    EXPECT_THAT(found.problem, IsEmpty()) << path;
  }
}

/// FindSafely where a file can be given to another user.
class FindSafelyAsRoot : public FindSafely {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "giving files to another user takes root";
    FindSafely::SetUp();
  }

  static void give_away(const fs::path& path) {
    ASSERT_EQ(::lchown(path.c_str(), k_nobody, k_nobody), 0) << path;
  }
};

TEST_F(FindSafelyAsRoot, RefusesAFolderOfAnotherUser) {
  give_away(inner_);

  const SafePath found = find_safely(file_);

  EXPECT_THAT(found.path.native(), IsEmpty());
  EXPECT_THAT(found.problem, HasSubstr("inner' belongs to user 65534"));
}

TEST_F(FindSafelyAsRoot, RefusesAFileOfAnotherUser) {
  give_away(file_);

  EXPECT_THAT(find_safely(file_).problem, HasSubstr("file' belongs to user 65534"));
}

TEST_F(FindSafelyAsRoot, RefusesAStickyFolderOfAnotherUser) {
  mode(inner_, 01777);
  give_away(inner_);

  EXPECT_THAT(find_safely(file_).problem, HasSubstr("inner' belongs to user 65534"));
}

TEST_F(FindSafelyAsRoot, RefusesWhatAnotherUserPutIntoAStickyFolder) {
  mode(inner_.parent_path(), 01777);
  fs::create_symlink(file_, inner_.parent_path() / "link");
  give_away(inner_.parent_path() / "link");

  const SafePath found = find_safely(inner_.parent_path() / "link");

  EXPECT_THAT(found.path.native(), IsEmpty());
  EXPECT_THAT(found.problem, HasSubstr("link' belongs to user 65534"));
}

}  // namespace
}  // namespace spjit
