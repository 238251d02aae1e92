#include "base/dynamic_library.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <type_traits>
#include <utility>

#include "spjit/error.hpp"

namespace spjit {
namespace {

using ::testing::HasSubstr;

static_assert(!std::is_copy_constructible_v<DynamicLibrary>);
static_assert(std::is_nothrow_move_constructible_v<DynamicLibrary>);

TEST(DynamicLibrary, CallsAFunctionOfALibraryFoundByTheLoader) {
  DynamicLibrary library("libm.so.6");
  const DynamicLibrary moved = std::move(library);

  EXPECT_EQ(moved.require<double(double)>("floor")(2.5), 2.0);
  EXPECT_TRUE(moved.path().is_absolute());
  EXPECT_EQ(moved.path().filename(), "libm.so.6");
}

TEST(DynamicLibrary, SaysWhichFunctionIsMissingWhere) {
  const DynamicLibrary library("libm.so.6");

  EXPECT_EQ(library.find<void()>("no_such_function"), nullptr);
  try {
    static_cast<void>(library.require<void()>("no_such_function"));
    FAIL() << "found";
  } catch (const NotSupported& error) {
    EXPECT_THAT(error.what(), HasSubstr("no_such_function"));
    EXPECT_THAT(error.what(), HasSubstr("libm.so.6"));
  }
}

TEST(DynamicLibrary, SaysWhyALibraryDoesNotLoad) {
  EXPECT_FALSE(DynamicLibrary::try_open("libno-such-library.so.1").has_value());
  try {
    const DynamicLibrary library("libno-such-library.so.1");
    FAIL() << "loaded";
  } catch (const NotSupported& error) {
    EXPECT_THAT(error.what(), HasSubstr("libno-such-library.so.1: cannot open shared object"));
  }
}

void some_code() {}

TEST(FileOfCode, NamesThisProgram) {
  const auto* self = reinterpret_cast<const void*>(&some_code);

  EXPECT_EQ(std::filesystem::canonical(file_of_code(self)),
            std::filesystem::canonical("/proc/self/exe"));
}

TEST(FileOfCode, NamesASharedLibrary) {
  const DynamicLibrary library("libm.so.6");
  const auto* code = reinterpret_cast<const void*>(library.require<double(double)>("cos"));

  EXPECT_EQ(std::filesystem::canonical(file_of_code(code)),
            std::filesystem::canonical(library.path()));
}

}  // namespace
}  // namespace spjit
