#include "base/executable_code.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/file_descriptor.hpp"
#include "spjit/error.hpp"
#include "tests/support/files/system_testing.hpp"

namespace spjit {
namespace {

using test::permissions_at;
using test::to_bytes;

// lea eax, [rdi + rsi]; ret
const std::vector<std::byte> k_add = to_bytes({0x8D, 0x04, 0x37, 0xC3});

TEST(ExecutableCode, RunsWhatItWasGiven) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "the code is x86-64";
#endif
  const ExecutableCode code(k_add);

  EXPECT_EQ(code.function<int(int, int)>()(19, 23), 42);
}

TEST(ExecutableCode, ReachesItsDataRelativeToTheCode) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "the code is x86-64";
#endif
  // movss xmm0, [rip + distance]; ret
  std::vector<std::byte> bytes = to_bytes({0xF3, 0x0F, 0x10, 0x05, 0, 0, 0, 0, 0xC3});
  const auto distance = static_cast<std::int32_t>(ExecutableCode::data_offset(bytes.size()) - 8);
  std::memcpy(bytes.data() + 4, &distance, sizeof(distance));
  const float value = 2.5F;

  const ExecutableCode code(bytes, std::as_bytes(std::span(&value, 1)));

  EXPECT_EQ(code.function<float()>()(), 2.5F);
}

TEST(ExecutableCode, PagesAreNeverWritableOnceTheyHoldCode) {
  const std::vector<std::byte> data(10000, std::byte{7});

  const ExecutableCode code(k_add, data);

  EXPECT_EQ(permissions_at(code.code().data()), "r-xp");
  EXPECT_EQ(permissions_at(code.data().data()), "r--p");
  EXPECT_EQ(permissions_at(code.data().data() + data.size() - 1), "r--p");
}

TEST(ExecutableCode, HoldsTheBytes) {
  const std::vector<std::byte> data = to_bytes("constants");

  const ExecutableCode code(k_add, data);

  EXPECT_TRUE(std::ranges::equal(code.code(), k_add));
  EXPECT_TRUE(std::ranges::equal(code.data(), data));
}

TEST(ExecutableCode, MovingKeepsTheAddressAndReleasesOnce) {
  ExecutableCode first(k_add);
  const std::byte* address = first.code().data();

  ExecutableCode second(std::move(first));
  ExecutableCode third;
  third = std::move(second);

  EXPECT_EQ(third.code().data(), address);
}

TEST(ExecutableCode, UnmapsItsPages) {
  const std::byte* address = nullptr;
  {
    const ExecutableCode code(std::vector<std::byte>(std::size_t{1} << 24, std::byte{0xC3}));
    address = code.code().data();
    ASSERT_EQ(permissions_at(address), "r-xp");
  }

  EXPECT_NE(permissions_at(address), "r-xp");
}

TEST(ExecutableCode, RefusesNoCode) {
  EXPECT_THROW(ExecutableCode(std::span<const std::byte>()), InvalidArgument);
}

TEST(PageMapping, RefusesZeroBytesAndPartialPages) {
  PageMapping pages(1);
  const std::size_t page = PageMapping::page_size();

  EXPECT_EQ(pages.bytes().size(), page);
  EXPECT_THROW(PageMapping(0), InvalidArgument);
  EXPECT_THROW(pages.protect(1, page, PageAccess::read_only), InvalidArgument);
  EXPECT_THROW(pages.protect(0, 1, PageAccess::read_only), InvalidArgument);
  EXPECT_THROW(pages.protect(0, 2 * page, PageAccess::read_only), InvalidArgument);
  EXPECT_THROW(pages.protect(2 * page, 0, PageAccess::read_only), InvalidArgument);
}

TEST(PageMapping, OfAFileHoldsItsBytesAndTurnsExecutableButNeverWritable) {
  const test::ScratchDirectory scratch;
  const std::size_t page = PageMapping::page_size();
  std::vector<std::byte> content(2 * page + 5, std::byte{7});
  std::ranges::copy(k_add, content.begin() + static_cast<std::ptrdiff_t>(page));
  test::write_bytes(scratch.path() / "code", content);
  const FileDescriptor file = open_file(open_directory(scratch.path()), "code");

  PageMapping pages = PageMapping::of_file(file.get(), content.size());
  EXPECT_EQ(permissions_at(pages.bytes().data() + page), "r--p");
  pages.protect(page, page, PageAccess::read_execute);

  EXPECT_TRUE(std::ranges::equal(pages.bytes().first(content.size()), content));
  EXPECT_EQ(permissions_at(pages.bytes().data()), "r--p");
  EXPECT_EQ(permissions_at(pages.bytes().data() + page), "r-xp");
  EXPECT_EQ(permissions_at(pages.bytes().data() + 2 * page), "r--p");
}

TEST(PageMapping, OfAFileThatLacksPagesIsAnErrorAndNoSignal) {
  const test::ScratchDirectory scratch;
  test::write_bytes(scratch.path() / "short", to_bytes("less than two pages"));
  const FileDescriptor file = open_file(open_directory(scratch.path()), "short");

  const auto map = [](int descriptor, std::size_t bytes) {
    static_cast<void>(PageMapping::of_file(descriptor, bytes));
  };

  EXPECT_NO_THROW(map(file.get(), 1));
  EXPECT_THROW(map(file.get(), 2 * PageMapping::page_size()), NoPages);
  EXPECT_THROW(map(file.get(), 0), InvalidArgument);
  EXPECT_THROW(map(-1, 1), NoPages);
}

TEST(PageMapping, SaysWhatTheSystemRefuses) {
  EXPECT_THROW(PageMapping(std::size_t{1} << 62), Error);
}

}  // namespace
}  // namespace spjit
